// The images of a question: files that were dropped or chosen, or samples that come with the service.

import { blob, contents, get, Problem } from "./api.js";
import { byId, element, fill } from "./dom.js";
import { isCertificate } from "./examination.js";
import { whole } from "./words.js";

const SHOWN = 12;           // thumbnails of the chosen images
const MOST_METADATA = 256;  // characters of a value in the metadata of a request
const remembered = new Map();

const NONE = { name: "", shape: [], classes: [], labels: [] };
const sampleUrl = (sheet, index) => `/samples/${sheet}/${index}.png`;

const reading = (file) => new Promise((resolve) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => resolve("");
  reader.readAsDataURL(file);
});

// 0,1,2,7 as "0-2,7", which is short enough for the metadata of a request.
export function ranges(numbers) {
  const runs = [];
  for (const number of numbers) {
    if (runs.length && number === runs.at(-1)[1] + 1) runs.at(-1)[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(",");
}

export function fromRanges(text) {
  return text.split(",").flatMap((run) => {
    const [from, to = from] = run.split("-").map(Number);
    const count = Number.isInteger(from) && to - from < 10_000 ? to - from + 1 : 0;
    return Array.from({ length: count }, (_, i) => from + i);
  });
}

export class Images {
  constructor(changed, examine) {
    this.chosen = [];
    this.sheets = [];
    this.samples = NONE;  // the sheet that fits the ensemble
    this.changed = changed;
    this.examine = examine;  // takes files that are certificates and not images
    const input = byId("files");
    input.addEventListener("change", () => this.take(input.files).then(() => (input.value = "")));
    byId("clear").addEventListener("click", () => (this.choose([]), input.focus()));
    byId("one-of-each").addEventListener("click", () => this.choose(this.firsts()));
    byId("all").addEventListener("click", () => this.choose(this.samples.labels.map((_, i) => this.sample(i))));
    this.takeDrops(byId("drop"));
  }

  takeDrops(zone) {
    const over = (event) => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      zone.classList.toggle("over", event.type === "dragover");
    };
    for (const name of ["dragover", "dragleave", "drop"]) document.addEventListener(name, over);
    document.addEventListener("drop", (event) => this.take(event.dataTransfer.files));
  }

  async take(files) {
    const certificates = [...files].filter(isCertificate);
    if (certificates.length) return this.examine(certificates);
    const urls = await Promise.all([...files].map(reading));
    if (urls.length) this.choose(urls.map((url, i) => ({ name: files[i].name, file: files[i], url })));
  }

  sample(index) {
    const { name, labels, classes } = this.samples, label = labels[index];
    return { name: `${classes[label]} ${index}`, label, sheet: name, sample: index, url: sampleUrl(name, index) };
  }

  firsts() {
    const { classes, labels } = this.samples;
    return classes.map((_, label) => labels.indexOf(label)).filter((i) => i >= 0).map((i) => this.sample(i));
  }

  choose(chosen) {
    this.chosen = chosen;
    this.show();
    this.changed();
  }

  async load() {
    this.sheets = (await get("/samples")).data;
  }

  // Offer the samples that have the shape and the classes of the ensemble.
  offer(ensemble) {
    const wanted = String([ensemble?.input_shape, ensemble?.classes]);
    this.samples = this.sheets.find(({ shape, classes }) => String([shape, classes]) === wanted) ?? NONE;
    const { classes, labels } = this.samples;
    byId("samples").hidden = !labels.length;
    byId("all").textContent = `all ${labels.length}`;
    if (this.chosen.some(({ sheet }) => sheet !== undefined && sheet !== this.samples.name)) this.choose([]);
    if (!labels.length) return;
    fill(byId("thumbs"), this.firsts().map((each) => element("button", {
      type: "button", class: "thumb", "data-sample": each.sample, click: (event) => this.toggle(each, event),
    }, element("img", { src: each.url, alt: "", width: 48, height: 48 }), element("span", {}, classes[each.label]))));
    this.show();
  }

  toggle(sample, { ctrlKey, metaKey, shiftKey }) {
    const others = this.chosen.filter((each) => each.sample !== sample.sample);
    if (!(ctrlKey || metaKey || shiftKey)) this.choose([sample]);
    else this.choose(others.length < this.chosen.length ? others : [...others, sample]);
  }

  show() {
    const { chosen } = this;
    const pressed = new Set(chosen.map(({ sample }) => sample));
    for (const thumb of byId("thumbs").children) {
      thumb.setAttribute("aria-pressed", pressed.has(Number(thumb.dataset.sample)));
    }
    byId("chosen").hidden = !chosen.length;
    const name = chosen.length === 1 ? chosen[0].name : `${whole(chosen.length)} images`;
    fill(byId("chosen-images"), chosen.slice(0, SHOWN).map(({ url }) => picture(url, 40)));
    byId("chosen-name").textContent = name;
  }
}

// The fields of the request that follow from the chosen images.
export function fromImages(chosen) {
  const fields = {};
  if (chosen.every(({ label }) => label !== undefined)) fields.labels = chosen.map(({ label }) => label);
  const samples = ranges(chosen.map(({ sample }) => sample));
  if (chosen[0].sample !== undefined && samples.length <= MOST_METADATA) fields.metadata = { sheet: chosen[0].sheet, samples };
  else if (chosen.length === 1) fields.metadata = { file: chosen[0].name.slice(0, MOST_METADATA) };
  return fields;
}

export async function formOf(chosen, request) {
  const form = new FormData();
  form.append("request", JSON.stringify(request));
  const files = await Promise.all(chosen.map((each) => (each.file ? contents(each.file) : blob(each.url))));
  files.forEach((file, i) => form.append("images", file, chosen[i].name));
  return form;
}

// A problem that names an image by its number, with the name of the file added.
export function named(chosen, problem) {
  const name = (place, index) => (chosen[index] ? `${chosen[index].name} (${place})` : place);
  return new Problem({ ...problem, detail: problem.detail.replace(/^images\.(\d+)/, name) });
}

export function remember(id, chosen) {
  remembered.set(id, chosen);
}

// The name, the label and the address of an image of a certification, as far as they are known.
export function imageOf({ id, summary }, index, classes) {
  const chosen = remembered.get(id)?.[index];
  if (chosen) return chosen;
  const { metadata, labels } = summary.request;
  const sample = metadata?.samples ? fromRanges(metadata.samples)[index] : undefined;
  const label = labels?.[index];
  if (sample !== undefined) return { name: `${classes?.[label] ?? "sample"} ${sample}`, url: sampleUrl(metadata.sheet, sample), label };
  return { name: metadata?.file ?? `image ${index + 1}`, url: null, label };
}

export function picture(url, size, alt = "") {
  if (!url) return element("span", { class: "no-picture", "aria-hidden": "true" });
  return element("img", { class: "picture", src: url, alt, width: size, height: size, loading: "lazy" });
}
