// Files with certificates that somebody was handed: who signed them, are they unaltered, do their claims follow? The
// server finds out, and needs no key for it.

import { Problem, postFile } from "./api.js";
import { element, fill, say } from "./dom.js";
import { withoutFields } from "./fields.js";
import { problemBox } from "./problem.js";
import { whole } from "./words.js";

const MOST_BYTES = 4_000_000;  // that of the server, which ends the connection while a larger file is being sent
const ASPECTS = { signed: "Signature", unaltered: "Digest", follows: "Counts" };
const ANSWERS = new Map([[true, ["good", "yes"]], [false, ["wrong", "no"]], [null, ["quiet", "unknown"]]]);

export const isCertificate = ({ name, type }) => /json/i.test(type) || /\.jsonl?$/i.test(name);

export class Examination {
  constructor(place, files = []) {
    this.closed = false;
    this.results = element("div", { class: "examined" });
    const change = ({ target }) => this.examine([...target.files]).then(() => (target.value = ""));
    fill(place,
      element("header", { class: "answer-head" }, element("div", {},
        element("h2", { class: "title", tabindex: -1 }, "Check a file"),
        element("p", { class: "quiet" },
          "Drop a certificate file that you were handed. You need no account for this, and the file is not kept."))),
      element("p", {}, element("label", {}, "Certificates ",
        element("input", { id: "certificates", type: "file", multiple: true, accept: ".json,.jsonl", change }))),
      this.results);
    if (files.length) this.examine(files);
  }

  close() {
    this.closed = true;
  }

  async examine(files) {
    fill(this.results, element("p", { class: "quiet" }, "One moment …"));
    const found = await Promise.all(files.map(examined));
    if (this.closed) return;
    fill(this.results, found);
    say(this.results.querySelector("h3, .problem-title")?.textContent ?? "");
  }
}

async function examined(file) {
  try {
    requireSmall(file);
    return findings(file.name, await postFile("/v1/examine", file));
  } catch (problem) {
    return [element("h3", {}, file.name), problemBox(problem)];
  }
}

function requireSmall({ name, size }) {
  if (size <= MOST_BYTES) return;
  const detail = `${name} has ${whole(size)} bytes, and at most ${whole(MOST_BYTES)} are checked here; smoothcert verify has no such limit.`;
  throw new Problem({ title: "The file is too large", detail });
}

function findings(name, answer) {
  const { certificates, consistent, problems, notes, claims } = answer;
  const sentences = Object.keys(ASPECTS).map((key) => answer[key].sentence).join(" ");
  const others = problems.filter((each) => !sentences.includes(each));
  const several = certificates > 1 ? ` (${whole(certificates)} certificates)` : "";
  return [
    element("h3", { class: consistent ? "good" : "wrong" },
      `${consistent ? "Nothing is wrong with" : "Something is wrong with"} ${name}${several}`),
    claims.map((claim) => element("p", { class: "claim" }, claim)),
    element("dl", { class: "provenance" }, Object.entries(ASPECTS).map(([key, title]) => {
      const [kind, word] = ANSWERS.get(answer[key].holds);
      return [element("dt", {}, title), element("dd", {}, element("span", { class: kind }, word), ` ${withoutFields(answer[key].sentence)}`)];
    })),
    others.length ? element("ul", { class: "wrong" }, others.map((each) => element("li", {}, withoutFields(each)))) : null,
    notes.map((note) => element("p", { class: "quiet" }, note)),
  ];
}
