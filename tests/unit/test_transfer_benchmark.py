"""`python -m benchmarks transfer`: the changed ensemble in its precision, and both by the requested runtime."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.paper.transfer import lost_note
from smoothcert.certificate import Certificate
from tests.support.benchmarked import Benchmark


def ledger(path: Path) -> list[Certificate]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [Certificate.model_validate(line["certificate"]) for line in lines if "certificate" in line]


@pytest.mark.parametrize("runtime", ["torch", "openvino"])
def test_the_old_ensemble_is_float32_and_the_new_one_is_not_by_one_runtime(
    slow_zoo: Path, tmp_path: Path, benchmark: Benchmark, runtime: str
) -> None:
    if runtime == "openvino":
        pytest.importorskip("openvino", reason="the extra openvino is not installed")
    options = ["--zoo", slow_zoo, "--ensemble", "two", "--images", f"{slow_zoo / 'eight.json'}:0::4", "--n", 100]
    code, out = benchmark("transfer", *options, "--out", tmp_path, "--batch", 64, "--runtime", runtime, "--json")
    assert code == 0
    (note, *_) = json.loads(out)["notes"]
    assert note.startswith("2 images of ")
    assert f"The old ensemble is computed by {runtime}, and the new one by {runtime}." in note
    for name, precision in (("old", "float32"), ("anew", "bfloat16"), ("transfer", "bfloat16")):
        for each in ledger(tmp_path / f"{name}.jsonl"):
            assert each.provenance is not None
            assert each.provenance.sampling.precision == precision
            assert ("openvino" in each.provenance.versions) == (runtime == "openvino")
    assert [each.decision for each in ledger(tmp_path / "old.jsonl")] == ["certified"] * 2, "there is a basis"


def test_the_lost_share_is_stated_only_where_there_were_common_samples() -> None:
    assert lost_note(3, 200).startswith("On 1.50 % of the common samples")
    assert "not measured" in lost_note(0, 0)


def test_an_unknown_runtime_is_one_sentence(slow_zoo: Path, tmp_path: Path, benchmark: Benchmark) -> None:
    options = ["--zoo", slow_zoo, "--ensemble", "two", "--images", slow_zoo / "eight.json", "--out", tmp_path]
    code, _ = benchmark("transfer", *options, "--runtime", "abacus")
    assert "runtime must be one of torch" in str(code)
