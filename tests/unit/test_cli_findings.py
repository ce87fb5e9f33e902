"""What certificates under several noises say about a served ensemble."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from smoothcert.certificate import Certificate
from smoothcert.cli.findings import UnderNoise, diagnose_served
from smoothcert.evaluation import Judged
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed, run

CLASSES = ("cat", "dog", "ship")
FIXED = Fixed(n=200)


def certificate(noise: Gaussian, p: Sequence[float]) -> Certificate:
    """The certificate of a classifier that answers each class with this probability."""
    rng = np.random.default_rng(0)
    verdict = run(FIXED.start(noise, None, alpha=0.001, beta=0.001), lambda n: rng.multinomial(n, [*p, 0.0]))
    return Certificate.of(verdict, noise=noise, procedure=FIXED, alpha=0.001, beta=0.001, target_radius=None)


def under(sigma: float, *images: tuple[Sequence[float], int]) -> UnderNoise:
    noise = Gaussian(sigma)
    return UnderNoise(noise, [Judged(certificate(noise, p), label) for p, label in images])


def test_accuracy_is_the_share_of_samples_on_the_label() -> None:
    stated = under(0.25, ((1, 0, 0), 0), ((0, 1, 0), 2))
    assert stated.accuracy == 0.5
    judged = under(0.25, ((0.2, 0.8, 0), 1)).judged[0]
    (stage,) = judged.certificate.stages
    assert under(0.25, ((0.2, 0.8, 0), 1)).accuracy == (judged.certificate.selection[1] + stage.counts[1]) / 300


def test_an_ensemble_that_saw_less_noise_is_told_which() -> None:
    wrong, right = ((0, 0, 1), 0), ((1, 0, 0), 0)
    found = diagnose_served(
        under(0.5, wrong, wrong, right),
        [under(0.25, right, right, wrong), under(1.0, wrong)],
        classes=CLASSES,
        samples=200,
    )
    assert found["accuracy under noise"].value == {
        "gaussian, sigma 0.5": pytest.approx(1 / 3),
        "gaussian, sigma 0.25": pytest.approx(2 / 3),
        "gaussian, sigma 1": 0.0,
    }
    assert "certify with gaussian, sigma 0.25, which it withstands" in (found["accuracy under noise"].advice or "")
    assert not found.healthy


def test_shares_at_three_radii_count_the_right_class_alone() -> None:
    found = diagnose_served(
        under(0.25, ((1, 0, 0), 0), ((1, 0, 0), 1), ((0.85, 0.15, 0), 0), ((0.4, 0.3, 0.3), 0)),
        [],
        classes=CLASSES,
        samples=200,
    )
    assert [*found["certifiable"].value] == ["0.13", "0.25", "0.38"]
    assert [*found["certifiable"].value.values()] == [0.5, 0.25, 0.25]


def test_where_nothing_is_certified_the_other_findings_come_first() -> None:
    found = diagnose_served(under(0.25, ((0.4, 0.3, 0.3), 0)), [], classes=CLASSES, samples=200)
    assert set(found["certifiable"].value.values()) == {0.0}
    assert "follow the other findings first" in (found["certifiable"].advice or "")


@pytest.mark.parametrize(("labels", "suspicious"), [((0, 1, 2), True), ((0, 0, 0), False)])
def test_one_answer_for_many_labels_is_suspicious(labels: tuple[int, ...], suspicious: bool) -> None:
    stated = under(0.25, *(((0.9, 0.1, 0), label) for label in labels))
    found = diagnose_served(stated, [], classes=CLASSES, samples=200)["most frequent answer"]
    assert found.value == {"class": "cat", "share": 1.0, "labels": len(set(labels))}
    assert bool(found.advice) == suspicious


def test_what_only_the_model_shows_is_always_mentioned() -> None:
    found = diagnose_served(under(0.25, ((1, 0, 0), 0)), [], classes=CLASSES, samples=200)["model"]
    assert (found.value, found.advice) == (None, None)
    assert "`python -m models diagnose` and `Smoothed.diagnose`" in found.sentence
