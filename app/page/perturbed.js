// The image beside itself after a change of the proved length: how far is that, for an eye?

import { element } from "./dom.js";

const SIZE = 88;

// One of three changes of Euclidean length `radius` (values in 0..1), on the pixels of a canvas.
function change(data, { name, radius, channels, width }) {
  const height = data.length / 4 / width;
  const inside = (i) => {
    const x = (i >> 2) % width, y = Math.floor((i >> 2) / width);
    const [left, top] = [Math.floor(width / 2), Math.floor(height / 2)];
    if (name === "all") return true;
    if (name === "patch") return x >= left - 2 && x < left + 2 && y >= top - 2 && y < top + 2;
    return x === left && y === top && i % 4 === 0;
  };
  const values = { all: channels * width * height, patch: 16 * channels, one: 1 }[name];
  const step = Math.min(255, (255 * radius) / Math.sqrt(values));
  for (let i = 0; i < data.length; i += 1) {
    if (i % 4 === 3 || !inside(i)) continue;
    const up = name === "all" ? (i * 2654435761) % 4294967296 < 2147483648 : data[i] < 128;
    data[i] = Math.round(data[i] + (up ? step : -step));
  }
}

export function perturbed(url, { name, radius, shape, text }) {
  const [channels, height, width] = shape;
  const canvas = element("canvas", { class: "picture", width, height, role: "img", "aria-label": text });
  const image = new Image();
  image.onload = () => {
    const context = canvas.getContext("2d");
    context.drawImage(image, 0, 0, width, height);
    const pixels = context.getImageData(0, 0, width, height);
    change(pixels.data, { name, radius, channels, width });
    context.putImageData(pixels, 0, 0);
  };
  image.src = url;
  canvas.style.width = canvas.style.height = `${SIZE}px`;
  return canvas;
}
