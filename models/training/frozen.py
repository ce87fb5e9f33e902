"""A trained classifier whose weights stay as they are while a denoiser is trained in front of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from models.addition import converted, training_record
from models.architectures import PROGRAMS
from models.confinement import Suspect, try_out
from models.errors import TrainingError
from models.registry import blaming, read_network
from smoothcert.engine.denoised import check_classifier
from smoothcert.engine.form import optimised


@dataclass(frozen=True)
class FrozenClassifier:
    """A network in eval mode that passes gradients to its input alone; `digest` is the sha256 of its file."""

    network: nn.Module
    architecture: str
    digest: str

    @classmethod
    def read(cls, path: Path, *, classes: int, input_shape: tuple[int, int, int], device: str) -> FrozenClassifier:
        """The classifier in this file; an error names the file and says why it cannot classify these images."""
        with blaming(path):
            kind, data = converted(path)
            architecture = kind if kind in PROGRAMS else str(training_record(data).get("architecture", ""))
            if not architecture:
                raise TrainingError(
                    "it has no training record that names its architecture: give the file of a member that "
                    "`models train` made, a TorchScript file or an exported program"
                )
            if architecture == "onnx":
                raise TrainingError("onnxruntime computes no gradients: give the classifier in a form of torch")
            if architecture in PROGRAMS:
                (refusal,) = try_out([Suspect(architecture, data, input_shape)])
                if refusal is not None:
                    raise refusal
            network = read_network(architecture, data, classes=classes)
            check_classifier(network, torch.zeros(2, *input_shape), classes=classes, name=architecture)
            network.eval().to(device)
            if (
                architecture not in PROGRAMS
            ):  # the form of certification, without batch norm, is the faster one here too
                network, _ = optimised(network, torch.device(device), torch.float32)
            for parameter in network.parameters():
                parameter.requires_grad_(False)
            return cls(network, architecture, hashlib.sha256(data).hexdigest())
