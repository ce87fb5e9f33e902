"""The modules that the client imports, its public names, and the errors that it raises."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import smoothcert
from smoothcert.client import errors
from smoothcert.problem import FAILURES, KINDS

ROOT = Path(__file__).parents[2]


def names_of(root: type[BaseException]) -> set[str]:
    return {root.__name__}.union(*map(names_of, root.__subclasses__()))


def test_nothing_is_imported_before_it_is_used() -> None:
    script = (
        "import sys, smoothcert\n"
        "slow = {'httpx2', 'numpy', 'pydantic', 'rich', 'scipy'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
        "smoothcert.Client, smoothcert.AsyncClient, smoothcert.Certificate, smoothcert.NoAnswerError\n"
        "heavy = {'torch', 'PIL', 'matplotlib', 'scipy.stats', 'fastapi', 'redis'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def test_every_name_is_there() -> None:
    for name in smoothcert.__all__:
        assert getattr(smoothcert, name) is not None
    assert set(smoothcert.__all__) <= set(dir(smoothcert))
    with pytest.raises(AttributeError, match="no attribute 'Customer'"):
        _ = smoothcert.Customer
    ours = {name for name in names_of(smoothcert.SmoothcertError) if hasattr(errors, name)}
    assert ours <= set(smoothcert.__all__)
    assert ours >= {"NoAnswerError", "BusyError", "CanceledError", "ImageError"}


def test_the_picture_of_the_tree_has_every_error() -> None:
    for name in names_of(errors.ClientError):
        assert name in (errors.__doc__ or ""), name


def test_every_code_has_its_class() -> None:
    assert set(KINDS) == set(errors.BY_CODE) - {"unexpected_answer"}
    assert set(FAILURES) == set(errors.FAILED_BY_CODE) - {"canceled"}
    for code, kind in errors.BY_CODE.items():
        if code in KINDS and (by_status := errors.BY_STATUS.get(KINDS[code].status)):
            assert issubclass(kind, by_status) or code == "too_many_failures", code


def test_errors_travel_between_processes() -> None:
    error = errors.BusyError("full", code="queue_full", status=429, request_id="r", retry_after=3.0)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), vars(copy)) == (str(error), vars(error))
