// The answer: one certification, while it runs and when it has ended, as a single image or as a batch.

import { post } from "./api.js";
import { Batch } from "./batch.js";
import { element, fill, say } from "./dom.js";
import { follow } from "./follow.js";
import { failure, problemBox } from "./problem.js";
import { labelOf } from "./procedures.js";
import { Single } from "./single.js";
import { noiseLabel, STATUS, whole } from "./words.js";

const SAY_EVERY = 5000;  // milliseconds between two announcements of the number of samples

export class Answer {
  // `again(request, image, radius)` puts the question into the form with another radius.
  constructor(place, { id, index, ensembles, again }) {
    this.index = index;
    this.ensembles = ensembles;
    this.again = again;
    this.ticking = 0;
    this.announcedAt = 0;
    this.parts = {};
    const part = (name, tag = "div", attributes = {}) => {
      this.parts[name] = element(tag, { class: name, ...attributes });
      return this.parts[name];
    };
    fill(place,
      element("header", { class: "answer-head" }, part("face"),
        element("div", {}, part("title", "h2", { tabindex: -1 }), part("state", "p"))),
      part("trouble"), part("words"), part("figures", "dl"), part("bars"), part("main"), part("actions"), part("pixels"),
      part("table"));
    this.parts.title.textContent = "One moment …";
    this.following = follow(id, {
      changed: (certification) => this.changed(certification),
      lost: (problem) => this.lost(problem),
      failed: (problem) => this.failed(problem),
    });
  }

  close() {
    clearInterval(this.ticking);
    this.following.stop();
  }

  failed(problem) {
    this.parts.title.textContent = "No answer";
    fill(this.parts.trouble, problemBox(problem));
  }

  lost(problem) {
    const text = `${problem.status ? problem.title : "No contact with the server"}; trying again …`;
    fill(this.parts.trouble, element("p", { class: "wrong" }, text));
    say(text);
  }

  changed(certification) {
    if (!this.names(certification)) return this.noSuchImage(certification);
    this.certification = certification;
    this.ensemble = this.ensembles.find(({ name }) => name === certification.summary.ensemble) ?? null;
    this.view ??= this.index !== null || certification.total === 1
      ? new Single(this, this.index ?? 0) : new Batch(this);
    this.showState();
    this.showTrouble();
    this.view.show();
    this.showActions();
    this.announce();
  }

  // Whether the certification has the image that the link asks for, if it asks for one.
  names({ total }) {
    const { index } = this;
    return index === null || (Number.isInteger(index) && index >= 0 && index < total);
  }

  noSuchImage({ id, total }) {
    this.close();
    const has = total === 1 ? "there is only image 0" : `they are numbered from 0 to ${total - 1}`;
    this.failed({ title: "There is no such image", detail: `The link asks for image ${this.index}; ${has}.` });
    fill(this.parts.actions, link(total === 1 ? "The image" : `All ${whole(total)} images`, `#/certifications/${id}`));
  }

  showState() {
    const { summary, progress, total } = this.certification;
    const { request, status, queue_position: before } = summary;
    const question = [labelOf(request.procedure), noiseLabel(request.noise),
      request.radius === null ? null : `radius ${request.radius}`].filter(Boolean).join(" · ");
    const place = status === "queued" && before ? `, ${whole(before)} before it` : "";
    const done = total > 1 ? `, ${whole(progress.images_done)} of ${whole(total)} images` : "";
    fill(this.parts.state, element("span", { class: `status ${status}` }, `${STATUS[status]}${place}${done}`),
      element("span", {}, question, " · ", element("span", { class: "unbroken" }, summary.ensemble)));
  }

  showTrouble() {
    const { error, status } = this.certification.summary;
    if (error) fill(this.parts.trouble, problemBox(failure(error)));
    else if (status === "canceled")
      fill(this.parts.trouble, element("p", { class: "quiet" }, "What was counted for images that were not finished proves nothing."));
    else if (this.certification.stall && !this.certification.ended) this.showStall();
    else fill(this.parts.trouble);
    if (!this.certification.stall || this.certification.ended) this.ticking = clearInterval(this.ticking);
  }

  // Say that no worker is working on it, and when one will.
  showStall() {
    const { stall, summary } = this.certification;
    const text = stalled(stall, summary.status, Date.now());
    fill(this.parts.trouble, element("p", { class: "wrong stall" }, text));
    if (!this.ticking) {
      say(text);
      this.ticking = setInterval(() => this.showTrouble(), 1000);
    }
  }

  // Show what can be done now. The buttons are replaced only if that has changed, so that one of them keeps its focus.
  showActions() {
    const { certification, view, parts, index } = this;
    const { id, ended, total } = certification;
    const own = view.actions();
    const kind = [ended, ...Object.keys(own)].join();
    if (this.kind === kind) return;
    this.kind = kind;
    const held = parts.actions.contains(document.activeElement);
    fill(parts.actions,
      ended ? null : button("Cancel", ({ target }) => this.cancel(target)),
      Object.entries(own).map(([name, act]) => button(name, act)),
      index === null || total === 1 ? null : link(`All ${whole(total)} images`, `#/certifications/${id}`),
      button("Copy link", () => this.copyLink()),
      element("output", { class: "outcome" }));
    if (held) parts.title.focus();
  }

  tell(...content) {
    fill(this.parts.actions.querySelector("output"), content);
  }

  async copyLink() {
    try {
      await navigator.clipboard.writeText(location.href);
      this.tell("The link is copied.");
    } catch {  // a page may not write to the clipboard over plain HTTP
      const address = element("code", {}, location.href);
      this.tell("The link, to be copied by hand: ", address);
      getSelection().selectAllChildren(address);
    }
  }

  async cancel(pressed) {
    this.parts.title.focus();  // a button that is disabled loses the focus
    pressed.disabled = true;
    try {
      await post(`/v1/certifications/${this.certification.id}/cancel`, {});
    } catch (problem) {
      pressed.disabled = false;
      this.tell(problemBox(problem));
    }
  }

  // Tell screen readers every change of the status, and the number of samples from time to time.
  announce() {
    const { summary, progress, ended, stall } = this.certification;
    if (stall && !ended) return;  // that was said, and is to be heard to its end
    const due = performance.now() - this.announcedAt > SAY_EVERY && !ended;
    if (this.view.announced || (summary.status === this.announcedStatus && !due)) return;
    [this.announcedStatus, this.announcedAt] = [summary.status, performance.now()];
    say(`${STATUS[summary.status]}, ${whole(progress.samples)} samples`);
  }
}

const button = (name, click) => element("button", { type: "button", click }, name);
const link = (name, href) => element("a", { class: "button", href }, name);

// Why a certification does not move and when it goes on, in words.
export function stalled({ since, until, workers }, status, now) {
  if (status === "queued") return "No worker with this ensemble is alive. The work goes on as soon as one starts; nothing is lost.";
  const next = workers ? "another worker goes on from the last checkpoint" : "the work goes on from the last checkpoint as soon as a worker starts";
  if (since === null) return `The worker is lost: ${next}${workers ? ", in a moment" : ""}.`;
  const silent = Math.max(0, Math.round((now - Date.parse(since)) / 1000));
  const left = until === null ? 0 : Math.ceil((Date.parse(until) - now) / 1000);
  const when = left > 0 ? `in ${left} s ` : "";
  return `The worker has given no sign of life for ${silent} s. If it stays silent, ${when}${next}.`;
}
