"""Shards: the parts of a certification that was divided among workers.

A certification is one shard until a worker is idle. Then the worker that has it gives some of its images away, as a new
shard that waits like a certification does and that any worker takes, begins, saves, hands back or divides again. Each
image belongs to exactly one shard, at any time.

    CERTIFICATION           the first shard; its fields in the record are those of a certification as a whole
    CERTIFICATION-NAME      another one; its fields are in the same record, as `field/NAME`

One record has all of them, so the first final status ends them together.

A shard may also be a *range*: samples of the draw under way of one image, which stays with the shard that has it. A
range only saves time. If its worker dies or leaves, it is forgotten, and the worker of the image draws the samples.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

OWN = frozenset(
    {
        "status",
        "queue",
        "execution",
        "worker",
        "places",
        "samples_at_start",
        "samples_saved",
        "deaths",
        "burials",
        "progress",
        "given",
        "range",
    }
)
"""The fields of a record that each shard has for itself."""
LEAST_RANGE = 8_192
"""A part of a draw is lent to an idle worker only if at least this many samples are left (`workers.lending`)."""
LASTING = frozenset({"places", "progress"})
"""The fields of a shard that stay in the record after its end, because they say what it did."""


def job_name(certification: str, shard: str) -> str:
    """The name under which a shard waits and RQ knows it; '' is the first shard."""
    return f"{certification}-{shard}" if shard else certification


def parse_name(name: str) -> tuple[str, str]:
    """The certification and the shard that a name stands for."""
    certification, _, shard = name.partition("-")
    return certification, shard


def field(name: str, shard: str) -> str:
    """The field of the record in which a shard keeps this."""
    return f"{name}/{shard}" if shard and name in OWN else name


def write_places(places: Iterable[int]) -> str:
    """Places of images as text, such as `0-3,7`."""
    runs = groupby(enumerate(sorted(places)), lambda pair: pair[1] - pair[0])
    ends = [[place for _, place in run] for _, run in runs]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in ends)


def read_places(text: str, images: int) -> list[int]:
    """The places in a text, in order; all of them if it is empty."""
    if not text:
        return list(range(images))
    ends = [run.split("-") for run in text.split(",")]
    return [place for run in ends for place in range(int(run[0]), int(run[-1]) + 1)]
