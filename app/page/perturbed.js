// The image after a change, so that a viewer can judge how far the proved radius reaches.

import { element } from "./dom.js";
import { LEVELS } from "./norms.js";

const SIZE = 88;       // of the picture, in CSS pixels
const VISIBLE = 24;    // levels that can be told apart at a glance
const LARGEST = 4096;  // times that a change is amplified at most
const FEW = 64;        // values that are framed, since single pixels are overlooked
const ENLARGED = 6;    // canvas pixels for one of the image where values are framed

// The new level of value v, which has this level, after a change by `step` levels.
const WAYS = {
  up: (v, level, step) => level + step,
  mixed: (v, level, step) => level + (((v * 2654435761) % 4294967296) < 2147483648 ? step : -step),  // by a hash of v
  inward: (v, level, step) => level + (level < LEVELS / 2 ? step : -step),
  across: (v, level) => (level < LEVELS / 2 ? LEVELS : 0),
};

// Write the change into the pixels of a canvas, which has four values for each of them, even where the image has one.
function change(data, { values, step, way, channels }) {
  const colours = channels === 1 ? 3 : 1;
  for (const v of values) {
    const at = 4 * Math.floor(v / channels) + (v % channels);
    data.fill(WAYS[way](v, data[at], step), at, at + colours);
  }
}

function canvas(image, { shape, label, framed = false, ...changed }) {
  const [channels, height, width] = shape;
  const made = element("canvas", { class: "picture", width, height, role: "img", "aria-label": label });
  image.then(async (loaded) => {
    const context = made.getContext("2d");
    context.drawImage(loaded, 0, 0, width, height);
    const pixels = context.getImageData(0, 0, width, height);
    change(pixels.data, { ...changed, channels });
    context.putImageData(pixels, 0, 0);
    if (framed) frame(made, await createImageBitmap(pixels), { ...changed, channels });
  });
  made.style.width = made.style.height = `${SIZE}px`;
  return made;
}

// Draw the picture enlarged, with a frame around the pixels that were changed: one around a patch, or one for each.
function frame(made, changed, { values, channels }) {
  const { width } = changed, context = made.getContext("2d");
  const size = Math.max(1, Math.round((ENLARGED * 32) / width));  // a large image needs no more pixels than a small one
  [made.width, made.height] = [size * width, size * changed.height];
  context.imageSmoothingEnabled = false;
  context.drawImage(changed, 0, 0, made.width, made.height);
  const room = Math.max(size / 2, made.width / 64), line = Math.max(1, made.width / 96);
  for (const [left, top, right, bottom] of boxes(values.map((v) => Math.floor(v / channels)), width)) {
    for (const [colour, thick] of [["#fff", 2.5 * line], ["#d33", line]]) {
      [context.strokeStyle, context.lineWidth] = [colour, thick];
      context.strokeRect(size * left - room, size * top - room, size * (right - left) + 2 * room, size * (bottom - top) + 2 * room);
    }
  }
}

// The boxes [left, top, right, bottom] to be framed.
function boxes(pixels, width) {
  const places = [...new Set(pixels)].map((each) => [each % width, Math.floor(each / width)]);
  const [xs, ys] = [places.map(([x]) => x), places.map(([, y]) => y)];
  const around = [Math.min(...xs), Math.min(...ys), Math.max(...xs) + 1, Math.max(...ys) + 1];
  const area = (around[2] - around[0]) * (around[3] - around[1]);
  return area === places.length ? [around] : places.map(([x, y]) => [x, y, x + 1, y + 1]);
}

// By how much a change must be amplified to be seen, a power of two; 1 if it can be seen as it is.
const amplification = (step) => Math.min(LARGEST, 2 ** Math.max(0, Math.ceil(Math.log2(VISIBLE / step))));

// The image after the change and, where that can hardly be seen, after a larger one of the same kind.
export function perturbed(url, { text, step, ...changed }) {
  const image = new Promise((resolve) => {
    const loading = new Image();
    loading.onload = () => resolve(loading);
    loading.src = url;
  });
  const few = changed.values.length <= FEW && changed.way !== "across";
  const times = few ? Math.max(1, Math.floor(LEVELS / step)) : amplification(step);
  const pictures = [canvas(image, { ...changed, step, label: text })];
  if (times > 1 || few) {
    const label = few ? "where it is, and as large as can be" : `the same ${times} times as large`;
    pictures.push(element("span", { class: "amplified" }, canvas(image, { ...changed, step: times * step, label, framed: few }),
      element("span", { class: "times", "aria-hidden": "true" }, times > 1 ? `× ${times}` : "here")));
  }
  return pictures;
}
