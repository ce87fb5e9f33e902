// The curve of a batch: the share of images that are certified at each radius, and of those that are also right.

import { element, fill, svg } from "./dom.js";
import { linear, path, rounds } from "./scale.js";
import { percent, short } from "./words.js";

const LEFT = 46, RIGHT = 14, TOP = 26, HEIGHT = 190, BOTTOM = 38;

// The share of all images that are certified at each radius, as the corners [radius, share] of a falling staircase.
export function falling(radii, all) {
  const sorted = radii.toSorted((a, b) => a - b);
  const corners = [[0, sorted.length / all]];
  sorted.forEach((radius, i) => {
    corners.push([radius, (sorted.length - i) / all], [radius, (sorted.length - i - 1) / all]);
  });
  return corners;
}

export class Curve {
  constructor() {
    this.drawing = svg("svg", { class: "chart curve", role: "img" });
    this.caption = element("figcaption", { class: "readout" });
    this.figure = element("figure", {}, this.drawing, this.caption);
    this.width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (Math.abs(contentRect.width - this.width) > 1) this.draw((this.width = contentRect.width));
    }).observe(this.figure);
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
    const { width, lines, total } = this;
    const radii = lines.map(({ of }) => of.map(({ radius }) => radius));
    const furthest = 1.15 * (Math.max(this.target ?? 0, ...radii.flat()) || 1);
    const x = linear(0, furthest, LEFT, width - RIGHT), y = linear(0, 1, TOP + HEIGHT, TOP);
    const step = (corners) => path([...corners, [furthest, 0]].map(([radius, share]) => [x(radius), y(share)]));
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${TOP + HEIGHT + BOTTOM}`);
    this.drawing.setAttribute("height", TOP + HEIGHT + BOTTOM);
    const words = lines.map(({ name, of }) =>
      `${name}: ${of.length} of ${total} images, ${percent(of.length / total, 3)}`);
    this.drawing.setAttribute("aria-label", words.join("; "));
    fill(this.drawing,
      svg("text", { class: "title", x: LEFT, y: TOP - 10 }, lines.length > 1 ? "Certified accuracy" : "Share certified",
        svg("tspan", { class: "name" }, "  by radius")),
      [0, 0.25, 0.5, 0.75, 1].map((tick) => [
        svg("line", { class: "rule", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }),
        svg("text", { class: "tick", x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, `${100 * tick} %`),
      ]),
      rounds(0, furthest, width < 480 ? 4 : 7).filter((tick) => !this.whole || Number.isInteger(tick)).map((tick) =>
        svg("text", { class: "tick", x: x(tick), y: TOP + HEIGHT + 16, "text-anchor": "middle" }, short(tick))),
      svg("text", { class: "name", x: width - RIGHT, y: TOP + HEIGHT + 32, "text-anchor": "end" }, "radius"),
      lines.map(({ kind }, i) => svg("path", { class: `fall ${kind}`, d: step(falling(radii[i], total)) })));
    fill(this.caption, words.map((text, i) => element("span", { class: `key ${lines[i].kind}` }, text)));
  }
}
