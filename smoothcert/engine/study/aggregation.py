"""Aggregation: how the members' logits become one class."""

from __future__ import annotations

from smoothcert.chapter import Chapter, ChapterTable
from smoothcert.engine.study import paper
from smoothcert.engine.study.samples import Samples
from smoothcert.engine.study.size import paper_cells
from smoothcert.engine.study.voters import Voter, best


def chapter(samples: Samples) -> Chapter:
    everyone = best(samples.members).members
    there = [
        voting for voting in ("soft", "hard", "softmax", "weighted") if Voter(everyone, voting) in samples.ballots[0]
    ]
    theirs = paper.beside(paper.AGGREGATION, samples.about.method, samples.noise)
    rows: list[tuple[object, ...]] = []
    soft = samples.proofs(best(samples.members))
    figures = []
    for voting in there:
        proofs = samples.proofs(Voter(everyone, voting))
        over = samples.bootstrap.ratio(proofs.radii, soft.radii)
        rows.append((voting, *samples.quality(proofs), over))
        figures.append((f"ACR of {voting} / of soft", over))
        if theirs:
            row = theirs[1][voting]
            ratio = round(row.acr / theirs[1]["soft"].acr, 3)
            rows.append((f"the paper, 10 ResNet110, {theirs[0]}, {voting}", *paper_cells(row, samples), ratio))
    missing = [] if "weighted" in there else ["The members have no weights, so the weighted vote is left out."]
    return Chapter(
        "aggregation",
        "Aggregation",
        [f"The votes of all {samples.members} members by four rules, on the same samples.", *missing],
        [
            ChapterTable(
                "aggregation",
                "ACR and certified accuracy in percent, by voting rule.",
                ("voting", *samples.quality_columns, "ACR / soft"),
                rows,
            )
        ],
        figures=figures,
    )
