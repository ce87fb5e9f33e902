from __future__ import annotations

import math
import warnings
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from smoothcert.counts import MOST_NAME
from smoothcert.engine.composition import MAX_CLASSES, check_classes
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.errors import BatchError, MemberError, VotingError
from smoothcert.engine.identity import network_digest
from smoothcert.engine.poll import UNDECIDED
from smoothcert.noise import Gaussian
from tests.support.networks import Lookup, numbered, tiny

SHAPE = (1, 4, 4)
BAD = [float("nan"), float("inf"), float("-inf")]
Row = list[list[float]]  # the logits of all members for one image


def lookup_ensemble(rows: list[Row], voting: str, consensus: int | None, weights: list[float] | None) -> Ensemble:
    tables = torch.tensor(rows).transpose(0, 1)
    names = [str(c) for c in range(tables.shape[2])]
    networks = [Lookup(table, mark) for mark, table in enumerate(tables)]
    ensemble = assemble(networks, classes=names, input_shape=SHAPE, optimise=False)
    keyed = weights and {m.digest: w for m, w in zip(ensemble.members, weights, strict=True)}
    return replace(ensemble, voting=voting, consensus=consensus, weights=keyed)


def by_definition(row: Row, voting: str, consensus: int | None, weights: list[float] | None) -> tuple[set[int], int]:
    """The correct classes of one image (several only where rounding decides), and the number of evaluations."""
    no_class = {len(row[0])}
    favourite = [logits.index(max(logits)) for logits in row]
    sound = [all(map(math.isfinite, logits)) for logits in row]
    if consensus is not None:
        if not all(sound[:consensus]):
            return no_class, consensus
        if len(set(favourite[:consensus])) == 1:
            return {favourite[0]}, consensus
    if not all(sound):
        return no_class, len(row)
    columns = list(zip(*row, strict=True))
    if voting == "hard":
        scores = [float(favourite.count(c)) for c in range(len(columns))]
    elif voting == "softmax":
        totals = [sum(map(math.exp, logits)) for logits in row]
        scores = [sum(math.exp(z) / t for z, t in zip(column, totals, strict=True)) for column in columns]
        return {c for c, score in enumerate(scores) if score > max(scores) - 1e-5}, len(row)
    else:
        factors = weights if voting == "weighted" and weights else [1.0] * len(row)
        scores = [sum(z * w for z, w in zip(column, factors, strict=True)) for column in columns]
    return {scores.index(max(scores))}, len(row)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Row], str, int | None, list[float] | None]:
    k, classes = draw(st.integers(1, 5)), draw(st.integers(2, 4))
    whole = st.integers(-2, 2).map(float)  # few values give many ties, and sums of whole numbers are exact
    logit = st.one_of(whole, whole, whole, whole, whole, whole, whole, st.sampled_from(BAD))
    member = st.lists(logit, min_size=classes, max_size=classes)
    alike = st.lists(whole, min_size=classes, max_size=classes).map(lambda logits: [list(logits) for _ in range(k)])
    row = st.one_of(st.lists(member, min_size=k, max_size=k), alike)
    rows = draw(st.lists(row, min_size=1, max_size=12))
    weights = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=k, max_size=k).filter(any))
    voting = draw(st.sampled_from(["soft", "softmax", "hard", "weighted"]))
    return rows, voting, draw(st.one_of(st.none(), st.integers(1, k))), weights


@given(cases())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_classify_is_the_definition_applied_to_each_image(case: tuple[list[Row], str, int | None, list[float]]) -> None:
    rows, voting, consensus, weights = case
    ensemble = lookup_ensemble(rows, voting, consensus, weights)
    answer = ensemble.classify(numbered(len(rows)))
    expected = [by_definition(row, voting, consensus, weights) for row in rows]
    assert answer.classes.dtype == torch.int64
    assert all(seen in right for seen, (right, _) in zip(answer.classes.tolist(), expected, strict=True))
    assert answer.evaluations == sum(evaluations for _, evaluations in expected)


@given(cases())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_stages_may_be_packed_in_any_way(case: tuple[list[Row], str, int | None, list[float]]) -> None:
    rows, voting, consensus, weights = case
    ensemble = lookup_ensemble(rows, voting, consensus, weights)
    images = numbered(len(rows))
    whole = ensemble.classify(images).classes
    backwards = torch.arange(len(rows)).flip(0)
    polled = ensemble.ask(images[backwards])
    classes = polled.classes
    assert polled.outputs.shape == (ensemble.stages[0], len(rows), len(rows[0][0]))
    while len(polled.outputs) < len(rows[0]):
        polled = ensemble.ask(images[backwards], polled.outputs)
        classes = torch.where(classes == UNDECIDED, polled.classes, classes)
    assert torch.equal(classes[backwards], whole)
    if consensus in (None, len(rows[0])):
        assert ensemble.stages == (len(rows[0]),)  # a table may hold anything, so all of its members are asked


def test_how_many_images_the_first_k_decided_follows_from_the_evaluations() -> None:
    agree, differ = [[0.0, 1.0]] * 4, [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]
    ensemble = lookup_ensemble([agree] * 7 + [differ] * 3, "soft", 2, None)
    evaluations = ensemble.classify(numbered(10)).evaluations
    assert (4 * 10 - evaluations) / (4 - 2) == 7


def test_consensus_is_another_classifier_than_the_full_vote() -> None:
    ensemble = lookup_ensemble([[[0.0, 1.0], [0.0, 1.0], [9.0, 0.0]]], "soft", None, None)
    assert ensemble.classify(numbered(1)).classes.tolist() == [0]
    assert ensemble.with_(consensus=2).classify(numbered(1)).classes.tolist() == [1]
    assert ensemble.with_(voting="hard").classify(numbered(1)).classes.tolist() == [1]


def test_members_that_all_agree_decide_even_where_the_vote_would_round_to_a_tie() -> None:
    ensemble = lookup_ensemble([[[0.0, 1e-9], [0.0, 1e-9]]], "softmax", None, None)
    assert ensemble.classify(numbered(1)).classes.tolist() == [0]
    assert ensemble.with_(consensus=2).classify(numbered(1)).classes.tolist() == [1]


def test_the_rest_votes_over_the_outputs_it_is_given_each_with_its_own_weight() -> None:
    row = [[2.0, 0.0], [0.0, 3.0], [2.0, 0.0]]
    ensemble = lookup_ensemble([row], "weighted", 2, [1.0, 1.0, 0.0])
    assert ensemble.ask(numbered(1), ensemble.ask(numbered(1)).outputs).classes.tolist() == [1]  # 2 to 3 to 0
    given = torch.tensor([[[4.0, 0.0]], [[0.0, 3.0]]])
    assert ensemble.ask(numbered(1), given).classes.tolist() == [0]


def test_a_view_shares_the_members_and_the_digest() -> None:
    ensemble = assemble([tiny(0), tiny(1)], classes="abc", input_shape=SHAPE, consensus=1)
    view = ensemble.with_(voting="hard")
    assert (view.voting, view.consensus) == ("hard", 1)
    assert ensemble.with_(consensus=None).consensus is None
    assert all(a is b for a, b in zip(view.members, ensemble.members, strict=True))
    assert view.digest == ensemble.digest != ensemble.first_k(1).digest


def test_the_k_best_are_the_first_k_with_their_own_weights() -> None:
    ensemble = assemble([tiny(i) for i in range(3)], classes="abc", input_shape=SHAPE)
    digests = [member.digest for member in ensemble.members]
    weighted = replace(ensemble, weights=dict(zip(digests, (1.0, 2.0, 3.0), strict=True)))
    assert weighted.first_k(2).weights == {digests[0]: 1.0, digests[1]: 2.0}
    with pytest.raises(VotingError, match="consensus must be from 1 to 2, the number of members, got 3"):
        weighted.with_(consensus=3).first_k(2)
    with pytest.raises(MemberError, match=r"must be in 1\.\.3; got 4"):
        ensemble.first_k(4)


def test_the_digest_sees_order_weights_classes_and_shape_of_the_members() -> None:
    ensemble = assemble([tiny(0), tiny(1)], classes="abc", input_shape=SHAPE)
    even = {member.digest: 0.5 for member in ensemble.members}
    others = [
        replace(ensemble, members=ensemble.members[::-1]),
        replace(ensemble, weights=even),
        replace(ensemble, classes=("a", "b", "d")),
    ]
    assert len({other.digest for other in [ensemble, *others]}) == 4
    assert replace(ensemble, noise=Gaussian(0.5), name="other").digest == ensemble.digest


@pytest.mark.parametrize("optimise", [True, False])
def test_eval_mode_is_enforced_whoever_left_a_member_in_train_mode(optimise: bool) -> None:
    networks = [tiny(0).train(), tiny(1).train()]
    ensemble = assemble(networks, classes="abc", input_shape=SHAPE, optimise=optimise)
    images = torch.randn(40, *SHAPE, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = torch.stack([network.eval()(images) for network in networks])
    mean = networks[0].bn.running_mean.clone()
    for member in ensemble.members:
        member.network.train()
        member.form.network.train()
        seen = ensemble.logits(images)
        assert torch.allclose(seen, expected, atol=1e-5)
    assert torch.equal(networks[0].bn.running_mean, mean)
    assert not ensemble.logits(images).requires_grad


def test_another_size_shares_the_networks_and_their_forms() -> None:
    ensemble = assemble([tiny(0), tiny(1)], classes="abc", input_shape=SHAPE, batch=32)
    smaller = ensemble.resized(8)
    for old, new in zip(ensemble.members, smaller.members, strict=True):
        assert new.network is old.network
        assert new.form.network is old.form.network
        assert (new.form.kind, new.form.shape) == ("folded", (8, *SHAPE))
    x = torch.rand(20, *SHAPE)
    assert torch.allclose(smaller.logits(x), ensemble.logits(x), atol=1e-5)
    assert smaller.digest == ensemble.digest


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x.flatten(1)


def test_networks_with_the_same_tensors_and_other_code_have_digests_of_their_own() -> None:
    def digest(*layers: nn.Module) -> str:
        return network_digest(nn.Sequential(*layers))

    layer = nn.Linear(3, 3)
    alike = [digest(layer, nn.ReLU()), digest(layer, nn.Sigmoid()), digest(nn.ReLU(), layer)]
    alike += [digest(nn.MaxPool2d(2)), digest(nn.MaxPool2d(3)), digest(Scaled(1.0)), digest(Scaled(2.0))]
    assert len(set(alike)) == len(alike)
    assert network_digest(tiny(0).train()) == network_digest(tiny(0).eval())


def test_programs_with_the_same_tensors_and_other_code_have_digests_of_their_own() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, but its files remain in use
        traced = [torch.jit.trace(network, torch.rand(2, 3)) for network in (Scaled(1.0), Scaled(2.0))]
        linear = [torch.jit.trace(nn.Linear(3, 3).eval(), torch.rand(2, 3)) for _ in range(2)]
        frozen = [torch.jit.freeze(network) for network in linear]  # their weights become constants
    scripts = [network_digest(script) for script in (*traced, *frozen)]
    graphs = [network_digest(torch.fx.symbolic_trace(layer)) for layer in (Scaled(1.0), Scaled(2.0))]
    assert len({*scripts, *graphs}) == 6


@pytest.mark.parametrize("consensus", [0, -1, 3, True, 1.0])
def test_a_k_outside_the_members_is_refused(consensus: object) -> None:
    with pytest.raises(VotingError, match="consensus must be from 1 to 2, the number of members"):
        assemble([tiny(0), tiny(1)], classes="abc", input_shape=SHAPE, consensus=consensus)  # type: ignore[arg-type]


def test_weights_must_be_those_of_the_members() -> None:
    ensemble = assemble([tiny(0), tiny(1)], classes="abc", input_shape=SHAPE)
    first, second = (member.digest for member in ensemble.members)
    with pytest.raises(VotingError, match=r"weights must be those of the members; not in the ensemble: \['feed'\]"):
        replace(ensemble, weights={first: 1.0, "feed": 1.0})
    for bad in (-1.0, float("nan"), float("inf")):
        with pytest.raises(VotingError, match="weights must be finite"):
            replace(ensemble, weights={first: 1.0, second: bad})
    with pytest.raises(VotingError, match="not all zero"):
        replace(ensemble, weights={first: 0.0, second: 0.0})
    with pytest.raises(VotingError, match="needs weights"):
        ensemble.with_(voting="weighted")


def test_members_must_fit_the_ensemble() -> None:
    with pytest.raises(MemberError, match=r"logits of shape \(256, 3\), not \(256, 4\)"):
        assemble([tiny(0)], classes="abcd", input_shape=SHAPE)
    with pytest.raises(MemberError, match="are the same: they have the digest"):
        assemble([tiny(0), tiny(0)], classes="abc", input_shape=SHAPE)
    with pytest.raises(MemberError, match="at least one member; got none"):
        assemble([], classes="abc", input_shape=SHAPE)
    with pytest.raises(MemberError, match=r"cannot take images of shape \(256, 3, 4, 4\)"):
        assemble([tiny(0)], classes="abc", input_shape=(3, 4, 4))
    with pytest.raises(MemberError, match="two or more different names"):
        assemble([tiny(0)], classes="aba", input_shape=SHAPE)
    with pytest.raises(MemberError, match="at most 100,000 classes; got 100,001"):
        check_classes(range(MAX_CLASSES + 1))  # type: ignore[arg-type]
    with pytest.raises(MemberError, match="the name of class 1 has 1,001 characters; at most 1,000 are accepted"):
        check_classes(["a", "b" * (MOST_NAME + 1)])


def test_a_batch_of_another_shape_or_dtype_is_named() -> None:
    ensemble = assemble([tiny(0), tiny(1)], classes="abc", input_shape=SHAPE, consensus=1)
    with pytest.raises(BatchError, match=r"shape \(2, 3, 4, 4\); unnamed takes \(N, 1, 4, 4\)"):
        ensemble.classify(torch.zeros(2, 3, 4, 4))
    with pytest.raises(BatchError, match=r"dtype torch\.uint8"):
        ensemble.classify(torch.zeros(2, 1, 4, 4, dtype=torch.uint8))
    with pytest.raises(BatchError, match=r"those of 1 members, of shape \(2, 3\); got \(2, 2, 3\)"):
        ensemble.ask(torch.zeros(2, 1, 4, 4), torch.zeros(2, 2, 3))


def test_no_image_is_a_batch_too() -> None:
    ensemble = assemble([tiny(0), tiny(1)], classes="abc", input_shape=SHAPE, consensus=1)
    answer = ensemble.classify(torch.zeros(0, *SHAPE))
    assert (answer.classes.shape, answer.evaluations) == ((0,), 0)
