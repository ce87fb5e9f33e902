// Words and units of a radius, by the norm in which it is stated. A further norm is one more entry here, and one in
// changes.js and ball.js; until it has one, its radii are named without pictures.

import { lower, whole } from "./words.js";

export const LEVELS = 255;  // of a colour value, from black to full

const levels = (radius) => `${lower(LEVELS * radius, 2)} of ${LEVELS} levels`;
const values = (count) => `${whole(count)} ${count === 1 ? "value" : "values"}`;

// Of each norm: its sign; the words around a radius in "No perturbation ... changes the answer"; the images within the
// radius, and the same in bytes; a radius to begin with; a radius with its unit.
const NORMS = {
  l2: {
    sign: "l₂", usual: "0.25",
    words: () => ["of Euclidean length below ", ""],
    within: (radius) => `with ‖x′ − x‖₂ < ${radius}`,
    bytes: (radius) => `Σ\u00a0(a′ᵢ − aᵢ)² < (${LEVELS} · ${radius})²`,
  },
  l1: {
    sign: "l₁", usual: "0.25",
    words: () => ["whose absolute changes add up to less than ", ""],
    within: (radius) => `with ‖x′ − x‖₁ < ${radius}`,
    bytes: (radius) => `Σ\u00a0|a′ᵢ − aᵢ| < ${LEVELS} · ${radius}`,
  },
  l0: {
    sign: "l₀", usual: "1", unit: "values",
    words: (radius) => ["that changes at most ", radius === 1 ? " value, whatever it becomes," : " values, whatever they become,"],
    within: (radius) => `that differs from x in at most ${values(radius)}, whatever ${radius === 1 ? "it becomes" : "they become"}`,
    measured: values,
  },
  linf: {
    sign: "l∞", usual: "0.004",
    words: () => ["that changes each value by less than ", ""],
    within: (radius) => `with |x′ᵢ − xᵢ| < ${radius} for all i, which is less than ${levels(radius)}`,
    measured: (radius) => `${radius} (${levels(radius)})`,
    inLevels: levels,
  },
};

const of = (norm) => NORMS[norm] ?? {
  sign: norm, words: () => ["of size below ", ` in the ${norm} norm`],
  within: (radius) => `within ${radius} in the ${norm} norm`,
};

export const signOf = (norm) => of(norm).sign;
export const usualRadius = (norm) => of(norm).usual;

// The perturbations within a radius, as the words before and after it: "No perturbation {before}{radius}{after} ...".
export const withinWords = (norm, radius) => of(norm).words(radius);

// A radius with its unit, if it has one.
export const measured = (norm, radius) => of(norm).measured?.(radius) ?? String(radius);

// What a radius that is typed in means; empty where it is a plain length.
export function unitOf(norm, radius) {
  return of(norm).unit ?? (Number.isFinite(radius) ? of(norm).inLevels?.(radius) : null) ?? "";
}

// Where exactly the answer holds, in symbols. `shape` is that of the image, if it is known.
export function exactly({ norm }, radius, { eightBit, shape }) {
  const { within, bytes } = of(norm);
  const inBytes = eightBit && bytes ? `; in bytes a, ${bytes(radius)}` : "";
  const value = shape?.[0] === 1 ? "the grey of one pixel" : "one channel of one pixel";
  return `The answer holds at every ${eightBit ? "8-bit image" : "image"} x′ ${within(radius)}${inBytes}.`
    + (norm === "l0" ? ` A value is ${value}.` : "");
}

// What the certificate says in other norms, as a sentence; null where it says nothing.
export function consequence(implied) {
  if (!implied.length) return null;
  const kept = ({ eight_bit }) => (eight_bit ? "" : ", which stay in [0, 1]");
  const each = implied.map((found) => (found.norm === "l0" ? `that changes at most ${values(found.radius)}${kept(found)}`
    : withinWords(found.norm, found.radius).join(found.radius)));
  const among = implied[0].eight_bit ? " among 8-bit images" : "";
  return `By geometry, the same holds${among} for every perturbation ${each.join(", or ")}.`;
}
