"""What small certifications under several noises say about a served ensemble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from smoothcert.diagnosis import Diagnosis, Finding, certifiable, percent, tried_radii
from smoothcert.evaluation import Judged, certified_accuracy
from smoothcert.noise import Noise

USEFUL = 0.5
"""The accuracy under noise below which hardly any image can be certified: that takes a probability above one half."""
NEARLY_ALL = 0.95
"""The share of images with the same answer at which an ensemble counts as constant."""
EXAMINE_THE_MODEL = (
    "Examine the model where it is: `python -m models diagnose` for an ensemble in a zoo, `Smoothed.diagnose` for a "
    "model in Python."
)


@dataclass(frozen=True)
class UnderNoise:
    """The certificates of all images under one noise, each judged by its label."""

    noise: Noise
    judged: Sequence[Judged]

    @property
    def accuracy(self) -> float:
        """The share of all noisy samples that are classified as the label says.

        A certificate of many classes does not name the rare ones, so a label that hardly occurs counts as never seen.
        """
        drawn = [(each.certificate.counts, each.label) for each in self.judged]
        return sum(counts[label] for counts, label in drawn if label is not None) / sum(
            counts.total for counts, _ in drawn
        )


def diagnose_served(
    stated: UnderNoise, others: Sequence[UnderNoise], *, classes: Sequence[str], samples: int
) -> Diagnosis:
    """The diagnosis from certifications of `samples` samples under the stated noise, and under weaker and stronger."""
    return Diagnosis(
        (
            _accuracy(stated, others),
            _certifiable(stated, samples),
            _answers(stated, classes),
            Finding(
                "model",
                None,
                "The service cannot examine clean accuracy, normalisation, channel order and eval mode: "
                "`python -m models diagnose` and `Smoothed.diagnose` can, where the model is.",
            ),
        )
    )


def _accuracy(stated: UnderNoise, others: Sequence[UnderNoise]) -> Finding:
    accuracies = {each.noise.label: each.accuracy for each in (stated, *others)}
    listed = ", ".join(f"{percent(accuracy)} under {label}" for label, accuracy in accuracies.items())
    sentence = f"Of all noisy samples, these are classified correctly: {listed}."
    return Finding("accuracy under noise", accuracies, sentence, _accuracy_advice(stated, others))


def _accuracy_advice(stated: UnderNoise, others: Sequence[UnderNoise]) -> str | None:
    if stated.accuracy >= USEFUL:
        return None
    best = max(others, key=lambda each: each.accuracy, default=stated)
    if best.accuracy >= USEFUL:
        return (
            f"The ensemble has probably not been trained with {stated.noise.label}. Train it with that noise, or "
            f"certify with {best.noise.label}, which it withstands."
        )
    return (
        "Hardly anything can be certified under any of these noises. Check that the labels number the classes in the "
        f"order of the ensemble's, and that it was trained with noise. {EXAMINE_THE_MODEL}"
    )


def _certifiable(stated: UnderNoise, samples: int) -> Finding:
    shares = {radius: certified_accuracy(stated.judged, radius) / 100 for radius in tried_radii(stated.noise)}
    certificate = stated.judged[0].certificate
    largest = certificate.procedure.largest_radius(stated.noise, alpha=certificate.question.alpha)
    evaluated = stated.noise.outcomes or samples
    return certifiable(shares, stated.noise, samples=evaluated, largest=max(0.0, largest))


def _answers(stated: UnderNoise, classes: Sequence[str]) -> Finding:
    """Whether the ensemble gives all images the same class, although their labels differ."""
    answers = Counter(each.certificate.counts.leading or 0 for each in stated.judged)
    ((top, count),) = answers.most_common(1)
    share, labels = count / len(stated.judged), len({each.label for each in stated.judged})
    value = {"class": classes[top], "share": share, "labels": labels}
    sentence = (
        f"{percent(share)} of the images get the class {classes[top]!r}; their labels are of "
        f"{labels} class{'es' if labels > 1 else ''}."
    )
    if share < NEARLY_ALL or labels == 1:
        return Finding("most frequent answer", value, sentence)
    advice = (
        f"An ensemble that answers the same for all images often gets wrongly normalised pixels. {EXAMINE_THE_MODEL}"
    )
    return Finding("most frequent answer", value, sentence, advice)
