"""The answer that a worker must give, whatever disturbs it: the certificate of an engine in this process."""

from __future__ import annotations

from pathlib import Path

import torch

from models.registry import load
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.question import Question
from tests.support.pool import SEED, flat, without_times
from tests.support.zoo import ALLOWED


def undisturbed(zoo: Path, ensemble: str, question: Question, value: float) -> dict[str, object]:
    """The certificate for an image of this value, without its times."""
    held = load(ensemble, zoo=zoo, allowed_imports=frozenset(ALLOWED))
    with Engine(held) as engine:
        return without_times(certify(engine, torch.from_numpy(flat(value)), question, seed=SEED)[0])
