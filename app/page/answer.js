// The answer: one certification while it runs and when it has ended, by its single image or its batch.

import { post } from "./api.js";
import { Batch } from "./batch.js";
import { element, fill, say } from "./dom.js";
import { follow } from "./follow.js";
import { Single } from "./single.js";
import { problemBox, procedureName, STATUS, whole } from "./words.js";

const SAY_EVERY = 5000;

export class Answer {
  constructor(place, { id, index, ensembles }) {
    this.index = index;
    this.ensembles = ensembles;
    this.saidAt = 0;
    this.parts = {};
    const part = (name, tag = "div", attributes = {}) => {
      this.parts[name] = element(tag, { class: name, ...attributes });
      return this.parts[name];
    };
    fill(place,
      element("header", { class: "answer-head" }, part("face"),
        element("div", {}, part("title", "h2", { tabindex: -1 }), part("state", "p"))),
      part("trouble"), part("words"), part("figures", "dl"), part("main"), part("actions"), part("pixels"),
      part("table"));
    this.parts.title.textContent = "One moment …";
    this.following = follow(id, (certification) => this.changed(certification), (problem) => this.failed(problem));
  }

  close() {
    this.following.stop();
  }

  failed(problem) {
    this.parts.title.textContent = "No answer";
    fill(this.parts.trouble, problemBox(problem));
  }

  changed(certification) {
    this.certification = certification;
    this.ensemble = this.ensembles.find(({ name }) => name === certification.summary.ensemble) ?? null;
    if (!(this.index < certification.total)) this.index = null;
    this.view ??= this.index !== null || certification.total === 1
      ? new Single(this, this.index ?? 0) : new Batch(this);
    this.showState();
    this.showTrouble();
    this.view.show();
    this.showActions();
    this.announce();
  }

  showState() {
    const { summary, progress, total } = this.certification;
    const { request, status, queue_position: before } = summary;
    const asked = [procedureName(request.procedure), `sigma ${request.sigma}`,
      request.radius === null ? null : `radius ${request.radius}`].filter(Boolean).join(" · ");
    const place = status === "queued" && before ? `, ${whole(before)} before it` : "";
    const done = total > 1 ? `, ${whole(progress.images_done)} of ${whole(total)} images` : "";
    fill(this.parts.state, element("span", { class: `status ${status}` }, `${STATUS[status]}${place}${done}`),
      element("span", {}, asked, " · ", element("span", { class: "unbroken" }, summary.ensemble)));
  }

  showTrouble() {
    const { error, status } = this.certification.summary;
    if (error) fill(this.parts.trouble, problemBox({ title: "The certification failed", ...error }));
    else if (status === "canceled")
      fill(this.parts.trouble, element("p", { class: "quiet" }, "What was counted until then proves nothing."));
  }

  // What one can do now; made anew only where that has changed, so that a button keeps its focus.
  showActions() {
    const { certification, view, parts, index } = this;
    const { id, ended, total } = certification;
    const own = view.actions();
    const kind = [ended, ...Object.keys(own)].join();
    if (this.kind === kind) return;
    this.kind = kind;
    fill(parts.actions,
      ended ? null : button("Cancel", ({ target }) => this.cancel(target)),
      Object.entries(own).map(([name, act]) => button(name, act)),
      index === null ? null : link(`All ${whole(total)} images`, `#/certifications/${id}`),
      link("Link to this", location.hash),
      element("output", { class: "outcome" }));
  }

  tell(...content) {
    fill(this.parts.actions.querySelector("output"), content);
  }

  async cancel(pressed) {
    pressed.disabled = true;
    try {
      await post(`/v1/certifications/${this.certification.id}/cancel`, {});
    } catch (problem) {
      this.tell(problemBox(problem));
    }
  }

  // To those who listen: every change of the status, and the samples from time to time.
  announce() {
    const { summary, progress, ended } = this.certification;
    const due = performance.now() - this.saidAt > SAY_EVERY && !ended;
    if (this.view.told || (summary.status === this.saidStatus && !due)) return;
    [this.saidStatus, this.saidAt] = [summary.status, performance.now()];
    say(`${STATUS[summary.status]}, ${whole(progress.samples)} samples`);
  }
}

const button = (name, click) => element("button", { type: "button", click }, name);
const link = (name, href) => element("a", { class: "button", href }, name);
