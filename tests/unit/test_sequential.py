"""Boundaries of the sequential test: golden rows, shape, and the store on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from smoothcert import cache, sequential
from smoothcert.boundaries import Boundaries
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian
from smoothcert.sequential import Abandon, boundaries, looks_up_to
from tests.support.optimal import sha256

N_MAX = 131_100


def make(ratio: float, abandon: Abandon, n: int = N_MAX, alpha: float = 0.001, beta: float = 0.001) -> Boundaries:
    p0 = Gaussian(1.0).probability(ratio)
    return boundaries(p0, alpha=alpha, beta=beta, max_samples=n, abandon=abandon)


@pytest.mark.parametrize(
    ("ratio", "golden"),
    [
        (
            1.0,
            [
                (32, 33, 16, 17),
                (64, 64, 40, 41),
                (96, 93, 63, 65),
                (128, 123, 88, 90),
                (117_792, 99_629, 99_368, 98_596),
                (131_100, 110_732, -1, -1),
            ],
        ),
        (
            3.0,
            [
                (32, 33, 29, 29),
                (64, 65, 60, 61),
                (96, 97, 92, 92),
                (117_792, 117_681, 117_661, 117_580),
                (131_100, 130_966, -1, -1),
            ],
        ),
    ],
)
def test_the_boundaries_have_their_golden_values(ratio: float, golden: list[tuple[int, ...]]) -> None:
    lost, strict = make(ratio, "lost-certificate"), make(ratio, "strict")
    assert (lost.looks == strict.looks).all()
    assert (lost.certify == strict.certify).all(), "certifying must not depend on how we abandon"
    rows = np.stack([lost.looks, lost.certify, lost.abandon, strict.abandon], axis=1).tolist()
    for row in golden:
        assert list(row) in rows
    assert [row[0] for row in rows[:3]] == [32, 64, 96]


@pytest.mark.parametrize(
    ("ratio", "n", "golden"),
    [
        (1.0, N_MAX, "21c40c28f56c3ca6d5256ca764e1c85cc50d94f8fb602fb541b992886acc4359"),
        (3.0, N_MAX, "dc5f219fa7c140cc8975d62b97dd5dd85ad9259bd45adebc32c11bb44bf8432f"),
        (0.0, 20_000, "de0a953b59a18bebfc40a6063ad49a6bd2829ac8e2d3e4de7515e5b41de93cc0"),
    ],
)
def test_lost_certificate_has_its_golden_values(ratio: float, n: int, golden: str) -> None:
    """Mutants killed: all of beta spent at the points of the grid, and a grid that ends at t = 9.5."""
    assert sha256(make(ratio, "lost-certificate", n).abandon) == golden


def test_looks_grow_by_a_tenth_in_steps_of_32() -> None:
    looks = looks_up_to(N_MAX)
    assert len(looks) == 69
    assert looks[:3] == [32, 64, 96]
    assert looks[looks.index(5440) + 1] == 6016
    assert looks[-2:] == [117_792, 131_100]
    assert all(look % 32 == 0 for look in looks[:-1])


@pytest.mark.parametrize(("n", "looks"), [(1, [1]), (31, [31]), (32, [32]), (33, [32, 33]), (70, [32, 64, 70])])
def test_small_budgets_keep_their_few_looks(n: int, looks: list[int]) -> None:
    assert looks_up_to(n) == looks


def test_only_the_look_right_before_the_last_may_be_dropped() -> None:
    full = looks_up_to(N_MAX)
    close = full[-2] + 1000  # closer than 3 % to the look before it
    assert looks_up_to(close) == [*full[:-2], close]


@pytest.mark.parametrize("abandon", ["strict", "lost-certificate"])
@pytest.mark.parametrize("ratio", [0.0, 0.1, 2.0, 3.9, 5.0])
@pytest.mark.parametrize("n", [1, 40, 2_000])
def test_every_boundary_keeps_its_shape(ratio: float, n: int, abandon: Abandon) -> None:
    found = make(ratio, abandon, n)
    assert found.looks[-1] == n
    assert (np.diff(found.looks) > 0).all()
    assert ((found.abandon >= -1) & (found.abandon < found.certify) & (found.certify <= found.looks + 1)).all()
    assert found.abandon[-1] == -1
    assert found.looks.dtype == found.certify.dtype == found.abandon.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        found.certify[0] = 0


def test_a_radius_out_of_reach_is_never_certified() -> None:
    assert not make(5.0, "strict", 2_000).feasible
    assert make(1.0, "strict", 2_000).feasible


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"p0": 0.0}, "0.0"),
        ({"p0": 1.0}, "1.0"),
        ({"p0": float("nan")}, "nan"),
        ({"alpha": 0.0}, "0.0"),
        ({"alpha": 1e-30}, "1e-30"),
        ({"beta": 1.0}, "1.0"),
        ({"max_samples": 0}, "0"),
        ({"max_samples": 10.5}, "10.5"),
        ({"abandon": "often"}, "often"),
    ],
)
def test_arguments_outside_the_domain_are_named(changes: dict[str, object], seen: str) -> None:
    arguments = {"p0": 0.9, "alpha": 0.001, "beta": 0.001, "max_samples": 100, "abandon": "strict", **changes}
    with pytest.raises(DomainError, match=seen):
        boundaries(arguments.pop("p0"), **arguments)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path / "store"))
    boundaries.cache_clear()
    yield tmp_path / "store"  # type: ignore[misc]
    boundaries.cache_clear()


def test_boundaries_are_read_back_from_disk(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make(1.0, "strict", 500)
    assert len(list(store.iterdir())) == 1
    boundaries.cache_clear()
    monkeypatch.setattr(sequential, "abandon_boundary", lambda *_, **__: pytest.fail("computed again"))
    again = make(1.0, "strict", 500)
    assert again is not first
    assert again.certify.tolist() == first.certify.tolist()
    assert again.abandon.tolist() == first.abandon.tolist()
    assert make(1.0, "strict", 500) is again


WRONG = [None, [], [1], "x", {}, [[32]], 14 * [10**30], 14 * [-2], 14 * [True], 14 * [0.0], 14 * [500], 14 * ["1"]]


@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_an_undamaged_entry_of_another_shape_is_not_used(store: Path, value: object) -> None:
    first = make(1.0, "strict", 500)
    assert len(first.looks) == 14
    poison(store, value)
    again = make(1.0, "strict", 500)
    assert (again.certify.tolist(), again.abandon.tolist()) == (first.certify.tolist(), first.abandon.tolist())


def poison(store: Path, value: object) -> None:
    """Replace the only entry by another value with its own digest."""
    (entry,) = store.iterdir()
    cache.save(json.loads(entry.read_text())["key"], value)
    boundaries.cache_clear()


def test_a_forged_entry_cannot_make_a_false_certificate_verify(store: Path) -> None:
    """Mutant killed: a certify boundary that is read from disk, where a forger can lower it."""
    first = make(1.0, "strict", 500)
    (entry,) = store.iterdir()
    assert json.loads(entry.read_text())["value"] == first.abandon.tolist(), "only what soundness does not rest on"
    poison(store, 14 * [-1])
    forged = make(1.0, "strict", 500)
    assert forged.abandon.tolist() == 14 * [-1], "the forger was able to write the store"
    assert forged.certify.tolist() == first.certify.tolist()
    assert forged.outcome(Gaussian(1.0).probability(1.0)).certify <= 0.001


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_store_that_others_can_enter_is_not_used(
    store: Path, mode: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache.save("key", 1)
    assert store.stat().st_mode & 0o777 == 0o700
    store.chmod(mode)
    assert cache.load("key") is None
    cache.save("other", 1)
    assert len(list(store.iterdir())) == 1
    assert f"{store} is not used" in caplog.text
    store.chmod(0o700)
    assert cache.load("key") == 1
    monkeypatch.setattr(cache.os, "geteuid", lambda: 12_345)
    assert cache.load("key") is None, "the folder of another user"


def test_a_link_to_a_store_is_not_used(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.save("key", 1)
    (tmp_path / "link").symlink_to(store)
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path / "link"))
    assert cache.load("key") is None


def test_the_store_does_not_grow_without_end(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_ENTRIES", 5)
    for i in range(20):
        cache.save(f"key {i}", i)
    assert len(list(store.iterdir())) == 5
    assert cache.load("key 19") == 19
    assert cache.load("key 0") is None


@pytest.mark.parametrize("damage", ["", "{}", "null", "[", '{"key": 1}'])
def test_a_damaged_entry_is_computed_again(store: Path, damage: str) -> None:
    first = make(1.0, "strict", 500)
    (entry,) = store.iterdir()
    entry.write_text(damage)
    boundaries.cache_clear()
    assert make(1.0, "strict", 500).abandon.tolist() == first.abandon.tolist()


def test_an_altered_entry_is_not_used(store: Path) -> None:
    first = make(1.0, "strict", 500)
    (entry,) = store.iterdir()
    fields = json.loads(entry.read_text())
    fields["value"][-2] -= 1
    entry.write_text(json.dumps(fields))
    boundaries.cache_clear()
    assert make(1.0, "strict", 500).abandon.tolist() == first.abandon.tolist()


def test_a_store_that_cannot_be_written_is_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SMOOTHCERT_CACHE", str(tmp_path / "file" / "store"))
    boundaries.cache_clear()
    assert make(1.0, "strict", 500).feasible
    assert cache.load("anything") is None
    boundaries.cache_clear()
