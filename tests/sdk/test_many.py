"""A whole data set is certified in order, a few jobs at a time, and resumed from its file."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

from smoothcert import Client
from smoothcert.client import errors, many
from smoothcert.errors import LedgerError
from tests.support.command import png
from tests.support.questions import DARK, ENDLESS, LIGHT, QUICK, of_another_ensemble
from tests.support.rogue import Exchange, Rogue, lose_answer, refuse

POST = "POST /v1/certifications"


def images(count: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Images of which every third is light, and no two are equal."""
    for number in range(count):
        image = (DARK if number % 3 else LIGHT).copy()
        image[0, 0, 0] = number
        yield image


def classes(count: int) -> list[int]:
    return [int(number % 3 == 0) for number in range(count)]


def jobs(rogue: Rogue) -> list[int]:
    """The number of images in each request."""
    return [len(json.loads(seen.body)["images"]) for seen in rogue.requests(POST)]


def test_certificates_come_in_the_order_of_the_images(rogue: Rogue) -> None:
    with Client(rogue.url) as client:
        found = list(client.certify_many(images(50), job_images=8, **QUICK))
    assert [each.class_index for each in found] == classes(50)
    assert jobs(rogue) == [8, 8, 8, 8, 8, 8, 2]


def test_a_loader_may_yield_batches_and_pairs_whose_labels_are_ignored(client: Client) -> None:
    """torch's DataLoader and torchvision's data sets yield these."""
    arrays = torch.stack([torch.full((3, 8, 8), each, dtype=torch.uint8) for each in (0, 255, 0)])
    loader = DataLoader(TensorDataset(arrays, torch.tensor([0, 1, 0])), batch_size=2)
    without = DataLoader(TensorDataset(arrays), batch_size=2)
    picture = Image.new("RGB", (8, 8), (255, 255, 255))
    mixed = [(DARK, 0), (picture, "light"), (arrays[0], np.int64(0)), arrays[:2], (arrays[1:], ("light", "dark"))]
    for source, expected in ((loader, [0, 1, 0]), (without, [0, 1, 0]), (mixed, [0, 1, 0, 0, 1, 1, 0])):
        assert [each.class_index for each in client.certify_many(source, **QUICK)] == expected
    with pytest.raises(errors.ImageError, match="cannot read the image 'dark'"):
        list(client.certify_many([(png(0), "dark")], **QUICK))


def test_only_as_many_images_are_taken_as_are_under_way(client: Client) -> None:
    taken = itertools.count()
    source = (image for image, _ in zip(images(100), taken, strict=False))
    running = client.certify_many(source, job_images=4, **QUICK)
    next(running)
    assert next(taken) == 4 * many.JOBS
    running.close()  # type: ignore[attr-defined]


def test_jobs_have_no_more_bytes_than_may_be(rogue: Rogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many, "JOB_BYTES", 3 * 256)  # the length of 192 pixels in base64
    with Client(rogue.url) as client:
        assert [each.class_index for each in client.certify_many(images(10), **QUICK)] == classes(10)
    assert jobs(rogue) == [3, 3, 3, 1]


def test_nothing_gives_nothing(client: Client, tmp_path: Path) -> None:
    assert list(client.certify_many([], **QUICK, out=tmp_path / "out.jsonl")) == []


def test_a_single_image_is_a_small_data_set(client: Client) -> None:
    assert [each.class_index for each in client.certify_many(LIGHT, **QUICK)] == [1]


def test_a_run_goes_on_where_it_was_cut(rogue: Rogue, tmp_path: Path) -> None:
    out = tmp_path / "run" / "out.jsonl"
    with Client(rogue.url, retries=0) as client:
        running = client.certify_many(images(40), job_images=8, out=out, **QUICK)
        before = list(itertools.islice(running, 12))
        rogue.plan("GET", refuse(418), times=50)
        with pytest.raises(errors.AnswerError) as caught:
            list(running)
        rogue.script.clear()
        assert any("images 16 to 23 of the data set" in note for note in caught.value.__notes__)
        lines = out.read_text().splitlines()
        assert len(lines) == 1 + 16
        out.write_text("\n".join(lines[:-2]) + "\n" + lines[-2][:100])  # the machine died while it wrote this line
        rogue.seen.clear()
        found = list(client.certify_many(images(40), job_images=8, out=out, **QUICK))
    assert found[:12] == before
    assert [each.class_index for each in found] == classes(40)
    assert jobs(rogue) == [8, 8, 8, 8]  # the jobs under way are asked for again, from the one of image 14 on
    assert len(out.read_text().splitlines()) == 1 + 40
    with Client(rogue.url) as client:
        rogue.seen.clear()
        assert list(client.certify_many(images(40), out=out, **QUICK)) == found
    assert not rogue.seen


@pytest.mark.parametrize("leaving", ["leave", "cancel"])
def test_a_certification_that_has_failed_is_not_said_to_go_on(client: Client, leaving: Any) -> None:
    """The image breaks the network, in both jobs."""
    before = {each.id for each in client.certifications.list()}
    made: list[str] = []

    def broken() -> Iterator[Any]:
        for _ in range(2):
            yield np.full((3, 8, 8), 0.333)
        made.extend(each.id for each in client.certifications.list() if each.id not in before)
        for each in made:
            client.certifications.wait(each)

    with pytest.raises(errors.EngineFailedError) as caught:
        list(client.certify_many(broken(), job_images=1, on_timeout=leaving, **ENDLESS))
    assert caught.value.certification is not None
    (other,) = set(made) - {caught.value.certification.id}
    assert caught.value.__notes__ == [
        "with images 0 to 0 of the data set",
        f"the certification {other} has ended meanwhile",
    ]


def test_what_was_under_way_is_not_drawn_again(rogue: Rogue, client: Client, tmp_path: Path) -> None:
    """Otherwise the images that were undecided at Ctrl-C, and only those, would get a second chance."""
    out = tmp_path / "out.jsonl"

    def interrupted() -> Iterator[Any]:
        yield from images(4)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        list(client.certify_many(interrupted(), job_images=2, out=out, **ENDLESS))
    left = [note.split()[2] for note in caught.value.__notes__]
    assert len(left) == 2
    assert all("goes on" in note for note in caught.value.__notes__)
    before = {each.id for each in client.certifications.list()}
    rogue.plan("GET", refuse(418), times=50)
    with Client(rogue.url, retries=0) as through, pytest.raises(errors.AnswerError):
        list(through.certify_many(images(4), job_images=2, out=out, **ENDLESS))
    rogue.script.clear()
    assert jobs(rogue) == [2, 2]
    assert {each.id for each in client.certifications.list()} == before
    with pytest.raises(LedgerError, match="has other images 0 to 1 of the data set; remove that file"):
        list(client.certify_many([LIGHT, DARK], job_images=2, out=out, **ENDLESS))
    with pytest.raises(LedgerError, match="has images 0 to 1 of the data set, but there are fewer"):
        list(client.certify_many(images(1), job_images=2, out=out, **ENDLESS))
    for certification in left:
        client.certifications.cancel(certification)
        client.certifications.wait(certification)
    with pytest.raises(errors.CanceledError) as canceled:
        list(client.certify_many(images(4), job_images=2, out=out, **ENDLESS))
    assert any("a second chance at a certificate" in note for note in canceled.value.__notes__)
    out.with_name("out.jsonl.jobs").unlink()
    assert [each.class_index for each in client.certify_many(images(2), out=out, **QUICK)] == classes(2)
    assert not out.with_name("out.jsonl.jobs").exists()


def test_ctrl_c_while_certificates_are_written_leaves_a_file_that_goes_on(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next job's certificates must not be written where those of the job under way belong."""
    out, add, calls = tmp_path / "out.jsonl", many.CertificateLedger.add, itertools.count()

    def interrupted(ledger: many.CertificateLedger, sha256: str, certificate: Any) -> None:
        if next(calls) == 3:
            raise KeyboardInterrupt
        add(ledger, sha256, certificate)

    with monkeypatch.context() as patched:
        patched.setattr(many.CertificateLedger, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(client.certify_many(images(8), job_images=2, out=out, **QUICK))
    found = list(client.certify_many(images(8), job_images=2, out=out, priority="normal", metadata={"a": "b"}, **QUICK))
    assert [each.class_index for each in found] == classes(8)
    assert len(out.read_text().splitlines()) == 1 + 8


def test_what_a_job_has_finished_is_kept_by_who_leaves_it(rogue: Rogue, client: Client, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"

    def refuse_at_the_end(exchange: Exchange) -> None:
        newest = next(iter(client.certifications.list()))
        client.certifications.wait(newest.id)
        refuse(418)(exchange)

    rogue.plan("GET", refuse_at_the_end)  # the events fail,
    rogue.plan("GET", refuse(418))  # and so does the poll after them
    with Client(rogue.url, retries=0) as through, pytest.raises(errors.AnswerError):
        list(through.certify_many(images(8), out=out, **QUICK))
    assert len(out.read_text().splitlines()) == 1 + 8
    with Client(rogue.url) as through:
        rogue.seen.clear()
        assert [each.class_index for each in through.certify_many(images(8), out=out, **QUICK)] == classes(8)
    assert not rogue.seen


def test_a_file_of_another_run_is_refused(client: Client, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    list(client.certify_many(images(3), out=out, **QUICK))
    with pytest.raises(LedgerError, match="belongs to another run"):
        list(client.certify_many(images(3), out=out, **{**QUICK, "radius": 0.01}))
    with pytest.raises(LedgerError, match=r"question\.consensus is None there and 1 here"):
        list(client.certify_many(images(3), out=out, **QUICK, consensus=1))
    with pytest.raises(LedgerError, match="a certificate of image 0, but this one is different"):
        list(client.certify_many([DARK, LIGHT], out=out, **QUICK))
    with pytest.raises(LedgerError, match="a certificate of image 2, but the data set is shorter"):
        list(client.certify_many(images(2), out=out, **QUICK))


def test_what_is_no_longer_asked_makes_another_run_too(client: Client, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    list(client.certify_many(images(3), out=out, **QUICK, alpha=0.2))
    with pytest.raises(LedgerError, match=r"question\.alpha is 0\.2 there and 0\.001 here"):
        list(client.certify_many(images(3), out=out, **QUICK))


def test_what_changes_no_certificate_makes_no_other_run(client: Client, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    before = list(client.certify_many(images(3), out=out, **QUICK))
    fields = {**QUICK, "alpha": 0.001, "priority": "high", "metadata": {"try": "second"}}
    assert list(client.certify_many(images(3), out=out, **fields)) == before


@pytest.mark.parametrize("changed", [[1], [2], [1, 2]], ids=["the first", "the second", "both, and not the third"])
def test_a_file_has_certificates_of_one_ensemble(client: Client, tmp_path: Path, changed: list[int]) -> None:
    out = tmp_path / "out.jsonl"
    first, _ = client.certify_many(images(2), out=out, **QUICK)
    assert first.provenance is not None
    now, before = first.provenance.ensemble.digest, "sha256:of an earlier one"
    lines = out.read_text().splitlines()
    for number in changed:
        lines[number] = of_another_ensemble(lines[number], now, before)
    out.write_text("\n".join(lines) + "\n")
    with pytest.raises(LedgerError, match=r"out\.jsonl has certificates of trivial .* is of trivial") as caught:
        list(client.certify_many(images(3), out=out, **QUICK))
    assert now in str(caught.value)
    assert before in str(caught.value)
    assert len(out.read_text().splitlines()) == 1 + 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line["certificate"].update(radius=0.9), "line 3 has been altered: digest"),
        (lambda line: line["certificate"].update(bogus=1), "line 3: .*bogus: there is no such field"),
        (lambda line: line.pop("certificate"), "line 3: not a certificate"),
    ],
)
def test_what_was_altered_in_the_file_is_not_told(client: Client, tmp_path: Path, change: Any, message: str) -> None:
    out = tmp_path / "out.jsonl"
    list(client.certify_many(images(2), out=out, **QUICK))
    *before, last = out.read_text().splitlines()
    altered = json.loads(last)
    change(altered)
    out.write_text("\n".join([*before, json.dumps(altered)]) + "\n")
    with pytest.raises(LedgerError, match=message):
        list(client.certify_many(images(2), out=out, **QUICK))


def test_a_question_that_was_refused_does_not_keep_its_file(client: Client, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(errors.RadiusOutOfReachError):
        list(client.certify_many(images(2), out=out, **{**QUICK, "radius": 50.0}))
    assert len(list(client.certify_many(images(2), out=out, **QUICK))) == 2


def test_a_file_that_cannot_be_written_is_named(client: Client, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match=f"{tmp_path} is not a regular file"):
        next(client.certify_many([DARK], out=tmp_path, **QUICK))


def test_whoever_breaks_off_cancels_what_is_under_way(client: Client) -> None:
    def source() -> Iterator[Any]:
        yield from [DARK] * 3
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone") as caught:
        list(client.certify_many(source(), job_images=1, **ENDLESS))
    assert [note.rpartition(" ")[2] for note in caught.value.__notes__] == ["canceled"] * 3
    for note in caught.value.__notes__:
        assert client.certifications.wait(note.split()[2]).status == "canceled"


def test_an_image_that_is_wrong_is_found_in_the_data_set(client: Client) -> None:
    with pytest.raises(errors.ImageError) as caught:
        list(client.certify_many([DARK, DARK, "nowhere.png"], **QUICK))
    assert "image 2 of the data set" in caught.value.__notes__
    with pytest.raises(errors.InvalidImageError, match=r"images\.1") as refused:
        list(client.certify_many([DARK, DARK, DARK, b"no image"], job_images=2, **QUICK))
    assert "with images 2 to 3 of the data set, here counted from 0" in refused.value.__notes__


def test_every_job_is_made_once(rogue: Rogue, service: str) -> None:
    rogue.plan(POST, lose_answer, times=2)
    with Client(service) as direct, Client(rogue.url) as client:
        before = {each.id for each in direct.certifications.list()}
        assert len(list(client.certify_many(images(6), job_images=3, **QUICK))) == 6
        assert len({each.id for each in direct.certifications.list()} - before) == 2


def test_where_there_is_no_room_for_a_job_others_end_first(rogue: Rogue) -> None:
    with Client(rogue.url, retries=0) as client:
        running = client.certify_many(images(20), job_images=2, **QUICK)
        first = next(running)
        rogue.plan(POST, refuse(429), times=3)
        assert [each.class_index for each in [first, *running]] == classes(20)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"labels": [1]}, "labels: certify_many takes none, and ignores those of pairs"),
        ({"family_wise": True}, "family_wise: it shares alpha among the images of one request"),
        ({"job_images": 0}, "job_images must be a whole number from 1 on, got 0"),
    ],
)
def test_what_has_no_meaning_for_a_data_set_is_refused(client: Client, fields: Any, message: str) -> None:
    with pytest.raises(errors.InvalidRequestError, match=message):
        list(client.certify_many([DARK], **QUICK, **fields))
