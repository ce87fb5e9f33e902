// A picture of the images within a radius: the ball of the norm for two values or, in l0, values that may change.

import { scattered } from "./changes.js";
import { element, svg } from "./dom.js";
import { measured } from "./norms.js";
import { whole } from "./words.js";

const REACH = 1.45;      // of the axes, in radii
const GRID = 0.2;        // the distance of 8-bit images from each other, in radii; in truth it is far smaller
const MOST_MARKS = 100;  // values that are marked in l0

// The outline of a ball of radius one, and whether a point lies inside.
const BALLS = {
  l2: { outline: () => svg("circle", { class: "ball-edge", r: 1 }), holds: (x, y) => Math.hypot(x, y) < 1 },
  l1: { outline: () => svg("path", { class: "ball-edge", d: "M0-1L1 0L0 1L-1 0Z" }), holds: (x, y) => Math.abs(x) + Math.abs(y) < 1 },
  linf: { outline: () => svg("path", { class: "ball-edge", d: "M-1-1H1V1H-1Z" }), holds: (x, y) => Math.max(Math.abs(x), Math.abs(y)) < 1 },
};

export function ball({ norm }, radius, { eightBit, shape, url }) {
  if (norm === "l0") return marked(radius, shape, url);
  return BALLS[norm] ? drawn(norm, radius, { eightBit, shape }) : null;
}

function drawn(norm, radius, { eightBit, shape }) {
  const { outline, holds } = BALLS[norm];
  const values = whole(shape.reduce((product, each) => product * each, 1));
  const caption = `The ball of radius ${radius} around the image x, for two of its ${values} values. The edge is not part of it`
    + (eightBit ? ", and only its 8-bit images, the dots, are meant." : ".");
  return element("figure", { class: "ball" },
    svg("svg", { viewBox: `${-REACH} ${-REACH} ${2 * REACH} ${2 * REACH}`, role: "img", "aria-label": caption },
      svg("path", { class: "ball-axis", d: `M${-REACH} 0H${REACH}M0 ${-REACH}V${REACH}` }),
      outline(), eightBit ? dots(holds) : null,
      svg("circle", { class: "ball-centre", r: 0.06 }),
      svg("text", { x: 0.1, y: -0.12 }, "x"), svg("text", { x: 1.06, y: -0.08 }, "r")),
    element("figcaption", {}, caption));
}

function dots(holds) {
  const steps = Array.from({ length: 11 }, (_, i) => (i - 5) * GRID);
  return steps.flatMap((x) => steps.filter((y) => holds(x, y)).map((y) =>
    svg("circle", { class: "ball-dot", cx: x.toFixed(2), cy: y.toFixed(2), r: 0.025 })));
}

// The image with as many marks as values may change; the colour of a mark is that of the value's channel.
function marked(radius, shape, url) {
  const [channels, height, width] = shape;
  const places = scattered(Math.min(radius, MOST_MARKS), shape).map((v) => {
    const pixel = Math.floor(v / channels);
    return { x: pixel % width, y: Math.floor(pixel / width), channel: channels === 3 ? v % 3 : "" };
  });
  const caption = `${radius === 1 ? "One value is" : `${measured("l0", radius)} are`} marked, for example: whatever `
    + `${radius === 1 ? "it becomes" : "they become"}, the answer stays. So it does for any other choice.`;
  const room = width / 60;  // between a value and its mark
  const box = ({ x, y }, kind) =>
    svg("rect", { class: kind, x: x - room, y: y - room, width: 1 + 2 * room, height: 1 + 2 * room });
  return element("figure", { class: "ball" },
    svg("svg", { viewBox: `-1 -1 ${width + 2} ${height + 2}`, role: "img", "aria-label": caption },
      url ? svg("image", { href: url, width, height }) : svg("rect", { class: "ball-blank", width, height }),
      places.map((place) => [box(place, "mark-edge"), box(place, `mark channel${place.channel}`)])),
    element("figcaption", {}, caption));
}
