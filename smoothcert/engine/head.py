"""The last layer of a network, whose weights tell the number of classes."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from smoothcert.engine.errors import ClassCountError
from smoothcert.figures import counted


def require_classes(network: nn.Module, weights: Mapping[str, Tensor], classes: int) -> None:
    """Raise ClassCountError if the weights fit the network but for the number of its classes.

    The network was made for `classes`, possibly without memory. Weights that do not fit in another way pass: what
    loads them says why they do not.
    """
    made = network.state_dict()
    shapes = [(made[name].shape, each.shape) for name, each in weights.items() if name in made]
    differing = [(ours, theirs) for ours, theirs in shapes if ours != theirs]
    outputs = {tuple(theirs[:1]) for _, theirs in differing}
    if len(outputs) == 1 and all(ours == (classes, *theirs[1:]) for ours, theirs in differing):
        ((seen,),) = outputs
        raise ClassCountError(f"the network has {counted(seen, 'output')}, and there are {classes:,} class names")
