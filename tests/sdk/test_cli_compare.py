"""`smoothcert compare --images`: two served ensembles certify the same images, and are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from smoothcert.certificate import Certificate
from smoothcert.cli.served import require_comparable
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian
from smoothcert.published import ServedEnsemble
from tests.sdk.test_cli_evaluate import make_folder
from tests.support.command import one_sentence, smoothcert

FIXED = ("--procedure", '{"name": "fixed", "n": 300, "n0": 20}')
BOTH = ("compare", "trivial", "moody", "--images", "data", "--out", "both")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make_folder(tmp_path / "data")


def ledger(path: str) -> list[Certificate]:
    lines = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return [Certificate.from_json(json.dumps(line["certificate"])) for line in lines if "certificate" in line]


def test_two_served_ensembles_are_compared_on_the_same_images_with_noise_of_their_own(
    service: str, folder: Path
) -> None:
    """Both give the same classes here, so nothing is gained or lost, and the folders can be compared again."""
    done = smoothcert(*BOTH, *FIXED, "--radius", 0.02, "--json", url=service)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    (difference,) = found["differences"]
    assert (found["old"], found["new"], found["images"]) == ("trivial", "moody", 10)
    assert (difference["old"], difference["new"]) == (80, 80)
    assert (difference["gained"], difference["lost"]) == (0, 0)
    old, new = (ledger(f"both/{name}/certificates.jsonl") for name in ("trivial", "moody"))
    for one, other in zip(old, new, strict=True):
        assert one.provenance is not None
        assert other.provenance is not None
        assert one.provenance.input == other.provenance.input
        assert one.provenance.sampling.seed != other.provenance.sampling.seed
    again = smoothcert("compare", "both/trivial", "both/moody", "--radius", "0,02", "--json", url="http://127.0.0.1:9")
    assert json.loads(again.stdout)["differences"] == found["differences"]


def test_a_procedure_with_a_target_proves_the_radius_of_the_comparison(service: str, folder: Path) -> None:
    done = smoothcert(*BOTH, "--procedure", "sequential", "--radius", 0.02, "--json", url=service)
    assert done.returncode == 0, done.stderr
    assert {each.target_radius for each in ledger("both/moody/certificates.jsonl")} == {0.02}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*BOTH[:5], *FIXED), "--images certifies anew: name a folder for it by --out"),
        (("compare", "trivial", "trivial", *BOTH[3:], *FIXED), "OLD and NEW are both trivial"),
        ((*BOTH, "--procedure", "sequential"), "this procedure proves a given radius: name one by --radius, got 0"),
        (("compare", "trivial", "moddy", *BOTH[3:], *FIXED), "moddy"),
        (("compare", "a.jsonl", "b.jsonl", "--out", "both"), "--out and --labels go with --images"),
    ],
    ids=["no folder", "the same", "no radius", "unknown", "no images"],
)
def test_what_cannot_be_compared_is_a_sentence_before_anything_is_certified(
    service: str, folder: Path, arguments: tuple[object, ...], words: str
) -> None:
    of_options = words.startswith(("--", "this procedure"))  # an impossible option is a wrong command line
    one_sentence(smoothcert(*arguments, url=service), words, code=2 if of_options else 1)
    assert not Path("both").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"input_shape": (3, 16, 16)}, r"shapes \[3, 8, 8\] and \[3, 16, 16\]: they must be the same"),
        ({"classes": ("light", "dark")}, "have different classes"),
        ({"noise": Gaussian(0.5)}, "made for different noises"),
        ({"noise": None}, r"made for different noises \(.* and none\)"),
    ],
    ids=["shape", "classes", "noise", "no noise"],
)
def test_ensembles_that_answer_different_questions_are_refused(change: dict[str, Any], words: str) -> None:
    old = ServedEnsemble.model_construct(
        name="old", input_shape=(3, 8, 8), classes=("dark", "light"), noise=Gaussian(0.25)
    )
    new = old.model_copy(update={"name": "new", **change})
    with pytest.raises(DomainError, match=words):
        require_comparable(old, new, noise_given=False)
    require_comparable(old, old.model_copy(update={"name": "new", "noise": None}), noise_given=True)
