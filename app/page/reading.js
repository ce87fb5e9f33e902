// What a chart shows of one image: the boundaries of its procedure, and the counts with their intervals for p_A. All
// intervals come from the server.

import { samplesIn } from "./claims.js";
import { confidence, whole } from "./words.js";

const NOTHING = { n: 0, count: 0 };
const ROUNDING = 1e-9;  // bounds that differ by less are equal

// How sure the intervals are; nothing is claimed for a count between two looks. A certificate may prove more than the
// last interval tells: that is a claim of its own, with all of alpha once more.
function surety({ alpha, look_count }, more) {
  const where = look_count > 1 ? "At all looks together" : "When all samples are drawn";
  const ends = `${where}, each end of the interval holds with ${confidence(alpha)}.`;
  return more ? `${ends} The last one begins at what the certificate proves.` : ends;
}

// The reading of a plan, before any sample.
export function planReading({ boundaries, p0, pooled }, predicts) {
  return {
    predicts, looks: boundaries, p0, pooled, points: [], way: [], bars: [], end: null,
    note: boundaries.length === 1 ? "One look at the count, when all samples are drawn."
      : `${boundaries.length} looks at the count; between the boundaries sampling goes on.`,
  };
}

// The reading of an image under way, or of its certificate. `verified` are the looks of the certificate as the server
// computes them, null before it has answered. Without a plan, a certificate's own boundaries are shown.
export function imageReading({ plan, certificate, verified, underWay, ended, of, predicts }) {
  const pooled = plan?.pooled ?? isPooled(certificate);
  const points = looksTaken(certificate, verified, underWay);
  const trail = underWay?.trail ?? [];
  const { way, bars } = pooled ? together(points, trail) : apart(points, trail, Boolean(certificate));
  const last = bars.at(-1);
  const more = Boolean(certificate && last?.p_interval) && certificate.p_lower > last.p_interval[0] + ROUNDING;
  return {
    looks: plan?.boundaries ?? certificate?.stages.filter(({ certify_at }) => certify_at !== null) ?? [],
    p0: plan?.p0 ?? certificate?.p_lower ?? 0.5,
    surety: certificate?.alpha === null ? "Every outcome of the noise is counted, so p_A is known."
      : plan && last?.p_interval ? surety(plan, more) : null,
    predicts,
    pooled,
    points,
    way,
    bars: more ? bars.with(-1, { ...last, p_interval: [certificate.p_lower, last.p_interval[1]] }) : bars,
    end: certificate?.stop_reason ?? (ended ? "exhausted" : null),
    of,
    note: ended ? "" : waiting(underWay, of, predicts),
  };
}

// Whether a look counts all samples so far, as the stages of a certificate show it.
function isPooled(certificate) {
  return !certificate?.stages.every(({ n, counts }) => n === samplesIn(counts));
}

// The looks taken so far. Those of a certificate have the intervals that were seen on the way until it is verified.
function looksTaken(certificate, verified, underWay) {
  const seen = underWay?.looks ?? [];
  if (!certificate) return seen;
  return certificate.stages.map(({ n, count }, i) => ({ n, count, p_interval: (verified ?? seen)[i]?.p_interval }));
}

function waiting(underWay, of, predicts) {
  if (predicts && underWay?.samples) return `${whole(underWay.samples)} samples drawn; the class is found when all are there.`;
  if (of) return `The class is chosen: ${of}. Waiting for its count …`;
  return underWay?.stage === 0 ? "Choosing the class …" : "Waiting for the first samples …";
}

// One count from the beginning to the end.
function together(points, trail) {
  const counts = new Map(trail.map((each) => [each.n, each]));
  for (const point of points) if (point.p_interval || !counts.has(point.n)) counts.set(point.n, point);
  const way = [...counts.values()].sort((a, b) => a.n - b.n);
  return { way, bars: way };
}

// A count of its own in every stage: the way is that of the newest one.
function apart(points, trail, done) {
  const before = (done ? points.slice(0, -1) : points)
    .reduce((sum, each) => ({ n: sum.n + each.n, count: sum.count + each.count }), NOTHING);
  const stage = done ? points.length : points.length + 1;
  const own = trail.filter((each) => each.stage === stage)
    .map((each) => ({ ...each, n: each.n - before.n, count: each.count - before.count }))
    .filter(({ n }) => n > 0);
  return { way: done ? [...own, ...points.slice(-1)] : own, bars: done ? points : [...points, ...own.slice(-1)] };
}
