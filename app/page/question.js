// The question: what is asked about the images. The plan for it comes as one types.

import { get, post } from "./api.js";
import { byId, element, fill } from "./dom.js";
import { formOf, named, remember, said } from "./images.js";
import { planBox } from "./plan.js";
import { problemBox } from "./words.js";

const DEBOUNCE = 250;
const LOOK_AGAIN = 3000;
const FIELDS = [
  "ensemble", "procedure", "radius", "sigma", "alpha", "beta", "consensus", "voting", "samples", "convert",
];
const PROCEDURES = {
  sequential: { name: "sequential", abandon: "strict" },
  "lost-certificate": { name: "sequential", abandon: "lost-certificate" },
  adaptive: { name: "adaptive" },
  kept: { name: "adaptive", keep_samples: true },
  fixed: { name: "fixed" },
};
const SAMPLES = {
  sequential: { label: "Most samples", value: "131100", field: "max_samples" },
  adaptive: { label: "Stages", value: "100 1000 10000 120000", field: "stages" },
  fixed: { label: "Samples", value: "100000", field: "n" },
};

// What is no number goes to the server as it is, which says what is wrong with it.
function number(text) {
  const value = Number(text);
  return text.trim() === "" ? undefined : Number.isFinite(value) ? value : text.trim();
}

export class Question {
  constructor({ form, images, planned }) {
    this.form = form;
    this.images = images;
    this.planned = planned;
    this.ensembles = [];
    this.latest = null;
    this.unanswered = null;
    this.timer = 0;
    form.addEventListener("input", () => this.plan());
    this.field("ensemble").addEventListener("change", () => this.takeEnsemble());
    this.field("procedure").addEventListener("change", () => this.takeProcedure());
  }

  field(name) {
    return this.form.elements[name];
  }

  async load() {
    await this.images.load();
    await this.loadEnsembles();
    this.takeProcedure();
  }

  // Until one of them is ready, they are looked for again.
  async loadEnsembles() {
    const { data } = await get("/v1/ensembles");
    const [before, chosen] = [this.ensembles.length, this.field("ensemble").value];
    this.ensembles = data;
    fill(this.field("ensemble"), data.map(({ name, ready }) =>
      element("option", { value: name }, ready ? name : `${name} (not ready)`)));
    if (before) this.field("ensemble").value = chosen;
    else this.takeEnsemble();
    if (!data.some(({ ready }) => ready)) setTimeout(() => this.loadEnsembles().catch(() => null), LOOK_AGAIN);
  }

  get ensemble() {
    return this.ensembles.find(({ name }) => name === this.field("ensemble").value);
  }

  takeEnsemble() {
    const { ensemble } = this;
    this.images.offer(ensemble);
    if (!ensemble) return this.plan();
    const { members, sigma, voting, votings, input_shape } = ensemble;
    const [channels, height, width] = input_shape;
    byId("wanted").textContent = `${width} × ${height} pixels, ${channels === 1 ? "grey" : "RGB"}`;
    this.field("sigma").value = sigma ?? "";
    fill(this.field("voting"), votings.map((name) =>
      element("option", { value: name, selected: name === voting }, name)));
    const leading = members.slice(0, -1).map((_, i) => i + 1);
    fill(this.field("consensus"), element("option", { value: "" }, `all ${members.length} vote`),
      leading.map((k) => element("option", { value: k }, `first ${k}`)));
    this.plan();
  }

  takeProcedure() {
    const { name } = PROCEDURES[this.field("procedure").value];
    const { label, value } = SAMPLES[name];
    byId("samples-label").textContent = label;
    this.field("samples").value = value;
    this.field("radius").disabled = this.field("beta").disabled = name === "fixed";
    this.plan();
  }

  // As it is posted, without the images.
  request() {
    const value = (name) => this.field(name).value;
    const procedure = { ...PROCEDURES[value("procedure")] };
    const { field } = SAMPLES[procedure.name];
    const samples = value("samples");
    procedure[field] = field === "stages" ? samples.split(/[\s,]+/).filter(Boolean).map(number) : number(samples);
    const asked = {
      ensemble: value("ensemble") || undefined,
      sigma: number(value("sigma")),
      alpha: number(value("alpha")),
      procedure,
      voting: value("voting") || undefined,
      consensus: number(value("consensus")) ?? null,
    };
    if (procedure.name !== "fixed") {
      Object.assign(asked, { radius: number(value("radius")), beta: number(value("beta")) });
    }
    if (this.field("mismatch").checked) asked.allow_noise_mismatch = true;
    return asked;
  }

  plan() {
    const trained = this.ensemble?.sigma ?? null;
    byId("mismatch").hidden = trained === null || number(this.field("sigma").value) === trained;
    clearTimeout(this.timer);
    this.latest?.abort();
    this.timer = setTimeout(() => this.askForPlan(), DEBOUNCE);
  }

  async askForPlan() {
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

  // The fields that the server found wrong.
  mark(errors) {
    const sizes = Object.values(SAMPLES).map(({ field }) => field);
    const places = errors.flatMap(({ field }) => field.split("."));
    const wrong = new Set(places.map((name) => (sizes.includes(name) ? "samples" : name)));
    for (const name of FIELDS) {
      if (wrong.has(name)) this.field(name).setAttribute("aria-invalid", "true");
      else this.field(name).removeAttribute("aria-invalid");
    }
    const remedy = errors.some(({ message }) => message.includes("`convert`"));
    if (remedy || wrong.has("samples") || wrong.has("convert")) byId("more").open = true;
  }

  async submit() {
    const { chosen } = this.images;  // others may be chosen before the answer comes
    const request = { ...this.request(), ...said(chosen), convert: this.field("convert").value };
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
  key(chosen, asked) {
    const { unanswered } = this;
    if (unanswered?.chosen !== chosen || unanswered.asked !== asked) {
      this.unanswered = { chosen, asked, key: crypto.getRandomValues(new Uint8Array(16)).join("") };
    }
    return this.unanswered.key;
  }
}
