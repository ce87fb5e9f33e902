"""docs/paper.md: every table and figure of the paper, our command for it, our result and the verdict.

`python -m benchmarks.paper.paper_map benchmarks/results/study/study.json > docs/paper.md` makes the page from a study.
Results and verdicts are computed from that file; what the paper has and we do not is said in words.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.engine.study import paper
from smoothcert.noise import Gaussian
from smoothcert.procedures import Adaptive
from smoothcert.tables import markdown_table

REPORT = "../benchmarks/results/study"
"""The folder of the study's report, as docs/paper.md links to it."""
CONFIRMED, REFUTED, OPEN, NOT_COMPARABLE = "confirmed", "not confirmed", "open", "not comparable"


class StudyResult:
    """The figures of a `study.json`, by chapter and name."""

    def __init__(self, study: Mapping[str, Any]) -> None:
        self.study = study
        self.figures: dict[str, dict[str, Any]] = {each["name"]: each["figures"] for each in study["chapters"]}

    @property
    def k(self) -> int:
        return int(self.study["members"])

    def value(self, chapter: str, name: str) -> float:
        figure = self.figures[chapter][name]
        return float(figure["value"] if isinstance(figure, dict) else figure)

    def text(self, chapter: str, name: str) -> str:
        figure = self.figures[chapter][name]
        if not isinstance(figure, dict):
            return _number(figure)
        return f"{_number(figure['value'])} ({_number(figure['low'])} to {_number(figure['high'])})"

    def above(self, chapter: str, name: str, threshold: float) -> str:
        """The verdict on the claim that a figure exceeds a threshold: its whole interval decides."""
        figure = self.figures[chapter][name]
        if figure["low"] > threshold:
            return CONFIRMED
        return REFUTED if figure["high"] < threshold else f"{OPEN}: the interval contains {threshold:g}"

    def below(self, chapter: str, name: str, threshold: float) -> str:
        """The verdict on the claim that a figure is below a threshold."""
        verdict = self.above(chapter, name, threshold)
        return {CONFIRMED: REFUTED, REFUTED: CONFIRMED}.get(verdict, verdict)


Judgement = tuple[str, str]
"""Our result, and the verdict."""


@dataclass(frozen=True)
class Claim:
    """A table or figure of the paper."""

    item: str
    claim: str
    chapter: str
    judge: Callable[[StudyResult], Judgement]


def margin(found: StudyResult) -> Judgement:
    ratio, formula = found.text("variance", "variance ratio at k"), found.text("variance", "formula at k")
    error = found.value("variance", "error of the formula, %")
    verdict = CONFIRMED if error < 10 else REFUTED
    return (
        f"k = {found.k}: {ratio} of one member's variance; the formula gives {formula}, off by {error:.1f} %",
        verdict,
    )


def zeta(found: StudyResult) -> Judgement:
    ours = found.value("theory", "zeta_p")
    verdict = CONFIRMED if 0.6 <= ours <= 0.95 else REFUTED
    return (
        f"zeta_p = {found.text('theory', 'zeta_p')}; zeta_c cannot be measured with one ensemble",
        f"zeta_p {verdict} (within .6 and .95); zeta_c {NOT_COMPARABLE}",
    )


def success(found: StudyResult) -> Judgement:
    one, many = (found.text("success", f"p_A of {name}") for name in ("one member", "all members"))
    names = {"the mean under noise": "y_c = mean", "f(x)": "y_c = f(x)"}
    errors = {name: found.value("success", f"mean error of the model, {key}") for name, key in names.items()}
    broken = found.value("success", "cases in which Chebyshev's bound exceeds the samples")
    listed = ", ".join(f"{error:.3f} with y_c = {name}" for name, error in errors.items())
    verdicts = [f"{CONFIRMED if error < 0.05 else REFUTED} with y_c = {name}" for name, error in errors.items()]
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
        found.value("radii", f"{name} in the example, %")
        for name in ("modelled gain of 50 members", "gain of 50 times the samples")
    )
    return (
        f"all images, n = 1,000: {found.k} members multiply the radius by {members}, {found.k} times the samples by "
        f"{samples}, members against samples {found.text('radii', direct)}; the example: {fifty:+.0f} % by 50 modelled "
        f"members, {more:+.0f} % by samples",
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


def sizes(found: StudyResult) -> Judgement:
    over = found.text("size", "ACR of all members / of the best")
    acr = [found.text("size", f"ACR of {name}") for name in ("the first member", "all members")]
    verdict = found.above("size", "ACR of all members / of the best", 1.0)
    return f"ACR {acr[0]} for k = 1, {acr[1]} for k = {found.k}; {over} times that of the best member", verdict


def bars(found: StudyResult) -> Judgement:
    name = next(name for name in found.figures["error-bars"] if not name.endswith("k = 1"))
    one, many = (found.value("error-bars", each) for each in ("standard deviation of the ACR, k = 1", name))
    verdict = CONFIRMED if many < one else REFUTED
    return (
        f"standard deviation of the ACR {one:.4f} for single members, {many:.4f} for {name.rpartition(', ')[2]}",
        f"{verdict}, with subsets that overlap",
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
    verdict = CONFIRMED if found.value("consensus", f"ACR kept, K = {k}") > 0.97 else REFUTED
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
    listed = "; ".join(
        f"r = {radius:g}: SampleRF {found.value('adaptive-consensus', f'SampleRF, r = {radius:g}'):.1f}, "
        f"TimeRF {found.value('adaptive-consensus', f'TimeRF, r = {radius:g}'):.1f}"
        for radius in (0.25, 0.5, 0.75)
    )
    rates = [found.value("adaptive-consensus", f"KCR, r = {radius:g}") for radius in (0.25, 0.75)]
    verdict = CONFIRMED if rates[0] < rates[1] else REFUTED
    return listed, f"{verdict}: KCR is {rates[0]:.0f} % at r = .25 and {rates[1]:.0f} % at r = .75"


def components(found: StudyResult) -> Judgement:
    clean, mean = (found.value("assumptions", f"distance of y_p from a Gaussian, y_c = {c}") for c in ("f(x)", "mean"))
    effect = found.text("assumptions", "mean effect of the noise / sigma_p")
    verdict = CONFIRMED if mean < 0.1 else REFUTED
    zero = CONFIRMED if found.value("assumptions", "mean effect of the noise / sigma_p") < 0.25 else REFUTED
    return (
        f"distance from a Gaussian {mean:.3f} with y_c = the mean under noise, {clean:.3f} with y_c = f(x); mean "
        f"effect of the noise {effect} sigma_p",
        f"Gaussian: {verdict}; mean zero for y_c = f(x): {zero}",
    )


def independence(found: StudyResult) -> Judgement:
    one, means = (found.text("assumptions", f"relative size of Cov(y_c, y_p){end}") for end in ("", ", means"))
    verdict = CONFIRMED if found.value("assumptions", "relative size of Cov(y_c, y_p), means") < 0.1 else REFUTED
    return f"relative to the diagonal blocks {one} for single images, {means} for the means over images", verdict


def between(found: StudyResult) -> Judgement:
    one, means = (found.text("assumptions", f"relative error of zeta_p Sigma_p{end}") for end in ("", ", means"))
    verdict = CONFIRMED if found.value("assumptions", "relative error of zeta_p Sigma_p, means") < 0.1 else REFUTED
    return f"relative error {one} for single images, {means} for the means over images", verdict


def levels(found: StudyResult) -> Judgement:
    ends = [found.value("levels", f"p_A {end} which the first stage goes on") for end in ("from", "up to")]
    return f"exact: 100 samples leave only p_A from {ends[0]:.3f} to {ends[1]:.3f} mostly undecided", CONFIRMED


def without(reason: str) -> Callable[[StudyResult], Judgement]:
    return lambda _: ("", f"{NOT_COMPARABLE}: {reason}")


NO_IMAGENET = without("there is no ImageNet ensemble here")
ENTRIES = (
    Claim("Figure 2a: margin by k", "the variance of the margin falls as (1 + zeta (k - 1)) / k", "variance", margin),
    Claim("Section 5: zeta", "zeta_c is about 0, zeta_p about .82", "theory", zeta),
    Claim("Figure 2b: success probability", "p_A grows with k, and the Gaussian model predicts it", "success", success),
    Claim("Figure 2c: radius by k", "members add more than samples: +191 % against +28 %", "radii", members_or_samples),
    Claim("Figure 3: radius over n", "samples matter at p_A near 1 alone", "radii", exact_radii),
    Claim("Figure 4: example of CertifyAdp", "its thresholds", "", thresholds),
    Claim(
        "Figures of clean predictions and perturbation effects",
        "y_c and y_p are Gaussian, y_p has mean zero",
        "assumptions",
        components,
    ),
    Claim("Figure of Cov(y_c, y_p)", "it is near zero", "assumptions", independence),
    Claim("Figure of the covariance between classifiers", "it is zeta Sigma", "assumptions", between),
    Claim(
        "Tables of ensemble sizes; certified accuracy over k and r, sigma = .25",
        "ensembles beat their members",
        "size",
        sizes,
    ),
    Claim("Table and figure of the variability of results", "ensembles vary less than members", "error-bars", bars),
    Claim(
        "Table of aggregation methods", "soft voting is as good as any, hard voting worse", "aggregation", aggregation
    ),
    Claim("Tables of K-consensus", "a small K keeps the ACR", "consensus", consensus),
    Claim(
        "Table and figure of an equal number of inferences",
        "members beat samples at equal cost",
        "inferences",
        inferences,
    ),
    Claim("Tables of schedules", "five stages are fastest, at both radii", "adaptive", schedules),
    Claim(
        "Tables of adaptive sampling with K-consensus, sigma = .25",
        "the two complement each other",
        "adaptive-consensus",
        staged_consensus,
    ),
    Claim("Figure of alpha and beta", "100 samples decide most p_A", "levels", levels),
    Claim(
        "Table of differently trained members",
        "their ensemble beats each of them",
        "trained",
        without("all members here are trained by one method"),
    ),
    Claim(
        "Tables for sigma = .5 and 1", "as at .25", "size", without("the shipped ensemble is trained for sigma = .25")
    ),
    Claim("Tables for ImageNet", "as on CIFAR-10", "", NO_IMAGENET),
    Claim(
        "Table of denoisers",
        "ensembles of denoisers beat each of them",
        "",
        without("this page is about one ensemble; the card of cifar10-resnet20-denoised-0.25 has the rows"),
    ),
    Claim(
        "Table for l0 on MNIST",
        "as in l2",
        "size",
        without("this page is about one ensemble; a study of mnist-lenet-replacement-0.8 has the rows"),
    ),
    Claim(
        "Table for l1 on CIFAR-10",
        "as in l2",
        "size",
        without("this page is about one ensemble; a study of cifar10-resnet20-uniform-1 has the rows"),
    ),
    Claim("Tables of parameters and training times", "", "", without("they describe the authors' networks and GPUs")),
)


NOTES = """
Two things in the paper's tables that a reader stumbles over:

- The table of schedules has its headings ASA and ASC exchanged. What stands under ASA adds up to the certified accuracy
  and the images that are certified for a wrong class, so it is the share that is certified.
- zeta_c of one ensemble is not a measurement. About the mean of the same k members, the ratio of inter- to
  intra-classifier covariance is -1/(k - 1) on average, whatever zeta_c is: a part of the training's effect that all
  members share cannot be told from another c.

How the verdicts are reached: a claim about a ratio is judged by its whole interval. The other thresholds are ours,
not the paper's: 10 % for the errors of the formula and of covariances and for the distance from a Gaussian, .05 for
modelled probabilities, a quarter of sigma_p for a mean of zero, 97 % of the ACR for K-consensus. Three rules were
settled after a first look at these results. Covariances are judged by their means over images, as the paper shows
them: by single images the covariance between classifiers would be *not confirmed*. Equal inferences are judged within
reach of the fewer samples, as the paper's text has it: by the ACR alone they would be *not confirmed*. Members
against samples (Figure 2c) are judged over all images instead of the example, which would be *confirmed*.

This page is made by `python -m benchmarks.paper.paper_map benchmarks/results/study/study.json`.
"""


def page(study: Mapping[str, Any]) -> str:
    """The text of docs/paper.md."""
    found = StudyResult(study)
    rows = []
    for entry in ENTRIES:
        result, verdict = entry.judge(found)
        place = f"[{entry.chapter}]({REPORT}/report.md#{_anchor(study, entry.chapter)})" if entry.chapter else ""
        rows.append((entry.item, entry.claim, place, result, verdict))
    heading = f"""# The paper, table by table

"Boosting Randomized Smoothing with Variance Reduced Classifiers" (Horváth, Müller, Fischer, Vechev; ICLR 2022) has
theory, tables and figures. One command computes them for any ensemble, from one pass over its samples:
`python -m models study`, or `Smoothed.study` for models in memory. This page compares the shipped ensemble with the
paper.

- **Ours:** `{study["command"]}`: {study["members"]} ResNet20 trained for 16 epochs, {study["images"]} images of
  {study["data"]}, {study["samples"]:,} samples each. [The report]({REPORT}/report.md) has every table and picture, and
  the paper's rows beside ours.
- **The paper:** up to 50 ResNet20 or 10 ResNet110 trained for 150 epochs, 500 images, n = 100,000.
- Numbers in brackets are 95 % intervals over the images. *Open* means that the interval does not decide.

"""
    table = markdown_table(("the paper", "its claim", "chapter", f"ours, k = {found.k}", "verdict"), rows)
    return heading + "\n".join(table) + "\n" + NOTES


def _anchor(study: Mapping[str, Any], chapter: str) -> str:
    title = next(each["title"] for each in study["chapters"] if each["name"] == chapter)
    return "".join(c for c in str(title).lower() if c.isalnum() or c in "- _").replace(" ", "-")


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


if __name__ == "__main__":
    sys.stdout.write(page(json.loads(Path(sys.argv[1]).read_text())))
