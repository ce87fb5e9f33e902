"""The arithmetic in which a device computes: what a certificate says about it, and how it is kept repeatable."""

from __future__ import annotations

import torch


def settle(device: torch.device) -> None:
    """Make CUDA compute float32 in full and choose kernels that repeat themselves, for the whole process.

    TensorFloat-32 keeps ten bits of a float32 number, and cuDNN's fastest kernels add up in an order that changes from
    run to run. With either, the base classifier would be another function from one batch to the next.
    """
    if device.type == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False


def arithmetic(device: torch.device) -> dict[str, str]:
    """Everything besides the precision on which the last bits of a logit depend, as a certificate states it."""
    found = {"torch": str(torch.__version__)}
    if device.type == "cpu":
        return {**found, "cpu": torch.backends.cpu.get_cpu_capability()}  # the vector instructions
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        shortened = torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32
        return {
            **found,
            "gpu": torch.cuda.get_device_name(device),
            "capability": f"{major}.{minor}",
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
            "tf32": "on" if shortened else "off",
            "deterministic": "on" if torch.backends.cudnn.deterministic else "off",
        }
    return found
