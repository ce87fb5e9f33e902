"""An ensemble: members in ranked order, and how they arrive at one class.

Without consensus, the class of an image is the full vote of all k members. With K-consensus, it is the class of the
first K members where these agree, and the full vote elsewhere. This is another base classifier, so K belongs in the
certificate. Ties break to the lowest class index. An image has no class, which is the index `len(classes)`, where a
member of the vote gave a logit that is not finite.

Members are asked in ranked order, and an image is left out as soon as those to come cannot change its class; see
`engine.poll`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import EllipsisType

import torch
from torch import Tensor, nn

from smoothcert.engine.arithmetic import arithmetic
from smoothcert.engine.composition import check_classes, check_consensus, check_members, check_voting, check_weights
from smoothcert.engine.errors import BatchError, MemberError
from smoothcert.engine.exits import Limits, check_limits
from smoothcert.engine.form import Form, prepare, resize
from smoothcert.engine.identity import Identity, ensemble_digest, network_digest
from smoothcert.engine.libraries import versions_of
from smoothcert.engine.magnitude import is_finite, within_reach
from smoothcert.engine.poll import UNDECIDED, Poll, Polled
from smoothcert.engine.voting import vote
from smoothcert.noise import Noise
from smoothcert.procedures import Superclass


@dataclass(frozen=True)
class Member:
    """A network of an ensemble, and the form in which it is run."""

    name: str
    identity: Identity
    network: nn.Module
    form: Form

    @property
    def digest(self) -> str:
        """The digest of its identity."""
        return self.identity.digest

    @cached_property
    def finite(self) -> bool:
        """Whether its logits are known to be finite for every image `within_reach`."""
        return is_finite(self.network, self.form.dtype, self.form.shape[1:])


@dataclass(frozen=True)
class Classified:
    """Classes, int64 [N], and the number of evaluations of a member on an image."""

    classes: Tensor
    evaluations: int


@dataclass(frozen=True)
class Ensemble:
    """Networks that vote.

    `members` are in ranked order, best first; `weights` are by member digest. `noise` is what they were trained for,
    None where that is unknown. An ensemble is read-only and may be used from several threads.
    """

    name: str
    members: tuple[Member, ...]
    classes: tuple[str, ...]
    input_shape: tuple[int, int, int]
    noise: Noise | None = None
    voting: str = "soft"
    consensus: int | None = None
    weights: Mapping[str, float] | None = None
    named: bool = True
    """Whether the classes have names; otherwise `classes` are their numbers, and certificates give no names."""
    limits: Limits | None = None
    """The range to which all logits are limited, NaN to its lower end; then every vote may end early."""
    superclasses: tuple[tuple[Superclass, ...], ...] = ()
    """Levels of superclasses that are declared for `hierarchy`. They change no class, so no digest covers them."""

    def __post_init__(self) -> None:
        digests = [member.digest for member in self.members]
        check_members(digests)
        check_classes(self.classes)
        check_consensus(self.consensus, members=len(self.members))
        check_weights(self.weights, digests)
        check_voting(self.voting, self.weights)
        check_limits(self.limits)

    @cached_property
    def digest(self) -> str:
        """sha256 of all that defines the members' logits and their meaning; see `ensemble_digest`."""
        identities = [member.identity for member in self.members]
        return ensemble_digest(identities, self.classes, self.input_shape, self.weights, self.limits)

    def class_name(self, index: int) -> str | None:
        return self.classes[index] if self.named else None

    @property
    def device(self) -> torch.device:
        return self.members[0].form.device

    @property
    def precision(self) -> str:
        """The name of the dtype in which the members run."""
        return str(self.members[0].form.dtype).removeprefix("torch.")

    @property
    def arithmetic(self) -> dict[str, str]:
        """Everything besides the precision on which the last bits of the logits depend: the device and runtimes."""
        found = arithmetic(self.device)
        for member in self.members:
            found |= member.form.versions
        # A version does not tell what computes the members of torch: an ONNX file names that of onnxruntime, too.
        stated = {} if self.runtime == "torch" else {"runtime": self.runtime}
        return found | stated | self.libraries

    @property
    def libraries(self) -> dict[str, str]:
        """The versions of the libraries, beside torch, that compute the logits of members."""
        return versions_of(network for member in self.members for network in (member.network, member.form.network))

    @property
    def runtime(self) -> str:
        """What computes the members: torch, unless another runtime computes one of them."""
        return next((name for member in self.members for name in member.form.versions), "torch")

    @property
    def stages(self) -> tuple[int, ...]:
        """The numbers of members after which images may be decided; the first see every image, the last is k."""
        return self._poll.stages

    @property
    def view(self) -> tuple[object, ...]:
        """What tells the networks of this view apart from those of another, as long as both are alive."""
        return (tuple(id(member) for member in self.members), self.voting, self.consensus, self.limits)

    @torch.inference_mode()
    def classify(self, batch: Tensor) -> Classified:
        """The class of each image of a batch [N, C, H, W]: `ask`, until all are decided.

        This reads one number back from the device for each stage: how many images are left. An engine that packs those
        images across batches asks stage by stage itself.
        """
        polled = self.ask(batch)
        classes, outputs, evaluations = polled.classes, polled.outputs, self.stages[0] * len(batch)
        left = torch.arange(len(batch), device=classes.device)
        while len(still := (polled.classes == UNDECIDED).nonzero().squeeze(1)):
            left, outputs = left[still], outputs[:, still]
            before = len(outputs)
            polled = self.ask(batch.to(left.device)[left], outputs)
            outputs = polled.outputs
            evaluations += (len(outputs) - before) * len(left)
            classes = classes.index_copy(0, left, polled.classes)
        return Classified(classes, evaluations)

    @torch.inference_mode()
    def ask(self, batch: Tensor, outputs: Tensor | None = None) -> Polled:
        """Run members up to the next stage; `outputs` [m, N, C] are the logits of the m members before them."""
        self._check(batch)
        before = 0 if outputs is None else self._check_outputs(outputs, len(batch))
        after = next(stage for stage in self.stages if stage > before)
        new = self._outputs(self.members[before:after], batch)
        outputs = new if outputs is None else torch.cat([outputs, new])
        reached = within_reach(batch).to(outputs.device) if self._poll.cautious and after < len(self.members) else None
        return Polled(self._poll.decide(outputs, reached), outputs)

    @torch.inference_mode()
    def vote(self, outputs: Tensor) -> Tensor:
        """The full vote, int64 [N], of members whose logits [k, N, C] are known."""
        if len(outputs) != len(self.members):
            raise BatchError(f"a full vote takes the logits of {len(self.members)} members; got {len(outputs)}")
        return vote(self.voting, outputs, self._weights)

    @torch.inference_mode()
    def logits(self, batch: Tensor) -> Tensor:
        """The logits of every member, float32 [k, N, C]."""
        self._check(batch)
        return self._outputs(self.members, batch)

    def with_(self, *, voting: str | None = None, consensus: int | EllipsisType | None = ...) -> Ensemble:
        """The same members under another voting rule or another K; `consensus=None` is the full vote."""
        k = self.consensus if isinstance(consensus, EllipsisType) else consensus
        return replace(self, voting=voting or self.voting, consensus=k)

    def first_k(self, k: int) -> Ensemble:
        """The ensemble of the k best members."""
        if not 1 <= k <= len(self.members):
            raise MemberError(f"the number of best members must be in 1..{len(self.members)}; got {k}")
        best = self.members[:k]
        weights = None if self.weights is None else {member.digest: self.weights[member.digest] for member in best}
        return replace(self, members=best, weights=weights)

    def resized(self, batch: int) -> Ensemble:
        """The same networks, not copies, ready for another number of images at a time."""
        return replace(self, members=tuple(self._resize(member, batch) for member in self.members))

    def _resize(self, member: Member, batch: int) -> Member:
        return replace(member, form=resize(member.form, batch, name=member.name, classes=len(self.classes)))

    def _check(self, batch: Tensor) -> None:
        if batch.dim() != 4 or tuple(batch.shape[1:]) != self.input_shape:
            raise BatchError(f"the batch has shape {tuple(batch.shape)}; {self.name} takes (N, {self._shape_text})")
        if not batch.is_floating_point():
            raise BatchError(f"the batch has dtype {batch.dtype}; {self.name} takes floating-point pixels")

    @property
    def _shape_text(self) -> str:
        return ", ".join(map(str, self.input_shape))

    def _check_outputs(self, outputs: Tensor, rows: int) -> int:
        """The number of members whose logits these are."""
        seen, tail = tuple(outputs.shape), (rows, len(self.classes))
        if outputs.dim() != 3 or seen[1:] != tail or seen[0] not in self.stages[:-1]:
            stages = " or ".join(map(str, self.stages[:-1])) or "no"
            raise BatchError(f"outputs must be those of {stages} members, of shape {tail}; got {seen}")
        return len(outputs)

    def _outputs(self, members: Sequence[Member], batch: Tensor) -> Tensor:
        outputs = torch.stack([member.form(batch) for member in members])
        if self.limits is None:
            return outputs
        low, high = torch.tensor(self.limits, dtype=torch.float32).tolist()  # the same numbers as in `exits.bounds`
        return outputs.nan_to_num(nan=low).clamp(low, high)

    @cached_property
    def _poll(self) -> Poll:
        sure = lambda place: self.members[place].finite  # noqa: E731
        return Poll(self.voting, self.consensus, self._weights, self.limits, sure)

    @cached_property
    def _weights(self) -> Tensor:
        weights = self.weights or {}
        return torch.tensor([weights.get(member.digest, 1.0) for member in self.members]).to(self.device)


def assemble(
    networks: Sequence[nn.Module],
    *,
    classes: Sequence[str],
    input_shape: tuple[int, int, int],
    name: str = "unnamed",
    noise: Noise | None = None,
    voting: str = "soft",
    consensus: int | None = None,
    batch: int = 256,
    device: str = "cpu",
    precision: str = "float32",
    optimise: bool = True,
    runtime: str = "torch",
) -> Ensemble:
    """An ensemble of networks that are in memory, best first; a member's digest is its `network_digest`."""
    members = []
    for place, network in enumerate(networks):
        form = prepare(
            network,
            name=f"{name}/{place}",
            classes=len(classes),
            input_shape=input_shape,
            batch=batch,
            device=device,
            precision=precision,
            optimise=optimise,
            runtime=runtime,
        )
        identity = Identity(type(network).__qualname__, network_digest(network))
        members.append(Member(f"{name}/{place}", identity, network, form))
    return Ensemble(name, tuple(members), tuple(classes), input_shape, noise, voting, consensus)
