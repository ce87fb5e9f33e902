// The classes that were counted most often, as bars: at most five of them, however many the ensemble has.

import { samplesIn } from "./claims.js";
import { element } from "./dom.js";
import { percent, whole } from "./words.js";

const MOST = 5;

// All samples of a certificate by class, the most frequent first; `other` are those of no class of its own.
export function counted({ selection, stages }) {
  const sum = new Map();
  let other = 0;
  for (const drawn of [selection, ...stages.map(({ counts }) => counts)]) {
    const pairs = Array.isArray(drawn) ? drawn.slice(0, -1).map((count, index) => [index, count]) : Object.entries(drawn);
    if (Array.isArray(drawn)) other += drawn.at(-1) ?? 0;
    for (const [index, count] of pairs) {
      if (index === "other") other += count;
      else if (count) sum.set(Number(index), (sum.get(Number(index)) ?? 0) + count);
    }
  }
  return { classes: [...sum].sort(([a, m], [b, n]) => n - m || a - b), other };
}

export function bars(certificate, classes) {
  const { classes: found, other } = counted(certificate);
  const all = samplesIn(certificate.selection) + certificate.stages.reduce((sum, { counts }) => sum + samplesIn(counts), 0);
  if (!all) return [];
  const left = all - found.slice(0, MOST).reduce((sum, [, count]) => sum + count, 0);
  const row = (name, count, kind) => element("li", {},
    element("span", { class: "bar-name", title: name }, name),
    element("meter", { class: kind, min: 0, max: all, value: count, "aria-label": name }),
    element("span", { class: "bar-share" }, `${percent(count / all, 3)} (${whole(count)})`));
  const further = found.length > MOST || other ? "all others" : null;
  return [
    element("h3", {}, "What the ensemble said under noise"),
    element("ol", { class: "counted" },
      found.slice(0, MOST).map(([index, count]) => row(classes?.[index] ?? `class ${index}`, count, "")),
      further && left ? row(further, left, "others") : null),
  ];
}
