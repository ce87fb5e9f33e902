"""A misspelt environment variable is named together with the right one, and ends the start."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import ApiSettings
from store.settings import RedisSettings, explain_settings
from store.variables import NAMES, PREFIX, unknown
from workers.settings import WorkerSettings

ROOT = Path(__file__).parents[2]


def test_every_setting_is_known_and_every_known_name_is_read_somewhere() -> None:
    settings = {name.upper() for kind in (ApiSettings, WorkerSettings) for name in kind.model_fields}
    sources = [*(ROOT / "app/local").glob("*.py"), *(ROOT / "smoothcert").rglob("*.py"), ROOT / "docker-compose.yml"]
    others = {name for path in sources for name in re.findall(rf"{PREFIX}([A-Z_]+[A-Z])", path.read_text())}
    assert len(NAMES) == len(set(NAMES))
    assert set(NAMES) == settings | others


def test_the_tables_of_the_documentation_have_every_variable() -> None:
    text = (ROOT / "docs" / "operation.md").read_text()
    assert set(re.findall(rf"^\| `{PREFIX}([A-Z_]+)` \|", text, re.MULTILINE)) == set(NAMES)


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        ("SMOOTHCERT_REDIS_ULR", "there is no setting SMOOTHCERT_REDIS_ULR, did you mean SMOOTHCERT_REDIS_URL?"),
        ("SMOOTHCERT_ENSEMBLE", "there is no setting SMOOTHCERT_ENSEMBLE, did you mean SMOOTHCERT_ENSEMBLES?"),
        ("SMOOTHCERT_XYZZY", "there is no setting SMOOTHCERT_XYZZY; docs/operation.md lists them"),
        ("SMOOTHCERT_PORT", ""),
        ("SMOOTHCERT_SERVICE_HOST", ""),  # Kubernetes sets this
        ("SMOOTHCERT_API_PORT_8000_TCP_ADDR", ""),
        ("REDIS_ULR", ""),
    ],
)
def test_a_variable_that_nobody_reads_is_named_with_the_nearest(variable: str, sentence: str) -> None:
    assert unknown(["PATH", variable]) == sentence


def test_settings_with_a_misspelt_variable_are_refused_and_its_value_is_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SMOOTHCERT_REDIS_PASWORD_FILE", "hush")
    with pytest.raises(ValidationError, match="did you mean SMOOTHCERT_REDIS_PASSWORD_FILE") as caught:
        RedisSettings()
    assert "hush" not in str(caught.value)


def test_a_wrong_value_is_told_by_the_name_of_the_variable() -> None:
    with pytest.raises(ValidationError) as refused:
        ApiSettings(port="70000", rate="fast", open="perhaps")  # type: ignore[arg-type]
    assert explain_settings(refused.value) == (
        "SMOOTHCERT_PORT: must be at most 65535, got '70000'; SMOOTHCERT_OPEN: must be true or false, got 'perhaps'; "
        "SMOOTHCERT_RATE: must be a number, got 'fast'"
    )
