// The certifications of this key, the newest first, with what came out of each.

import { get } from "./api.js";
import { columns, element, fill } from "./dom.js";
import { imageOf, picture } from "./images.js";
import { outcome, provedRadius, success } from "./outcome.js";
import { problemBox } from "./problem.js";
import { labelOf } from "./procedures.js";
import { ago, STATUS, time, whole } from "./words.js";

const PAGE = 20;   // certifications that are loaded at a time
const FACES = 3;   // images of a batch that are shown

export class History {
  constructor(place, ensembles = []) {
    this.stop = new AbortController();
    this.ensembles = ensembles;
    this.body = element("tbody");
    this.foot = element("div", { class: "actions" });
    fill(place,
      element("header", { class: "answer-head" }, element("div", {},
        element("h2", { class: "title", tabindex: -1 }, "History"),
        element("p", { class: "quiet" }, "Your own certifications. The service keeps each of them for a limited time."))),
      element("div", { class: "scroll" }, element("table", { class: "batch history" },
        columns(["image", "result", "answer", "radius", "ensemble", "forgotten"]), this.body)),
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
      const rows = data.map((summary) => this.row(summary));
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

  row(summary) {
    const { id, status, created_at, finished_at, expires_at, request, ensemble, progress } = summary;
    const { images_total: total, images_done: done, certified } = progress, { files, samples } = request.metadata ?? {};
    const { classes } = this.ensembles.find(({ name }) => name === ensemble) ?? {};
    const images = Array.from({ length: Math.min(total, FACES) }, (_, i) => imageOf({ id, summary }, i, classes));
    const result = element("td", {}, element("span", { class: `status ${status}` }, STATUS[status]));
    const answer = element("td"), radius = element("td", { "data-name": "radius" }, total > 1 && request.radius !== null ? String(request.radius) : "");
    if (total > 1 && done) result.append(element("span", { class: "tally" }, `${whole(certified)} of ${whole(total)} ${success(request.procedure)}`));
    if (total === 1 && done) this.fillIn(id, { result, answer, radius, classes });
    return element("tr", {},
      element("th", { scope: "row" }, element("div", { class: "asked" },
        element("span", { class: "faces" }, images.map(({ url }) => picture(url, 28))),
        element("span", {}, element("a", { href: `#/certifications/${id}` }, total === 1 ? images[0].name : `${whole(total)} images`),
          total > 1 && (files || samples) ? element("span", { class: "fine below long" }, namesOf(images, total)) : null,
          element("span", { class: "fine below", title: time(created_at) }, ago(created_at))))),
      result, answer, radius,
      element("td", { class: "long" }, ensemble, element("span", { class: "fine below" }, labelOf(request.procedure))),
      forgotten(finished_at, expires_at));
  }

  // The outcome of a single image, which the list does not have.
  async fillIn(id, { result, answer, radius, classes }) {
    const { signal } = this.stop;
    const found = await get(`/v1/certifications/${id}`, { signal }).catch(() => null);
    const certificate = found?.certificates[0];
    if (!certificate || signal.aborted) return;
    const { decision, class_index: index, class_name: name } = certificate;
    fill(result, element("span", { class: `decision ${decision}` }, outcome(certificate)));
    answer.textContent = index === null ? "–" : name ?? classes?.[index] ?? `class ${index}`;   // an abstention has none
    radius.textContent = String(provedRadius(certificate) ?? "–");
  }
}

// The names of the first images of a batch.
function namesOf(images, total) {
  return images.map(({ name }) => name).join(", ") + (total > images.length ? ", …" : "");
}

// When the certification is forgotten; that of one under way depends on its end.
function forgotten(finished_at, expires_at) {
  const when = finished_at === null ? "–" : expires_at ? ago(expires_at) : "never";
  return element("td", { title: finished_at === null ? "It has not ended yet." : time(expires_at), "data-name": "forgotten" }, when);
}
