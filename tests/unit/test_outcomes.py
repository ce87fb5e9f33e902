"""The CSV files of evaluations: what an ensemble adds to its members, and one training method to another."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from benchmarks.paper import trainings
from benchmarks.paper.outcomes import Outcomes, ratio_between
from smoothcert.errors import DomainError

HEADER = "setting,image,label,class_index,radius,samples,evaluations,stop_reason"


def written(path: Path, *, samples: int = 1100, images: int = 4, **radii: float) -> Path:
    """Certificates of a few images: the first one abstains, the second one is wrong, the others have this radius."""
    rows = []
    for setting, radius in radii.items():
        name = setting.replace("_", "-")
        rows += [f"{name},0,3,,0.0,{samples},1,exhausted", f"{name},20,3,5,0.9,{samples},1,certified"]
        rows += [f"{name},{20 * i},3,3,{radius * i},{samples},1,certified" for i in range(2, images)]
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


def test_only_right_answers_count_and_all_members_are_compared_with_the_best(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", fixed_k1=0.1, fixed_k3_K2=0.3, fixed_member2=0.2, fixed_member3=0.15)
    found = Outcomes.read(path)
    assert found.radii["fixed-k1"].tolist() == pytest.approx([0, 0, 0.2, 0.3])
    assert found.acr("fixed-k1").value == pytest.approx(0.125)
    assert (found.sizes, found.alone) == (
        {1: "fixed-k1", 3: "fixed-k3-K2"},
        ["fixed-k1", "fixed-member2", "fixed-member3"],
    )
    name, over = found.over_one() or ("", None)
    assert (name, over and over.value) == ("the best member", pytest.approx(1.5))
    first = Outcomes.read(written(tmp_path / "b.csv", fixed_k1=0.1, fixed_k3=0.3)).over_one()
    assert first is not None
    assert (first[0], first[1].value) == ("the first member", pytest.approx(3))
    assert Outcomes.read(written(tmp_path / "c.csv", adaptive_k3=0.3)).over_one() is None


def test_two_trainings_are_compared_on_the_same_images_and_samples(tmp_path: Path) -> None:
    one, other = (written(tmp_path / f"{name}.csv", fixed_k1=r) for name, r in (("one", 0.21), ("other", 0.2)))
    found = trainings.run(argparse.Namespace(one=one, other=other))
    (figure,) = found.figures
    assert (figure.value, figure.goal, figure.reached) == (pytest.approx(1.05), ">= 1.05", True)
    assert found.rows[0][-1] == round(0.528 / 0.434, 3) == 1.217
    assert json.loads(found.as_json())["rows"][0]["ratio"]["low"] == pytest.approx(1.05)
    for wrong, sentence in (
        (written(tmp_path / "n.csv", fixed_k1=0.2, samples=600), "the same samples of an image; got 1,100 and 600"),
        (written(tmp_path / "i.csv", fixed_k1=0.2, images=5), "must be about the same images in the same order"),
        (written(tmp_path / "k.csv", fixed_k2=0.2), "has no setting fixed-k1; it has fixed-k2"),
    ):
        with pytest.raises(DomainError, match=sentence):
            ratio_between(Outcomes.read(one), Outcomes.read(wrong), "fixed-k1")


def test_a_file_whose_settings_are_about_different_images_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", fixed_k1=0.1, fixed_k2=0.2)
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    with pytest.raises(DomainError, match=r"a.csv: its settings must be about the same images"):
        Outcomes.read(path)
