"""A ledger keeps whole lines through crashes, and tells one run from another."""

from __future__ import annotations

import resource
import tracemalloc
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
        assert [*ledger] == [{"image": 1}, {"image": 2}]
        assert ledger.once == {"seed": "first"}
        ledger.append({"image": 3})
    with Ledger(path, RUN) as ledger:
        assert [line["image"] for line in ledger] == [1, 2, 3]


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
            assert [line["image"] for line in ledger] == list(range(kept))
            ledger.append({"image": kept})
        with Ledger(path, RUN) as ledger:
            assert [line["image"] for line in ledger] == list(range(kept + 1))


def test_another_run_is_refused_and_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path, {"question": RUN}) as ledger:
        ledger.append({"image": 1})
    with pytest.raises(LedgerError, match=r"another run: question.alpha is 0.001 there and 0.01 here; name another"):
        Ledger(path, {"question": {**RUN, "alpha": 0.01}})
    with pytest.raises(LedgerError, match=r"another run: question.alpha is 0.001 there and None here"):
        Ledger(path, {"question": {"ensemble": "x"}})
    with Ledger(path, {"question": RUN}) as ledger:
        assert [*ledger] == [{"image": 1}]


def test_lines_are_not_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path, RUN) as ledger:
        for i in range(100):
            ledger.append({"image": i, "what": "x" * 100_000})
    tracemalloc.start()
    try:
        with Ledger(path, RUN) as ledger:
            assert sum(line["image"] for line in ledger) == 4950
            assert len(ledger) == 100
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2_000_000


def test_another_run_may_begin_where_nothing_was_finished(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    Ledger(path, RUN).close()
    other = {**RUN, "alpha": 0.01}
    with Ledger(path, other) as ledger:
        ledger.append({"image": 1})
    with Ledger(path, other) as ledger:
        assert (ledger.run, [*ledger], len(ledger)) == (other, [{"image": 1}], 1)


@pytest.mark.parametrize("damaged", ['{"image": ', "[]", "7", ""])
def test_damage_in_the_middle_is_named(tmp_path: Path, damaged: str) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text(f'{{"run": {{}}}}\n{damaged}\n{{"image": 2}}\n')
    message = r"line 2 cannot be read: .* remove that line and those after it"
    with Ledger(path, {}) as ledger, pytest.raises(LedgerError, match=message):
        list(ledger)


@pytest.mark.parametrize("text", ['{"my": "only copy"}', '{"my": "only copy"}\n', "a,b\n1,2\n", "\n\n"])
def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.json"
    path.write_text(text)
    with pytest.raises(LedgerError, match="is not a ledger and would be overwritten"):
        Ledger(path, RUN)
    assert path.read_text() == text


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="/dev/full is not a regular file"):
        Ledger(Path("/dev/full"), RUN)


def test_two_runs_never_write_one_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    with Ledger(path, RUN) as first:
        with pytest.raises(LedgerError, match="is in use by another run"):
            Ledger(path, RUN)
        first.append({"image": 1})
    with Ledger(path, RUN) as second:
        assert [*second] == [{"image": 1}]


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
        assert [*ledger] == [{"image": 1}]


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
        assert [*ledger] == [{"image": 1}]
