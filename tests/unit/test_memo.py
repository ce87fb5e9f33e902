"""Results that are kept in memory are bounded in bytes, whatever clients ask for."""

from __future__ import annotations

import threading
import tracemalloc

import numpy as np
import pytest

from smoothcert import largest, optimal
from smoothcert.binomial import KEPT_BYTES, binomial
from smoothcert.memo import OVERHEAD, memo
from smoothcert.noise import Gaussian
from smoothcert.plan import plan
from smoothcert.procedures import Optimal, Transfer
from smoothcert.procedures.transfer import MOST_BASIS
from smoothcert.verification import verify
from tests.support.certificates import altered, certificate_of
from tests.support.ledgers import certified


def test_what_was_used_last_is_kept_within_the_bytes() -> None:
    computed: list[int] = []

    @memo(3 * (800 + OVERHEAD), lambda array: array.nbytes)
    def ones(n: int) -> np.ndarray:
        computed.append(n)
        return np.ones(n)

    for n in (100, 99, 98, 100, 97):  # the last one needs room, and 99 was used longest ago
        ones(n)
    assert ones.nbytes <= ones.most_bytes
    computed.clear()
    for n in (100, 98, 97, 99):
        ones(n)
    assert computed == [99]


def test_a_result_larger_than_the_whole_memory_is_not_kept() -> None:
    @memo(10_000, lambda array: array.nbytes)
    def ones(n: int) -> np.ndarray:
        return np.ones(n)

    small = ones(1)
    assert len(ones(10_000)) == 10_000
    assert ones(1) is small
    assert ones.nbytes == 8 + OVERHEAD
    ones.cache_clear()
    assert ones.nbytes == 0
    assert ones(1) is not small


def test_arguments_of_other_types_are_other_arguments() -> None:
    @memo(10_000, lambda _: 0)
    def same(value: float, *, other: int = 0) -> str:
        return f"{value!r} {other!r}"

    assert [same(1), same(1.0), same(True), same(1, other=True)] == ["1 0", "1.0 0", "True 0", "1 True"]


def test_threads_share_it() -> None:
    @memo(50 * (8 + OVERHEAD), lambda array: array.nbytes)
    def number(n: int) -> np.ndarray:
        return np.full(1, n)

    wrong: list[int] = []

    def ask() -> None:
        wrong.extend(n for i in range(2_000) if number(n := i % 70)[0] != n)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert number.nbytes == 50 * (8 + OVERHEAD)


def test_many_plans_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """300 small plans kept two gigabytes of distributions while their number was bounded and not their bytes."""
    binomial.cache_clear()
    monkeypatch.setattr(binomial, "most_bytes", 2**20)
    for i in range(12):
        plan(Optimal(max_samples=20_000), Gaussian(1.0), 0.5 + i / 100).expected(0.9)
        assert binomial.nbytes <= 2**20
    assert binomial.nbytes > 2**19, "what fits is kept"
    assert KEPT_BYTES <= 64 * 2**20
    for kept in (optimal.curve, largest.thresholds):
        assert kept.most_bytes <= 8 * 2**20


def test_old_certificates_in_new_ones_are_not_kept() -> None:
    """Twelve certificates that rest on large ones, and are not even consistent, kept 70 MB in the API."""
    old = certified(0, 0.9).model_dump_json()
    new = certificate_of(Transfer(basis=old, n=100, joint=False), 0.9)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for i in range(12):
            large = old + " " * (MOST_BASIS // 2 + i)
            assert not verify(altered(new, ["procedure", "basis"], large, signed=False)).consistent
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < MOST_BASIS, "no more than the last of them, which has a name here"
