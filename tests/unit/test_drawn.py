"""The counts of a draw take little memory for many classes, and behave as a tuple does."""

from __future__ import annotations

import pickle
import tracemalloc

import numpy as np
import pytest

from smoothcert.noise import Gaussian
from smoothcert.procedures import Adaptive, AnyProcedure, Fixed, Largest, Optimal, Predict, Sequential, drawn, run
from smoothcert.procedures.drawn import SparseDraw
from smoothcert.verification import verify
from tests.support.certificates import certificate_of

ENTRIES = (0, 7, 0, 0, 2, 0)


def test_it_has_the_entries_of_the_tuple() -> None:
    sparse = SparseDraw(np.array(ENTRIES))
    assert tuple(sparse) == ENTRIES
    assert [sparse[place] for place in range(-6, 6)] == [ENTRIES[place] for place in range(-6, 6)]
    assert (sparse[:-1], sparse[1:5:2]) == (ENTRIES[:-1], ENTRIES[1:5:2])
    assert (len(sparse), sum(sparse), max(sparse), sparse.index(2)) == (6, 9, 7, 4)
    for place in (6, -7):
        with pytest.raises(IndexError):
            sparse[place]
    assert sparse == SparseDraw(np.array(ENTRIES)) == pickle.loads(pickle.dumps(sparse))
    assert hash(sparse) == hash(SparseDraw(np.array(ENTRIES)))
    assert sparse != SparseDraw(np.array([*ENTRIES, 0]))


@pytest.mark.parametrize(
    "procedure",
    [
        Fixed(n=500),
        Adaptive(stages=(100, 400)),
        Adaptive(stages=(100, 400), keep_samples=True),
        Sequential(max_samples=2_000),
        Optimal(max_samples=2_000),
        Largest(max_samples=2_000),
        Predict(n=200),
    ],
)
@pytest.mark.parametrize("p_a", [0.55, 0.75, 0.95])
def test_certificates_do_not_depend_on_it(procedure: AnyProcedure, p_a: float, monkeypatch: pytest.MonkeyPatch) -> None:
    dense = certificate_of(procedure, p_a)
    monkeypatch.setattr(drawn, "DENSE", 0)
    sparse = certificate_of(procedure, p_a)
    assert sparse == dense
    assert verify(sparse).consistent


def test_many_looks_at_many_classes_take_little_memory() -> None:
    """Dense counts of all looks would take eight bytes for each class and look."""
    classes, looks, most = 50_000, 0, 0

    def sample(n: int) -> np.ndarray:
        nonlocal looks, most
        looks, most = looks + 1, max(most, tracemalloc.get_traced_memory()[0])
        counts = np.zeros(classes + 1, dtype=np.int64)
        counts[1], counts[classes // 2] = n - n // 4, n // 4
        return counts

    noise = Gaussian(0.5)
    procedure = Sequential(max_samples=20_000).start(noise, noise.radius(0.75), alpha=1e-9, beta=1e-9)
    tracemalloc.start()
    try:
        verdict = run(procedure, sample)
    finally:
        tracemalloc.stop()
    assert len(verdict.stages) == looks - 1 > 30
    assert most < 8 * classes * looks / 4
