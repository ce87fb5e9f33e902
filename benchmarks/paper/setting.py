"""A setting of an evaluation, a question to a classifier, and its certificates."""

from __future__ import annotations

from dataclasses import dataclass, replace

from smoothcert.certificate import Certificate
from smoothcert.engine.ensemble import Ensemble
from smoothcert.evaluation import Judged
from smoothcert.procedures import Fixed, Optimal
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
        """The name of the row and of its file."""
        radius = "" if self.question.radius is None else f"-r{self.question.radius:g}"
        return f"{self.name}{radius}-{self.voters}"

    @property
    def voters(self) -> str:
        """The members, and the K of their consensus where there is one."""
        return self.members if self.ensemble.consensus is None else f"{self.members}-K{self.ensemble.consensus}"

    @property
    def alone(self) -> bool:
        """Whether one member votes on its own, not the k best."""
        return self.members.startswith("member")

    @property
    def classifier(self) -> tuple[str, str, int | None]:
        """Everything that p_A depends on, except the image and the noise."""
        return self.ensemble.digest, self.ensemble.voting, self.ensemble.consensus


@dataclass(frozen=True)
class Evaluated:
    """A setting and its certificates in the order of the images."""

    setting: Setting
    judged: list[Judged]
    seconds: float
    certify_seconds: float
    """The time of one sample of Certify with the full vote of the same members, measured when the run began."""
    evaluation_seconds: float | None = None
    """The time of one evaluation, if both times above are computed from it, as for settings that share a tape."""

    @property
    def fixed(self) -> bool:
        """Whether the procedure is Certify."""
        return isinstance(self.setting.question.procedure, Fixed)

    def decides(self, radius: float) -> bool:
        """Whether the certificates tell who is certified at this radius: not beyond a target, nor between several."""
        question = self.setting.question
        if isinstance(question.procedure, Optimal) and question.procedure.radii is not None:
            return radius in question.procedure.radii
        return question.radius is None or radius <= question.radius

    @property
    def k(self) -> int:
        """The number of members."""
        return len(self.setting.ensemble.members)

    @property
    def certificates(self) -> list[Certificate]:
        return [each.certificate for each in self.judged]


def alone(ensemble: Ensemble, place: int) -> Ensemble:
    """The ensemble of one member. With a single voter, every rule gives the same vote, so it is called soft."""
    return replace(ensemble, members=(ensemble.members[place],), weights=None, voting="soft")
