"""The training of several members at a time: a process for each, and a board that shows how they get on."""

from __future__ import annotations

import multiprocessing
import queue
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from models.architectures import build
from models.data import load_cifar10
from models.errors import ModelError, TrainingError
from models.training.checkpoint import read_safetensors, write_safetensors
from models.training.consistency import Consistency
from models.training.gaussian import Gaussian
from models.training.loop import PRESETS, Method, Progress, Record, train
from models.training.macer import Macer
from models.training.smoothadv import SmoothAdv

METHODS: dict[str, Callable[[float], Method]] = {
    "gaussian": Gaussian,
    "consistency": Consistency.at,
    "smoothadv": SmoothAdv.at,
    "macer": Macer.at,
}
"""Each takes sigma and gives the method with its published parameters."""

Report = Progress | ModelError
"""From a member: how far it is, or what ended it."""


@dataclass(frozen=True)
class Task:
    """The training of one member, complete enough to be sent to another process."""

    data: Path
    out: Path
    architecture: str
    method: str
    sigma: float
    preset: str
    seed: int
    threads: int
    device: str

    @property
    def weights(self) -> Path:
        """Where the trained member will be."""
        return self.out / f"{self.method}-{self.seed}.safetensors"

    @property
    def checkpoint(self) -> Path:
        """Where it is after the last finished epoch."""
        return self.weights.with_suffix(".checkpoint")

    @property
    def finished(self) -> bool:
        """Whether its weights are there; those of another run are refused, not taken for its own."""
        if not self.weights.exists():
            return False
        said, _ = read_safetensors(self.weights)
        wanted = {key: getattr(self, key) for key in ("architecture", "method", "sigma", "preset", "seed")}
        other = {key: said.get(key) for key, value in wanted.items() if said.get(key) != value}
        if other:
            raise TrainingError(f"{self.weights} holds the weights of another run, with {other}; name another folder")
        return True

    def run(self, reports: Queue[tuple[int, Report]]) -> None:
        """Train in a process of its own; bad input ends it with a report, not with a traceback."""
        try:
            self.train(reports)
        except ModelError as error:
            reports.put((self.seed, error))
            sys.exit(1)

    def train(self, reports: Queue[tuple[int, Report]]) -> None:
        """Train, and leave the weights with their record in the header."""
        torch.set_num_threads(self.threads)
        images = load_cifar10(self.data, train=True)
        holdout = load_cifar10(self.data, train=False).pick(slice(1, None, 20))
        preset = PRESETS[self.preset]
        torch.manual_seed(self.seed)
        network = build(self.architecture, classes=len(images.classes))
        seconds, accuracy = train(
            network,
            METHODS[self.method](self.sigma),
            preset,
            images,
            holdout,
            seed=self.seed,
            checkpoint=self.checkpoint,
            report=lambda progress: reports.put((self.seed, progress)),
            device=self.device,
        )
        record = Record(
            architecture=self.architecture,
            method=self.method,
            sigma=self.sigma,
            seed=self.seed,
            preset=self.preset,
            epochs=preset.epochs,
            data=images.name,
            data_digest=images.digest,
            seconds=round(seconds, 1),
            holdout="cifar10-test 1, 21, 41, ...",
            holdout_accuracy=accuracy,
        )
        write_safetensors(self.weights, network.state_dict(), asdict(record))


def train_members(tasks: list[Task], *, jobs: int) -> None:
    """Train every member whose weights are not there yet, `jobs` at a time, each on its share of the cores."""
    waiting = [task for task in tasks if not task.finished]
    context = multiprocessing.get_context("spawn")
    reports: Queue[tuple[int, Report]] = context.Queue()
    running: dict[int, SpawnProcess] = {}
    try:
        with Board() as board:
            while waiting or running:
                while waiting and len(running) < jobs:
                    task = waiting.pop(0)
                    running[task.seed] = context.Process(target=task.run, args=(reports,), daemon=True)
                    running[task.seed].start()
                with suppress(queue.Empty):
                    board.take(*reports.get(timeout=1))
                for seed in [seed for seed, process in running.items() if not process.is_alive() and reports.empty()]:
                    if code := running.pop(seed).exitcode:
                        raise TrainingError(f"member {seed} ended with exit code {code}")
    finally:  # the others stop too; their next start goes on from their checkpoints
        for process in running.values():
            process.terminate()


class Board:
    """A bar for each member on a terminal; a line for each epoch elsewhere."""

    def __init__(self) -> None:
        self._console = Console()
        self._bars = Bars(
            TextColumn("member {task.fields[seed]}"),
            BarColumn(),
            TextColumn(
                "epoch {task.fields[epoch]}  loss {task.fields[loss]:.3f}  under noise {task.fields[accuracy]:.3f}"
            ),
            TextColumn("{task.fields[rate]:.0f} images/s"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[int, TaskID] = {}
        self._last: dict[int, Progress] = {}

    def __enter__(self) -> Board:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def take(self, seed: int, report: Report) -> None:
        """Show how a member gets on; raise what ended it."""
        if isinstance(report, ModelError):
            raise type(report)(f"member {seed}: {report}") from report
        self.show(seed, report)

    def show(self, seed: int, now: Progress) -> None:
        """Move the member's bar, and say how an epoch ended."""
        before = self._last.get(seed, now)
        passed = now.seconds - before.seconds
        rate = (now.images - before.images) / passed if passed > 0 else 0.0
        fields: dict[str, Any] = {
            "epoch": f"{now.epoch}/{now.epochs}",
            "loss": now.loss,
            "accuracy": now.accuracy,
            "rate": rate,
        }
        if seed not in self._tasks:
            self._tasks[seed] = self._bars.add_task("", total=now.images_total, seed=seed, **fields)
        self._bars.update(self._tasks[seed], completed=now.images, **fields)
        if now.holdout_accuracy is not None:
            self._console.print(
                f"member {seed}: epoch {now.epoch}/{now.epochs}, loss {now.loss:.3f}, "
                f"hold-out under noise {now.holdout_accuracy:.3f}, {now.seconds:.0f} s"
            )
        if now.images != before.images:
            self._last[seed] = now
