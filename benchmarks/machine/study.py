"""A study: its recording against the bare forward passes, the time of all analyses, and its memory.

Rounds of both alternate on the same samples, so that a change of the machine's pace falls on both.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import torch

from benchmarks.result import Figure, Result
from models.data.choice import chosen_images
from models.registry import ZOO, describe, load
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.study.logits import LogitTapes
from smoothcert.engine.study.samples import About, Samples
from smoothcert.engine.study.study import analyse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ensemble", default="cifar10-resnet20-gaussian-0.25")
    parser.add_argument("--zoo", type=Path, default=ZOO)
    parser.add_argument("--images", default="0:4", help="images that are recorded, like 0:4")
    parser.add_argument("--samples", type=int, default=2_000, help="samples of each image")
    parser.add_argument(
        "--tapes", type=Path, help="a folder `tapes` of a study, for the analyses; by default the new one"
    )
    parser.add_argument("--analysed", default=None, help="the images of that study (default: those that are recorded)")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--precision", default="float32", help="of the members, for both and in that study")


def run(options: argparse.Namespace) -> Result:
    description = describe(options.ensemble, zoo=options.zoo)
    ensemble = load(options.ensemble, zoo=options.zoo, batch=options.batch, precision=options.precision)
    images = chosen_images(options.images, description)
    pixels = list(torch.from_numpy(images.pixels))
    bare(ensemble, options.batch, options.batch)  # warm
    with tempfile.TemporaryDirectory() as folder:
        tapes = LogitTapes(Path(folder), ensemble, description.noise, options.samples, options.batch)
        plain, recorded = [], []
        for image, index in zip(pixels, images.indices.tolist(), strict=True):
            plain.append(bare(ensemble, options.samples, options.batch))
            began = time.perf_counter()
            list(tapes.record([image], [index]))
            recorded.append(time.perf_counter() - began)
        chosen = images if options.analysed is None else chosen_images(options.analysed, description)
        read = tapes
        if options.tapes:
            read = LogitTapes(options.tapes, ensemble, description.noise, options.samples, options.batch)
        shown = list(torch.from_numpy(chosen.pixels))
        began = time.perf_counter()
        samples = Samples.of(
            About(options.ensemble, chosen.name),
            description.noise,
            chosen.labels.tolist(),
            chosen.indices.tolist(),
            lambda place: read.read(shown[place], int(chosen.indices[place])),
            weights=None if ensemble.weights is None else [ensemble.weights[m.digest] for m in ensemble.members],
        )
        analyse(samples).write(Path(folder) / "report")
        analysis = time.perf_counter() - began
    passes = len(ensemble.members) * options.samples
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return Result(
        name="study",
        compares=f"a study of {options.ensemble} with the bare forward passes of its members",
        columns=("", "seconds", "forward passes/s"),
        rows=[
            ("bare forward passes, an image", round(min(plain), 2), round(passes / min(plain))),
            ("recording, an image", round(min(recorded), 2), round(passes / min(recorded))),
            (f"all analyses, {len(chosen)} images", round(analysis, 1), ""),
        ],
        figures=[
            Figure("recording / bare forward passes", min(recorded) / min(plain), at_most=1.1),
            Figure("all analyses, s", analysis, at_most=180),
            Figure("memory of the process, MB", memory, at_most=1000),
        ],
        notes=[f"{options.samples:,} samples of each image; the best of {len(pixels)} rounds."],
    )


@torch.inference_mode()
def bare(ensemble: Ensemble, samples: int, batch: int) -> float:
    """The seconds in which all members see so many samples, in batches that are there already."""
    images = torch.rand(batch, *ensemble.input_shape)
    began = time.perf_counter()
    for start in range(0, samples, batch):
        for member in ensemble.members:
            member.form(images[: min(batch, samples - start)])
    return time.perf_counter() - began
