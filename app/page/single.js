// One image of a certification: its chart while it is sampled, its certificate in words when that is finished.

import { post } from "./api.js";
import { ball } from "./ball.js";
import { bars } from "./bars.js";
import { changesAt } from "./changes.js";
import { Chart } from "./chart.js";
import { chosenClass, claim, meaning, samplesIn, still } from "./claims.js";
import { columns, download, element, figure, fill, say } from "./dom.js";
import { mismatch } from "./fields.js";
import { imageOf, picture } from "./images.js";
import { isEightBit } from "./noise.js";
import { consequence, measured } from "./norms.js";
import { outcome, provedRadius, success } from "./outcome.js";
import { perturbed } from "./perturbed.js";
import { sizeOf, wordsOf } from "./photo.js";
import { problemBox } from "./problem.js";
import { labelOf } from "./procedures.js";
import { imageReading } from "./reading.js";
import { lower, SAVED, saved, STATUS, time, titled, upper, whole } from "./words.js";

const COLUMNS = {
  n: "samples", count: "count", certify_at: "certify at", abandon_at: "abandon at",
  p_lower: "p lower", p_upper: "p upper", outcome: "outcome",
};

export class Single {
  constructor(answer, index) {
    this.answer = answer;
    this.index = index;
    this.announced = false;
    this.chart = new Chart();
    fill(answer.parts.main, this.chart.figure);
    fill(answer.parts.face, picture(this.image.url, 72, "the image"));
    this.plan = null;
    this.verified = null;
    this.askForPlan();
  }

  // Load the boundaries; there is no plan for an ensemble that is no longer served.
  async askForPlan() {
    const { summary, total } = this.answer.certification;
    const { labels, metadata, prepared, ...request } = summary.request;
    this.plan = await post("/v1/plan", { ...request, image_count: total }).catch(() => null);
    this.show();
  }

  // Load the intervals at the looks of the certificate, and what it says in other norms. Where the server refuses, the
  // chart is drawn without them.
  async askForLooks(certificate) {
    const { looks, implied, remainder } = await post("/v1/verify", certificate).catch(() => ({ looks: [], implied: [] }));
    this.verified = looks;
    fill(this.implied, consequence(implied));
    if (remainder) fill(this.remains, this.remaining(remainder));
    this.show();
  }

  // What the samples of an abstention still prove, and a radius to ask for instead.
  remaining({ radius, class_index, alpha, attempt }) {
    const { certification, ensemble } = this.answer, { request } = certification.summary;
    const name = ensemble?.classes[class_index] ?? `class ${class_index}`;
    const offered = element("button", { type: "button", click: () => this.answer.again(request, this.image, attempt) },
      `Ask for radius ${attempt}`);
    return [
      element("p", {}, still({ radius, alpha, name, norm: this.certificate.noise.norm }),
        attempt ? " A new certification may prove a smaller radius than the one asked for." : null),
      attempt ? element("p", { class: "offers" }, offered) : null,
    ].filter(Boolean);
  }

  get image() {
    return imageOf(this.answer.certification, this.index, this.answer.ensemble?.classes);
  }

  get certificate() {
    return this.answer.certification.certificates.get(this.index);
  }

  get underWay() {
    return this.answer.certification.underWay(this.index);
  }

  // The name of the class that was chosen; null before that.
  get className() {
    const { certificate, underWay } = this;
    const index = certificate ? chosenClass(certificate) : underWay?.class_index ?? null;
    if (index === null) return null;
    return certificate?.class_name ?? this.answer.ensemble?.classes[index] ?? `class ${index}`;
  }

  show() {
    const { certificate, answer, underWay, className } = this;
    const { parts, certification } = answer;
    const { ended } = certification;
    parts.title.textContent = this.title();
    parts.title.className = `title ${certificate?.decision ?? ""}`;
    const of = className && `‘${className}’`;
    const { plan, verified } = this;
    const predicts = success(certification.summary.request.procedure) === "predicted";
    this.chart.show(imageReading({ plan, certificate, verified, underWay, ended, of, predicts }));
    fill(parts.figures, this.figures());
    if (certificate && !this.announced) this.tell(certificate);
  }

  title() {
    const { certificate, answer, image } = this;
    const { ended, summary, total } = answer.certification;
    if (certificate) return titled(outcome(certificate));
    if (ended) return titled(STATUS[summary.status]);
    if (total > 1) return image.name;
    return success(summary.request.procedure) === "predicted" ? "Which class is it?" : "Is the answer stable?";
  }

  figures() {
    const { certificate, underWay, className, answer } = this;
    const { progress, total } = answer.certification;
    const samples = certificate?.samples ?? (total === 1 ? progress.samples : underWay?.samples ?? 0);
    const evaluations = certificate?.evaluations ?? (total === 1 ? progress.evaluations : null);
    const radius = certificate ? provedRadius(certificate) : null;
    const proved = radius === null ? "none" : measured(certificate.noise.norm, radius);
    const stage = underWay ? String(underWay.stage || "choosing the class") : "–";
    return [
      figure(certificate?.decision === "abstain" ? "class tried" : "answer", className ?? "–"),   // abstentions claim none
      certificate ? figure("radius proved", proved) : figure("stage", stage),
      figure("samples", whole(samples)),
      figure("evaluations", evaluations === null ? "–" : whole(evaluations)),
      figure("evaluations saved", saved({ samples, evaluations, members: answer.ensemble?.members }), SAVED),
    ];
  }

  tell(certificate) {
    this.announced = true;
    const { parts, ensemble } = this.answer;
    const { label, url, small } = this.image;
    this.implied = element("p", { class: "quiet implied" });
    const [first, ...others] = meaning(certificate, label, ensemble?.classes)
      .map((text) => element("p", { class: "quiet" }, text));
    this.remains = element("div", { class: "remains" });
    fill(parts.words, element("p", { class: `claim ${certificate.decision}` }, claim(certificate)),
      this.scaling(), this.remains, first, this.implied, others);
    fill(parts.bars, bars(certificate, ensemble?.classes));
    const shape = certificate.provenance?.input.shape;
    if (certificate.radius > 0 && shape?.length === 3) fill(parts.pixels, pictured(certificate, shape, small ? null : url));
    fill(parts.table, atLength(certificate));
    this.askForLooks(certificate);
    say(parts.words.firstChild.textContent);
  }

  // Where the image was made of a photo, what was certified is the image and not the photo.
  scaling() {
    const { prepared, resized, shape } = this.certificate.provenance?.input ?? {};
    if (!prepared) return null;
    return element("p", { class: "quiet scaled" }, `The certificate is about the scaled image of ${this.image.name} `
      + `(${wordsOf(prepared, resized?.source ?? sizeOf(shape))}), not about the photo: a change of the photo counts by what it does to the scaled `
      + `image. The certificate repeats what the client says that it did (${prepared.by}); the service cannot check that.`);
  }

  actions() {
    const { certificate, index, answer } = this;
    if (!certificate) return {};
    return {
      Verify: () => this.verify(certificate),
      "Download JSON": () => download(certificate, `${answer.certification.id}-${index}.json`),
    };
  }

  async verify(certificate) {
    const { answer } = this;
    try {
      const { consistent, problems } = await post("/v1/verify", certificate);
      const wrong = problems.map((each) => element("li", {}, titled(mismatch(each))));
      answer.tell(consistent
        ? element("span", { class: "good" }, "Verified: everything in it follows from its counts.")
        : element("ul", { class: "wrong" }, wrong));
    } catch (problem) {
      answer.tell(problemBox(problem));
    }
  }
}

// The radius in pictures: the images within it, and changes that are as large.
function pictured({ radius, noise }, shape, url) {
  const changes = changesAt(noise.norm, radius, shape);
  if (!changes.length) return [];
  const [large, closed] = [measured(noise.norm, radius), noise.norm === "l0"];
  const among = isEightBit(noise) ? "that gives an 8-bit image " : "";
  return [
    element("h3", {}, `Radius ${large}, in pictures`),
    ball(noise, radius, { eightBit: isEightBit(noise), shape, url }),
    element("p", { class: "quiet" }, closed
      ? "Each of these changes is within the radius, and so are countless others; none of them changes the answer."
      : `Each of these changes is as large as the radius, and so are countless others; no smaller one ${among}changes the answer.`),
    element("ul", { class: "changes" }, changes.map(({ text, ...change }) =>
      element("li", {}, url ? perturbed(url, { ...change, shape, text }) : null, element("span", {}, text)))),
  ];
}

function atLength({ stages, samples, procedure, digest, provenance, selection }) {
  const shown = Object.entries(COLUMNS).filter(([key]) => stages.some((stage) => stage[key] !== null));
  const drawn = samplesIn(selection);
  const facts = {
    "class chosen from": `${whole(drawn)} samples of their own`,
    "samples in all": whole(samples),
    procedure: labelOf(procedure),
    finished: time(provenance?.finished_at),
    seed: provenance?.sampling.seed ?? "–",
    digest,
  };
  const title = `${whole(stages.length)} ${stages.length === 1 ? "stage" : "stages"}, counts and provenance`;
  return element("details", {}, element("summary", {}, title),
    element("div", { class: "scroll" }, element("table", { class: "numbers" },
      columns(shown.map(([, name]) => name)),
      element("tbody", {}, stages.map((stage) =>
        element("tr", {}, shown.map(([key]) => element("td", {}, cell(key, stage[key])))))))),
    element("dl", { class: "provenance" },
      Object.entries(facts).map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
}

function cell(key, value) {
  if (typeof value !== "number") return value ?? "";
  if (key === "p_lower") return lower(value, 6);
  if (key === "p_upper") return upper(value, 6);
  return value < 0 ? "never" : whole(value);
}
