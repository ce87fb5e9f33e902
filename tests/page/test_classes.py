"""Ensembles of many classes."""

from __future__ import annotations

from tests.page.service import Open, PageService
from tests.support.visit import CLOSE, Visit

BARS = """async ([certificate, classes]) => {
  const [, list] = (await import("/page/bars.js")).bars(certificate, classes);
  return [...list.children].map(({ children: [name, bar, share] }) => [name.textContent, bar.value, share.textContent]);
}"""


def test_classes_are_searched(visit: Open, service: PageService) -> None:
    ensembles = service.client.get("/v1/ensembles").json()
    for each in ensembles["data"]:
        each["classes"] = [f"kind {i}" for i in range(1000)]
        each["architectures"] = ["dncnn > remote", "cifar-resnet20"]
    opened = visit(service.address, answers={"/v1/ensembles": ensembles})
    opened.page.wait_for_selector("#plan p")
    assert opened.text("#ensemble-note") == (
        "1 of 2 members runs at an endpoint. The identity of such a member is not pinned, so certificates of this "
        "ensemble cannot be replayed."
    )
    opened.page.click("#classes summary:text('1,000 classes')")
    assert "and 970 more" in opened.text("#found-classes")
    plans = len([each for each in opened.requests if each.url.endswith("/v1/plan")])
    opened.page.fill("#find-class", "KIND 77")
    names = ["77 kind 77", *(f"{i} kind {i}" for i in range(770, 780))]
    assert opened.text("#found-classes") == " · ".join(names)
    opened.page.fill("#find-class", "horse")
    assert opened.text("#found-classes") == "No class has this in its name."
    opened.page.wait_for_timeout(400)
    assert len([each for each in opened.requests if each.url.endswith("/v1/plan")]) == plans, "it is not the question"


def test_samples_of_many_classes_are_searched(visit: Open, service: PageService) -> None:
    classes = [f"kind {i}" for i in range(50)]
    ensembles = service.client.get("/v1/ensembles").json()
    sheet = service.client.get("/samples").json()["data"][0]
    for each in ensembles["data"]:
        each["classes"], each["input_shape"] = classes, sheet["shape"]
    sheet |= {"classes": classes, "labels": [*range(50)]}
    opened = visit(service.address, answers={"/v1/ensembles": ensembles, "/samples": {"data": [sheet]}})
    opened.page.wait_for_selector(".thumb")
    assert opened.page.locator(".thumb").count() == 20
    assert opened.text("#more-samples") == "30 more classes: search for them"
    opened.page.fill("#find-sample", "kind 4")
    assert opened.page.locator(".thumb").all_inner_texts() == ["kind 4", *(f"kind {i}" for i in range(40, 50))]
    opened.page.click(".thumb:has-text('kind 42')")
    assert "kind 42" in opened.text("#chosen-name")


def test_the_five_most_frequent_classes_have_bars(here: Visit) -> None:
    stages = [
        {"counts": {"7": 40, "1": 20, "2": 10, "3": 6, "other": 4}},
        {"counts": {"7": 10, "4": 5, "5": 3, "6": 2}},
    ]
    rows = here.page.evaluate(BARS, [{"selection": {}, "stages": stages}, [f"kind {i}" for i in range(1000)]])
    assert [(name, value) for name, value, _ in rows] == [
        ("kind 7", 50),
        ("kind 1", 20),
        ("kind 2", 10),
        ("kind 3", 6),
        ("kind 4", 5),
        ("all others", 9),
    ]
    assert rows[0][2] == "50 % (50)"
    listed = here.page.evaluate(BARS, [{"selection": [3, 1, 0], "stages": [{"counts": [60, 30, 6]}]}, None])
    assert listed == [
        ["class 0", 63, "63 % (63)"],
        ["class 1", 31, "31 % (31)"],
        ["all others", 6, "6 % (6)"],
    ], "format 1 has a list of all classes"


def test_an_answer_shows_what_the_ensemble_said(here: Visit, service: PageService) -> None:
    here.ask(procedure="fixed", samples="500")
    here.choose(CLOSE)
    here.certify()
    here.page.wait_for_selector(".claim")
    (certificate,) = service.get(here.certification)["certificates"]
    draws = [certificate["selection"], *(stage["counts"] for stage in certificate["stages"])]
    dark = sum(each.get("0", 0) for each in draws)
    row = here.page.locator(".counted li").first
    assert row.inner_text().split()[0] == "dark"
    assert f"({dark})" in row.inner_text()
