"""A pretrained classifier: its name, what its repository says about it, and its tensors.

Its architecture is `timm/NAME` or `transformers/CLASS`, whose code is in the installed library. One safetensors file
holds the tensors, with the configuration in its header, so that the file's digest covers both.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from smoothcert.engine.errors import MemberError
from smoothcert.engine.form import fold_batch_norm, placed
from smoothcert.engine.hub import timm_models, transformers_models
from smoothcert.engine.hub.model_folder import ModelFolder
from smoothcert.engine.hub.reference import Reference, is_reference
from smoothcert.engine.hub.stated import Stated
from smoothcert.engine.outputs import logits_of

logger = logging.getLogger(__name__)

LIBRARIES = {library.NAME: library for library in (timm_models, transformers_models)}
"""The modules that know how to read and build the networks of a library, by the library's name."""


class LibraryNetwork(nn.Module):
    """A network of a library, wrapped so that it returns only the logits."""

    def __init__(self, network: nn.Module, library: str) -> None:
        super().__init__()
        self.network = network
        self.library = library
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return logits_of(self.network(x))

    def optimised(self, device: torch.device, dtype: torch.dtype) -> tuple[nn.Module, str]:
        """A copy with folded batch norms if the network can be traced, otherwise a plain copy (see `engine.form`)."""
        try:
            network, kind = fold_batch_norm(self.network), "folded"
        except Exception as error:  # tracing fails in as many ways as there are networks
            logger.info("a network of %s cannot be traced: %s", self.library, error)
            network, kind = copy.deepcopy(self.network), "unfolded"
        return LibraryNetwork(placed(network, device, dtype), self.library), kind

    def library_versions(self) -> dict[str, str]:
        """The version of the library, for certificates."""
        return {self.library: version(self.library)}


@dataclass(frozen=True)
class Pretrained:
    """A classifier of the hub. `source` is its reference, or the name of its folder."""

    library: str
    stated: Stated
    tensors: Mapping[str, Tensor]
    source: str
    stem: str
    """A name for a file of this model, without characters that are special in paths."""
    digests: Mapping[str, str]
    """The sha256 of each file of the repository that was read."""

    @classmethod
    def open(cls, name: str | Path) -> Pretrained:
        """Open the classifier that a reference names (see `Reference`), or the one in a folder in the hub's layout."""
        text = str(name)
        if isinstance(name, str) and is_reference(text):
            reference = Reference.parse(text)
            return cls.of(ModelFolder.find(reference), reference.stem)
        return cls.of(ModelFolder(Path(name)), Path(name).resolve().name)

    @classmethod
    def of(cls, snapshot: ModelFolder, stem: str) -> Pretrained:
        config = snapshot.config()
        for name, library in LIBRARIES.items():
            if library.recognises(config):
                stated = library.read(snapshot, config)
                return cls(name, stated, snapshot.tensors(), snapshot.source, stem, dict(snapshot.digests))
        raise MemberError(f"{snapshot.name}: config.json is neither for timm (architecture) nor for transformers "
                          f"(model_type); it has {', '.join(sorted(config)[:10]) or 'nothing'}")  # fmt: skip

    @property
    def architecture(self) -> str:
        return f"{self.library}/{self.stated.name}"

    @property
    def class_names(self) -> tuple[str, ...]:
        classes = self.stated.classes
        return tuple(map(str, range(classes))) if isinstance(classes, int) else classes

    def network(self) -> nn.Module:
        return build(self.architecture, self.stated.config, self.tensors, classes=len(self.class_names))

    def safetensors(self) -> bytes:
        """One file with the tensors, and in its header the configuration and the record of where they came from."""
        import safetensors.torch

        record = {
            "architecture": self.architecture,
            "source": self.source,
            "library": f"{self.library} {version(self.library)}",
            "files": dict(self.digests),
        }
        header = {"config": json.dumps(self.stated.config, sort_keys=True), "record": json.dumps(record)}
        return safetensors.torch.save({name: each.contiguous() for name, each in self.tensors.items()}, header)


def is_of_library(architecture: str) -> bool:
    """Whether an architecture belongs to a library: `timm/NAME` or `transformers/CLASS`."""
    return architecture.partition("/")[0] in LIBRARIES


def build(architecture: str, config: Mapping[str, Any], tensors: Mapping[str, Tensor], *, classes: int) -> nn.Module:
    """The network of a library with these weights; MemberError where they do not fit it."""
    library, _, name = architecture.partition("/")
    return LibraryNetwork(LIBRARIES[library].build(name, config, tensors, classes), library)


def config_of(data: bytes) -> dict[str, Any]:
    """The configuration in the header of a safetensors file; empty where there is none."""
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    try:
        config = json.loads(header.get("__metadata__", {}).get("config", "{}"))
    except (ValueError, RecursionError) as error:
        raise MemberError(f"the configuration in its header is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise MemberError(f"the configuration in its header is of type {type(config).__name__}, not an object")
    return config
