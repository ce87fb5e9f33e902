// A photo of any size, made to fit an ensemble: cropped to its proportions and scaled to its pixels, in the browser. What
// is sent and certified is the scaled image.

import { element, fill } from "./dom.js";

const VIEW = 150;       // CSS pixels, the height of the photo on the page
const STEP = 0.02;      // of the free way, for one press of an arrow key
const MOST_ZOOM = 10;

const clamp = (value) => Math.min(1, Math.max(0, value));

// The part of a photo that is kept, in its pixels. `zoom` is 1 for the largest part; x and y are shares of the free way.
function part(photo, [, height, width], { zoom, x, y }) {
  const scale = Math.min(photo.width / width, photo.height / height) / zoom;
  const [w, h] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
  return { x: Math.round(x * (photo.width - w)), y: Math.round(y * (photo.height - h)), width: w, height: h };
}

// Width and height of images of a shape.
export const sizeOf = ([, height, width]) => [width, height];

// What was done to a photo, as the request declares it and the certificate repeats it.
const preparation = (photo, { x, y, width, height }) => ({
  source: [photo.width, photo.height], box: [x, y, x + width, y + height], by: "browser, createImageBitmap",
});

// The same in words; `size` is width and height of the result.
export function wordsOf({ source: [across, down], box: [left, top, right, bottom] }, size) {
  const [w, h] = [right - left, bottom - top];
  const cropped = w === across && h === down ? "" : `cropped to ${w} × ${h} at (${left}, ${top}), `;
  return `${across} × ${down} pixels, ${cropped}scaled to ${size.join(" × ")}`;
}

async function scaled(photo, shape, kept) {
  const [, height, width] = shape;
  const small = await createImageBitmap(photo, kept.x, kept.y, kept.width, kept.height,
    { resizeWidth: width, resizeHeight: height, resizeQuality: "high" });
  const canvas = element("canvas", { width, height });
  canvas.getContext("2d", { alpha: false }).drawImage(small, 0, 0);  // no transparency, which no network takes
  small.close();
  return { url: canvas.toDataURL("image/png"), blob: await new Promise((resolve) => canvas.toBlob(resolve, "image/png")) };
}

// The photo in a file; null where the browser cannot read it, so that the server says what is wrong with it.
export const photoIn = (file) => createImageBitmap(file).catch(() => null);

export const fits = (photo, [, height, width]) => photo.width === width && photo.height === height;

// The photo as it is certified: `sent` is the file, `url` its picture, `prepared` says what was done.
export async function fitted(photo, shape, crop = { zoom: 1, x: 0.5, y: 0.5 }) {
  const kept = part(photo, shape, crop);
  const { url, blob } = await scaled(photo, shape, kept);
  return { sent: blob, url, prepared: preparation(photo, kept), crop };
}

// The photo with the part that is kept, to be moved by pointer or arrow keys and zoomed; beside it what is sent.
export class Cropper {
  constructor(place, { photo, shape, entry, changed }) {
    Object.assign(this, { photo, shape, changed, crop: entry.crop, made: Promise.resolve() });
    const height = Math.min(VIEW, photo.height), width = Math.round((photo.width * height) / photo.height);
    this.view = element("canvas", { class: "crop-view", width, height, tabindex: 0, role: "img",
      "aria-label": "The photo; arrow keys move the part that is kept" });
    this.preview = element("img", { class: "picture", width: 96, height: 96, alt: "The image that is certified" });
    this.words = element("p", { class: "fine", id: "crop-words" });
    const zoom = element("input", { type: "range", id: "zoom", min: 1, max: MOST_ZOOM, step: 0.1, value: this.crop.zoom,
      input: () => this.move({ zoom: Number(zoom.value) }) });
    this.view.addEventListener("keydown", (event) => this.press(event));
    this.view.addEventListener("pointerdown", (event) => this.view.setPointerCapture(event.pointerId));
    this.view.addEventListener("pointermove", (event) => event.buttons && this.drag(event));
    fill(place, element("div", { class: "crop" }, this.view, this.preview),
      element("label", {}, "Zoom ", zoom), this.words);
    this.show(entry);
  }

  press(event) {
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [];
    if (dx === undefined) return;
    event.preventDefault();
    this.move({ x: this.crop.x + STEP * dx, y: this.crop.y + STEP * dy });
  }

  // The part follows the pointer.
  drag({ movementX, movementY }) {
    const kept = part(this.photo, this.shape, this.crop), scale = this.photo.height / this.view.clientHeight;
    const way = (moved, free) => (free > 0 ? (moved * scale) / free : 0);
    this.move({ x: this.crop.x + way(movementX, this.photo.width - kept.width),
      y: this.crop.y + way(movementY, this.photo.height - kept.height) });
  }

  // One image is made at a time, and the newest crop is always the last.
  move(change) {
    const crop = { ...this.crop, ...change };
    this.crop = { zoom: crop.zoom, x: clamp(crop.x), y: clamp(crop.y) };
    const latest = this.crop;
    this.draw();
    this.made = this.made.then(async () => {
      if (latest !== this.crop) return;
      const entry = await fitted(this.photo, this.shape, latest);
      this.show(entry);
      this.changed(entry);
    });
  }

  draw() {
    const { view, photo } = this, context = view.getContext("2d"), scale = view.height / photo.height;
    const kept = part(photo, this.shape, this.crop);
    const frame = [kept.x, kept.y, kept.width, kept.height].map((each) => each * scale);
    context.drawImage(photo, 0, 0, view.width, view.height);
    context.fillStyle = "#0009";
    context.beginPath();
    context.rect(0, 0, view.width, view.height);
    context.rect(...frame);
    context.fill("evenodd");
    context.strokeStyle = "#fff";
    context.strokeRect(...frame);
  }

  show({ url, prepared }) {
    this.draw();
    this.preview.src = url;
    this.words.textContent = `${wordsOf(prepared, sizeOf(this.shape))}. The scaled image is what is certified.`;
  }
}
