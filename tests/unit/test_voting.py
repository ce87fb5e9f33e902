from __future__ import annotations

import pytest
import torch

from smoothcert.engine.errors import VotingError
from smoothcert.engine.voting import RULES, lowest_argmax, vote

nan, inf = float("nan"), float("inf")
ONES = torch.ones(2)


def test_ties_go_to_the_lowest_class_at_every_width() -> None:
    for classes in (2, 3, 10, 100, 1000):
        for first in range(0, classes, max(1, classes // 7)):
            scores = torch.zeros(1, classes)
            scores[0, first:] = 1.0
            assert lowest_argmax(scores).tolist() == [first]


def test_each_rule_can_be_the_only_one_to_be_right() -> None:
    # Two members vote weakly for 0 and one strongly for 1, so counting votes and adding logits disagree.
    outputs = torch.tensor([[[1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0]], [[0.0, 9.0, 0.0]]])
    ones = torch.ones(3)
    assert vote("soft", outputs, ones).item() == 1
    assert vote("hard", outputs, ones).item() == 0
    assert vote("weighted", outputs, torch.tensor([1.0, 1.0, 0.1])).item() == 0
    # Softmax limits the influence of a single large logit; soft voting does not.
    outputs = torch.tensor([[[3.0, 0.0]], [[3.0, 0.0]], [[0.0, 90.0]]])
    assert vote("softmax", outputs, ones).item() == 0
    assert vote("soft", outputs, ones).item() == 1


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("bad", [nan, inf, -inf])
def test_one_bad_logit_of_one_member_is_no_class(name: str, bad: float) -> None:
    outputs = torch.zeros(2, 3, 4)
    outputs[:, :, 2] = 1.0
    outputs[1, 1, 0] = bad
    assert vote(name, outputs, ONES).tolist() == [2, 4, 2]


@pytest.mark.parametrize("name", RULES)
def test_a_row_does_not_depend_on_its_place(name: str) -> None:
    outputs = torch.randn(2, 257, 10, generator=torch.Generator().manual_seed(0))
    order = torch.randperm(257, generator=torch.Generator().manual_seed(1))
    assert torch.equal(vote(name, outputs, ONES)[order], vote(name, outputs[:, order], ONES))
    assert torch.equal(RULES[name](outputs, ONES)[order], RULES[name](outputs[:, order], ONES))


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(VotingError, match="must be one of soft, softmax, hard, weighted; got 'loud'"):
        vote("loud", torch.zeros(1, 1, 2), torch.ones(1))
