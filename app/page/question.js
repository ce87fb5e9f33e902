// The question: what is asked about the images. Its plan is shown while it is typed.

import { get, post } from "./api.js";
import { byId, element, fill } from "./dom.js";
import { formOf, fromImages, named, remember } from "./images.js";
import { isExhaustive, isWhole, NoiseInputs } from "./noise.js";
import { unitOf, usualRadius } from "./norms.js";
import { planBox } from "./plan.js";
import { choices, loadProcedures } from "./procedures.js";
import { number, problemBox } from "./words.js";

const DEBOUNCE = 250;     // milliseconds from the last change of the form until its plan is asked for
const LOOK_AGAIN = 3000;  // milliseconds between two looks for an ensemble that is ready

// What a procedure finds that is not asked to prove a given radius.
const aim = ({ targeted, predicts }) => (targeted ? "" : predicts ? ": the class alone" : ": the largest radius");

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
    this.norm = null;
    this.supremum = null;
    this.noise = new NoiseInputs({ changed: () => this.takeNoise() });
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
    this.offerProcedures();
  }

  // The procedures that go with the noise.
  offerProcedures() {
    const exhaustive = isExhaustive(this.noise.noise ?? {});
    if (this.choices.length && this.choices[0].card.exhaustive === exhaustive) return;
    this.choices = choices().filter(({ card }) => card.exhaustive === exhaustive);
    fill(this.field("procedure"), this.choices.map(({ label, card }) =>
      element("option", { value: label }, label + aim(card))));
    this.takeProcedure();
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
    this.noise.take(ensemble);
    this.takeNoise();
    if (!ensemble) return;
    const { members, voting, votings, input_shape } = ensemble;
    const [channels, height, width] = input_shape;
    byId("image-size").textContent = `${width} × ${height} pixels, ${channels === 1 ? "grey" : "RGB"}`;
    fill(this.field("voting"), votings.map((name) =>
      element("option", { value: name, selected: name === voting }, name)));
    const leading = members.slice(0, -1).map((_, i) => i + 1);
    fill(this.field("consensus"), element("option", { value: "" }, `all ${members.length} vote`),
      leading.map((k) => element("option", { value: k }, `first ${k}`)));
  }

  // Radii in another norm have another size, and in l0 they are whole numbers.
  takeNoise() {
    const { noise } = this.noise, radius = this.field("radius");
    if (noise.norm !== this.norm) radius.value = usualRadius(noise.norm) ?? radius.value;
    this.norm = noise.norm;
    this.supremum = null;
    const kind = isWhole(noise) ? { type: "number", min: 0, step: 1, inputmode: "numeric" } : { type: "text", inputmode: "decimal" };
    for (const [name, value] of Object.entries(kind)) radius.setAttribute(name, value);
    this.offerProcedures();
    this.plan();
  }

  // What the radius means beside its number, and where radii end.
  showUnit() {
    const { supremum } = this;
    const unit = unitOf(this.norm, number(this.field("radius").value));
    byId("radius-unit").textContent = [unit, supremum === null ? "" : `below ${supremum}`].filter(Boolean).join(", ");
  }

  takeProcedure() {
    const { budget, summary, targeted } = this.choice.card;
    this.field("samples").disabled = !budget;
    byId("samples-label").textContent = budget?.label ?? "Samples";
    this.field("samples").value = budget?.default ?? "";
    this.field("samples").title = budget?.help ?? "All outcomes of the noise are evaluated.";
    this.field("procedure").title = summary;
    this.field("radius").disabled = this.field("beta").disabled = !targeted;
    this.plan();
  }

  // The procedure as it is posted.
  procedure() {
    const { card, parameters } = this.choice;
    if (!card.budget) return { name: card.name, ...parameters };
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
    this.showUnit();
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
      this.supremum = plan.supremum;
      this.showUnit();
      fill(byId("plan"), planBox(plan, request.procedure, this.norm));
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
    if (first === "procedure" && rest.includes(this.choice.card.budget?.field)) return [this.field("samples")];
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
