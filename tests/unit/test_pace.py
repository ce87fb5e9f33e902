"""The speed at which an ensemble is evaluated, measured by its full batches."""

from __future__ import annotations

import pytest

from smoothcert.engine.engine import Engine
from smoothcert.engine.pace import Pace
from tests.support.engines import NOISE, draws, ensemble, images


def test_small_batches_hardly_change_the_rate() -> None:
    """A batch of 64 of 2048 samples takes a third of the time of a full one, because of what surrounds it."""
    pace = Pace(rows=64)
    pace.see(2048, 1.0)
    for _ in range(3):
        pace.see(64, 0.3, filled=64 / 2048)
    assert pace.per_second == pytest.approx(2048, rel=0.05)


def test_full_batches_do() -> None:
    pace = Pace(rows=64)
    pace.see(2048, 1.0)
    for _ in range(30):
        pace.see(2048, 4.0)
    assert pace.per_second == pytest.approx(512, rel=0.1)


@pytest.mark.parametrize(("samples", "filled"), [(8, 8 / 32), (32, 1.0)])
def test_the_engine_tells_how_full_a_batch_was(samples: int, filled: float, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    monkeypatch.setattr(Pace, "see", lambda _, evaluations, seconds, *, filled: seen.append(filled))
    with Engine(ensemble(2), batch=32) as engine:
        engine.submit(draws(samples), images(1)[0], NOISE, "s").result(30)
    assert [each for each in seen if each] == [filled]
