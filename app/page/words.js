// What the numbers say, in words.

import { element } from "./dom.js";

export const whole = (value) => Math.round(value).toLocaleString("en");

export function short(value, digits = 4) {
  return Number(value.toPrecision(digits)).toString();
}

// Bounds, rounded so that they claim no more than they do.
export const lower = (bound, decimals = 5) => Math.floor(bound * 10 ** decimals) / 10 ** decimals;
export const upper = (bound, decimals = 5) => Math.ceil(bound * 10 ** decimals) / 10 ** decimals;

export function percent(share, digits = 4) {
  return `${short(100 * share, digits)} %`;
}

export function confidence(error) {
  if (error < 1e-9) return `a confidence of 1 − ${error}`;
  return `${Number((100 - 100 * error).toPrecision(13))} % confidence`;
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1) return "under a second";
  if (value < 100) return `${short(value, 2)} s`;
  return value < 6000 ? `${Math.round(value / 60)} min` : `${short(value / 3600, 2)} h`;
}

export const time = (text) => (text ? new Date(text).toLocaleString() : "–");

export function procedureName({ name, abandon, keep_samples }) {
  if (name === "sequential") return `sequential, ${abandon}`;
  return name === "adaptive" && keep_samples ? "adaptive, samples kept" : name;
}

export const STATUS = {
  queued: "waiting", running: "running", succeeded: "done", failed: "failed", canceling: "canceling",
  canceled: "canceled", expired: "expired",
};

// Evaluations that were not needed because the first K members agreed; null where all were asked.
export function saved({ samples, evaluations, members, consensus }) {
  if (!members || !samples || evaluations === null || consensus === null) return null;
  const all = samples * members.length;
  return { evaluations: all - evaluations, percent: Math.round((100 * (all - evaluations)) / all) };
}

const strong = (text) => element("strong", {}, text);

// The class that the selection chose, also of an abstention; null where it showed none.
export function chosenClass({ selection }) {
  const counts = selection.slice(0, -1);
  const most = Math.max(...counts);
  return most > 0 ? counts.indexOf(most) : null;
}

export function claim(certificate) {
  if (certificate.decision === "abstain") return abstention(certificate);
  const { radius, class_name, class_index, alpha } = certificate;
  return ["No perturbation of Euclidean length below ", strong(String(radius)), " changes the answer ",
    strong(`‘${class_name ?? `class ${class_index}`}’`), `, with ${confidence(alpha)}.`];
}

function abstention({ stop_reason, target_radius, samples, procedure }) {
  if (stop_reason === "no-class") return ["No answer: under noise the ensemble named no class at all."];
  const within = target_radius === null ? "any radius" : `radius ${target_radius}`;
  if (stop_reason === "abandoned" && procedure.abandon === "lost-certificate")
    return ["No certificate: after ", strong(whole(samples)), ` samples, going on would hardly have proved ${within}.`];
  if (stop_reason === "abandoned")
    return ["No certificate: ", strong(whole(samples)), ` samples show that ${within} can hardly be proved here.`];
  return ["No certificate: all ", strong(whole(samples)), ` samples were drawn, and they do not prove ${within}.`];
}

// What a decision does and does not mean.
export function meaning(certificate, label, classes) {
  const { noise, alpha, beta, procedure, stop_reason, provenance } = certificate;
  if (certificate.decision === "abstain") {
    const why = {
      abandoned: procedure.abandon === "lost-certificate"
        ? `A run that would have ended in a certificate is given up with a chance of at most ${beta} (beta).`
        : `Were the radius provable, sampling would have been given up with a chance of at most ${beta} (beta).`,
      exhausted: "The class lies too close to the boundary for this many samples: more of them may decide it.",
    }[stop_reason];
    return [...(why ? [why] : []), "An abstention claims nothing. It does not say that the answer is wrong, nor that "
      + "anybody knows a perturbation that changes it. A smaller radius may still be provable."];
  }
  const said = [`The answer is that of the smoothed classifier: the class that ${provenance?.ensemble.name ?? "it"} `
    + `gives most often under Gaussian noise of sigma ${noise.sigma}. A false certificate has a chance of at most `
    + `${alpha} (alpha).`];
  if (label === undefined || !classes) said.push("It does not say that the answer is right.");
  else if (label === certificate.class_index) said.push("The answer is right: it is the label of this image.");
  else said.push(`The answer is stable and wrong: the label of this image is ‘${classes[label]}’.`);
  return said;
}

// A Euclidean length on an image, as changes that one can picture; pixel values run from 0 to 255.
export function inPixels(radius, shape) {
  const [channels, height, width] = shape;
  const values = channels * height * width, levels = 255 * radius;
  const one = levels <= 255
    ? `one colour value of one pixel by ${short(levels, 3)} of 255 levels`
    : `${whole(Math.floor(radius * radius))} colour values all the way from black to full`;
  return [
    { name: "all", text: `every one of the ${whole(values)} values by ${short(levels / Math.sqrt(values), 3)} levels` },
    { name: "patch", text: `a patch of 4 × 4 pixels by ${short(levels / Math.sqrt(16 * channels), 3)} levels` },
    { name: "one", text: one },
  ].filter(({ name }) => name !== "patch" || (height >= 8 && width >= 8 && levels / Math.sqrt(16 * channels) <= 255));
}

// A problem of the server's, as it is.
export function problemBox(problem) {
  const { title, detail, code, errors = [], request_id } = problem;
  const known = errors.length > 1 || (errors.length && !detail.includes(errors[0].message));
  return element("div", { class: "problem", role: "alert" },
    element("p", { class: "problem-title" }, title || "Something went wrong"),
    element("p", {}, detail || problem.message || ""),
    known ? element("ul", {}, errors.map(({ field, message }) =>
      element("li", {}, element("code", {}, field), " ", message))) : null,
    element("p", { class: "fine" }, code ? element("code", {}, code) : null,
      request_id ? [" · request ", element("code", {}, request_id)] : null));
}
