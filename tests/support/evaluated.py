"""Certificates with a given share of the samples, as an evaluation has them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.paper.setting import Evaluated, Setting
from models.description import Description, MemberFile
from smoothcert.certificate import Certificate
from smoothcert.evaluation import Judged
from smoothcert.noise import Gaussian, Noise, Replacement
from smoothcert.procedures import AnyProcedure, Fixed, run
from smoothcert.question import Question
from tests.support import engines

NOISE = Gaussian(0.25)
FIVE = replace(engines.ensemble(5), noise=NOISE)
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def judged(p: float, procedure: AnyProcedure, radius: float | None, noise: Noise = NOISE) -> Judged:
    """An image of class 0 with exactly this share of the samples, of four classes."""

    def sample(n: int) -> list[int]:
        return [round(p * n), n - round(p * n), 0, 0, 0]

    verdict = run(procedure.start(noise, radius, alpha=0.001, beta=0.001), sample)
    fields = {"noise": noise, "procedure": procedure, "alpha": 0.001, "beta": 0.001, "target_radius": radius}
    return Judged(Certificate.of(verdict, **fields), label=0)


def evaluated(
    *shares: float, members: str = "k5", procedure: AnyProcedure | None = None, radius: float | None = None
) -> Evaluated:
    procedure = procedure or Fixed(n=10_000)
    size = int(members.removeprefix("k")) if members.startswith("k") else 1
    place = int(members.removeprefix("member")) - 1 if size == 1 and not members.startswith("k") else 0
    chosen = replace(FIVE, members=FIVE.members[place : place + size])
    setting = Setting(procedure.name, members, chosen, Question(NOISE, procedure, radius))
    return Evaluated(setting, [judged(p, procedure, radius) for p in shares], seconds=2.0, certify_seconds=0.001)


def in_l0(members: str, *shares: float) -> Evaluated:
    """Certificates of ten digits by the k best members or one member of a network for replacement noise."""
    noise = Replacement(0.8, 2)
    plain = evaluated(*shares, members=members, procedure=Fixed(n=100_000))
    setting = replace(plain.setting, question=replace(plain.setting.question, noise=noise))
    setting = replace(setting, ensemble=replace(setting.ensemble, noise=noise))
    return replace(plain, setting=setting, judged=[judged(p, Fixed(n=100_000), None, noise=noise) for p in shares])


def members_of(k: int) -> tuple[MemberFile, ...]:
    return tuple(MemberFile(f"{i}.safetensors", f"{i:064}", 1) for i in range(k))


def described(*records: dict[str, Any]) -> Description:
    members = tuple(MemberFile(f"{i}.safetensors", f"{i:064}", 1, training=record) for i, record in enumerate(records))
    return Description("cifar-resnet20", CIFAR10, (3, 32, 32), NOISE, members, method="gaussian")
