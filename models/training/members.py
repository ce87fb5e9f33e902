"""The training of several members at a time: a process for each, and a board that shows their progress."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import queue
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import nn

from models.architectures import build, build_denoiser, load_weights
from models.data import Images, data_set
from models.errors import TrainingError
from models.registry import blaming
from models.training.augmentation import Augmentation
from models.training.checkpoint import read_safetensors, write_safetensors
from models.training.consistency import Consistency
from models.training.denoiser_classification import DenoiserClassification
from models.training.denoiser_mse import DenoiserMse
from models.training.denoiser_stability import DenoiserStability
from models.training.frozen import FrozenClassifier
from models.training.loop import PRESETS, TrainingProgress, TrainingRecord, train
from models.training.macer import Macer
from models.training.method import Method, adjusted, recorded
from models.training.smoothadv import SmoothAdv
from smoothcert.engine.denoised import check_denoiser
from smoothcert.engine.form import refuse_misfit
from smoothcert.errors import SmoothcertError
from smoothcert.noise import Noise

METHODS: dict[str, Callable[[Noise | None], Method]] = {
    "gaussian": Augmentation.gaussian,
    "augmentation": Augmentation,
    "consistency": Consistency.at,
    "smoothadv": SmoothAdv.at,
    "macer": Macer.at,
}
"""Each takes the noise and returns the method with its published parameters; TrainingError for an unsuitable noise."""

TRAINING_PRECISIONS = ("float32", "bfloat16")
"""float16 is not among them: its small gradients vanish unless the loss is scaled."""

DENOISING: dict[str, Callable[[Noise, FrozenClassifier], Method]] = {
    "denoiser-mse": DenoiserMse,
    "denoiser-stability": DenoiserStability,
    "denoiser-classification": DenoiserClassification,
}
"""The methods that train a denoiser in front of a classifier."""

Message = TrainingProgress | SmoothcertError
"""What the process of a member sends: its progress, or the error that ended it."""


@dataclass(frozen=True)
class Task:
    """The training of one member, complete enough to be sent to another process."""

    data: Path
    out: Path
    architecture: str
    method: str
    noise: Noise | None
    preset: str
    seed: int
    threads: int
    device: str
    precision: str = "float32"
    classifier: Path | None = None
    """The file of the classifier behind a denoiser; the methods of DENOISING need it, and no other takes it."""
    start: Path | None = None
    """A file of weights with which the training begins."""
    parameters: Mapping[str, float] = field(default_factory=dict)
    """The parameters of the method that differ from the published ones."""

    @property
    def weights(self) -> Path:
        """The file of the trained member."""
        return self.out / f"{self.method}-{self.seed}.safetensors"

    @property
    def checkpoint(self) -> Path:
        """The file with its state after the last finished epoch."""
        return self.weights.with_suffix(".checkpoint")

    @property
    def finished(self) -> bool:
        """Whether its weights exist; TrainingError if the file holds the weights of another run."""
        if not self.weights.exists():
            return False
        record, _ = read_safetensors(self.weights)
        record = {"precision": "float32", "parameters": {}} | record  # older records do not name them
        expected = {
            key: getattr(self, key) for key in ("architecture", "method", "parameters", "preset", "precision", "seed")
        }
        expected |= {"sigma": None, "noise": None, **json.loads(json.dumps(recorded(self.noise)))}
        expected |= {"classifier": _file_digest(self.classifier), "start": _file_digest(self.start)}
        other = {key: record.get(key) for key, value in expected.items() if record.get(key) != value}
        if other:
            raise TrainingError(f"{self.weights} holds the weights of another run, with {other}; name another folder")
        return True

    def run(self, messages: Queue[tuple[int, Message]]) -> None:
        """Train in a process of its own; an error of ours is sent to the parent instead of printed as a traceback."""
        try:
            self.train(messages)
        except SmoothcertError as error:
            messages.put((self.seed, error))
            sys.exit(1)

    def train(self, messages: Queue[tuple[int, Message]]) -> None:
        """Train, and write the weights with their record in the header."""
        torch.set_num_threads(self.threads)
        data = data_set(self.data)
        images, test = data.load(self.data, train=True), data.load(self.data, train=False)
        holdout = test.pick(data.holdout.places(len(test)))
        preset, method = PRESETS[self.preset], self._method(images)
        network = self._network(images)
        seconds, accuracy = train(
            network,
            method,
            preset,
            images,
            holdout,
            augment=data.augment,
            seed=self.seed,
            checkpoint=self.checkpoint,
            report=lambda progress: messages.put((self.seed, progress)),
            device=self.device,
            precision=self.precision,
            start=_file_digest(self.start),
        )
        record = TrainingRecord(
            architecture=self.architecture,
            method=self.method,
            parameters={name: getattr(method, name) for name in self.parameters} or None,
            noise=self.noise,
            seed=self.seed,
            preset=self.preset,
            precision=self.precision,
            epochs=preset.epochs,
            data=images.name,
            data_digest=images.digest,
            seconds=round(seconds, 1),
            holdout=f"{test.name} {data.holdout.text}",
            holdout_accuracy=accuracy,
            classifier=_file_digest(self.classifier),
            start=_file_digest(self.start),
        )
        write_safetensors(self.weights, network.state_dict(), record.header())

    def _method(self, images: Images) -> Method:
        return adjusted(self._published_method(images), self.parameters)

    def _published_method(self, images: Images) -> Method:
        if self.method not in DENOISING:
            return METHODS[self.method](self.noise)
        if self.classifier is None or self.noise is None:
            raise TrainingError(f"the method {self.method} needs a classifier and a noise")
        classifier = FrozenClassifier.read(
            self.classifier, classes=len(images.classes), input_shape=images.shape, device=self.device
        )
        return DENOISING[self.method](self.noise, classifier)

    def _network(self, images: Images) -> nn.Module:
        """The network that is trained, with weights that follow from the seed or come from a file."""
        channels = images.shape[0]
        torch.manual_seed(self.seed)
        if self.method in DENOISING:
            network = build_denoiser(self.architecture, channels=channels)
            check_denoiser(network, torch.zeros(2, *images.shape), name=self.architecture)
        else:
            network = build(self.architecture, classes=len(images.classes))
            refuse_misfit(network, name=self.architecture, channels=channels)
        if self.start is not None:
            if not self.start.is_file():
                raise TrainingError(f"--start {self.start} is missing, or not a file")
            _, weights = read_safetensors(self.start)
            with blaming(self.start):
                load_weights(network, weights)
        return network


def _file_digest(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise TrainingError(f"cannot read {path}: {error}") from error


def train_members(tasks: list[Task], *, jobs: int) -> None:
    """Train every member whose weights do not exist yet, `jobs` at a time, each on its share of the cores."""
    waiting = [task for task in tasks if not task.finished]
    context = multiprocessing.get_context("spawn")
    messages: Queue[tuple[int, Message]] = context.Queue()
    running: dict[int, SpawnProcess] = {}
    # SIGTERM ends a process without its `finally`, and the members would train on without a parent.
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        with Board() as board:
            while waiting or running:
                while waiting and len(running) < jobs:
                    task = waiting.pop(0)
                    running[task.seed] = context.Process(target=task.run, args=(messages,), daemon=True)
                    running[task.seed].start()
                with suppress(queue.Empty):
                    board.take(*messages.get(timeout=1))
                for seed in [seed for seed, process in running.items() if not process.is_alive() and messages.empty()]:
                    if code := running.pop(seed).exitcode:
                        raise TrainingError(f"member {seed} ended with exit code {code}")
    finally:  # the other members stop too, and resume from their checkpoints at the next call
        for process in running.values():
            process.terminate()
        signal.signal(signal.SIGTERM, before)


class Board:
    """A bar for each member on a terminal, a line for each epoch elsewhere."""

    def __init__(self) -> None:
        self._console = Console()
        self._bars = Progress(
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
        self._last: dict[int, TrainingProgress] = {}

    def __enter__(self) -> Board:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def take(self, seed: int, message: Message) -> None:
        """Show the progress of a member, or raise the error that ended it."""
        if isinstance(message, SmoothcertError):
            raise type(message)(f"member {seed}: {message}") from message
        self.show(seed, message)

    def show(self, seed: int, now: TrainingProgress) -> None:
        """Move the bar of a member, and print a line at the end of an epoch."""
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
