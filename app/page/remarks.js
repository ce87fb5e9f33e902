// What should be known beside the claim of a certificate: a superclass, a resized image, members that are not pinned.

import { superclassOf } from "./superclasses.js";

const MOST_SHOWN = 10;  // classes of a superclass that are listed

// `names` are those of the ensemble's classes, if they are known.
export function remarks(certificate, names) {
  const { provenance } = certificate;
  const resized = provenance?.input.resized;
  const { remote, members } = provenance?.ensemble ?? {};
  const joined = superclassOf(certificate);
  return [
    ...(joined ? [superclass(joined, names)] : []),
    ...(resized ? [resizing(resized, certificate.decision)] : []),
    ...(remote ? [unpinned(remote, members.length)] : []),
  ];
}

function superclass({ name, classes }, names) {
  const listed = classes.slice(0, MOST_SHOWN).map((index) => names?.[index] ?? index).join(", ");
  const more = classes.length > MOST_SHOWN ? ", …" : "";
  return `What was certified is the superclass ‘${name}’, the classes ${listed}${more} together: within the radius, more `
    + "than half of the noise falls into it. Which of its classes leads there is not said.";
}

function resizing({ source, box, size, method, by }, decision) {
  const done = decision === "abstain" ? "examined" : "certified";
  const [left, top, right, bottom] = box.map((each) => Number(each.toFixed(3)));
  const how = method === null ? "cut out" : `resized to ${size[0]} x ${size[1]} by the method ${method}`;
  return `What was ${done} is a resized image: the box from (${left}, ${top}) to (${right}, ${bottom}) of a source of `
    + `${source[0]} x ${source[1]} pixels, ${how} (${by}). The radius is measured in the resized image.`;
}

function unpinned(remote, members) {
  const named = remote.map(({ model, version }) => `model ${model}${version === null ? "" : ` version ${version}`}`);
  return `${remote.length} of ${members} ${members === 1 ? "member" : "members"} ${remote.length === 1 ? "runs" : "run"} at `
    + `an endpoint (${named.join("; ")}). The identity of such a member is not pinned: its digest covers the address and `
    + "one answer, and not the weights. So the certificate cannot be replayed.";
}
