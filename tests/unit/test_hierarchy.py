"""The procedure `hierarchy` proves a class if it can, and otherwise a declared superclass."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from app.requests.admission import Settled
from app.requests.intake import CERTIFICATE_BYTES, _certificate_bytes
from models.description import Description, MemberFile, parse, write
from models.errors import DescriptionError
from models.registry import describe, names
from smoothcert.bounds import lower_bound
from smoothcert.certificate import Certificate
from smoothcert.counts import MOST_CLASSES
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.errors import DomainError
from smoothcert.evaluation import Judged
from smoothcert.noise import Gaussian
from smoothcert.notebook import sentence
from smoothcert.procedures import PROCEDURES, Fixed, Hierarchy, Procedure, Superclass, run
from smoothcert.question import Question
from smoothcert.remainder import remainder
from smoothcert.request import CertificationRequest
from smoothcert.verdict import Verdict
from smoothcert.verification import verify
from tests.support.api import ROOT
from tests.support.certificates import altered
from tests.support.engines import SHAPE, ensemble

NOISE = Gaussian(0.25)
ANIMAL = Superclass(name="animal", classes=(0, 1, 2))
MACHINE = Superclass(name="machine", classes=(3, 4))
THING = Superclass(name="thing", classes=(0, 1, 2, 3, 4))
LEVELS = ((ANIMAL, MACHINE), (THING,))
N = 1000


def procedure(**changed: Any) -> Hierarchy:
    return Hierarchy(**{"levels": LEVELS, "n": N, **changed})


def verdict(selection: list[int], counts: list[int], **changed: Any) -> Verdict:
    """The verdict for six classes, the last of which is in no superclass, and a last entry for no class."""
    coming = iter([selection, counts])
    started: Procedure = procedure(**changed).start(NOISE, None, alpha=0.001, beta=0.001)
    return run(started, lambda _: np.array(next(coming)))


CLEAR, MIXED = [90, 5, 5, 0, 0, 0, 0], [40, 35, 15, 10, 0, 0, 0]


def test_a_class_that_can_be_proved_is_proved_as_a_class() -> None:
    found = verdict(CLEAR, [900, 50, 50, 0, 0, 0, 0])
    assert found.top_class == 0
    assert found.p_lower == lower_bound(900, N, 0.001 / 3)
    assert found.radius == NOISE.radius(found.p_lower)


def test_where_the_class_cannot_be_its_superclass_is() -> None:
    found = verdict(MIXED, [400, 350, 150, 100, 0, 0, 0])
    assert found.top_class == MOST_CLASSES
    assert found.p_lower == lower_bound(900, N, 0.001 / 3)
    assert (found.stages[0].count, found.stages[0].outcome) == (900, "certified")


def test_a_coarser_level_comes_after_a_finer_one() -> None:
    assert verdict(MIXED, [300, 150, 50, 400, 100, 0, 0]).top_class == MOST_CLASSES + 2
    outside = verdict(MIXED, [300, 150, 0, 0, 0, 550, 0])
    assert (outside.top_class, outside.stop_reason, outside.stages[0].count) == (None, "exhausted", 450)


def test_a_level_that_proves_less_than_is_asked_for_is_passed_over() -> None:
    counts = [600, 350, 0, 50, 0, 0, 0]
    assert verdict(MIXED, counts).top_class == 0
    assert verdict(MIXED, counts, least_radius=0.2).top_class == MOST_CLASSES
    assert verdict(MIXED, counts, least_radius=0.5).top_class == MOST_CLASSES + 2
    assert verdict(MIXED, counts, least_radius=5.0).top_class is None


def test_the_sets_are_chosen_by_the_selection_alone_and_on_each_level_anew() -> None:
    """Class 3 leads among classes, and the animals among superclasses, although 3 is not one of them."""
    selection = [20, 20, 15, 45, 0, 0, 0]
    assert verdict(selection, [300, 300, 300, 100, 0, 0, 0]).top_class == MOST_CLASSES
    assert verdict(selection, [100, 0, 0, 900, 0, 0, 0]).top_class == 3
    assert verdict(selection, [0, 0, 0, 100, 800, 100, 0]).top_class == MOST_CLASSES + 2  # the machines were not chosen


def test_a_class_without_a_superclass_stays_alone() -> None:
    found = verdict([0, 0, 0, 0, 0, 100, 0], [0, 0, 0, 0, 0, 1000, 0])
    assert found.top_class == 5
    assert verdict([0] * 6 + [100], [0] * 6 + [1000]).stop_reason == "no-class"


def test_samples_without_a_class_are_in_no_superclass() -> None:
    assert verdict(MIXED, [300, 100, 50, 0, 0, 0, 550]).top_class is None


def certificate(selection: list[int], counts: list[int], **changed: Any) -> Certificate:
    chosen = procedure(**changed)
    return Certificate.of(
        verdict(selection, counts, **changed),
        noise=NOISE,
        procedure=chosen,
        alpha=0.001,
        beta=0.001,
        target_radius=None,
        class_name=chosen.class_name(MOST_CLASSES),
    )


def test_a_certificate_of_a_superclass_verifies_and_says_what_it_is() -> None:
    found = certificate(MIXED, [400, 350, 150, 100, 0, 0, 0])
    assert (found.decision, found.class_index, found.class_name) == ("certified", MOST_CLASSES, "animal")
    assert verify(found).problems == ()
    again = Certificate.from_json(found.to_json())
    assert again == found
    assert isinstance(again.procedure, Hierarchy)
    (remark,) = found.remarks
    assert "the superclass 'animal', the classes 0, 1, 2 together" in remark
    assert "certified: 'animal' within" in repr(found)
    assert " changes the superclass 'animal', with 99.9 % confidence." in sentence(found)
    assert not Judged(found, label=0).right  # a superclass is not the class of the label


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (["class_index"], 0, "class_index"),
        (["class_index"], MOST_CLASSES + 2, "class_index"),
        (["class_index"], MOST_CLASSES + 9, "class_index"),
        (["class_name"], "cat", "class_name"),
        (["radius"], 0.9, "radius"),
        (["procedure", "levels", 0, 0, "classes"], [0, 1], "radius"),
        (["procedure", "least_radius"], 0.9, "decision"),
        (["stages", 0, "count"], 950, "stages[0].count"),
    ],
)
def test_what_does_not_follow_from_the_counts_is_noticed(path: list[Any], value: Any, field: str) -> None:
    problems = verify(altered(certificate(MIXED, [400, 350, 150, 100, 0, 0, 0]), path, value, signed=True)).problems
    assert field in {each.field for each in problems}


def test_the_number_of_classes_that_occur_does_not_matter_to_a_verifier() -> None:
    """Superclasses may have classes beyond the last one that was seen."""
    found = certificate([100, 0, 0, 0, 0, 0, 0], [450, 450, 0, 0, 0, 0, 100])
    assert found.class_index == MOST_CLASSES
    assert verify(found)


def test_an_abstention_still_says_what_remains() -> None:
    found = certificate(MIXED, [300, 150, 0, 0, 0, 550, 0])
    assert verify(found)
    left = remainder(found)
    assert left is not None
    assert (left.class_index, left.radius) == (0, 0)


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([], "at least 1"),
        ([[]], "at least 1"),
        ([[{"name": "a", "classes": []}]], "at least 1"),
        ([[{"name": "a", "classes": [2, 1]}]], "must be in increasing order and each once"),
        ([[{"name": "a", "classes": [1, 1]}]], "must be in increasing order and each once"),
        ([[{"name": "a", "classes": [-1]}]], "greater than or equal to 0"),
        ([[{"name": "a", "classes": [MOST_CLASSES]}]], "less than 100000"),
        ([[{"name": "a", "classes": [1]}, {"name": "b", "classes": [1, 2]}]], "a level has the class 1 twice"),
        ([[{"name": "a", "classes": [1]}, {"name": "a", "classes": [2]}]], "a level has the name 'a' twice"),
        ([[{"name": "a", "classes": [*range(20_001)]}]], "must name at most 20,000 classes in all, got 20,001"),
        ([[{"name": f"{c}", "classes": [c]} for c in range(2001)]], "at most 2000"),
        ([[{"name": "a", "classes": [1]}]] * 17, "at most 16"),
        ("all", "declared"),
    ],
)  # fmt: skip
def test_levels_that_make_no_sense_are_refused_with_a_sentence(levels: Any, words: str) -> None:
    with pytest.raises((ValidationError, DomainError), match=words):
        PROCEDURES.validate({"name": "hierarchy", "levels": levels})


def test_levels_may_be_left_to_an_ensemble_that_declares_them() -> None:
    left = Hierarchy(levels="declared")
    assert left.fitted(["c"] * 6, LEVELS) == Hierarchy(levels=LEVELS)
    with pytest.raises(DomainError, match="the ensemble declares no superclasses"):
        left.fitted(["c"] * 6, ())
    with pytest.raises(DomainError, match="'machine' has the class 4, and the ensemble has the classes 0 to 3"):
        procedure().fitted(["c"] * 4, ())
    with pytest.raises(
        DomainError, match="the superclass 'animal' has the name of a class, and is not that class alone"
    ):
        procedure().fitted(["animal", *"bcdef"], ())
    alone = Hierarchy(levels=((Superclass(name="animal", classes=(0,)),),))
    assert alone.fitted(["animal", "b"], ()) == alone
    with pytest.raises(DomainError, match="there is no ensemble here that declares superclasses"):
        left.start(NOISE, None, alpha=0.001, beta=0.001)
    assert Fixed().fitted(["c"] * 4, LEVELS) == Fixed()


def described(*levels: dict[str, Any]) -> Description:
    return Description(
        "cifar-resnet20",
        ("bird", "cat", "ship"),
        (3, 8, 8),
        NOISE,
        (MemberFile("a.safetensors", "0" * 64, 1),),
        superclasses=levels or None,
    )


def test_an_ensemble_declares_superclasses_by_the_names_of_its_classes() -> None:
    plain, declaring = described(), described({"animal": ["cat", "bird"]})
    assert plain.levels == ()
    assert declaring.levels == ((Superclass(name="animal", classes=(0, 1)),),)
    assert parse(write(declaring)) == declaring
    assert "[[superclasses]]" in write(declaring)
    assert declaring.digest == plain.digest  # it changes no class


@pytest.mark.parametrize("name", [each for each in names() if each.startswith("cifar10")])
def test_the_shipped_ensembles_of_cifar10_declare_the_superclasses_of_the_documentation(name: str) -> None:
    page = (ROOT / "docs" / "ensembles.md").read_text()
    (text,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    shipped = describe(name)
    without = replace(shipped, superclasses=None)
    ((vehicle, animal),) = shipped.levels
    assert (vehicle.name, vehicle.classes) == ("vehicle", (0, 1, 8, 9))
    assert (animal.name, animal.classes) == ("animal", (2, 3, 4, 5, 6, 7))
    assert parse(f"{write(without)}\n{text}") == shipped
    assert shipped.digest == without.digest, "certificates that were made before stay true of it"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[[superclasses]]\nanimal = ["dog"]', "the superclass 'animal' has 'dog', which is not among the classes"),
        ('[[superclasses]]\nanimal = []', "superclasses: .*at least 1"),
        ('[[superclasses]]\na = ["cat"]\nb = ["cat"]', "a level has the class 1 twice"),
        ('[[superclasses]]\nanimal = ["cat", "cat"]', "each once"),
        ('[[superclasses]]\nanimal = "cat"', r"superclasses\[0\]\.animal = 'cat' is not of type list"),
        ('[superclasses]\nanimal = ["cat"]', "superclasses = .* is not of type list"),
        ("[[superclasses]]", "superclasses: .*at least 1"),
    ],
)  # fmt: skip
def test_superclasses_that_make_no_sense_are_refused_with_the_file(text: str, words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        parse(f"{write(described())}\n{text}\n")


@pytest.mark.parametrize("classes", [5, 2000])
def test_the_levels_count_for_the_bytes_that_certificates_are_expected_to_take(classes: int) -> None:
    levels = ((Superclass(name="most", classes=tuple(range(classes))),),)
    found = certificate([100, 0, 0, 0, 0, 0, 0], [N, 0, 0, 0, 0, 0, 0], levels=levels)
    request = CertificationRequest(noise=NOISE, procedure=found.procedure)
    expected = _certificate_bytes(Settled(request, found.question))
    assert len(found.model_dump_json()) < expected < 12 * classes + 2 * CERTIFICATE_BYTES


def test_the_engine_certifies_superclasses_of_a_network() -> None:
    """Under much noise, no class is proved alone, but two of them together are."""
    pairs = ((Superclass(name="first", classes=(0, 1)), Superclass(name="second", classes=(2, 3))),)
    images = torch.rand(3, *SHAPE, generator=torch.Generator().manual_seed(1))
    question = Question(Gaussian(2.0), Hierarchy(levels=pairs, n=500, n0=50))
    with Engine(ensemble()) as engine:
        found = certify(engine, images, question, seed="a")
    assert all(verify(each) for each in found)
    assert {(each.class_index, each.class_name) for each in found} == {(MOST_CLASSES + 1, "second")}
    assert json.loads(found[0].to_json())["procedure"]["levels"][0][0] == {"name": "first", "classes": [0, 1]}
