"""K-consensus: the first K members decide where they agree, and the others need not run."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from smoothcert.chapter import Chapter, ChapterTable
from smoothcert.engine.study import paper
from smoothcert.engine.study.samples import Samples
from smoothcert.engine.study.voters import Voter, best
from smoothcert.estimate import Estimate

Floats = npt.NDArray[np.float64]


def chapter(samples: Samples) -> Chapter:
    k = samples.members
    rows: list[tuple[object, ...]] = []
    figures: list[tuple[str, float | Estimate]] = []
    full = samples.proofs(best(k))
    for leading in range(1, k + 1):
        voter = consensus(k, leading)
        proofs, agreed = samples.proofs(voter), agreement(samples, voter)
        rate, time = (
            samples.bootstrap.mean(100 * agreed),
            samples.bootstrap.ratio(np.ones(len(samples)), cost(agreed, k, leading)),
        )
        kept = samples.bootstrap.ratio(proofs.radii, full.radii)
        rows.append((f"K = {leading} of {k}", *samples.quality(proofs), rate, time, kept))
        figures += [(f"KCR, K = {leading}", rate), (f"TimeRF, K = {leading}", time), (f"ACR kept, K = {leading}", kept)]
    blanks = ("",) * (len(samples.quality_columns) - 1)
    for name, table in paper.CONSENSUS.items():
        whole = table[max(table)].acr
        for leading, row in table.items():
            label = f"the paper, {name}, K = {leading}"
            rows.append((label, row.acr, *blanks, row.rate, row.time, round(row.acr / whole, 3)))
    return Chapter(
        "consensus",
        "K-consensus",
        [
            "KCR is the percentage of samples for which only K members had to run. TimeRF is the number of forward "
            "passes of the full vote divided by those that were needed; it is a count, not a time.",
        ],
        [
            ChapterTable(
                "consensus",
                "ACR, KCR and TimeRF over K.",
                ("members", *samples.quality_columns, "KCR, %", "TimeRF", "ACR / full"),
                rows,
            )
        ],
        figures=figures,
    )


def consensus(members: int, leading: int) -> Voter:
    """All members with K-consensus; the full vote for K = k."""
    return best(members) if leading == members else Voter(best(members).members, consensus=leading)


def agreement(samples: Samples, voter: Voter) -> Floats:
    """The share of samples that the first K members decide, [N]. It is 0 for the full vote, as in the paper."""
    return np.zeros(len(samples)) if voter.consensus is None else samples.agreed(voter)


def cost(agreed: Floats, members: int, leading: int) -> Floats:
    """The forward passes per sample, relative to the full vote, [N]."""
    return (leading + (members - leading) * (1 - agreed)) / members
