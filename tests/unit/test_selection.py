from __future__ import annotations

import pytest

from models.errors import DataError
from models.selection import Selection


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("1::4", [1, 5, 9]),
        (":3", [0, 1, 2]),
        ("8:", [8, 9]),
        ("2:9:3", [2, 5, 8]),
        ("7,3,7", [3, 7]),
        ("5:0", []),
        ("1:6:", [1, 2, 3, 4, 5]),
    ],
)
def test_places_are_those_of_python(text: str, places: list[int]) -> None:
    assert Selection(text).places(10).tolist() == places


@pytest.mark.parametrize(
    "text", ["", "a", "-1::2", "1,", "::0", "1:2:3:4", "1.5", "0::00", "9" * 25, "::" + "9" * 25, ":" + "9" * 5000, "٣"]
)
def test_what_is_no_selection_is_named(text: str) -> None:
    with pytest.raises(DataError, match=f"selection {text!r}"):
        Selection(text)


def test_a_place_beyond_the_end_is_named() -> None:
    with pytest.raises(DataError, match="place 10, and there are 10 images"):
        Selection("3,10").places(10)
