"""How far one image has come, as clients see it."""

from __future__ import annotations

from itertools import accumulate

from smoothcert.bounds import lower_bound, upper_bound
from smoothcert.certification import ImageProgress, Look
from smoothcert.engine.case import Case


def image_progress(under_way: Case) -> ImageProgress:
    """How far one image has come, from the draws that its checkpoint holds."""
    checkpoint, question = under_way.handle.checkpoint, under_way.question
    if checkpoint is None or not checkpoint.draws:
        samples = checkpoint.samples if checkpoint else 0
        return ImageProgress(
            index=under_way.index, stage=0, samples=samples, class_index=None, n=0, count=0, p_interval=None, looks=()
        )
    selection, *draws = checkpoint.draws
    top = selection.index(max(selection[:-1]))
    sizes, counts = [sum(draw) for draw in draws], [draw[top] for draw in draws]
    n, count = sum(sizes) + sum(checkpoint.partial), sum(counts) + checkpoint.partial[top]
    if question.procedure.pooled:
        sizes, counts = list(accumulate(sizes)), list(accumulate(counts))
    return ImageProgress(
        index=under_way.index,
        stage=len(draws) + 1,
        samples=checkpoint.samples,
        class_index=top,
        n=n,
        count=count,
        p_interval=(lower_bound(count, n, question.alpha), upper_bound(count, n, question.alpha)) if n else None,
        looks=tuple(Look(n=size, count=seen) for size, seen in zip(sizes, counts, strict=True)),
    )
