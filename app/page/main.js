// The page: the question is always there; the address decides what is shown beside it.
//
//   #/                           the plan for the question
//   #/certifications/ID[/INDEX]  a certification, or one image of it
//   #/history                    the certifications of this key
//   #/verify                     what a certificate file is worth, which needs no key

import { Answer } from "./answer.js";
import { forgetKey, onKeyWanted, storedKey } from "./api.js";
import { forgetPictures } from "./kept.js";
import { byId, fill, say } from "./dom.js";
import { Examination } from "./examination.js";
import { History } from "./history.js";
import { Images } from "./images.js";
import { PlanView } from "./plan.js";
import { problemBox } from "./problem.js";
import { Question } from "./question.js";

const place = byId("answer");
const form = byId("question");
const images = new Images(() => question.plan(), examine);
const question = new Question({ form, images, planned });
let shown = { close() {} };
let latestPlan = [];
let handed = [];  // certificate files that were dropped and are not examined yet

function planned(plan, request) {
  latestPlan = [plan, request];
  if (shown instanceof PlanView) shown.show(plan, request);
}

function examine(files) {
  handed = files;
  if (location.hash === "#/verify") route({ focus: true });
  else location.hash = "#/verify";
}

// Ask the same about the same image, with another radius; the user presses Certify.
function again(request, image, radius) {
  question.repeat(request, radius);
  if (image.url && !image.small) images.chooseAgain(image);
}

function nowhere(place) {
  const detail = `The link ends with ${location.hash}, which is not a part of this page. Was it copied completely?`;
  fill(place, problemBox({ title: "This link leads nowhere", detail }));
  return { close() {} };
}

function route({ focus }) {
  const [kind, id, index] = location.hash.replace(/^#\/?/, "").split("/");
  shown.close();
  const { ensembles } = question;
  const one = index ? Number(index) : null;
  if (kind === "certifications" && id) shown = new Answer(place, { id, index: one, ensembles, again });
  else if (kind === "history") shown = new History(place, ensembles);
  else if (kind === "verify") shown = new Examination(place, handed.splice(0));
  else if (kind) shown = nowhere(place);
  else shown = new PlanView(place, latestPlan);
  for (const link of document.querySelectorAll("nav a[href^='#']"))
    if (link.getAttribute("href") === `#/${["history", "verify"].includes(kind) ? kind : ""}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  if (focus) (place.querySelector("h2") ?? place).focus();
  else if (kind && isBelow()) place.scrollIntoView();
}

// Whether the answer is below the question, as in a narrow window.
function isBelow() {
  return place.offsetTop >= form.offsetTop + form.offsetHeight;
}

form.addEventListener("input", () => fill(byId("refused")));
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const trouble = byId("refused"), button = byId("certify");
  fill(trouble);
  button.disabled = true;
  try {
    if (images.taken) say("The question is sent when the picture is read");
    await images.read();
    if (!images.chosen.length) {
      fill(trouble, problemBox({ title: "There is no image yet", detail: "Drop one, choose a file, or pick a sample." }));
      return byId("files").focus();
    }
    say("Sending the question");
    location.hash = `#/certifications/${await question.submit()}`;
  } catch (problem) {
    question.mark(problem.errors ?? []);
    if (byId("plan").querySelector(".problem, .infeasible")) fill(byId("plan"));
    fill(trouble, question.problem(problem));
    question.replaceEnsembles(problem);
  } finally {
    button.disabled = false;
    if (document.activeElement === document.body) button.focus();
  }
});

onKeyWanted((problem, attempt) => {
  const box = byId("key");
  const show = (refused) => fill(byId("key-problem"), problemBox(refused));
  const before = document.activeElement;
  box.hidden = false;
  show(problem);
  byId("key-field").focus();
  box.onsubmit = async (event) => {
    event.preventDefault();
    const wrong = await attempt(byId("key-field").value.trim()).catch((error) => error);
    if (wrong) return show(wrong);
    box.hidden = true;
    byId("key-field").value = "";
    (before === document.body ? byId("files") : before).focus();
    showKey();
  };
});

function showKey() {
  byId("forget-key").hidden = !storedKey();
}

byId("forget-key").addEventListener("click", () => {
  forgetKey();
  forgetPictures();
  location.reload();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  place.focus();
});
window.addEventListener("hashchange", () => route({ focus: true }));

showKey();
if (location.hash === "#/verify") route({ focus: false });  // also for a visitor who has no key
question.load()
  .catch((problem) => fill(byId("plan"), problemBox(problem)))
  .finally(() => shown instanceof Examination || route({ focus: false }));
