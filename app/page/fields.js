// The fields of a certificate, in words.

const NAMES = {
  class_index: "class", class_name: "name of the class", target_radius: "radius asked for", p_lower: "lower bound on p_A",
  p_upper: "upper bound on p_A", stop_reason: "reason to stop", family_wise: "sharing of alpha", certify_at: "count to certify at",
  abandon_at: "count to abandon at", stages: "stage", certificates: "certificate",
};
const STEP = String.raw`(?:\[\d+\]|\.\w+)`;
const FIELD = new RegExp(String.raw`\b(?:(?:stages|provenance|procedure|noise|selection|ensemble|certificates)${STEP}+|`
  + `(?:${Object.keys(NAMES).filter((name) => name.includes("_")).join("|")})\\b)`, "g");

// "stages[0].p_lower" or "stages.0.p_lower" as "stage 1, lower bound on p_A".
export function fieldWords(path) {
  const words = [];
  for (const part of path.split(/[.[\]]+/).filter(Boolean)) {
    if (/^\d+$/.test(part) && words.length) words[words.length - 1] += ` ${Number(part) + 1}`;
    else words.push(NAMES[part] ?? part.replaceAll("_", " "));
  }
  return words.join(", ");
}

// A sentence of the server about a certificate, with its fields in words.
export const withoutFields = (sentence) => sentence.replace(FIELD, fieldWords).replace(/\b(is|give) None\b/g, "$1 nothing");

// What is wrong with a certificate, as `verify` says it.
export const mismatch = ({ field, message }) => (field ? `${fieldWords(field)}: ${withoutFields(message)}` : withoutFields(message));
