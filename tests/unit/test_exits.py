"""The early exit of a vote changes no class, and is taken where the remaining members cannot matter."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from models.lenet import MnistLeNet
from models.resnet import resnet20, resnet110
from smoothcert.engine import exits, poll
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.errors import VotingError
from smoothcert.engine.magnitude import REACH, _Magnitudes, is_finite, within_reach
from smoothcert.engine.poll import UNDECIDED, Poll
from smoothcert.engine.sampling import NoisyImage
from smoothcert.engine.voting import RULES, lowest_argmax, vote
from tests.support.engines import NOISE, SHAPE, Patches, draws, images
from tests.support.networks import Lookup, numbered

LIMITS = (-4.0, 4.0)
ROWS = 10**6


def logits(k: int, classes: int, rows: int, seed: int) -> Tensor:
    """Logits [k, rows, classes] within LIMITS of members that mostly agree, with ties, near ties and disagreement."""
    generator = torch.Generator().manual_seed(seed)
    shared = 3 * torch.randn(rows, classes, generator=generator)
    own = torch.randn(k, rows, classes, generator=generator)
    found = shared + own * torch.rand(rows, 1, generator=generator)
    found[:, : rows // 4] = found[:, : rows // 4].round()  # these are ties of logits, votes and sums
    found[:, rows // 4 : rows // 3] = torch.where(
        own[:, rows // 4 : rows // 3] > 0, 30.0, 0.0
    )  # the softmax votes are 0 and 1
    near = slice(rows // 3, rows // 2)  # the later members oppose the earlier ones as far as they can
    found[:, near] = torch.where(torch.arange(k).view(-1, 1, 1) < k // 2 + 1, found[:, near], -30 * found[:, near])
    return found


def in_stages(ballot: Poll, outputs: Tensor) -> tuple[Tensor, int]:
    """The classes of a vote that ends early, and the evaluations that it takes.

    Without limits, a row is within reach if all of its logits are finite.
    """
    within = outputs.isfinite().all(-1).all(0)
    rows = torch.arange(outputs.shape[1])
    classes, evaluations, before = torch.full_like(rows, UNDECIDED), 0, 0
    for stage in ballot.stages:
        evaluations += (stage - before) * len(rows)
        classes[rows] = ballot.decide(outputs[:stage, rows], within[rows] if ballot.cautious else None)
        rows, before = rows[classes[rows] == UNDECIDED], stage
    assert not len(rows)
    return classes, evaluations


def by_definition(voting: str, consensus: int | None, outputs: Tensor, weights: Tensor) -> Tensor:
    full = vote(voting, outputs, weights)
    if consensus is None:
        return full
    each = lowest_argmax(outputs[:consensus])
    sound = outputs[:consensus].isfinite().all(-1).all(0)
    agreed = (each == each[0]).all(0)
    return torch.where(sound, torch.where(agreed, each[0], full), outputs.shape[-1])


def made(voting: str, k: int, consensus: int | None = None, limits: tuple[float, float] | None = None) -> Poll:
    weights = torch.linspace(1.5, 0.5, k) if voting == "weighted" else torch.ones(k)
    return Poll(voting, consensus, weights, limits, lambda _: True)


CASES = [
    *((voting, k, None, None) for voting in ("hard", "softmax") for k in (5, 10)),
    *(("softmax", k, consensus, None) for k, consensus in ((5, 2), (5, 4), (5, 5), (10, 5))),
    ("hard", 5, 4, None),
    ("hard", 4, None, None),
    ("soft", 5, None, LIMITS),
    ("soft", 5, 2, LIMITS),
    ("weighted", 5, None, LIMITS),
    ("soft", 5, 2, None),
]


@pytest.mark.parametrize(("voting", "k", "consensus", "limits"), CASES)
def test_no_class_changes(voting: str, k: int, consensus: int | None, limits: tuple[float, float] | None) -> None:
    """Of a million rows, a sixth is made against the exit: the later members oppose the leader."""
    ballot = made(voting, k, consensus, limits)
    outputs = logits(k, 3, ROWS // len(CASES) + 1, seed=k + (consensus or 0))
    outputs = outputs if limits is None else outputs.clamp(*limits)
    outputs[torch.randint(k, (50,)), torch.randint(outputs.shape[1], (50,)), 0] = math.nan if limits is None else 0.0
    classes, evaluations = in_stages(ballot, outputs)
    expected = by_definition(voting, consensus, outputs, ballot.weights)
    assert torch.equal(classes, expected)
    saved = 1 - evaluations / (k * outputs.shape[1])
    assert saved > (0.02 if limits else 0.1)


class Mutant:
    """A mutant that calls leaders final too soon."""

    def __init__(self, *, grace: float = 0.0, strict: bool = True) -> None:
        self._grace, self._strict = grace, strict

    def __call__(self, rule: object, outputs: Tensor, weights: Tensor, reach: Tensor) -> tuple[Tensor, Tensor]:
        total = rule.sum(outputs, weights[: len(outputs)])  # type: ignore[attr-defined]
        first, second = total.topk(2, dim=-1).values.unbind(-1)
        left = float((reach[1] - reach[0])[len(outputs) :].sum()) - self._grace
        return lowest_argmax(total), first - second > left if self._strict else first - second >= left


@pytest.mark.parametrize("mutant", [Mutant(strict=False), Mutant(grace=0.5)])
def test_an_exit_that_ignores_ties_or_a_part_of_the_mass_is_found_out(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poll, "leaders", mutant)
    ballot, outputs = made("hard", 5), logits(5, 3, 20_000, seed=5)
    assert not torch.equal(in_stages(ballot, outputs)[0], vote("hard", outputs, ballot.weights))


def test_votes_end_by_counting_with_ties_to_the_lowest_class() -> None:
    """Of five hard votes, three for one class decide; at 2 to 1, two more could change it, unless it is the lower."""
    ballot = made("hard", 5)
    zero, one = [1.0, 0.0], [0.0, 1.0]
    rows = torch.tensor([[zero] * 3, [one] * 3, [zero, zero, one], [one, one, zero]]).transpose(0, 1)
    assert ballot.stages == (3, 4, 5)
    assert ballot.decide(rows).tolist() == [0, 1, UNDECIDED, UNDECIDED]
    four = made("hard", 4)  # 3 to 0 with one to come; 2 to 1 ends in a tie at worst, which the lower class wins
    rows = torch.tensor([[zero] * 3, [zero, zero, one], [one, one, zero]]).transpose(0, 1)
    assert four.decide(rows).tolist() == [0, 0, UNDECIDED]


def test_more_members_than_the_margin_covers_are_all_asked() -> None:
    assert len(made("softmax", 60).stages) > 1
    assert made("softmax", 61).stages == (61,)


def test_a_logit_that_is_not_finite_ends_the_vote_without_a_class() -> None:
    rows = torch.zeros(3, 1, 2)
    rows[1, 0, 1] = math.inf
    assert made("softmax", 5).decide(rows).tolist() == [2]
    assert made("softmax", 5, 4).decide(rows).tolist() == [2]


def test_before_k_members_agree_they_may_still_do() -> None:
    """The consensus of all members decides for their class even if the vote is a tie by rounding."""
    small = [[0.0, 1e-9]] * 3 + [[-90.0, 90.0]]
    outputs = torch.tensor([small]).transpose(0, 1)
    for consensus in (None, 4):
        ballot = made("softmax", 4, consensus)
        assert (
            in_stages(ballot, outputs)[0].tolist()
            == by_definition("softmax", consensus, outputs, torch.ones(4)).tolist()
        )


def test_soft_votes_end_early_only_where_logits_are_limited() -> None:
    assert made("soft", 5).stages == (5,)
    assert made("weighted", 5).stages == (5,)
    assert made("soft", 5, 2).stages == (2, 5)
    assert made("soft", 5, limits=LIMITS).stages == (3, 4, 5)
    assert made("weighted", 5, limits=LIMITS).stages == (2, 3, 4, 5)
    assert made("softmax", 10, 5).stages == (5, 6, 7, 8, 9, 10)
    assert made("softmax", 1).stages == (1,)


@pytest.mark.parametrize("rule", ["hard", "softmax"])
def test_what_a_member_adds_is_within_its_bounds(rule: str) -> None:
    outputs = torch.cat([logits(3, 4, 10_000, 1), torch.tensor([3e38, -3e38, 0.0, 3e38]).expand(3, 1, 4)], dim=1)
    terms, (least, most) = RULES[rule].terms(outputs, torch.ones(3)), RULES[rule].span or (0, 0)
    assert least <= terms.min()
    assert terms.max() <= most


@pytest.mark.parametrize("limits", [(1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1.0), (0.0, 1e7), (1.0,)])
def test_limits_must_be_two_numbers_in_order(limits: tuple[float, float]) -> None:
    with pytest.raises(VotingError, match=r"must be \[low, high\]"):
        exits.check_limits(limits)


# --- through an ensemble and the engine


@pytest.fixture(scope="module")
def five() -> Ensemble:
    networks = [Patches(seed) for seed in range(5)]
    for network in networks:  # confident members let softmax votes end early
        network.fc.weight.data *= 40
    return assemble(networks, classes=("a", "b", "c", "d"), input_shape=SHAPE, batch=32, name="patches")


@pytest.mark.parametrize("voting", ["hard", "softmax"])
@pytest.mark.parametrize("consensus", [None, 2, 4])
def test_the_engine_counts_what_the_full_vote_gives(five: Ensemble, voting: str, consensus: int | None) -> None:
    view, sizes = five.with_(voting=voting, consensus=consensus), [100, 700, 33]
    with Engine(view, batch=64) as engine:
        handles = [engine.submit(draws(*sizes), image, NOISE, "s", index=i) for i, image in enumerate(images(6))]
        found = [handle.result(60) for handle in handles]
    samples, evaluations = 6 * sum(sizes), 0
    for i, (image, sampled) in enumerate(zip(images(6), found, strict=True)):
        batches = list(noisy(image, i, sizes))
        votes = [by_definition(voting, consensus, view.logits(batch), torch.ones(5)) for batch in batches]
        assert sampled.verdict == [tuple(torch.bincount(each, minlength=5).tolist()) for each in votes]
        assert sampled.evaluations == sum(view.classify(batch).evaluations for batch in batches)
        evaluations += sampled.evaluations
    assert view.stages[0] * samples < evaluations < 5 * samples
    assert engine.workload.evaluations == evaluations


def noisy(image: Tensor, index: int, sizes: list[int]) -> Iterator[Tensor]:
    start = 0
    for size in sizes:
        out = torch.empty(size, *SHAPE)
        NoisyImage(NOISE, image, "s", index).sample(out, start)
        start += size
        yield out


def looked_up(rows: list[list[list[float]]], **options: object) -> Ensemble:
    tables = torch.tensor(rows).transpose(0, 1)
    networks = [Lookup(table, mark) for mark, table in enumerate(tables)]
    found = assemble(networks, classes="ab", input_shape=(1, 4, 4), optimise=False)
    return replace(found, **options)  # type: ignore[arg-type]


def test_a_member_that_may_answer_without_a_number_is_always_asked() -> None:
    """Mutant killed: an exit by counting alone. The last member makes the class of the second row "no class"."""
    agree = [[1.0, 0.0]] * 5
    ensemble = looked_up([agree, [*agree[:4], [math.nan, 0.0]]], voting="hard")
    assert ensemble.stages == (5,)
    assert ensemble.classify(numbered(2)).classes.tolist() == [0, 2]


def test_limits_are_part_of_the_classifier_and_its_digest() -> None:
    plain = looked_up([[[9.0, 0.0], [0.0, 3.0], [0.0, 3.0], [0.0, math.nan], [0.0, math.inf]]])
    limited = replace(plain, limits=(-1.0, 4.0))
    assert limited.logits(numbered(1))[:, 0].tolist() == [[4.0, 0.0], [0.0, 3.0], [0.0, 3.0], [0.0, -1.0], [0.0, 4.0]]
    assert plain.classify(numbered(1)).classes.tolist() == [2]
    assert limited.classify(numbered(1)).classes.tolist() == [1]
    assert limited.stages == (3, 4, 5)
    assert plain.digest != limited.digest != replace(plain, limits=(-1.0, 5.0)).digest


def test_images_beyond_reach_are_seen_by_every_member(five: Ensemble) -> None:
    view = five.with_(voting="hard")
    batch = torch.rand(8, *SHAPE)
    batch[1], batch[2, 0, 0, 0] = 10 * REACH, math.nan
    assert within_reach(batch).tolist() == [True, False, False, True, True, True, True, True]
    classes = view.ask(batch).classes
    assert classes[1] == UNDECIDED
    assert classes[2] == 4  # the first member has answered NaN


# --- networks that are known to be finite


class Divides(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) / x.flatten(1).sum(1, keepdim=True)


class Overwrites(nn.Module):
    """Reads a tensor again after `+=` has written over it under another name, which a trace does not show."""

    def __init__(self) -> None:
        super().__init__()
        self.small, self.large, self.head = (nn.Linear(size, 4, bias=False) for size in (48, 48, 4))
        for layer, weight in ((self.small, 1e-20), (self.large, 1e20), (self.head, 1e20)):
            nn.init.constant_(layer.weight, weight)

    def forward(self, x: Tensor) -> Tensor:
        hidden = out = self.small(x.flatten(1))
        out += self.large(x.flatten(1))
        return self.head(hidden)


def test_networks_of_the_zoo_are_known_to_be_finite_and_deeper_ones_are_not() -> None:
    assert is_finite(resnet20(), torch.float32, (3, 32, 32))
    assert is_finite(MnistLeNet(), torch.float32, (1, 28, 28))
    assert is_finite(resnet20(), torch.bfloat16, (3, 32, 32))
    assert not is_finite(resnet20(), torch.float16, (3, 32, 32))
    assert not is_finite(resnet110(), torch.float32, (3, 32, 32))


def test_a_network_that_can_overflow_or_divide_is_not_known_to_be_finite() -> None:
    huge, hooked, lost = (nn.Sequential(nn.Flatten(), nn.Linear(48, 4)) for _ in range(3))
    assert is_finite(huge, torch.float32, SHAPE)
    huge[1].weight.data[:] = 1e33
    lost[1].weight.data[0, 0] = math.nan
    hooked[1].register_forward_hook(lambda *_: torch.full((1, 4), math.nan))
    logarithm = nn.Sequential(nn.Flatten(), nn.Linear(48, 4), nn.LogSoftmax(1))
    for network in (huge, lost, hooked, logarithm, Divides(), Overwrites(), Lookup(torch.zeros(1, 2), 0)):
        assert not is_finite(network, torch.float32, SHAPE)
    assert not Overwrites()(torch.ones(1, *SHAPE)).isfinite().any()


def test_the_bound_is_above_every_value_that_is_computed() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 4)
    )
    network[1].running_var.uniform_(0.01, 2)  # type: ignore[union-attr, operator]
    network.eval()

    bound = _Magnitudes(network).largest(torch.full((1, *SHAPE), REACH, dtype=torch.float64))
    worst = REACH * torch.randn(2_000, *SHAPE).sign()
    with torch.no_grad():
        seen = [worst]
        for layer in network:
            seen.append(layer(seen[-1]))
    assert max(float(each.abs().max()) for each in seen) <= bound
    assert bound < 100 * max(float(each.abs().max()) for each in seen)
