// The chart of one image: above, the count against the boundaries; below, the interval for p_A as it closes on p0.

import { element, fill, svg } from "./dom.js";
import { Frame } from "./frame.js";
import { compact, decades, linear, logarithmic, path, rounds } from "./scale.js";
import { lower, percent, probability, upper, whole } from "./words.js";

const LEFT = 46, RIGHT = 14, TOP = 26, GAP = 46, BOTTOM = 40;
const NARROW = 480;                 // CSS pixels: below this width the chart is lower and its words are shorter
const MANY = 12;                    // looks, from which on they are drawn as lines instead of single marks
const APART = 14;                   // CSS pixels for each look that is drawn as a single mark; closer ones are an area
const WORD = 60;                    // CSS pixels that the name of an area takes; that of a narrower one stands before it
const WORD_HEIGHT = 24;             // CSS pixels between the upper edge and the boundary, for the name of the area
const LEAST = 4.2, MARGIN = 1.4;    // standard deviations that the axis reaches at least, and beyond the boundaries

// A reading (see reading.js) has the boundaries (`looks`, `p0`, `pooled`), the counts at the looks taken (`points`), the
// way of the count (`way`), the counts that intervals are drawn for (`bars`), how sure the intervals are (`surety`),
// how it ended (`end`), whose count it is (`of`) and whether it proves no radius (`predicts`). A count has an interval for p_A (`p_interval`) if it is known.
export class Chart extends Frame {
  constructor() {
    super("chart");
    this.drawing.setAttribute("aria-label", "No samples yet");
    this.reading = null;
    this.drawing.addEventListener("pointermove", (event) => this.point(event));
    this.drawing.addEventListener("pointerleave", () => this.tell(null));
  }

  show(reading) {
    this.reading = reading;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.draw());
  }

  draw() {
    if (!this.width || !this.reading) return;
    const { reading, width } = this;
    const { looks, bars, way } = reading;
    const upper = width < NARROW ? 180 : 230, lower = width < NARROW ? 110 : 130;
    const height = TOP + upper + GAP + lower + BOTTOM;
    const last = Math.max(100, ...looks.map(({ n }) => n), ...bars.map(({ n }) => n), ...way.map(({ n }) => n));
    const first = Math.max(1, Math.min(0.7 * (looks[0]?.n ?? 10), last / 1000));
    const x = logarithmic(first, last, LEFT, width - RIGHT);
    const above = { top: TOP, bottom: TOP + upper }, below = { top: TOP + upper + GAP, bottom: height - BOTTOM };
    this.places = bars.map((each) => ({ ...each, x: x(each.n) }));
    this.size(height, spoken(reading));
    const spots = { x, first, last, width, above, below };
    fill(this.drawing, axis(spots), counts(reading, spots), interval(reading, spots));
    this.tell(null);
  }

  point(event) {
    if (!this.places?.length) return;
    const x = event.clientX - this.drawing.getBoundingClientRect().left;
    this.tell(this.places.reduce((best, each) => (Math.abs(each.x - x) < Math.abs(best.x - x) ? each : best)));
  }

  // Describe, under the chart, the count that is pointed at, or the newest one.
  tell(place) {
    const { reading, places } = this;
    const spot = place ?? places?.at(-1);
    if (!spot) return fill(this.caption, reading?.note ?? "");
    const look = reading.looks.find(({ n }) => n === spot.n);
    fill(this.caption, element("span", {}, `${whole(spot.count)} of ${whole(spot.n)}`),
      spot.p_interval ? element("span", {}, `p_A in ${bracketed(spot.p_interval)}`) : null,
      look ? element("span", {}, gates(look, reading)) : null,
      reading.surety ? element("span", { class: "surety" }, reading.surety) : null);
  }
}

const bracketed = ([low, high]) => `[${lower(low)}, ${upper(high)}]`;

function gates({ n, certify_at, abandon_at }, { predicts }) {
  const certify = certify_at <= n ? `${predicts ? "decides" : "certifies"} from ${whole(certify_at)}` : "cannot certify yet";
  return abandon_at >= 0 ? `${certify}, abandons up to ${whole(abandon_at)}` : certify;
}

function spoken({ looks, bars, of, p0 }) {
  const newest = bars.at(-1);
  if (!newest) return `Boundaries of the procedure at ${looks.length} looks; no samples yet`;
  return `${of ?? "The class"}: ${newest.count} of ${newest.n} samples, ${percent(newest.count / newest.n)}; `
    + `${percent(p0)} must be shown`;
}

function axis({ x, first, last, width, above, below }) {
  return [
    decades(first, last).map((n) => [
      svg("line", { class: "rule", x1: x(n), x2: x(n), y1: above.top, y2: above.bottom }),
      svg("line", { class: "rule", x1: x(n), x2: x(n), y1: below.top, y2: below.bottom }),
      svg("text", { class: "tick", x: x(n), y: below.bottom + 16, "text-anchor": "middle" }, compact(n)),
    ]),
    svg("text", { class: "name", x: width - RIGHT, y: below.bottom + 33, "text-anchor": "end" }, "samples"),
  ];
}

// The count minus n p0 in its standard deviations, so that boundaries at 30 and at 100,000 samples are equally visible.
function counts({ looks, p0, points, way, bars, end, of, predicts }, { x, width, above }) {
  const deviation = Math.sqrt(p0 * (1 - p0)) || 1;
  const z = ({ n, count }) => (count - n * p0) / (deviation * Math.sqrt(n));
  const certify = looks.filter((each) => each.certify_at <= each.n).map(({ n, certify_at: count }) => ({ n, count }));
  const abandon = looks.filter((each) => each.abandon_at >= 0).map(({ n, abandon_at: count }) => ({ n, count }));
  const high = Math.max(LEAST, ...certify.map((each) => z(each) + MARGIN));
  const low = Math.min(-LEAST, ...abandon.map((each) => z(each) - MARGIN));
  const seen = [...way, ...bars].map(z);
  const far = looks.length > 1 ? 2 : Infinity;  // with one look only, the count goes on however far it is
  const from = Math.min(low, Math.max(far * low, Math.min(...seen) - 1));
  const share = WORD_HEIGHT / (above.bottom - above.top);
  const roomy = (Math.max(...certify.map(z)) - share * from) / (1 - share);
  const to = Math.max(high, roomy, Math.min(far * high, Math.max(...seen) + 1));
  const scale = linear(from, to, above.bottom, above.top);
  const spot = (each) => [x(each.n), scale(Math.min(Math.max(z(each), from), to))];
  const unit = width < NARROW ? "s.d." : "standard deviations";
  const room = Math.max(8, Math.floor((width - LEFT - (width < NARROW ? 210 : 320)) / 8));  // letters
  const name = of?.length > room ? `${of.slice(0, room - 2)}…’` : of;
  return [
    svg("text", { class: "title", x: LEFT, y: above.top - 10 }, name ? `Samples on ${name}` : "The count",
      svg("tspan", { class: "name" }, `  in ${unit} from n·p₀`)),
    region(certify.map(spot), "certify", above.top, above.top + 16, predicts ? "decide" : "certify"),
    region(abandon.map(spot), "abandon", above.bottom, above.bottom - 8),
    svg("line", { class: "zero", x1: LEFT, x2: width - RIGHT, y1: scale(0), y2: scale(0) }),
    rounds(from, to, 7).map((tick) =>
      svg("text", { class: "tick", x: LEFT - 8, y: scale(tick) + 4, "text-anchor": "end" }, signed(tick))),
    way.length > 1 ? svg("path", { class: "count", d: path(way.map(spot)) }) : null,
    points.map(spot).map(([cx, cy]) => svg("circle", { class: "look", cx, cy, r: points.length > MANY ? 1.8 : 3.2 })),
    bars.slice(-1).map(spot).map(([cx, cy]) => svg("circle", { class: `now ${end ?? "running"}`, cx, cy, r: 6 })),
  ];
}

const signed = (tick) => (tick > 0 ? `+${tick}` : `${tick}`.replace("-", "−"));

// The counts that end the procedure; few looks are drawn as gates, since nothing is decided between them.
function region(points, kind, edge, y, name = kind) {
  if (!points.length) return [];
  const [start, end] = [points[0][0], points.at(-1)[0]];
  const few = points.length <= MANY && (points.length === 1 || end - start >= APART * points.length);
  return [
    few ? points.map(([x, y1]) => svg("line", { class: `gate ${kind}`, x1: x, x2: x, y1, y2: edge }))
      : svg("path", { class: `region ${kind}`, d: `${path(points)}L${end} ${edge}L${start} ${edge}Z` }),
    svg("path", { class: `boundary ${kind} ${few ? "few" : ""}`, d: path(points) }),
    svg("text", { class: `word ${kind}`, x: (end - start < WORD ? start : end) - 8, y, "text-anchor": "end" }, name),
  ];
}

function interval({ bars, p0, pooled }, { x, width, below }) {
  const known = bars.filter(({ p_interval }) => p_interval)
    .map(({ n, count, p_interval: [low, high] }) => ({ n, at: count / n, low, high }));
  const few = known.length <= MANY;
  const from = Math.max(0, Math.min(p0 - 0.12, ...known.map(({ low, at }) => (few ? low : (low + at) / 2))));
  const y = linear(from, 1, below.bottom, below.top);
  const spot = (key) => (bar) => [x(bar.n), y(Math.max(from, bar[key]))];
  const band = [...known.map(spot("high")), ...known.map(spot("low")).reverse()];
  return [
    svg("text", { class: "title", x: LEFT, y: below.top - 10 }, "The interval for p_A",
      svg("tspan", { class: "name" }, width < NARROW ? "  closes on p₀" : "  closes on p₀, which must be shown")),
    rounds(from, 1, 3).map((tick) => [
      svg("line", { class: "rule", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }),
      svg("text", { class: "tick", x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, tick),
    ]),
    pooled && known.length > 1 ? svg("path", { class: "band", d: `${path(band)}Z` }) : null,
    few ? known.map((bar) => [
      svg("line", { class: "bar", x1: x(bar.n), x2: x(bar.n), y1: spot("low")(bar)[1], y2: spot("high")(bar)[1] }),
      svg("circle", { class: "look", cx: x(bar.n), cy: spot("at")(bar)[1], r: 2.6 }),
    ]) : svg("path", { class: "count", d: path(known.map(spot("at"))) }),
    svg("line", { class: "target", x1: LEFT, x2: width - RIGHT, y1: y(p0), y2: y(p0) }),
    svg("text", { class: "word target", x: width - RIGHT - 4, y: y(p0) + (p0 > 0.9 ? 15 : -6), "text-anchor": "end" },
      `p₀ = ${probability(p0)}`),
  ];
}
