// What a certificate claims and what it does not, in words.

import { element } from "./dom.js";
import { isEightBit, provisoOf } from "./noise.js";
import { exactly, withinWords } from "./norms.js";
import { isPrediction } from "./outcome.js";
import { variantOf } from "./procedures.js";
import { remarks } from "./remarks.js";
import { isRight, superclassOf } from "./superclasses.js";
import { noiseLabel, sureness, whole } from "./words.js";

const strong = (text) => element("strong", {}, text);

// The class that the selection chose, or that leads where there was none, also for an abstention; null where no sample
// had a class.
export function chosenClass({ selection, stages }) {
  const sum = {};
  for (const drawn of samplesIn(selection) ? [selection] : stages.map(({ counts }) => counts)) {
    const classes = Array.isArray(drawn) ? drawn.slice(0, -1) : drawn;
    for (const [index, count] of Object.entries(classes)) sum[index] = (sum[index] ?? 0) + count;
  }
  delete sum.other;
  const most = Math.max(0, ...Object.values(sum));
  return most > 0 ? Number(Object.keys(sum).find((index) => sum[index] === most)) : null;
}

// All samples of a draw; its counts are an object of classes and `other`, or in format 1 a list of all classes and none.
export function samplesIn(counts) {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}

export function claim(certificate) {
  if (certificate.decision === "abstain") return abstention(certificate);
  const { radius, class_name, class_index, alpha, noise } = certificate;
  const answer = strong(`‘${class_name ?? `class ${class_index}`}’`);
  const kind = superclassOf(certificate) ? "superclass" : "answer";
  if (radius === 0)
    return [`The ${kind} at the image itself is `, answer, `, ${sureness(alpha)}; nothing is claimed about perturbations.`];
  const [before, after] = withinWords(noise.norm, radius);
  const limits = [isEightBit(noise) && "among 8-bit images", provisoOf(noise)].filter(Boolean);
  const among = limits.length ? `${after.endsWith(",") ? "" : ","} ${limits.join(", ")},` : "";
  return [`No perturbation ${before}`, strong(String(radius)), `${after}${among} changes the ${kind} `, answer,
    `, ${sureness(alpha)}.`];
}

function abstention({ stop_reason, target_radius, samples }) {
  if (stop_reason === "no-class") return ["No answer: under noise the ensemble named no class at all."];
  if (stop_reason === "undecided")
    return ["No answer: ", strong(whole(samples)), " samples do not tell the two most frequent classes apart."];
  const target = target_radius === null ? "any radius" : `radius ${target_radius}`;
  if (stop_reason === "abandoned")
    return ["No certificate: the run was given up after ", strong(whole(samples)), ` samples, which do not prove ${target}.`];
  return ["No certificate: ", strong(whole(samples)), ` samples were drawn, and they do not prove ${target}.`];
}

// What the samples of an abstention still prove.
export function still({ radius, alpha, name, norm }) {
  if (!radius) return "Its samples prove no smaller radius either.";
  const [before, after] = withinWords(norm, radius);
  return ["Its samples still prove that no perturbation ", before, strong(String(radius)), `${after} changes the answer `,
    strong(`‘${name}’`), `, ${sureness(alpha)}: alpha counts twice there, once for the radius that was asked for and once for this one.`];
}

// What a decision does and does not mean, one sentence or two in each entry.
export function meaning(certificate, label, classes) {
  const own = certificate.decision === "abstain" ? meaningOfAbstention(certificate)
    : meaningOfCertificate(certificate, label, classes);
  return [...own, ...remarks(certificate, classes)];
}

function meaningOfAbstention({ beta, procedure, stop_reason }) {
  const { abandoning } = variantOf(procedure);
  const why = {
    abandoned: abandoning && (abandoning.includes("beta") ? `${abandoning} Here beta is ${beta}.` : abandoning),
    undecided: "Neither class is much more frequent than the other: more samples may decide between them.",
    exhausted: "The class lies too close to the boundary for this many samples: more of them may decide it.",
  }[stop_reason];
  const nothing = "An abstention claims nothing.";
  if (stop_reason === "undecided") return [why, nothing];
  return [...(why ? [why] : []), `${nothing} It does not say that the answer is wrong, nor that a perturbation is known `
    + "that changes it."];
}

function meaningOfCertificate(certificate, label, classes) {
  const { noise, radius, provenance } = certificate;
  const smoothed = `The answer is that of the smoothed classifier: the class that ${provenance?.ensemble.name ?? "it"} `
    + `gives most often under noise (${noiseLabel(noise)}). ${chance(certificate)}`;
  const shape = provenance?.input.shape;
  const symbols = radius > 0 ? [exactly(noise, radius, { eightBit: isEightBit(noise), shape })] : [];
  return [...symbols, smoothed, rightness(certificate, label, classes)];
}

function chance(certificate) {
  const { alpha } = certificate;
  if (alpha === null) return "Every outcome of the noise was evaluated: nothing is left to chance.";
  return `The probability of a ${isPrediction(certificate) ? "wrong class" : "false certificate"} is at most ${alpha} (alpha).`;
}

function rightness(certificate, label, classes) {
  if (label === undefined || !classes) return "It does not say that the answer is right.";
  if (isRight(certificate, label)) {
    return superclassOf(certificate) ? `The answer is right: the label of this image, ‘${classes[label]}’, belongs to it.`
      : "The answer is right: it is the label of this image.";
  }
  return `The answer is stable and wrong: the label of this image is ‘${classes[label]}’.`;
}
