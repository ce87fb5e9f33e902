"""The paper's figures for the ensembles that we compare with ours.

They come from the table "Effect of ensemble size k on ACR and certified accuracy at different radii": ResNet20 on
CIFAR-10, Gaussian training at sigma = .25; every 20th test image, 500 in all; Certify with n = 100,000, alpha = .001.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchmarks.paper.setting import Setting
from models.description import Description
from smoothcert.noise import Gaussian

N = 100_000
"""The samples of the paper's Certify."""
EPOCHS = 150
"""The epochs of training of each of the paper's members."""


@dataclass(frozen=True)
class PaperRow:
    """One row of the table: the ACR, and the certified accuracy in percent by radius."""

    acr: float
    accuracies: Mapping[float, float]


def _row(acr: float, *accuracies: float) -> PaperRow:
    return PaperRow(acr, dict(zip((0.0, 0.25, 0.5, 0.75), accuracies, strict=True)))


RESNET20 = {
    1: _row(0.434, 77.4, 63.4, 43.6, 26.6),
    3: _row(0.486, 79.6, 66.0, 49.6, 34.6),
    5: _row(0.500, 80.2, 65.4, 50.4, 36.8),
    10: _row(0.510, 80.4, 67.4, 51.8, 37.4),
    50: _row(0.517, 80.4, 68.6, 52.8, 38.8),
}
"""The rows by the number of members k."""

NOISE = Gaussian(0.25)
"""The noise of training and certification in that table."""
NOTE = (
    f"The paper's rows are those of its table of ensemble sizes for ResNet20 at sigma = .25: 500 test images, "
    f"n = {N:,}, {EPOCHS} epochs of training for each member."
)


def published(description: Description, setting: Setting, data: str) -> PaperRow | None:
    """The paper's row for a setting; None unless it has the same question for the same kind of network."""
    question, ensemble = setting.question, setting.ensemble
    networks = (description.architecture, description.method, ensemble.noise)
    vote = (ensemble.voting, ensemble.consensus, setting.alone)
    details = (question.radius, question.noise, question.alpha, data)
    if networks != ("cifar-resnet20", "gaussian", NOISE) or vote != ("soft", None, False):
        return None
    return RESNET20.get(len(ensemble.members)) if details == (None, NOISE, 0.001, "cifar10-test") else None
