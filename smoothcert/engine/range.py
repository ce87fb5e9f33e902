"""A range of the samples of one draw, which another process draws and counts.

The noise of a sample depends on its index alone, and the counts of a draw are those of its ranges together. So a run
may count up to some sample, another run may count the rest of the draw, and a third goes on from both as if it had
drawn everything itself. The procedure has asked for the whole draw before, so where the draw ends does not depend on
which process counts it.
"""

from __future__ import annotations

import json
from typing import cast

from smoothcert.counts import SampleCounts
from smoothcert.engine.checkpoint import Checkpoint, Shape
from smoothcert.engine.errors import CheckpointError
from smoothcert.procedures import Procedure
from smoothcert.verdict import Verdict


def counting(*sizes: int) -> Procedure:
    """A procedure that asks for draws of these sizes and decides nothing."""
    for size in sizes:  # noqa: UP028  # a procedure is sent counts, which a tuple does not take
        yield size
    return cast(Verdict, None)


def up_to(checkpoint: Checkpoint, start: int) -> Procedure:
    """Count from a checkpoint on, but only up to this sample of the draw under way; for a run that resumes there."""
    sizes = [draw.total for draw in checkpoint.draws]
    return counting(*sizes, start - sum(sizes))


def tail_of(checkpoint: Checkpoint, start: int) -> Checkpoint:
    """Where a run of `counting(start, stop - start)` begins to count the samples from `start` on.

    All samples before are one draw, whose counts are not read.
    """
    skipped = SampleCounts(((0, start),))
    return Checkpoint(checkpoint.of, (skipped,), SampleCounts(), 0, (), checkpoint.parts)


def reopened(front: Checkpoint) -> Checkpoint:
    """The checkpoint of a run of `up_to` that has ended, as one of the run that asked for the whole draw."""
    *draws, partial = front.draws
    return Checkpoint(front.of, tuple(draws), partial, front.evaluations, front.shapes, front.parts)


def closed(front: Checkpoint) -> Checkpoint:
    """A checkpoint whose draw under way is complete: the reverse of `reopened`."""
    none = SampleCounts()
    return Checkpoint(front.of, (*front.draws, front.partial), none, front.evaluations, front.shapes, front.parts)


def joined(front: Checkpoint, tail: Checkpoint) -> Checkpoint:
    """The checkpoint of a run whose draw under way was counted by `front` and, from there to its end, by `tail`.

    CheckpointError if the two do not belong together, or were not drawn by machines of one kind.
    """
    if len(tail.draws) != 2 or tail.draws[0].total != front.samples or (tail.of, tail.parts) != (front.of, front.parts):
        raise CheckpointError(f"the range does not begin where the {front.samples} samples of this run end")
    return Checkpoint(
        front.of,
        (*front.draws, sum((front.partial, tail.draws[1]), start=SampleCounts())),
        SampleCounts(),
        front.evaluations + tail.evaluations,
        _put_together([*front.shapes, *tail.shapes]),
        front.parts,
    )


def _put_together(shapes: list[Shape]) -> tuple[Shape, ...]:
    """Neighbours that were evaluated in the same shapes become one, as within one run."""
    found: list[Shape] = []
    for shape in shapes:
        last = found[-1] if found else None
        if last and last.rows == shape.rows and len({last.rest_rows, shape.rest_rows} - {None}) <= 1:
            found[-1] = Shape(last.start, shape.stop, shape.rows, shape.rest_rows or last.rest_rows)
        else:
            found.append(shape)
    return tuple(found)


def write(checkpoint: Checkpoint) -> str:
    """A checkpoint with its draws, as JSON."""
    return json.dumps([checkpoint.rest_json(), [checkpoint.draw_json(n) for n in range(len(checkpoint.draws))]])


def read(text: str | bytes) -> Checkpoint:
    """The checkpoint in a text; CheckpointError if there is none."""
    try:
        rest, draws = json.loads(text)
        return Checkpoint.from_json(rest, dict(enumerate(draws)))
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"not a checkpoint: {type(error).__name__}: {error}") from error
