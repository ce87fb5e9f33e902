"""A ledger keeps whole lines through crashes, and tells one run from another."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from smoothcert.errors import LedgerError
from smoothcert.ledger import Ledger

RUN = {"ensemble": "x", "alpha": 0.001}


def test_lines_are_there_when_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "ledger.jsonl"
    with Ledger(path, RUN, once={"seed": "first"}) as ledger:
        ledger.append({"image": 1})
        ledger.append({"image": 2})
    with Ledger(path, RUN, once={"seed": "second"}) as ledger:
        assert ledger.lines == [{"image": 1}, {"image": 2}]
        assert ledger.run["seed"] == "first"
        ledger.append({"image": 3})
    with Ledger(path, RUN) as ledger:
        assert [line["image"] for line in ledger.lines] == [1, 2, 3]


def test_a_file_cut_at_any_byte_gives_its_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path, RUN) as ledger:
        for i in range(3):
            ledger.append({"image": i})
    whole = path.read_bytes()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        with Ledger(path, RUN) as ledger:
            kept = max(0, whole[:size].count(b"\n") - 1)
            assert [line["image"] for line in ledger.lines] == list(range(kept))
            ledger.append({"image": kept})
        with Ledger(path, RUN) as ledger:
            assert [line["image"] for line in ledger.lines] == list(range(kept + 1))


def test_another_run_is_refused_and_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger(path, RUN).close()
    with pytest.raises(LedgerError, match=r"another run, with \{'alpha': 0.001\}"):
        Ledger(path, {**RUN, "alpha": 0.01})


def test_damage_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text('{"run": {}}\n{"image": \n{"image": 2}\n')
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(path, {})


def test_a_full_disk_leaves_the_lines_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path, RUN) as ledger:
        ledger.append({"image": 1})

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", full)
            with pytest.raises(LedgerError, match="No space left"):
                ledger.append({"image": 2})
    with Ledger(path, RUN) as ledger:
        assert ledger.lines == [{"image": 1}]


def test_a_disk_that_takes_half_a_line_leaves_the_lines_before(tmp_path: Path) -> None:
    path, before = tmp_path / "ledger.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    with Ledger(path, RUN) as ledger:
        ledger.append({"image": 1})
        size = path.stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, before[1]))
        try:
            with pytest.raises(LedgerError, match="File too large"):
                ledger.append({"image": "a line of more than ten bytes"})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.stat().st_size == size
    with Ledger(path, RUN) as ledger:
        assert ledger.lines == [{"image": 1}]
