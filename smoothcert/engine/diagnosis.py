"""Why a model certifies less than expected.

The most frequent causes are a wrong normalisation and a model that never saw noise. `diagnose` looks for these and a
few others with some hundred forward passes for each image, and says in sentences what it found and what to do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from smoothcert.bounds import lower_bound
from smoothcert.diagnosis import Diagnosis, Finding, certifiable, percent, tried_radii
from smoothcert.engine.batches import as_labels
from smoothcert.engine.ensemble import Ensemble, Member
from smoothcert.engine.normalisation import Normalisation
from smoothcert.engine.outputs import are_probabilities
from smoothcert.engine.presentation import AS_THEY_ARE, Way, usual_ways
from smoothcert.errors import DomainError
from smoothcert.noise import Noise
from smoothcert.procedures.prediction import two_sided_p_value

MOST_IMAGES = 100
"""The images that are used, evenly spaced among those given: with more the answers change little."""
SAMPLES = 200
"""The noise samples of an image in the estimate of what can be certified."""
DRAWS = 4
"""The draws of noise for each image in an accuracy under noise."""
LEVEL = 0.001
"""The error probability of each bound and of each comparison."""
GAIN = 0.05
"""The least gain in accuracy with which another way to present the images is worth a word."""
CLOSE = 0.02
"""The difference in accuracy below which two ways to present the images fit about equally well."""
TOGETHER = 8
"""The images that are run alone and together, to see whether the batch matters."""


def diagnose(
    ensemble: Ensemble,
    images: Tensor,
    labels: Sequence[int],
    *,
    noise: Noise | None = None,
    in_train_mode: bool = False,
    seed: int = 0,
) -> Diagnosis:
    """Findings about an ensemble from labelled images, float32 [N, C, H, W] in [0, 1].

    `noise` is the noise to certify with, that of the ensemble by default. `in_train_mode` says that the models were
    handed over in train mode; they run in eval mode here.
    """
    chosen = noise or ensemble.noise
    if chosen is None:
        raise DomainError(f"noise must be given: the noise that {ensemble.name} was trained for is unknown")
    known = as_labels(labels, images=len(images), classes=ensemble.classes)
    places = torch.linspace(0, len(images) - 1, min(len(images), MOST_IMAGES)).round().long()
    patient = _Patient(ensemble, images.cpu()[places], torch.tensor(known)[places], chosen, seed)
    return Diagnosis((_mode(in_train_mode), *patient.findings()))


@dataclass(frozen=True)
class _Patient:
    ensemble: Ensemble
    images: Tensor
    labels: Tensor
    noise: Noise
    seed: int

    def findings(self) -> Iterator[Finding]:
        right = self._right(AS_THEY_ARE)
        if right is None:  # the network cannot take the images, so there is nothing else to measure
            yield self._input(None)
            return
        yield self._output()
        yield self._batch()
        yield self._clean(_mean(right))
        yield self._input(right)
        yield self._noisy(_mean(right))
        yield self._certifiable()

    # --- what the network returns

    def _output(self) -> Finding:
        logits = self.ensemble.logits(self.images)
        infinite = int((~logits.isfinite()).any(-1).any(0).sum())
        if infinite:
            return Finding(
                "output",
                "not finite",
                f"The logits of {infinite} of {len(self.images)} images are not finite.",
                "Look for an overflow or a division by zero in the model; such samples count for no class.",
            )
        if are_probabilities(logits):
            return Finding(
                "output",
                "probabilities",
                "The model returns probabilities: rows are non-negative and sum to 1.",
                "Return logits, without the softmax; an ensemble with soft voting averages logits.",
            )
        return Finding("output", "logits", f"The model returns logits of {logits.shape[-1]} classes.")

    def _batch(self) -> Finding:
        some = self.images[:TOGETHER]
        together, again = self.ensemble.logits(some), self.ensemble.logits(some)
        alone = torch.cat([self.ensemble.logits(image) for image in some.unsqueeze(1)], dim=1)
        largest = float(together.nan_to_num(0.0, 0.0, 0.0).abs().max())
        repeated, independent = (_distance(together, other) <= 1e-3 * largest for other in (again, alone))
        if not repeated:
            return Finding(
                "batch",
                "random",
                "The model gives the same images other logits a second time.",
                "Remove its randomness: a dropout that ignores eval mode, for example. The noise must be the only "
                "random part of a smoothed classifier.",
            )
        if not independent:
            return Finding(
                "batch",
                "dependent",
                "The model gives an image different logits when other images are beside it.",
                "Let batch norm use its running statistics (track_running_stats=True and eval mode): the class of a "
                "sample must not depend on other samples.",
            )
        return Finding("batch", "independent", "An image has the same logits alone and beside other images.")

    # --- accuracies

    def _clean(self, accuracy: float) -> Finding:
        sentence = f"{percent(accuracy)} of {len(self.images)} images are classified correctly without noise."
        chance = self._chance
        spread = 3 * math.sqrt(chance * (1 - chance) / len(self.images))
        if accuracy > chance + spread:
            return Finding("clean accuracy", accuracy, sentence)
        if accuracy > chance and chance + spread >= 1:
            advice = "These are too few images to tell this from guessing: take more."
            return Finding("clean accuracy", accuracy, sentence, advice)
        advice = (
            "This is no better than guessing. See the finding `input`, and check that the labels number the classes "
            "in the order of the model's outputs."
        )
        return Finding("clean accuracy", accuracy, sentence, advice)

    def _noisy(self, clean: float) -> Finding:
        noises = [self.noise.scaled(0.5), self.noise, self.noise.scaled(2.0)]
        accuracies = {noise.label: self._accuracy_under(noise) for noise in noises if noise is not None}
        listed = ", ".join(f"{percent(accuracy)} under {label}" for label, accuracy in accuracies.items())
        sentence = f"Without noise the accuracy is {percent(clean)}; it is {listed}."
        kept = {label: self._keeps(accuracy, clean) for label, accuracy in accuracies.items()}
        if kept[self.noise.label] or clean <= self._chance:
            return Finding("accuracy under noise", accuracies, sentence)
        weaker = next((label for label, good in kept.items() if good), None)
        instead = f"or certify with {weaker}, which it withstands" if weaker else "or certify with weaker noise"
        advice = (
            f"The model has probably not been trained with this noise. Train it with {self.noise.label} on every "
            f"image (`noise.perturb(images)`), put a denoiser in front of it, {instead}."
        )
        return Finding("accuracy under noise", accuracies, sentence, advice)

    def _keeps(self, accuracy: float, clean: float) -> bool:
        """Whether noise leaves at least half of what the clean accuracy is above guessing."""
        return accuracy - self._chance >= (clean - self._chance) / 2

    def _accuracy_under(self, noise: Noise) -> float:
        generator = torch.Generator().manual_seed(self.seed)
        right = [
            self.ensemble.classify(noise.perturb(self.images, generator)).classes.cpu() == self.labels
            for _ in range(DRAWS)
        ]
        return _mean(torch.stack(right))

    # --- other ways to present the images

    def _input(self, right: Tensor | None) -> Finding:
        """Compare the images as they are with other ranges, channel orders and layouts.

        `right` [N] says which images are classified correctly as they are; None where the network cannot take them.
        """
        own = {member.identity.normalisation for member in self.ensemble.members}
        if len(own) > 1:
            return Finding("input", None, "The members have different normalisations, so no other input was tried.")
        (normalisation,) = own
        ways = [way for way in usual_ways(self.images.shape[1]) if way.normalisation != normalisation or way.rearranged]
        tried = {way: found for way in ways if (found := self._right(way, normalisation)) is not None}
        before = torch.zeros(len(self.images), dtype=torch.bool) if right is None else right
        better = {way: _mean(found) for way, found in tried.items() if _better(found, before)}
        if better:
            return _fitting(better, None if right is None else _mean(right))
        if right is None:
            return Finding(
                "input",
                None,
                f"The model cannot take images [N, C, H, W] of shape {tuple(self.images.shape[1:])}.",
                "Check the number of channels and the size of the images that the model was made for.",
            )
        others = f"none of {len(tried)} other pixel ranges, channel orders and layouts fits clearly better"
        if _mean(right) <= self._chance:
            return Finding("input", [], f"The model does not recognise the images as they are, and {others}.")
        return Finding("input", [], f"The images fit the model as they are: {others}.")

    def _right(self, way: Way, normalisation: Normalisation | None = None) -> Tensor | None:
        """Which images are classified correctly, bool [N]; None where the network cannot take them."""
        try:
            shown = way.present(self.images, normalisation)
            return _reshaped(self.ensemble, shown).classify(shown).classes.cpu() == self.labels
        except Exception:  # a network that was made for other shapes raises whatever it likes
            return None

    # --- what can be certified

    def _certifiable(self) -> Finding:
        generator = torch.Generator().manual_seed(self.seed)
        bounds = [self._lower_bound(image, int(label), generator) for image, label in self._labelled()]
        shares = {
            radius: sum(bound >= self.noise.probability(radius) for bound in bounds) / len(bounds)
            for radius in tried_radii(self.noise)
        }
        largest = self.noise.radius(lower_bound(SAMPLES, SAMPLES, LEVEL))
        return certifiable(shares, self.noise, samples=SAMPLES, largest=max(0.0, largest))

    def _labelled(self) -> Iterator[tuple[Tensor, Tensor]]:
        return zip(self.images, self.labels, strict=True)

    def _lower_bound(self, image: Tensor, label: int, generator: torch.Generator) -> float:
        """A lower bound on the probability of the right class under noise."""
        noisy = self.noise.perturb(image.expand(SAMPLES, *image.shape), generator)
        count = int((self.ensemble.classify(noisy).classes == label).sum())
        return lower_bound(count, SAMPLES, LEVEL)

    @property
    def _chance(self) -> float:
        return 1 / len(self.ensemble.classes)


def _reshaped(ensemble: Ensemble, images: Tensor) -> Ensemble:
    """The ensemble for images of this shape, in its plain form and without a look at whether it can take them."""
    _, *shape = images.shape
    if tuple(shape) == ensemble.input_shape:
        return ensemble
    channels, height, width = shape

    def plain(member: Member) -> Member:
        rows = member.form.shape[0]
        form = replace(member.form, network=member.network, kind="plain", shape=(rows, channels, height, width))
        return replace(member, form=form)

    return replace(ensemble, members=tuple(map(plain, ensemble.members)), input_shape=(channels, height, width))


def _fitting(better: Mapping[Way, float], now: float | None) -> Finding:
    """The ways that fit best, from the accuracy of each that fits clearly better than the images as they are."""
    highest = max(better.values())
    fitting = sorted((way for way in better if highest - better[way] < CLOSE), key=lambda way: -better[way])
    fitting = [way for way in fitting if not way.rearranged] or fitting  # the simplest explanation
    best, *others = fitting
    before = "they cannot be taken as they are" if now is None else f"{percent(now)} as they are now"
    sentence = f"The model fits {best.name} clearly better: {percent(better[best])} are right, and {before}."
    advice = best.advice
    if others:
        listed = "; ".join(f"{way.name}, {percent(better[way])}" for way in others)
        sentence = f"{sentence} About as good: {listed}."
        advice = "Use the one that the model was trained with. " + " Or: ".join(way.advice for way in fitting)
    return Finding("input", [way.name for way in fitting], sentence, advice)


def _better(after: Tensor, before: Tensor) -> bool:
    """Whether more images are right by more than chance: a sign test on those that changed."""
    gained, lost = int((after & ~before).sum()), int((before & ~after).sum())
    if gained <= lost or gained - lost < GAIN * len(after):
        return False
    return two_sided_p_value(gained, gained + lost) <= LEVEL


def _mode(in_train_mode: bool) -> Finding:
    if in_train_mode:
        return Finding(
            "mode",
            "train",
            "The model came in train mode; a copy of it in eval mode was examined.",
            "Call model.eval() before you use the model anywhere else.",
        )
    return Finding("mode", "eval", "The model is in eval mode.")


def _distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).nan_to_num(0.0, 0.0, 0.0).abs().max())


def _mean(right: Tensor) -> float:
    return float(right.float().mean())
