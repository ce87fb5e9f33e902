"""The engine of the histories: the real one, except that the class of a sample is looked up and not computed.

The class depends only on the image and on the number of the sample, so a sample that is counted twice, left out or
counted for another image shows in the certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from smoothcert.engine.case import start
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.lane import Lane
from smoothcert.engine.pixels import Pixels
from smoothcert.engine.run import Handle, Run, Segment
from smoothcert.engine.waiting import count
from smoothcert.noise import Gaussian
from smoothcert.question import Question
from smoothcert.request import CertificationRequest
from tests.simulation.stage import STAGE
from tests.support.worker_networks import Trivial, state

BATCH, BATCH_S = 128, 0.7
"""The samples of a batch, and the simulated seconds that a batch takes."""
SHAPE = (3, 2, 2)
LOTS = np.random.Generator(np.random.Philox(0)).random(100_000)
"""A number for each sample; a sample of an image is light if its number is below the value of the first pixel."""


@cache
def ensemble(name: str = "looked-up") -> Ensemble:
    network = Trivial()
    network.load_state_dict(state(0.0))
    return assemble(
        [network], classes=("light", "dark"), input_shape=SHAPE, noise=Gaussian(0.25), batch=BATCH, name=name
    )


def classes(run: Run, start: int, stop: int) -> npt.NDArray[np.int64]:
    value = float(run._noisy.pixels.flatten()[0])
    return np.where(LOTS[start:stop] < value, 0, 1)


def look_up(segments: Sequence[Segment], *, rows: int) -> None:
    for each in segments:
        found = classes(each.run, each.start, each.stop)
        count(((each, len(each)),), found, members=1, rows=rows, first=True)


class LookingUp(Engine):
    """An engine on the simulated clock."""

    def _begin(self, lane: Lane, segments: list[Segment]) -> None:
        STAGE.world.sleep(BATCH_S * STAGE.world.chance.uniform(0.5, 1.5))
        look_up(segments, rows=lane.rows)
        rows = sum(map(len, segments))
        self.workload.first(rows=rows, padded=rows, capacity=lane.batch, members=1)


class AtOnce:
    """Stands for an engine that nothing disturbs: a run has ended when it is submitted."""

    def __init__(self) -> None:
        self.ensemble = ensemble()

    def submit(self, procedure: Any, image: Pixels, noise: Any, seed: str, *, index: int, **_: object) -> Handle:
        run = Run(procedure, image, noise, seed, index, self.ensemble)
        while not run.ended:
            look_up([run.take(min(BATCH, run.wanted))], rows=self.ensemble.members[0].form.shape[0])
            run.settle()
        return run.handle


def undisturbed(request: CertificationRequest, images: Tensor, index: int, seed: str) -> dict[str, Any]:
    """The certificate of one of the images, from a run of its own."""
    question = Question.of(request, images=len(images))
    view = ensemble().with_(voting=request.voting or "soft", consensus=request.consensus)
    case = start(AtOnce(), images[index], question, seed=seed, nonce=request.nonce, index=index, ensemble=view)  # type: ignore[arg-type]
    return case.result().model_dump(mode="json")
