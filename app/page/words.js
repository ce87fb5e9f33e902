// Numbers and times as text.

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
  if (value < 1) return "less than a second";
  if (value < 100) return `${short(value, 2)} s`;
  return value < 6000 ? `${Math.round(value / 60)} min` : `${short(value / 3600, 2)} h`;
}

export const time = (text) => (text ? new Date(text).toLocaleString() : "–");

const SPANS = [["day", 86_400], ["hour", 3600], ["minute", 60]];

// A moment as a distance from now, for example "in 23 hours".
export function ago(text) {
  const away = (new Date(text) - Date.now()) / 1000;
  const [unit, span] = SPANS.find(([, each]) => Math.abs(away) >= each) ?? ["second", 1];
  return new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(Math.round(away / span), unit);
}

export const titled = (text) => text.replace(/^./, (letter) => letter.toUpperCase());

// The number that an input holds, with a point or a comma before its decimals; undefined where it is empty. Other text
// goes to the server as it is, which says what is wrong with it.
export function number(text) {
  const value = Number(text.trim().replace(/^([-+]?\d*),(\d+)$/, "$1.$2"));
  return text.trim() === "" ? undefined : Number.isFinite(value) ? value : text.trim();
}

// The same for a count, whose thousands may be set apart.
export const count = (text) => number(/^\s*\d{1,3}([\s,.'’_]\d{3})+\s*$/.test(text) ? text.replace(/\D/g, "") : text);

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

// digits · 10^exponent; small exponents are written out.
export function power(digits, exponent) {
  if (Math.abs(exponent) < 5) return String(Number((digits * 10 ** exponent).toPrecision(6)));
  const ten = `10${[...String(exponent)].map((each) => RAISED[each]).join("")}`;
  return digits === 1 ? ten : `${digits} · ${ten}`;
}

// A probability; close to one by what is missing, so that it does not read as one.
export function probability(p, digits = 4) {
  if (p <= 0.999 || p > 1) return short(p, digits);
  if (p === 1) return "1 − ε, with ε below what can be computed";
  const [left, exponent] = (1 - p).toExponential(1).split("e").map(Number);
  return `1 − ${power(left, exponent)}`;
}

// A noise as its name and each parameter with its value.
export function noiseLabel({ name, norm, ...parameters }) {
  return [name, ...Object.entries(parameters).map(([key, value]) => `${key} ${value}`)].join(", ");
}

export const STATUS = {
  queued: "waiting", running: "running", succeeded: "done", failed: "failed", canceling: "canceling",
  canceled: "canceled", expired: "expired",
};

export const SAVED = "Members that did not have to run: the first ones agreed (consensus), or no later one could change the vote.";

// Evaluations that were not needed, and their share; a dash before they are known.
export function saved({ samples, evaluations, members }) {
  if (!members || !samples || evaluations === null) return "–";
  const all = samples * members.length, spared = all - evaluations;
  return spared > 0 ? `${whole(spared)} (${Math.round((100 * spared) / all)} %)` : "none";
}
