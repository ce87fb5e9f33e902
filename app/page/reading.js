// What a chart shows of one image: its boundaries, and what is known of its count.

import { lowerBound } from "./bounds.js";
import { confidence } from "./words.js";

// Whether a look counts all samples so far, or those of its own stage alone.
const isPooled = ({ name, keep_samples }) => name !== "adaptive" || keep_samples;

const NOTHING = { n: 0, count: 0 };
const ROUNDING = 1e-9;

// The level of one look's interval, such that those of all looks hold together; adaptive stages have it from the paper.
function level(alpha, { name }, looks) {
  const shares = { fixed: 1, adaptive: looks.length, sequential: 2 * looks.length };
  return alpha / Math.max(1, shares[name]);
}

// How sure the intervals are; of one between two looks nothing is claimed. What a certificate proves may be more than
// the last of them tells, and is then a claim of its own, to which belongs all of alpha once more.
function surety(alpha, looks, more) {
  const where = looks.length > 1 ? "At all looks together" : "When all samples are drawn";
  const ends = `${where}, each end of the interval holds with ${confidence(alpha)}.`;
  return more ? `${ends} The last one begins at what the certificate proves.` : ends;
}

// Before any sample.
export function planReading(plan, { procedure, alpha }) {
  return {
    looks: plan.boundaries, p0: plan.p0, alpha: level(alpha, procedure, plan.boundaries), pooled: isPooled(procedure),
    points: [], way: [], bars: [], end: null,
    note: plan.boundaries.length === 1 ? "One look at the count, when all samples are drawn."
      : `${plan.boundaries.length} looks at the count; between the boundaries sampling goes on.`,
  };
}

// Of an image under way, or of its certificate; the plan may be missing, and then a certificate's own boundaries serve.
export function imageReading({ plan, request, certificate, underWay, ended, of }) {
  const pooled = isPooled(request.procedure);
  const points = (certificate?.stages ?? underWay?.looks ?? []).map(({ n, count }) => ({ n, count }));
  const trail = underWay?.trail ?? [];
  const looks = plan?.boundaries ?? certificate?.stages.filter(({ certify_at }) => certify_at !== null) ?? [];
  const alpha = certificate?.alpha ?? request.alpha;
  const share = level(alpha, request.procedure, looks);
  const { way, bars } = pooled ? together(points, trail) : apart(points, trail, Boolean(certificate));
  const last = bars.at(-1);
  const more = certificate && last ? certificate.p_lower > lowerBound(last.count, last.n, share) + ROUNDING : false;
  return {
    looks,
    p0: plan?.p0 ?? certificate?.p_lower ?? 0.5,
    alpha: share,
    surety: plan && surety(alpha, looks, more),
    pooled,
    points,
    way,
    bars: more ? bars.with(-1, { ...last, proved: certificate.p_lower }) : bars,
    end: certificate?.stop_reason ?? (ended ? "exhausted" : null),
    of,
    note: ended ? "" : waiting(underWay, of),
  };
}

function waiting(underWay, of) {
  if (of) return `The class is chosen: ${of}. Waiting for its count …`;
  return underWay ? "Choosing the class …" : "Waiting for the first samples …";
}

// One count from the beginning to the end.
function together(points, trail) {
  const counts = new Map([...trail, ...points].map(({ n, count }) => [n, { n, count }]));
  const way = [...counts.values()].sort((a, b) => a.n - b.n);
  return { way, bars: way };
}

// A count of its own in every stage: the way is that of the newest one.
function apart(points, trail, done) {
  const before = (done ? points.slice(0, -1) : points)
    .reduce((sum, each) => ({ n: sum.n + each.n, count: sum.count + each.count }), NOTHING);
  const stage = done ? points.length : points.length + 1;
  const own = trail.filter((each) => each.stage === stage)
    .map(({ n, count }) => ({ n: n - before.n, count: count - before.count }))
    .filter(({ n }) => n > 0);
  return { way: done ? [...own, ...points.slice(-1)] : own, bars: done ? points : [...points, ...own.slice(-1)] };
}
