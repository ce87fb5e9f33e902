"""docs/paper.md: every table and figure of the paper, our command for it, our result and the verdict.

`python -m benchmarks.paper.paper_map benchmarks/results > docs/paper.md` makes the page from the studies and
evaluations in the folder. Results and verdicts are computed from them; what the paper has and we do not is said in
words.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.paper.findings import (
    CONFIRMED,
    FOLDER,
    NOT_COMPARABLE,
    OPEN,
    REFUTED,
    Findings,
    StudyResult,
    above,
    below,
    shown,
    within,
)
from benchmarks.paper.outcomes import ratio_between
from benchmarks.paper.published import CONSISTENCY, DENOISING, GAUSSIAN, OTHERS, REPLACEMENT, UNIFORM, PaperTable
from smoothcert.engine.study import paper
from smoothcert.errors import DomainError
from smoothcert.estimate import Estimate
from smoothcert.noise import Gaussian
from smoothcert.procedures import Adaptive
from smoothcert.procedures.adaptive import STAGES
from smoothcert.tables import markdown_table

ZETA = (0.6, 0.95)
"""What zeta_p has to lie within."""
SAME = (0.75, 1.25)
"""What the ratio of two speed-ups that are called the same has to lie within."""
Judgement = tuple[str, str]
"""Our result, and the verdict."""


def exactly(value: float) -> Estimate:
    return Estimate(value, value, value)


# --- what one study says about a chapter


def margin(found: StudyResult) -> Judgement:
    ratio, formula = found.text("variance", "variance ratio at k"), found.text("variance", "formula at k")
    error = found.value("variance", "error of the formula, %")
    verdict = CONFIRMED if error < 10 else REFUTED
    return (
        f"k = {found.k}: {ratio} of one member's variance; the formula gives {formula}, off by {error:.1f} %",
        verdict,
    )


def zeta(found: StudyResult) -> Judgement:
    ours = found.figure("theory", "zeta_p")
    return (
        f"zeta_p = {shown(ours)}; zeta_c cannot be measured with one ensemble",
        f"zeta_p {within(ours, *ZETA)} (within .6 and .95); zeta_c {NOT_COMPARABLE}",
    )


def success(found: StudyResult) -> Judgement:
    one, many = (found.text("success", f"p_A of {name}") for name in ("one member", "all members"))
    names = {"the mean under noise": "y_c = mean", "f(x)": "y_c = f(x)"}
    errors = {name: found.figure("success", f"mean error of the model, {key}") for name, key in names.items()}
    broken = found.value("success", "cases in which Chebyshev's bound exceeds the samples")
    listed = ", ".join(f"{shown(error)} with y_c = {name}" for name, error in errors.items())
    verdicts = [f"{below(error, 0.05)} with y_c = {name}" for name, error in errors.items()]
    return (
        f"p_A {one} for one member, {many} for {found.k}; error of the model {listed}; Chebyshev's bound is exceeded "
        f"in {broken:.0f} cases",
        "; ".join(verdicts),
    )


def members_or_samples(found: StudyResult) -> Judgement:
    direct = "radius of k members / of k times the samples"
    members, samples = (
        found.text("radii", f"radius of k {name} / of one") for name in ("members", "times the samples")
    )
    fifty, more = (
        found.text("radii", f"{name} in the example, %")
        for name in ("modelled gain of 50 members", "gain of 50 times the samples")
    )
    return (
        f"all images, n = 1,000: {found.k} members multiply the radius by {members}, {found.k} times the samples by "
        f"{samples}, members against samples {found.text('radii', direct)}; the example: +{fifty} % by 50 modelled "
        f"members, +{more} % by samples",
        found.above("radii", direct, 1.0),
    )


def exact_radii(_: StudyResult) -> Judgement:
    return "the same curves, exact by the binomial; they depend on no network", CONFIRMED


def thresholds(_: StudyResult) -> Judgement:
    found = Adaptive(stages=(1_000, 10_000, 125_000)).boundaries(Gaussian(0.25), 0.25, alpha=0.001, beta=0.0001)
    certify, abandon = found.certify.tolist(), [count + 1 for count in found.abandon.tolist()[:2]]
    same = (certify, abandon) == ([880, 8_538, 105_607], [795, 8_270])
    listed = (
        f"certify from {', '.join(f'{n:,}' for n in certify)}; abstain below {', '.join(f'{n:,}' for n in abandon)}"
    )
    return listed, CONFIRMED if same else REFUTED


def bars(found: StudyResult) -> Judgement:
    figures = found.figures["error-bars"]
    name = next(name for name in figures if not name.endswith("k = 1"))
    one, many = (found.figure("error-bars", each) for each in ("standard deviation of the ACR, k = 1", name))
    ratio = f"{name} / k = 1"
    # Studies of before have no interval for the ratio, and then its value decides.
    share = found.figure("error-bars", ratio) if ratio in figures else exactly(many.value / one.value)
    return (
        f"standard deviation of the ACR {shown(one)} for single members, {shown(many)} for "
        f"{name.rpartition(', ')[2]}: {shown(share)} times as much",
        f"{below(share, 1.0)}, with subsets that overlap",
    )


def aggregation(found: StudyResult) -> Judgement:
    names = [
        name for name in ("hard", "softmax", "weighted") if f"ACR of {name} / of soft" in found.figures["aggregation"]
    ]
    listed = "; ".join(f"{name} {found.text('aggregation', f'ACR of {name} / of soft')}" for name in names)
    verdict = found.below("aggregation", "ACR of hard / of soft", 1.0)
    return f"ACR relative to soft voting: {listed}", f"hard voting is worse: {verdict}"


def consensus(found: StudyResult) -> Judgement:
    k = -(-found.k // 2)
    kept, rate, time = (found.text("consensus", f"{name}, K = {k}") for name in ("ACR kept", "KCR", "TimeRF"))
    verdict = found.above("consensus", f"ACR kept, K = {k}", 0.97)
    return f"K = {k} of {found.k}: {kept} of the ACR, KCR {rate} %, TimeRF {time}", verdict


def inferences(found: StudyResult) -> Judgement:
    names = (
        "ACR of k members / of one",
        "ACR of k n samples / of n",
        "ACR of k members / of k n samples, within reach",
    )
    members, samples, direct = (found.text("inferences", name) for name in names)
    return (
        f"{found.k} members multiply the ACR by {members}, {found.k} times the samples by {samples}; members against "
        f"samples {found.text('inferences', 'ACR of k members / of k n samples')} by the ACR, and {direct} if no "
        f"radius counts beyond what the fewer samples can prove, which is judged",
        found.above("inferences", names[2], 1.0),
    )


def schedules(found: StudyResult) -> Judgement:
    figures = found.figures["adaptive"]
    rows, fastest = [], []
    for radius in (0.25, 0.75):
        mine = {
            name.removeprefix(f"SampleRF, r = {radius:g}, k = {found.k}, "): figure["value"]
            for name, figure in figures.items()
            if name.startswith(f"SampleRF, r = {radius:g}, k = {found.k}, ")
        }
        best = max(mine, key=lambda name: mine[name])
        rows.append(f"r = {radius:g}: SampleRF up to {mine[best]:.1f}, by {best}")
        fastest.append(best)
    theirs = " ".join(f"{n:,}" for n in paper.SCHEDULES[-1])
    verdict = CONFIRMED if set(fastest) == {theirs} else f"{REFUTED}: the paper's best is {theirs} at both"
    return "; ".join(rows), verdict


def staged_consensus(found: StudyResult) -> Judgement:
    names = [name for name in found.figures["adaptive-consensus"] if name.startswith("KCR, ")]
    radii = [name.removeprefix("KCR, ") for name in names]
    listed = "; ".join(
        f"{radius}: SampleRF {found.text('adaptive-consensus', f'SampleRF, {radius}')}, TimeRF "
        f"{found.text('adaptive-consensus', f'TimeRF, {radius}')}"
        for radius in radii
    )
    least, most = (found.figure("adaptive-consensus", names[place]) for place in (0, -1))
    verdict = CONFIRMED if least.high < most.low else REFUTED if least.low > most.high else OPEN
    return listed, f"{verdict}: KCR is {shown(least)} % at {radii[0]} and {shown(most)} % at {radii[-1]}"


def staged_ensembles(found: StudyResult) -> Judgement:
    stages = " ".join(f"{n:,}" for n in STAGES)
    votes = found.figure("adaptive", f"SampleRF, r = 0.25, k = {found.k}, {stages}")
    both = found.figure("adaptive-consensus", "SampleRF, r = 0.25")
    ratio = Estimate(votes.value / both.value, votes.low / both.high, votes.high / both.low)
    result = f"r = 0.25: SampleRF {shown(votes)} with full votes, {shown(both)} with K-consensus"
    return result, within(ratio, *SAME)


def components(found: StudyResult) -> Judgement:
    clean, mean = (found.figure("assumptions", f"distance of y_p from a Gaussian, y_c = {c}") for c in ("f(x)", "mean"))
    effect = found.text("assumptions", "mean effect of the noise / sigma_p")
    zero = found.below("assumptions", "mean effect of the noise / sigma_p", 0.25)
    return (
        f"distance from a Gaussian {shown(mean)} with y_c = the mean under noise, {shown(clean)} with y_c = f(x); mean "
        f"effect of the noise {effect} sigma_p",
        f"Gaussian: {below(mean, 0.1)}; mean zero for y_c = f(x): {zero}",
    )


def independence(found: StudyResult) -> Judgement:
    one, means = (found.text("assumptions", f"relative size of Cov(y_c, y_p){end}") for end in ("", ", means"))
    verdict = found.below("assumptions", "relative size of Cov(y_c, y_p), means", 0.1)
    return f"relative to the diagonal blocks {one} for single images, {means} for the means over images", verdict


def between(found: StudyResult) -> Judgement:
    one, means = (found.text("assumptions", f"relative error of zeta_p Sigma_p{end}") for end in ("", ", means"))
    verdict = found.below("assumptions", "relative error of zeta_p Sigma_p, means", 0.1)
    return f"relative error {one} for single images, {means} for the means over images", verdict


def levels(found: StudyResult) -> Judgement:
    ends = [found.value("levels", f"p_A {end} which the first stage goes on") for end in ("from", "up to")]
    return f"exact: 100 samples leave only p_A from {ends[0]:.3f} to {ends[1]:.3f} mostly undecided", CONFIRMED


# --- what evaluations and further studies say


@dataclass(frozen=True)
class Row:
    """Our answer to a claim: the place where it stands, the result and the verdict."""

    place: str
    result: str
    verdict: str


Judge = Callable[[Findings], Row]


def main_study(findings: Findings) -> StudyResult | None:
    """The study of the Gaussian ensemble at sigma = .25 on the most images."""
    found = [each for each in findings.studies if each.table is GAUSSIAN]
    return max(found, key=lambda each: int(each.study["images"]), default=None)


def studied(chapter: str, judge: Callable[[StudyResult], Judgement]) -> Judge:
    """By the study of the Gaussian ensemble at sigma = .25, whose networks are the paper's smaller ones."""

    def judged(findings: Findings) -> Row:
        found = main_study(findings)
        if found is None:
            return Row("", "", f"{NOT_COMPARABLE}: there is no study of an ensemble with Gaussian training at .25")
        return Row(found.link(chapter) if chapter else "", *judge(found))

    return judged


def sized(table: PaperTable) -> Judge:
    """By the ensemble that a table is about."""

    def judged(findings: Findings) -> Row:
        found = findings.sized(table)
        if found is None:
            kind = f"{table.methods[0]} training ({table.noise.label})"
            return Row("", "", f"{NOT_COMPARABLE}: no ensemble of {kind} has been evaluated or studied")
        result = (
            f"{found.images} images with {found.samples:,} samples: ACR {shown(found.first)} for k = 1, "
            f"{shown(found.all)} for k = {found.members}; {shown(found.ratio)} times that of {found.beaten}"
        )
        return Row(found.source, result, above(found.ratio, 1.0))

    return judged


def trainings(findings: Findings) -> Row:
    ours, plain = findings.evaluation(CONSISTENCY), findings.evaluation(GAUSSIAN)
    if ours is None or plain is None:
        return Row("", "", f"{NOT_COMPARABLE}: there are no evaluations of both")
    try:
        ratio = ratio_between(ours.outcomes, plain.outcomes, "fixed-k1")
    except DomainError as error:
        return Row(ours.link, "", f"{NOT_COMPARABLE}: {error}")
    return Row(ours.link, f"{shown(ratio)} times the ACR of Gaussian training, k = 1", above(ratio, 1.0))


def differently_trained(findings: Findings) -> Row:
    found = next((each for each in findings.studies if each.figures.get("trained")), None)
    if found is None:
        return Row("", "", f"{NOT_COMPARABLE}: no ensemble with members of different training has been studied")
    figures = [name for name in found.figures["trained"] if "," in name]
    name = max(figures, key=lambda each: each.count(","))
    ratio = found.figure("trained", name)
    methods = name.removeprefix("ACR of ").removesuffix(" / of the best method alone")
    return Row(found.link("trained"), f"{methods}: {shown(ratio)} times the best method alone", above(ratio, 1.0))


def staged_elsewhere(findings: Findings) -> Row:
    found = [each for each in findings.studies if each.table in OTHERS]
    if not found:
        return Row("", "", f"{NOT_COMPARABLE}: no ensemble for sigma = .5 or 1 has been studied")
    judged = [staged_consensus(each) for each in found]
    return Row(
        found[0].link("adaptive-consensus"),
        "; ".join(f"{each.study['ensemble']}: {result}" for each, (result, _) in zip(found, judged, strict=True)),
        "; ".join(verdict for _, verdict in judged),
    )


def without(reason: str) -> Judge:
    return lambda _: Row("", "", f"{NOT_COMPARABLE}: {reason}")


@dataclass(frozen=True)
class Claim:
    """A table or figure of the paper."""

    item: str
    claim: str
    judge: Judge


def table_claims() -> Iterator[Claim]:
    """A claim for each table of ensemble sizes."""
    items = {
        "Tables of ensemble sizes, sigma = .25, Gaussian training": GAUSSIAN,
        "Tables of ensemble sizes, sigma = .25, consistency training": CONSISTENCY,
        **{f"Tables for {each.noise.label}, {each.methods[0]} training": each for each in OTHERS},
        "Table of denoisers": DENOISING,
        "Table for l0 on MNIST": REPLACEMENT,
        "Table for l1 on CIFAR-10": UNIFORM,
    }
    for item, table in items.items():
        largest = max(table.rows)
        gain = table.rows[largest].acr / table.rows[1].acr
        yield Claim(item, f"ensembles beat their members: {gain:.3f} times the ACR at k = {largest}", sized(table))


CLAIMS = (
    Claim(
        "Figure 2a: margin by k",
        "the variance of the margin falls as (1 + zeta (k - 1)) / k",
        studied("variance", margin),
    ),
    Claim("Section 5: zeta", "zeta_c is about 0, zeta_p about .82", studied("theory", zeta)),
    Claim(
        "Figure 2b: success probability",
        "p_A grows with k, and the Gaussian model predicts it",
        studied("success", success),
    ),
    Claim(
        "Figure 2c: radius by k",
        "members add more than samples: +191 % against +28 %",
        studied("radii", members_or_samples),
    ),
    Claim("Figure 3: radius over n", "samples matter at p_A near 1 alone", studied("radii", exact_radii)),
    Claim("Figure 4: example of CertifyAdp", "its thresholds", studied("", thresholds)),
    Claim(
        "Figures of clean predictions and perturbation effects",
        "y_c and y_p are Gaussian, y_p has mean zero",
        studied("assumptions", components),
    ),
    Claim("Figure of Cov(y_c, y_p)", "it is near zero", studied("assumptions", independence)),
    Claim("Figure of the covariance between classifiers", "it is zeta Sigma", studied("assumptions", between)),
    *table_claims(),
    Claim(
        "The same tables, by training",
        f"consistency training beats Gaussian training: {CONSISTENCY.rows[1].acr / GAUSSIAN.rows[1].acr:.3f} at k = 1",
        trainings,
    ),
    Claim(
        "Table and figure of the variability of results",
        "ensembles vary less than members",
        studied("error-bars", bars),
    ),
    Claim(
        "Table of aggregation methods",
        "soft voting is as good as any, hard voting worse",
        studied("aggregation", aggregation),
    ),
    Claim("Tables of K-consensus", "a small K keeps the ACR", studied("consensus", consensus)),
    Claim(
        "Table and figure of an equal number of inferences",
        "members beat samples at equal cost",
        studied("inferences", inferences),
    ),
    Claim("Tables of schedules", "five stages are fastest, at both radii", studied("adaptive", schedules)),
    Claim(
        "Table of adaptive sampling for ensembles",
        "at r = .25 as fast with full votes as with K-consensus",
        studied("adaptive", staged_ensembles),
    ),
    Claim(
        "Tables of adaptive sampling with K-consensus, sigma = .25",
        "the two complement each other: KCR grows with the radius",
        studied("adaptive-consensus", staged_consensus),
    ),
    Claim("The same tables, sigma = .5 and 1", "KCR grows with the radius", staged_elsewhere),
    Claim("Figure of alpha and beta", "100 samples decide most p_A", studied("levels", levels)),
    Claim("Table of differently trained members", "their ensemble beats each of them", differently_trained),
    Claim("Tables for ImageNet", "as on CIFAR-10", without("there is no ImageNet ensemble here")),
    Claim("Tables of parameters and training times", "", without("they describe the authors' networks and GPUs")),
)

INTRODUCTION = """# The paper, table by table

"Boosting Randomized Smoothing with Variance Reduced Classifiers" (Horváth, Müller, Fischer, Vechev; ICLR 2022) has
theory, tables and figures. One command computes them for any ensemble, from one pass over its samples:
`python -m models study`, or `Smoothed.study` for models in memory. This page compares the shipped ensembles with the
paper, which has up to 50 ResNet20 or 10 ResNet110 trained for 150 epochs, 500 images and n = 100,000. It rests on
"""
RULES = """
How the verdicts are reached: numbers in brackets are 95 % intervals over the images. A claim that a figure is above or
below a threshold is judged by its whole interval, and is *open* where that contains the threshold; a figure without an
interval is judged by its value. Tables of ensemble sizes are judged by the ratio of the ACR of all members to that of
the best one (of the first one where the others were not certified alone), on the most images that we have; the
threshold is 1. The other thresholds are ours, not the paper's: 10 % for the errors of the formula and of covariances
and for the distance from a Gaussian, .05 for modelled probabilities, a quarter of sigma_p for a mean of zero, 97 % of
the ACR for K-consensus, and a quarter for speed-ups that are called the same. Three rules were settled after a first
look at the results. Covariances are judged by their means over images, as the paper shows them, and not by single
images. Equal inferences are judged within reach of the fewer samples, as the paper's text has it, and not by the ACR
alone. Members against samples (Figure 2c) are judged over all images, and not by the example."""
NOTES = """
Three things in the paper's tables may confuse a reader:

- The tables of schedules and of adaptive sampling for ensembles have their headings ASA and ASC exchanged. The
  figures under ASA add up to the certified accuracy plus the share that is certified for a wrong class, so they are the
  shares that are certified.
- In the table of adaptive sampling with K-consensus for consistency training, the last four rows (sigma = 1) have
  SampleRF and KCR exchanged: the shares of their stages give what stands under KCR.
- zeta_c of one ensemble is not a measurement. About the mean of the same k members, the ratio of inter- to
  intra-classifier covariance is -1/(k - 1) on average, whatever zeta_c is: a part of the training's effect that all
  members share cannot be told from another c.

This page is made by `python -m benchmarks.paper.paper_map benchmarks/results`.
"""


def page(findings: Findings) -> str:
    """The text of docs/paper.md."""
    rows = [(each.item, each.claim, *astuple(each.judge(findings))) for each in CLAIMS]
    table = markdown_table(("the paper", "its claim", "where", "ours", "verdict"), rows)
    return "\n".join([INTRODUCTION, *sources(findings), RULES, *otherwise(findings), "", *table, NOTES])


def otherwise(findings: Findings) -> Iterator[str]:
    """What the verdicts would be without the rules that were settled late."""
    found = main_study(findings)
    if found is not None:
        single = found.below("assumptions", "relative error of zeta_p Sigma_p", 0.1)
        alone = found.above("inferences", "ACR of k members / of k n samples", 1.0)
        names = ("modelled gain of 50 members", "gain of 50 times the samples")
        gains = [found.value("radii", f"{name} in the example, %") for name in names]
        example = CONFIRMED if gains[0] > gains[1] else REFUTED
        yield f"By the other rules, the covariance between classifiers would be *{single}*,"
        yield f"equal inferences *{alone}*, and Figure 2c *{example}*."


def sources(findings: Findings) -> Iterator[str]:
    """A line for each study and each evaluation that some table is about."""
    for found in findings.studies:
        study = found.study
        yield (
            f"- [a study]({FOLDER}/{found.folder}/report.md) of {study['ensemble']}: {study['members']} members, "
            f"{study['images']} images of {study['data']}, {study['samples']:,} samples each, by `{study['command']}`;"
        )
    for each in findings.evaluations:
        if each.table is not None and (size := each.sized()):
            yield f"- the evaluation {each.link} of {each.ensemble}: {size.members} members, {size.images} images;"
    yield "- the exact figures of procedures, which need no samples."


if __name__ == "__main__":
    sys.stdout.write(page(Findings.read(Path(sys.argv[1]))))
