// The plots of a batch: a title, rules across, and an axis below.

import { svg } from "./dom.js";
import { Frame } from "./frame.js";
import { linear, rounds } from "./scale.js";
import { short } from "./words.js";

export const LEFT = 46, RIGHT = 14, TOP = 26, HEIGHT = 190, BOTTOM = 38;

export class Plot extends Frame {
  // The places of values between `from` and `to` on the axis below, and between 0 and `most` above it.
  scales(from, to, most) {
    return { x: linear(from, to, LEFT, this.width - RIGHT), y: linear(0, most, TOP + HEIGHT, TOP) };
  }

  size(spoken) {
    super.size(TOP + HEIGHT + BOTTOM, spoken);
  }

  // Round values between `from` and `to`, as many as the width has room for.
  ticks(from, to) {
    return rounds(from, to, this.width < 480 ? 4 : 7);
  }

  // `levels` are the rules, each a value and its text; `ticks` are the values on the axis, which is called `name`.
  axes({ x, y }, { title, about, levels, ticks, name }) {
    const end = this.width - RIGHT;
    return [
      svg("text", { class: "title", x: LEFT, y: TOP - 10 }, title, svg("tspan", { class: "name" }, `  ${about}`)),
      levels.map(([level, text]) => [
        svg("line", { class: "rule", x1: LEFT, x2: end, y1: y(level), y2: y(level) }),
        svg("text", { class: "tick", x: LEFT - 8, y: y(level) + 4, "text-anchor": "end" }, text),
      ]),
      ticks.map((tick) =>
        svg("text", { class: "tick", x: x(tick), y: TOP + HEIGHT + 16, "text-anchor": "middle" }, short(tick))),
      svg("text", { class: "name", x: end, y: TOP + HEIGHT + 32, "text-anchor": "end" }, name),
    ];
  }
}
