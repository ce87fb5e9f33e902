"""The moments of the logits of one image: means, covariances within and between members, histograms.

As in the paper, the logits of member l are y^l = y^l_c + y^l_p: a clean component, which varies with the training, and
the effect of the noise. With many classes only the TOP most likely ones of an image are kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from smoothcert.engine.study.logits import Recording

Floats = npt.NDArray[np.float64]
TOP = 10
"""The most classes that are modelled. An orthant probability in more dimensions takes too long, and the other classes
hardly change it."""
EDGES = np.linspace(-5, 5, 81)
"""The edges of the histograms, in standard deviations."""


@dataclass(frozen=True, eq=False)
class Moments:
    """The moments of one image for m classes and k members, over the samples whose logits are all finite."""

    classes: npt.NDArray[np.int64]
    """The m classes that are kept; class `classes[majority]` is the majority class A."""
    majority: int
    samples: int
    clean: Floats
    """f^l(x) [k, m]."""
    mean: Floats
    """The mean of f^l(x + noise) [k, m]."""
    within: Floats
    """Sigma_p [m, m]: the covariance of y_p, averaged over the members."""
    between: Floats
    """[m, m]: the covariance of y^a_p and y^b_p, averaged over all pairs of different members."""
    margins: Floats
    """[k, m]: the variance over the noise of the margin z_i = y_A - y_i of the mean of the 1, ..., k best members."""
    histogram: npt.NDArray[np.int64]
    """[2, bins]: y_p over its standard deviation, for y_c = f(x) and for y_c = the mean under noise."""

    @property
    def runner_up(self) -> int:
        """The place, among the classes that are kept, of the class with the largest mean logit besides A."""
        means = self.mean.mean(0).copy()
        means[self.majority] = -np.inf
        return int(means.argmax())


def moments(recording: Recording, majority: int) -> Moments | None:
    """The moments of a recording whose most frequent class is `majority`; None with fewer than two finite samples."""
    sound = np.isfinite(recording.noisy).all(axis=(1, 2))
    if sound.sum() < 2 or not np.isfinite(recording.clean).all():
        return None
    noisy = recording.noisy[sound].astype(np.float64)
    classes = _kept(noisy.mean(axis=(0, 1)), majority)
    noisy, clean = noisy[:, :, classes], recording.clean[:, classes].astype(np.float64)
    n, k, m = noisy.shape
    mean = noisy.mean(0)
    # One covariance matrix of all k * m logits; its block (a, b) is the covariance between members a and b.
    centred = (noisy - mean).reshape(n, k * m)
    joint = (centred.T @ centred / (n - 1)).reshape(k, m, k, m)
    blocks = joint.transpose(0, 2, 1, 3)  # [k, k, m, m]: the covariance of the logits of two members
    within = blocks[range(k), range(k)].mean(0)
    # The sum over all pairs (a, b), less the k pairs with a = b, leaves k (k - 1) pairs of different members.
    between = (blocks.sum((0, 1)) - k * within) / (k * (k - 1)) if k > 1 else np.full((m, m), np.nan)
    place = int(np.flatnonzero(classes == majority)[0])
    return Moments(
        classes=classes,
        majority=place,
        samples=n,
        clean=clean,
        mean=mean,
        within=within,
        between=(between + between.T) / 2,
        margins=np.array([_margins(blocks[:size, :size].mean((0, 1)), place) for size in range(1, k + 1)]),
        histogram=np.array([_histogram(noisy, centre, mean) for centre in (clean, mean)]),
    )


def _kept(means: Floats, majority: int) -> npt.NDArray[np.int64]:
    """All classes in order or, if there are too many, the majority class and those with the largest means."""
    if len(means) <= TOP:
        return np.arange(len(means))
    order = [majority, *(index for index in np.argsort(-means).tolist() if index != majority)]
    return np.array(order[:TOP])


def _margins(covariance: Floats, majority: int) -> Floats:
    """The variances of y_A - y_i [m] for logits with this covariance [m, m]."""
    own = np.diag(covariance)
    variances: Floats = own[majority] + own - covariance[majority] - covariance[:, majority]
    return variances


def _histogram(noisy: Floats, centre: Floats, mean: Floats) -> npt.NDArray[np.int64]:
    deviation = np.sqrt(((noisy - mean) ** 2).mean(0))
    steady = deviation > 0
    values = ((noisy - centre)[:, steady] / deviation[steady]).ravel()
    return np.histogram(values, EDGES)[0]
