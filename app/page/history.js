// The certifications of this key, the newest first.

import { get } from "./api.js";
import { columns, element, fill } from "./dom.js";
import { labelOf } from "./procedures.js";
import { problemBox, STATUS, time, whole } from "./words.js";

const PAGE = 20;  // certifications that are loaded at a time

export class History {
  constructor(place) {
    this.stop = new AbortController();
    this.body = element("tbody");
    this.foot = element("div", { class: "actions" });
    fill(place,
      element("header", { class: "answer-head" }, element("div", {},
        element("h2", { class: "title", tabindex: -1 }, "History"),
        element("p", { class: "quiet" }, "Your own certifications; the service deletes them after a while."))),
      element("div", { class: "scroll" }, element("table", { class: "batch" },
        columns(["created", "status", "images", "radius", "procedure", "samples"]), this.body)),
      this.foot);
    this.load("");
  }

  close() {
    this.stop.abort();
  }

  async load(cursor) {
    const { signal } = this.stop;
    const query = new URLSearchParams({ limit: PAGE, ...(cursor ? { cursor } : {}) });
    try {
      const { data, next_cursor: next } = await get(`/v1/certifications?${query}`, { signal });
      const rows = data.map(row);
      this.body.append(...rows);
      if (cursor) rows[0]?.querySelector("a").focus();
      fill(this.foot, next ? this.button("Older ones", next) : null,
        !next && !this.body.children.length ? element("p", { class: "quiet" }, "There is nothing here yet.") : null);
    } catch (problem) {
      if (!signal.aborted) fill(this.foot, problemBox(problem), this.button("Try again", cursor));
    }
  }

  button(name, cursor) {
    const click = ({ target }) => {
      target.disabled = true;
      this.load(cursor);
    };
    return element("button", { type: "button", click }, name);
  }
}

function row({ id, status, created_at, request, progress }) {
  const { images_total, samples } = progress;
  return element("tr", {},
    element("th", { scope: "row" }, element("a", { href: `#/certifications/${id}` }, time(created_at))),
    element("td", {}, element("span", { class: `status ${status}` }, STATUS[status])),
    element("td", {}, whole(images_total)), element("td", {}, String(request.radius ?? "–")),
    element("td", {}, labelOf(request.procedure)), element("td", {}, whole(samples)));
}
