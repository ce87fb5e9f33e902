"""Run a notebook, cell by cell, and keep its outputs: `python -m tests.support.notebook docs/notebook.ipynb`.

A cell is run as IPython runs it: what it prints is a stream, and the value of its last expression is shown as text and,
if the value supports it, as HTML or PNG. Magics are not supported.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

MOST_TEXT = 200
"""The most characters of plain text that are kept beside HTML or a picture."""


def run_notebook(path: Path) -> dict[str, Any]:
    """The notebook with the outputs of this run; an error of a cell is raised with the cell's number."""
    notebook: dict[str, Any] = json.loads(path.read_text())
    names: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        try:
            cell["outputs"] = _run("".join(cell["source"]), names, number)
        except Exception as error:
            error.add_note(f"{path.name}, cell {number}")
            raise
        cell["execution_count"] = number
    return notebook


def _run(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(tree, f"<cell {number}>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})
    if value is not None:
        result = {"data": _shown(value), "execution_count": number, "metadata": {}, "output_type": "execute_result"}
        outputs.append(result)
    return outputs


def _shown(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if hasattr(value, "_repr_html_") and (html := value._repr_html_()):
        data["text/html"] = html.splitlines(keepends=True)
    if hasattr(value, "_repr_png_"):
        data["image/png"] = base64.b64encode(value._repr_png_()).decode()
    text = repr(value)
    if data and len(text) > MOST_TEXT:  # viewers show the richer form
        text = f"{text[:MOST_TEXT]}..."
    return {**data, "text/plain": text.splitlines(keepends=True)}


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(json.dumps(run_notebook(file), indent=1, ensure_ascii=False) + "\n")
