// A problem in a box, in the words of the page.

import { element } from "./dom.js";
import { inWords } from "./form.js";

// Why a certification ended without certificates, by the code of its failure.
const FAILED = {
  worker_died: "the workers that tried it died",
  deadline_exceeded: "it took longer than allowed",
  ensemble_changed: "the ensemble was changed meanwhile",
  engine_failed: "the networks could not be run",
  input_lost: "the images are no longer stored",
  result_too_large: "a certificate is too large to be stored",
  internal: "the service had an internal error",
};

// `labelOf(path)` is the label of the input that a field of a request belongs to, or null.
export function problemBox(problem, labelOf = () => null) {
  const { title, detail, request_id } = inWords(problem, labelOf);
  return element("div", { class: "problem", role: "alert" },
    element("p", { class: "problem-title" }, title || "Something went wrong"),
    element("p", {}, detail),
    request_id ? element("p", { class: "fine" }, "request ", element("code", {}, request_id)) : null);
}

// The failure of a certification as a problem.
export function failure({ code, detail }) {
  return { title: `The certification failed${FAILED[code] ? `: ${FAILED[code]}` : ""}`, detail };
}
