"""Words for perturbations, by the norm in which a radius is stated."""

from __future__ import annotations

from smoothcert.figures import levels_text, radius_text
from smoothcert.noise import Noise

WORDS = {
    "l2": "of Euclidean length below {}",
    "l1": "whose absolute changes add up to less than {}",
    "l0": "that changes at most {} values, whatever they become,",
    "linf": "that changes each value by less than {}",
}
MEASURES = {
    "l2": "Euclidean lengths (l2)",
    "l1": "sums of absolute changes (l1)",
    "l0": "numbers of changed values (l0)",
    "linf": "changes of the value that changes most (l-infinity)",
}


def size(norm: str, radius: float, *, closed: bool = False) -> str:
    """The size of the perturbations within a radius, for example "of Euclidean length below 0.25"."""
    words = WORDS.get(norm, f"of {norm} norm below {{}}").format(radius_text(radius))
    if closed:
        words = words.replace("to less than", "to at most")
    return words.replace("at most 1 values, whatever they become", "at most 1 value, whatever it becomes")


def perturbation(noise: Noise, radius: float) -> str:
    """The perturbations that a radius covers, for example "perturbation of Euclidean length below 0.25"."""
    text = f"perturbation {size(noise.norm, radius, closed=noise.closed)}"
    limits = [*(["among 8-bit images"] if noise.eight_bit else []), *([noise.proviso] if noise.proviso else [])]
    return ", ".join([text.rstrip(","), *limits]) + "," if limits else text


def measured(noise: Noise, radius: float) -> str:
    """A radius and what it measures, for example "3 values" or "0.01 (2.55 of 255 levels)"."""
    text = radius_text(radius)
    match noise.norm:
        case "l0":
            return f"{text} value{'s' * (radius != 1)}"
        case "linf":
            return f"{text} ({levels_text(radius)})"
    return text


def measure(noise: Noise) -> str:
    """What the radii of a noise measure, for example "Euclidean lengths (l2)"."""
    return MEASURES.get(noise.norm, f"sizes in the {noise.norm} norm")
