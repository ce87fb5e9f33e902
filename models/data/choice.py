"""Images as a command names them: a path, the shipped ones, or a selection of either."""

from __future__ import annotations

import re
from pathlib import Path

from models.data import Images, load_images
from models.description import Description
from models.errors import DataError
from models.registry import ZOO
from models.selection import Selection


def chosen_images(spec: str, description: Description) -> Images:
    """`shipped` or PATH, each with or without :SELECTION, or a SELECTION of the shipped ones, like 0:50."""
    path, _, selection = spec.partition(":")
    if re.fullmatch("[0-9:,]+", spec):
        path, selection = "shipped", spec
    images = shipped_images(description) if path == "shipped" else load_images(Path(path))
    return images.pick(Selection(selection).places(len(images))) if selection else images


def shipped_images(description: Description) -> Images:
    """The images of the shipped sheet that has the shape and the classes of the ensemble."""
    for path in sorted(ZOO.glob("*.json")):
        images = load_images(path)
        if (images.shape, images.classes) == (description.input_shape, description.classes):
            return images
    raise DataError(f"no sheet in {ZOO} has images of shape {description.input_shape} in these classes: name --images")
