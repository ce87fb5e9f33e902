"""What is certified while faults happen: an ensemble, images and questions, and the undisturbed answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from models.addition import Addition, add
from models.data import load_images
from models.registry import ZOO, load
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.question import Question
from smoothcert.request import CertificationRequest
from store.record import Record
from tests.faults.networks import ARCHITECTURE, ORDINARY
from tests.support.pool import without_times
from tests.support.worker_networks import SHAPE, state
from tests.support.zoo import SIGMA

Images = tuple[npt.NDArray[Any], ...]


@dataclass(frozen=True)
class Exhibit:
    """An ensemble of a zoo, with images and questions for it."""

    ensemble: str
    images: Images
    questions: tuple[Mapping[str, Any], ...]
    """Questions that take one to three seconds each."""
    zoo: Callable[[Path], Path]
    """A function that makes the zoo in a folder, or names an existing one."""
    settings: Mapping[str, object]
    """The settings of the workers."""

    def question(self, chance: Random) -> Mapping[str, Any]:
        return chance.choice(self.questions)


def small_zoo(folder: Path) -> Path:
    files = []
    for mark in (0.0, 1.0):
        files.append(folder / f"mortal-{int(mark)}.pt")
        torch.save(state(mark), files[-1])
    addition = Addition(
        classes=("dark", "light"), input_shape=SHAPE, architecture=ARCHITECTURE, sigma=SIGMA, method="by hand"
    )
    (folder / "zoo").mkdir()
    add("mortal", files, addition, zoo=folder / "zoo", allowed_imports=frozenset({ARCHITECTURE}))
    return folder / "zoo"


SMALL = Exhibit(
    ensemble="mortal",
    images=ORDINARY,
    questions=(
        {"procedure": {"name": "fixed", "n": 5_000}},
        {"procedure": {"name": "adaptive", "stages": [100, 1_000, 4_000]}, "radius": SIGMA},
        {"procedure": {"name": "sequential", "max_samples": 5_000}, "radius": SIGMA, "family_wise": True},
    ),
    zoo=small_zoo,
    settings={"allowed_imports": ARCHITECTURE, "FAULTS_PAUSE_S": 0.012},
)
SHIPPED = Exhibit(
    ensemble="cifar10-resnet20-gaussian-0.25",
    images=tuple(load_images(ZOO / "cifar10-test-100.json").pixels[[4, 5]]),
    questions=({"procedure": {"name": "adaptive", "stages": [100, 800]}, "radius": 0.25, "consensus": 2},),
    zoo=lambda _: ZOO,
    settings={"ensembles": "cifar10-resnet20-gaussian-0.25", "watchdog_s": 120},  # a batch may take seconds
)


class Reference:
    """The certificates of an undisturbed engine in this process."""

    def __init__(self, exhibit: Exhibit, zoo: Path) -> None:
        torch.set_num_threads(1)  # the workers do the same
        self._ensemble = load(exhibit.ensemble, zoo=zoo, allowed_imports=frozenset({ARCHITECTURE}))
        self._engine = Engine(self._ensemble)
        self._pixels = torch.from_numpy(np.stack(exhibit.images))

    def certificates(self, record: Record) -> list[dict[str, Any]]:
        """The certificates of a certification of all images, from its seed."""
        request = CertificationRequest.model_validate_json(record.request)
        question = Question.of(request, images=len(self._pixels))
        view = self._ensemble.with_(voting=request.voting or self._ensemble.voting, consensus=request.consensus)
        drawn = {"seed": record.seed, "nonce": request.nonce}
        found = certify(self._engine, self._pixels, question, ensemble=view, **drawn)
        return [without_times(each) for each in found]

    def close(self) -> None:
        self._engine.close()
