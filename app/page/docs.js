// Shows the OpenAPI document of this server.

import { byId, element } from "./dom.js";

function details(title, ...content) {
  return element("details", {}, element("summary", {}, title), ...content);
}

function json(value) {
  return element("pre", {}, typeof value === "string" ? value : JSON.stringify(value, null, 2));
}

// Text in which `code` stands between backticks.
function prose(text) {
  return text.split("`").map((part, i) => (i % 2 ? element("code", {}, part) : part));
}

function schemaName(schema) {
  if (!schema) return "";
  return schema.$ref ? schema.$ref.split("/").pop() : schema.type || "";
}

function media(content) {
  return Object.entries(content || {}).map(([type, described]) => {
    const shown = described.examples
      ? Object.entries(described.examples).map(([name, example]) => details(name, json(example.value)))
      : described.example ? [json(described.example)] : [];
    const model = schemaName(described.schema);
    const link = described.schema?.$ref ? element("a", { href: `#${model}` }, model) : element("span", {}, model);
    return element("div", { class: "media" }, element("code", {}, type), " ", link, shown);
  });
}

function parameters(list) {
  const rows = (list || []).map((parameter) => element("tr", {},
    element("td", {}, element("code", {}, parameter.name)),
    element("td", {}, parameter.in),
    element("td", {}, prose(parameter.description || ""))));
  return rows.length ? [element("h4", {}, "Parameters"), element("table", {}, rows)] : [];
}

function operation(path, method, described) {
  const body = described.requestBody ? [element("h4", {}, "Takes"), media(described.requestBody.content)] : [];
  const answers = Object.entries(described.responses).map(([status, answer]) =>
    details(`${status}  ${answer.description}`, media(answer.content)));
  return element("section", { id: described.operationId },
    element("h3", {}, element("span", { class: "method" }, method.toUpperCase()), " ", element("code", {}, path)),
    element("p", {}, prose(described.summary)),
    parameters(described.parameters), body, element("h4", {}, "Answers"), answers);
}

async function show() {
  const page = byId("document");
  const openapi = await (await fetch("/openapi.json")).json();
  page.append(element("h1", {}, `${openapi.info.title} ${openapi.info.version}`));
  page.append(...openapi.info.description.split("\n\n").map((text) => element("p", {}, prose(text))));
  for (const [path, methods] of Object.entries(openapi.paths))
    for (const [method, described] of Object.entries(methods)) page.append(operation(path, method, described));
  page.append(element("h2", {}, "Schemas"));
  for (const [name, schema] of Object.entries(openapi.components.schemas))
    page.append(element("section", { id: name }, details(name, json(schema))));
  byId(location.hash.slice(1))?.scrollIntoView();
}

show().catch((error) => byId("document").append(element("p", {}, String(error))));
