// What the server says about a question, in the words of the form: labels in place of fields, readable numbers.

import { power, whole } from "./words.js";

const WORDS = [
  [/: leave (the noise|sigma) out to use that; `allow_noise_mismatch` allows it/g, "; tick ‘even though it was trained for another noise’ to allow it"],
  [/; `convert`: '(\w+)' changes that/g, (_, way) => `; ‘Images of another kind are converted to ${way === "rgb" ? "RGB" : "grey"}’ changes that`],
  [/\b0\.(0{4,})(\d+)\b/g, (_, zeros, digits) => power(Number(`${digits[0]}.${digits.slice(1) || 0}`), -zeros.length - 1)],
  [/(?<![\w.'])\d{5,}(?![\w.'])/g, (digits) => whole(Number(digits))],
  [/\b(\d(?:\.\d+)?)e-0*(\d+)\b/g, (_, digits, exponent) => power(Number(digits), -exponent)],
];

export const readable = (text) => WORDS.reduce((read, [pattern, words]) => read.replace(pattern, words), text);

const LABELS = { ensemble: "Ensemble", radius: "Radius", alpha: "Alpha", beta: "Beta", procedure: "Procedure", noise: "Noise", voting: "Voting", consensus: "Consensus", convert: "Images of another kind" };

// A problem with the question, as the form says it. `labelOf(path)` is the label of the input that a field belongs to.
export function inWords(problem, labelOf) {
  const named = ({ field, message }) => {
    const path = field.split(".");
    return `${labelOf(path) ?? LABELS[path[0]] ?? titleOf(path)}: ${readable(message)}`;
  };
  const { errors = [] } = problem;
  const detail = errors.length ? errors.map(named).join("; ") : readable(problem.detail || problem.message || "");
  const title = problem.code === "invalid_request" ? "Something in the form is wrong" : problem.title;
  return { title, detail, request_id: problem.status >= 500 ? problem.request_id : "" };
}

const titleOf = ([first, second]) => (first === "images" ? `Image ${Number(second) + 1}` : first.replaceAll("_", " "));
