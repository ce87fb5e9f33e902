// The image after a change, so that a viewer can judge how far the proved radius reaches.

import { element } from "./dom.js";

const SIZE = 88;       // of the picture, in CSS pixels
const HALF_PATCH = 2;  // pixels

// Whether the value at place i of a canvas's data (four values for each pixel) lies in the region.
const REGIONS = {
  all: () => true,
  patch: (i, { x, y, left, top }) =>
    x >= left - HALF_PATCH && x < left + HALF_PATCH && y >= top - HALF_PATCH && y < top + HALF_PATCH,
  one: (i, { x, y, left, top }) => x === left && y === top && i % 4 === 0,
};

function change(data, { region, step, width }) {
  const height = data.length / 4 / width;
  const [left, top] = [Math.floor(width / 2), Math.floor(height / 2)];
  for (let i = 0; i < data.length; i += 1) {
    const x = (i >> 2) % width, y = Math.floor((i >> 2) / width);
    if (i % 4 === 3 || !REGIONS[region](i, { x, y, left, top })) continue;  // 3 is the opacity
    // over the whole image, up and down by a hash of the place; elsewhere to where there is room
    const up = region === "all" ? (i * 2654435761) % 4294967296 < 2147483648 : data[i] < 128;
    data[i] = Math.round(data[i] + (up ? step : -step));
  }
}

export function perturbed(url, { region, step, shape, text }) {
  const [, height, width] = shape;
  const canvas = element("canvas", { class: "picture", width, height, role: "img", "aria-label": text });
  const image = new Image();
  image.onload = () => {
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0, width, height);
    const pixels = context.getImageData(0, 0, width, height);
    change(pixels.data, { region, step, width });
    context.putImageData(pixels, 0, 0);
  };
  image.src = url;
  canvas.style.width = canvas.style.height = `${SIZE}px`;
  return canvas;
}
