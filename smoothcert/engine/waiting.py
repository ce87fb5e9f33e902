"""Rows between two stages of the vote: they wait until others fill a slice with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smoothcert.engine.poll import UNDECIDED
from smoothcert.engine.run import ClassCounts, Segment

PATIENCE = 8
"""The batches for which an undecided row waits until others fill a slice with it."""

Shares = tuple[tuple[Segment, int], ...]


@dataclass(frozen=True)
class Pending:
    """Rows of several segments, and what the members gave that they asked so far."""

    shares: Shares
    """Whose rows they are, in order, and how many belong to each."""
    images: Tensor
    """The noisy images [N, C, H, W]."""
    outputs: Tensor
    """The logits [m, N, classes] of the first m members."""

    def __len__(self) -> int:
        return len(self.images)

    def undecided(self, classes: ClassCounts, place: Callable[[ClassCounts], Tensor]) -> Pending | None:
        """The rows whose class [N] is UNDECIDED; None where there are none. `place` brings indices to the device."""
        open_rows = np.flatnonzero(classes == UNDECIDED)
        if not len(open_rows):
            return None
        ends = np.cumsum([share for _, share in self.shares])
        left = np.diff(np.searchsorted(open_rows, ends), prepend=0).tolist()
        shares = tuple((segment, n) for (segment, _), n in zip(self.shares, left, strict=True) if n)
        rows = place(open_rows)
        return Pending(shares, self.images[rows], self.outputs[:, rows])


def count(shares: Shares, classes: ClassCounts, *, members: int, rows: int, first: bool) -> None:
    """Give every segment the classes [N] that members gave to its share of the rows; UNDECIDED ones stay open."""
    # One count for all segments. Row i of the table is segment i. UNDECIDED is -1, so `classes - UNDECIDED` puts
    # undecided rows into column 0 and class c into column c + 1.
    width = len(shares[0][0].counts) + 1
    lengths = [share for _, share in shares]
    places = np.repeat(np.arange(0, width * len(shares), width), lengths)
    places += classes - UNDECIDED
    table = np.bincount(places, minlength=width * len(shares)).reshape(-1, width)
    for (segment, share), counts, left in zip(shares, table[:, 1:], table[:, 0].tolist(), strict=True):
        segment.count(counts, left=left, evaluations=members * share, rows=rows, first=first)


class Waiting:
    """The rows that asked the same members and wait for the next ones."""

    def __init__(self) -> None:
        self._shares: deque[tuple[Segment, int]] = deque()  # the owners of the rows, in order
        self._images: list[Tensor] = []
        self._outputs: list[Tensor] = []
        self._waited = 0  # batches since the oldest of the rows came

    def add(self, rows: Pending) -> None:
        self._shares.extend(rows.shares)
        self._images.append(rows.images)
        self._outputs.append(rows.outputs)

    def ready(self, rows: int, *, hurry: bool) -> Pending | None:
        """As many as fill whole slices of `rows`; all of them in a hurry, or if the oldest waited long."""
        waiting = sum(share for _, share in self._shares)
        self._waited = self._waited + 1 if waiting else 0
        count = waiting if hurry or self._waited >= PATIENCE else waiting - waiting % rows
        if not count:
            return None
        self._waited = 0
        images, outputs = torch.cat(self._images), torch.cat(self._outputs, dim=1)
        self._images, self._outputs = [images[count:]], [outputs[:, count:]]
        return Pending(tuple(self._take(count)), images[:count], outputs[:, :count])

    def clear(self) -> None:
        for queue in (self._shares, self._images, self._outputs):
            queue.clear()

    def _take(self, count: int) -> list[tuple[Segment, int]]:
        """The owners of the first `count` rows; a share that does not fit whole is split."""
        taken = []
        while count:
            segment, share = self._shares.popleft()
            if share > count:
                self._shares.appendleft((segment, share - count))
                share = count
            taken.append((segment, share))
            count -= share
        return taken
