"""Models that are given by name: a model of the hub, a folder in the hub's layout, or an ONNX file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import nn

from smoothcert.engine.errors import MemberError
from smoothcert.engine.hub.pretrained import Pretrained
from smoothcert.engine.hub.reference import is_reference
from smoothcert.engine.normalisation import Normalisation


@dataclass(frozen=True)
class Named:
    """A network, and what is known of it beside its weights; None where nothing is."""

    network: nn.Module
    normalisation: Normalisation | None = None
    classes: tuple[str, ...] | None = None

    @classmethod
    def open(cls, name: str | Path) -> Named:
        """The model of this name; MemberError where there is none."""
        if is_reference(str(name)) or Path(name).is_dir():
            found = Pretrained.open(name)
            names = None if isinstance(found.stated.classes, int) else found.stated.classes
            return cls(found.network(), found.stated.normalisation, names)
        if Path(name).suffix == ".onnx":
            from smoothcert.engine.onnx.network import OnnxNetwork  # needs an extra

            return cls(OnnxNetwork.read(Path(name)))
        raise MemberError(
            f"there is no model {str(name)!r}; a model must be a torch.nn.Module, hf://ORGANISATION/NAME@REVISION, "
            f"timm/NAME@REVISION, a folder in the layout of the hub, or an .onnx file"
        )
