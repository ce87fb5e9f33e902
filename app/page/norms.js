// Words and geometry of a radius, by the norm in which it is stated. A further norm is one more entry here; until it
// has one, its radii are named without pictures.

import { short, whole } from "./words.js";

const LEVELS = 255;  // of a colour value, from black to full
const PATCH = 4;     // pixels on each side

const NORMS = {
  l2: { before: "of Euclidean length below ", after: "", pictures: euclidean },
  l1: { before: "of total size (sum of absolute changes) below ", after: "" },
  l0: { before: "that changes at most ", after: " values" },
  linf: { before: "that changes every value by less than ", after: "" },
};

// The perturbations within the radius, as the words that surround it: "No perturbation {before}{radius}{after} ...".
export function withinWords(norm) {
  return NORMS[norm] ?? { before: "of size below ", after: ` in the ${norm} norm` };
}

// Changes that lie exactly at the radius, to picture it by; none for a norm that is not pictured.
export function changesAt(norm, radius, shape) {
  return NORMS[norm]?.pictures?.(radius, shape) ?? [];
}

// Each change moves the values of a `region` (see perturbed.js) by `step` levels.
function euclidean(radius, [channels, height, width]) {
  const values = channels * height * width, levels = LEVELS * radius;
  const patch = levels / Math.sqrt(PATCH * PATCH * channels);
  const all = levels / Math.sqrt(values);
  const one = levels <= LEVELS
    ? `one colour value of one pixel by ${short(levels, 3)} of ${LEVELS} levels`
    : `${whole(Math.floor(radius * radius))} colour values all the way from black to full`;
  return [
    { region: "all", step: all, text: `every one of the ${whole(values)} values by ${short(all, 3)} levels` },
    { region: "patch", step: patch, text: `a patch of ${PATCH} × ${PATCH} pixels by ${short(patch, 3)} levels` },
    { region: "one", step: Math.min(LEVELS, levels), text: one },
  ].filter(({ region }) => region !== "patch" || (height >= 2 * PATCH && width >= 2 * PATCH && patch <= LEVELS));
}
