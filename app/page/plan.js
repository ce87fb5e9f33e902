// The plan: what a question could prove and what it would cost, before any sample is drawn.

import { Chart } from "./chart.js";
import { columns, element, figure, fill } from "./dom.js";
import { measured } from "./norms.js";
import { labelOf, variantOf } from "./procedures.js";
import { planReading } from "./reading.js";
import { seconds, short, titled, whole } from "./words.js";

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
      const why = plan ? `None: ${plan.reason}.` : "None for this question, as it is.";
      return fill(this.body, element("p", { class: "quiet" }, why));
    }
    if (!this.chart.figure.isConnected) fill(this.body, this.chart.figure, this.table);
    this.chart.show(planReading(plan));
    fill(this.table, expectations(plan, request.procedure));
  }

  close() {}
}

function range(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)].map(whole);
  return !values.length ? "–" : least === most ? least : `${least} – ${most}`;
}

// The plan in short, beside the question.
export function planBox(plan, procedure, norm) {
  const { feasible, largest_radius, supremum, fewest_samples, most_samples, expected, seconds: takes } = plan;
  return [
    element("p", { class: feasible ? "feasible" : "infeasible" },
      outlook(plan, variantOf(procedure).card, norm)),
    element("dl", { class: "figures small" },
      figure("largest radius", measured(norm, largest_radius)),
      figure("samples expected", range(expected.map(({ samples }) => samples))),
      figure("fewest samples", fewest_samples === null ? "–" : whole(fewest_samples)),
      figure("most samples", whole(most_samples))),
    supremum === null ? null : element("p", {}, `Under this noise no number of samples proves radius ${supremum}.`),
    takes && feasible ? element("p", {}, `One image alone takes ${between(takes)}.`) : null,
  ].filter(Boolean);
}

function outlook(plan, card, norm) {
  if (!plan.feasible || card?.targeted) return prospect(plan);
  return card?.predicts ? decision(plan) : reach(plan, norm);
}

// What decides a prediction.
function decision({ boundaries: [{ n, certify_at }] }) {
  return [element("strong", {}, "Finds the class, and no radius. "),
    `${whole(certify_at)} of ${whole(n)} samples on one class decide, however the others fall.`];
}

function prospect({ feasible, reason }) {
  return [element("strong", {}, feasible ? "Can be proved. " : "Can never be proved. "),
    titled(reason), "."];
}

// What a procedure without a target can reach.
function reach({ largest_radius, p0 }, norm) {
  return [element("strong", {}, `Up to radius ${measured(norm, largest_radius)}, `),
    `if all samples agree; none unless p_A is shown to be above ${p0}.`];
}

function between({ best, worst }) {
  const [least, most] = [best, worst].map(seconds);
  return least === most ? least : `${least} to ${most}`;
}

// What happens to images whose class is more or less probable under noise.
function expectations(plan, procedure) {
  return element("table", { class: "numbers" },
    element("caption", {}, `Expected samples, ${labelOf(procedure)}`),
    columns(["p_A of the image", "certified", "abandoned", "samples"]),
    element("tbody", {}, plan.expected.map(({ p_a, certify, abandon, samples }) => element("tr", {},
      [short(p_a, 4), share(certify), share(abandon), whole(samples)].map((text) => element("td", {}, text))))));
}

// A share in percent; it is 0 % or 100 % only if it is exactly that.
function share(p) {
  if (p > 0 && p < 0.0005) return "< 0.1 %";
  return p < 1 && p > 0.9995 ? "> 99.9 %" : `${(100 * p).toFixed(1)} %`;
}
