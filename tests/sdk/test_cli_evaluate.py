"""`smoothcert evaluate` reads a data set with labels and writes a report; an interrupted run goes on where it was."""

from __future__ import annotations

import csv
import json
import signal
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from smoothcert import Client
from tests.service import eventually
from tests.support.command import (
    ENDLESSLY,
    QUICKLY,
    begun,
    on_a_terminal,
    one_sentence,
    png,
    smoothcert,
    smoothcert_process,
)
from tests.support.questions import of_another_ensemble
from tests.support.rogue import Rogue

POST = "POST /v1/certifications"


def make_folder(folder: Path, classes: Sequence[str] = ("dark", "light"), wrong: int = 2) -> Path:
    """Ten images in subfolders named after their class; the first `wrong` of them are in the other subfolder."""
    for number in range(10):
        light = number % 2
        path = folder / classes[light if number >= wrong else 1 - light] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(200 + number if light else number))
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a data set."""
    monkeypatch.chdir(tmp_path)
    return make_folder(tmp_path / "data")


def test_the_report_is_what_the_images_say(service: str, folder: Path) -> None:
    fixed = ("--ensemble", "trivial", "--procedure", '{"name": "fixed", "n": 1000}')
    done = smoothcert("evaluate", folder, *fixed, "--out", "report", "--json", url=service)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    with Path("report/images.csv").open() as file:
        images = list(csv.DictReader(file))
    assert [each["image"] for each in images] == sorted(str(path.relative_to(folder)) for path in folder.rglob("*.png"))
    radii = [float(each["radius"]) if each["label"] == each["class_index"] else 0.0 for each in images]
    assert radii.count(0.0) == 2
    assert report["figures"]["ACR"] == pytest.approx(statistics.mean(radii), abs=1e-6)
    assert report["figures"]["certified for the right class"] == 8
    with Path("report/curve.csv").open() as file:
        curve = [(float(row["radius"]), float(row["certified_accuracy"])) for row in csv.DictReader(file)]
    assert len(curve) > 8
    for radius, accuracy in curve:
        assert accuracy == 100 * sum(each >= radius and each > 0 for each in radii) / 10
    markdown = Path("report/report.md").read_text()
    assert markdown.startswith("# data by trivial\n\n8 of 10 images are certified for the right class. The ACR is ")
    assert "Procedure fixed, n0 100, n 1000, " in markdown
    assert "gaussian, sigma 0.02, alpha 0.001" in markdown
    low, high = report["intervals"]["ACR"]
    assert low < report["figures"]["ACR"] < high
    assert f"| ACR | {report['figures']['ACR']:.3g} ({low:.3g} to {high:.3g}) |" in markdown
    page = Path("report/report.html").read_text()
    assert page.count("<svg") == 3
    assert "agrees for 10 of 10 certificates" in page
    assert Path("report/report.png").read_bytes().startswith(b"\x89PNG")
    checked = smoothcert("verify", "report/certificates.jsonl")
    assert checked.stdout == "consistent  report/certificates.jsonl (10 certificates)\n"


def test_the_report_of_several_radii_has_a_curve_of_these(service: str, folder: Path) -> None:
    options = ("--ensemble", "trivial", "--radii", "0.01,0.02", "--max-samples", "2000")
    done = smoothcert("evaluate", folder, *options, "--out", "report", "--json", url=service)
    assert done.returncode == 0, done.stderr
    with Path("report/curve.csv").open() as file:
        curve = [(float(row["radius"]), float(row["certified_accuracy"])) for row in csv.DictReader(file)]
    assert curve == [(0.01, 80.0), (0.02, 80.0)]
    assert "Procedure optimal, n0 0, max_samples 2000, " in Path("report/report.md").read_text()


@pytest.mark.parametrize(
    ("radii", "fault", "named", "code"),
    [
        ("0,5", "procedure.radii: has 5; the largest", "0 and 5", 1),
        ("0,2,0,5", "must increase", "0 and 2 and 0 and 5", 2),
    ],
)
def test_a_decimal_comma_among_radii_is_explained(
    service: str, folder: Path, radii: str, fault: str, named: str, code: int
) -> None:
    done = smoothcert("evaluate", folder, "--ensemble", "trivial", "--radii", radii, "--out", "report", url=service)
    one_sentence(done, fault, code=code)
    assert f"--radii {radii} names the radii {named}: radii are separated by commas, decimals by points" in done.stderr


def test_a_certification_is_reported_by_its_id(service: str, folder: Path) -> None:
    with Client(service) as client:
        client.certify([*sorted(folder.rglob("*.png"))[:3]], ensemble="trivial", radius=0.02, procedure="sequential")
        number = next(client.certifications.list()).id
    done = smoothcert("report", number, "--json", url=service)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["figures"]["certified"] == 3
    assert "agrees for 3 of 3 certificates" in Path("report.html").read_text()
    one_sentence(smoothcert("report", "cert_00000000", url=service), "cert_00000000")


def test_a_second_run_goes_on_where_the_first_was_cut(rogue: Rogue, folder: Path) -> None:
    command = ("evaluate", folder, *QUICKLY, "--out", "report")
    first = smoothcert(*command, url=rogue.url)
    assert first.returncode == 0, first.stderr
    ledger = Path("report/certificates.jsonl")
    lines = ledger.read_text().splitlines()
    ledger.write_text("\n".join(lines[:5]) + "\n" + lines[5][:100])  # the machine died while it wrote this line
    images = Path("report/images.csv").read_text()
    rogue.seen.clear()
    again = smoothcert(*command, url=rogue.url)
    assert again.stdout == first.stdout
    assert "4 of 10 images were finished before" in again.stderr
    assert [len(json.loads(seen.body)["images"]) for seen in rogue.requests(POST)] == [6]
    assert Path("report/images.csv").read_text() == images
    rogue.seen.clear()
    assert smoothcert(*command, url=rogue.url).stdout == first.stdout
    assert not rogue.requests(POST)


def test_ctrl_c_says_how_to_go_on(rogue: Rogue, folder: Path) -> None:
    process = begun("evaluate", folder, *ENDLESSLY, "--out", "report", url=rogue.url)
    eventually(lambda: rogue.requests("/events"))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    stopped, left, remedy = err.splitlines()
    assert stopped == "stopped"
    assert " goes on; " in left
    assert remedy.endswith("report/certificates.jsonl, and the same command goes on from there")


def test_a_terminal_sees_the_time_left(service: str, folder: Path) -> None:
    code, seen = on_a_terminal("evaluate", folder, *QUICKLY, "--out", "report", url=service)
    assert code == 0
    assert "10/10" in seen
    assert "left:" in seen


def test_labels_may_be_numbers_in_a_file(service: str, folder: Path) -> None:
    names = ["light/3.png", "dark/2.png", "light/0.png"]
    Path("labels.csv").write_text("file,label\n" + "".join(f"{name},{i % 2}\n" for i, name in enumerate(names, 1)))
    done = smoothcert("evaluate", folder, "--labels", "labels.csv", *QUICKLY, "--out", "report", url=service)
    assert done.returncode == 0, done.stderr
    with Path("report/images.csv").open() as file:
        found = [(row["image"], row["label"], row["class_index"]) for row in csv.DictReader(file)]
    assert found == [("light/3.png", "1", "1"), ("dark/2.png", "0", "0"), ("light/0.png", "1", "0")]


@pytest.mark.parametrize("names", [False, True])
def test_arrays_are_a_data_set(service: str, folder: Path, names: bool) -> None:
    images = np.stack([np.full((8, 8, 3), value, np.uint8) for value in (0, 255, 254)])
    labels: Any = np.array(["dark", "light", "dark"] if names else [0, 1, 0])
    if names:
        np.savez("data.npz", images=images)
        np.save("labels.npy", labels)
    else:
        np.savez("data.npz", images=images, labels=labels)
    given = ["--labels", "labels.npy"] if names else []
    done = smoothcert("evaluate", "data.npz", *given, *QUICKLY, "--out", "report", "--json", url=service)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["curve"][-1] == {
        "radius": 0.02,
        "certified_accuracy": pytest.approx(200 / 3),
        "low": pytest.approx(100 * beta.ppf(0.025, 2, 2)),  # the interval of Clopper and Pearson for two of three
        "high": pytest.approx(100 * beta.ppf(0.975, 3, 1)),
    }


def test_without_matplotlib_the_tables_are_written(service: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "matplotlib.py").write_text("raise ModuleNotFoundError(name='matplotlib')")
    done = smoothcert_process(
        "evaluate", folder, *QUICKLY, "--out", "report", url=service, env={"PYTHONPATH": f"{tmp_path / 'without'}"}
    )
    assert done.returncode == 0, done.stderr
    assert (
        "the report has no picture: a picture needs matplotlib: pip install '.[plot]' in a clone of smoothcert"
        in done.stderr
    )
    assert {path.name for path in Path("report").iterdir()} == {
        "certificates.jsonl",
        "curve.csv",
        "images.csv",
        "report.md",
    }


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("nowhere", [], "nowhere: there is no such file or folder; a data set is a folder of images, or a .npz"),
        ("ships", [], "the label 'ship' is not one of the ensemble's 2 classes (dark, light)"),
        ("data", ["--labels", "lost.csv"], "cannot read the image 'data/lost.png': No such file"),
        ("data", ["--ensemble", "none"], "there is no ensemble 'none'"),
        ("data", ["--out", "lost.csv"], "cannot keep the certificates in lost.csv"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    service: str, folder: Path, source: str, options: list[str], message: str
) -> None:
    make_folder(Path("ships"), ("ship", "light"))
    Path("lost.csv").write_text("lost.png,0\n")
    out = [] if "--out" in options else ["--out", "report"]
    one_sentence(smoothcert("evaluate", source, *QUICKLY, *options, *out, url=service), message)


def test_a_report_of_something_else_is_not_mixed_in(service: str, folder: Path) -> None:
    command = ("evaluate", folder, *QUICKLY, "--out", "report")
    assert smoothcert(*command, url=service).returncode == 0
    one_sentence(smoothcert(*command, "--radius", "0.01", url=service), "belongs to another run")
    (folder / "dark" / "00.png").write_bytes(png(9))
    one_sentence(smoothcert(*command, url=service), "has a certificate of image 0, but this one is different")
    (folder / "dark" / "00.png").unlink()
    ledger = Path("report/certificates.jsonl")
    served = json.loads(smoothcert("ensembles", "--json", url=service).stdout.splitlines()[1])["digest"]
    first, *lines = ledger.read_text().splitlines()
    ledger.write_text("\n".join([first, *(of_another_ensemble(each, served, "0" * 64) for each in lines)]) + "\n")
    one_sentence(smoothcert(*command, url=service), "certificates of another ensemble than trivial", "another --out")


def test_where_several_ensembles_are_served_one_is_named(service: str, folder: Path) -> None:
    done = smoothcert("evaluate", folder, "--radius", "0.02", "--out", "report", url=service)
    one_sentence(done, "--ensemble is needed: the service offers moody, trivial")
