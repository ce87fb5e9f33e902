"""Networks by name.

    cifar-resnet20, cifar-resnet110    the networks of the paper for CIFAR-10
    mnist-lenet                        the network of the paper for MNIST
    dncnn-...                          denoisers that go before a classifier (models/dncnn.py)
    torchvision/<name>                 any classifier of torchvision, never with downloaded weights
    <package.module>:<callable>        is called with `classes=...` (a denoiser with `channels=...`), if the operator
                                       allows exactly this path
    timm/<name>                        a classifier of timm, and
    transformers/<class>               one of transformers, whose configuration is in the header of its safetensors file
                                       (smoothcert/engine/hub)
    torchscript, exported, onnx        a file that is a program and brings its own network (models/programs.py)
    remote                             a file that says at which endpoint the network runs (models/remote.py)

Noise is added to pixels in [0, 1], so the normalisation is always the first layer of the network.
"""

from __future__ import annotations

import importlib
import re
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from torch import Tensor, nn

from models.dncnn import DnCNN
from models.errors import ArchitectureError
from models.lenet import MnistLeNet
from models.resnet import CifarResNet
from smoothcert.engine.errors import reason
from smoothcert.engine.head import require_classes
from smoothcert.engine.normalisation import Normalisation, Normalised, normalised
from smoothcert.engine.vision import torchvision
from smoothcert.errors import suggestion
from smoothcert.figures import counted

MOST_NAMED = 3
"""The most tensors that a refusal names: networks have hundreds."""
TORCHVISION = "torchvision/"
"""The prefix of the architectures of torchvision."""
PROGRAMS = ("torchscript", "exported", "onnx")
"""The architectures of files that bring their own network."""
_IMPORT_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def _cifar(blocks: int) -> Callable[[int, Normalisation | None], nn.Module]:
    def build(classes: int, normalisation: Normalisation | None) -> nn.Module:
        if normalisation is None:
            return CifarResNet(blocks, classes)
        return CifarResNet(blocks, classes, normalisation.mean, normalisation.std)

    return build


def _mnist(classes: int, normalisation: Normalisation | None) -> nn.Module:
    if normalisation is None:
        return MnistLeNet(classes)
    return MnistLeNet(classes, normalisation.mean, normalisation.std)


ARCHITECTURES: dict[str, Callable[[int, Normalisation | None], nn.Module]] = {
    "cifar-resnet20": _cifar(3),
    "cifar-resnet110": _cifar(18),
    "mnist-lenet": _mnist,
}

ACCEPTED = f"{', '.join(ARCHITECTURES)}, {TORCHVISION}<name>, timm/<name>, or module:callable for a network of your own"
"""The architectures of weights, as sentences name them."""

DENOISERS: dict[str, Callable[[int], nn.Module]] = {
    "dncnn-17x128": lambda channels: DnCNN(17, 128, channels),
    "dncnn-17x64": lambda channels: DnCNN(17, 64, channels),
    "dncnn-half-8x64": lambda channels: DnCNN(8, 64, channels, shrink=2),
    "dncnn-half-8x48": lambda channels: DnCNN(8, 48, channels, shrink=2),
}
"""Each takes the number of channels of the images."""


def build(
    architecture: str,
    *,
    classes: int,
    normalisation: Normalisation | None = None,
    allowed_imports: frozenset[str] = frozenset(),
) -> nn.Module:
    """The network of this name with random weights, behind its normalisation.

    If no normalisation is given, the networks for CIFAR-10 and MNIST use their own, and the other networks have none.
    """
    if architecture in ARCHITECTURES:
        return ARCHITECTURES[architecture](classes, normalisation)
    if architecture.startswith(TORCHVISION):
        return normalised(_from_torchvision(architecture, classes), normalisation)
    if ":" in architecture:
        return normalised(_imported(architecture, allowed_imports, classes=classes), normalisation)
    denoiser = ", which is a denoiser" if architecture in DENOISERS else ""
    raise ArchitectureError(f"architecture must be one of {ACCEPTED}; got {architecture!r}{denoiser}")


def build_denoiser(architecture: str, *, channels: int, allowed_imports: frozenset[str] = frozenset()) -> nn.Module:
    """The denoiser of this name with random weights; a callable is called with `channels=...`."""
    if architecture in DENOISERS:
        return DENOISERS[architecture](channels)
    if ":" in architecture:
        return _imported(architecture, allowed_imports, channels=channels)
    raise ArchitectureError(
        f"the architecture of a denoiser must be one of {', '.join(DENOISERS)}, module:callable; got {architecture!r}"
    )


def load_weights(network: nn.Module, weights: Mapping[str, Tensor], *, classes: int | None = None) -> None:
    """Load a state dict into a network of `build`; the names and shapes of all tensors must match.

    With `classes`, the number that the network was made for, weights of another number are a ClassCountError. Complex
    weights are refused, because torch would silently drop their imaginary parts.
    """
    inner = network.network if isinstance(network, Normalised) else network
    complex_ones = sorted(name for name, tensor in weights.items() if tensor.is_complex())
    if complex_ones:
        raise ArchitectureError(f"the weights must be real, and these are complex: {', '.join(complex_ones)}")
    if classes is not None:
        require_classes(inner, weights, classes)
    try:
        found = inner.load_state_dict(dict(weights), strict=False)
    except RuntimeError as error:
        raise ArchitectureError(f"the weights do not fit the network: {reason(error)}") from error
    if wrong := [*_named("they lack", found.missing_keys), *_named("they also have", found.unexpected_keys)]:
        raise ArchitectureError(f"the weights do not fit the network: {'; '.join(wrong)}")


def _named(what: str, tensors: Sequence[str]) -> Iterator[str]:
    """A clause about some tensors with their number and the first names, if there are any."""
    if tensors:
        names = ", ".join(tensors[:MOST_NAMED])
        yield f"{what} {counted(len(tensors), 'tensor')} ({names}{', ...' if len(tensors) > MOST_NAMED else ''})"


def _from_torchvision(architecture: str, classes: int) -> nn.Module:
    models = torchvision().models
    name = architecture.removeprefix(TORCHVISION)
    if name not in models.list_models(module=models):  # this module lists classifiers only
        raise ArchitectureError(f"architecture {architecture!r}: torchvision has no classifier {name!r}")
    network: nn.Module = models.get_model(name, weights=None, num_classes=classes)
    return network


def _imported(path: str, allowed: frozenset[str], **size: int) -> nn.Module:
    if not _IMPORT_PATH.fullmatch(path):
        raise ArchitectureError(f"architecture {path!r} is not of the form package.module:callable")
    if path not in allowed:
        accepted = ", ".join(sorted(allowed)) or "none"
        raise ArchitectureError(
            f"architecture {path!r} is not among the imports allowed here, {accepted}; if you trust the code, "
            f"allow it by --allow-import {path} on the command line or by SMOOTHCERT_ALLOWED_IMPORTS={path} for workers"
        )
    try:
        network = _named_by(path)(**size)
    except ModuleNotFoundError as error:
        raise ArchitectureError(
            f"architecture {path!r}: {error}; PYTHONPATH must have the folder of the module, for workers, too"
        ) from error
    except (ArchitectureError, MemoryError):
        raise
    except TypeError as error:
        called = ", ".join(f"{name}={value}" for name, value in size.items())
        raise ArchitectureError(f"architecture {path!r}: {error}; it is called with {called}") from error
    except (ImportError, AttributeError) as error:
        raise ArchitectureError(f"architecture {path!r}: {error}") from error
    except Exception as error:  # it is somebody's own code
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"line {place.lineno} of {Path(place.filename).name}"
        raise ArchitectureError(f"architecture {path!r}: {type(error).__name__}: {error} ({where})") from error
    if not isinstance(network, nn.Module):
        raise ArchitectureError(f"architecture {path!r} returned a {type(network).__name__}, not a torch.nn.Module")
    return network


def _named_by(path: str) -> Callable[..., object]:
    """What `package.module:callable` names; an error about the callable names the nearest that the module defines."""
    module, _, name = path.partition(":")
    found = importlib.import_module(module)
    if not hasattr(found, name):
        own = [each for each, value in vars(found).items() if getattr(value, "__module__", None) == module]
        raise ArchitectureError(f"architecture {path!r}: module {module!r} has no {name!r}{suggestion(name, own)}")
    named: Callable[..., object] = getattr(found, name)
    return named
