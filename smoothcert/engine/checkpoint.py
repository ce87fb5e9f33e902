"""Where a run stands, so that another process can go on from there.

On a machine of the same kind it arrives at the same counts. On another kind it keeps the counts so far and goes on
with noise that is independent of theirs. A run that began anew there would have a second chance at a certificate, and
only the undecided ones would get it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from smoothcert.canonical import digest
from smoothcert.counts import SampleCounts
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import CheckpointError
from smoothcert.engine.pixels import Pixels
from smoothcert.noise import Noise


@dataclass(frozen=True)
class Shape:
    """The samples start, ..., stop - 1 went through the first members in slices of `rows`.

    Those of them that these left undecided went through others in slices of `rest_rows`; None where there were none.
    """

    start: int
    stop: int
    rows: int
    rest_rows: int | None = None


@dataclass(frozen=True)
class Machine:
    """The kind of machine on which samples are drawn and evaluated."""

    device: str
    precision: str
    arithmetic: dict[str, str]

    @classmethod
    def of(cls, ensemble: Ensemble) -> Machine:
        return cls(ensemble.device.type, ensemble.precision, ensemble.arithmetic)


@dataclass(frozen=True)
class Part:
    """The samples from `start` on, up to the next part, belong to one kind of machine and one stream of the seed."""

    start: int
    stream: int
    machine: Machine


@dataclass(frozen=True)
class Checkpoint:
    """The counts of complete draws, and how far the draw under way has come.

    A complete draw never changes, so it is saved once, apart from the rest: `rest_json` has everything but the draws.
    """

    of: str
    """The `fingerprint` of the run: no other run may go on from here."""
    draws: tuple[SampleCounts, ...]
    partial: SampleCounts
    evaluations: int
    shapes: tuple[Shape, ...]
    parts: tuple[Part, ...]

    @property
    def samples(self) -> int:
        """The samples counted so far."""
        return sum(draw.total for draw in self.draws) + self.partial.total

    def draw_json(self, number: int) -> str:
        return json.dumps(self.draws[number].written(), separators=(",", ":"))

    def rest_json(self) -> str:
        rest = {
            "of": self.of,
            "draws": len(self.draws),
            "partial": self.partial.written(),
            "evaluations": self.evaluations,
            "shapes": [asdict(shape) for shape in self.shapes],
            "parts": [asdict(part) for part in self.parts],
        }
        return json.dumps(rest, separators=(",", ":"))

    @classmethod
    def from_json(cls, rest: str | bytes, draws: Mapping[int, str | bytes]) -> Checkpoint:
        """The checkpoint with this rest, which says how many draws belong to it; others are left out."""
        try:
            fields = json.loads(rest)
            return cls(
                fields["of"],
                tuple(SampleCounts.read(json.loads(draws[number])) for number in range(fields["draws"])),
                SampleCounts.read(fields["partial"]),
                int(fields["evaluations"]),
                tuple(Shape(**shape) for shape in fields["shapes"]),
                tuple(Part(part["start"], part["stream"], Machine(**part["machine"])) for part in fields["parts"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"not a checkpoint: {type(error).__name__}: {error}") from error


def fingerprint(pixels: Pixels, noise: Noise, seed: str, index: int, ensemble: Ensemble) -> str:
    """A digest of the question that the counts of a run belong to, whatever machine draws them."""
    return digest(
        {
            "ensemble": ensemble.digest,
            "voting": ensemble.voting,
            "consensus": ensemble.consensus,
            "pixels": pixels.sha256,
            "noise": noise.parameters(),
            "scheme": noise.scheme,
            "seed": seed,
            "image": index,
        }
    )
