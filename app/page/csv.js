// The certificates of a batch as a table for a spreadsheet (RFC 4180).

import { isPrediction, provedRadius } from "./outcome.js";

const COLUMNS = ["index", "image", "label", "decision", "class", "radius", "target_radius", "alpha", "samples", "evaluations", "digest"];

// A text that a spreadsheet would take for a formula gets a quote before it.
function cell(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// `rows` have a certificate, the name of its image and the name of its label, if there is one.
export function csv(rows) {
  const lines = rows.map(({ certificate: each, name, label }) => [each.index, name, label, isPrediction(each) ? "predicted" : each.decision,
    each.class_name ?? each.class_index, provedRadius(each), each.target_radius, each.alpha,
    each.samples, each.evaluations, each.digest]);
  return [COLUMNS, ...lines].map((line) => `${line.map(cell).join(",")}\r\n`).join("");
}
