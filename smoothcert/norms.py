"""Words for perturbations, by the norm in which a radius is stated."""

from __future__ import annotations

from smoothcert.figures import radius_text

WORDS = {
    "l2": "of Euclidean length below {}",
    "l1": "whose absolute changes add up to less than {}",
    "l0": "that changes at most {} values",
    "linf": "that changes no value by {} or more",
}


def perturbation(norm: str, radius: float) -> str:
    """The perturbations that a radius covers, for example "perturbation of Euclidean length below 0.25"."""
    words = WORDS.get(norm, f"of {norm} norm below {{}}")
    text = f"perturbation {words.format(radius_text(radius))}"
    return text.replace("at most 1 values", "at most 1 value")
