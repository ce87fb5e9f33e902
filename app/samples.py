"""The images that come with the service: tiles of one picture, with the class of each in a JSON file beside it."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from PIL import Image

SHIPPED = Path(__file__).parents[1] / "models" / "zoo" / "cifar10-test-100.json"


@dataclass(frozen=True)
class Samples:
    """What is known of all of them; `labels` has the class of each, and is empty where none were shipped."""

    shape: tuple[int, ...] = ()
    """Channels, height, width."""
    classes: tuple[str, ...] = ()
    labels: tuple[int, ...] = ()

    def to_json(self) -> str:
        """For the page."""
        return json.dumps(asdict(self))


@lru_cache
def samples(path: Path = SHIPPED) -> Samples:
    """The samples; none where the file is not there, as in an image of the API alone."""
    if not path.is_file():
        return Samples()
    said = json.loads(path.read_text())
    return Samples(tuple(said["shape"]), tuple(said["classes"]), tuple(said["labels"]))


@lru_cache(maxsize=128)
def png(index: int, path: Path = SHIPPED) -> bytes:
    """One of them, as a file of its own."""
    _, height, width = samples(path).shape
    file = io.BytesIO()
    with Image.open(path.with_suffix(".png")) as sheet:
        row, column = divmod(index, sheet.width // width)
        left, top = column * width, row * height
        sheet.crop((left, top, left + width, top + height)).save(file, "PNG")
    return file.getvalue()
