"""Canonical JSON: RFC 8785's own examples, and agreement with every JSON reader."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smoothcert.canonical import canonical_json, canonical_number, digest

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (5e-324, "5e-324"),
        (-5e-324, "-5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740992.0, "9007199254740992"),
        (295147905179352830000.0, "295147905179352830000"),
        (9.999999999999997e22, "9.999999999999997e+22"),
        (1e23, "1e+23"),
        (1e21, "1e+21"),
        (999999999999999700000.0, "999999999999999700000"),
        (9.999999999999997e-7, "9.999999999999997e-7"),
        (0.000001, "0.000001"),
        (333333333.33333329, "333333333.3333333"),
        (0.001, "0.001"),
        (4.5, "4.5"),
    ],
)
def test_numbers_are_written_as_the_standard_says(number: float, text: str) -> None:
    assert canonical_number(number) == text


def test_keys_are_ordered_by_utf16_and_text_is_not_escaped() -> None:
    value = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\x80": 6, "\u00f6": 7}
    expected = '{"\\r":2,"1":4,"\x80":6,"\u00f6":7,"\u20ac":1,"\U0001f600":5,"\ufb33":3}'
    assert canonical_json(value) == expected


@given(values)
def test_canonical_text_reads_back_as_the_same_value(value: object) -> None:
    # JavaScript reads every number as a double.
    assert json.loads(canonical_json(value), parse_int=float) == value


@given(st.dictionaries(st.text(), st.integers(), min_size=2, max_size=6))
def test_the_digest_does_not_depend_on_the_order_of_keys(value: dict[str, int]) -> None:
    assert digest(value) == digest(dict(reversed(value.items())))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_json_has_no_such_number(value: float) -> None:
    with pytest.raises(ValueError, match=str(value)):
        canonical_json([value])


def test_json_has_no_such_value() -> None:
    with pytest.raises(TypeError, match="object"):
        canonical_json(object())
