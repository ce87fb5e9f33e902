"""`smoothcert report` writes one page: what was asked, what was proved, how surely, and whether it is true."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from scipy.stats import beta

from smoothcert.account import MOST_PICTURE_BYTES, Evidence
from smoothcert.collection import collect
from smoothcert.evaluation import Judged
from smoothcert.noise import Replacement
from smoothcert.procedures import Adaptive, Fixed
from smoothcert.report import Report
from tests.support.attested import keyring, sealed
from tests.support.certificates import altered
from tests.support.command import one_sentence, png, smoothcert
from tests.support.ledgers import certified, write_ledger

SHARES = (0.99, 0.95, 0.9, 0.8, 0.7, 0.6, 0.4, 0.35, 0.97, 0.85)
LABELS = (1, 1, 0, 1, 1, 1, 1, 1, 1, 1)
CERTIFICATES = [certified(place, p_a) for place, p_a in enumerate(SHARES)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Reader(HTMLParser):
    """The tags and their attributes, and the text outside styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text, self._styled = "", False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._styled = tag == "style"

    def handle_data(self, data: str) -> None:
        self.text += "" if self._styled else data


def test_the_report_says_what_the_certificates_say(here: Path) -> None:
    ledger = write_ledger(here / "release.jsonl", CERTIFICATES, LABELS)
    done = smoothcert("report", ledger, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    radii = [
        each.radius if each.class_index == label else 0.0 for each, label in zip(CERTIFICATES, LABELS, strict=True)
    ]
    assert found["figures"]["ACR"] == pytest.approx(sum(radii) / 10, abs=1e-6)
    for point in found["curve"]:
        count = sum(0 < radius >= point["radius"] for radius in radii)
        assert point["certified_accuracy"] == 10 * count
        assert point["low"] == pytest.approx(100 * beta.ppf(0.025, count, 11 - count) if count else 0)
        assert point["high"] == pytest.approx(100 * beta.ppf(0.975, count + 1, 10 - count))
    page, markdown = Reader(Path("report.html").read_text()), Path("report.md").read_text()
    for text in (page.text, markdown):
        assert "7 of 10 images are certified for the right class." in text
        assert "Procedure fixed, n0 100, n 1000, noise rounded-gaussian, sigma 0.25, alpha 0.001" in text
        assert CERTIFICATES[0].provenance.ensemble.digest in text  # type: ignore[union-attr]
        assert "of Euclidean length below" in text
        assert "2 images, exhausted: the samples do not suffice for a proof." in text
        assert "agrees for 10 of 10 certificates" in text
        for each in CERTIFICATES:
            assert each.digest[:12] in text
    assert [tag for tag, _ in page.tags].count("svg") == 3


def test_the_page_needs_nothing_from_elsewhere(here: Path) -> None:
    ledger = write_ledger(here / "<script>alert(1)<", [certified(0, 0.9, ensemble='"><img src=x onerror=alert(1)>')])
    assert smoothcert("report", ledger, "--title", "<script>alert(1)</script>").returncode == 0
    page = Reader(Path("report.html").read_text())
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in page.tags}
    named = [value for _, given in page.tags for name, value in given.items() if name in ("src", "href", "xlink:href")]
    assert all((value or "").startswith(("#", "data:image/")) for value in named)
    assert not [name for _, given in page.tags for name in given if name.startswith("on")]
    policy = next(given for tag, given in page.tags if tag == "meta" and "http-equiv" in given)
    assert "default-src 'none'" in (policy["content"] or "")


HOSTILE = "</td><script>alert(1)</script> | ![x](http://a/b) [x][y] \\<b> \n# [x]: y"


def test_no_name_takes_effect_in_markdown(here: Path) -> None:
    """Names of classes, ensembles and titles may be a stranger's. Mutant killed: text that is written as it is."""
    found = [certified(place, 0.9, ensemble=HOSTILE, class_name=HOSTILE) for place in range(2)]
    assert smoothcert("report", write_ledger(here / "x.jsonl", found), "--title", HOSTILE).returncode == 0
    tokens = MarkdownIt("commonmark").enable("table").parse(Path("report.md").read_text())
    inline = [each for token in tokens for each in token.children or ()]
    assert not {"html_block", "html_inline", "image", "link_open"} & {token.type for token in (*tokens, *inline)}
    assert [token.tag for token in tokens if token.type == "heading_open"].count("h1") == 1
    cells = ["".join(each.content for each in token.children or ()) for token in tokens if token.type == "inline"]
    assert cells.count(HOSTILE.replace("\n", " ")) == 1 + 1 + 2, "the title, the ensemble, the class of each image"


def test_certificates_may_state_any_time(here: Path) -> None:
    """Mutants killed: a sum of times that overflows, and another zone that is called UTC."""
    times = ("0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00")
    found = [certified(place, 0.9) for place in range(300)]
    for place, each in enumerate(found):
        for name, moment in zip(("started_at", "finished_at"), times, strict=True):
            found[place] = each = altered(each, ["provenance", name], moment, signed=True)
    assert smoothcert("report", write_ledger(here / "x.jsonl", found)).returncode == 0
    assert "| last end | 9999-12-31 23:59:59 -05:00 |" in Path("report.md").read_text()


def test_without_labels_nothing_is_called_accuracy(here: Path) -> None:
    done = smoothcert("report", write_ledger(here / "x.jsonl", CERTIFICATES), "--json")
    found = json.loads(done.stdout)
    assert found["curve"][0]["certified"] == 80
    assert "certified for the right class" not in found["figures"]
    assert "There are no labels" in Path("report.md").read_text()
    assert "certified accuracy, %" not in Path("report.html").read_text().lower()


def test_a_wrong_certificate_counts_as_an_abstention_and_is_named(here: Path) -> None:
    wrong = altered(CERTIFICATES[0], ["radius"], 0.9, signed=True)
    done = smoothcert("report", write_ledger(here / "x.jsonl", [wrong, *CERTIFICATES[1:]], LABELS), "--json")
    assert done.returncode == 1
    assert "Something is wrong in x.jsonl: 1 of 10 certificates" in done.stderr
    found = json.loads(done.stdout)
    assert found["figures"]["certified for the right class"] == 6
    assert found["wrong"] == 1
    for text in (Path("report.html").read_text(), Path("report.md").read_text()):
        assert "line 2: radius: is 0.9" in text
        assert "agrees for 9 of 10 certificates" in text


def test_the_folder_of_an_evaluation_has_names_and_labels(here: Path) -> None:
    write_ledger(here / "certificates.jsonl", CERTIFICATES[:2])
    pixels = png(7)
    for name in ("cats/a.png", "dogs/b.png"):
        (here / "data" / name).parent.mkdir(parents=True)
        (here / "data" / name).write_bytes(pixels)
    with (here / "images.csv").open("w") as file:
        csv.writer(file).writerows([("image", "label"), ("cats/a.png", 1), ("dogs/b.png", 0)])
    done = smoothcert("report", here, "--images", here / "data", "--out", "made.html")
    assert done.returncode == 0, done.stderr
    page = Reader(Path("made.html").read_text())
    assert "1 of 2 images are certified for the right class." in page.text
    assert "dogs/b.png" in page.text
    assert sum(tag == "img" for tag, _ in page.tags) == 2
    (here / "images.csv").write_text("image,label\nx,1\n")
    one_sentence(smoothcert("report", here), "images.csv has 1 images", "2 certificates")


def test_a_folder_of_files_is_one_report(here: Path) -> None:
    (here / "files").mkdir()
    for place in (0, 1):
        (here / "files" / f"{place}.json").write_text(CERTIFICATES[place].to_json())
    assert json.loads(smoothcert("report", "files", "--json").stdout)["figures"]["images"] == 2
    (here / "files" / "2.json").write_text(CERTIFICATES[0].to_json())
    done = smoothcert("report", "files", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["wrong"] == 1


def test_signatures_are_told(here: Path) -> None:
    ring = keyring()
    Path("x.jsonl").write_text("".join(sealed(each, ring) + "\n" for each in CERTIFICATES))
    Path("keys.json").write_text(ring.published.model_dump_json())
    assert smoothcert("report", "x.jsonl", "--key", "keys.json").returncode == 0
    assert "Every byte is as it was signed." in Path("report.md").read_text()
    Path("keys.json").write_text(keyring("another").published.model_dump_json())
    assert smoothcert("report", "x.jsonl", "--key", "keys.json").returncode == 1


def test_the_training_card_is_that_of_the_ensemble(here: Path) -> None:
    ledger = write_ledger(here / "x.jsonl", CERTIFICATES, LABELS)
    members = CERTIFICATES[0].provenance.ensemble.members  # type: ignore[union-attr]
    tables = "".join(f'[[members]]\nsha256 = "{each}"\n[members.training]\nepochs = 16\n' for each in members)
    Path("ensemble.toml").write_text(f'classes = ["a", "b"]\nmethod = "gaussian"\n{tables}')
    assert smoothcert("report", ledger, "--card", "ensemble.toml").returncode == 0
    assert f"| {members[0][:12]} | 16 |" in Path("report.md").read_text()
    Path("ensemble.toml").write_text('[[members]]\nsha256 = "ab"\n')
    one_sentence(smoothcert("report", ledger, "--card", "ensemble.toml"), "is of another ensemble", "ab")
    Path("ensemble.toml").write_text("[[")
    one_sentence(smoothcert("report", ledger, "--card", "ensemble.toml"), "is not an ensemble.toml")


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ([certified(1, 0.9, ensemble="two")], "ensemble is"),
        ([certified(1, 0.9, alpha=0.01)], "alpha is 0.001 there and 0.01 here"),
        ([certified(1, 0.9, procedure=Fixed(n=500))], "procedure.n is 1000 there and 500 here"),
        ([certified(1, 0.9, procedure=Adaptive())], "the certificates are not of one ensemble and one question"),
    ],
)
def test_a_report_is_about_one_question(here: Path, others: list, words: str) -> None:  # type: ignore[type-arg]
    Path("x.jsonl").write_text("".join(each.model_dump_json() + "\n" for each in [CERTIFICATES[0], *others]))
    one_sentence(smoothcert("report", "x.jsonl"), "not of one ensemble and one question: line 2", words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no such file or folder, and it is not the id of a certification"),
        ("", "there is no certificate that could be read"),
        ("{}", "there is no certificate that could be read"),
        (CERTIFICATES[0].to_json()[:500], "there is no certificate that could be read"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(here: Path, text: str | None, words: str) -> None:
    if text is not None:
        Path("x.json").write_text(text)
    one_sentence(smoothcert("report", "x.json"), words)
    assert not Path("report.html").exists()


def test_a_page_stays_small_whatever_images_are_given() -> None:
    judged = [Judged(each, 1) for each in CERTIFICATES]
    half = b"\x89PNG" + bytes(MOST_PICTURE_BYTES // 2 - 4)
    made = Report("x", [str(place) for place in range(10)], judged, Evidence(pictures=[half] * 10))
    assert made.html().count("<img") == 2
    assert "8 images of 10 are not shown" in made.markdown()


def test_the_guarantee_is_in_the_words_of_the_norm() -> None:
    noise = Replacement(0.8, 2)
    judged = [Judged(certified(0, 0.999, noise=noise), 1)]
    text = Report("x", ["a"], judged).markdown()
    assert re.search(r"No perturbation that changes at most \d+ values?, whatever", text)


def test_labels_that_are_not_numbers_are_not_labels() -> None:
    line = {"image": 0, "label": True, "certificate": CERTIFICATES[0].model_dump(mode="json")}
    other = {"image": 1, "label": 1, "certificate": CERTIFICATES[1].model_dump(mode="json")}
    text = "\n".join(map(json.dumps, ({"run": {}}, line, other)))
    assert [each.label for each in collect([("x", text.encode())]).judged] == [None, 1]
