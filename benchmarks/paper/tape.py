"""A tape: the classes that the members of an ensemble give to the samples of one image, recorded once.

The noise of a sample is a pure function of (seed, image, sample), and every procedure reads its samples from the first
on. So one pass over the samples answers for the k best members, each member alone and every K-consensus. A tape holds
one byte for each sample and voter: the class that each member gives alone, and the class of the full vote of the k
best, for each k. Members that no setting needed for a sample have not seen it. A tape grows when more is read from it.

The counts are those of the engine, to the last sample: the same noise, the same forms in slices of the same shape, the
same votes. `tests/unit/test_tape.py` compares the certificates.

The files are those of `smoothcert.engine.study.tapefile`. A study records all logits of every sample instead, which
takes fifty times the bytes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from benchmarks.paper.setting import alone
from benchmarks.paper.tapeview import UNKNOWN, TapeView, Votes
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.pixels import Pixels
from smoothcert.engine.sampling import NoisyImage
from smoothcert.engine.study.tapefile import TapeFile, folder_seed
from smoothcert.errors import DomainError, require_count
from smoothcert.noise import Noise

Places = npt.NDArray[np.int64]
FORMAT = 2
"""The version of the file format; format 1 named the noise by `sigma` alone."""
SAVE_SECONDS = 10.0
"""The time between two saves of a tape, and so the most work that a killed run loses."""


@dataclass(frozen=True)
class Tapes:
    """A folder of tapes, one file for each image. All share one seed, which the first process draws."""

    folder: Path
    ensemble: Ensemble
    """All members, best first; its voting rule is that of every full vote."""
    noise: Noise
    batch: int = 256

    def __post_init__(self) -> None:
        require_count("batch", self.batch)
        if len(self.ensemble.classes) >= UNKNOWN:
            raise DomainError(f"a tape takes at most {UNKNOWN - 1} classes, got {len(self.ensemble.classes)}")

    @cached_property
    def seed(self) -> str:
        """The seed of all noise in this folder."""
        return folder_seed(self.folder)

    def open(self, image: Tensor, index: int) -> Tape:
        """The tape of an image [C, H, W], named by its index in its data set. Use it as a context manager."""
        return Tape(self, image, index)

    def view(self, ensemble: Ensemble) -> TapeView:
        """Where a tape holds the votes of this ensemble, which must be the k best members or one of them alone."""
        row = self._rows.get((ensemble.digest, ensemble.voting))
        if row is None:
            raise DomainError(
                f"a tape of {self.ensemble.name} has the {self.ensemble.voting} votes of its best members and those of "
                f"each member alone; got {len(ensemble.members)} other members or {ensemble.voting} votes"
            )
        # Row i is member i alone, row n + i the vote of the members 0, ..., i: both need the first i + 1 members.
        depth = row % len(self.ensemble.members) + 1
        return TapeView(row, len(ensemble.members), depth, ensemble.consensus)

    @cached_property
    def voters(self) -> tuple[Ensemble, ...]:
        """The voter of each row of a tape: each member alone, then the k best for each k."""
        full, n = self.ensemble.with_(consensus=None), len(self.ensemble.members)
        return (*(alone(full, i) for i in range(n)), *(full.first_k(k) for k in range(1, n + 1)))

    @cached_property
    def _rows(self) -> dict[tuple[str, str], int]:
        rows: dict[tuple[str, str], int] = {}
        for row, voter in enumerate(self.voters):
            rows.setdefault((voter.digest, voter.voting), row)
        return rows


class Tape:
    """The recorded classes of one image."""

    def __init__(self, tapes: Tapes, image: Tensor, index: int) -> None:
        ensemble = tapes.ensemble
        self.tapes, self.index = tapes, index
        self.pixels = Pixels.of(image, ensemble.input_shape)
        self.evaluations = 0
        """The forward passes made since the tape was opened."""
        self.path = tapes.folder / f"{index:06}.tape"
        self._noisy = NoisyImage(tapes.noise, self.pixels.stored.to(ensemble.device), tapes.seed, index)
        self._no_class = len(ensemble.classes)  # the index that stands for "no class"
        self._classes = self._load()
        self._saved_at, self._changed = time.monotonic(), False

    @property
    def samples(self) -> int:
        """The number of samples that some member has seen."""
        return len(self._classes[0])

    @property
    def rows(self) -> int:
        """The number of rows that go through a network at once."""
        return self.tapes.ensemble.members[0].form.shape[0]

    def votes(self, view: TapeView, start: int, stop: int) -> Votes:
        """The votes of a view on the samples start, ..., stop - 1. Those not on the tape yet are recorded first."""
        if stop > self.samples or not self._votes(view, slice(start, stop)).known.all():
            self._record(view, start, stop)
        return self._votes(view, slice(start, stop))

    def save(self) -> None:
        """Replace the file as a whole, or leave it as it is and raise LedgerError."""
        self._file.write(self.samples, self._classes.tobytes())
        self._saved_at, self._changed = time.monotonic(), False

    def __enter__(self) -> Tape:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._changed:
            self.save()

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """Everything that the recorded classes depend on."""
        tapes = self.tapes
        return {
            "format": FORMAT,
            "ensemble": tapes.ensemble.digest,
            "voting": tapes.ensemble.voting,
            "precision": tapes.ensemble.precision,
            "device": tapes.ensemble.device.type,
            "slice": list(tapes.ensemble.members[0].form.shape),
            "pixels": self.pixels.sha256,
            "noise": tapes.noise.parameters(),
            "scheme": tapes.noise.scheme,
            "seed": tapes.seed,
            "image": self.index,
            **tapes.ensemble.arithmetic,
        }

    @property
    def _file(self) -> TapeFile:
        return TapeFile(self.path, self._identity, lambda samples: len(self.tapes.voters) * samples)

    def _load(self) -> npt.NDArray[np.uint8]:
        samples, body = self._file.read()
        return np.frombuffer(body, np.uint8).reshape(len(self.tapes.voters), samples).copy()

    def _votes(self, view: TapeView, places: slice | Places) -> Votes:
        """What the tape holds of a view now; UNKNOWN where it has not been recorded."""
        full = self._classes[view.row, places]
        if view.leading is None:
            return Votes(view, full, np.zeros(len(full), np.bool_))
        # The first K members decide where they agree on a class, and also where one of them has no class: then the
        # sample has none. Their rows are 0, ..., K - 1.
        first = self._classes[: view.leading, places]
        all_have_one, one_has_none = (first < self._no_class).all(0), (first == self._no_class).any(0)
        decided = np.where(all_have_one, (first == first[0]).all(0), one_has_none)
        by_first = np.where(all_have_one, first[0], self._no_class)
        return Votes(view, np.where(decided, by_first, full).astype(np.uint8), decided)

    def _record(self, view: TapeView, start: int, stop: int) -> None:
        """Run the members that the view needs on the samples start, ..., stop - 1 that it lacks, or on more."""
        # 1. Round the samples up to whole slices. With consensus, take a whole batch: then more rows without
        #    consensus come together and fill their slices better, even if few samples are read at a time.
        if view.cheap:
            stop = max(stop, start + self.tapes.batch)
        stop = -(-stop // self.rows) * self.rows
        self._make_room(stop)
        lacking = start + np.flatnonzero(~self._votes(view, slice(start, stop)).known)
        waiting: list[NoisySamples] = []  # samples without consensus, until they fill a slice
        for places in np.split(lacking, range(self.tapes.batch, len(lacking), self.tapes.batch)):
            # 2. The first members see every sample of the batch.
            samples = self._run(range(view.first), NoisySamples(places, self._perturbed(places), None))
            # 3. The others see those that remain unknown, as many as fill whole slices.
            waiting.append(samples.pick(np.flatnonzero(~self._votes(view, places).known)))
            if sum(map(len, waiting)) >= self.rows:
                together = join(waiting)
                full = len(together) - len(together) % self.rows
                self._run(range(view.first, view.depth), together.pick(slice(0, full)))
                waiting = [together.pick(slice(full, None))]
            if time.monotonic() - self._saved_at > SAVE_SECONDS:
                self.save()
        # 4. The last of them run in a slice that is not full.
        if any(map(len, waiting)):
            self._run(range(view.first, view.depth), join(waiting))

    def _make_room(self, samples: int) -> None:
        more = max(0, samples - self.samples)
        self._classes = np.pad(self._classes, ((0, 0), (0, more)), constant_values=UNKNOWN)

    def _perturbed(self, places: Places) -> Tensor:
        """The noisy images [N, C, H, W] of these samples, which are in ascending order."""
        pixels = self._noisy.pixels
        images = torch.empty((len(places), *pixels.shape), device=pixels.device, dtype=torch.float32)
        gaps = np.flatnonzero(np.diff(places) != 1) + 1  # where a run of consecutive samples begins
        for begin, end in pairwise([0, *gaps.tolist(), len(places)]):
            self._noisy.sample(images[begin:end], int(places[begin]))
        return images

    def _run(self, members: range, samples: NoisySamples) -> NoisySamples:
        """Run these members on samples that all members before them have seen, and record every vote that follows."""
        new = torch.stack([self.tapes.ensemble.members[place].form(samples.images) for place in members])
        outputs = new if samples.outputs is None else torch.cat([samples.outputs, new])
        self.evaluations += len(members) * len(samples)
        n = len(self.tapes.ensemble.members)
        for place in range(len(outputs)):
            by_itself, best = self.tapes.voters[place], self.tapes.voters[n + place]
            for row, votes in (
                (place, by_itself.vote(outputs[place : place + 1])),
                (n + place, best.vote(outputs[: place + 1])),
            ):
                self._classes[row, samples.places] = votes.to(torch.uint8).cpu().numpy()
        self._changed = True
        return NoisySamples(samples.places, samples.images, outputs)


@dataclass(frozen=True)
class NoisySamples:
    """Samples by their places, their noisy images [N, C, H, W], and the logits [m, N, classes] of the first m members.

    The logits are None before the first member has run.
    """

    places: Places
    images: Tensor
    outputs: Tensor | None

    def __len__(self) -> int:
        return len(self.places)

    def pick(self, rows: slice | Places) -> NoisySamples:
        chosen = rows if isinstance(rows, slice) else torch.from_numpy(rows).to(self.images.device)
        outputs = None if self.outputs is None else self.outputs[:, chosen]
        return NoisySamples(self.places[rows], self.images[chosen], outputs)


def join(several: Sequence[NoisySamples]) -> NoisySamples:
    """All samples of several groups that the same members have seen."""
    outputs = [each.outputs for each in several if each.outputs is not None]
    places = np.concatenate([each.places for each in several])
    return NoisySamples(places, torch.cat([each.images for each in several]), torch.cat(outputs, dim=1))
