"""Photos of any size are cropped and scaled in the browser, and shown before they are sent."""

from __future__ import annotations

import io
import json
from typing import Any

from PIL import Image

from smoothcert import Certificate, verify
from tests.page.service import Open, PageService
from tests.support.api import encoded
from tests.support.visit import LIGHT, Visit
from tests.support.worker_networks import SHAPE

WIDTH, HEIGHT = SHAPE[2], SHAPE[1]


def halves() -> bytes:
    """A wide photo whose left half is black and whose right half is white."""
    photo = Image.new("RGB", (640, 320))
    photo.paste((255, 255, 255), (320, 0, 640, 320))
    return encoded(photo, "JPEG", quality=95)


def choose_photo(visit: Visit, *photos: bytes) -> None:
    files: list[Any] = [
        {"name": f"photo-{i}.jpg", "mimeType": "image/jpeg", "buffer": data} for i, data in enumerate(photos)
    ]
    visit.page.set_input_files("#files", files)


RECORD = """
const post = window.fetch;
window.fetch = async (path, options = {}) => {
  if (options.body instanceof FormData) {
    const files = options.body.getAll("images");
    window.posted = {
      request: JSON.parse(options.body.get("request")),
      images: await Promise.all(files.map(async (file) => [...new Uint8Array(await file.arrayBuffer())])),
    };
  }
  return post(path, options);
};
"""
"""A script that keeps the posted form, because the browser does not reveal what is in its files."""


def posted(visit: Visit) -> tuple[dict[str, Any], list[Image.Image]]:
    """The request and the images that were posted last."""
    form = visit.page.evaluate("window.posted")
    return form["request"], [Image.open(io.BytesIO(bytes(each))) for each in form["images"]]


def test_a_photo_is_cropped_where_the_user_wants_and_scaled(here: Visit, service: PageService) -> None:
    here.page.evaluate(RECORD)
    choose_photo(here, halves())
    here.page.wait_for_selector("#crop-words")
    assert here.text("#crop-words") == (
        f"640 × 320 pixels, cropped to 320 × 320 at (160, 0), scaled to {WIDTH} × {HEIGHT}. "
        "The scaled image is what is certified."
    )
    here.page.focus(".crop-view")
    for _ in range(25):
        here.page.keyboard.press("ArrowRight")
    here.page.wait_for_selector("#crop-words:has-text('at (320, 0)')")
    preview = here.page.locator(".crop .picture").get_attribute("src")
    here.certify()
    assert "‘light’" in here.text(".claim"), "the white half"
    request, (image,) = posted(here)
    assert (image.format, image.size, image.mode) == ("PNG", (WIDTH, HEIGHT), "RGB")
    assert image.getpixel((0, 0)) == (255, 255, 255)
    words = f"640 × 320 pixels, cropped to 320 × 320 at (320, 0), scaled to {WIDTH} × {HEIGHT}"
    assert request["metadata"] == {"file": "photo-0.jpg"}
    assert f"The certificate is about the scaled image of photo-0.jpg ({words}), not about the photo" in here.text(
        ".words"
    )
    assert here.page.locator(".face img").get_attribute("src") == preview, "what was shown before is what was sent"
    (certificate,) = service.get(here.certification)["certificates"]
    assert certificate["provenance"]["input"]["prepared"] == {
        "source": [640, 320], "box": [320, 0, 640, 320], "by": "browser, createImageBitmap", "checked": False,
    }  # fmt: skip
    assert verify(Certificate.from_json(json.dumps(certificate)))
    here.page.reload()
    assert words in here.text(".scaled"), "the certificate says it, and not the memory of the browser"


def test_zoom_keeps_a_smaller_part(here: Visit) -> None:
    choose_photo(here, halves())
    here.page.wait_for_selector("#crop-words")
    here.page.locator("#zoom").fill("4")
    here.page.wait_for_selector("#crop-words:has-text('cropped to 80 × 80 at (280, 120)')")


def test_photos_of_a_batch_are_cropped_around_their_centres_and_each_certificate_speaks_for_itself(
    here: Visit, service: PageService
) -> None:
    here.page.evaluate(RECORD)
    tall = encoded(Image.new("RGB", (100, 400), (255, 255, 255)))
    choose_photo(here, tall, LIGHT)
    here.page.locator("#chosen-name", has_text="2 images").wait_for()
    assert "1 of them has another size: each is cropped around its centre and scaled" in here.text("#scaled")
    here.certify()
    here.page.wait_for_selector("table.batch")
    request, images = posted(here)
    assert [each.size for each in images] == [(WIDTH, HEIGHT)] * 2
    assert [each and each["box"] for each in request["prepared"]] == [[0, 150, 100, 250], None]
    here.page.wait_for_selector(".status.succeeded")
    stated = [each["provenance"]["input"] for each in service.get(here.certification)["certificates"]]
    assert ["prepared" in each for each in stated] == [True, False]
    here.page.click("table.batch a >> nth=0")
    assert "the scaled image of photo-0.jpg (100 × 400 pixels, cropped to 100 × 100 at (0, 150)" in here.text(".scaled")
    here.page.click("text=All 2 images")
    here.page.click("table.batch a >> nth=1")
    here.page.wait_for_selector(".claim")
    assert here.page.locator(".scaled").count() == 0, "this one was sent as it was"


def test_an_image_of_the_right_size_is_sent_as_it_is(here: Visit) -> None:
    here.page.evaluate(RECORD)
    here.choose(LIGHT)
    here.certify()
    here.page.wait_for_selector(".claim")
    assert bytes(here.page.evaluate("window.posted.images[0]")) == LIGHT
    assert not here.page.is_visible("#scaled")
    assert here.page.locator(".scaled").count() == 0


def test_a_photo_fits_an_ensemble_of_grey_images_and_another_that_is_chosen_later(
    visit: Open, service: PageService
) -> None:
    opened = visit(service.address)
    opened.page.locator("[name=ensemble] option").first.wait_for(state="attached")
    opened.ask(ensemble="trivial")
    choose_photo(opened, halves())
    opened.page.wait_for_selector("#crop-words")
    opened.ask(ensemble="with-replacement-grey", radius="0")
    opened.page.evaluate(RECORD)
    opened.page.wait_for_timeout(300)
    opened.ask(radius="1")
    opened.certify()
    opened.page.wait_for_selector(".claim")
    request, _ = posted(opened)
    assert request["convert"] == "grey"


def test_while_a_picture_is_read_the_page_says_so_and_certify_waits_for_it(here: Visit) -> None:
    """A picture of hundreds of megapixels takes the browser some seconds."""
    here.page.evaluate(
        """() => {
             const make = window.createImageBitmap;
             window.createImageBitmap = (...all) => new Promise((done) => {
               window.goOn = () => { window.createImageBitmap = make; done(make(...all)); };
             });
           }"""
    )
    choose_photo(here, halves())
    here.page.wait_for_selector("#chosen-name:text('reading …')")
    here.certify()
    here.page.wait_for_selector("#certify:disabled")
    assert here.page.locator("#refused .problem").count() == 0
    assert "0 images" not in here.text("#chosen")
    assert not [each for each in here.requests if each.method == "POST" and each.url.endswith("/v1/certifications")]
    here.page.evaluate("window.goOn()")
    here.page.wait_for_selector("#chosen-name:text('photo-0.jpg')")
    assert "the scaled image of photo-0.jpg" in here.text(".scaled")
    assert here.page.is_enabled("#certify")


def test_certify_sends_nothing_if_the_picture_that_it_waits_for_is_removed(here: Visit) -> None:
    here.page.evaluate("() => { window.createImageBitmap = () => new Promise((done) => (window.goOn = done)); }")
    choose_photo(here, halves())
    here.page.wait_for_selector("#chosen-name:text('reading …')")
    here.certify()
    here.page.click("#clear")
    here.page.evaluate("window.goOn(null)")
    here.page.wait_for_selector("#refused :text('There is no image yet')")
    assert here.page.is_enabled("#certify")
