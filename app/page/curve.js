// The curve of a batch: the share of images that are certified at each radius, and of those that are also right.

import { element, fill, svg } from "./dom.js";
import { Plot } from "./plot.js";
import { path } from "./scale.js";
import { percent } from "./words.js";

// The share of all images that are certified at each radius, as the corners [radius, share] of a falling staircase.
export function falling(radii, all) {
  const sorted = radii.toSorted((a, b) => a - b);
  const corners = [[0, sorted.length / all]];
  sorted.forEach((radius, i) => {
    corners.push([radius, (sorted.length - i) / all], [radius, (sorted.length - i - 1) / all]);
  });
  return corners;
}

export class Curve extends Plot {
  constructor() {
    super("chart curve");
  }

  // `labels` has the class of each image, or is null; `target` is the radius that was asked for, or null; `whole` tells
  // whether radii are whole numbers.
  show(certificates, total, { labels, target, whole }) {
    const certified = certificates.filter(({ decision }) => decision === "certified");
    const right = labels && certified.filter(({ index, class_index }) => class_index === labels[index]);
    this.lines = [{ kind: "certified", name: "certified", of: certified }];
    if (right) this.lines.push({ kind: "right", name: "certified accuracy", of: right });
    [this.total, this.target, this.whole] = [total, target, whole];
    this.draw();
  }

  draw() {
    if (!this.width || !this.lines) return;
    const { lines, total } = this;
    const radii = lines.map(({ of }) => of.map(({ radius }) => radius));
    const furthest = 1.15 * (Math.max(this.target ?? 0, ...radii.flat()) || 1);
    const { x, y } = this.scales(0, furthest, 1);
    const step = (corners) => path([...corners, [furthest, 0]].map(([radius, share]) => [x(radius), y(share)]));
    const words = lines.map(({ name, of }) =>
      `${name}: ${of.length} of ${total} images, ${percent(of.length / total, 3)}`);
    this.size(words.join("; "));
    fill(this.drawing,
      this.axes({ x, y }, {
        title: lines.length > 1 ? "Certified accuracy" : "Share certified", about: "by radius", name: "radius",
        levels: [0, 0.25, 0.5, 0.75, 1].map((level) => [level, `${100 * level} %`]),
        ticks: this.ticks(0, furthest).filter((tick) => !this.whole || Number.isInteger(tick)),
      }),
      lines.map(({ kind }, i) => svg("path", { class: `fall ${kind}`, d: step(falling(radii[i], total)) })));
    fill(this.caption, words.map((text, i) => element("span", { class: `key ${lines[i].kind}` }, text)));
  }
}
