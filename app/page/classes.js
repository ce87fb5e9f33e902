// The classes of an ensemble, to be searched: there may be a thousand.

import { byId } from "./dom.js";
import { whole } from "./words.js";

const SHOWN = 30;  // classes at a time

export class Classes {
  constructor() {
    this.names = [];
    byId("find-class").addEventListener("input", (event) => {
      event.stopPropagation();  // it is not a part of the question
      this.show();
    });
  }

  take(names) {
    this.names = names;
    byId("classes").hidden = !names.length;
    byId("classes").querySelector("summary").textContent = `${whole(names.length)} classes`;
    byId("find-class").value = "";
    byId("find-class").parentElement.hidden = names.length <= SHOWN;
    this.show();
  }

  show() {
    const wanted = byId("find-class").value.trim().toLowerCase();
    const found = this.names.map((name, index) => ({ name, index }))
      .filter(({ name, index }) => name.toLowerCase().includes(wanted) || String(index) === wanted);
    const more = found.length > SHOWN ? ` … and ${whole(found.length - SHOWN)} more` : "";
    byId("found-classes").textContent = found.length
      ? found.slice(0, SHOWN).map(({ name, index }) => `${index} ${name}`).join(" · ") + more : "No class has this in its name.";
  }
}
