"""Predictions: the class of the smoothed classifier at each image, without a radius."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from smoothcert.certificate import Certificate
from smoothcert.certification import Status, Whole, Wire
from smoothcert.counts import SampleCounts
from smoothcert.figures import counted
from smoothcert.problem import Failure


class Prediction(Wire):
    """The class of the smoothed classifier at an image, which is wrong with probability at most alpha."""

    index: Whole
    """The place of the image in its request."""
    class_index: Whole | None
    """Null for an abstention: the samples do not tell the two most frequent classes apart."""
    class_name: str | None
    alpha: Annotated[float, Field(gt=0, lt=1)] | None
    samples: Whole
    counts: SampleCounts
    """The samples by class; `other` counts those without a class."""
    digest: str
    """The digest of the certificate, which proves the prediction and can be verified."""

    def __repr__(self) -> str:
        """One line; `model_dump_json` has the rest."""
        if self.class_index is None:
            return f"<Prediction undecided, {counted(self.samples, 'sample')}>"
        found = f"class {self.class_index}" if self.class_name is None else repr(self.class_name)
        return f"<Prediction {found}, {self.counts[self.class_index]:,} of {counted(self.samples, 'sample')}>"

    __str__ = __repr__  # pydantic's would print every field

    @classmethod
    def of(cls, certificate: Certificate) -> Prediction:
        return cls(**{name: getattr(certificate, name) for name in cls.model_fields})


class PredictionAnswer(Wire):
    """The predictions of a request that are finished, in the order of the images."""

    id: str
    """The id of the certification that holds the certificates of the predictions."""
    status: Status
    predictions: tuple[Prediction, ...]
    error: Failure | None
    """What went wrong, where the status is `failed`."""
    url: str
    """The path of the certification, relative to the service."""
