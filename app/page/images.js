// The images of a question: files that were dropped or chosen, or samples that come with the service.

import { blob, contents, get, Problem } from "./api.js";
import { byId, element, fill } from "./dom.js";
import { isCertificate } from "./examination.js";
import { Cropper, fits, fitted, photoIn, sizeOf, wordsOf } from "./photo.js";
import { keep, kept } from "./kept.js";
import { whole } from "./words.js";

const SHOWN = 12;           // thumbnails of the chosen images
const READING = "reading …";
const MANY = 20;            // samples that are shown at a time; more are searched
const MOST_METADATA = 256;  // characters of a value in the metadata of a request
const BETWEEN = "/";        // separates the names of files in it; no file has it in its name
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

// As many of the names as fit into the metadata of a request.
function joined(names) {
  let text = "";
  for (const name of names) {
    const longer = text ? text + BETWEEN + name : name;
    if (longer.length > MOST_METADATA) break;
    text = longer;
  }
  return text;
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
    byId("find-sample").addEventListener("input", (event) => (event.stopPropagation(), this.showThumbs()));
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
    if (!files.length) return;
    const taken = (this.taken = [...files]);  // the list of an input is emptied when it is taken again
    byId("chosen").hidden = false;
    byId("chosen-name").textContent = READING;
    this.entries = this.entriesOf(taken);
    const entries = await this.entries;
    if (taken === this.taken) this.choose(entries);  // others may have been chosen while these were scaled
  }

  async entriesOf(files) {
    const entries = [];
    for (const file of files) entries.push(await this.entry(file));
    return entries;
  }

  // Wait until the files that were taken last are read.
  async read() {
    while (this.taken) await this.entries;
  }

  // A file as it is, or made to fit where its size is another than the ensemble's.
  async entry(file) {
    const { shape } = this, photo = shape ? await photoIn(file) : null;
    const own = { name: file.name, file, shape };
    const entry = photo && !fits(photo, shape) ? { ...own, ...(await fitted(photo, shape)) } : { ...own, url: await reading(file) };
    photo?.close();
    return entry;
  }

  // Make the chosen files fit another ensemble.
  async refit() {
    const { chosen, shape } = this;
    if (!chosen.some((each) => each.file && String(each.shape) !== String(shape))) return;
    const entries = await Promise.all(chosen.map((each) => (each.file ? this.entry(each.file) : each)));
    if (chosen === this.chosen && shape === this.shape) this.choose(entries);
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
    [this.chosen, this.taken] = [chosen, null];
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
    const { labels } = this.samples;
    this.shape = ensemble?.input_shape ?? null;
    byId("all").textContent = `all ${labels.length}`;
    if (this.chosen.some(({ sheet }) => sheet !== undefined && sheet !== this.samples.name)) this.choose([]);
    byId("find-sample").parentElement.hidden = this.firsts().length <= MANY;
    this.showThumbs();
    this.refit();
  }

  // A sample of each class whose name has what is searched for.
  showThumbs() {
    const { classes } = this.samples, wanted = byId("find-sample").value.trim().toLowerCase();
    const found = this.firsts().filter(({ label }) => classes[label].toLowerCase().includes(wanted));
    fill(byId("thumbs"), found.slice(0, MANY).map((each) => element("button", {
      type: "button", class: "thumb", "data-sample": each.sample, click: (event) => this.toggle(each, event),
    }, element("img", { src: each.url, alt: "", width: 48, height: 48 }), element("span", {}, classes[each.label]))));
    byId("more-samples").textContent = found.length > MANY ? `${whole(found.length - MANY)} more classes: search for them` : "";
    this.show();
  }

  // Choose the image of an earlier certification: a sample, or a picture that is kept whole.
  async chooseAgain(image) {
    const { name, url, sample, file, prepared } = image, { shape } = this;
    if (file || sample !== undefined) return this.choose([image]);
    const bytes = Uint8Array.from(atob(url.split(",")[1]), (each) => each.charCodeAt(0));
    const sent = new File([bytes], name, { type: url.slice("data:".length, url.indexOf(";")) });
    this.choose([prepared ? { name, url, sent, prepared, shape } : await this.entry(sent)]);
  }

  // Let the user choose the part of a single photo that is certified.
  async offerCrop(chosen) {
    const [entry] = chosen, photo = await photoIn(entry.file);
    if (chosen !== this.chosen || !photo) return;
    new Cropper(byId("scaled"), { photo, shape: entry.shape, entry, changed: (made) => {
      if (chosen !== this.chosen) return;
      Object.assign(entry, made);
      byId("chosen-images").querySelector("img").src = made.url;
    } });
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
    const files = chosen.some(({ file }) => file), scaled = chosen.filter(({ prepared }) => prepared);
    byId("samples").hidden = files || !this.samples.labels.length;
    byId("chosen").hidden = !chosen.length && !this.taken;
    const name = this.taken ? READING : chosen.length === 1 ? chosen[0].name : `${whole(chosen.length)} images`;
    byId("scaled").hidden = !scaled.length;
    if (!scaled.length) fill(byId("scaled"));
    else if (chosen.length === 1 && chosen[0].file) this.offerCrop(chosen);
    else if (chosen.length === 1) fill(byId("scaled"), element("p", { class: "fine" }, `${wordsOf(scaled[0].prepared, sizeOf(scaled[0].shape))}. The scaled image is what is certified.`));
    else fill(byId("scaled"), element("p", { class: "fine" }, `${scaled.length === chosen.length ? "All" : whole(scaled.length)} of them ${scaled.length === 1 ? "has" : "have"} `
      + "another size: each is cropped around its centre and scaled. The scaled images are what is certified."));
    fill(byId("chosen-images"), chosen.slice(0, SHOWN).map(({ url }) => picture(url, 40)));
    byId("chosen-name").textContent = name;
  }
}

// The fields of the request that follow from the chosen images.
export function fromImages(chosen) {
  const fields = {}, scaled = chosen.find(({ prepared }) => prepared);
  if (chosen.every(({ label }) => label !== undefined)) fields.labels = chosen.map(({ label }) => label);
  const samples = ranges(chosen.map(({ sample }) => sample));
  if (chosen[0].sample !== undefined && samples.length <= MOST_METADATA) fields.metadata = { sheet: chosen[0].sheet, samples };
  else if (chosen.length === 1) fields.metadata = { file: chosen[0].name.slice(0, MOST_METADATA) };
  else if (chosen[0].sample === undefined) fields.metadata = { files: joined(chosen.map(({ name }) => name)) };
  if (scaled) {  // what the browser makes of a photo is in colour
    fields.prepared = chosen.map(({ prepared }) => prepared ?? null);
    fields.convert = scaled.shape[0] === 1 ? "grey" : "rgb";
  }
  return fields;
}

export async function formOf(chosen, request) {
  const form = new FormData();
  form.append("request", JSON.stringify(request));
  const files = await Promise.all(chosen.map((each) => (each.sent ?? (each.file ? contents(each.file) : blob(each.url)))));
  files.forEach((file, i) => form.append("images", file, chosen[i].name));
  return form;
}

// A problem that names an image by its number, with the names of the files added.
export function named(chosen, problem) {
  return new Problem({ ...problem, names: chosen.map(({ name }) => name) });
}

export function remember(id, chosen) {
  remembered.set(id, chosen);
  keep(id, chosen);
}

// The name, the label and the address of an image of a certification, as far as they are known.
export function imageOf({ id, summary }, index, classes) {
  const chosen = remembered.get(id)?.[index];
  if (chosen) return chosen;
  const { metadata, labels, prepared } = summary.request;
  const sample = metadata?.samples ? fromRanges(metadata.samples)[index] : undefined;
  const label = labels?.[index];
  if (sample !== undefined) {
    return { name: `${classes?.[label] ?? "sample"} ${sample}`, url: sampleUrl(metadata.sheet, sample), label, sheet: metadata.sheet, sample };
  }
  const { url = null, small = false } = kept(id, index);
  const name = metadata?.file || metadata?.files?.split(BETWEEN)[index] || `image ${index + 1}`;
  return { name, url, small, label, prepared: prepared?.[index] };
}

export function picture(url, size, alt = "") {
  if (!url) return element("span", { class: "no-picture", "aria-hidden": "true" });
  return element("img", { class: "picture", src: url, alt, width: size, height: size, loading: "lazy" });
}
