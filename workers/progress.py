"""How far one image has come, as the service shows it while the image is sampled."""

from __future__ import annotations

from functools import partial
from itertools import accumulate

from smoothcert.certification import ImageProgress, Look
from smoothcert.counts import SampleCounts
from smoothcert.engine.case import Case


def image_progress(case: Case) -> ImageProgress:
    """How far the image has come, from the draws that its checkpoint holds."""
    checkpoint = case.handle.checkpoint
    chooses = case.question.procedure.n0 > 0
    if checkpoint is None or not checkpoint.draws:
        samples, stage = checkpoint.samples if checkpoint else 0, 0 if chooses else 1
        return ImageProgress(
            index=case.index, stage=stage, samples=samples, class_index=None, n=0, count=0, p_interval=None, looks=()
        )
    if chooses:
        selection, *draws = checkpoint.draws
    else:  # no samples choose the class: it is the one that leads now
        selection, draws = sum(checkpoint.draws, start=SampleCounts()), [*checkpoint.draws]
    top = selection.leading or 0
    # one entry for each look taken, and a last one for the samples on their way to the next
    sizes = [*(draw.total for draw in draws), checkpoint.partial.total]
    counts = [*(draw[top] for draw in draws), checkpoint.partial[top]]
    n, count = sum(sizes), sum(counts)
    if case.question.procedure.pooled:
        sizes, counts = list(accumulate(sizes)), list(accumulate(counts))
    looks_at = partial(Look.at, case.question.procedure, alpha=case.question.alpha)
    under_way = looks_at(counts[-1:], sizes[-1:]) if sizes[-1] else ()
    return ImageProgress(
        index=case.index,
        stage=len(draws) + 1,
        samples=checkpoint.samples,
        class_index=top,
        n=n,
        count=count,
        p_interval=under_way[0].p_interval if under_way else None,
        looks=looks_at(counts[:-1], sizes[:-1]),
    )
