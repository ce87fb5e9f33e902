// The question: what is asked about the images. Its plan is shown while it is typed.

import { get, post } from "./api.js";
import { byId, element, fill } from "./dom.js";
import { formOf, fromImages, named, remember } from "./images.js";
import { NoiseInputs } from "./noise.js";
import { planBox } from "./plan.js";
import { choices, loadProcedures } from "./procedures.js";
import { number, problemBox } from "./words.js";

const DEBOUNCE = 250;     // milliseconds from the last change of the form until its plan is asked for
const LOOK_AGAIN = 3000;  // milliseconds between two looks for an ensemble that is ready

export class Question {
  constructor({ form, images, planned }) {
    this.form = form;
    this.images = images;
    this.planned = planned;
    this.ensembles = [];
    this.choices = [];
    this.latest = null;
    this.unanswered = null;
    this.timer = 0;
    this.noise = new NoiseInputs({ changed: () => this.plan() });
    form.addEventListener("input", () => this.plan());
    this.field("ensemble").addEventListener("change", () => this.takeEnsemble());
    this.field("procedure").addEventListener("change", () => this.takeProcedure());
  }

  field(name) {
    return this.form.elements[name];
  }

  async load() {
    await Promise.all([this.images.load(), this.loadProcedures(), this.noise.load()]);
    await this.loadEnsembles();
    this.takeProcedure();
  }

  async loadProcedures() {
    await loadProcedures();
    this.choices = choices();
    fill(this.field("procedure"), this.choices.map(({ label, card }) =>
      element("option", { value: label }, card.targeted ? label : `${label}: the largest radius`)));
  }

  // Load the ensembles, again and again until one of them is ready.
  async loadEnsembles() {
    const { data } = await get("/v1/ensembles");
    const [before, chosen] = [this.ensembles.length, this.field("ensemble").value];
    this.ensembles = data;
    fill(this.field("ensemble"), data.map(({ name, ready }) =>
      element("option", { value: name }, ready ? name : `${name} (not ready)`)));
    if (before) this.field("ensemble").value = chosen;
    else {
      const first = data.find((each) => each.default) ?? data[0];
      if (first) this.field("ensemble").value = first.name;
      this.takeEnsemble();
    }
    if (!data.some(({ ready }) => ready)) setTimeout(() => this.loadEnsembles().catch(() => null), LOOK_AGAIN);
  }

  get ensemble() {
    return this.ensembles.find(({ name }) => name === this.field("ensemble").value);
  }

  get choice() {
    return this.choices[this.field("procedure").selectedIndex];
  }

  takeEnsemble() {
    const { ensemble } = this;
    this.images.offer(ensemble);
    this.noise.take(ensemble?.noise ?? null);
    if (!ensemble) return this.plan();
    const { members, voting, votings, input_shape } = ensemble;
    const [channels, height, width] = input_shape;
    byId("image-size").textContent = `${width} × ${height} pixels, ${channels === 1 ? "grey" : "RGB"}`;
    fill(this.field("voting"), votings.map((name) =>
      element("option", { value: name, selected: name === voting }, name)));
    const leading = members.slice(0, -1).map((_, i) => i + 1);
    fill(this.field("consensus"), element("option", { value: "" }, `all ${members.length} vote`),
      leading.map((k) => element("option", { value: k }, `first ${k}`)));
    this.plan();
  }

  takeProcedure() {
    const { budget, summary, targeted } = this.choice.card;
    byId("samples-label").textContent = budget.label;
    this.field("samples").value = budget.default;
    this.field("samples").title = budget.help;
    this.field("procedure").title = summary;
    this.field("radius").disabled = this.field("beta").disabled = !targeted;
    this.plan();
  }

  // The procedure as it is posted.
  procedure() {
    const { card, parameters } = this.choice;
    const { field, several } = card.budget;
    const text = this.field("samples").value;
    const budget = several ? text.split(/[\s,]+/).filter(Boolean).map(number) : number(text);
    return { name: card.name, ...parameters, [field]: budget };
  }

  // The request as it is posted, without the images.
  request() {
    const value = (name) => this.field(name).value;
    const request = {
      ensemble: value("ensemble") || undefined,
      noise: this.noise.value,
      alpha: number(value("alpha")),
      procedure: this.procedure(),
      voting: value("voting") || undefined,
      consensus: number(value("consensus")) ?? null,
    };
    if (this.choice.card.targeted) {
      Object.assign(request, { radius: number(value("radius")), beta: number(value("beta")) });
    }
    if (this.field("mismatch").checked) request.allow_noise_mismatch = true;
    return request;
  }

  plan() {
    byId("mismatch").hidden = !this.noise.differs;
    clearTimeout(this.timer);
    this.latest?.abort();
    this.timer = setTimeout(() => this.askForPlan(), DEBOUNCE);
  }

  async askForPlan() {
    if (!this.choice) return;
    const latest = (this.latest = new AbortController());
    const request = { ...this.request(), image_count: Math.max(1, this.images.chosen.length) };
    try {
      const plan = await post("/v1/plan", request, { signal: latest.signal });
      this.mark([]);
      fill(byId("plan"), planBox(plan, request.procedure));
      this.planned(plan, request);
    } catch (error) {
      if (latest.signal.aborted) return;
      this.mark(error.errors ?? []);
      fill(byId("plan"), problemBox(error));
      this.planned(null, request);
    }
  }

  // Mark the inputs whose values the server refused.
  mark(errors) {
    const wrong = new Set(errors.flatMap(({ field }) => this.inputsOf(field.split("."))));
    for (const input of this.form.elements) {
      if (wrong.has(input)) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
    const remedy = errors.some(({ message }) => message.includes("`convert`"));
    if (remedy || wrong.has(this.field("samples")) || wrong.has(this.field("convert"))) byId("more").open = true;
  }

  // The inputs for a field of the request, by its path.
  inputsOf([first, ...rest]) {
    if (first === "noise") return this.noise.named(rest);
    if (first === "procedure" && rest.includes(this.choice.card.budget.field)) return [this.field("samples")];
    return [this.field(first)].filter(Boolean);
  }

  async submit() {
    const { chosen } = this.images;  // others may be chosen before the answer comes
    const request = { ...this.request(), ...fromImages(chosen), convert: this.field("convert").value };
    const form = await formOf(chosen, request);
    const headers = { "Idempotency-Key": this.key(chosen, JSON.stringify(request)) };
    const { id } = await post("/v1/certifications", form, { headers }).catch((problem) => {
      throw named(chosen, problem);
    });
    this.unanswered = null;
    remember(id, chosen);
    return id;
  }

  // A question that is sent again because no answer came has the same key as before, and is certified once.
  key(chosen, text) {
    const { unanswered } = this;
    if (unanswered?.chosen !== chosen || unanswered.text !== text) {
      this.unanswered = { chosen, text, key: crypto.getRandomValues(new Uint8Array(16)).join("") };
    }
    return this.unanswered.key;
  }
}
