"""A small part of the damaged requests; `python -m tests.attack.fuzz` sends all of them."""

from __future__ import annotations

import random

from tests.attack.fuzz import KINDS, Tally, attack, damaged, damaged_http, ends
from tests.support.attacked import Whole

CASES = 25


def test_damaged_requests_are_answered_and_nothing_dies(whole: Whole) -> None:
    worker = whole.worker.pid
    tallies = attack(whole, cases=CASES, seed=1)
    assert [tally.kind for tally in tallies] == [*KINDS, "HTTP"]
    for tally in tallies:
        assert tally.cases == CASES
        assert tally.clean, tally
    assert ends(whole)["succeeded"] > 0
    assert whole.worker.pid == worker
    assert whole.worker.poll() is None
    assert "traceback" not in whole.api.log.read_text()


def test_a_case_is_a_function_of_its_seed_and_does_damage() -> None:
    for make in (*KINDS.values(), damaged_http):
        one, same, other = (make(random.Random(seed)) for seed in ("1", "1", "2"))
        assert one == same != other
    whole = bytes(range(256))
    changed = [damaged(whole, random.Random(number)) != whole for number in range(200)]
    assert sum(changed) > 190


def test_a_tally_sees_what_went_wrong() -> None:
    def never() -> str:
        raise TimeoutError

    for answer in (lambda: "500", never):
        tally = Tally("x")
        tally.count("case", lambda: "200")
        assert tally.clean
        tally.count("case", answer)
        assert not tally.clean
        assert tally.cases == 2
