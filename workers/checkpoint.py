"""Where a run stands, so that another process can go on from there to the same counts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from models.ensemble import Ensemble
from smoothcert.canonical import digest
from workers.errors import CheckpointError
from workers.pixels import pixels_sha256
from workers.sampling import SCHEME


@dataclass(frozen=True)
class Shape:
    """The samples start, ..., stop - 1 went through the first members in slices of `rows`.

    And those of them without consensus through the others in slices of `rest_rows`, None where there were none.
    """

    start: int
    stop: int
    rows: int
    rest_rows: int | None = None


@dataclass(frozen=True)
class Checkpoint:
    """All that is needed to go on elsewhere: the counts of complete draws, and how far the one under way has come."""

    of: str
    """A digest of all that the counts depend on: only the same certification goes on from here."""
    draws: tuple[tuple[int, ...], ...]
    partial: tuple[int, ...]
    evaluations: int
    shapes: tuple[Shape, ...]

    @property
    def samples(self) -> int:
        """Samples counted so far."""
        return sum(map(sum, self.draws)) + sum(self.partial)

    def to_json(self) -> str:
        """For another process."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Checkpoint:
        """What `to_json` wrote."""
        try:
            said = json.loads(text)
            return cls(
                said["of"],
                tuple(tuple(map(int, draw)) for draw in said["draws"]),
                tuple(map(int, said["partial"])),
                int(said["evaluations"]),
                tuple(Shape(**shape) for shape in said["shapes"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"not a checkpoint: {type(error).__name__}: {error}") from error


def fingerprint(pixels: Tensor, sigma: float, seed: str, index: int, ensemble: Ensemble) -> str:
    """A digest of all that the counts of a certification depend on."""
    return digest(
        {
            "ensemble": ensemble.digest,
            "voting": ensemble.voting,
            "consensus": ensemble.consensus,
            "precision": ensemble.precision,
            "device": ensemble.device.type,
            "pixels": pixels_sha256(pixels),
            "sigma": sigma,
            "seed": seed,
            "image": index,
            "scheme": SCHEME,
            "generator": [torch.__version__, torch.backends.cpu.get_cpu_capability()],
        }
    )
