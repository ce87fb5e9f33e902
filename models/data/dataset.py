"""What a data set is to the trainer and to the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from torch import Tensor

from models.data.images import Images
from models.selection import Selection


class DataSet(Protocol):
    """A data set that networks are trained on. Shape and classes are those of the images that it loads."""

    @property
    def name(self) -> str:
        """The name by which records call it."""

    @property
    def files(self) -> str:
        """The files by which a folder of it is recognised, in words."""

    @property
    def architecture(self) -> str:
        """The network that is trained on it unless another is named."""

    @property
    def holdout(self) -> Selection:
        """The test images that judge members during training; they must not serve for evaluation."""

    def recognises(self, folder: Path) -> bool:
        """Whether the folder holds this data set."""

    def load(self, folder: Path, *, train: bool) -> Images:
        """All training or all test images of such a folder, in the original order."""

    def augment(self, pixels: Tensor) -> Tensor:
        """A batch for training: uint8 [N, C, H, W] to float32 in [0, 1], channels-last, possibly at random."""
