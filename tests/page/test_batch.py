"""Many images at once."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from tests.page.service import PageService
from tests.support.visit import CLOSE, DARK, LIGHT, Visit, grey


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


def rows_of(visit: Visit) -> list[str]:
    return [text.split()[0] for text in visit.page.locator(".batch tbody tr").all_inner_texts()]


def test_a_batch_is_sorted_filtered_verified_and_downloaded(here: Visit, service: PageService, tmp_path: Path) -> None:
    here.ask(radius="0.04")
    here.choose(DARK, CLOSE, LIGHT, DARK)
    here.certify()
    here.page.wait_for_selector(".status.succeeded")
    certificates = service.get(here.certification)["certificates"]
    names = [f"image-{i}.png" for i in range(4)]
    by_samples = sorted(range(4), key=lambda i: (certificates[i]["samples"], i))
    here.page.click(".sort:text-is('samples')")
    assert rows_of(here) == [names[i] for i in by_samples]
    assert here.page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    here.page.click(".sort:text-is('class')")
    here.page.click(".sort:text-is('class')")
    assert rows_of(here) == [names[2], names[0], names[3], names[1]], "light, dark, dark, and the abstention last"
    here.page.get_by_label("Show").select_option("abstained")
    assert rows_of(here) == [names[1]]
    assert "1 of 4 images" in here.text(".table")
    here.page.get_by_label("Show").select_option("certified")
    here.page.get_by_label("Class or image").fill("DARK")
    assert rows_of(here) == [names[0], names[3]]
    here.page.click("text=Verify all")
    here.page.wait_for_selector("text=Verified: everything in all 4 certificates follows from their counts.")
    with here.page.expect_download() as download:
        here.page.click("text=Download CSV")
    download.value.save_as(tmp_path / "batch.csv")
    with (tmp_path / "batch.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["image"] for row in table] == names, "all of them, in their order"
    assert [row["decision"] for row in table] == [each["decision"] for each in certificates]
    assert [row["digest"] for row in table] == [each["digest"] for each in certificates]
    assert [row["radius"] for row in table] == ["0.04", "", "0.04", "0.04"]


def test_verify_all_names_what_is_wrong(here: Visit) -> None:
    def alter(route: Any) -> None:
        certificate = route.request.post_data_json
        if certificate["index"] == 1:
            certificate["samples"] += 1
        route.continue_(post_data=json.dumps(certificate))

    here.choose(DARK, LIGHT)
    here.certify()
    here.page.wait_for_selector(".status.succeeded")
    here.page.route("**/v1/verify", alter)
    here.page.click("text=Verify all")
    here.page.wait_for_selector(".outcome .wrong li")
    (wrong,) = here.page.locator(".outcome .wrong li").all_inner_texts()
    assert wrong.startswith("image-1.png: ")
    assert "samples" in wrong


def test_a_cell_is_never_a_formula(here: Visit) -> None:
    certificate = {"index": 0, "decision": "abstain", "class_name": None, "class_index": None}
    text = here.page.evaluate(
        """async (certificate) => (await import("/page/csv.js")).csv([
             { certificate, name: "=HYPERLINK(1)", label: null }, { certificate, name: 'a "b", c', label: "x" }])""",
        certificate,
    )
    rows = list(csv.reader(text.splitlines()))
    assert [row[1] for row in rows[1:]] == ["'=HYPERLINK(1)", 'a "b", c']


def test_where_one_radius_is_proved_images_are_shown_by_their_p_a(here: Visit, service: PageService) -> None:
    here.ask(radius="0.04")
    here.choose(DARK, CLOSE, LIGHT)
    here.certify()
    here.page.wait_for_selector(".status.succeeded")
    here.page.wait_for_selector(".distribution line.target", state="attached")
    assert here.page.locator(".curve").count() == 0, "no rectangle"
    question = {"ensemble": "trivial", "radius": 0.04, "procedure": "optimal"}
    p0 = service.client.post("/v1/plan", json=question).json()["p0"]
    assert f"radius 0.04: {p0:.4g}" in here.page.locator(".distribution").text_content()
    assert "certified at radius 0.04: 2 of 3 images, 66.7 %" in here.text(".readout")
    assert "abstained: 1 of 3 images, 33.3 %" in here.text(".readout")
    heights = here.page.locator(".distribution rect.certified").evaluate_all(
        "all => all.map((each) => each.height.baseVal.value)"
    )
    assert len(heights) == 1, "both have p_A = 1"


def test_bins_count_each_image_once(here: Visit) -> None:
    shares = [1.0, 0.999, 0.96, 0.5, 0.2]
    certificates = [
        {"decision": "certified" if p > 0.9 else "abstain", "stages": [{"n": 1000, "count": 1000 * p}]} for p in shares
    ]
    bins = here.page.evaluate(
        """async (certificates) => (await import("/page/distribution.js")).binned(certificates, 0.5)""",
        [*certificates, {"decision": "abstain", "stages": []}],
    )
    assert [(each["certified"], each["abstain"]) for each in bins] == [(0, 2), *[(0, 0)] * 17, (1, 0), (2, 0)]


def test_the_curve_falls_where_radii_end(here: Visit) -> None:
    corners = here.page.evaluate(
        """async () => (await import("/page/curve.js")).falling([0.5, 0.25, 0.5], 4)""",
    )
    radii = [0.25, 0.5, 0.5]
    for radius in (0.0, 0.1, 0.25, 0.3, 0.5, 0.6):
        share = sum(each >= radius for each in radii) / 4
        before = [height for place, height in corners if place < radius or (place, radius) == (0, 0)]
        assert before[-1] == share
