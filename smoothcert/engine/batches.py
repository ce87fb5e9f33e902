"""Images and labels as users hold them: tensors, arrays, lists, loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from smoothcert.engine.errors import PixelsError
from smoothcert.engine.normalisation import Normalisation
from smoothcert.errors import DomainError
from smoothcert.labels import class_number

P = ParamSpec("P")
T = TypeVar("T")

USUAL = {
    "ImageNet's": Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "CIFAR-10's": Normalisation((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "MNIST's": Normalisation((0.1307,), (0.3081,)),
    "[-1, 1]": Normalisation((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
}
"""The normalisations that most models are trained with, by the data set or range that they belong to."""


LEAST_BYTE = 8
"""Images whose values end below this are not taken for 8-bit ones not divided by 255, which would be black."""


def as_images(images: Any) -> Tensor:
    """Images as a tensor [N, C, H, W], uint8 or floating-point in [0, 1]; one image [C, H, W] is a batch of one.

    Tensors, numpy arrays and sequences of them are accepted. PixelsError names what was seen instead.
    """
    if isinstance(images, Sequence) and not isinstance(images, str | bytes):
        if not images:
            raise PixelsError("there are no images: the sequence is empty")
        tensors = [_tensor(image) for image in images]
        if len(shapes := {tuple(tensor.shape) for tensor in tensors}) > 1:
            raise PixelsError(f"the images have different shapes: {', '.join(map(str, sorted(shapes)))}")
        tensor = torch.stack(tensors)
    else:
        tensor = _tensor(images)
        tensor = tensor.unsqueeze(0) if tensor.dim() == 3 else tensor
    if tensor.dim() != 4:
        raise PixelsError(f"images must have the shape [N, C, H, W] or [C, H, W], got {tuple(tensor.shape)}")
    if not tensor.numel():
        raise PixelsError(f"there are no images: the shape is {tuple(tensor.shape)}")
    _require_range(tensor)
    return tensor


def as_float(images: Tensor) -> Tensor:
    """The pixels as float32 in [0, 1]."""
    return images.to(torch.float32) / 255 if images.dtype == torch.uint8 else images.to(torch.float32)


def as_labels(labels: Any, *, images: int, classes: Sequence[str]) -> list[int]:
    """One class number for each image, from names or numbers; DomainError names the first that is wrong."""
    values = labels.tolist() if isinstance(labels, Tensor | np.ndarray) else labels
    if isinstance(values, int | str):
        values = [values]
    if not isinstance(values, Iterable) or isinstance(values, bytes):
        raise DomainError(f"labels must be a sequence of classes, by name or number, got {type(labels).__name__}")
    found = [class_number(value, classes) for value in values]
    if len(found) != images:
        raise DomainError(f"there are {len(found)} labels for {images} images; there must be one for each")
    return found


def refusing_labels(evaluate: Callable[P, T]) -> Callable[P, T]:
    """The method, which says where labels belong if they are given apart from the images."""

    @wraps(evaluate)
    def called(*positional: P.args, **named: P.kwargs) -> T:
        second = positional[2] if len(positional) > 2 else named.get("labels")
        if isinstance(second, Tensor | np.ndarray | Sequence) and not isinstance(second, str | bytes):
            raise TypeError(
                f"images and labels go in one pair: {evaluate.__name__}((images, labels), radius=...); got a second "
                f"argument of type {type(second).__name__} in place of a radius"
            )
        return evaluate(*positional, **named)

    return called


def image_batches(source: Any) -> Iterator[Tensor]:
    """Batches [N, C, H, W] of a loader or an iterable, which yields images, batches of them, or (images, labels)."""
    for item in _items(source):
        yield as_images(item[0] if _is_pair(item) or _is_alone(item) else _require_images(item))


def labelled_batches(source: Any) -> Iterator[tuple[Tensor, Any]]:
    """Batches [N, C, H, W] and their labels, of a loader that yields (images, labels) or of one such pair."""
    for item in [source] if _is_pair(source) else _items(source):
        if not _is_pair(item):
            raise DomainError(f"the loader must yield pairs (images, labels), and it yields {_described(item)}")
        yield as_images(item[0]), item[1]


def count_images(source: Any) -> int | None:
    """How many images a source holds, where it says so."""
    if _is_pair(source):
        return len(as_images(source[0]))
    held = source if isinstance(source, Tensor | np.ndarray) else getattr(source, "dataset", None)
    try:
        return len(held)  # type: ignore[arg-type]
    except TypeError:
        return None


def _tensor(image: Any) -> Tensor:
    if isinstance(image, np.ndarray):
        return _of_array(image)
    if not isinstance(image, Tensor):
        raise PixelsError(
            f"images must be tensors or numpy arrays in the order C, H, W, got {type(image).__module__}."
            f"{type(image).__qualname__}"
        )
    return image.detach()


def _of_array(image: np.ndarray[Any, Any]) -> Tensor:
    native = image.astype(image.dtype.newbyteorder("="), copy=False)  # torch has no numbers of another byte order
    try:
        return torch.from_numpy(np.require(native, requirements=["C", "W"]))  # torch warns of arrays that are read-only
    except TypeError as error:
        raise PixelsError(
            f"the images have the numpy dtype {image.dtype}; it must be uint8, or floating-point in [0, 1]"
        ) from error


def _require_range(images: Tensor) -> None:
    """Refuse pixels outside [0, 1] with a sentence that says how they may have come about."""
    if not images.is_floating_point():
        return
    low, high = float(images.min()), float(images.max())
    if not (low < 0 or high > 1):  # NaN passes here and is refused with the place of the image
        return
    seen = f"the images have values from {low:.9g} to {high:.9g}; they must lie in [0, 1]"
    if low > -0.01 and high < 1.01:
        raise PixelsError(f"{seen}: clamp them, since they leave it by rounding alone")
    if low >= 0 and LEAST_BYTE <= high <= 255:
        raise PixelsError(f"{seen}: divide them by 255, or pass them as uint8")
    if whose := _recognised(images):
        usual = USUAL[whose]
        raise PixelsError(
            f"{seen}. They look normalised with mean {usual.mean} and std {usual.std}: leave the normalisation out of "
            f"the loader and pass it to Smoothed as mean= and std="
        )
    raise PixelsError(
        f"{seen}: noise is added before any normalisation, so leave the normalisation out of the loader and pass it "
        f"to Smoothed as mean= and std="
    )


def _recognised(images: Tensor) -> str | None:
    """The usual normalisation that explains the values: undoing it fills [0, 1] and does not leave it."""
    for whose, usual in USUAL.items():
        if images.shape[1] != len(usual.mean):
            continue
        mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (usual.mean, usual.std))
        undone = images.float().cpu() * std + mean
        if -0.01 <= float(undone.min()) < 0.05 and 0.95 < float(undone.max()) <= 1.01:
            return whose
    return None


def _items(source: Any) -> Iterable[Any]:
    if not isinstance(source, Iterable) or isinstance(source, str | bytes | Mapping):
        raise DomainError(f"images must come from a loader or another iterable, got {type(source).__qualname__}")
    return source


def _is_pair(item: Any) -> bool:
    """Whether an item is (images, labels); a list of two images is not."""
    if not isinstance(item, tuple | list) or len(item) != 2 or not isinstance(item[0], Tensor | np.ndarray):
        return False
    return not isinstance(item[1], Tensor | np.ndarray) or item[1].ndim < 3


def _is_alone(item: Any) -> bool:
    """Whether an item is a list of one batch, as a DataLoader of a TensorDataset without labels yields it."""
    return isinstance(item, tuple | list) and len(item) == 1 and getattr(item[0], "ndim", 0) == 4


def _require_images(item: Any) -> Any:
    if isinstance(item, Tensor | np.ndarray) or (
        isinstance(item, tuple | list) and all(getattr(each, "ndim", 0) == 3 for each in item)
    ):
        return item
    raise DomainError(f"the loader must yield images or pairs (images, labels), and it yields {_described(item)}")


def _described(item: Any) -> str:
    """The type of an item, with what is inside where that helps to find the images."""
    name = type(item).__qualname__
    if isinstance(item, Mapping):
        keys = ", ".join(map(repr, list(item)[:8]))
        return f"{name} with the keys {keys}: use ((batch[key], batch[label_key]) for batch in loader)"
    if isinstance(item, tuple | list):
        way = ": use ((batch[0], batch[1]) for batch in loader) with the places of the images and the labels"
        return f"{name} of {', '.join(map(_part, item[:8])) or 'nothing'}{way if len(item) > 1 else ''}"
    return f"a {name} without labels" if isinstance(item, Tensor | np.ndarray) else name


def _part(each: Any) -> str:
    """The type of a part of an item, with its shape where it has one."""
    name = type(each).__qualname__
    return f"{name} {list(each.shape)}" if isinstance(each, Tensor | np.ndarray) else name
