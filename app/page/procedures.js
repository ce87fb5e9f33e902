// The procedures of the service, as they describe themselves: no other file of the page knows one by name.

import { get } from "./api.js";

let cards = [];

export async function loadProcedures() {
  cards = (await get("/v1/procedures")).data;
}

// What the form offers: every variant, with the card of its procedure.
export function choices() {
  return cards.flatMap((card) => card.variants.map((variant) => ({ ...variant, card })));
}

// The variant that a request or a certificate names, with the card of its procedure. A procedure that the service no
// longer knows has its name as label.
export function variantOf(procedure) {
  const card = cards.find(({ name }) => name === procedure.name);
  const same = ([key, value]) => JSON.stringify(procedure[key]) === JSON.stringify(value);
  const variant = card?.variants.find(({ parameters }) => Object.entries(parameters).every(same));
  return { label: procedure.name, abandoning: null, ...variant, card: card ?? null };
}

export const labelOf = (procedure) => variantOf(procedure).label;
