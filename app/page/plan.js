// The plan: what a question could prove and what it would cost, before any sample is drawn.

import { Chart } from "./chart.js";
import { columns, element, figure, fill } from "./dom.js";
import { measured } from "./norms.js";
import { success } from "./outcome.js";
import { labelOf, variantOf } from "./procedures.js";
import { planReading } from "./reading.js";
import { probability, seconds, titled, whole } from "./words.js";

// The plan at length, with the boundaries, in the place of an answer.
export class PlanView {
  constructor(place, latest) {
    this.chart = new Chart();
    this.body = element("div");
    this.table = element("div");
    fill(place, element("header", { class: "answer-head" }, element("div", {},
      element("h2", { class: "title", tabindex: -1 }, "The plan"),
      element("p", { class: "quiet" }, "Samples are drawn until the count crosses a boundary. "
        + "The boundaries are known before the first one."))), this.body);
    if (latest.length) this.show(...latest);
  }

  show(plan, request) {
    if (!plan?.boundaries.length) {
      const why = plan ? "None: the radius is out of reach." : "None for this question, as it is.";
      return fill(this.body, element("p", { class: "quiet" }, why));
    }
    if (!this.chart.figure.isConnected) fill(this.body, this.chart.figure, this.table);
    this.chart.show(planReading(plan, success(request.procedure) === "predicted"));
    fill(this.table, expectations(plan, request.procedure));
  }

  close() {}
}

function range(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)].map(whole);
  return !values.length ? "–" : least === most ? least : `${least} – ${most}`;
}

// The plan in short, beside the question. `take` puts another radius or budget into the form.
export function planBox(plan, procedure, norm, take = {}, images = 1) {
  const { feasible, largest_radius, supremum, fewest_samples, most_samples, expected, seconds: takes } = plan;
  return [
    feasible ? element("p", { class: "feasible" }, outlook(plan, variantOf(procedure).card, norm)) : outOfReach(plan, norm, take),
    takes && feasible ? duration(takes, images) : null,
    element("dl", { class: "figures small" },
      success(procedure) === "predicted" ? null : figure("largest radius", measured(norm, largest_radius)),
      figure("samples expected", range(expected.map(({ samples }) => samples))),
      figure("fewest to prove it", fewest_samples === null ? "–" : whole(fewest_samples)),
      figure("most samples", whole(most_samples))),
    supremum === null || !feasible ? null
      : element("p", {}, `Under this noise no number of samples proves radius ${supremum}.`),
  ].filter(Boolean);
}

function outlook(plan, card, norm) {
  if (card?.targeted) return prospect(plan);
  return card?.predicts ? decision(plan) : reach(plan, norm);
}

// What decides a prediction.
function decision({ boundaries: [{ n, certify_at }] }) {
  return [element("strong", {}, "Finds the class, and no radius. "),
    `${whole(certify_at)} of ${whole(n)} samples on one class decide, however the others fall.`];
}

const prospect = ({ radius, p0 }) =>
  [element("strong", {}, "Can be proved. "), `Radius ${radius} is proved if p_A is shown to be at least ${probability(p0, 6)}.`];

// What a procedure without a target can reach.
function reach({ largest_radius, p0 }, norm) {
  return [element("strong", {}, `Up to radius ${measured(norm, largest_radius)}, `),
    `if all samples agree; none unless p_A is shown to be above ${probability(p0, 6)}.`];
}

// Why a radius cannot be proved, and what could be asked in its place.
export function outOfReach(plan, norm, { radius: takeRadius, budget: takeBudget }) {
  const { radius, p0, largest_radius: largest, samples_needed: needed, samples_allowed: allowed, supremum, reason, boundaries } = plan;
  const over = needed !== null && allowed != null && needed > allowed;
  const [why, text] = needed === null
    ? ["Not under this noise.", supremum === null ? `Radius ${radius} needs a p_A so close to 1 that it is beyond what can be computed.`
      : `No number of samples proves radius ${supremum} or more.`]
    : radius > largest || !boundaries.length
      ? ["Not with this budget.", `Radius ${radius} needs p_A ≥ ${probability(p0, 6)}, which takes ${whole(needed)} samples that all agree`
        + (over ? `; this service allows at most ${whole(allowed)}.` : ".")]
      : ["Not at this price.", `${titled(reason)}.`];
  const offer = (name, click) => element("button", { type: "button", click }, name);
  return element("div", { class: "infeasible" }, element("p", {}, element("strong", {}, `${why} `), text),
    element("p", { class: "offers" },
      takeBudget && !over && boundaries.length && radius > largest ? offer(`Allow ${whole(needed)} samples`, () => takeBudget(needed)) : null,
      takeRadius && largest > 0 && radius > largest ? offer(`Ask for radius ${largest}`, () => takeRadius(largest)) : null));
}

// The time that a clear image takes, and in small print the best and the worst case.
function duration({ best, expected, worst, together }, images) {
  if (images > 1 && together != null) return durationOfAll(expected, worst, together, images);
  const likely = expected ?? worst, first = seconds(likely), last = seconds(worst);
  const about = likely < 1 || first === last ? titled(first) : `About ${first}`;
  return element("p", { class: "duration" }, element("strong", {}, first === last ? `${about} for one image alone.` : `${about} for one clear image alone. `),
    first === last ? null : element("span", { class: "fine" }, `At best ${seconds(Math.min(best, likely))}; never more than ${last}, if nothing decides it before the last sample.`));
}

// The same for a batch.
function durationOfAll(expected, worst, together, images) {
  const about = together < 1 ? titled(seconds(together)) : `About ${seconds(together)}`;
  return element("p", { class: "duration" }, element("strong", {}, `${about} for ${whole(images)} clear images. `),
    element("span", { class: "fine" }, `One alone takes ${seconds(expected)}; all of them never more than ${seconds(images * worst)}.`));
}

// What happens to images whose class is more or less probable under noise.
function expectations(plan, procedure) {
  return element("table", { class: "numbers" },
    element("caption", {}, `Expected samples, ${labelOf(procedure)}`),
    columns(["p_A of the image", success(procedure), "abandoned", "samples"]),
    element("tbody", {}, plan.expected.map(({ p_a, certify, abandon, samples }) => element("tr", {},
      [probability(p_a), share(certify), share(abandon), whole(samples)].map((text) => element("td", {}, text))))));
}

// A share in percent; it is 0 % or 100 % only if it is exactly that.
function share(p) {
  if (p > 0 && p < 0.0005) return "< 0.1 %";
  return p < 1 && p > 0.9995 ? "> 99.9 %" : `${(100 * p).toFixed(1)} %`;
}
