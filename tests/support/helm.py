"""Helm charts as manifests, rendered by Helm itself if it is installed, and by the few template rules that ours use.

`helm_python` (helm-python-sdk on PyPI, 250 MB) contains Helm; it is too large to be installed for these tests alone.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ACTION = re.compile(r"\{\{(-?)\s*(.*?)\s*\}\}")
THROUGH_SDK = """
import json, sys, helm_python
folder, values, namespace = sys.argv[1:]
with helm_python.Chart.load(folder) as chart:
    print(json.dumps(chart.render(json.loads(values), name="release", namespace=namespace)))
"""
INSTALLED = "helm" if shutil.which("helm") else "helm_python" if importlib.util.find_spec("helm_python") else None
"""The command of Helm itself; None if it is not installed."""


def by_helm(chart: Path, values: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
    """The manifests that Helm makes of a chart."""
    if INSTALLED == "helm":
        command = ["helm", "template", "release", str(chart), "--namespace", namespace, "--values", "-"]
        text = subprocess.run(command, input=json.dumps(values), capture_output=True, text=True, check=True).stdout
    else:
        command = [sys.executable, "-c", THROUGH_SDK, str(chart), json.dumps(values), namespace]
        made = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        text = "\n---\n".join(made.values())
    return _documents(text)


def by_rules(chart: Path, values: dict[str, Any], namespace: str) -> list[dict[str, Any]]:
    """The manifests that the rules below make of a chart; an action that they do not know is an error."""
    merged = _merged(yaml.safe_load((chart / "values.yaml").read_text()), values)
    context = {"Values": merged, "Release": {"Namespace": namespace, "Name": "release"}}
    texts = [_rendered(path.read_text(), context) for path in sorted((chart / "templates").glob("*.yaml"))]
    return _documents("\n---\n".join(texts))


def _documents(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


def _merged(defaults: Any, values: Any) -> Any:
    if not (isinstance(defaults, dict) and isinstance(values, dict)):
        return values
    return {**defaults, **{name: _merged(defaults.get(name), value) for name, value in values.items()}}


def _rendered(template: str, context: dict[str, Any]) -> str:
    """Render `{{ .A.B }}`, `toYaml`, `quote`, `nindent`, and `if`, also with `not`, up to its `end`."""
    written, shown, at = "", [True], 0
    for action in ACTION.finditer(template):
        before = template[at : action.start()]
        written += (before.rstrip() if action[1] else before) if all(shown) else ""
        at = action.end()
        match action[2].split():
            case ["if", "not", path]:
                shown.append(not _value(path, context))
            case ["if", path]:
                shown.append(bool(_value(path, context)))
            case ["end"]:
                shown.pop()
            case _ if all(shown):
                written += _evaluated(action[2], context)
    assert shown == [True], "an `if` has no `end`"
    return written + template[at:]


def _evaluated(pipeline: str, context: dict[str, Any]) -> str:
    first, *steps = (each.split() for each in pipeline.split("|"))
    value = yaml.safe_dump(_value(first[1], context)).strip() if first[0] == "toYaml" else _value(first[0], context)
    assert len(first) == 1 + (first[0] == "toYaml"), pipeline
    for step in steps:
        match step:
            case ["quote"]:
                value = json.dumps(str(value))
            case ["nindent", width]:
                value = "".join(f"\n{' ' * int(width)}{line}" for line in value.splitlines())
            case _:
                raise AssertionError(f"no rule for {pipeline!r}")
    return str(value)


def _value(path: str, context: dict[str, Any]) -> Any:
    """The value of `.A.B`. Helm writes nothing for a name that does not exist, which is an error here."""
    found: Any = context
    assert path.startswith("."), path
    for name in path[1:].split("."):
        found = found[name]
    return found
