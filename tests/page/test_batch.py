"""Many images at once."""

from __future__ import annotations

from tests.page.service import PageService
from tests.support.visit import DARK, LIGHT, Visit, grey


def test_a_batch_is_a_table_and_a_curve(here: Visit, service: PageService) -> None:
    here.ask(procedure="fixed", samples="500")
    here.choose(DARK, LIGHT, grey(125), DARK)
    here.certify()
    here.page.wait_for_selector(".status.succeeded")
    certificates = service.get(here.certification)["certificates"]
    rows = here.page.locator(".batch tbody tr").all_inner_texts()
    for i, (row, certificate) in enumerate(zip(rows, certificates, strict=True)):
        assert row.split() == [
            f"image-{i}.png",
            "certified",
            certificate["class_name"],
            str(certificate["radius"]),
            str(certificate["samples"]),
        ]
    assert here.page.locator(".curve path.fall").count() == 1, "labels are not known"
    assert "certified: 4 of 4 images, 100 %" in here.text(".readout")
    here.page.click("text=image-2.png")
    assert "‘light’" in here.text(".claim")
    here.page.click("text=All 4 images")
    here.page.wait_for_selector(".batch")


def test_the_curve_falls_where_radii_end(here: Visit) -> None:
    corners = here.page.evaluate(
        """async () => (await import("/page/curve.js")).falling([0.5, 0.25, 0.5], 4)""",
    )
    radii = [0.25, 0.5, 0.5]
    for radius in (0.0, 0.1, 0.25, 0.3, 0.5, 0.6):
        share = sum(each >= radius for each in radii) / 4
        before = [height for place, height in corners if place < radius or (place, radius) == (0, 0)]
        assert before[-1] == share
