"""The sample images that come with the service: tiles of one PNG, described by a JSON file beside it."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from PIL import Image

SHIPPED = Path(__file__).parents[1] / "models" / "zoo" / "cifar10-test-100.json"
"""The description of the images; their pixels are in the PNG of the same name."""


@dataclass(frozen=True)
class Samples:
    """The description of all samples; empty if none were shipped."""

    shape: tuple[int, ...] = ()
    """Channels, height, width."""
    classes: tuple[str, ...] = ()
    labels: tuple[int, ...] = ()
    """The class of each image."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@lru_cache
def samples(path: Path = SHIPPED) -> Samples:
    """The samples; none if the file does not exist, as in a container image of the API alone."""
    if not path.is_file():
        return Samples()
    description = json.loads(path.read_text())
    return Samples(tuple(description["shape"]), tuple(description["classes"]), tuple(description["labels"]))


@lru_cache(maxsize=128)
def png(index: int, path: Path = SHIPPED) -> bytes:
    """One sample as a PNG file; the tiles are numbered row by row."""
    _, height, width = samples(path).shape
    file = io.BytesIO()
    with Image.open(path.with_suffix(".png")) as sheet:
        row, column = divmod(index, sheet.width // width)
        left, top = column * width, row * height
        sheet.crop((left, top, left + width, top + height)).save(file, "PNG")
    return file.getvalue()
