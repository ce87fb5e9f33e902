"""Tapes of logits: the outputs of every member of an ensemble for the samples of each image, recorded once.

The noise of a sample is a pure function of (seed, image, sample). So an interrupted recording continues where it
stopped, and a later study can reuse the tapes of an earlier one. A tape holds float32 logits [1 + samples, members,
classes]; its first row belongs to the image without noise. The classes that follow from the logits are those of the
engine, for every choice of members and every vote.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.pixels import Pixels, floats
from smoothcert.engine.sampling import NoisyImage
from smoothcert.engine.study.tapefile import TapeFile, folder_seed
from smoothcert.errors import DomainError, LedgerError, require_count
from smoothcert.noise import Noise

Logits = npt.NDArray[np.float32]
FORMAT = 1
"""The version of the file format."""
SAVE_SECONDS = 10.0
"""The seconds between two saves of a tape, which bound the work that a killed recording loses."""
MOST_BYTES = 4_000_000_000
"""The most bytes that the tapes of one study take on disk by default."""


@dataclass(frozen=True)
class LogitTapes:
    """A folder of tapes, one file for each image. All share one seed, which the first process draws."""

    folder: Path
    ensemble: Ensemble
    noise: Noise
    samples: int
    """The number of samples of each image."""
    batch: int = 256
    most_bytes: int = MOST_BYTES

    def __post_init__(self) -> None:
        require_count("samples", self.samples)
        require_count("batch", self.batch)
        if self.noise.exhaustible:
            raise DomainError(
                f"{self.noise.name} noise has {self.noise.outcomes} outcomes, all of which are evaluated: there are no "
                f"samples whose distribution could be studied; take a noise that is drawn at random"
            )

    @cached_property
    def seed(self) -> str:
        """The seed of all noise in this folder."""
        return folder_seed(self.folder)

    def record(self, images: Sequence[Tensor], indices: Sequence[int]) -> Iterator[int]:
        """Record what is missing, image by image; yields the number of samples that were added to each tape."""
        self.require_room(indices)
        for image, index in zip(images, indices, strict=True):
            yield LogitTape(self, image, index).record()

    def read(self, image: Tensor, index: int) -> Recording:
        """The finished tape of an image."""
        return LogitTape(self, image, index).recording

    def path(self, index: int) -> Path:
        """The file of an image, named by its index in its data set."""
        return self.folder / f"{index:06}.logits"

    def bytes_of(self, samples: int) -> int:
        """The bytes of the logits of this many samples and of the image without noise."""
        return (1 + samples) * len(self.ensemble.members) * len(self.ensemble.classes) * 4

    def require_room(self, indices: Sequence[int]) -> None:
        """Raise LedgerError before anything is computed if the tapes exceed their limit or the free disk."""
        total = len(indices) * self.bytes_of(self.samples)
        if total > self.most_bytes:
            raise LedgerError(
                f"the tapes of {len(indices)} images with {self.samples:,} samples would take {_mega(total)}, more "
                f"than the limit of {_mega(self.most_bytes)}: take fewer images or samples, or raise the limit"
            )
        _ = self.seed  # makes the folder
        there = sum(path.stat().st_size for path in map(self.path, indices) if path.exists())
        # A file is written beside the one that it replaces, so one more has to fit.
        missing, free = total - there + self.bytes_of(self.samples), shutil.disk_usage(self.folder).free
        if missing > free:
            raise LedgerError(
                f"the tapes need {_mega(missing)} more in {self.folder}, and {_mega(free)} are free: make room, take "
                f"fewer images or samples, or name another folder"
            )


@dataclass(frozen=True, eq=False)
class Recording:
    """The logits of one image: `clean` [k, C] without noise, and `noisy` [n, k, C], one row for each sample."""

    clean: Logits
    noisy: Logits


class LogitTape:
    """The file of one image."""

    def __init__(self, tapes: LogitTapes, image: Tensor, index: int) -> None:
        ensemble = tapes.ensemble
        self.tapes, self.index = tapes, index
        self.pixels = Pixels.of(image, ensemble.input_shape)
        self.file = TapeFile(tapes.path(index), self._identity, tapes.bytes_of)

    @property
    def recording(self) -> Recording:
        """The logits of the samples that the study needs; LedgerError if some are missing."""
        held, logits = self._load()
        if held < self.tapes.samples:
            raise LedgerError(
                f"{self.file.path} has {held:,} of {self.tapes.samples:,} samples: record the others first"
            )
        return Recording(logits[0], logits[1 : 1 + self.tapes.samples])

    def record(self) -> int:
        """Draw the samples that the tape lacks, and save it from time to time; returns their number."""
        ensemble, stop = self.tapes.ensemble, self.tapes.samples
        held, before = self._load()
        if held >= stop and len(before):
            return 0
        logits = np.empty((1 + stop, len(ensemble.members), len(ensemble.classes)), np.float32)
        logits[: len(before)] = before
        pixels = floats(self.pixels.stored).to(ensemble.device)
        noisy = NoisyImage(self.tapes.noise, pixels, self.tapes.seed, self.index)
        if not len(before):
            logits[:1] = self._answers(pixels.unsqueeze(0))
        out = torch.empty((self.tapes.batch, *pixels.shape), device=pixels.device, dtype=torch.float32)
        saved_at = time.monotonic()
        for start in range(held, stop, self.tapes.batch):
            end = min(stop, start + self.tapes.batch)
            noisy.sample(out[: end - start], start)
            logits[1 + start : 1 + end] = self._answers(out[: end - start])
            if end == stop or time.monotonic() - saved_at > SAVE_SECONDS:
                self.file.write(end, logits[: 1 + end].data.cast("B"))
                saved_at = time.monotonic()
        return stop - held

    def _answers(self, images: Tensor) -> Logits:
        """The logits [N, k, C] of all members."""
        answers: Logits = self.tapes.ensemble.logits(images).permute(1, 0, 2).cpu().numpy()
        return answers

    def _load(self) -> tuple[int, Logits]:
        """The number of samples on the tape, and its logits, which have no rows before anything was recorded."""
        held, body = self.file.read()
        ensemble = self.tapes.ensemble
        return held, np.frombuffer(body, "<f4").reshape(-1, len(ensemble.members), len(ensemble.classes))

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """Everything that the recorded logits depend on."""
        ensemble, noise = self.tapes.ensemble, self.tapes.noise
        return {
            "format": FORMAT,
            "holds": "logits",
            "ensemble": ensemble.digest,
            "precision": ensemble.precision,
            "device": ensemble.device.type,
            "slice": list(ensemble.members[0].form.shape),
            "pixels": self.pixels.sha256,
            "noise": noise.parameters(),
            "scheme": noise.scheme,
            "seed": self.tapes.seed,
            "image": self.index,
            **ensemble.arithmetic,
        }


def _mega(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
