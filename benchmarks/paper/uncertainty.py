"""How sure the figures of an evaluation are, by the code that makes the reports of the command line and the SDK."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.paper.evaluation import radii_of
from benchmarks.paper.setting import Evaluated
from smoothcert.account import QUANTILES
from smoothcert.chapter import ChapterTable
from smoothcert.evaluation import population_accuracy, share_on_class
from smoothcert.report import Report


def uncertainty(evaluated: Sequence[Evaluated]) -> ChapterTable:
    """ACR and certified accuracies with their intervals over the images, and the distribution of p_A beside them."""
    radii = radii_of(evaluated[0].setting.question.noise)
    return ChapterTable(
        "uncertainty",
        "The same ACR and certified accuracies with 95 % intervals over the images: by the bootstrap for the ACR, "
        "exact for the accuracies. p_A is the share of the samples on the class of a certificate, at its last look.",
        ("setting", "ACR", *radii, *(f"p_A at {100 * quantile:.0f} %" for quantile in QUANTILES)),
        [_row(each, list(radii.values())) for each in evaluated],
    )


def _row(each: Evaluated, radii: Sequence[float]) -> tuple[object, ...]:
    judged = each.judged
    report = Report(each.setting.label, [str(place) for place in range(len(judged))], judged)
    accuracies = [population_accuracy(judged, radius) if each.decides(radius) else "" for radius in radii]
    shares = [p for p in map(share_on_class, judged) if p is not None]
    quantiles = [f"{p:.4f}" for p in np.quantile(shares, QUANTILES)] if shares else [""] * len(QUANTILES)
    return (each.setting.label, report.acr, *accuracies, *quantiles)
