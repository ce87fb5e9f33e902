"""Two procedures that disagree about an image, and p_A as both have seen it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.paper import evaluation, playback
from benchmarks.paper.disagreement import all_disagreements, as_notes, estimate
from benchmarks.paper.tape import Tapes
from smoothcert.counts import SampleCounts
from smoothcert.engine.case import start
from smoothcert.engine.engine import Engine
from smoothcert.procedures import Adaptive, Fixed
from smoothcert.question import Question
from tests.support import engines
from tests.support.evaluated import FIVE, NOISE, evaluated, judged


def test_a_disagreement_between_the_boundaries_differs_from_one_that_is_not() -> None:
    """At r = .25, p0 is .8413; Certify with 10,000 samples proves it from .8524 on, CertifyAdp from .845 on."""
    fixed = evaluated(0.848, 0.97, 0.60)
    adaptive = evaluated(0.848, 0.50, 0.60, procedure=Adaptive(), radius=0.25)
    (found,) = all_disagreements([fixed, adaptive])
    assert list(found.p_a) == [0, 1]
    assert found.p_a[0] == pytest.approx(0.848, abs=1e-4)
    assert found.p_a[1] == pytest.approx((0.97 * 10_100 + 0.5 * 200) / 10_300)
    assert [found.may_differ(p) for p in (0.5, 0.8413, 0.848, 0.88)] == [False, False, True, False]
    assert found.between == 1
    assert "k5, r = 0.25: fixed and adaptive 2 (1)." in as_notes([found])[0]
    count, outside = evaluation.disagreement_figures([found])
    assert (count.value, outside.value, outside.reached) == (2, 1, False)


def test_only_the_same_question_to_the_same_classifier_is_compared() -> None:
    fixed = evaluated(0.9)
    other_k = evaluated(0.9, members="k3", procedure=Adaptive(), radius=0.25)
    radii = [evaluated(0.9, procedure=Adaptive(), radius=r) for r in (0.25, 0.5)]
    assert list(all_disagreements([fixed, other_k])) == []
    assert list(all_disagreements(radii)) == []
    assert [each.radius for each in all_disagreements([fixed, *radii])] == [0.25, 0.5]


def test_p_a_is_estimated_from_every_sample_but_never_as_no_class() -> None:
    one = judged(0.9, Fixed(n=300), None).certificate
    stage = one.stages[0].model_copy(update={"counts": SampleCounts.of((0, 0, 100, 0, 5_000))})
    other = one.model_copy(update={"stages": (stage,)})
    assert estimate([one, other]) == pytest.approx((90 + 270 + 90) / (100 + 300 + 100 + 5_100))


def test_samples_that_two_certificates_share_count_once_for_p_a(tmp_path: Path) -> None:
    image = engines.images(1)[0]
    with Tapes(tmp_path, FIVE, NOISE).open(image, 0) as tape:
        short, long = (playback.certify(tape, Question(NOISE, Fixed(n=n)), FIVE) for n in (50, 500))
    with Engine(FIVE) as engine:
        other = start(engine, image, Question(NOISE, Fixed(n=300)), seed="another").result()
    drawn = (long.selection, long.stages[0].counts, other.selection, other.stages[0].counts)
    most = max(sum(each[c] for each in drawn) for c in range(len(FIVE.classes)))
    assert estimate([short, other, long]) == estimate([long, short, other]) == most / 1_000
