"""What is saved of images: checkpoints and certificates, in pieces that the server writes in a moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TypeVar

from smoothcert.problem import Failure
from store import keys
from store.checkpoints import SavedCheckpoint, draw_field
from store.commands import Call, Command, pairs
from store.record import Record
from store.transitions import writing
from store.transitions.admission import LONGEST_WAIT

PIECE_BYTES = 1_000_000
"""The bytes of certificates and checkpoints in one call, beyond which they are sent in several: a script that writes
them stops the server for about a millisecond."""
PIECE_ENTRIES = 1000
"""The number of certificates or checkpoints in one call: scripts take 8,000 arguments in one command."""
MOST_BYTES = 64_000_000
"""The bytes of one certificate or checkpoint. On half a gigabyte the server closes the connection, as if away."""

_Text = TypeVar("_Text", str, SavedCheckpoint)


def too_large(certificates: Mapping[int, str], checkpoints: Mapping[int, SavedCheckpoint]) -> Failure | None:
    """The failure of a certification of which one text is larger than the server takes."""
    for name, texts in (("certificate", certificates), ("checkpoint", checkpoints)):
        for index, text in texts.items():
            if len(text) > MOST_BYTES:
                detail = f"the {name} of image {index} has {len(text):,} bytes, at most {MOST_BYTES:,} can be kept"
                return Failure(code="result_too_large", detail=detail)
    return None


def saving(
    record: Record,
    execution: str,
    checkpoints: Mapping[int, SavedCheckpoint],
    certificates: Mapping[int, str],
) -> tuple[tuple[Call, ...], list[Command]]:
    """Calls that save all but the last piece, and the commands that save the last one."""
    saved: list[list[Command]] = [_checkpoints(record.id, piece) for piece in _split(checkpoints)]
    saved += [_certificates(record.id, piece) for piece in _split(certificates)]
    first = tuple(writing.held(record, execution, commands) for commands in saved[:-1])
    return first, saved[-1] if saved else []


def _split(texts: Mapping[int, _Text]) -> Iterator[dict[int, _Text]]:
    """Pieces of some images each. What belongs to one image stays together, so that all of it is saved or nothing."""
    piece: dict[int, _Text] = {}
    size = 0
    for index, text in texts.items():
        if piece and (size + len(text) > PIECE_BYTES or len(piece) == PIECE_ENTRIES):
            yield piece
            piece, size = {}, 0
        piece[index] = text
        size += len(text)
    if piece:
        yield piece


def _checkpoints(certification: str, checkpoints: Mapping[int, SavedCheckpoint]) -> list[Command]:
    drawn = [(draw_field(place, n), text) for place, each in checkpoints.items() for n, text in each.draws.items()]
    pieces = [drawn[at : at + PIECE_ENTRIES] for at in range(0, len(drawn), PIECE_ENTRIES)]
    return [
        ("HSET", keys.checkpoints(certification), *pairs({place: each.rest for place, each in checkpoints.items()})),
        ("EXPIRE", keys.checkpoints(certification), LONGEST_WAIT),
        *(("HSET", keys.draws(certification), *chain.from_iterable(piece)) for piece in pieces),
        ("EXPIRE", keys.draws(certification), LONGEST_WAIT),
    ]


def _certificates(certification: str, certificates: Mapping[int, str]) -> list[Command]:
    kept, arrivals = keys.certificates(certification), keys.arrivals(certification)
    return [
        ("HSET", kept, *pairs(certificates)),
        ("EXPIRE", kept, LONGEST_WAIT),
        ("smoothcert.arrive", keys.record(certification), kept, arrivals, *map(str, certificates)),
        ("EXPIRE", arrivals, LONGEST_WAIT),
        ("HDEL", keys.checkpoints(certification), *map(str, certificates)),
        ("smoothcert.undraw", keys.draws(certification), *map(str, certificates)),
    ]
