"""The chapters of a report: what was asked, what was proved and how surely, at what cost, and every certificate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smoothcert.card import SHORT, Card
from smoothcert.certificate import Certificate
from smoothcert.chapter import Chapter, ChapterPicture, ChapterTable
from smoothcert.evaluation import Judged, share_on_class
from smoothcert.examination import Examination
from smoothcert.figures import confidence_text, counted, interval_text, radius_text
from smoothcert.norms import measured
from smoothcert.notebook import Picture, consequence, interval, sentence
from smoothcert.verification import verify

if TYPE_CHECKING:
    from smoothcert.report import Report

MOST_OPEN = 200
"""The most certificates whose table is open at first; a longer table opens by a click, and is not printed."""
MOST_PICTURE_BYTES = 2_000_000
"""The most bytes of all images of a page together, as files."""
QUANTILES = (0.1, 0.5, 0.9)
ABOUT = (
    "ACR is the mean over all images of the radius that is certified for the right class. Certified accuracy is the "
    "percentage of all images that are certified for the right class at the radius. SampleRF is the number of samples "
    "that Certify with n = 100,000 would have drawn, divided by the number that was drawn."
)
UNLABELLED = (
    "There are no labels, so every class counts as the right one: the shares say how many images are certified, and "
    "not whether the answer is right."
)
REASONS = {
    "abandoned": "the run was given up before its last sample",
    "exhausted": "the samples do not suffice for a proof",
    "undecided": "the samples do not tell the class",
    "no-class": "no sample had a class: the outputs were not finite",
}


@dataclass(frozen=True)
class Evidence:
    """What a report has besides certificates and labels."""

    examinations: Sequence[tuple[str, Examination]] = ()
    """What was found out about each file, by its name; none for certificates that come from no file."""
    card: Card | None = None
    pictures: Sequence[bytes | None] = ()
    """The images as PNG, JPEG or WebP files, in the order of the certificates; none where they are not given."""
    problems: Sequence[str] | None = None
    """What is wrong with each certificate, empty where nothing is; None if they have not been verified yet."""


NO_EVIDENCE = Evidence()


def chapters(report: Report, *, drawn: bool) -> list[Chapter]:
    """All chapters; `drawn` adds pictures, which need matplotlib."""
    pictures = _pictures(report) if drawn else {}
    return [
        question(report),
        proved(report, pictures),
        meaning(report),
        sureness(report, pictures),
        cost(report, pictures),
        verification(report),
        abstentions(report),
        certificates(report),
    ]


def question(report: Report) -> Chapter:
    return Chapter(
        "asked",
        "What was asked",
        [f"{_first_upper(report.question)}."],
        [
            ChapterTable("ensemble", "The ensemble and the images.", ("", ""), [*_ensemble(report)]),
            *_card(report.evidence.card),
        ],
    )


def _ensemble(report: Report) -> Iterator[tuple[str, object]]:
    certificate = report.first
    yield "images", f"{len(report.judged):,}"
    if (provenance := certificate.provenance) is None:
        return
    ensemble = provenance.ensemble
    yield "shape of the images", " × ".join(map(str, provenance.input.shape))
    yield "ensemble", ensemble.name
    yield "digest of the ensemble", ensemble.digest
    for place, digest in enumerate(ensemble.members, 1):
        yield f"digest of member {place}", digest
    yield "device and precision", f"{provenance.sampling.device}, {provenance.sampling.precision}"
    yield "versions", ", ".join(f"{name} {version}" for name, version in provenance.versions.items())


def _card(card: Card | None) -> Iterator[ChapterTable]:
    if card is None:
        return
    yield ChapterTable("card", "The training card of the ensemble.", ("", ""), card.facts)
    if len(card.columns) > 1:
        yield ChapterTable("training", "How each member was trained.", card.columns, card.rows)


def proved(report: Report, pictures: dict[str, ChapterPicture]) -> Chapter:
    return Chapter(
        "proved",
        "What was proved",
        [report.about, *([] if report.labelled else [UNLABELLED])],
        [
            ChapterTable("figures", "Figures.", ("figure", ""), report.rows),
            ChapterTable(
                "curve",
                "The share at each radius, with its exact 95 % interval for the population.",
                ("radius", report.accuracy_name),
                [(radius_text(radius), estimate) for radius, estimate in report.curve],
            ),
        ],
        _chosen(pictures, "accuracy"),
    )


def meaning(report: Report) -> Chapter:
    """The guarantee in words, with the strongest certificate as its example."""
    best = max((each for each in report.judged if each.right), key=lambda each: each.correct_radius, default=None)
    certificate = report.first
    sentences = [
        "A certificate is about the smoothed classifier: the class that the ensemble gives most often under the noise. "
        "An abstention claims nothing."
    ]
    if best is not None:
        name = report.images[report.judged.index(best)]
        also = consequence(best.certificate)
        sentences.append(f"The strongest one, of image {name}, says: {sentence(best.certificate)} {also or ''}".strip())
    return Chapter("guarantee", "What a certificate means", [*sentences, *_chance(certificate)])


def _chance(certificate: Certificate) -> Iterator[str]:
    if certificate.alpha is None:
        yield "All outcomes of the noise were evaluated, so nothing is left to chance."
    elif shared := certificate.family_wise:
        yield (
            f"The chance that any of the {shared.images:,} certificates of a request is false is at most "
            f"{shared.alpha:g} over the draw of the noise: alpha is shared, and each image has {certificate.alpha:g}."
        )
    else:
        yield (
            f"For each image, the chance of a false certificate is at most alpha = {certificate.alpha:g} over the draw "
            f"of the noise: a certificate holds with {confidence_text(certificate.alpha)} % confidence."
        )
    if certificate.noise.proviso:
        yield f"It takes something for granted: {certificate.noise.proviso}."


def sureness(report: Report, pictures: dict[str, ChapterPicture]) -> Chapter:
    alpha = report.first.alpha
    shares = [p for p in map(share_on_class, report.judged) if p is not None]
    rows = [(f"{100 * q:.0f} %", f"{value:.4f}") for q, value in zip(QUANTILES, _quantiles(shares), strict=True)]
    sentences = [
        "The interval of each share is exact (Clopper and Pearson): if the images were drawn independently from a "
        "population, it contains the share of the population that would be certified so, with at least 95 % confidence "
        "for each radius on its own. The interval of the ACR is by the bootstrap over images, which is approximate: it "
        "is too short for few images, and has no length where all of them have one radius.",
        "The ACR alone misleads: it grows most with images that are certain already. The distribution of p_A, the "
        "share of noisy copies on the chosen class, shows what it is made of.",
    ]
    if alpha is not None:
        truth = "the share for which the claim is true is lower by no more than that"
        sentences.insert(1, f"At most {100 * alpha:g} % of the population is certified falsely: {truth}.")
    tables = [ChapterTable("p_a", "Quantiles of p_A over the images, at the last look.", ("images", "p_A"), rows)]
    return Chapter("sureness", "How sure it is", sentences, tables if shares else [], _chosen(pictures, "p_a"))


def cost(report: Report, pictures: dict[str, ChapterPicture]) -> Chapter:
    found = [each.certificate for each in report.judged]
    samples = [each.samples for each in found]
    low, median, high = _quantiles(samples)
    rows: list[tuple[str, object]] = [
        ("samples", sum(samples)),
        ("samples of an image at 10, 50 and 90 %", f"{low:,.0f}, {median:,.0f}, {high:,.0f}"),
        ("evaluations of a member", sum(each.evaluations or 0 for each in found)),
    ]
    if spans := [(p.started_at, p.finished_at) for each in found if (p := each.provenance) is not None]:
        first, last = min(start for start, _ in spans), max(end for _, end in spans)
        seconds = sum((end - start).total_seconds() for start, end in spans)
        rows += [
            ("first start", f"{first:%Y-%m-%d %H:%M:%S %Z}"),
            ("last end", f"{last:%Y-%m-%d %H:%M:%S %Z}"),
            ("seconds from the first start to the last end", (last - first).total_seconds()),
            ("seconds of an image, while others ran beside it", seconds / len(spans)),
        ]
    table = ChapterTable("cost", "Samples, evaluations and time.", ("", ""), rows)
    return Chapter("cost", "Samples and time", [], [table], _chosen(pictures, "samples"))


def verification(report: Report) -> Chapter:
    """The state of every file and certificate; a certificate that does not follow from its counts is named."""
    wrong = [(report.images[place], problem) for place, problem in enumerate(report.problems) if problem]
    sound = len(report.judged) - len(wrong)
    sentences = [
        f"Everything was recomputed from the counts, and agrees for {sound:,} of {len(report.judged):,} certificates."
        + ("" if not wrong else f" {counted(len(wrong), 'certificate')} do not follow, and count as abstentions."),
    ]
    tables = [ChapterTable("wrong", "Certificates with a problem.", ("image", "problem"), wrong)] if wrong else []
    rows = []
    for file, found in report.evidence.examinations:
        for aspect in ("signed", "unaltered", "follows"):
            conclusion = getattr(found, aspect)
            rows.append(
                (file, aspect, {True: "yes", False: "no", None: "unknown"}[conclusion.holds], conclusion.sentence)
            )
        sentences += [f"{file}: {note}" for note in found.notes]
    if rows:
        tables.append(ChapterTable("files", "The files.", ("file", "question", "answer", ""), rows))
    return Chapter("verification", "Verification", sentences, tables)


def abstentions(report: Report) -> Chapter:
    found = [(place, each) for place, each in enumerate(report.judged) if each.certificate.decision == "abstain"]
    reasons = Counter(each.certificate.stop_reason for _, each in found)
    if not found:
        return Chapter("abstentions", "Abstentions", ["There are none."])
    sentences = [
        f"{counted(count, 'image')}, {reason}: {REASONS.get(reason, 'nothing was proved')}."
        for reason, count in reasons.most_common()
    ]
    if reasons["abandoned"] and (promise := report.first.procedure.abandoning):
        sentences.append(promise)
    rows = [
        (*_named(report, place, each), each.certificate.stop_reason, _leading(each.certificate), *_measured(each))
        for place, each in found
    ]
    columns = ("image", *_given(report), "label", "reason", "leading class", "p_A", "samples", "digest")
    return Chapter(
        "abstentions", "Abstentions", sentences, [ChapterTable("abstentions", "Every abstention.", columns, rows)]
    )


def certificates(report: Report) -> Chapter:
    found = [(place, each) for place, each in enumerate(report.judged) if each.certificate.decision == "certified"]
    rows = [
        (*_named(report, place, each), *_claim(each.certificate), *_measured(each), _verified(report.problems[place]))
        for place, each in found
    ]
    columns = ("image", *_given(report), "label", "class", "radius", "p_A", "samples", "digest", "verified")
    caption = f"Every certificate: {len(found):,}. The digest is the beginning of that in the certificate."
    table = ChapterTable("certificates", caption, columns, rows, folded=len(rows) > MOST_OPEN)
    return Chapter("certificates", "Certificates", _left_out(report), [table] if rows else [])


def _named(report: Report, place: int, each: Judged) -> tuple[object, ...]:
    shown = [Picture(report.pictures[place])] if report.pictures else []
    return report.images[place], *shown, "" if each.label is None else str(each.label)


def _given(report: Report) -> list[str]:
    return [""] if report.pictures else []


def _measured(each: Judged) -> tuple[object, ...]:
    p_a = interval(each.certificate)
    return interval_text(p_a, 4) if p_a else None, each.certificate.samples, each.certificate.digest[:SHORT]


def _claim(certificate: Certificate) -> tuple[str, str]:
    name = certificate.class_name or str(certificate.class_index)
    return name, measured(certificate.noise, certificate.radius)


def _verified(problem: str) -> str:
    return "no" if problem else "yes"


def _leading(certificate: Certificate) -> str:
    leading = certificate.counts.leading
    return "" if leading is None else str(leading)


def _left_out(report: Report) -> list[str]:
    given, shown = len(report.evidence.pictures), sum(each is not None for each in report.pictures)
    if not given or shown == given:
        return []
    return [f"{counted(given - shown, 'image')} of {given:,} are not shown: the page would become too large."]


def within(pictures: Sequence[bytes | None]) -> list[bytes | None]:
    """The images that fit into a page; None in place of the others."""
    kept: list[bytes | None] = []
    size = 0
    for each in pictures:
        size += len(each or b"")
        kept.append(each if size <= MOST_PICTURE_BYTES else None)
    return kept


def problems(judged: Sequence[Judged]) -> list[str]:
    """What is wrong with each certificate, as a sentence that is empty where nothing is."""
    return ["; ".join(map(str, verify(each.certificate).problems)) for each in judged]


def _pictures(report: Report) -> dict[str, ChapterPicture]:
    from smoothcert.plot import COLOURS, blank, draw_accuracy, draw_p_a, draw_samples, tidy

    line: dict[str, Any] = {"color": COLOURS[3], "label": "the images"}
    captions = {
        "accuracy": "The share over the radius, with its 95 % interval for the population.",
        "p_a": "The distribution of p_A over the images.",
        "samples": "The samples per image in descending order.",
    }
    if not report.curved:
        del captions["accuracy"]  # it would be a rectangle
    found = {}
    for name, caption in captions.items():
        figure, ((axes,),) = blank(1, 1, width=5.5, height=3.6)
        match name:
            case "accuracy":
                draw_accuracy(axes, report.judged, report.largest_radius, **line)
            case "p_a":
                draw_p_a(axes, report.judged)
            case "samples":
                draw_samples(axes, report.judged, **line)
        tidy(axes)
        found[name] = ChapterPicture(name, caption, figure)
    return found


def _chosen(pictures: dict[str, ChapterPicture], *names: str) -> list[ChapterPicture]:
    return [pictures[name] for name in names if name in pictures]


def _quantiles(values: Sequence[float]) -> tuple[float, float, float]:
    low, median, high = np.quantile(values, QUANTILES) if len(values) else (float("nan"),) * 3
    return float(low), float(median), float(high)


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
