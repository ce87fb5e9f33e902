"""Sheets: a picture with images side by side, row after row, and a JSON file beside it:

`{"sheet", "name", "shape": [C, H, W], "labels", "indices", "classes", "sha256"}`, with the sha256 over the pixels.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from models.data.images import Images
from models.errors import DataError


def read_sheet(path: Path) -> Images:
    from PIL import Image

    index = json.loads(path.read_text())
    channels, height, width = index["shape"]
    # The picture is [rows, height, columns, width, channels]; each tile of it is an image.
    with Image.open(path.with_name(index["sheet"])) as sheet:
        rows = np.asarray(sheet.convert("RGB" if channels == 3 else "L")).reshape(
            -1, height, sheet.width // width, width, channels
        )
    tiles = rows.transpose(0, 2, 4, 1, 3).reshape(-1, channels, height, width)
    pixels = np.ascontiguousarray(tiles[: len(index["labels"])])  # the last row may have empty tiles
    if (seen := hashlib.sha256(pixels.data).hexdigest()) != index["sha256"]:
        raise DataError(f"{path}: the pixels have sha256 {seen}, not {index['sha256']}")
    labels, indices = np.array(index["labels"], np.int64), np.array(index["indices"], np.int64)
    return Images(index["name"], pixels, labels, tuple(index["classes"]), indices)


def write_sheet(images: Images, path: Path, *, columns: int = 10) -> None:
    """Write images as a lossless sheet (PNG) with its JSON file at `path`."""
    from PIL import Image

    count, channels, height, width = images.pixels.shape
    full = np.zeros((-(-count // columns) * columns, channels, height, width), np.uint8)
    full[:count] = images.pixels
    rows = full.reshape(-1, columns, channels, height, width).transpose(0, 3, 1, 4, 2)
    picture = rows.reshape(-1, columns * width, channels)
    sheet = path.with_suffix(".png")
    Image.fromarray(picture if channels == 3 else picture[..., 0]).save(sheet, optimize=True)
    index = {
        "sheet": sheet.name,
        "name": images.name,
        "shape": [channels, height, width],
        "classes": list(images.classes),
        "sha256": hashlib.sha256(np.ascontiguousarray(images.pixels).data).hexdigest(),
        "indices": images.indices.tolist(),
        "labels": images.labels.tolist(),
    }
    path.write_text(json.dumps(index, indent=1) + "\n")
