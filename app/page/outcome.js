// What came out of an image, in a word. A prediction finds a class and proves no radius, so it is not called certified.

import { variantOf } from "./procedures.js";

export const isPrediction = ({ stop_reason }) => stop_reason === "predicted";

export function outcome(certificate) {
  if (certificate.decision === "abstain") return "abstained";
  return isPrediction(certificate) ? "predicted" : "certified";
}

// The radius that was proved; null where none was.
export const provedRadius = (certificate) => (outcome(certificate) === "certified" ? certificate.radius : null);

// What a procedure does to an image where it does not abstain.
export const success = (procedure) => (variantOf(procedure).card?.predicts ? "predicted" : "certified");
