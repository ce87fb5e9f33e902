"""The paper's model of the logits, and what follows from it for ensembles of every size.

For one image, the logits of member l are y^l = y^l_c + y^l_p with mean c, covariance Sigma_c over the training and
Sigma_p over the noise; between different members the covariances are zeta_c Sigma_c and zeta_p Sigma_p. The mean of k
members then has margins z_i = y_A - y_i with

    E z = D c,    Cov z = (1 + zeta_p (k - 1)) / k  D Sigma_p D'  +  (1 + zeta_c (k - 1)) / k  D Sigma_c D',

where D takes the differences. zeta_c is assumed to be zero, as the paper finds. One ensemble cannot measure it: an
effect of the training that all of its members share cannot be told apart from another c.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from smoothcert.engine.study.moments import Moments

Floats = npt.NDArray[np.float64]
ACCURACY = 1e-3
"""The accuracy that is requested for an orthant probability; the actual error is mostly a tenth of it."""


def variance_ratio(zeta: float, k: int) -> float:
    """sigma^2(k) / sigma^2(1) = (1 + zeta (k - 1)) / k, which tends to zeta."""
    return (1 + zeta * (k - 1)) / k


def median_ratio(between: Floats, within: Floats) -> float:
    """zeta as the paper estimates it: the median over all entries of inter- by intra-classifier covariance."""
    entries = within != 0
    return float(np.median(between[entries] / within[entries])) if entries.any() else float("nan")


def fitted_ratio(between: Floats, within: Floats) -> float:
    """zeta by least squares: it minimises the squared distance between zeta * within and between."""
    scale = float((within * within).sum())
    return float((between * within).sum()) / scale if scale else float("nan")


def within_unit(zeta: float) -> float:
    """The nearest value in [0, 1], where the model is defined; 0 for members whose logits do not vary at all."""
    return min(1.0, max(0.0, zeta)) if zeta == zeta else 0.0


@dataclass(frozen=True, eq=False)
class LogitModel:
    """The parameters of the model for one image and its m classes."""

    c: Floats
    sigma_c: Floats
    sigma_p: Floats
    zeta_c: float
    zeta_p: float
    majority: int

    @classmethod
    def of(cls, moments: Moments, *, clean: bool = True) -> LogitModel:
        """Estimate the parameters, with y_c = f(x) or, if not `clean`, with y_c = the mean of f under noise."""
        centre = moments.clean if clean else moments.mean
        return cls(
            c=centre.mean(0),
            sigma_c=np.atleast_2d(np.cov(centre.T, ddof=1)),
            sigma_p=moments.within,
            zeta_c=0.0,
            zeta_p=within_unit(median_ratio(moments.between, moments.within)),
            majority=moments.majority,
        )

    @property
    def differences(self) -> Floats:
        """D [m - 1, m]: D y are the margins to all classes besides A."""
        m = len(self.c)
        rows = -np.delete(np.eye(m), self.majority, axis=0)
        rows[:, self.majority] = 1.0
        return rows

    @property
    def mean(self) -> Floats:
        """E z [m - 1], the same for every k."""
        margins: Floats = self.differences @ self.c
        return margins

    def covariance(self, k: int) -> Floats:
        """Cov z [m - 1, m - 1] for an ensemble of k members."""
        d = self.differences
        noise, training = variance_ratio(self.zeta_p, k), variance_ratio(self.zeta_c, k)
        total: Floats = d @ (noise * self.sigma_p + training * self.sigma_c) @ d.T
        return total

    def success(self, k: int) -> float:
        """p_1: the probability of class A if the margins are Gaussian. It is the probability of an orthant.

        Covariances may be singular: k members give a Sigma_c of rank k - 1 at most, n samples a Sigma_p of rank n - 1.
        """
        from scipy.stats import multivariate_normal  # takes a second to import, and nothing else needs it

        covariance = self.covariance(k)
        fixed = np.diag(covariance) <= 1e-12 * max(1.0, float(np.abs(self.mean).max()) ** 2)
        if (self.mean[fixed] <= 0).any():  # a margin without variance decides by its mean
            return 0.0
        free = ~fixed
        if not free.any():
            return 1.0
        # P(z > 0) = P(-z < 0), and -z has the mean -E z.
        return float(
            multivariate_normal.cdf(
                np.zeros(int(free.sum())),
                mean=-self.mean[free],
                cov=covariance[np.ix_(free, free)],
                allow_singular=True,
                abseps=ACCURACY,
                releps=ACCURACY,
                rng=np.random.default_rng(0),
            )
        )

    def chebyshev(self, k: int) -> float | None:
        """Chebyshev's lower bound on p_1, for any distribution; None unless all mean margins are positive."""
        if (self.mean <= 0).any():
            return None
        return max(0.0, 1.0 - float((np.diag(self.covariance(k)) / self.mean**2).sum()))

    @property
    def rank_c(self) -> int:
        """The rank of Sigma_c, at most k - 1."""
        return int(np.linalg.matrix_rank(self.sigma_c))
