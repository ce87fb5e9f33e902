"""What a worker holds when a part of its zoo cannot be loaded."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.support.zoo import ALLOWED, make_zoo
from workers.errors import HoldingsError, SettingsError
from workers.fleet import serve_device
from workers.holdings import Holdings
from workers.settings import WorkerSettings


def settings(zoo: Path, **more: str) -> WorkerSettings:
    return WorkerSettings(zoo=zoo, **{"allowed_imports": ",".join(ALLOWED), **more})  # type: ignore[arg-type]


def test_an_ensemble_that_cannot_be_loaded_does_not_stop_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    zoo = make_zoo(tmp_path / "zoo")
    file = next((zoo / "moody").glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with caplog.at_level(logging.ERROR):
        holdings = Holdings.load(settings(zoo), "cpu")
    assert [card.name for card in holdings.cards] == ["trivial"]
    assert list(holdings.paces) == ["trivial"]
    assert list(holdings.failed) == ["moody"]
    assert holdings.failed["moody"].startswith(f"{file}: sha256 is ")
    assert f"moody cannot be loaded and is not served: {file}" in caplog.text


def test_the_log_counts_a_single_member_as_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    zoo = make_zoo(tmp_path / "zoo")
    card = zoo / "trivial" / "ensemble.toml"
    head, first, *_ = card.read_text().split("[[members]]")
    card.write_text(f"{head}[[members]]{first}")
    (zoo / "trivial" / "trivial-1.safetensors").unlink()
    with caplog.at_level(logging.INFO):
        Holdings.load(settings(zoo, ensembles="trivial"), "cpu")
    assert "holding trivial: 1 member on cpu; " in caplog.text


def test_where_none_can_be_loaded_every_reason_is_told(tmp_path: Path) -> None:
    with pytest.raises(HoldingsError, match=r"no ensemble can be loaded: moody: .*; trivial: "):
        Holdings.load(settings(make_zoo(tmp_path / "zoo"), allowed_imports=""), "cpu")


def test_an_ensemble_that_is_named_and_missing_is_a_wrong_setting(tmp_path: Path) -> None:
    with pytest.raises(HoldingsError, match=r"SMOOTHCERT_ENSEMBLES names 'moddy'; in .* there are: moody, trivial"):
        Holdings.load(settings(make_zoo(tmp_path / "zoo"), ensembles="trivial,moddy"), "cpu")


@pytest.mark.parametrize("device", ["gpu", "meta:x", "cuda:99"])
def test_a_device_that_cannot_be_used_is_a_wrong_setting_and_no_fault_of_the_ensembles(device: str) -> None:
    with pytest.raises(SettingsError, match=rf"SMOOTHCERT_DEVICES: .*'{device}'"):
        serve_device(WorkerSettings(), device)


@pytest.mark.parametrize("setting", ["precision", "runtime"])
def test_a_precision_or_runtime_that_is_none_ends_the_start_by_its_name(setting: str) -> None:
    with pytest.raises(SettingsError, match=rf"SMOOTHCERT_{setting.upper()}: .*must be one of .*got 'float8'"):
        serve_device(WorkerSettings(**{setting: "float8"}), "cpu")
