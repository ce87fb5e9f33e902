"""A first question to a service that has just started: about an ensemble that it holds, with an image that suits it."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from app import samples
from smoothcert.noise import Noise
from smoothcert.published import EnsembleList, ServedEnsemble

SAMPLE, SAMPLE_SHEET, SAMPLE_INDEX = "ship", "cifar10-test-100", 4
"""The class, sheet and index of the sample image; all members agree on it for each of 256 samples at sigma 0.25."""
LIKELY = (0.85, 0.95, 0.99, 0.999, 0.9999)
"""Values of p_A that a clear image may have; the first that proves a radius under the noise gives the radius."""
MODES = {1: "L", 3: "RGB"}
"""Pillow's mode for each number of channels."""


@dataclass(frozen=True)
class Trial:
    """A request and its image."""

    request: str
    """The fields of the request, as JSON."""
    file: str
    """The name of the file of the image."""
    image: bytes
    """The image as a PNG file."""


def shipped() -> Trial:
    """The question to the shipped ensemble, where nothing is known of the service."""
    request = json.dumps({"radius": 0.25, "procedure": "sequential"})
    return Trial(request, f"{SAMPLE}.png", samples.png(SAMPLE_SHEET, SAMPLE_INDEX))


def trials(served: EnsembleList) -> list[Trial]:
    """A question to the default ensemble, or else to the first that is ready, and to each that needs another sample."""
    ready = sorted((each for each in served.data if each.ready), key=lambda each: not each.default)
    found: dict[str, Trial] = {}
    for ensemble in ready:
        if ensemble.noise is None or ensemble.input_shape[0] not in MODES:
            continue
        file, image = _image(ensemble)
        fields = {} if len(ready) == 1 or ensemble.default else {"ensemble": ensemble.name}
        if not found or (image is not None and file not in found):
            request = json.dumps({**fields, **_question(ensemble.noise)})
            found[file] = Trial(request, file, image or _grey(ensemble.input_shape))
    return [*found.values()]


def _question(noise: Noise) -> dict[str, float | str]:
    if noise.exhaustible:
        return {"procedure": "exact"}
    found = (_rounded(noise, noise.radius(p)) for p in LIKELY)
    return {"radius": next((radius for radius in found if radius > 0), 0.0), "procedure": "sequential"}


def _rounded(noise: Noise, radius: float) -> float:
    """Down to a whole number or to two decimals."""
    return float(math.floor(radius)) if noise.whole else math.floor(radius * 100) / 100


def _image(ensemble: ServedEnsemble) -> tuple[str, bytes | None]:
    """The name and content of a file with a shipped sample of the classes of the ensemble; None for a grey image."""
    for sheet in samples.sheets().values():
        if sheet.shape == ensemble.input_shape and sheet.classes == ensemble.classes:
            index = SAMPLE_INDEX if sheet.name == SAMPLE_SHEET else 0
            return f"{_file_name(sheet.classes[sheet.labels[index]])}.png", samples.png(sheet.name, index)
    return f"grey-{ensemble.input_shape[2]}x{ensemble.input_shape[1]}.png", None


def _grey(shape: Sequence[int]) -> bytes:
    channels, height, width = shape
    file = io.BytesIO()
    Image.new(MODES[channels], (width, height), (128,) * channels if channels > 1 else 128).save(file, "PNG")
    return file.getvalue()


def _file_name(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text)
