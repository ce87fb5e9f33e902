"""The expectations of `python -m benchmarks transfer-expected` agree with a simulation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import samples_transfer
from benchmarks.paper.samples_logs import LoggedImage
from benchmarks.paper.samples_transfer import counted, expectation, shipped, transferred
from smoothcert.bounds import lower_bound
from smoothcert.noise import Gaussian
from smoothcert.product import lower_difference
from tests.support.benchmarked import Benchmark

NOISE = Gaussian(0.25)


def radius(p_lower: float) -> float:
    return NOISE.radius(max(0.5, p_lower))


def test_the_mean_radius_is_that_of_many_draws() -> None:
    rng = np.random.default_rng(5)
    anew = [radius(lower_bound(int(count), 1000, 0.001)) for count in rng.binomial(1000, 0.9, 4000)]
    assert counted(1000, 0.9) == pytest.approx(np.mean(anew), rel=0.005)
    moved = [radius(lower_difference(900, 1000, int(lost), 400, 0.001)) for lost in rng.binomial(400, 0.01, 400)]
    assert transferred(900, 1000, 400, 0.02) == pytest.approx(np.mean(moved), rel=0.01)
    assert transferred(1000, 1000, 400, 0.02) == counted(400, 1.0), "the new ensemble alone is counted"


def test_images_that_were_abstained_from_cost_samples_anew_alone() -> None:
    sure = LoggedImage(1.0, correct=True)
    one, two = (expectation([sure, *more], 1000, 0.0, 0.1) for more in ([], [LoggedImage(0.4, correct=False)]))
    assert two.saved == pytest.approx(2 * one.saved)
    assert two.lost == one.lost
    assert 0 < one.lost < 12


def test_the_radii_of_the_shipped_ensemble_are_read_back_as_counts() -> None:
    images = shipped(samples_transfer.RESULTS / "fixed.csv", 10_000)
    assert len(images) == 100
    assert max(image.p_a for image in images) == 1.0
    radii = [radius(lower_bound(round(image.p_a * 10_000), 10_000, 0.001)) for image in images if image.correct]
    assert sum(radii) / 100 == pytest.approx(0.427, abs=0.001), "the ACR of the table"


def test_a_folder_without_the_log_is_a_sentence(tmp_path: Path, benchmark: Benchmark) -> None:
    code, _ = benchmark("transfer-expected", "--logs", tmp_path)
    assert "there is no log of gaussian at sigma 0.25" in str(code)


def test_it_has_a_row_for_each_population_and_disagreement(
    tmp_path: Path, benchmark: Benchmark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples_transfer, "reachable", lambda *_: 3.0)
    rows = "\n".join(f"{place}\t1\t1\t0.5\t1\t0:00" for place in range(21))
    (tmp_path / "cifar10-gaussian-0.25.tsv").write_text(f"idx\tlabel\tpredict\tradius\tcorrect\ttime\n{rows}\n")
    code, out = benchmark("transfer-expected", "--logs", tmp_path, "--json")
    assert code == 0
    found = [list(row.values()) for row in json.loads(out)["rows"]]
    assert [(row[0], row[2], row[3]) for row in found[3:]] == [
        ("gaussian, log", 2, share) for share in ("0.0%", "0.1%", "0.5%")
    ]
    assert [row[-2] for row in found] == sorted(row[-2] for row in found[:3]) + sorted(row[-2] for row in found[3:])
