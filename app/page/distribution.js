// The images of a batch by their p_A, as their counts estimate it. It is shown where a procedure proves one radius, or
// none, so that there is no curve.

import { element, fill, svg } from "./dom.js";
import { HEIGHT, LEFT, Plot, RIGHT, TOP } from "./plot.js";
import { rounds } from "./scale.js";
import { percent, probability } from "./words.js";

const BINS = 20;

// The share of the last count that fell on the class; null where there was none.
export function share({ stages }) {
  const last = stages.at(-1);
  return last?.n ? last.count / last.n : null;
}

// Images in bins of [from, 1], those of each decision apart.
export function binned(certificates, from) {
  const bins = Array.from({ length: BINS }, () => ({ certified: 0, abstain: 0 }));
  for (const each of certificates) {
    const p = share(each);
    if (p !== null) bins[Math.min(BINS - 1, Math.max(0, Math.floor(((p - from) / (1 - from)) * BINS)))][each.decision] += 1;
  }
  return bins;
}

export class Distribution extends Plot {
  constructor() {
    super("chart distribution");
  }

  // `p0` is the least p_A that proves the radius, or null before it is known; `found` is the word for an image that was
  // not abstained from.
  show(certificates, total, { labels, target, p0, found }) {
    Object.assign(this, { certificates, total, labels, target, p0, found });
    this.draw();
  }

  draw() {
    if (!this.width || !this.certificates) return;
    const { width, certificates, target, p0 } = this;
    const known = certificates.map(share).filter((each) => each !== null);
    const from = Math.floor(20 * Math.min(0.9, p0 ?? 1, ...known)) / 20;
    const bins = binned(certificates, from);
    const most = Math.max(1, ...bins.map(({ certified, abstain }) => certified + abstain));
    const { x, y } = this.scales(from, 1, most);
    const wide = (width - RIGHT - LEFT) / BINS;
    const block = (i, low, high, kind) => high > low && svg("rect", { class: `block ${kind}`, x: LEFT + i * wide + 1,
      width: wide - 2, y: y(high), height: y(low) - y(high) });
    const words = this.words();
    this.size(words.join("; "));
    fill(this.drawing,
      this.axes({ x, y }, {
        title: "Images by p_A", about: "as their counts estimate it", name: "p_A",
        levels: rounds(0, most, 4).filter(Number.isInteger).map((level) => [level, level]),
        ticks: this.ticks(from, 1),
      }),
      bins.flatMap(({ certified, abstain }, i) =>
        [block(i, 0, certified, "certified"), block(i, certified, certified + abstain, "abstain")]).filter(Boolean),
      p0 === null ? null : [svg("line", { class: "target", x1: x(p0), x2: x(p0), y1: TOP, y2: TOP + HEIGHT }),
        svg("text", { class: "word target", x: x(p0) + (p0 < (1 + from) / 2 ? 5 : -5), y: TOP + 12,
          "text-anchor": p0 < (1 + from) / 2 ? "start" : "end" }, `radius ${target}: ${probability(p0)}`)]);
    fill(this.caption, words.map((text, i) => element("span", { class: `box ${["certified", "abstain"][i] ?? ""}` }, text)));
  }

  words() {
    const { certificates, total, labels, target, found: word } = this;
    const certified = certificates.filter(({ decision }) => decision === "certified");
    const of = (found) => `${found.length} of ${total} images, ${percent(found.length / total, 3)}`;
    const right = labels && certified.filter(({ index, class_index }) => class_index === labels[index]);
    return [`${target === null ? word : `${word} at radius ${target}`}: ${of(certified)}`,
      `abstained: ${of(certificates.filter(({ decision }) => decision === "abstain"))}`,
      ...(right ? [`${word === "certified" ? "certified accuracy" : "right"}: ${of(right)}`] : [])];
  }
}
