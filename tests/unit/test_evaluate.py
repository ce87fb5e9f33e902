"""`python -m benchmarks evaluate` on a small ensemble: the table, and a run that is killed and started again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from models import addition
from models.data import load_images, write_sheet
from models.registry import ZOO
from models.resnet import resnet20
from models.training.checkpoint import write_safetensors

ROOT = Path(__file__).parents[2]
CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An ensemble of two random networks, and eight of the shipped images."""
    folder = tmp_path_factory.mktemp("evaluate")
    files = []
    for seed in range(2):
        torch.manual_seed(seed)
        files.append(folder / f"member-{seed}.safetensors")
        write_safetensors(files[-1], resnet20().state_dict(), {"architecture": "cifar-resnet20", "sigma": 0.25})
    addition.add("two", files, addition.Addition(classes=CIFAR10), zoo=folder / "zoo")
    write_sheet(load_images(ZOO / "cifar10-test-100.json").pick(slice(0, 8)), folder / "zoo" / "eight.json")
    return folder / "zoo"


def command(zoo: Path, out: Path, *more: object) -> list[str]:
    arguments = ["--zoo", zoo, "--ensemble", "two", "--images", zoo / "eight.json", "--out", out]
    arguments += ["--n", 300, "--timed", 50, *more]
    return [sys.executable, "-m", "benchmarks", "evaluate", *map(str, arguments)]


def lines(path: Path) -> list[dict[str, Any]]:
    """The certificates of a ledger without their times."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for line in found[1:]:
        del line["seconds"], line["certificate"]["digest"]
        del line["certificate"]["provenance"]["started_at"], line["certificate"]["provenance"]["finished_at"]
    return found


def test_the_table_has_a_row_for_each_setting(zoo: Path, tmp_path: Path) -> None:
    more = ("--procedure", "fixed,lost", "--k", "1,2", "--consensus", 1, "--radius", "0.05,0.1", "--write", tmp_path)
    done = subprocess.run(command(zoo, tmp_path / "out", *more, "--json"), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    labels = [row["setting"] for row in said["rows"]]
    assert labels == [
        *("fixed-k1-K1", "lost-r0.05-k1-K1", "lost-r0.1-k1-K1"),
        *("fixed-k2-K1", "lost-r0.05-k2-K1", "lost-r0.1-k2-K1"),
    ]
    assert {path.stem for path in (tmp_path / "out").iterdir()} == set(labels)
    assert any("disagree at r = 0.05" in note for note in said["notes"])
    assert len((tmp_path / "evaluate.csv").read_text().splitlines()) == 1 + 6 * 8
    assert (tmp_path / "evaluate.png").stat().st_size > 10_000
    assert "| fixed-k1-K1 |" in (tmp_path / "evaluate.md").read_text()


@pytest.mark.parametrize("moments", [(0.3, 0.9), (0.6,)])
def test_a_killed_run_goes_on_to_the_same_certificates(zoo: Path, tmp_path: Path, moments: tuple[float, ...]) -> None:
    """Killed at several moments of the certifying; the seed is that of the first start."""
    out = tmp_path / "out"
    ledger = out / "fixed-k2.jsonl"
    for after in moments:
        process = subprocess.Popen(
            command(zoo, out, "--procedure", "fixed"), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not ledger.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command(zoo, out, "--procedure", "fixed"), check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    disturbed = lines(ledger)
    assert [line["image"] for line in disturbed[1:]] == list(range(0, 160, 20))
    # an undisturbed run with the same seed
    quiet = tmp_path / "quiet"
    quiet.mkdir()
    (quiet / ledger.name).write_text(json.dumps(disturbed[0]) + "\n")
    subprocess.run(command(zoo, quiet, "--procedure", "fixed"), check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    assert lines(quiet / ledger.name) == disturbed


def test_other_parameters_do_not_mix_with_a_ledger(zoo: Path, tmp_path: Path) -> None:
    subprocess.run(command(zoo, tmp_path, "--procedure", "fixed"), check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    arguments = [*command(zoo, tmp_path, "--procedure", "fixed"), "--alpha", "0.01"]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert "belongs to another run, with {'alpha': 0.001}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("more", "seen"),
    [
        (["--images", "/nowhere"], "/nowhere"),
        (["--images", "shipped:x"], "shipped"),
        (["--procedure", "hope"], "'hope'"),
        (["--ensemble", "nobody"], "nobody"),
        (["--k", "3"], "3"),
        (["--consensus", "5"], "5"),
    ],
)
def test_bad_input_is_one_sentence(zoo: Path, tmp_path: Path, more: list[str], seen: str) -> None:
    done = subprocess.run([*command(zoo, tmp_path), *more], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert seen in done.stderr
    assert "Traceback" not in done.stderr, done.stderr
