"""Where a run stands, so that another process can go on from there to the same counts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

import torch

from smoothcert.canonical import digest
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import CheckpointError
from smoothcert.engine.pixels import Pixels
from smoothcert.noise import Noise


@dataclass(frozen=True)
class Shape:
    """The samples start, ..., stop - 1 went through the first members in slices of `rows`.

    Those of them without consensus went through the others in slices of `rest_rows`; None where there were none.
    """

    start: int
    stop: int
    rows: int
    rest_rows: int | None = None


@dataclass(frozen=True)
class Checkpoint:
    """The counts of complete draws, and how far the draw under way has come."""

    of: str
    """The `fingerprint` of the run: no other run may go on from here."""
    draws: tuple[tuple[int, ...], ...]
    partial: tuple[int, ...]
    evaluations: int
    shapes: tuple[Shape, ...]

    @property
    def samples(self) -> int:
        """The samples counted so far."""
        return sum(map(sum, self.draws)) + sum(self.partial)

    def to_json(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str | bytes) -> Checkpoint:
        try:
            fields = json.loads(text)
            return cls(
                fields["of"],
                tuple(tuple(map(int, draw)) for draw in fields["draws"]),
                tuple(map(int, fields["partial"])),
                int(fields["evaluations"]),
                tuple(Shape(**shape) for shape in fields["shapes"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"not a checkpoint: {type(error).__name__}: {error}") from error


def fingerprint(pixels: Pixels, noise: Noise, seed: str, index: int, ensemble: Ensemble) -> str:
    """A digest of everything that the counts of a run depend on."""
    return digest(
        {
            "ensemble": ensemble.digest,
            "voting": ensemble.voting,
            "consensus": ensemble.consensus,
            "precision": ensemble.precision,
            "device": ensemble.device.type,
            "pixels": pixels.sha256,
            "noise": noise.parameters(),
            "scheme": noise.scheme,
            "seed": seed,
            "image": index,
            "generator": [torch.__version__, torch.backends.cpu.get_cpu_capability()],
        }
    )
