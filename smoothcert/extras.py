"""Optional dependencies, and the sentence that names the extra of a missing one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from smoothcert.errors import SmoothcertError

INSTALLED_BY = {
    "torch": "torch",
    "httpx2": "client",
    "rich": "cli",
    "typer": "cli",
    "matplotlib": "plot",
    "openvino": "openvino",
    "cryptography": "attest",
    "securesystemslib": "attest",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "huggingface_hub": "hub",
    "safetensors": "hub",
    "timm": "hub",
    "transformers": "hub",
}
"""The extra that installs each optional package."""
WITHOUT_EXTRA = {"pandas"}
"""Optional packages that no extra installs."""


def installing(extra: str) -> str:
    """How an extra is installed. The package is not on an index: a package of this name there is somebody else's."""
    return f"pip install '.[{extra}]' in a clone of smoothcert"


class MissingExtraError(SmoothcertError):
    """Something needs a package that is not installed; the message names the extra that installs it.

    It is raised as a MissingImportError where something is imported, and as a MissingAttributeError by
    `smoothcert.Smoothed`, so that `hasattr(smoothcert, "Smoothed")` is False. (One class cannot be both: the two errors
    of Python do not combine.)
    """


class MissingImportError(MissingExtraError, ImportError):
    """An import that needs an extra."""


class MissingAttributeError(MissingExtraError, AttributeError):
    """A public name that needs an extra."""


def is_installed(package: str) -> bool:
    """Whether a package can be imported; it is not imported."""
    try:
        return find_spec(package) is not None
    except ValueError:  # a module that somebody put into sys.modules without a specification
        return package in sys.modules


@contextmanager
def needed_by(feature: str) -> Iterator[None]:
    """Raise MissingImportError where an import inside the block fails for want of an optional package.

    Every other error passes through: a package that is installed but broken is not a missing extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = error.name or ""
        if package in INSTALLED_BY:
            way = installing(INSTALLED_BY[package])
        elif package in WITHOUT_EXTRA:
            way = f"pip install {package}"
        else:  # also a submodule, whose package is there but is not what was expected
            raise
        raise MissingImportError(f"{feature} needs {package}: {way}", name=package) from error


def lazy_attribute(name: str, module: str) -> Any:
    """The public name `smoothcert.NAME` out of its module, for the `__getattr__` of a package.

    Where an extra is missing, this raises MissingAttributeError, unless importlib asks: `from smoothcert import NAME`
    would turn an AttributeError into "cannot import name", without a word about the extra.
    """
    try:
        with needed_by(f"smoothcert.{name}"):
            return getattr(import_module(module), name)
    except MissingImportError as error:
        asker = sys._getframe(2).f_globals.get("__name__")  # 0 is this function, 1 is `__getattr__`
        if asker in ("importlib._bootstrap", __name__):  # another package's `__getattr__` asks through this function
            raise
        raise MissingAttributeError(str(error)) from error
