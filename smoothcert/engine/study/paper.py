"""Figures of the paper that are shown beside ours: rows of its tables and numbers of its text.

Certified accuracies are in percent. The paper certifies 500 test images with n = 100,000 and alpha = .001.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from smoothcert.noise import Gaussian, Noise, Replacement, Uniform

Key = TypeVar("Key")
Rows = TypeVar("Rows")
ZETA_C, ZETA_P = 0.0, 0.82
"""zeta of 50 ResNet20 at sigma = .25, in the section on variance reduction; its appendix has .0051 and .8519."""
GAIN_OF_MEMBERS, GAIN_OF_SAMPLES = 191.0, 28.0
"""The gain in the expected radius, in percent, by 50 members and by 50 times the samples, for one image."""
QUARTERS = (0.0, 0.25, 0.5, 0.75)


@dataclass(frozen=True)
class PaperRow:
    """One row of a table: the ACR, and the certified accuracy in percent by radius."""

    acr: float
    accuracies: Mapping[float, float]


@dataclass(frozen=True)
class PaperSchedule:
    """A row of the table of schedules: certified accuracy, percent of images by phase, and SampleRF.

    The shares of a phase are (certified, abandoned). The paper prints them under ASA and ASC in this order; but the
    first ones add up to the certified accuracy and those certified for a wrong class, so the headings are exchanged.
    """

    stages: tuple[int, ...]
    accuracy: float
    shares: tuple[tuple[float, float], ...]
    reduction: float


@dataclass(frozen=True)
class PaperConsensus:
    """A row of the tables of K-consensus: ACR, KCR in percent, and TimeRF."""

    acr: float
    rate: float
    time: float


@dataclass(frozen=True)
class PaperStaged:
    """A row of a table of adaptive sampling with K-consensus: certified accuracy and ASR of four stages in percent,
    SampleRF, KCR in percent, and TimeRF."""

    accuracy: float
    returned: tuple[float, ...]
    samples: float
    rate: float
    time: float


def _rows(radii: Sequence[float], rows: Mapping[Key, Sequence[float]]) -> dict[Key, PaperRow]:
    """Rows from lists of the ACR and the certified accuracies at these radii."""
    return {key: PaperRow(acr, dict(zip(radii, shares, strict=True))) for key, (acr, *shares) in rows.items()}


_TO_1_75, _TO_2, _TO_2_5 = (tuple(i / 4 for i in range(count)) for count in (8, 9, 11))
SIZES: Mapping[tuple[str, Noise], Mapping[int, PaperRow]] = {
    ("gaussian", Gaussian(0.25)): _rows(
        QUARTERS,
        {
            1: (0.434, 77.4, 63.4, 43.6, 26.6),
            3: (0.486, 79.6, 66.0, 49.6, 34.6),
            5: (0.500, 80.2, 65.4, 50.4, 36.8),
            10: (0.510, 80.4, 67.4, 51.8, 37.4),
            50: (0.517, 80.4, 68.6, 52.8, 38.8),
        },
    ),
    ("denoised", Gaussian(0.25)): _rows(
        QUARTERS,
        {
            1: (0.378, 76.4, 56.6, 36.8, 19.2),
            4: (0.445, 75.2, 62.2, 45.8, 29.0),
        },
    ),
    ("consistency", Gaussian(0.25)): _rows(
        QUARTERS,
        {
            1: (0.528, 71.8, 64.2, 55.6, 45.2),
            3: (0.544, 73.2, 65.2, 57.6, 47.6),
            5: (0.547, 73.0, 65.4, 57.6, 47.6),
            10: (0.547, 72.2, 65.0, 57.4, 48.8),
            50: (0.551, 73.0, 64.8, 57.0, 50.2),
        },
    ),
    ("gaussian", Gaussian(0.5)): _rows(
        _TO_1_75,
        {
            1: (0.534, 65.2, 55.0, 43.0, 33.0, 22.4, 16.2, 9.6, 5.0),
            5: (0.615, 67.6, 58.4, 47.4, 38.8, 27.4, 19.8, 13.2, 7.0),
            50: (0.630, 67.2, 59.4, 48.6, 39.2, 29.0, 21.6, 14.6, 8.2),
        },
    ),
    ("consistency", Gaussian(0.5)): _rows(
        _TO_1_75,
        {
            1: (0.691, 62.6, 55.2, 47.4, 41.8, 34.6, 28.4, 21.8, 16.8),
            5: (0.723, 62.2, 55.0, 48.6, 42.6, 36.4, 29.8, 23.4, 20.6),
            50: (0.729, 61.6, 55.8, 49.2, 43.0, 37.8, 30.6, 24.2, 20.0),
        },
    ),
    ("gaussian", Gaussian(1.0)): _rows(
        _TO_2_5,
        {
            1: (0.538, 48.0, 41.2, 35.0, 27.8, 21.6, 17.8, 14.8, 12.0, 9.0, 5.6, 3.4),
            3: (0.579, 49.2, 42.8, 36.4, 30.2, 23.0, 18.8, 15.6, 13.0, 10.8, 7.4, 4.4),
            5: (0.590, 49.2, 42.8, 37.8, 30.4, 24.0, 19.4, 16.2, 13.8, 11.2, 8.2, 5.0),
            10: (0.592, 48.8, 42.8, 37.0, 30.4, 23.6, 19.0, 16.2, 13.6, 11.0, 9.2, 5.0),
            50: (0.597, 49.6, 43.0, 37.4, 30.4, 23.6, 18.6, 15.8, 13.6, 11.2, 9.0, 5.0),
        },
    ),
    ("consistency", Gaussian(1.0)): _rows(
        _TO_2_5,
        {
            1: (0.757, 43.6, 39.8, 34.8, 30.8, 27.6, 24.6, 22.6, 19.4, 17.4, 15.4, 13.8),
            3: (0.777, 44.2, 39.6, 36.8, 31.8, 28.4, 25.0, 22.4, 19.8, 17.6, 15.6, 14.0),
            5: (0.779, 43.4, 40.0, 35.6, 32.2, 28.0, 24.8, 22.2, 20.4, 17.4, 15.8, 13.8),
            10: (0.784, 44.4, 40.6, 36.4, 32.2, 29.2, 24.2, 22.2, 20.4, 17.6, 16.0, 14.2),
            50: (0.788, 45.2, 40.6, 36.4, 32.4, 28.2, 24.6, 22.0, 20.2, 17.8, 16.0, 14.6),
        },
    ),
    ("augmentation", Uniform(1.0)): _rows(
        QUARTERS,
        {
            1: (0.571, 71.2, 65.4, 60.2, 51.6),
            3: (0.610, 72.4, 68.6, 63.4, 56.0),
            10: (0.622, 72.4, 69.6, 64.8, 57.2),
        },
    ),
    ("augmentation", Replacement(0.8, 2)): _rows(
        range(10),
        {
            # The paper prints 23.6 at r = 5; the ACR, which is the sum of these accuracies from r = 1 on, says 32.6.
            1: (3.231, 97.8, 90.0, 73.7, 49.9, 48.5, 32.6, 17.3, 7.9, 1.6, 1.6),
            3: (3.575, 98.4, 92.5, 79.0, 56.1, 54.7, 38.2, 21.6, 10.7, 2.4, 2.4),
            10: (3.612, 98.4, 92.5, 79.1, 57.0, 55.6, 38.9, 22.1, 11.1, 2.4, 2.4),
        },
    ),
}
"""The tables of ensemble sizes by training method and noise: ResNet20 on CIFAR-10, and LeNet on MNIST in l0."""

ERROR_BARS: Mapping[tuple[str, Noise], Mapping[int, tuple[tuple[float, float], ...]]] = {
    ("gaussian", Gaussian(0.25)): {
        1: ((0.4350, 0.0046), (61.08, 1.08), (43.74, 0.86), (27.58, 0.88)),
        5: ((0.4994, 0.0025), (66.58, 0.62), (51.04, 0.76), (36.38, 0.42)),
    },
    ("consistency", Gaussian(0.25)): {
        1: ((0.5202, 0.0049), (63.57, 0.86), (54.22, 1.03), (44.30, 0.89)),
        5: ((0.5445, 0.0017), (64.90, 0.66), (56.86, 0.49), (47.94, 0.68)),
    },
}
"""Mean and standard deviation of the ACR and of the accuracies at r = .25, .5, .75 over 50 ResNet20 or 10 ensembles."""

AGGREGATION: Mapping[tuple[str, Noise], Mapping[str, PaperRow]] = {
    ("gaussian", Gaussian(0.25)): {
        "soft": PaperRow(0.541, dict(zip(QUARTERS, (83.4, 70.6, 55.4, 42.0), strict=True))),
        "hard": PaperRow(0.529, dict(zip(QUARTERS, (83.8, 69.4, 53.2, 40.6), strict=True))),
        "softmax": PaperRow(0.540, dict(zip(QUARTERS, (84.0, 70.8, 55.2, 41.8), strict=True))),
        "weighted": PaperRow(0.538, dict(zip(QUARTERS, (83.4, 70.4, 54.6, 41.8), strict=True))),
    },
    ("consistency", Gaussian(0.25)): {
        "soft": PaperRow(0.583, dict(zip(QUARTERS, (76.8, 70.4, 60.4, 51.6), strict=True))),
        "hard": PaperRow(0.574, dict(zip(QUARTERS, (77.2, 69.6, 60.0, 50.6), strict=True))),
        "softmax": PaperRow(0.584, dict(zip(QUARTERS, (77.0, 70.4, 60.6, 51.8), strict=True))),
        "weighted": PaperRow(0.579, dict(zip(QUARTERS, (76.4, 70.6, 59.6, 51.2), strict=True))),
    },
}
"""The table of aggregation methods: ten ResNet110."""

CONSENSUS: Mapping[str, Mapping[int, PaperConsensus]] = {
    "10 ResNet110, consistency": {
        1: PaperConsensus(0.546, 100.0, 10.0),
        2: PaperConsensus(0.576, 85.8, 3.25),
        3: PaperConsensus(0.581, 79.7, 2.29),
        5: PaperConsensus(0.583, 74.2, 1.59),
        10: PaperConsensus(0.583, 0.0, 1.0),
    },
    "50 ResNet20, consistency": {
        1: PaperConsensus(0.528, 100.0, 50.0),
        2: PaperConsensus(0.544, 87.7, 6.50),
        3: PaperConsensus(0.549, 82.4, 4.41),
        5: PaperConsensus(0.550, 76.4, 2.99),
        10: PaperConsensus(0.551, 69.8, 2.01),
        50: PaperConsensus(0.551, 0.0, 1.0),
    },
}
"""The tables of K-consensus at sigma = .25."""

ADAPTIVE_CONSENSUS: Mapping[tuple[str, Noise], Mapping[float, PaperStaged]] = {
    ("gaussian", Gaussian(0.25)): {
        0.25: PaperStaged(70.6, (76.4, 17.2, 4.4, 2.0), 28.80, 26.8, 32.63),
        0.5: PaperStaged(55.4, (30.4, 59.2, 7.8, 2.6), 19.80, 63.5, 28.73),
        0.75: PaperStaged(42.0, (39.4, 10.2, 41.8, 8.6), 6.19, 89.7, 11.14),
    },
    ("gaussian", Gaussian(0.5)): {1.0: PaperStaged(30.2, (53.4, 31.6, 10.8, 4.2), 13.89, 77.5, 22.60)},
    ("gaussian", Gaussian(1.0)): {
        1.25: PaperStaged(20.2, (74.4, 16.4, 7.0, 2.2), 24.93, 71.4, 38.31),
        1.5: PaperStaged(16.6, (66.8, 26.0, 5.4, 1.8), 29.34, 75.7, 45.80),
        1.75: PaperStaged(13.8, (73.0, 20.6, 4.6, 1.8), 30.61, 84.5, 51.18),
        2.0: PaperStaged(11.2, (78.4, 14.6, 5.4, 1.6), 32.97, 88.5, 56.80),
        2.25: PaperStaged(9.4, (82.4, 8.0, 6.8, 2.8), 21.32, 92.7, 38.60),
        2.5: PaperStaged(6.4, (82.4, 6.4, 6.8, 4.4), 14.77, 95.4, 27.63),
    },
    ("consistency", Gaussian(0.25)): {
        0.25: PaperStaged(70.4, (84.8, 10.2, 4.2, 0.8), 55.24, 39.3, 67.16),
        0.5: PaperStaged(60.6, (20.8, 69.8, 6.4, 3.0), 18.09, 57.3, 25.07),
        0.75: PaperStaged(52.0, (27.4, 8.8, 55.2, 8.6), 5.68, 87.8, 10.06),
    },
    ("consistency", Gaussian(0.5)): {
        1.0: PaperStaged(38.6, (41.2, 47.0, 7.8, 4.0), 14.79, 78.3, 24.01),
        1.25: PaperStaged(32.2, (46.6, 9.8, 37.6, 6.0), 8.14, 92.7, 15.06),
        1.5: PaperStaged(26.2, (50.0, 11.2, 29.6, 9.2), 6.41, 97.5, 12.31),
    },
    # The paper prints SampleRF of these four rows under KCR and KCR under SampleRF: the stages say so.
    ("consistency", Gaussian(1.0)): {
        1.75: PaperStaged(20.8, (57.6, 32.0, 7.4, 3.0), 19.02, 89.1, 33.14),
        2.0: PaperStaged(17.6, (61.8, 27.4, 8.0, 2.8), 19.93, 91.0, 35.26),
        2.25: PaperStaged(16.2, (68.2, 21.2, 7.8, 2.8), 20.27, 93.4, 36.66),
        2.5: PaperStaged(14.6, (69.6, 7.8, 20.6, 2.0), 19.38, 91.4, 34.45),
    },
}
"""The tables of adaptive sampling with 5-consensus of ten ResNet110, by radius."""

INFERENCES: Mapping[str, Mapping[tuple[int, int], PaperRow]] = {
    "ResNet110, gaussian, sigma .5": _rows(
        _TO_2,
        {
            (1, 100_000): (0.535, 65.8, 54.2, 42.2, 32.4, 22.0, 14.8, 10.8, 6.6, 0.0),
            (1, 1_000_000): (0.552, 65.8, 54.6, 42.2, 32.6, 22.4, 15.2, 11.0, 7.0, 3.8),
            (10, 100_000): (0.648, 69.0, 60.4, 49.8, 40.0, 29.8, 19.8, 15.0, 9.6, 0.0),
        },
    ),
    "ResNet110, consistency, sigma .5": _rows(
        _TO_2,
        {
            (1, 100_000): (0.708, 63.2, 54.8, 48.8, 42.0, 36.0, 29.8, 22.4, 16.4, 0.0),
            (1, 1_000_000): (0.752, 63.2, 54.8, 48.8, 42.0, 36.4, 30.4, 23.0, 17.8, 14.6),
            (10, 100_000): (0.756, 65.0, 59.0, 49.4, 44.8, 38.6, 32.0, 26.2, 19.8, 0.0),
        },
    ),
}
"""The table of an equal number of inferences, by (k, n)."""

TRAINED: Mapping[str, PaperRow] = _rows(
    QUARTERS,
    {
        "smoothadv": (0.542, 74.4, 65.4, 56.2, 48.0),
        "macer": (0.518, 77.8, 69.0, 52.6, 39.0),
        "consistency": (0.546, 75.2, 66.0, 57.0, 46.6),
        "smoothadv, consistency": (0.572, 75.6, 68.6, 59.8, 50.6),
        "smoothadv, macer, consistency": (0.567, 78.4, 69.4, 58.8, 48.0),
    },
)
"""The table of differently trained ResNet110 at sigma = .25 and of their ensembles."""

SCHEDULES: tuple[tuple[int, ...], ...] = (
    (100, 110_000),
    (1_000, 110_000),
    (10_000, 110_000),
    (50_000, 110_000),
    (100, 1_000, 116_000),
    (100, 10_000, 116_000),
    (1_000, 10_000, 116_000),
    (30_000, 60_000, 116_000),
    (100, 1_000, 10_000, 120_000),
    (30_000, 60_000, 90_000, 120_000),
    (100, 800, 6_400, 24_000, 123_000),
)
"""The eleven schedules of stages."""

ADAPTIVE: Mapping[tuple[str, Noise], Mapping[float, Sequence[PaperSchedule]]] = {
    ("gaussian", Gaussian(0.25)): {
        0.25: (
            PaperSchedule((100, 110_000), 60, ((52, 22.6), (13.2, 12.2)), 3.56),
            PaperSchedule((1_000, 110_000), 60, ((62, 30.2), (3.2, 4.6)), 10.34),
            PaperSchedule((10_000, 110_000), 60, ((63.6, 33.6), (1.6, 1.2)), 7.59),
            PaperSchedule((50_000, 110_000), 60.2, ((64.8, 34), (0.4, 0.8)), 1.95),
            PaperSchedule((100, 1_000, 116_000), 60, ((51.8, 21.4), (10.2, 9.2), (3, 4.4)), 11.06),
            PaperSchedule((100, 10_000, 116_000), 60.2, ((53.2, 21), (10.6, 12.4), (1.4, 1.4)), 16.61),
            PaperSchedule((1_000, 10_000, 116_000), 60, ((61.4, 30.2), (1.8, 3.2), (2, 1.4)), 17.01),
            PaperSchedule((30_000, 60_000, 116_000), 60, ((64.4, 33.6), (0.4, 0.6), (0.4, 0.6)), 3.08),
            PaperSchedule((100, 1_000, 10_000, 120_000), 60, ((53.6, 21.8), (7.8, 8.2), (2, 3.6), (1.8, 1.2)), 20.4),
            PaperSchedule((30_000, 60_000, 90_000, 120_000), 60, ((64.6, 34), (0.6, 0), (0, 0.2), (0, 0.6)), 3.09),
            PaperSchedule(
                (100, 800, 6_400, 24_000, 123_000),
                60,
                ((53.2, 21.6), (8.2, 7.8), (2, 3.4), (1.2, 0.8), (0.6, 1.2)),
                24.32,
            ),
        ),
        0.75: (
            PaperSchedule((100, 110_000), 30.6, ((0, 51.2), (30.8, 18)), 1.86),
            PaperSchedule((1_000, 110_000), 30.4, ((0, 61), (30.6, 8.4)), 2.27),
            PaperSchedule((10_000, 110_000), 30.4, ((24.6, 65.4), (6, 4)), 4.74),
            PaperSchedule((50_000, 110_000), 30.4, ((30.2, 66.8), (0.4, 2.6)), 1.87),
            PaperSchedule((100, 1_000, 116_000), 30.4, ((0, 53.8), (0, 7.4), (30.6, 8.2)), 2.19),
            PaperSchedule((100, 10_000, 116_000), 30.8, ((0, 51.6), (25, 13.4), (6, 4)), 6.02),
            PaperSchedule((1_000, 10_000, 116_000), 30.4, ((0, 60.8), (25.6, 3.8), (5, 4.8)), 6.11),
            PaperSchedule((30_000, 60_000, 116_000), 30.6, ((30.2, 66.2), (0.4, 0.8), (0.2, 2.2)), 2.86),
            PaperSchedule((100, 1_000, 10_000, 120_000), 30.2, ((0, 48.8), (0, 11.6), (25.6, 3.8), (4.8, 5.4)), 5.92),
            PaperSchedule((30_000, 60_000, 90_000, 120_000), 30.4, ((29.2, 66), (1, 0.8), (0.2, 0.6), (0.2, 2)), 2.61),
            PaperSchedule(
                (100, 800, 6_400, 24_000, 123_000),
                30.2,
                ((0, 48.8), (0, 10.8), (21.2, 3.6), (7.2, 2.8), (2, 3.6)),
                7.24,
            ),
        ),
    },
    ("consistency", Gaussian(0.25)): {
        0.25: (
            PaperSchedule((100, 110_000), 66, ((68.6, 16.2), (8, 7.2)), 5.92),
            PaperSchedule((1_000, 110_000), 66, ((75, 20.8), (1.6, 2.6)), 17.5),
            PaperSchedule((10_000, 110_000), 66, ((75.8, 22.4), (0.8, 1)), 8.29),
            PaperSchedule((50_000, 110_000), 66, ((76.2, 22.6), (0.4, 0.8)), 1.95),
            PaperSchedule((100, 1_000, 116_000), 66, ((68, 14.8), (7, 6), (1.6, 2.6)), 19.09),
            PaperSchedule((100, 10_000, 116_000), 66, ((67.8, 15.4), (8.2, 6.8), (0.6, 1.2)), 25.23),
            PaperSchedule((1_000, 10_000, 116_000), 66, ((74.8, 20.6), (1.2, 1.6), (0.6, 1.2)), 27.44),
            PaperSchedule((30_000, 60_000, 116_000), 66, ((76, 22.4), (0.2, 0.4), (0.4, 0.6)), 3.11),
            PaperSchedule((100, 1_000, 10_000, 120_000), 66, ((69, 15.8), (5.6, 5.2), (1.4, 1.2), (0.6, 1.2)), 33.91),
            PaperSchedule((30_000, 60_000, 90_000, 120_000), 66, ((76, 22.4), (0.4, 0.4), (0.2, 0.2), (0, 0.4)), 3.1),
            PaperSchedule(
                (100, 800, 6_400, 24_000, 123_000), 66, ((68, 14.8), (6.6, 6), (1.2, 1.4), (0.6, 0), (0.2, 1.2)), 35.32
            ),
        ),
        0.75: (
            PaperSchedule((100, 110_000), 46, ((0, 34.6), (48.8, 16.6)), 1.39),
            PaperSchedule((1_000, 110_000), 46.2, ((0, 41.2), (49, 9.8)), 1.52),
            PaperSchedule((10_000, 110_000), 46.2, ((43.8, 45.8), (5.2, 5.2)), 4.65),
            PaperSchedule((50_000, 110_000), 46.4, ((48.6, 48.2), (0.6, 2.6)), 1.87),
            PaperSchedule((100, 1_000, 116_000), 46.4, ((0, 33.8), (0, 8.8), (49.2, 8.2)), 1.48),
            PaperSchedule((100, 10_000, 116_000), 46.2, ((0, 34.4), (43.6, 12.2), (5.4, 4.4)), 5.52),
            PaperSchedule((1_000, 10_000, 116_000), 47, ((0, 41), (44.2, 5.2), (5.6, 4)), 5.52),
            PaperSchedule((30_000, 60_000, 116_000), 46.4, ((47.6, 47.8), (1.2, 0.4), (0.4, 2.6)), 2.75),
            PaperSchedule((100, 1_000, 10_000, 120_000), 46.4, ((0, 32.4), (0, 8.2), (44.2, 5.2), (5, 5)), 5.32),
            PaperSchedule((30_000, 60_000, 90_000, 120_000), 46.8, ((47.6, 47), (1, 1.4), (1, 0), (0, 2)), 2.6),
            PaperSchedule(
                (100, 800, 6_400, 24_000, 123_000), 46.4, ((0, 33.6), (0, 7.2), (41, 4.4), (6, 1.4), (2.2, 4.2)), 6.37
            ),
        ),
    },
}
"""The table of schedules for one ResNet110, by training method, noise and radius, in the order of SCHEDULES."""

ADAPTIVE_ENSEMBLE: Mapping[tuple[str, Noise], Mapping[float, PaperSchedule]] = {
    ("gaussian", Gaussian(0.25)): {
        0.25: PaperSchedule(SCHEDULES[8], 70.6, ((62.4, 13.2), (10, 7.6), (3.8, 1.2), (0.4, 1.4)), 30.48),
        0.75: PaperSchedule(SCHEDULES[8], 42.2, ((0, 39), (0, 9.8), (37.8, 4.8), (5.6, 3)), 6.16),
    },
    ("consistency", Gaussian(0.25)): {
        0.25: PaperSchedule(SCHEDULES[8], 70.4, ((73.6, 10.4), (7, 4.8), (3, 0.6), (0, 0.6)), 66.73),
        0.75: PaperSchedule(SCHEDULES[8], 52, ((0, 27.4), (0, 8.8), (51.8, 3.4), (4.8, 3.8)), 5.68),
    },
}
"""The table of adaptive sampling for ensembles: ten ResNet110 with full votes, by radius."""


def beside(tables: Mapping[tuple[str, Noise], Rows], method: str | None, noise: Noise) -> tuple[str, Rows] | None:
    """The table for this noise and this method, or else for plain training, with the method that it is for."""
    for wanted in (method, "gaussian", "augmentation"):
        for (trained, under), table in tables.items():
            if trained == wanted and noise.norm == under.norm and noise.suits(under):
                return trained, table
    return None
