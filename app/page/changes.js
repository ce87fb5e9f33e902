// Changes of an image that are as large as a radius, by which it can be pictured. What is large depends on the norm.

import { LEVELS } from "./norms.js";
import { short, whole } from "./words.js";

const PATCH = 4;  // pixels on each side
const FEW = 16;   // values

const CHANGES = { l2: euclidean, l1: concentrated, l0: replaced, linf: signs };

// Each change moves some values, which are numbered channel by channel within a pixel, by `step` levels, `way` being
// one of perturbed.js. There are none for a norm that is not pictured.
export function changesAt(norm, radius, shape) {
  return CHANGES[norm]?.(radius, shape).filter(({ step, values }) => step <= LEVELS && values.length) ?? [];
}

const numbers = (count) => Array.from({ length: count }, (_, i) => i);
const size = ([channels, height, width]) => channels * height * width;
const by = (step) => `by ${short(step, 3)} levels`;

// The values of a square of pixels in the middle; none if it is too large to be called a patch.
function square(side, [channels, height, width]) {
  if (2 * side > Math.min(height, width)) return [];
  const left = Math.floor((width - side) / 2), top = Math.floor((height - side) / 2);
  return numbers(side * side).flatMap((i) =>
    numbers(channels).map((channel) => ((top + Math.floor(i / side)) * width + left + (i % side)) * channels + channel));
}

// Different values all over the image, from the middle on, by steps of the golden ratio in both directions.
export function scattered(count, shape) {
  const [channels, height, width] = shape, all = size(shape);
  const place = (share) => channels * (width * Math.floor(share * height) + Math.floor(share * width));
  const common = (a, b) => (b ? common(b, a % b) : a);
  let step = Math.max(1, place(0.618));
  while (common(step, all) > 1) step += 1;
  return numbers(Math.min(count, all)).map((i) => (place(0.5) + i * step) % all);
}

function euclidean(radius, shape) {
  const [channels] = shape, levels = LEVELS * radius, all = size(shape);
  const patch = levels / Math.sqrt(PATCH * PATCH * channels), every = levels / Math.sqrt(all);
  const full = Math.min(all, Math.floor(radius * radius));
  const value = channels === 1 ? "the grey of one pixel" : "one colour value of one pixel";
  const one = full > 1
    ? { values: scattered(full, shape), step: LEVELS, text: `${whole(full)} values all the way from black to full` }
    : { values: scattered(1, shape), step: Math.min(LEVELS, levels), text: `${value} by ${short(Math.min(LEVELS, levels), 3)} of ${LEVELS} levels` };
  return [
    { values: numbers(all), step: every, way: "mixed", text: `every one of the ${whole(all)} values ${by(every)}` },
    { values: square(PATCH, shape), step: patch, way: "inward", text: `a patch of ${PATCH} × ${PATCH} pixels ${by(patch)}` },
    { ...one, way: "inward" },
  ];
}

// All of the radius on as few values as can hold it, and on a few more.
function concentrated(radius, shape) {
  const levels = LEVELS * radius, least = Math.max(1, Math.ceil(radius));
  const on = (count) => ({
    values: scattered(count, shape), step: levels / count, way: "inward",
    text: count === 1 ? `one value ${by(levels)}` : `${whole(count)} values ${by(levels / count)} each`,
  });
  return [least, FEW * least].filter((count) => count <= size(shape)).map(on);
}

// Every value by the whole radius, up or down.
function signs(radius, shape) {
  const step = LEVELS * radius, values = numbers(size(shape));
  return [
    { values, step, way: "mixed", text: `every one of the ${whole(values.length)} values ${by(step)}, up or down` },
    { values, step, way: "up", text: `the whole image lighter ${by(step)}` },
  ];
}

// As many values as the radius says, from one end of the scale to the other.
function replaced(radius, shape) {
  const count = Math.min(radius, size(shape)), few = count === 1 ? "one value" : `${whole(count)} values`;
  const together = square(Math.ceil(Math.sqrt(count / shape[0])), shape).slice(0, count);
  const apart = { values: scattered(count, shape), step: LEVELS, way: "across", text: `${few} replaced by black or full` };
  if (count < 2) return [apart];
  return [{ ...apart, text: `${apart.text}, all over the image` },
    { ...apart, values: together, text: `${apart.text}, side by side` }];
}
