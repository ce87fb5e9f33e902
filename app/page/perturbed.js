// The image after a change, so that a viewer can judge how far the proved radius reaches.

import { element } from "./dom.js";
import { LEVELS } from "./norms.js";

const SIZE = 88;       // of the picture, in CSS pixels
const VISIBLE = 24;    // levels that can be told apart at a glance
const LARGEST = 4096;  // times that a change is amplified at most

// The new level of value v, which has this level, after a change by `step` levels.
const WAYS = {
  up: (v, level, step) => level + step,
  mixed: (v, level, step) => level + (((v * 2654435761) % 4294967296) < 2147483648 ? step : -step),  // by a hash of v
  inward: (v, level, step) => level + (level < LEVELS / 2 ? step : -step),
  across: (v, level) => (level < LEVELS / 2 ? LEVELS : 0),
};

// Write the change into the pixels of a canvas, which has four values for each of them, also where the image has one.
function change(data, { values, step, way, channels }) {
  const colours = channels === 1 ? 3 : 1;
  for (const v of values) {
    const at = 4 * Math.floor(v / channels) + (v % channels);
    data.fill(WAYS[way](v, data[at], step), at, at + colours);
  }
}

function canvas(image, { shape, label, ...changed }) {
  const [channels, height, width] = shape;
  const made = element("canvas", { class: "picture", width, height, role: "img", "aria-label": label });
  image.then((loaded) => {
    const context = made.getContext("2d");
    context.drawImage(loaded, 0, 0, width, height);
    const pixels = context.getImageData(0, 0, width, height);
    change(pixels.data, { ...changed, channels });
    context.putImageData(pixels, 0, 0);
  });
  made.style.width = made.style.height = `${SIZE}px`;
  return made;
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
  const times = amplification(step);
  const pictures = [canvas(image, { ...changed, step, label: text })];
  if (times > 1) {
    const label = `the same ${times} times as large`;
    pictures.push(element("span", { class: "amplified" }, canvas(image, { ...changed, step: times * step, label }),
      element("span", { class: "times", "aria-hidden": "true" }, `× ${times}`)));
  }
  return pictures;
}
