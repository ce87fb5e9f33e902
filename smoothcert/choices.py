"""The noises and procedures that a request can choose, as a form needs them: what each says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from math import prod
from typing import Any, NamedTuple

from smoothcert.certification import Wire
from smoothcert.errors import DomainError
from smoothcert.noise import NOISES, Noise
from smoothcert.procedures import PROCEDURES, Parameters


class NoiseCard(Wire):
    """A noise that a request can name, as a form needs it."""

    name: str
    norm: str
    """The norm in which its radii are stated."""
    eight_bit: bool
    """Whether its claims are about 8-bit images alone."""
    proviso: str = ""
    """What its claims take for granted about the arithmetic, in words; empty where that is nothing."""
    whole: bool = False
    """Whether its radii are whole numbers."""
    exhaustive: bool = False
    """Whether all of its outcomes can be evaluated, which is what the procedures do that are `exhaustive`."""
    parameters: tuple[str, ...]
    """The names of its parameters, which are numbers."""


class NoiseList(Wire):
    data: tuple[NoiseCard, ...]

    @classmethod
    def known(cls) -> NoiseList:
        """Every noise that this process knows."""
        return cls(
            data=tuple(
                NoiseCard(
                    name=name,
                    norm=kind.norm,
                    eight_bit=kind.eight_bit,
                    proviso=kind.proviso,
                    whole=kind.whole,
                    exhaustive=kind.exhaustible,
                    parameters=_parameters(kind),
                )
                for name, kind in zip(NOISES.names, NOISES, strict=True)
            )
        )


def _parameters(kind: type[Noise]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.name not in {"name", "norm"})  # type: ignore[arg-type]


def suited(trained: Noise | None, shape: Sequence[int]) -> tuple[Noise, ...]:
    """The noises that suit an ensemble for images of this shape, the one that it was trained for in front.

    The parameters of each follow from those of the noise of the training and from the number of values of an image.
    """
    if trained is None:
        return ()
    known = {**trained.parameters(), "dimension": prod(shape)}
    found = [trained]
    for kind in NOISES:
        names = _parameters(kind)
        if known.keys() >= set(names):
            with suppress(DomainError):  # its domain may be smaller than that of the noise of the training
                noise = kind(**{name: known[name] for name in names})
                noise.require_images(tuple(shape))
                found += [noise] if noise != trained and noise.suits(trained) else []
    return tuple(found)


class Allowed(NamedTuple):
    """What a service allows a certification to draw."""

    samples: int
    sequential: int
    """The most samples for which boundaries are computed."""

    def of(self, procedure: Parameters, images: int = 1) -> int:
        """The most samples that the last look of each image may have."""
        others = procedure.n0 + procedure.most_samples - procedure.last_look
        quick = self.sequential if procedure.boundary_samples else procedure.limit
        return max(0, min(self.samples // max(1, images) - others, quick, procedure.limit))


class BudgetInput(Wire):
    """The input of a form for the field that says how many samples may be drawn."""

    field: str
    label: str
    help: str
    """What the field means, in a sentence."""
    default: str
    """The default as text; the numbers of a list have spaces between them."""
    several: bool
    """Whether the field is a list of numbers."""
    most: int | None = None
    """The most samples that the service accepts for it, for one image; null where it does not say."""

    @classmethod
    def of(cls, kind: type[Parameters], allowed: Allowed | None = None) -> BudgetInput:
        field = kind.model_fields[kind.budget]
        default = field.get_default(call_default_factory=True)
        several = isinstance(default, tuple | list)
        return cls(
            field=kind.budget,
            label=kind.budget_label,
            help=field.description or "",
            default=" ".join(map(str, default)) if several else str(default),
            several=several,
            most=allowed and allowed.of(_plain(kind)),
        )


class ProcedureVariant(Wire):
    """One choice of a form, with the parameters that it sets."""

    label: str
    parameters: dict[str, Any]
    abandoning: str | None
    """What abandoning a run promises or means, as a sentence; null where a run is never abandoned."""


class ProcedureCard(Wire):
    """A procedure that a request can name, as a form needs it."""

    name: str
    title: str
    summary: str
    """What it does, in one sentence."""
    targeted: bool
    """Whether it is asked to prove a given radius, with beta; otherwise it proves the largest that it can."""
    pooled: bool
    """Whether a look counts all samples so far by default; otherwise it counts those of its own stage."""
    exhaustive: bool = False
    """Whether it evaluates all outcomes of a noise; it goes with the noises that are `exhaustive`."""
    predicts: bool = False
    """Whether it finds the class at the image itself and proves no radius."""
    hierarchical: bool = False
    """Whether it goes only with ensembles that declare superclasses."""
    budget: BudgetInput | None
    """Null where the noise decides how many samples there are."""
    variants: tuple[ProcedureVariant, ...]

    @classmethod
    def of(cls, name: str, kind: type[Parameters], allowed: Allowed | None = None) -> ProcedureCard:
        """What this kind says of itself; its variants set all fields that have no default."""
        plain = _plain(kind)
        choices = [(dict(each), kind(**each)) for each in kind.variants]
        return cls(
            name=name,
            title=kind.title or name.capitalize(),
            summary=kind.summary or (kind.__doc__ or "").partition("\n")[0],
            targeted=plain.targeted,
            pooled=plain.pooled,
            exhaustive=kind.exhaustive,
            predicts=kind.predicts,
            hierarchical=kind.hierarchical,
            budget=BudgetInput.of(kind, allowed) if kind.budget else None,
            variants=tuple(
                ProcedureVariant(label=chosen.label, parameters=parameters, abandoning=chosen.abandoning)
                for parameters, chosen in choices
            ),
        )


class ProcedureList(Wire):
    data: tuple[ProcedureCard, ...]

    @classmethod
    def known(cls, allowed: Allowed | None = None) -> ProcedureList:
        """Every procedure that this process knows and a form can ask for, those to be offered first in front."""
        offered = [(name, kind) for name, kind in zip(PROCEDURES.names, PROCEDURES, strict=True) if _is_complete(kind)]
        offered.sort(key=lambda each: (not each[1].recommended, not _plain(each[1]).targeted))
        return cls(data=tuple(ProcedureCard.of(name, kind, allowed) for name, kind in offered))


def _plain(kind: type[Parameters]) -> Parameters:
    """A procedure as its first variant has it."""
    return kind.model_validate(kind.variants[0])


def _is_complete(kind: type[Parameters]) -> bool:
    """Whether every variant of a kind sets the fields that have no default."""
    required = {name for name, field in kind.model_fields.items() if field.is_required()}
    return all(required <= variant.keys() for variant in kind.variants)
