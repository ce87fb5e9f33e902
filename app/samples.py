"""The sample images that come with the service: sheets of tiles, each a PNG described by a JSON file beside it."""

from __future__ import annotations

import io
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from PIL import Image

ZOO = Path(__file__).parents[1] / "models" / "zoo"
"""The folder of the sheets; it is missing in a container image of the API alone."""


@dataclass(frozen=True)
class SampleSheet:
    """The description of one sheet."""

    name: str
    shape: tuple[int, ...]
    """Channels, height, width."""
    classes: tuple[str, ...]
    labels: tuple[int, ...]
    """The class of each image."""


@lru_cache
def sheets(folder: Path = ZOO) -> dict[str, SampleSheet]:
    found = {}
    for path in sorted(folder.glob("*.json")):
        description = json.loads(path.read_text())
        shape, classes, labels = (tuple(description[key]) for key in ("shape", "classes", "labels"))
        found[path.stem] = SampleSheet(path.stem, shape, classes, labels)
    return found


def listed(folder: Path = ZOO) -> str:
    return json.dumps({"data": [asdict(sheet) for sheet in sheets(folder).values()]})


@lru_cache(maxsize=256)
def png(name: str, index: int, folder: Path = ZOO) -> bytes:
    """One sample of a sheet as a PNG file; the tiles are numbered row by row."""
    _, height, width = sheets(folder)[name].shape
    file = io.BytesIO()
    with Image.open(folder / f"{name}.png") as sheet:
        row, column = divmod(index, sheet.width // width)
        left, top = column * width, row * height
        sheet.crop((left, top, left + width, top + height)).save(file, "PNG")
    return file.getvalue()
