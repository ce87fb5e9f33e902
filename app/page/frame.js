// A drawing with a caption, which is drawn anew when its width changes.

import { element, svg } from "./dom.js";

export class Frame {
  constructor(kind) {
    this.drawing = svg("svg", { class: kind, role: "img" });
    this.caption = element("figcaption", { class: "readout" });
    this.figure = element("figure", {}, this.drawing, this.caption);
    this.width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (Math.abs(contentRect.width - this.width) > 1) this.draw((this.width = contentRect.width));
    }).observe(this.figure);
  }

  // The height, and what the drawing shows, in words.
  size(height, spoken) {
    this.drawing.setAttribute("viewBox", `0 0 ${this.width} ${height}`);
    this.drawing.setAttribute("height", height);
    this.drawing.setAttribute("aria-label", spoken);
  }
}
