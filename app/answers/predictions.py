"""Predictions as JSON, from the certificates that prove them."""

from __future__ import annotations

import time

from app.answers.certifications import location
from app.redis.snapshot import Snapshot
from smoothcert.certificate import Certificate
from smoothcert.prediction import Prediction, PredictionAnswer
from smoothcert.problem import Failure


def predictions(snapshot: Snapshot) -> str:
    """A `PredictionAnswer` with the predictions that are finished."""
    record = snapshot.record
    found = (Certificate.model_validate_json(snapshot.certificates[index]) for index in sorted(snapshot.certificates))
    answer = PredictionAnswer(
        id=record.id,
        status=record.status_at(time.time()),
        predictions=tuple(map(Prediction.of, found)),
        error=Failure.model_validate_json(record.error) if record.error else None,
        url=location(record.id),
    )
    return answer.model_dump_json()
