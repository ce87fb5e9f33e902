"""The HTTP reference as Markdown, made of the OpenAPI document: `python -m app reference > docs/http.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from smoothcert.problem import FAILURES, KINDS

Schema = Mapping[str, Any]
HEAD = """# The HTTP reference

Made by `python -m app reference` of the OpenAPI document, which a running service gives at `/openapi.json` and, to be
read, at `/docs`. What the words mean is in [guarantee.md](guarantee.md) and [parameters.md](parameters.md).
"""


def markdown(document: Schema) -> str:
    """The whole page."""
    return "\n".join([HEAD, document["info"]["description"], "", *_operations(document), *_types(document), *_codes()])


def _operations(document: Schema) -> Iterator[str]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield f"## `{method.upper()} {path}`\n"
            yield f"{operation['summary']} {operation['description'].strip()}".strip() + "\n"
            yield from _parameters(operation.get("parameters", ()))
            for media, content in operation.get("requestBody", {}).get("content", {}).items():
                yield f"- takes `{media}`: {_kind(content['schema'])}"
            for status, answer in operation["responses"].items():
                kinds = {_kind(content["schema"]) for content in answer.get("content", {}).values()}
                yield f"- {status}: {answer['description']} {' '.join(f'→ {kind}' for kind in sorted(kinds))}".rstrip()
            yield ""


def _parameters(parameters: Any) -> Iterator[str]:
    for parameter in parameters:
        said = parameter.get("description", "")
        yield f"- `{parameter['name']}` ({parameter['in']}): {_kind(parameter['schema'])}. {said}".rstrip()


def _types(document: Schema) -> Iterator[str]:
    yield "## Types\n"
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield f"### {name}\n\n{schema.get('description', '')}\n"
        yield "| field | type | |\n|---|---|---|"
        required = schema.get("required", ())
        for field, said in schema.get("properties", {}).items():
            default = "" if field in required or "default" not in said else f" Default: `{_literal(said['default'])}`."
            meaning = " ".join(said.get("description", "").split())
            yield f"| `{field}` | {_kind(said)} | {meaning}{default} |"
        yield ""


def _codes() -> Iterator[str]:
    yield "## Codes of problems\n\n| code | status | title |\n|---|---|---|"
    yield from (f"| `{code}` | {kind.status} | {kind.title} |" for code, kind in KINDS.items())
    yield "\n## Codes of failed certifications\n\n| code | |\n|---|---|"
    yield from (f"| `{code}` | {meaning} |" for code, meaning in FAILURES.items())


def _kind(schema: Schema) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_kind(each) for each in schema[several]))
    if "const" in schema:
        return f"`{_literal(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{_literal(each)}`" for each in schema["enum"])
    if schema.get("type") == "array":
        items = schema.get("items") or {"anyOf": schema.get("prefixItems", [{}])}
        return f"list of {_kind(items)}"
    return str(schema.get("format") or schema.get("type", "anything")) + _range(schema)


def _range(schema: Schema) -> str:
    signs = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    said = [f"{sign} {schema[name]:g}" for name, sign in signs.items() if abs(schema.get(name, 1e16)) < 1e15]
    return f" ({', '.join(said)})" if said else ""


def _literal(value: object) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
