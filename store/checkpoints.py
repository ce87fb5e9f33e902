"""What Redis keeps of an image under way.

A complete draw never changes. It has a field of its own in the hash of draws, which is written once, so the cost of a
checkpoint does not grow with the draws before it. Everything else is small and is written again each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class SavedCheckpoint:
    """The checkpoint of one image, or what is new of it, as JSON."""

    rest: str | bytes
    """Everything but the draws; it says how many of them belong to it."""
    draws: Mapping[int, str | bytes] = field(default_factory=dict)
    """Complete draws by their numbers."""

    def __len__(self) -> int:
        return len(self.rest) + sum(map(len, self.draws.values()))


def draw_field(place: int, number: int) -> str:
    """The field of a draw of the image at this place."""
    return f"{place}/{number}"


def read(rests: Mapping[bytes, bytes], draws: Mapping[bytes, bytes]) -> dict[int, SavedCheckpoint]:
    """The checkpoints by the places of their images, from the two hashes; ValueError if a field has another name."""
    found: dict[int, dict[int, str | bytes]] = {int(place): {} for place in rests}
    for name, draw in draws.items():
        place, number = map(int, name.split(b"/"))
        found.setdefault(place, {})[number] = draw
    return {int(place): SavedCheckpoint(rest, found[int(place)]) for place, rest in rests.items()}
