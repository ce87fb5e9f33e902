"""Words for perturbations, by the norm in which a radius is stated."""

from __future__ import annotations

from smoothcert.figures import radius_text
from smoothcert.noise import Noise

WORDS = {
    "l2": "of Euclidean length below {}",
    "l1": "whose absolute changes add up to less than {}",
    "l0": "that changes at most {} values",
    "linf": "that changes no value by {} or more",
}


def perturbation(noise: Noise, radius: float) -> str:
    """The perturbations that a radius covers, for example "perturbation of Euclidean length below 0.25"."""
    words = WORDS.get(noise.norm, f"of {noise.norm} norm below {{}}")
    text = f"perturbation {words.format(radius_text(radius))}".replace("at most 1 values", "at most 1 value")
    among = ", among 8-bit images," if noise.eight_bit else ""
    return f"{text}{among}{noise.proviso and f', {noise.proviso},'}"
