// Elements. Text that is put into them is never read as markup.

export function element(name, attributes = {}, ...content) {
  return filled(document.createElement(name), attributes, content);
}

export function svg(name, attributes = {}, ...content) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, content);
}

function filled(made, attributes, content) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...content.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return made;
}

export function fill(place, ...content) {
  place.replaceChildren(...content.flat(Infinity).filter((each) => each));
}

export function columns(names) {
  return element("thead", {}, element("tr", {}, names.map((name) => element("th", { scope: "col" }, name))));
}

export function figure(name, value, title) {
  return element("div", { title }, element("dt", {}, name), element("dd", {}, value));
}

export function download(value, name) {
  save(new Blob([JSON.stringify(value, null, 2)], { type: "application/json" }), name);
}

export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  element("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export const byId = (id) => document.getElementById(id);

const live = byId("announcement");

// Let screen readers say a sentence, by the live region of the page.
export function say(text) {
  if (live && live.textContent !== text) live.textContent = text;
}
