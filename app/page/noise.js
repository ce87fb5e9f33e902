// The noise of the question: one of those that suit the ensemble, with an input for each of its parameters.

import { get } from "./api.js";
import { byId, element, fill } from "./dom.js";
import { signOf } from "./norms.js";
import { number, short, titled } from "./words.js";

let cards = [];

const cardOf = ({ name }) => cards.find((card) => card.name === name);

// Whether the claims of a noise are about 8-bit images alone.
export const isEightBit = (noise) => cardOf(noise)?.eight_bit ?? false;

// Whether the radii of a noise are whole numbers.
export const isWhole = (noise) => cardOf(noise)?.whole ?? false;

// What the claims of a noise take for granted about the arithmetic, in words; empty where that is nothing.
export const provisoOf = (noise) => cardOf(noise)?.proviso ?? "";

// Whether all outcomes of a noise are evaluated, by a procedure that does so.
export const isExhaustive = (noise) => cardOf(noise)?.exhaustive ?? false;

const isParameter = (key) => key !== "name" && key !== "norm";

// What should be known about a noise beside its parameters.
const NOTES = {
  uniform: ({ reach }) => (Number.isFinite(reach) ? `Standard deviation ${short(reach / Math.sqrt(3), 3)}.` : ""),
};

export class NoiseInputs {
  constructor({ changed }) {
    this.offered = [];
    this.trained = null;
    this.inputs = new Map();
    this.select = byId("noise-kind");
    this.select.addEventListener("change", () => (this.show(this.offered[this.select.selectedIndex]), changed()));
    byId("noise").addEventListener("input", () => this.note());
  }

  async load() {
    cards = (await get("/v1/noises")).data;
  }

  // Offer the noises that suit an ensemble; every kind, without values, where the noise of its training is unknown.
  take(ensemble) {
    this.trained = ensemble?.noise ?? null;
    const suited = ensemble?.noises?.length ? ensemble.noises : [this.trained];
    this.offered = this.trained ? suited : cards.map(({ name, norm }) => ({ name, norm }));
    fill(this.select, this.offered.map((noise) => element("option", { value: noise.name }, optionOf(noise))));
    this.select.parentElement.hidden = this.offered.length < 2;
    this.select.selectedIndex = Math.max(0, this.offered.findIndex((noise) => this.isExact(noise)));
    this.show(this.offered[this.select.selectedIndex] ?? {});
  }

  // Whether a noise makes the same claims as that of the training without taking float32 for real numbers: the images
  // of this page are files, which have 8 bits.
  isExact(noise) {
    return isEightBit(noise) && noise.norm === this.trained?.norm;
  }

  show(noise) {
    this.noise = noise;
    const keys = Object.keys(noise).filter(isParameter);
    this.inputs = new Map((keys.length ? keys : cardOf(noise)?.parameters ?? []).map((key) =>
      [key, element("input", { name: `noise.${key}`, inputmode: "decimal", value: noise[key] ?? "" })]));
    fill(byId("noise"), [...this.inputs].map(([key, input]) => element("label", {}, `${titled(key)} `, input)));
    this.note();
  }

  // Choose a noise with its values; whether it is one of those that are offered.
  put(noise) {
    const index = this.offered.findIndex(({ name }) => name === noise.name);
    if (index < 0) return false;
    this.select.selectedIndex = index;
    this.show(this.offered[index]);
    for (const [key, input] of this.inputs) input.value = noise[key] ?? "";
    this.note();
    return true;
  }

  note() {
    const proviso = provisoOf(this.noise) && `Its certificates hold ${provisoOf(this.noise)}.`;
    byId("noise-note").textContent = NOTES[this.noise.name]?.(this.value ?? {}) ?? proviso;
  }

  // As it is posted; undefined, which leaves it to the service, where nothing is filled in.
  get value() {
    const parameters = [...this.inputs].map(([key, input]) => [key, number(input.value)]);
    const given = parameters.some(([, value]) => value !== undefined);
    return given ? { name: this.noise.name, ...Object.fromEntries(parameters) } : undefined;
  }

  // Whether the noise of the training is known; otherwise the user has to say one.
  get known() {
    return this.trained !== null || !this.offered.length;
  }

  // Whether it does not suit the ensemble.
  get differs() {
    const { trained, value, noise } = this;
    return trained !== null && value !== undefined && Object.keys(value).some((key) => value[key] !== noise[key]);
  }

  // The inputs that an error of the server is about, by the path below `noise`.
  named(path) {
    const exact = [...this.inputs].filter(([key]) => path.includes(key));
    return (exact.length ? exact : [...this.inputs]).map(([, input]) => input);
  }
}

function optionOf(noise) {
  return `${noise.name}: ${signOf(noise.norm)}${isEightBit(noise) ? ", for 8-bit images" : ""}`;
}
