// The question: what is asked about the images. Its plan is shown while it is typed.

import { get, post } from "./api.js";
import { Classes } from "./classes.js";
import { byId, element, fill } from "./dom.js";
import { remoteNote, showFailed } from "./ensembles.js";
import { formOf, fromImages, named, remember } from "./images.js";
import { isExhaustive, isWhole, NoiseInputs } from "./noise.js";
import { unitOf, usualRadius } from "./norms.js";
import { outOfReach, planBox } from "./plan.js";
import { problemBox } from "./problem.js";
import { choices, loadProcedures, variantOf } from "./procedures.js";
import { count, number, whole } from "./words.js";

const DEBOUNCE = 250;     // milliseconds from the last change of the form until its plan is asked for
const LOOK_AGAIN = 3000;  // milliseconds between two looks for an ensemble that is ready
const GONE = new Set(["unknown_ensemble", "ensemble_not_loaded"]);  // codes of problems with the ensemble itself

// What a procedure finds if it is not asked to prove a given radius.
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
    this.timer = this.lookingAgain = 0;
    this.norm = null;
    this.supremum = null;
    this.classes = new Classes();
    this.noise = new NoiseInputs({ changed: () => this.takeNoise() });
    form.addEventListener("input", () => this.plan());
    this.picked = false;  // whether the user has chosen the ensemble
    this.latestPlan = null;
    this.field("ensemble").addEventListener("change", () => ((this.picked = true), this.takeEnsemble()));
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

  // The procedures that go with the noise, and with the superclasses of the ensemble; the chosen one stays if it does.
  offerProcedures() {
    const exhaustive = isExhaustive(this.noise.noise ?? {}), declared = this.ensemble?.superclasses?.length > 0;
    const offered = choices().filter(({ card }) => card.exhaustive === exhaustive && (declared || !card.hierarchical));
    const names = ({ label }) => label, before = this.choice?.label;
    if (offered.map(names).join() === this.choices.map(names).join()) return;
    this.choices = offered;
    fill(this.field("procedure"), offered.map(({ label, card }) =>
      element("option", { value: label, selected: label === before }, label + aim(card))));
    if (this.choice?.label !== before) this.takeProcedure();
  }

  // Load the ensembles, again and again until the chosen one is ready. One that is ready is chosen for the user, until
  // the user chooses one.
  async loadEnsembles() {
    const { data, failed } = await get("/v1/ensembles");
    const before = this.ensemble;
    showFailed(failed ?? [], !data.length);
    this.ensembles = data;
    const ready = data.filter((each) => each.ready), among = ready.length ? ready : data;
    const first = among.find((each) => each.default) ?? among[0];
    const kept = data.find(({ name }) => name === before?.name);
    const chosen = kept && (this.picked || kept.ready || !ready.length) ? kept : first;
    fill(this.field("ensemble"), data.map((each) =>
      element("option", { value: each.name, selected: each === chosen }, each.ready ? each.name : `${each.name} (not ready: requests wait)`)));
    if (chosen && chosen.digest !== before?.digest) this.takeEnsemble();
    else if (!chosen) this.takeEnsemble();
    clearTimeout(this.lookingAgain);
    if (!chosen?.ready) this.lookingAgain = setTimeout(() => this.loadEnsembles().catch(() => null), LOOK_AGAIN);
  }

  // Offer what the service has now, where it refuses the chosen ensemble: it may have been started with another zoo.
  replaceEnsembles({ code }) {
    if (this.ensemble && GONE.has(code)) this.loadEnsembles().catch(() => null);
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
    this.classes.take(ensemble?.classes ?? []);
    this.noise.take(ensemble);
    this.takeNoise();
    if (!ensemble) return;
    const { members, voting, votings, input_shape } = ensemble;
    const [channels, height, width] = input_shape;
    byId("ensemble-note").textContent = remoteNote(ensemble);
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
    byId("samples-limit").textContent = budget?.most ? `at most ${whole(budget.most)}` : "";
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
    const budget = several ? text.split(/[\s,]+/).filter(Boolean).map(number) : count(text);
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
    if (this.noise.differs || !this.noise.known) byId("more").open = true;
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
      this.latestPlan = plan;
      fill(byId("plan"), planBox(plan, request.procedure, this.norm, this.remedies(), request.image_count));
      this.planned(plan, request);
    } catch (error) {
      if (latest.signal.aborted) return;
      this.latestPlan = null;
      this.mark(error.errors ?? []);
      fill(byId("plan"), this.problem(error));
      this.planned(null, request);
      this.replaceEnsembles(error);
    }
  }

  // How a radius or a budget is put into the form; neither where the procedure has no such input.
  remedies() {
    const { budget, targeted } = this.choice.card;
    const put = (name, value) => {
      const input = this.field(name);
      if (name === "samples") byId("more").open = true;
      input.value = value;
      fill(byId("refused"));
      this.plan();
      input.focus();
    };
    const enough = (needed) => (budget.several ? [...this.field("samples").value.split(/[\s,]+/).filter(Boolean).slice(0, -1), needed].join(" ") : needed);
    return {
      radius: targeted ? (radius) => put("radius", radius) : null,
      budget: targeted && budget ? (needed) => put("samples", enough(needed)) : null,
    };
  }

  // Put an earlier question into the form, with another radius.
  repeat({ ensemble, procedure, noise, allow_noise_mismatch, ...fields }, radius) {
    const { label, card } = variantOf(procedure);
    if (this.ensembles.some(({ name }) => name === ensemble) && this.field("ensemble").value !== ensemble) {
      this.field("ensemble").value = ensemble;
      this.takeEnsemble();
    }
    if (this.noise.put(noise)) this.takeNoise();
    this.field("mismatch").checked = allow_noise_mismatch;
    if (this.choices.some((each) => each.label === label)) {
      this.field("procedure").value = label;
      this.takeProcedure();
      const budget = procedure[card?.budget?.field];
      if (budget !== undefined) this.field("samples").value = [budget].flat().join(" ");
    }
    for (const name of ["alpha", "beta", "voting", "consensus", "convert"]) this.field(name).value = fields[name] ?? "";
    this.remedies().radius?.(radius);
  }

  // A problem with the question in the words of the form; a radius out of reach comes with what could be asked instead.
  problem(error) {
    if (error.code === "radius_out_of_reach" && this.latestPlan && !this.latestPlan.feasible) {
      return element("div", { class: "problem", role: "alert" }, outOfReach(this.latestPlan, this.norm, this.remedies()));
    }
    return problemBox(error, (path) => (path[0] === "images" ? error.names?.[path[1]] : this.labelOf(path)));
  }

  // The label of the input for a field of the request; null where there is none.
  labelOf(path) {
    const [input, another] = this.inputsOf(path);
    if (!input || another) return null;
    const { labels } = input;
    return [...(labels?.[0]?.childNodes ?? [])].filter((each) => each !== input && each.tagName !== "SELECT" && each.className !== "fine")
      .map(({ textContent }) => textContent).join("").trim() || null;
  }

  // Mark the inputs whose values the server refused.
  mark(errors) {
    const wrong = new Set(errors.flatMap(({ field }) => this.inputsOf(field.split("."))));
    for (const input of this.form.elements) {
      if (wrong.has(input)) input.setAttribute("aria-invalid", "true");
      else input.removeAttribute("aria-invalid");
    }
    const remedy = errors.some(({ message }) => message.includes("`convert`"));
    if (remedy || byId("more").querySelector("[aria-invalid]")) byId("more").open = true;
  }

  // The inputs for a field of the request, by its path.
  inputsOf([first, ...rest]) {
    if (first === "noise") return this.noise.named(rest);
    if (first === "procedure" && rest.includes(this.choice.card.budget?.field)) return [this.field("samples")];
    return [this.field(first)].filter(Boolean);
  }

  async submit() {
    const { chosen } = this.images;  // others may be chosen before the answer comes
    const request = { ...this.request(), convert: this.field("convert").value, ...fromImages(chosen) };
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
