"""A tape: how the members of an ensemble classify the samples of one image, recorded once for all who ask.

The noise of a sample is a pure function of (seed, image, sample), and every procedure reads its samples from the first
on. So the k best members, each member alone and every K-consensus can be answered for from one pass over the samples.
A tape holds, for each sample, the class that each member gives alone and the class of the full vote of the k best, for
each k, in a byte each; members that nobody needed for a sample have not seen it. It grows when it is asked for more.

The counts are those of the engine, to the last sample: the same noise, the same forms in slices of the same shape, the
same votes. `tests/unit/test_tape.py` compares the certificates.

On disk a tape is a line of JSON that says what it is a recording of, and the bytes. It is written whole or not at all,
so a run that is killed loses seconds. Two processes may fill one folder, best with images of their own: on the same
image both do the same work, and the file is that of whoever wrote last.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
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
from benchmarks.paper.view import UNKNOWN, Heard, View
from smoothcert.engine.case import VERSIONS, new_seed
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.pixels import check_image, pixels_sha256
from smoothcert.engine.sampling import SCHEME, NoiseStream
from smoothcert.errors import DomainError, LedgerError, require_count

Places = npt.NDArray[np.int64]
FORMAT = 1
SAVE_SECONDS = 10.0
"""How much work a killed run loses, at most."""


@dataclass(frozen=True)
class Tapes:
    """A folder of tapes, one file for each image, with one seed for all of them, drawn by whoever comes first."""

    folder: Path
    ensemble: Ensemble
    """All members, best first; its voting rule is that of every full vote."""
    sigma: float
    batch: int = 256

    def __post_init__(self) -> None:
        require_count("batch", self.batch)
        if len(self.ensemble.classes) >= UNKNOWN:
            raise DomainError(f"a tape has room for {UNKNOWN - 1} classes, not for {len(self.ensemble.classes)}")

    @cached_property
    def seed(self) -> str:
        """Of all the noise."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "seed"
        if not path.exists():
            drawn = path.with_name(f"seed.{os.getpid()}.partial")
            drawn.write_text(new_seed())
            with suppress(FileExistsError):  # another process was faster
                os.link(drawn, path)
            drawn.unlink()
        return path.read_text().strip()

    def open(self, image: Tensor, index: int) -> Tape:
        """The tape of an image [C, H, W], by its index in its data set; use it as a context manager."""
        return Tape(self, image, index)

    def view(self, ensemble: Ensemble) -> View:
        """Where a tape has the answers of this ensemble, which must be the k best members or one of them alone."""
        row = self._rows.get((ensemble.digest, ensemble.voting))
        if row is None:
            raise DomainError(
                f"a tape of {self.ensemble.name} has the {self.ensemble.voting} votes of its best members and each of "
                f"them alone, not {len(ensemble.members)} others with {ensemble.voting} votes"
            )
        n = len(self.ensemble.members)
        depth = row + 1 if row < n else row + 1 - n
        return View(row, len(ensemble.members), depth, ensemble.consensus)

    @cached_property
    def voters(self) -> tuple[Ensemble, ...]:
        """Whose votes are in the rows of a tape: each member alone, then the k best for each k."""
        full, n = self.ensemble.with_(consensus=None), len(self.ensemble.members)
        return (*(alone(full, i) for i in range(n)), *(full.first_k(k) for k in range(1, n + 1)))

    @cached_property
    def _rows(self) -> dict[tuple[str, str], int]:
        rows: dict[tuple[str, str], int] = {}
        for row, voter in enumerate(self.voters):
            rows.setdefault((voter.digest, voter.voting), row)
        return rows


class Tape:
    """The recording of one image."""

    def __init__(self, tapes: Tapes, image: Tensor, index: int) -> None:
        ensemble = tapes.ensemble
        self.tapes, self.index = tapes, index
        self.pixels = check_image(image, ensemble.input_shape)
        self.evaluations = 0
        """Made since it was opened."""
        self.path = tapes.folder / f"{index:06}.tape"
        self._device_pixels = self.pixels.to(ensemble.device)
        self._stream = NoiseStream(tapes.seed, index, ensemble.input_shape, ensemble.device)
        self._none = len(ensemble.classes)  # the index of no class
        self._classes = self._load()
        self._saved_at, self._changed = time.monotonic(), False

    @property
    def samples(self) -> int:
        """Samples that some member has seen."""
        return len(self._classes[0])

    @property
    def rows(self) -> int:
        """The rows that go through a network at once."""
        return self.tapes.ensemble.members[0].form.shape[0]

    def hear(self, view: View, start: int, stop: int) -> Heard:
        """What a view says of the samples start, ..., stop - 1; those not on the tape yet are recorded."""
        if stop > self.samples or not self._heard(view, slice(start, stop)).known.all():
            self._record(view, start, stop)
        return self._heard(view, slice(start, stop))

    def save(self) -> None:
        """Write the file anew, whole or not at all."""
        body = self._classes.tobytes()
        said = {**self._identity, "samples": self.samples, "sha256": hashlib.sha256(body).hexdigest()}
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}.partial")
        try:
            with partial.open("wb") as file:
                file.write(json.dumps(said).encode() + b"\n" + body)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
        except OSError as error:
            raise LedgerError(f"cannot write {self.path}: {error}; what was there before is unharmed") from error
        finally:
            partial.unlink(missing_ok=True)
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
        """All that the classes depend on."""
        tapes = self.tapes
        return {
            "format": FORMAT,
            "ensemble": tapes.ensemble.digest,
            "voting": tapes.ensemble.voting,
            "precision": tapes.ensemble.precision,
            "device": tapes.ensemble.device.type,
            "slice": list(tapes.ensemble.members[0].form.shape),
            "pixels": pixels_sha256(self.pixels),
            "sigma": tapes.sigma,
            "seed": tapes.seed,
            "image": self.index,
            "scheme": SCHEME,
            "torch": VERSIONS["torch"],
            "cpu": VERSIONS["cpu"],
        }

    def _load(self) -> npt.NDArray[np.uint8]:
        rows = len(self.tapes.voters)
        if not self.path.exists():
            return np.empty((rows, 0), np.uint8)
        first, _, body = self.path.read_bytes().partition(b"\n")
        try:
            said = dict(json.loads(first))
            samples, sha256 = int(said["samples"]), said["sha256"]
        except (ValueError, KeyError, TypeError) as error:
            raise LedgerError(f"{self.path} is damaged: {error!r}; remove it") from error
        other = {key: said.get(key) for key, value in self._identity.items() if said.get(key) != value}
        if other:
            raise LedgerError(f"{self.path} is the tape of something else, with {other}; name another folder")
        if hashlib.sha256(body).hexdigest() != sha256 or len(body) != rows * samples:
            raise LedgerError(f"{self.path} is damaged: its {len(body)} bytes are not those written; remove it")
        return np.frombuffer(body, np.uint8).reshape(rows, samples).copy()

    def _heard(self, view: View, places: slice | Places) -> Heard:
        full = self._classes[view.row, places]
        if view.leading is None:
            return Heard(view, full, np.zeros(len(full), np.bool_))
        first = self._classes[: view.leading, places]
        sound, unsound = (first < self._none).all(0), (first == self._none).any(0)
        decided = np.where(sound, (first == first[0]).all(0), unsound)
        return Heard(view, np.where(decided, np.where(sound, first[0], self._none), full).astype(np.uint8), decided)

    def _record(self, view: View, start: int, stop: int) -> None:
        """Run the members that the view needs on those of the samples start, ..., stop - 1 that it lacks, or more."""
        if view.cheap:  # more rows without consensus fill a slice better, however little is asked for at a time
            stop = max(stop, start + self.tapes.batch)
        stop = -(-stop // self.rows) * self.rows
        self._make_room(stop)
        lacking = start + np.flatnonzero(~self._heard(view, slice(start, stop)).known)
        waiting: list[Seen] = []  # rows without consensus
        for places in np.split(lacking, range(self.tapes.batch, len(lacking), self.tapes.batch)):
            images = self._perturbed(places)
            seen = self._run(range(view.first), Seen(places, images, None))
            left = np.flatnonzero(~self._heard(view, places).known)
            waiting.append(seen.pick(left))
            if sum(map(len, waiting)) >= self.rows:
                together = join(waiting)
                full = len(together) - len(together) % self.rows
                self._run(range(view.first, view.depth), together.pick(slice(0, full)))
                waiting = [together.pick(slice(full, None))]
            if time.monotonic() - self._saved_at > SAVE_SECONDS:
                self.save()
        if any(map(len, waiting)):
            self._run(range(view.first, view.depth), join(waiting))

    def _make_room(self, samples: int) -> None:
        more = max(0, samples - self.samples)
        self._classes = np.pad(self._classes, ((0, 0), (0, more)), constant_values=UNKNOWN)

    def _perturbed(self, places: Places) -> Tensor:
        """The noisy images of these samples."""
        shape = (len(places), *self._device_pixels.shape)
        images = torch.empty(shape, device=self._device_pixels.device, dtype=torch.float32)
        gaps = np.flatnonzero(np.diff(places) != 1) + 1
        for begin, end in pairwise([0, *gaps.tolist(), len(places)]):
            self._stream.perturb(images[begin:end], self._device_pixels, self.tapes.sigma, int(places[begin]))
        return images

    def _run(self, members: range, seen: Seen) -> Seen:
        """Run these members on samples that all members before them have seen, and note every vote that can be had."""
        found = [self.tapes.ensemble.members[place].form(seen.images) for place in members]
        outputs = torch.stack(found) if seen.outputs is None else torch.cat([seen.outputs, torch.stack(found)])
        self.evaluations += len(members) * len(seen)
        n = len(self.tapes.ensemble.members)
        for place in range(len(outputs)):
            by_itself, best = self.tapes.voters[place], self.tapes.voters[n + place]
            for row, votes in (
                (place, by_itself.rest(seen.images, outputs[place : place + 1])),
                (n + place, best.rest(seen.images, outputs[: place + 1])),
            ):
                self._classes[row, seen.places] = votes.to(torch.uint8).cpu().numpy()
        self._changed = True
        return Seen(seen.places, seen.images, outputs)


@dataclass(frozen=True)
class Seen:
    """Samples by their places, their noisy images [N, C, H, W], and the logits [m, N, classes] of the first m."""

    places: Places
    images: Tensor
    outputs: Tensor | None

    def __len__(self) -> int:
        return len(self.places)

    def pick(self, rows: slice | Places) -> Seen:
        """Some of them."""
        chosen = rows if isinstance(rows, slice) else torch.from_numpy(rows).to(self.images.device)
        return Seen(self.places[rows], self.images[chosen], None if self.outputs is None else self.outputs[:, chosen])


def join(several: Sequence[Seen]) -> Seen:
    """All of them, which the same members have seen."""
    outputs = [each.outputs for each in several if each.outputs is not None]
    places = np.concatenate([each.places for each in several])
    return Seen(places, torch.cat([each.images for each in several]), torch.cat(outputs, dim=1))
