"""Ensembles of differently trained members: each training method alone, and the methods together."""

from __future__ import annotations

from smoothcert.chapter import Chapter, ChapterTable
from smoothcert.engine.study import paper
from smoothcert.engine.study.samples import Samples
from smoothcert.engine.study.size import paper_cells
from smoothcert.engine.study.voters import mixtures

TITLE = "Differently trained members"


def chapter(samples: Samples) -> Chapter:
    found = mixtures(samples.about.methods)
    if not found:
        method = samples.about.method
        detail = f"All members are trained by the method {method}" if method else "The members' training is not known"
        return Chapter("trained", TITLE, [f"{detail}, so there is nothing to compare."])
    proofs = {name: samples.proofs(voter) for name, voter in found.items()}
    strongest = max(
        (each for name, each in proofs.items() if "," not in name), key=lambda each: float(each.radii.mean())
    )
    rows: list[tuple[object, ...]] = []
    figures = []
    for name, each in proofs.items():
        over = samples.bootstrap.ratio(each.radii, strongest.radii)
        rows.append((name, len(found[name].members), *samples.quality(each), over))
        figures.append((f"ACR of {name} / of the best method alone", over))
    best_alone = max(row.acr for name, row in paper.TRAINED.items() if "," not in name)
    for name, row in paper.TRAINED.items():
        label, members = f"the paper, ResNet110, {name}", name.count(",") + 1
        rows.append((label, members, *paper_cells(row, samples), round(row.acr / best_alone, 3)))
    return Chapter(
        "trained",
        TITLE,
        ["Every training method by itself, and all combinations of them; the last column is relative to the best one."],
        [
            ChapterTable(
                "trained",
                "ACR and certified accuracy in percent, by training methods.",
                ("methods", "members", *samples.quality_columns, "ACR / best method"),
                rows,
            )
        ],
        figures=figures,
    )
