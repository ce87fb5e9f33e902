"""An ensemble beside the one that it replaces, on common noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.errors import MemberError
from smoothcert.engine.poll import UNDECIDED, Polled


@dataclass(frozen=True)
class Successor(Ensemble):
    """An ensemble that runs beside an older one, and gives no class to the samples that are lost.

    A sample is lost where the older one gives `top_class` and this one does not; without a top class, wherever they
    disagree. Its members, digest and evaluations are those of the new ensemble.
    """

    old: Ensemble | None = None
    top_class: int | None = None

    @classmethod
    def of(cls, new: Ensemble, old: Ensemble, *, top_class: int | None = None) -> Successor:
        if (new.classes, new.input_shape) != (old.classes, old.input_shape):
            raise MemberError(f"{new.name} and {old.name} must have the same classes and take images of the same shape")
        if new.device != old.device:
            raise MemberError(f"{new.name} is on {new.device}, and {old.name} on {old.device}")
        fields = {name: getattr(new, name) for name in Ensemble.__dataclass_fields__}
        return cls(**fields, old=old, top_class=top_class)

    @property
    def predecessor(self) -> Ensemble:
        if self.old is None:
            raise MemberError(f"{self.name} has no older ensemble beside it")
        return self.old

    @property
    def view(self) -> tuple[object, ...]:
        return (*super().view, *self.predecessor.view, self.top_class)

    @torch.inference_mode()
    def ask(self, batch: Tensor, outputs: Tensor | None = None) -> Polled:
        found = super().ask(batch, outputs)
        decided = found.classes != UNDECIDED
        return replace(found, classes=torch.where(decided, self._kept(batch, found.classes), UNDECIDED))

    def _kept(self, batch: Tensor, classes: Tensor) -> Tensor:
        """The classes, and no class where a sample is lost."""
        before = self.predecessor.classify(batch).classes
        lost = before != classes
        if self.top_class is not None:
            lost &= before == self.top_class
        return torch.where(lost, len(self.classes), classes)

    def resized(self, batch: int) -> Successor:
        members = tuple(self._resize(member, batch) for member in self.members)
        return replace(self, members=members, old=self.predecessor.resized(batch))
