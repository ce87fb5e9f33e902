"""`python -m benchmarks evaluate` with tapes: several processes record them, and the last one computes nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from benchmarks.paper.tape import Tape
from models.data import load_images
from models.registry import load
from smoothcert.engine.case import start
from smoothcert.engine.engine import Engine
from smoothcert.procedures import Fixed
from smoothcert.question import Question
from tests.support import nursery
from tests.support.benchmarked import Benchmark, lines
from tests.support.evaluated import NOISE


def test_several_processes_record_and_the_last_computes_nothing(
    slow_zoo: Path, tmp_path: Path, benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process is killed, two share the images, and then both tables are made from the same tapes."""
    tapes, out, images = tmp_path / "tapes", tmp_path / "out", slow_zoo / "eight.json"
    common = ("evaluate", "--zoo", slow_zoo, "--ensemble", "two", "--n", 150, "--timed", 1, "--batch", 16)
    common = (*common, "--tape", tapes, "--procedure", "fixed")
    members = (*common, "--k", "1,2", "--alone")
    arguments = map(str, [*members, "--record", "--images", images])
    recording = [sys.executable, "-m", "benchmarks", *arguments]
    killed = nursery.start(recording, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(tapes.glob("*.tape")) and killed.poll() is None:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = {path: path.read_bytes() for path in tapes.glob("*.tape")}
    assert before

    code, printed = benchmark(*members, "--record", "--images", f"{images}:0:5", "--json")
    assert code == 0
    (cost,) = json.loads(printed)["rows"]
    assert cost["recorded now"] == max(0, 5 - len(before))
    assert cost["evaluations"] == 2 * 256 * cost["recorded now"]
    assert benchmark(*members, "--record", "--images", f"{images}:5:")[0] == 0
    assert all(path.read_bytes() == whole for path, whole in before.items())
    assert not out.exists()

    monkeypatch.setattr(Tape, "_record", None)  # no member is run on any sample
    for _ in range(2):
        code, printed = benchmark(*members, "--images", images, "--out", out, "--write", tmp_path, "--json")
        assert code == 0
    assert benchmark(*common, "--consensus", 1, "--images", images, "--out", out, "--json")[0] == 0
    rows = json.loads(printed)["rows"]
    assert [row["setting"] for row in rows] == ["fixed-k1", "fixed-k2", "fixed-member2"]
    assert [row["evaluations"] for row in rows] == [250, 500, 250]
    assert rows[1]["s/image, computed"] == pytest.approx(2 * rows[0]["s/image, computed"], abs=0.02)
    assert [row["TimeRF, computed"] for row in rows] == [round(100_100 / 250, 2)] * 3
    assert "Settings share one pass over the samples" in (tmp_path / "evaluate.md").read_text()

    two = load("two", zoo=slow_zoo, batch=16).with_(voting="soft")
    header, *_, last = lines(out / "fixed-k2.jsonl")
    assert last["image"] == last["certificate"]["provenance"]["sampling"]["image"] == 140
    with Engine(two, batch=16) as engine:
        pixels = torch.from_numpy(load_images(images).pixels[7])
        question = Question(NOISE, Fixed(n=150))
        engines_own = start(engine, pixels, question, seed=header["run"]["tape"], index=140, bound=False).result()
    expected = json.loads(engines_own.to_json())
    del expected["digest"], expected["provenance"]["started_at"], expected["provenance"]["finished_at"]
    assert expected == last["certificate"]


def test_certificates_from_tapes_and_from_the_engine_do_not_mix(
    zoo: Path, tmp_path: Path, benchmark: Benchmark
) -> None:
    arguments = ("evaluate", "--zoo", zoo, "--ensemble", "two", "--images", f"{zoo / 'eight.json'}:0:1", "--n", 20)
    arguments = (*arguments, "--timed", 1, "--procedure", "fixed", "--batch", 16)
    taped = (*arguments, "--tape", tmp_path / "tapes")
    assert benchmark(*taped, "--out", tmp_path / "a")[0] == benchmark(*arguments, "--out", tmp_path / "b")[0] == 0
    seed = (tmp_path / "tapes" / "seed").read_text()
    message = "belongs to another run: tape is"
    assert f"{message} '{seed}' there and None here" in str(benchmark(*arguments, "--out", tmp_path / "a")[0])
    assert f"{message} None there and '{seed}' here" in str(benchmark(*taped, "--out", tmp_path / "b")[0])
    (tape,) = (tmp_path / "tapes").glob("*.tape")
    tape.write_bytes(tape.read_bytes()[:-1])
    code, _ = benchmark(*taped, "--out", tmp_path / "c")
    assert str(code).startswith(f"error: {tape} is damaged")
