"""`python -m benchmarks evaluate` and `linf` on small ensembles: tables, figures, and a run that is killed."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.paper.evaluate import certify_seconds_per_sample
from models.data.choice import chosen_images
from models.errors import DataError
from models.registry import describe, rewrite
from smoothcert.engine.engine import Engine
from smoothcert.noise import Gaussian, Noise, Replacement, Uniform
from tests.support import engines, nursery
from tests.support.benchmarked import Benchmark, command, lines

ROOT = Path(__file__).parents[2]


def test_the_table_has_a_row_for_each_setting(zoo: Path, tmp_path: Path) -> None:
    more = ("--procedure", "fixed,lost", "--k", "1,2", "--consensus", 1, "--radius", "0.05,0.1", "--write", tmp_path)
    more = (*more, "--n", 100, "--stages", "50,250")
    done = subprocess.run(command(zoo, tmp_path / "out", *more, "--json"), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    table = json.loads(done.stdout)
    labels = [row["setting"] for row in table["rows"]]
    assert labels == [
        *("fixed-k1-K1", "lost-r0.05-k1-K1", "lost-r0.1-k1-K1"),
        *("fixed-k2-K1", "lost-r0.05-k2-K1", "lost-r0.1-k2-K1"),
    ]
    assert {path.stem for path in (tmp_path / "out").iterdir()} == set(labels)
    assert any("k2-K1, r = 0.05: fixed and lost " in note for note in table["notes"])
    assert len((tmp_path / "evaluate.csv").read_text().splitlines()) == 1 + 6 * 8
    assert (tmp_path / "evaluate.png").stat().st_size > 10_000
    assert "| fixed-k1-K1 |" in (tmp_path / "evaluate.md").read_text()


def test_curves_largest_and_optimal_are_evaluated_and_drawn(zoo: Path, tmp_path: Path, benchmark: Benchmark) -> None:
    more = ("--procedure", "largest,curve,optimal", "--radius", "0.1,0.05", "--write", tmp_path, "--n", 200)
    code, printed = benchmark(*command(zoo, tmp_path / "out", *more, "--stages", "50,250", "--json")[3:])
    assert code == 0
    rows = {row["setting"]: row for row in json.loads(printed)["rows"]}
    assert list(rows) == ["largest-k2", "curve-k2", "optimal-r0.1-k2", "optimal-r0.05-k2"]
    assert all(32 <= row["samples"] <= 300 for row in rows.values())
    ledger = lines(tmp_path / "out" / "curve-k2.jsonl")
    assert ledger[1]["certificate"]["procedure"]["radii"] == [0.05, 0.1]
    assert (tmp_path / "evaluate.png").stat().st_size > 10_000


@pytest.mark.parametrize("moments", [(0.3, 0.9), (0.6,)])
def test_a_killed_run_goes_on_to_the_same_certificates(
    slow_zoo: Path, tmp_path: Path, moments: tuple[float, ...], benchmark: Benchmark
) -> None:
    """The run is killed at several moments of the certifying; the seed is that of the first start."""
    out = tmp_path / "out"
    ledger = out / "fixed-k2.jsonl"
    fixed = ("--procedure", "fixed", "--n", 100, "--timed", 1, "--batch", 64)
    arguments = command(slow_zoo, out, *fixed)
    for after in moments:
        process = nursery.start(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not ledger.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(after)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert benchmark(*arguments[3:])[0] == 0
    disturbed = lines(ledger)
    assert [line["image"] for line in disturbed[1:]] == list(range(0, 160, 20))
    # This is an undisturbed run with the same seed.
    quiet = tmp_path / "quiet"
    quiet.mkdir()
    (quiet / ledger.name).write_text(json.dumps(disturbed[0]) + "\n")
    assert benchmark(*command(slow_zoo, quiet, *fixed)[3:])[0] == 0
    assert lines(quiet / ledger.name) == disturbed


def test_other_parameters_do_not_mix_with_a_ledger(zoo: Path, tmp_path: Path, benchmark: Benchmark) -> None:
    arguments = command(zoo, tmp_path, "--procedure", "fixed", "--n", 20)
    assert benchmark(*arguments[3:])[0] == 0
    done = subprocess.run([*arguments, "--alpha", "0.01"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert "belongs to another run: alpha is 0.001 there and 0.01 here" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("more", "seen"),
    [
        (["--images", "/nowhere"], "/nowhere"),
        (["--images", "shipped:x"], "'x'"),
        (["--images", "7:,"], "'7:,'"),
        (["--record"], "--tape"),
        (["--record", "--tape", "t", "--check"], "--check"),
        (["--procedure", "hope"], "'hope'"),
        (["--ensemble", "nobody"], "nobody"),
        (["--noise", "loud"], "noise 'loud': must be one of 'gaussian'"),
        (["--noise", "gaussian:sigma=0.5", "--sigma", "0.25"], "leave one out"),
        (["--sigma", "0"], "sigma must be positive and finite, got 0.0"),
        (["--k", "3"], "3"),
        (["--consensus", "5"], "5"),
    ],
)
def test_bad_input_is_one_sentence(zoo: Path, tmp_path: Path, more: list[str], seen: str, benchmark: Benchmark) -> None:
    code, _ = benchmark(*command(zoo, tmp_path)[3:], *more)
    assert seen in str(code)


@pytest.mark.parametrize("noise", [Gaussian(0.25), Uniform(1.0), Replacement(0.8, 2)], ids=lambda noise: noise.name)
def test_a_sample_of_certify_is_timed_under_every_kind_of_noise(noise: Noise) -> None:
    ensemble = engines.ensemble()
    with Engine(ensemble, batch=32) as engine:
        assert certify_seconds_per_sample(engine, ensemble, noise, 40) > 0
        assert engine.workload.evaluations == len(ensemble.members) * (100 + 1 + 100 + 40)


def test_the_hold_out_is_not_evaluated(ranked: Path, tmp_path: Path, benchmark: Benchmark) -> None:
    arguments = ("evaluate", "--zoo", ranked, "--ensemble", "two", "--out", tmp_path / "out", "--n", 20, "--timed", 1)
    code, _ = benchmark(*arguments, "--images", ranked / "eight.json")
    assert str(code).startswith("error: 2 of these 8 images of cifar10-test are in the hold-out '20,60'")
    assert str(code).endswith(": 20, 60")
    assert not (tmp_path / "out").exists()
    code, _ = benchmark(*arguments, "--images", f"{ranked / 'eight.json'}:0:1", "--procedure", "fixed")
    assert code == 0


def test_every_member_is_judged_alone(zoo: Path, tmp_path: Path, benchmark: Benchmark) -> None:
    out = tmp_path / "out"
    code, printed = benchmark(
        "evaluate", "--zoo", zoo, "--ensemble", "two", "--images", zoo / "eight.json", "--out", out, "--n", 40,
        "--timed", 1, "--procedure", "fixed", "--k", "1,2", "--alone", "--write", tmp_path, "--name", "mine", "--json",
        "--check",
    )  # fmt: skip
    assert code == 1  # these networks were never trained
    table = json.loads(printed)
    assert [row["setting"] for row in table["rows"]] == ["fixed-k1", "fixed-k2", "fixed-member2"]
    lines = [json.loads((out / f"fixed-{name}.jsonl").read_text().splitlines()[1]) for name in ("k1", "member2", "k2")]
    first, second, both = (line["certificate"]["provenance"]["ensemble"]["members"] for line in lines)
    assert [*first, *second] == both == [member.sha256 for member in describe("two", zoo=zoo).members]
    assert [figure["name"] for figure in table["figures"]] == ["ACR of 2 members / of the best one alone"]
    with (tmp_path / "mine.csv").open() as file:
        right = [
            row for row in csv.DictReader(file) if row["setting"] == "fixed-k1" and row["class_index"] == row["label"]
        ]
    assert table["rows"][0]["ACR"] == pytest.approx(sum(float(row["radius"]) for row in right) / 8, abs=0.001)
    assert (tmp_path / "mine.png").exists()
    assert str(tmp_path) not in (tmp_path / "mine.md").read_text()


def test_a_table_made_again_says_the_same(zoo: Path, tmp_path: Path, benchmark: Benchmark) -> None:
    """This includes the times, which are those of the certifying."""
    arguments = (
        "evaluate", "--zoo", zoo, "--ensemble", "two", "--images", f"{zoo / 'eight.json'}:0:2", "--out", tmp_path,
        "--n", 20, "--timed", 1, "--procedure", "fixed", "--json",
    )  # fmt: skip
    assert benchmark(*arguments) == benchmark(*arguments)


@pytest.mark.parametrize("more", [("--noise", "gaussian:sigma=0.5"), ("--sigma", 0.5)])
def test_both_ways_to_name_a_noise_certify_with_it(
    zoo: Path, tmp_path: Path, benchmark: Benchmark, more: tuple[object, ...]
) -> None:
    arguments = ("evaluate", "--zoo", zoo, "--ensemble", "two", "--images", f"{zoo / 'eight.json'}:0:1", "--n", 20)
    assert benchmark(*arguments, "--timed", 1, "--procedure", "fixed", "--out", tmp_path, *more)[0] == 0
    _, line = lines(tmp_path / "fixed-k2.jsonl")
    assert line["certificate"]["noise"] == {"name": "gaussian", "norm": "l2", "sigma": 0.5}


def test_a_selection_by_itself_is_one_of_the_shipped_images_that_fit_the_ensemble() -> None:
    shipped = replace(describe("cifar10-resnet20-gaussian-0.25"), superclasses=None)
    for spec, indices in (("0:3", [0, 20, 40]), ("98:", [1960, 1980]), ("5", [100]), ("shipped:7,9", [140, 180])):
        assert chosen_images(spec, shipped).indices.tolist() == indices
    assert len(chosen_images("shipped", shipped)) == len(chosen_images(":", shipped)) == 100
    digits = replace(shipped, input_shape=(1, 28, 28), classes=tuple("0123456789"))
    assert chosen_images("0:2", digits).name == "mnist-test"
    with pytest.raises(DataError, match="no sheet"):
        chosen_images("shipped", replace(shipped, classes=("a", "b")))


def test_a_check_without_a_goal_is_refused(zoo: Path, tmp_path: Path, benchmark: Benchmark) -> None:
    code, _ = benchmark(
        "evaluate", "--zoo", zoo, "--ensemble", "two", "--images", f"{zoo / 'eight.json'}:0:1", "--out", tmp_path,
        "--procedure", "fixed", "--n", 10, "--timed", 1, "--check",
    )  # fmt: skip
    assert "nothing to judge" in str(code)


def test_the_gaussian_table_is_restated_in_l_infinity(tmp_path: Path, benchmark: Benchmark) -> None:
    """The radii are R_2 / sqrt(3072), from the committed file."""
    code, printed = benchmark("linf", "--json")
    assert code == 0
    rows = {row["setting"]: row for row in json.loads(printed)["rows"]}
    with (ROOT / "benchmarks" / "results" / "fixed.csv").open() as file:
        radii = [
            float(row["radius"]) if row["class_index"] == row["label"] else -1.0
            for row in csv.DictReader(file)
            if row["setting"] == "fixed-k5"
        ]
    found = rows["fixed-k5"]
    assert found["ACR"] == pytest.approx(sum(max(0.0, r) for r in radii) / 100 / 3072**0.5, rel=0.01)
    for level in (1, 2, 3):
        assert found[f"r={level}/255"] == sum(r / 3072**0.5 >= level / 255 for r in radii)


def test_only_gaussian_noise_is_restated(tmp_path: Path, zoo: Path, benchmark: Benchmark) -> None:
    description = describe("two", zoo=zoo)
    other = Path(shutil.copytree(zoo, tmp_path / "zoo"))
    rewrite("two", replace(description, noise=Replacement(0.8, 2)), zoo=other)
    code, _ = benchmark("linf", "--ensemble", "two", "--zoo", other)
    assert "was trained for replacement, keep 0.8, levels 2: only Gaussian noise can be restated" in str(code)
