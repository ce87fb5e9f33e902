"""What is certified, with which classifier, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from smoothcert.certificate import Certificate
from smoothcert.engine.ensemble import Ensemble
from smoothcert.evaluation import Judged
from smoothcert.question import Question


@dataclass(frozen=True)
class Setting:
    """One row of the table: a procedure by its short name, and the members, as `k3` (the best) or `member2` (alone)."""

    name: str
    members: str
    ensemble: Ensemble
    question: Question

    @property
    def label(self) -> str:
        """Names the row and its file."""
        radius = "" if self.question.radius is None else f"-r{self.question.radius:g}"
        return f"{self.name}{radius}-{self.voters}"

    @property
    def voters(self) -> str:
        """The members, and the K of their consensus where there is one."""
        return self.members if self.ensemble.consensus is None else f"{self.members}-K{self.ensemble.consensus}"

    @property
    def alone(self) -> bool:
        """Whether it is one member on its own, and not the k best."""
        return self.members.startswith("member")

    @property
    def classifier(self) -> tuple[str, str, int | None]:
        """What p_A depends on, beside the image and the noise."""
        return self.ensemble.digest, self.ensemble.voting, self.ensemble.consensus


@dataclass(frozen=True)
class Evaluated:
    """A setting and its certificates in the order of the images."""

    setting: Setting
    judged: list[Judged]
    seconds: float
    certify_seconds: float
    """What a sample of Certify with the full vote of the same members took when the run began."""
    evaluation_seconds: float | None = None
    """What one evaluation took, where both times are computed from it: settings that share a tape have no own time."""

    @property
    def fixed(self) -> bool:
        """Whether it is Certify, which has no target."""
        return self.setting.question.radius is None

    @property
    def k(self) -> int:
        """Members."""
        return len(self.setting.ensemble.members)

    @property
    def certificates(self) -> list[Certificate]:
        """Without the labels."""
        return [each.certificate for each in self.judged]


def alone(ensemble: Ensemble, place: int) -> Ensemble:
    """One member, who has nobody to vote with."""
    return replace(ensemble, members=(ensemble.members[place],), weights=None, voting="soft")
