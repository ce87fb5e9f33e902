"""What a diagnosis of a model or of a served ensemble finds: sentences, each with what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from html import escape
from typing import Any


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
