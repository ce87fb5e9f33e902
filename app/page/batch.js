// Many images of one certification: a row for each of them, and the curve of all.

import { Curve } from "./curve.js";
import { columns, download, element, figure, fill } from "./dom.js";
import { imageOf, picture } from "./images.js";
import { isWhole } from "./noise.js";
import { saved, whole } from "./words.js";

const COLUMNS = ["image", "decision", "class", "radius", "samples"];

export class Batch {
  constructor(answer) {
    this.answer = answer;
    this.curve = new Curve();
    this.rows = Array.from({ length: answer.certification.total }, (_, index) => this.row(index));
    const { parts } = answer;
    parts.title.textContent = `${whole(this.rows.length)} images`;
    fill(parts.main, this.curve.figure);
    fill(parts.table, element("div", { class: "scroll" }, element("table", { class: "batch" },
      columns(COLUMNS), element("tbody", {}, this.rows.map(({ row }) => row)))));
  }

  row(index) {
    const { certification, ensemble } = this.answer;
    const { name, url } = imageOf(certification, index, ensemble?.classes);
    const cells = COLUMNS.slice(1).map(() => element("td"));
    const link = element("a", { href: `#/certifications/${certification.id}/${index}` }, name);
    const row = element("tr", {}, element("th", { scope: "row" }, picture(url, 28), link), cells);
    return { row, cells, done: false };
  }

  show() {
    const { certification, parts, ensemble } = this.answer;
    const { certificates, progress, summary, total } = certification;
    const { labels, radius, consensus, noise } = summary.request;
    const all = [...certificates.values()];
    this.rows.forEach((row, index) => this.showRow(row, index));
    this.curve.show(all, total, { labels, target: radius, whole: isWhole(noise) });
    const certified = all.filter(({ decision }) => decision === "certified").length;
    const spared = saved({ ...progress, members: ensemble?.members, consensus });
    fill(parts.figures,
      figure("finished", `${whole(all.length)} of ${whole(total)}`),
      figure("certified", whole(certified)), figure("abstained", whole(all.length - certified)),
      figure("samples", whole(progress.samples)), figure("evaluations", whole(progress.evaluations)),
      figure("saved by consensus", spared ? `${spared.percent} %` : "–"));
  }

  showRow(row, index) {
    if (row.done) return;
    const { certification } = this.answer;
    const [decision, answer, radius, samples] = row.cells;
    const certificate = certification.certificates.get(index);
    const underWay = certification.underWay(index);
    if (!certificate) {
      decision.textContent = certification.ended ? "–" : underWay ? "…" : "waiting";
      samples.textContent = underWay ? whole(underWay.samples) : "";
      return;
    }
    row.done = true;
    const certified = certificate.decision === "certified";
    const word = certified ? "certified" : "abstained";
    fill(decision, element("span", { class: `decision ${certificate.decision}` }, word));
    fill(answer, this.named(certificate));
    radius.textContent = certified ? String(certificate.radius) : "";
    samples.textContent = whole(certificate.samples);
  }

  // The class that was certified, and the label where that is another class.
  named({ index, class_index, class_name }) {
    if (class_index === null) return [];
    const { certification, ensemble } = this.answer;
    const label = certification.summary.request.labels?.[index] ?? class_index;
    const wrong = element("span", { class: "wrong" }, ` label ${ensemble?.classes[label] ?? label}`);
    return [class_name ?? String(class_index), label === class_index ? null : wrong];
  }

  actions() {
    const { certification } = this.answer;
    if (!certification.ended || !certification.certificates.size) return {};
    const inOrder = [...certification.certificates.values()].sort((a, b) => a.index - b.index);
    return { "Download JSON": () => download(inOrder, `${certification.id}.json`) };
  }
}
