"use strict";
// Shows the OpenAPI document of this very server, and nothing from anywhere else. Text is only ever set as text.

function element(name, content = [], attributes = {}) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...[content].flat());
  return made;
}

function details(title, content) {
  return element("details", [element("summary", title), ...[content].flat()]);
}

function json(value) {
  return element("pre", typeof value === "string" ? value : JSON.stringify(value, null, 2));
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
    const link = described.schema && described.schema.$ref
      ? element("a", model, { href: "#" + model }) : element("span", model);
    return element("div", [element("code", type), " ", link, ...shown], { class: "media" });
  });
}

function parameters(list) {
  const rows = (list || []).map((parameter) => element("tr", [
    element("td", element("code", parameter.name)),
    element("td", parameter.in),
    element("td", parameter.description || ""),
  ]));
  return rows.length ? [element("h4", "Parameters"), element("table", rows)] : [];
}

function operation(path, method, described) {
  const body = described.requestBody ? [element("h4", "Takes"), ...media(described.requestBody.content)] : [];
  const answers = Object.entries(described.responses).map(([status, answer]) =>
    details(`${status}  ${answer.description}`, media(answer.content)));
  return element("section", [
    element("h3", [element("span", method.toUpperCase(), { class: "method" }), " ", element("code", path)]),
    element("p", described.summary),
    ...parameters(described.parameters), ...body, element("h4", "Answers"), ...answers,
  ], { id: described.operationId });
}

async function show() {
  const page = document.getElementById("document");
  const answer = await fetch("/openapi.json");
  const openapi = await answer.json();
  page.append(element("h1", `${openapi.info.title} ${openapi.info.version}`));
  page.append(...openapi.info.description.split("\n\n").map((text) => element("p", text)));
  for (const [path, methods] of Object.entries(openapi.paths))
    for (const [method, described] of Object.entries(methods)) page.append(operation(path, method, described));
  page.append(element("h2", "Schemas"));
  for (const [name, schema] of Object.entries(openapi.components.schemas))
    page.append(element("section", details(name, json(schema)), { id: name }));
}

show().catch((error) => document.getElementById("document").append(element("p", String(error))));
