"""Everything that the analyses of a study read: class counts of all voters, and the moments of all images.

Both are computed in one pass over the tapes, image by image, so memory does not grow with the samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from smoothcert.bounds import lower_bound
from smoothcert.engine.study.logits import Recording
from smoothcert.engine.study.moments import Moments, moments
from smoothcert.engine.study.voters import Ballot, ClassIndices, Voter, ballots, best, mixtures, sizes, subsets
from smoothcert.errors import DomainError, require_count
from smoothcert.estimate import Bootstrap, Estimate, share
from smoothcert.noise import Noise
from smoothcert.procedures import Fixed, Procedure, run

Floats = npt.NDArray[np.float64]
N0 = 100
"""The samples that choose the class, as in Certify."""
EXAMPLE = 0.8
"""The probability of class A, for one member, that the image in the pictures should have."""
MOST_RADII = 11
"""The most radii at which the tables have certified accuracies: up to 2.5 in steps of a quarter, as in the paper."""


@dataclass(frozen=True)
class About:
    """What is studied, in words for the report; it also decides which rows of the paper are shown beside ours."""

    ensemble: str
    images: str
    architecture: str | None = None
    methods: Sequence[str] | None = None
    """The training method of each member, where it is known."""
    command: str | None = None
    """The command that makes this study, where there is one."""

    @property
    def method(self) -> str | None:
        """The method of all members; None where it is unknown or they differ."""
        known = set(self.methods or ())
        return known.pop() if len(known) == 1 else None


@dataclass(frozen=True, eq=False)
class Proofs:
    """What Certify proves about every image: `radii` [N] for the right class (0 otherwise), and which are right."""

    radii: Floats
    right: npt.NDArray[np.bool_]
    p_a: Floats
    """The share of the most frequent class among all samples of each image."""
    n: int

    def certified(self, radius: float) -> npt.NDArray[np.bool_]:
        """Which images are certified for the right class at this radius."""
        return self.right & (self.radii >= radius)


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of an ensemble of k members on N images, as the analyses see them."""

    about: About
    noise: Noise
    labels: ClassIndices
    indices: ClassIndices
    members: int
    classes: int
    cuts: tuple[int, ...]
    """The samples at which counts are cut: 0, n0, n0 + n / k, n0 + n."""
    ballots: Sequence[dict[Voter, Ballot]]
    moments: Sequence[Moments | None]
    recording: Callable[[int], Recording]
    """Reads the tape of the image at a place."""
    alpha: float = 0.001
    beta: float = 0.001
    _proofs: dict[tuple[Voter, bool], Proofs] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        about: About,
        noise: Noise,
        labels: Sequence[int],
        indices: Sequence[int],
        recording: Callable[[int], Recording],
        *,
        weights: Sequence[float] | None = None,
        alpha: float = 0.001,
        beta: float = 0.001,
    ) -> Samples:
        """Read every tape once. `weights` are those of the members for the weighted vote, where they have some."""
        n, k, classes = recording(0).noisy.shape
        require_studied(members=k, samples=n)
        cuts = tuple(sorted({0, N0, N0 + max(1, (n - N0) // k), n}))
        chosen = voters(k, weighted=weights is not None, methods=about.methods)
        found, theory = [], []
        for place in range(len(labels)):
            tape = recording(place)
            found.append(ballots(tape.noisy, chosen, weights or [1.0] * k, cuts))
            majority = int(found[-1][best(k)].counts[:, :-1].sum(0).argmax())
            theory.append(moments(tape, majority))
        return cls(
            about, noise, np.array(labels), np.array(indices), k, classes, cuts, found, theory, recording, alpha, beta
        )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def n(self) -> int:
        """The samples that bound p_A."""
        return self.cuts[-1] - N0

    @property
    def short(self) -> int:
        """n / k, for the comparison at an equal number of inferences."""
        return self.cuts[2] - N0

    @cached_property
    def bootstrap(self) -> Bootstrap:
        return Bootstrap(len(self))

    @cached_property
    def modelled_bootstrap(self) -> Bootstrap:
        """Resamples of the images that the theory applies to."""
        return Bootstrap(len(self.modelled))

    @cached_property
    def largest_radius(self) -> float:
        """The largest radius that n samples can prove."""
        return self.noise.radius(lower_bound(self.n, self.n, self.alpha))

    @cached_property
    def radii(self) -> list[float]:
        """The radii of the tables, up to the largest that n samples can prove, and the first beyond 0 in any case."""
        return self.radii_up_to(max(self.largest_radius, self._step))

    def radii_up_to(self, largest: float) -> list[float]:
        """Whole numbers, 255ths or quarters from 0 on."""
        return [self._step * i for i in range(MOST_RADII) if self._step * i <= largest]

    @property
    def _step(self) -> float:
        return 1.0 if self.noise.whole else 1 / 255 if self.noise.norm == "linf" else 0.25

    def radius_name(self, radius: float) -> str:
        """The name of a column."""
        return f"r={round(255 * radius)}/255" if self.noise.norm == "linf" else f"r={radius:g}"

    def counts(self, voter: Voter) -> ClassIndices:
        """Class counts over all samples, [N, C + 1]."""
        return np.array([each[voter].counts.sum(0) for each in self.ballots])

    def agreed(self, voter: Voter) -> Floats:
        """The share of the samples of each image that the first K members decided, [N]."""
        return np.array([each[voter].agreed for each in self.ballots]) / self.cuts[-1]

    @cached_property
    def majority(self) -> ClassIndices:
        """Class A of each image: the most frequent one of all members together."""
        most: ClassIndices = self.counts(best(self.members))[:, :-1].argmax(1)
        return most

    def success(self, voter: Voter) -> Floats:
        """The share of class A among the samples of each image, [N]."""
        counts = self.counts(voter)
        shares: Floats = counts[range(len(self)), self.majority] / counts.sum(1)
        return shares

    @cached_property
    def modelled(self) -> list[tuple[int, Moments]]:
        """The places of the images that the theory applies to, and their moments."""
        return [(place, each) for place, each in enumerate(self.moments) if each is not None]

    @cached_property
    def example(self) -> int:
        """The place of the image that stands for all in pictures: its class A is right, and p_A of one member is near
        EXAMPLE, where an ensemble has most to gain."""
        alone = np.mean([self.success(voter) for voter in subsets(self.members, 1)], axis=0)
        known = np.array([each is not None for each in self.moments])
        distance = np.abs(alone - EXAMPLE) + 10.0 * ~known + 1.0 * (self.majority != self.labels)
        return int(distance.argmin())

    def proofs(self, voter: Voter, *, short: bool = False) -> Proofs:
        """Certify on the recorded samples, with n of them or with n / k."""
        if (voter, short) not in self._proofs:
            self._proofs[voter, short] = self._prove(voter, short)
        return self._proofs[voter, short]

    def acr(self, proofs: Proofs) -> Estimate:
        return self.bootstrap.mean(proofs.radii)

    def quality(self, proofs: Proofs) -> tuple[object, ...]:
        """The cells of `quality_columns`: ACR, certified accuracies, and the distribution of p_A."""
        accuracies = [share(proofs.certified(radius)) for radius in self.radii]
        quantiles = [round(float(q), 4) for q in np.quantile(proofs.p_a, (0.1, 0.5, 0.9))]
        return (self.acr(proofs), *accuracies, *quantiles)

    @property
    def quality_columns(self) -> tuple[str, ...]:
        return ("ACR", *map(self.radius_name, self.radii), "p_A at 10 %", "p_A at 50 %", "p_A at 90 %")

    def _certify(self, n: int) -> Procedure:
        return Fixed(n=n, n0=N0).start(self.noise, None, alpha=self.alpha, beta=self.beta)

    def _prove(self, voter: Voter, short: bool) -> Proofs:
        radii, right, p_a, n = [], [], [], self.short if short else self.n
        for each, label in zip(self.ballots, self.labels.tolist(), strict=True):
            selection, *rest = each[voter].counts
            verdict = run(self._certify(n), answers(selection, rest[0] if short else np.sum(rest, axis=0)))
            right.append(verdict.top_class == label)
            radii.append(max(0.0, verdict.radius) if right[-1] else 0.0)
            total = each[voter].counts.sum(0)
            p_a.append(float(total[:-1].max() / total.sum()))
        return Proofs(np.array(radii), np.array(right), np.array(p_a), n)


def require_studied(*, members: int, samples: int) -> None:
    """Raise DomainError for an ensemble that cannot be compared with its members, or for too few samples."""
    if members < 2:
        raise DomainError(f"a study compares an ensemble with its members and takes two or more of them; got {members}")
    require_count("samples", samples)
    if samples < 2 * N0:
        raise DomainError(
            f"a study takes {2 * N0} samples or more of each image, {N0} of them to choose the class; got {samples}"
        )


def answers(*counts: ClassIndices) -> Callable[[int], ClassIndices]:
    """What a procedure is sent, in this order."""
    drawn = iter(counts)
    return lambda _: next(drawn)


def voters(members: int, *, weighted: bool, methods: Sequence[str] | None = None) -> list[Voter]:
    """All voters that some analysis reads."""
    found = [voter for size in sizes(members) for voter in subsets(members, size)]
    everyone = best(members).members
    found += [Voter(everyone, voting) for voting in ("hard", "softmax", *(["weighted"] if weighted else []))]
    found += [Voter(everyone, consensus=leading) for leading in range(1, members)]
    return list(dict.fromkeys([*found, *mixtures(methods).values()]))
