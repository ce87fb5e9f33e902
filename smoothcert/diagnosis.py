"""What a diagnosis of a model or of a served ensemble finds: sentences, each with what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from html import escape
from itertools import accumulate
from typing import Any

from smoothcert.figures import radius_text
from smoothcert.noise import Noise

QUANTILES = (0.6915, 0.8413, 0.9332)
"""The p_A whose radii are tried: for Gaussian noise the radii of 1/2, 1 and 3/2 standard deviations."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `value` is plain JSON; `advice` is None where nothing needs to be done."""

    name: str
    value: Any
    sentence: str
    advice: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    """The findings about a model, in the order in which they should be read."""

    findings: tuple[Finding, ...]

    def __getitem__(self, name: str) -> Finding:
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(f"{name!r} is not one of {', '.join(finding.name for finding in self.findings)}")

    @property
    def healthy(self) -> bool:
        """Whether nothing needs to be done."""
        return not any(finding.advice for finding in self.findings)

    def __str__(self) -> str:
        lines = []
        for finding in self.findings:
            lines.append(f"{finding.name}: {finding.sentence}")
            lines += [f"    What to do: {finding.advice}"] if finding.advice else []
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(finding.name)}</th><td style='text-align:left'>"
            f"{escape(finding.sentence)}{f'<br><b>{escape(finding.advice)}</b>' if finding.advice else ''}</td></tr>"
            for finding in self.findings
        )
        return f"<table>{rows}</table>"

    def as_json(self) -> dict[str, Any]:
        return {"healthy": self.healthy, "findings": [asdict(finding) for finding in self.findings]}


def tried_radii(noise: Noise) -> list[float]:
    """Three radii of two digits; whole ones, from 1 on, for a noise that has no others.

    A noise of very few outcomes may not have three, or any.
    """
    radii = [noise.radius(p_a) for p_a in QUANTILES]
    if noise.whole:
        return [*accumulate(radii, lambda before, radius: max(before + 1, radius), initial=0.0)][1:]
    return sorted({float(f"{radius:.2g}") for radius in radii if radius > 0})


def certifiable(shares: Mapping[float, float], noise: Noise, *, samples: int, largest: float) -> Finding:
    """The share of the images that `samples` samples each certify for the right class, by radius.

    `largest` is the radius that they prove where all of them are right.
    """
    named = {radius_text(radius): share for radius, share in shares.items()}
    listed = ", ".join(f"{percent(share)} at radius {radius}" for radius, share in named.items()) or "nothing"
    if noise.outcomes is None:
        which, others = f"{samples} samples each", "more samples prove more"
    elif samples < noise.outcomes:
        which, others = f"{samples} samples each", f"the procedure exact evaluates all {noise.outcomes} outcomes"
    else:
        which, others = f"All {noise.outcomes} outcomes of the noise", "noise of a larger reach proves more"
    sentence = (
        f"{which} certify {listed}, for the right class. They cannot prove more than radius {largest:.3g}; {others}."
    )
    too_few = bool(shares) and largest < min(shares)  # even a perfect model would certify nothing
    healthy = too_few or any(shares.values())
    advice = None if healthy else "Nothing can be certified: follow the other findings first."
    return Finding("certifiable", named, sentence, advice)


def percent(share: float) -> str:
    return f"{100 * share:.3g} %"
