// The noise of the question: one input for each of its parameters.

import { get } from "./api.js";
import { byId, element, fill } from "./dom.js";
import { number, titled } from "./words.js";

let cards = [];

// Whether the claims of a noise are about 8-bit images alone.
export const isEightBit = ({ name }) => cards.find((card) => card.name === name)?.eight_bit ?? false;

const isParameter = (key) => key !== "name" && key !== "norm";

export class NoiseInputs {
  constructor({ changed }) {
    this.kinds = [];
    this.trained = null;
    this.select = byId("noise-kind");
    this.select.addEventListener("change", () => (this.show(this.select.value, {}), changed()));
  }

  async load() {
    this.kinds = cards = (await get("/v1/noises")).data;
    fill(this.select, this.kinds.map(({ name }) => element("option", { value: name }, name)));
  }

  // The noise that the chosen ensemble was trained for. Where that is unknown, its kind can be chosen as well.
  take(trained) {
    this.trained = trained;
    this.select.parentElement.hidden = trained !== null || this.kinds.length < 2;
    this.show(trained?.name ?? this.select.value, trained ?? {});
  }

  show(name, values) {
    this.name = name;
    const keys = Object.keys(values).filter(isParameter);
    const known = this.kinds.find((kind) => kind.name === name)?.parameters ?? [];
    this.inputs = new Map((keys.length ? keys : known).map((key) =>
      [key, element("input", { name: `noise.${key}`, inputmode: "decimal", value: values[key] ?? "" })]));
    fill(byId("noise"), [...this.inputs].map(([key, input]) => element("label", {}, `${titled(key)} `, input)));
  }

  // As it is posted; undefined, which leaves it to the service, where nothing is filled in.
  get value() {
    const parameters = [...this.inputs ?? []].map(([key, input]) => [key, number(input.value)]);
    const given = parameters.some(([, value]) => value !== undefined);
    return given ? { name: this.name, ...Object.fromEntries(parameters) } : undefined;
  }

  // Whether it is another noise than the ensemble was trained for.
  get differs() {
    const { trained, value } = this;
    return trained !== null && value !== undefined
      && Object.keys(value).some((key) => value[key] !== trained[key]);
  }

  // The inputs that an error of the server is about, by the path below `noise`.
  named(path) {
    const exact = [...this.inputs].filter(([key]) => path.includes(key));
    return (exact.length ? exact : [...this.inputs]).map(([, input]) => input);
  }
}
