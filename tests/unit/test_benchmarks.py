"""The command that runs benchmarks, and the exact costs on logs that are made here."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from benchmarks import __main__ as front
from benchmarks.machine import exits, paper_loop, runtimes
from benchmarks.paper import samples, samples_curves, samples_largest, samples_logs, samples_optimal
from benchmarks.paper.samples_logs import LoggedImage, Population
from benchmarks.result import Figure, Result
from models.data import Images
from models.data.cifar10 import Cifar10
from smoothcert.bounds import lower_bound
from smoothcert.chapter import ChapterTable
from smoothcert.engine.onnxruntime import OnnxRuntime
from smoothcert.errors import DomainError
from smoothcert.estimate import Estimate
from smoothcert.noise import Gaussian

ROOT = Path(__file__).parents[2]
HEADER = "idx\tlabel\tpredict\tradius\tcorrect\ttime\n"


def benchmark(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Ten images for every setting, in the layout of the repository that publishes them."""
    for dataset, sigma in samples.SETTINGS:
        folder = tmp_path / dataset / samples.NETWORKS[dataset] / f"noise_{sigma:.2f}" / "test"
        folder.mkdir(parents=True)
        rows = [f"{i}\t3\t3\t{sigma * i / 2:.3g}\t1\t0:00:01" for i in range(1, 8)]
        rows += ["8\t3\t-1\t0.0\t0\t0:00:01", "9\t3\t5\t0.1\t0\t0:00:01"]
        (folder / f"sigma_{sigma:.2f}").write_text(HEADER + "\n".join(rows) + "\n")
    return tmp_path


def test_samples_are_computed_and_written(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    done = benchmark("samples", "--logs", logs, "--json", "--write", out)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert len(rows) == 17 * 6
    assert {row["procedure"] for row in rows} == set(samples.PROCEDURES)
    assert all(row["false at p0"] <= 0.001 for row in rows)
    assert "| Cohen et al.: sequential strict, times fewer samples |" in (out / "samples.md").read_text()
    assert (out / "samples.png").stat().st_size > 10_000


def test_the_logs_of_the_methods_are_a_population_of_their_own(tmp_path: Path) -> None:
    row = "0\t3\t3\t0.95286\t1\t0:00:01"  # every one of 100,000 samples, at alpha = .001
    (tmp_path / "cifar10-macer-0.25.tsv").write_text(HEADER + row + "\n")
    costs = samples.costs_of(tmp_path, 0.001, "macer", 0.25, 0.25)
    assert costs["CertifyAdp"].samples == pytest.approx(200, rel=1e-6)
    found = samples.report({("macer", 0.25, 0.25): costs})
    assert {figure.name.partition(":")[0] for figure in found.figures} == {"five methods"}


@pytest.mark.parametrize(
    ("radius", "alpha", "advice"),
    [
        (0.978, 0.001, "prove no more than 0.953 at sigma = 0.25 and alpha = 0.001; alpha = 0.01 fits it"),
        (5.0, 0.001, "alpha = 0.001; no alpha fits it, so sigma may be wrong"),
        (0.979, 0.01, "prove no more than 0.978 at sigma = 0.25 and alpha = 0.01; alpha = 0.011 fits it"),
    ],
)
def test_a_log_whose_largest_radius_needs_another_alpha_is_refused(
    radius: float, alpha: float, advice: str, tmp_path: Path
) -> None:
    path = tmp_path / "cifar10-sigma_0.25.tsv"
    path.write_text(f"{HEADER}0\t3\t3\t0.1\t1\t0:00:01\n1\t3\t3\t{radius}\t1\t0:00:01\n")
    with pytest.raises(DomainError, match=rf"^{path}: its largest radius is {radius:g}, but .*{advice}$"):
        samples_logs.read_log(path, 0.25, alpha=alpha)


@pytest.mark.parametrize(("sigma", "radius"), [(0.25, "0.978"), (0.5, "1.96"), (1.0, "3.91")])
def test_the_largest_radii_of_cohen_s_logs_are_those_of_alpha_01(sigma: float, radius: str, tmp_path: Path) -> None:
    """The logs round the radii to three digits, perhaps upwards."""
    (tmp_path / "log").write_text(f"{HEADER}0\t3\t3\t{radius}\t1\t0:00:01\n")
    assert samples_logs.read_log(tmp_path / "log", sigma, alpha=0.01) == [LoggedImage(1.0, correct=True)]


def test_the_alpha_of_the_logs_is_an_option(logs: Path) -> None:
    for alpha, words in (
        ("1e-12", "its largest radius is 0.875, but 100,000 samples prove no more than 0.8"),
        ("0", "--log-alpha must lie strictly between 0 and 1"),
    ):
        done = benchmark("samples", "--logs", logs, "--log-alpha", alpha)
        assert done.returncode == 1
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_missing_logs_are_named(tmp_path: Path) -> None:
    done = benchmark("samples", "--logs", tmp_path)
    assert done.returncode == 1
    assert "cifar10-sigma_0.25.tsv" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("count", [51_000, 84_000, 99_000, 99_990, 100_000])
def test_a_radius_leads_back_to_its_count(count: int) -> None:
    radius = Gaussian(0.5).radius(lower_bound(count, 100_000, 0.001))
    assert samples_logs.p_a_from(radius, 0.5, 0.001) == count / 100_000


def test_the_exact_cost_is_the_average_over_the_images() -> None:
    images = [
        LoggedImage(1.0, correct=True),
        LoggedImage(0.4, correct=False),
        LoggedImage(1.0, correct=False),
    ]
    found = samples.cost(samples.PROCEDURES["CertifyAdp"], images, Gaussian(0.25), 0.25)
    assert found.samples == pytest.approx(200, rel=1e-6)  # all images are decided in the first stage
    assert found.accuracy == pytest.approx(100 / 3)
    assert found.false_rate == pytest.approx(0, abs=1e-12)


HARD = Population([LoggedImage(0.86, correct=True), LoggedImage(0.4, correct=False), LoggedImage(1.0, correct=True)])


def test_the_savings_of_optimal_are_averages_over_the_images() -> None:
    found = next(samples_optimal.savings_of(HARD, "smoothadv", 0.25))
    assert found.held_out
    assert 32 < 3 * found.samples["optimal"] - 6591.061024 - 64 < 40  # the rest belongs to the hopeless image
    assert found.accuracy["optimal"] == pytest.approx(100 * (0.999908174 + 1) / 3, rel=1e-6)
    assert found.gain("CertifyAdp") > 2
    assert found.two_classes >= found.samples["optimal"]


def test_a_curve_gives_up_no_accuracy_of_certify() -> None:
    found = samples_curves.curve_of(HARD, "macer", 0.25, (1.0, 2.0))
    assert found.radii == (0.25, 0.5)
    assert found.gain > 10
    assert len(found.changes) == 2
    assert min(found.changes) > -0.01


def test_the_radius_that_largest_keeps_is_a_share_of_certify_s() -> None:
    found = samples_largest.kept_of(HARD, "macer", 0.25, 3_000_000)
    everything = samples_largest.certify(Gaussian(0.25)).outcome(1.0)
    assert everything.radius == pytest.approx(0.952864141)
    assert found.default
    assert 98 < found.share < 100
    assert 2 < found.gain < 4


def test_further_tables_are_printed_written_and_in_the_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = ChapterTable("more", "How sure it is.", ("setting", "ACR"), [("k1", Estimate(0.5, 0.25, 0.75))])
    found = replace(result(2.0), tables=[table])
    found.write_markdown(tmp_path / "x.md", command="make x")
    assert (
        "How sure it is.\n\n| setting | ACR |\n|---|---|\n| k1 | 0.500 (0.250 to 0.750) |\n"
        in (tmp_path / "x.md").read_text()
    )
    found.print()
    assert "0.500 (0.250 to 0.750)" in capsys.readouterr().out
    (more,) = json.loads(found.as_json())["tables"]
    assert more["rows"] == [{"setting": "k1", "ACR": {"value": 0.5, "low": 0.25, "high": 0.75}}]
    assert "tables" not in json.loads(result(2.0).as_json())


def result(value: float) -> Result:
    return Result("x", "this with that", ("a", "b"), [(1, 2.5)], [Figure("f", value, at_least=1.0)], machine="m")


@pytest.mark.parametrize(("value", "reached"), [(1.0, True), (0.99, False), (math.nan, False)])
def test_a_goal_is_reached_or_missed(value: float, reached: bool) -> None:
    assert result(value).reached is reached
    assert Figure("f", value, at_most=0.5).reached is False
    assert Figure("f", value).reached is True


@pytest.mark.parametrize(("value", "code"), [(2.0, 0), (0.5, 1)])
def test_check_exits_with_1_where_a_goal_is_missed(value: float, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stub = ModuleType("benchmarks.stub", "A stub.")
    stub.configure, stub.run = lambda _: None, lambda _: result(value)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "benchmarks.stub", stub)
    monkeypatch.setattr(front, "BENCHMARKS", {"stub": "benchmarks.stub"})
    monkeypatch.setattr(sys, "argv", ["benchmarks", "stub", "--check"])
    assert front.main() == code
    monkeypatch.setattr(sys, "argv", ["benchmarks", "stub"])
    assert front.main() == 0


def test_a_check_of_nothing_is_not_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = ModuleType("benchmarks.stub", "A stub.")
    stub.configure = lambda _: None  # type: ignore[attr-defined]
    stub.run = lambda _: Result("x", "", ("a",), [(1,)], [Figure("f", 1.0)], machine="m")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "benchmarks.stub", stub)
    monkeypatch.setattr(front, "BENCHMARKS", {"stub": "benchmarks.stub"})
    monkeypatch.setattr(sys, "argv", ["benchmarks", "stub", "--check"])
    with pytest.raises(SystemExit, match="nothing to judge"):
        front.main()


@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("--check", "--check"),
        ("0::20", "0::20"),
        ("../data/cifar10", "PATH/TO/cifar10"),
        ("/somewhere/else/cifar10:0::20", "PATH/TO/cifar10:0::20"),
        ("--data=/somewhere/else/cifar10", "--data=PATH/TO/cifar10"),
        (f"{Path.cwd()}/benchmarks/results", "benchmarks/results"),
    ],
)
def test_a_written_command_has_no_path_of_this_machine(argument: str, written: str) -> None:
    assert front.command_line(["x", argument]) == f"python -m benchmarks x {written}"


def test_a_result_is_a_table_for_people_and_for_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result(0.5).print()
    assert "missed" in capsys.readouterr().out
    assert json.loads(result(0.5).as_json())["figures"][0]["reached"] is False
    result(2.0).write_markdown(tmp_path / "x.md", command="python -m benchmarks x")
    assert "| f | 2 | >= 1 | reached |" in (tmp_path / "x.md").read_text()
    replace(result(2.0), figures=(), notes=("one", "two")).write_markdown(tmp_path / "x.md", command="x")
    assert (tmp_path / "x.md").read_text().endswith("| 1 | 2.5 |\n\none\n\ntwo\n")


@pytest.mark.parametrize("works", [True, False])
def test_a_runtime_that_torch_replaced_is_not_measured_under_its_name(
    works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("an operator that nobody knows")

    if not works:
        monkeypatch.setattr(OnnxRuntime, "_export", refuse)
    contestants = {name: runtimes.CONTESTANTS[name] for name in (runtimes.OURS, runtimes.CHOSEN)}
    for name, value in (("CONTESTANTS", contestants), ("ROUNDS", 1), ("BATCH", 8)):
        monkeypatch.setattr(runtimes, name, value)
    found = runtimes.run(Namespace(batches=1, device="cpu"))
    assert [row[0] for row in found.rows] == [runtimes.OURS, runtimes.CHOSEN]
    assert ("torch runs it in place of onnxruntime" in str(found.rows[1][-1])) is not works
    assert [figure.name for figure in found.figures] == ["onnxruntime, float32 / our form"] * works


def test_the_order_of_members_is_measured_on_the_hold_out_of_a_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = Images("cifar10-test", np.zeros((100, 3, 32, 32), np.uint8), np.zeros(100, np.int64), ("a", "b"))
    monkeypatch.setattr(exits, "load_images", lambda _: test)
    monkeypatch.setattr(exits, "data_set", lambda _: Cifar10())
    assert exits.chosen_images(tmp_path).indices.tolist() == [1, 21, 41, 61, 81]
    assert len(exits.chosen_images(tmp_path / "images.npz")) == 100


def test_each_radius_of_the_paper_has_its_number_of_images() -> None:
    assert paper_loop.questions("0.25,0.5", "7") == [(0.25, 7), (0.5, 7)]
    assert paper_loop.questions("0.25,0.5", "100,20") == [(0.25, 100), (0.5, 20)]
    with pytest.raises(DomainError, match=r"3 radii take one number of images or 3, got 2: 4,5"):
        paper_loop.questions("1,2,3", "4,5")
