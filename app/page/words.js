// Numbers, times and problems as text.

import { element } from "./dom.js";

export const whole = (value) => Math.round(value).toLocaleString("en");

export function short(value, digits = 4) {
  return Number(value.toPrecision(digits)).toString();
}

// Bounds, rounded outwards so that they never claim too much.
export const lower = (bound, decimals = 5) => Math.floor(bound * 10 ** decimals) / 10 ** decimals;
export const upper = (bound, decimals = 5) => Math.ceil(bound * 10 ** decimals) / 10 ** decimals;

export function percent(share, digits = 4) {
  return `${short(100 * share, digits)} %`;
}

// How sure a claim is; without an alpha it is certain.
export const sureness = (alpha) => (alpha === null ? "for certain" : `with ${confidence(alpha)}`);

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

export const titled = (text) => text.replace(/^./, (letter) => letter.toUpperCase());

// The number that an input holds; undefined where it is empty. Other text goes to the server as it is, which says what
// is wrong with it.
export function number(text) {
  const value = Number(text);
  return text.trim() === "" ? undefined : Number.isFinite(value) ? value : text.trim();
}

// A noise as its name and each parameter with its value.
export function noiseLabel({ name, norm, ...parameters }) {
  return [name, ...Object.entries(parameters).map(([key, value]) => `${key} ${value}`)].join(", ");
}

export const STATUS = {
  queued: "waiting", running: "running", succeeded: "done", failed: "failed", canceling: "canceling",
  canceled: "canceled", expired: "expired",
};

// Evaluations that were not needed because the first K members agreed; null where all members vote.
export function saved({ samples, evaluations, members, consensus }) {
  if (!members || !samples || evaluations === null || consensus === null) return null;
  const all = samples * members.length;
  return { evaluations: all - evaluations, percent: Math.round((100 * (all - evaluations)) / all) };
}

// A problem of the server, as it is.
export function problemBox(problem) {
  const { title, detail, code, errors = [], request_id } = problem;
  const further = errors.length > 1 || (errors.length && !detail.includes(errors[0].message));
  return element("div", { class: "problem", role: "alert" },
    element("p", { class: "problem-title" }, title || "Something went wrong"),
    element("p", {}, detail || problem.message || ""),
    further ? element("ul", {}, errors.map(({ field, message }) =>
      element("li", {}, element("code", {}, field), " ", message))) : null,
    element("p", { class: "fine" }, code ? element("code", {}, code) : null,
      request_id ? [" · request ", element("code", {}, request_id)] : null));
}
