"""The engine compared with the bare networks it runs: efficiency, packing, consensus, repeatability across shapes."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from rich.console import Console
from torch import Tensor, nn

from benchmarks.machine.script import script
from benchmarks.result import Figure, Result
from models.data import load_images
from models.registry import ZOO, load
from models.resnet import resnet20
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.sampling import NoisyImage
from smoothcert.noise import Gaussian, Noise, RoundedGaussian
from smoothcert.procedures import Procedure, Sequential
from smoothcert.procedures.protocol import draw
from smoothcert.question import Question
from smoothcert.verdict import Verdict

SHAPE = (3, 32, 32)
CLASSES = tuple("0123456789")
NOISE = Gaussian(0.25)
SHIPPED = "cifar10-resnet20-gaussian-0.25"
ROUNDS = 5
"""The rounds in which both sides of a ratio take turns; the best of each counts, since other work only adds time."""
RADIUS = 0.25
beside = ThreadPoolExecutor(1)
console = Console(stderr=True, highlight=False)

Row = tuple[str, object, object, object]
Measured = tuple[list[Row], list[Figure]]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--samples", type=int, default=2_000, help="samples of each timed round")
    parser.add_argument("--device", default="cpu", help="cpu, cuda:0, ...")


def run(options: argparse.Namespace) -> Result:
    rows: list[Row] = []
    figures: list[Figure] = []
    for part in (efficiency, exactness, optimisation, packing, consensus, repeatability):
        console.print(f"measuring {part.__name__} ...", style="dim")
        more_rows, more_figures = part(options)
        rows += more_rows
        figures += more_figures
    return Result(
        name="engine",
        compares="the engine with the bare forward passes it is made of",
        columns=("what", "this", "that", "ratio"),
        rows=rows,
        figures=figures,
        notes=(
            "Both sides of a ratio take turns for five rounds, and the best round of each counts. "
            "Only the first of the two ratios to plain eager has a goal.",
        ),
    )


def networks(k: int) -> list[nn.Module]:
    """ResNet20s with random weights: their speed is that of trained ones."""
    made: list[nn.Module] = []
    for seed in range(k):
        torch.manual_seed(seed)
        made.append(resnet20())
    return made


def ensemble_of(made: list[nn.Module], options: argparse.Namespace, batch: int = 256) -> Ensemble:
    return assemble(made, classes=CLASSES, input_shape=SHAPE, name="benchmark", batch=batch, device=options.device)


def efficiency(options: argparse.Namespace) -> Measured:
    """The samples per second of the engine with noise and counting, compared with forward passes on one ready batch."""
    ensemble = ensemble_of(networks(5), options)
    batch = torch.rand(256, *SHAPE, device=ensemble.device)
    batches = max(1, options.samples // 256)
    bare, driven = [], []
    with Engine(ensemble, batch=256) as engine:
        drive(engine, 2, 256)
        for _ in range(ROUNDS):
            bare.append(batches * 256 / seconds(lambda: member_passes(ensemble, batch, batches)))
            driven.append(batches * 256 / seconds(lambda: drive(engine, 4, batches * 64)))
    ratio = max(driven) / max(bare)
    row = ("samples/s, k = 5: engine, bare forward", round(max(driven)), round(max(bare)), round(ratio, 3))
    return [row], [Figure("engine / bare optimised forward, k = 5", ratio, at_least=0.90)]


def exactness(options: argparse.Namespace) -> Measured:
    """The samples per second with noise that is drawn from integers, compared with torch's normal noise.

    Every round has a seed of its own, so that no noise is kept from the round before.
    """
    ensemble = ensemble_of(networks(5), options)
    each = max(64, options.samples // 4)
    noises: dict[str, Noise] = {"exact": RoundedGaussian(NOISE.sigma), "float": NOISE}
    rates: dict[str, list[float]] = {name: [] for name in noises}
    with Engine(ensemble, batch=256) as engine:
        for turn in range(ROUNDS + 1):
            for name, noise in noises.items():
                taken = seconds(partial(drive, engine, 4, each, noise=noise, seed=f"{name} {turn}"))
                rates[name] += [4 * each / taken] if turn else []  # the first round builds tables
    exact, float_ = max(rates["exact"]), max(rates["float"])
    row = ("samples/s, k = 5: rounded-gaussian, gaussian", round(exact), round(float_), round(exact / float_, 3))
    return [row], [Figure("rate with exact noise / with float noise, k = 5", exact / float_, at_least=0.96)]


def member_passes(ensemble: Ensemble, batch: Tensor, times: int) -> None:
    """Run the forward pass of every member, and nothing else."""
    for _ in range(times):
        for member in ensemble.members:
            member.form(batch)
    synchronise(ensemble.device)


def optimisation(options: argparse.Namespace) -> Measured:
    """The optimised form of a member, compared with the plain eager network: in a script of its own, and here."""
    network = networks(1)[0]
    member = ensemble_of([network], options).members[0]
    plain = network.eval().to(options.device)
    batch = torch.rand(256, *SHAPE, device=options.device)
    count = max(2, options.samples // 256)

    def optimised() -> None:
        for _ in range(count):
            member.form(batch)
        synchronise(member.form.device)

    optimised()
    rows: list[Row] = []
    ratios = []
    with script() as process:

        def scripted() -> float:
            return process.submit(eager_seconds, plain, batch, count).result()

        def threaded() -> float:
            return beside.submit(eager_seconds, plain, batch, count).result()

        scripted()
        taken = {
            "as a script runs them": [(seconds_here(optimised), scripted()) for _ in range(ROUNDS)],
            "in a thread, as the engine runs them": [(seconds(optimised), threaded()) for _ in range(ROUNDS)],
        }
    for where, pairs in taken.items():
        fast, slow = (count * 256 / min(column) for column in zip(*pairs, strict=True))
        ratios.append(fast / slow)
        what = f"images/s, {member.form.kind} form, plain eager, {where}"
        rows.append((what, round(fast), round(slow), round(fast / slow, 3)))
    return rows, [
        Figure("optimised form / plain eager, as a script runs them", ratios[0], at_least=1.5),
        Figure("optimised form / plain eager, in a thread", ratios[1]),
    ]


def eager_seconds(network: nn.Module, batch: Tensor, times: int) -> float:
    """The time of plain forward passes."""

    def passes() -> None:
        with torch.inference_mode():
            for _ in range(times):
                network(batch)
        synchronise(batch.device)

    return seconds_here(passes)


class HalfSpace(nn.Module):
    """Class 1 above a plane through the middle grey and class 0 below it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        direction = torch.randn(3 * 8 * 8)
        self.direction = nn.Parameter(direction / direction.norm())

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 2]."""
        side = (x.flatten(1) - 0.5) @ self.direction
        return torch.stack([-side, side], dim=1)


def margins(n: int) -> list[float]:
    """The distances of n images to the plane, as ResNets have them on CIFAR-10: a tenth negative, the rest up to 1."""
    return [-0.1 + 1.1 * (i + 0.5) / n for i in range(n)]


def packing(options: argparse.Namespace) -> Measured:
    """The fill of the batches with sequential procedures."""
    network = HalfSpace()
    rows: list[Row] = []
    figures = []
    goals = {(64, 256, False): 0.85, (64, 256, True): 0.80}
    for count, batch, callers in (
        (64, 256, False),
        (64, 256, True),
        (16, 256, False),
        (64, 128, False),
        (64, 512, False),
    ):
        made = assemble([network], classes=("0", "1"), input_shape=(3, 8, 8), batch=batch, device=options.device)
        images = [(0.5 + m * network.direction.detach()).view(3, 8, 8).clamp(0, 1) for m in margins(count)]
        with Engine(made, batch=batch) as engine:
            submit_all(engine, images, from_callers=callers)
            fill = engine.workload.fill
            what = f"{count} images, batch {batch}" + (", a caller each" if callers else "")
            rows.append((f"fill, {what}", engine.workload.rows, engine.workload.capacity, round(fill, 3)))
        figures.append(Figure(f"mean fill, {what}", fill, at_least=goals.get((count, batch, callers))))
    return rows, figures


def submit_all(engine: Engine, images: list[Tensor], *, from_callers: bool) -> None:
    """Submit all images from one thread, or each from a thread of its own, and wait."""

    def certify(i: int) -> None:
        engine.submit(procedure(), images[i], NOISE, f"seed {i}").result()

    def procedure() -> Procedure:
        return Question(NOISE, Sequential(), RADIUS).start()

    procedure()  # builds the boundaries, which are then cached
    if from_callers:
        threads = [threading.Thread(target=certify, args=(i,)) for i in range(len(images))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        for handle in [engine.submit(procedure(), image, NOISE, f"seed {i}") for i, image in enumerate(images)]:
            handle.result()


class Agreeing(nn.Module):
    """A network with the cost of a ResNet20 whose answers mostly agree with those of other seeds.

    The answers come from a linear read-out that all seeds share, with a small jitter of its own.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        shared = torch.randn(3 * 32 * 32, 10)
        torch.manual_seed(1000 + seed)
        self.network = resnet20()
        self.readout = nn.Parameter(shared + 0.25 * torch.randn(3 * 32 * 32, 10))

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, 10]."""
        return (x - 0.5).flatten(1) @ self.readout + 0.0 * self.network(x)  # type: ignore[no-any-return]


def consensus(options: argparse.Namespace) -> Measured:
    """The share of the members' evaluations, and of the time, that K-consensus saves."""
    full = ensemble_of([Agreeing(seed) for seed in range(10)], options)
    five = full.with_(consensus=5)
    each = options.samples // 8
    with Engine(full, batch=256) as engine:
        drive(engine, 1, 256)
        drive(engine, 1, 256, five)
        pairs = [
            (seconds(lambda: drive(engine, 4, each, five)), seconds(lambda: drive(engine, 4, each)))
            for _ in range(ROUNDS)
        ]
        evaluations = sum(drive(engine, 4, each, five))
    total, kcr = 4 * each, agreement(five, 4, each)
    saved, predicted = 1 - evaluations / (10 * total), kcr * 5 / 10
    times = [round(min(column), 2) for column in zip(*pairs, strict=True)]
    time_saved = 1 - times[0] / times[1]
    rows: list[Row] = [
        ("evaluations, k = 10: K = 5, all", evaluations, 10 * total, round(1 - saved, 3)),
        ("seconds, k = 10: K = 5, all", *times, round(1 - time_saved, 3)),
    ]
    return rows, [
        Figure("KCR, share of samples decided by K = 5 of 10", kcr),
        Figure("evaluations saved / predicted by the KCR", saved / predicted, at_least=0.999),
        Figure("time saved / evaluations saved", time_saved / saved, at_least=0.85),
    ]


def agreement(ensemble: Ensemble, images: int, samples: int) -> float:
    """The share of the samples of `drive` on which the first K members agree, computed without the engine."""
    agreed = 0
    for i, image in enumerate(fixed_images(ensemble, images)):
        noisy = torch.empty(samples, *SHAPE, device=ensemble.device)
        NoisyImage(NOISE, image.to(ensemble.device), "seed", i).sample(noisy, 0)
        outputs = ensemble.logits(noisy)[: ensemble.consensus]
        classes = outputs.argmax(-1)
        agreed += int((classes == classes[0]).all(0).sum())
    return agreed / (images * samples)


def repeatability(options: argparse.Namespace) -> Measured:
    """The samples whose class depends on the shape of the slices, by rounding: a handful in a million."""
    noisy = noisy_samples(10 * options.samples)
    found, slices = {}, {}
    for batch in (32, 128, 256):
        member = load(SHIPPED, batch=batch, device=options.device).first_k(1)
        slices[batch] = member.members[0].form.shape[0]
        found[batch] = torch.cat([member.classify(part).classes for part in torch.split(noisy, batch)])
    differ = {batch: int((found[batch] != found[256]).sum()) for batch in (32, 128)}
    rows: list[Row] = [
        (
            f"classes that differ, slices of {slices[batch]} (batch {batch}) and {slices[256]} (256)",
            count,
            len(noisy),
            f"{count / len(noisy):.1e}",
        )
        for batch, count in differ.items()
    ]
    worst = 1e6 * max(differ.values()) / len(noisy)
    return rows, [Figure("samples per million whose class differs between shapes", worst, at_most=100)]


def noisy_samples(count: int) -> Tensor:
    """At most `count` noisy copies of the shipped images, equally many of each."""
    images = load_images(ZOO / "cifar10-test-100.json")
    each = count // len(images)
    noisy = torch.empty(each * len(images), *SHAPE)
    for i, pixels in enumerate(torch.from_numpy(images.pixels).float() / 255):
        NoisyImage(NOISE, pixels, "repeatability", i).sample(noisy[i * each : (i + 1) * each], 0)
    return noisy


def drive(
    engine: Engine,
    images: int,
    samples: int,
    ensemble: Ensemble | None = None,
    *,
    noise: Noise = NOISE,
    seed: str = "seed",
) -> list[int]:
    """Draw samples for several images at once; return the evaluations of each."""

    def draw_only() -> Procedure:
        counts = yield from draw(samples)
        return Verdict(None, 0.0, None, samples, "exhausted", (), counts)

    handles = [
        engine.submit(draw_only(), image, noise, seed, index=i, ensemble=ensemble)
        for i, image in enumerate(fixed_images(engine.ensemble, images))
    ]
    return [handle.result().evaluations for handle in handles]


def fixed_images(ensemble: Ensemble, count: int) -> list[Tensor]:
    """8-bit images of random colours, the same for every call."""
    torch.manual_seed(1)
    return list(torch.randint(0, 256, (count, *ensemble.input_shape)).float() / 255)


def seconds_here(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def seconds(work: Callable[[], object]) -> float:
    """The time in a thread of its own, like that of the engine."""
    return seconds_here(lambda: beside.submit(work).result())


def synchronise(device: torch.device) -> None:
    """Wait until a GPU has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
