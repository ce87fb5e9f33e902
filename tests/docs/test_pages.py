"""The pages are correct: links lead somewhere, the HTTP reference is the service's own, every setting is described."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.docs import openapi, reference
from app.main import create_app
from app.settings import ApiSettings
from benchmarks.paper import paper_map
from benchmarks.paper.findings import Findings
from tests.support.clone import ROOT
from workers.settings import WorkerSettings

PAGES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "models" / "zoo").glob("*/README.md")),
]
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(#[^)]*)?\)")


WRITTEN = re.compile(r"--(?:attest|keyring|out|output|plot|public|report) ([a-z][\w.-]*)")
"""Names that a command in a page writes into the clone; the reader chooses names in capital letters."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor and file.suffix == ".md":
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            assert anchor[1:] in {slug(heading) for heading in headings}, f"{page.name}: {target}{anchor}"


def test_git_ignores_what_the_examples_write() -> None:
    written = {name for page in PAGES for name in WRITTEN.findall(page.read_text())}
    paths = {
        name if "." in name or "keyring" in name else f"{name}/" for name in written
    }  # only folders have no suffix
    assert {"plan.png", "study/", "my-keyring"} <= paths
    command = ["git", "check-ignore", "--no-index", *sorted(paths)]
    ignored = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split()
    assert paths - {*ignored} == set()


def slug(heading: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_http_reference_is_the_services_own() -> None:
    expected = reference.markdown(openapi.document(create_app(ApiSettings())))
    assert (ROOT / "docs" / "http.md").read_text() == expected + "\n", "run `python -m app reference > docs/http.md`"
    assert "number (>= 0, <= 1,000,000) or null" in expected
    assert "e+0" not in expected, "limits are written as people write them"


def test_the_comparison_with_the_paper_is_that_of_the_results() -> None:
    remedy = "run `python -m benchmarks.paper.paper_map benchmarks/results > docs/paper.md`"
    page = paper_map.page(Findings.read(ROOT / "benchmarks" / "results"))
    assert (ROOT / "docs" / "paper.md").read_text() == page, remedy


def test_every_setting_is_described() -> None:
    page = (ROOT / "docs" / "operation.md").read_text()
    for name in {*ApiSettings.model_fields, *WorkerSettings.model_fields}:
        assert f"`SMOOTHCERT_{name.upper()}`" in page, name


def test_the_plan_is_the_one_that_is_shown() -> None:
    text = (ROOT / "docs" / "parameters.md").read_text()
    (command,) = re.findall(r"^\$ (smoothcert plan .*)$", text, re.MULTILINE)
    environment = {**os.environ, "COLUMNS": "80"}
    printed = subprocess.run(
        [sys.executable, "-m", *command.replace("smoothcert", "smoothcert.cli").split()],
        capture_output=True, text=True, cwd=ROOT, env=environment, check=True,
    ).stdout  # fmt: skip
    shown = text.split(command)[1].split("```")[2]
    assert printed.split() == shown.split()


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for page in PAGES for name in re.findall(r"`make ([a-z]+)`", page.read_text())}
    assert {"setup", "serve", "check", "test"} <= named <= targets
