"""Optional dependencies, and the sentence that names the extra of a missing one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from smoothcert.errors import SmoothcertError

INSTALLED_BY = {
    "torch": "'smoothcert[torch]'",
    "httpx2": "'smoothcert[client]'",
    "rich": "'smoothcert[cli]'",
    "typer": "'smoothcert[cli]'",
    "matplotlib": "'smoothcert[plot]'",
    "pandas": "pandas",
}
"""What `pip install` takes to bring in each optional package."""


class MissingExtraError(SmoothcertError, ImportError):
    """Something needs a package that is not installed; the message names the extra that installs it."""


@contextmanager
def needed_by(feature: str) -> Iterator[None]:
    """Raise MissingExtraError where an import inside the block fails for want of an optional package.

    Every other error passes through: a package that is installed but broken is not a missing extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = error.name or ""
        if package not in INSTALLED_BY:  # also a submodule, whose package is there but is not what was expected
            raise
        sentence = f"{feature} needs {package}: pip install {INSTALLED_BY[package]}"
        raise MissingExtraError(sentence, name=package) from error
