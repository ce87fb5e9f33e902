// Many images of one certification: a row for each of them, to be sorted and filtered, and a picture of all.

import { post } from "./api.js";
import { csv } from "./csv.js";
import { Curve } from "./curve.js";
import { Distribution } from "./distribution.js";
import { download, element, figure, fill, save } from "./dom.js";
import { mismatch } from "./fields.js";
import { imageOf, picture } from "./images.js";
import { isWhole } from "./noise.js";
import { outcome, provedRadius, success } from "./outcome.js";
import { isRight } from "./superclasses.js";
import { SAVED, saved, whole } from "./words.js";

const COLUMNS = ["image", "decision", "class", "radius", "samples"];
const AT_ONCE = 4;  // certificates that are verified at a time

// `found` is the word for an image that was not abstained from.
const filters = (found) => ({
  "all images": () => true,
  [found]: ({ certificate }) => certificate?.decision === "certified",
  abstained: ({ certificate }) => certificate?.decision === "abstain",
  [`${found} as another class than the label`]: ({ certificate, label }) =>
    certificate?.decision === "certified" && label !== undefined && !isRight(certificate, label),
  "not finished": ({ certificate }) => !certificate,
});

export class Batch {
  constructor(answer) {
    this.answer = answer;
    this.p0 = null;
    this.order = { column: "image", down: false };
    this.rows = Array.from({ length: answer.certification.total }, (_, index) => this.row(index));
    const { parts } = answer;
    const { request } = answer.certification.summary;
    this.found = success(request.procedure);
    this.filters = filters(this.found);
    this.figure = request.radius === null && this.found === "certified" ? new Curve() : new Distribution();
    parts.title.textContent = `${whole(this.rows.length)} images`;
    fill(parts.main, this.figure.figure);
    this.heads = COLUMNS.map((name) => element("th", { scope: "col" },
      element("button", { type: "button", class: "plain sort", click: () => this.sort(name) }, name)));
    this.kind = element("select", { change: () => this.filter() },
      Object.keys(this.filters).filter((name) => request.labels || !name.includes("label")).map((name) => element("option", {}, name)));
    this.wanted = element("input", { type: "search", autocomplete: "off", input: () => this.filter() });
    this.body = element("tbody", {}, this.rows.map(({ row }) => row));
    this.left = element("p", { class: "fine", role: "status" });
    fill(parts.table,
      element("div", { class: "filters" }, element("label", {}, "Show ", this.kind),
        element("label", {}, "Class or image ", this.wanted)), this.left,
      element("div", { class: "scroll" }, element("table", { class: "batch" },
        element("thead", {}, element("tr", {}, this.heads)), this.body)));
    if (request.radius !== null) this.askForPlan();
  }

  // The least p_A that proves the radius; there is no plan for an ensemble that is no longer served.
  async askForPlan() {
    const { summary, total } = this.answer.certification;
    const { labels, metadata, prepared, ...request } = summary.request;
    this.p0 = (await post("/v1/plan", { ...request, image_count: total }).catch(() => null))?.p0 ?? null;
    this.show();
  }

  row(index) {
    const { certification, ensemble } = this.answer;
    const { name, url, label } = imageOf(certification, index, ensemble?.classes);
    const cells = COLUMNS.slice(1).map(() => element("td"));
    const link = element("a", { href: `#/certifications/${certification.id}/${index}` }, name);
    const row = element("tr", {}, element("th", { scope: "row" }, picture(url, 28), link), cells);
    return { row, cells, index, name, label, certificate: null };
  }

  show() {
    const { certification, parts, ensemble } = this.answer;
    const { certificates, progress, summary, total } = certification;
    const { labels, radius, noise } = summary.request, { found } = this;
    const all = [...certificates.values()];
    const changed = this.rows.filter((row) => this.showRow(row)).length;
    if (changed) this.arrange();
    this.showFigure(all, total, { labels, target: radius, whole: isWhole(noise), p0: this.p0, found });
    const certified = all.filter(({ decision }) => decision === "certified").length;
    fill(parts.figures,
      figure("finished", `${whole(all.length)} of ${whole(total)}`),
      figure(this.found, whole(certified)), figure("abstained", whole(all.length - certified)),
      figure("samples", whole(progress.samples)), figure("evaluations", whole(progress.evaluations)),
      figure("evaluations saved", saved({ ...progress, members: ensemble?.members }), SAVED));
  }

  // A procedure that proved several radii has a curve, even if it was asked for one.
  showFigure(all, total, how) {
    const radii = new Set(all.map(provedRadius).filter((radius) => radius !== null));
    if (radii.size > 1 && this.figure instanceof Distribution) {
      this.figure = new Curve();
      fill(this.answer.parts.main, this.figure.figure);
    }
    this.figure.show(all, total, how);
  }

  // Whether something new was shown.
  showRow(row) {
    if (row.certificate) return false;
    const { certification } = this.answer;
    const [decision, answer, radius, samples] = row.cells;
    const certificate = certification.certificates.get(row.index);
    const underWay = certification.underWay(row.index);
    if (!certificate) {
      decision.textContent = certification.ended ? "–" : underWay ? "…" : "waiting";
      samples.textContent = underWay ? whole(underWay.samples) : "";
      return false;
    }
    row.certificate = certificate;
    fill(decision, element("span", { class: `decision ${certificate.decision}` }, outcome(certificate)));
    fill(answer, this.named(certificate));
    radius.textContent = String(provedRadius(certificate) ?? "");
    samples.textContent = whole(certificate.samples);
    return true;
  }

  // The class that was certified, and the label where that is another class.
  named(certificate) {
    const { index, class_index, class_name } = certificate;
    if (class_index === null) return [];
    const { certification, ensemble } = this.answer;
    const label = certification.summary.request.labels?.[index];
    const wrong = element("span", { class: "wrong" }, ` label ${ensemble?.classes[label] ?? label}`);
    return [class_name ?? String(class_index), label === undefined || isRight(certificate, label) ? null : wrong];
  }

  // --- order and choice

  sort(column) {
    this.order = { column, down: this.order.column === column && !this.order.down };
    this.arrange();
  }

  filter() {
    this.arrange();
  }

  arrange() {
    const { column, down } = this.order, key = KEYS[column];
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null);  // what is not known comes last in both orders
      return (typeof x === "string" ? x.localeCompare(y) : x - y) * (down ? -1 : 1);
    };
    const text = this.wanted.value.trim().toLowerCase(), suits = this.filters[this.kind.value];
    const matches = ({ name, certificate }) => [name, certificate?.class_name ?? ""].some((each) => each.toLowerCase().includes(text));
    const shown = this.rows.filter((row) => suits(row) && matches(row)).sort((a, b) => compare(a, b) || a.index - b.index);
    const held = document.activeElement;
    this.body.replaceChildren(...shown.map(({ row }) => row));
    if (this.body.contains(held)) held.focus();
    this.heads.forEach((head, i) => {
      if (COLUMNS[i] === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.left.textContent = shown.length < this.rows.length ? `${whole(shown.length)} of ${whole(this.rows.length)} images` : "";
  }

  // --- what can be done with all of them

  actions() {
    const { certification } = this.answer;
    if (!certification.ended || !certification.certificates.size) return {};
    const inOrder = [...certification.certificates.values()].sort((a, b) => a.index - b.index);
    return {
      "Verify all": () => this.verify(inOrder),
      "Download CSV": () => save(new Blob([this.csv()], { type: "text/csv" }), `${certification.id}.csv`),
      "Download JSON": () => download(inOrder, `${certification.id}.json`),
    };
  }

  csv() {
    const classes = this.answer.ensemble?.classes;
    return csv(this.rows.filter(({ certificate }) => certificate)
      .map(({ certificate, name, label }) => ({ certificate, name, label: label === undefined ? null : classes?.[label] ?? label })));
  }

  async verify(certificates) {
    const { answer } = this, waiting = [...certificates], wrong = [];
    let done = 0;
    const some = async () => {
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        const name = this.rows[next.index].name;
        const { consistent, problems } = await post("/v1/verify", next)
          .catch((problem) => ({ consistent: false, problems: [{ field: "", message: problem.message }] }));
        if (!consistent) wrong.push(`${name}: ${problems.map(mismatch).join("; ")}`);
        done += 1;
        answer.tell(`${whole(done)} of ${whole(certificates.length)} verified …`);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, some));
    answer.tell(wrong.length
      ? element("ul", { class: "wrong" }, wrong.map((text) => element("li", {}, text)))
      : element("span", { class: "good" }, `Verified: everything in all ${whole(done)} certificates follows from their counts.`));
  }
}

const KEYS = {
  image: ({ index }) => index,
  decision: ({ certificate }) => certificate?.decision ?? null,
  class: ({ certificate }) => certificate?.class_name ?? null,
  radius: ({ certificate }) => certificate && provedRadius(certificate),
  samples: ({ certificate }) => certificate?.samples ?? null,
};
