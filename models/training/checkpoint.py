"""Weights in safetensors files with a JSON record in the header: written whole or not at all, never pickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from models.errors import TrainingError

OPTIMISERS: dict[type[torch.optim.Optimizer], dict[str, str]] = {
    torch.optim.SGD: {"momentum": "momentum_buffer"},
    torch.optim.Adam: {"step": "step", "mean": "exp_avg", "square": "exp_avg_sq"},
}
"""What each optimiser keeps for a parameter: its name in a checkpoint, and its name in torch."""


@dataclass(frozen=True)
class TrainingCheckpoint:
    """The state of one run of training after an epoch."""

    path: Path
    run: Mapping[str, Any]
    """Everything that identifies the run; no other run may resume from its checkpoint."""

    def save(self, network: nn.Module, optimiser: torch.optim.Optimizer, *, epoch: int, seconds: float) -> None:
        """Write the network and the state of the optimiser after this many epochs."""
        tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
        for name, parameter in network.named_parameters():
            for stored, key in OPTIMISERS[type(optimiser)].items():
                tensors[f"{stored}.{name}"] = optimiser.state[parameter][key]
        write_safetensors(self.path, tensors, {"run": dict(self.run), "epoch": epoch, "seconds": seconds})

    def resume(self, network: nn.Module, optimiser: torch.optim.Optimizer) -> tuple[int, float]:
        """Restore network and optimiser; return the epochs and seconds spent, (0, 0.0) if there is no file."""
        if not self.path.exists():
            return 0, 0.0
        record, tensors = read_safetensors(self.path)
        if record.get("run") != json.loads(json.dumps(dict(self.run))):
            raise TrainingError(f"{self.path} is the checkpoint of another run: {record.get('run')}")
        weights = {k.removeprefix("network."): t for k, t in tensors.items() if k.startswith("network.")}
        try:
            network.load_state_dict(weights)
        except RuntimeError as error:
            raise TrainingError(f"{self.path} is the checkpoint of another architecture: {error}") from error
        for name, parameter in network.named_parameters():
            for stored, key in OPTIMISERS[type(optimiser)].items():
                value = tensors[f"{stored}.{name}"]
                if value.shape == parameter.shape:  # not the number of steps
                    value = torch.empty_like(parameter).copy_(value)  # in the parameter's layout
                optimiser.state[parameter][key] = value
        return int(record["epoch"]), float(record["seconds"])


def write_safetensors(path: Path, tensors: Mapping[str, Tensor], record: Mapping[str, Any]) -> None:
    """Write the file whole or not at all, with `record` as JSON in its header."""
    partial = path.with_name(path.name + ".partial")
    try:
        save_file(
            {k: t.detach().cpu().contiguous() for k, t in tensors.items()}, partial, {"record": json.dumps(record)}
        )
        partial.replace(path)
    except (OSError, SafetensorError) as error:
        raise TrainingError(f"cannot write {path}: {error}; what was there before is unharmed") from error
    finally:
        partial.unlink(missing_ok=True)


def read_safetensors(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The record in the header, and the tensors."""
    try:
        with safe_open(path, "pt") as file:
            record = json.loads((file.metadata() or {}).get("record", "{}"))
            return record, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, json.JSONDecodeError) as error:
        raise TrainingError(f"{path} is damaged: {error}") from error
