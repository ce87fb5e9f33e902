"""Image files that are chosen, and those that cannot be certified."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.api import picture
from tests.support.visit import DARK, LIGHT, Visit


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"not an image", "image-0.png: cannot be decoded as PNG, JPEG or WebP"),
        (picture(mode="RGBA", size=(8, 8)), "image-0.png: is RGBA.*‘Images of another kind are converted to RGB’"),
    ],
    ids=["text", "alpha"],
)
def test_a_file_that_cannot_be_certified_is_refused(here: Visit, data: bytes, words: str) -> None:
    here.choose(data)
    here.certify()
    here.page.wait_for_selector("#refused .problem")
    assert "An image cannot be certified as it is" in here.text("#refused")
    assert re.search(words, here.text("#refused"))


def test_of_a_batch_the_wrong_file_is_named_and_what_would_help_is_shown(here: Visit) -> None:
    here.choose(LIGHT, picture(mode="RGBA", size=(8, 8)))
    assert not here.page.is_visible("[name=convert]")
    here.certify()
    here.page.wait_for_selector("#refused :text('image-1.png: is RGBA')")
    here.page.locator("[name=convert]").select_option("rgb")
    here.certify()
    here.page.wait_for_selector(".batch")


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(DARK + b"more")], ids=["gone", "changed"])
def test_a_file_that_cannot_be_read_any_more_is_named(
    here: Visit, tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    path = tmp_path / "mine.png"
    path.write_bytes(LIGHT)
    here.page.set_input_files("#files", path)
    here.page.locator("#chosen-name", has_text="mine.png").wait_for()
    harm(path)
    here.certify()
    here.page.wait_for_selector("#refused :text('mine.png was changed, moved or deleted after it was chosen')")


def test_without_an_image_it_says_so(here: Visit) -> None:
    here.certify()
    assert "There is no image yet" in here.text("#refused")


def test_what_is_named_like_markup_stays_text(here: Visit) -> None:
    name = "<img src=x onerror=alert(1)>.png"
    here.page.set_input_files("#files", [{"name": name, "mimeType": "image/png", "buffer": LIGHT}])
    here.page.locator("#chosen-name", has_text=".png").wait_for()
    assert here.text("#chosen-name") == name
    assert here.page.locator("[onerror]").count() == 0
