"""From an image in Python to a certificate, through the whole service."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import smoothcert
from smoothcert import Client
from smoothcert.certification import Progress
from smoothcert.client import errors
from smoothcert.noise import Gaussian, Noise, RoundedGaussian
from smoothcert.preparation import Preparation
from smoothcert.verification import verify
from tests.service import eventually
from tests.support.questions import DARK, ENDLESS, GREY, LIGHT, QUICK, pixels


def png(value: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (value,) * 3).save(file, "PNG")
    return file.getvalue()


def test_one_image_gives_a_certificate(client: Client) -> None:
    certificate = client.certify(LIGHT, **QUICK)
    assert isinstance(certificate, smoothcert.Certificate)
    assert (certificate.decision, certificate.class_name, certificate.radius) == ("certified", "light", 0.02)
    assert verify(certificate)
    assert client.verify(certificate).consistent


def test_several_images_give_a_list_in_their_order(client: Client) -> None:
    values = [0, 255, 255, 0, 255]
    found = client.certify([pixels(value) for value in values], **QUICK)
    assert [certificate.class_index for certificate in found] == [value // 255 for value in values]


@pytest.mark.parametrize(
    "light",
    [
        png(255),
        bytearray(png(255)),
        Image.open(io.BytesIO(png(255))),
        Image.new("RGB", (8, 8), "white"),
        LIGHT,
        LIGHT.transpose(1, 2, 0),
        np.ones((8, 8, 3), np.float32),
        np.ones((3, 8, 8), np.float16),
        np.ones((3, 8, 8), ">f8"),
        np.asfortranarray(np.ones((3, 8, 8))),
        torch.ones(3, 8, 8),
        torch.ones(3, 8, 8, dtype=torch.bfloat16, requires_grad=True),
        torch.full((3, 8, 8), 255, dtype=torch.uint8),
    ],
    ids=lambda image: f"{type(image).__module__}-{getattr(image, 'dtype', '')}-{getattr(image, 'shape', '')}",
)
def test_every_kind_of_image_is_the_same_image(client: Client, light: Any) -> None:
    certificate = client.certify(light, **QUICK)
    assert certificate.class_name == "light"
    assert certificate.provenance.input == client.certify(LIGHT, **QUICK).provenance.input


def test_arrays_with_four_axes_are_several_images(client: Client) -> None:
    several = np.stack([DARK, LIGHT])
    for images in (several, several.transpose(0, 2, 3, 1), several / 255.0, torch.from_numpy(several / 255)):
        assert [each.class_index for each in client.certify(images, **QUICK)] == [0, 1]


def test_paths_are_read(client: Client, tmp_path: Path) -> None:
    (tmp_path / "light.png").write_bytes(png(255))
    assert client.certify(tmp_path / "light.png", **QUICK).class_index == 1
    assert [each.class_index for each in client.certify([str(tmp_path / "light.png"), png(0)], **QUICK)] == [1, 0]


def test_colours_are_not_changed_on_the_way(client: Client) -> None:
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (8, 8, 3), np.uint8)
    sent = [colours, colours.transpose(2, 0, 1), Image.fromarray(colours), torch.from_numpy(colours).permute(2, 0, 1)]
    found = client.certify(sent, **{**QUICK, "radius": 0.001})
    assert len({certificate.provenance.input.sha256 for certificate in found}) == 1


def test_threads_may_share_a_client(client: Client) -> None:
    def ask(number: int) -> Any:
        return client.certify(LIGHT if number % 2 else DARK, **QUICK).class_index

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(24))) == [number % 2 for number in range(24)]


def test_an_abstention_is_an_ordinary_answer(client: Client) -> None:
    certificate = client.certify(np.full((3, 8, 8), GREY), **QUICK)
    assert (certificate.decision, certificate.class_index, certificate.radius) == ("abstain", None, 0)


def test_everything_that_is_asked_arrives(client: Client) -> None:
    fields: Any = {
        "noise": Gaussian(0.02),
        "alpha": 0.002,
        "beta": 0.003,
        "voting": "hard",
        "consensus": 1,
        "family_wise": True,
        "labels": np.array([0, 1]),
        "metadata": {"who": "a test"},
        "priority": "high",
        "deadline_s": 60.0,
    }
    submitted = client.submit([DARK, LIGHT], **QUICK, **fields)
    request = client.certifications.wait(submitted.id).request
    for name, value in fields.items():
        assert getattr(request, name) == (tuple(value) if name == "labels" else value), name


@pytest.mark.parametrize(
    ("given", "noise"),
    [
        ({"sigma": 0.01}, RoundedGaussian(0.01)),  # the shorthand means this noise for bytes
        ({"noise": {"name": "gaussian", "sigma": 0.01}}, Gaussian(0.01)),
        ({"noise": Gaussian(0.01), "sigma": 0.01}, Gaussian(0.01)),
    ],
)
def test_a_noise_may_be_an_object_a_mapping_or_its_shorthand(client: Client, given: Any, noise: Noise) -> None:
    certificate = client.certify(DARK, **{**QUICK, "radius": 0.005}, **given, allow_noise_mismatch=True)
    assert certificate.noise == noise
    assert client.plan(**{**QUICK, "radius": 0.005}, **given, allow_noise_mismatch=True).feasible


def test_progress_is_told(client: Client) -> None:
    reports: list[Progress] = []
    client.certify([DARK, LIGHT], progress=reports.append, **QUICK)
    assert reports[-1].images_done == reports[-1].images_total == 2
    assert [each.images_done for each in reports] == sorted(each.images_done for each in reports)


def test_a_bar_is_shown_where_it_is_asked_for(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    client.certify(DARK, progress=True, **QUICK)
    shown = capsys.readouterr()
    assert "certifying" in shown.err
    assert not shown.out
    client.certify(DARK, **QUICK)
    assert not capsys.readouterr().err  # a pipe gets no progress bar


def test_a_failed_certification_raises_by_its_code(client: Client) -> None:
    with pytest.raises(errors.DeadlineExceededError) as caught:
        client.certify(DARK, **ENDLESS, deadline_s=0.2)
    assert caught.value.code == "deadline_exceeded"
    assert caught.value.certification is not None
    assert caught.value.certification.status == "failed"
    with pytest.raises(errors.EngineFailedError):
        client.certify(np.full((3, 8, 8), 0.333), **ENDLESS)


@pytest.mark.parametrize("last_seconds", [0.5, 12.0], ids=["followed, then polled", "polled"])
@pytest.mark.parametrize(
    ("on_timeout", "status"), [("cancel", {"canceled", "canceling"}), ("leave", {"queued", "running"})]
)
def test_a_wait_that_is_too_long_cancels_or_leaves(
    client: Client, on_timeout: Any, status: set[str], last_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smoothcert.client.core.LAST_SECONDS", last_seconds)
    with pytest.raises(errors.WaitTimeoutError, match=r"has not ended after 1\.5 s: ") as caught:
        client.certify(DARK, **ENDLESS, wait_timeout=1.5, on_timeout=on_timeout)
    assert isinstance(caught.value, TimeoutError)
    assert caught.value.certification is not None
    left = caught.value.certification.id
    assert left in str(caught.value)
    assert any(left in note for note in caught.value.__notes__)
    assert client.certifications.get(left).status in status
    if on_timeout == "leave":
        client.certifications.cancel(left)
    assert client.certifications.wait(left).status == "canceled"


def test_ctrl_c_in_the_middle_cancels(client: Client) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.samples:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        client.certify(DARK, **ENDLESS, progress=interrupt)
    (newest,) = [next(client.certifications.list())]
    assert newest.id in caught.value.__notes__[0]
    eventually(lambda: client.certifications.get(newest.id).status == "canceled")


def test_a_real_ctrl_c_cancels_and_says_so(client: Client, service: str) -> None:
    before = {each.id for each in client.certifications.list()}
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # the shell may have ignored it
        "from smoothcert import Client; from tests.support.questions import DARK, ENDLESS\n"
        f"Client({service!r}).certify(DARK, **ENDLESS)"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True) as process:
        made = eventually(lambda: {each.id for each in client.certifications.list()} - before)
        eventually(lambda: client.certifications.get(*made).progress.samples)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert f"the certification {min(made)} was canceled" in err
    assert client.certifications.wait(*made).status == "canceled"


def test_what_was_done_to_an_image_before_is_stated_by_its_own_certificate_alone(client: Client) -> None:
    done = {"source": (640, 320), "box": (160, 0, 480, 320), "by": "my crop"}
    first, second = client.certify([DARK, LIGHT], **QUICK, prepared=[None, done])
    assert first.provenance is not None
    assert second.provenance is not None
    assert first.provenance.input.prepared is None
    assert second.provenance.input.prepared == Preparation(source=(640, 320), box=(160, 0, 480, 320), by="my crop")
    assert all(map(verify, (first, second)))
    assert "my crop" in second.remarks[0]
    with pytest.raises(errors.InvalidRequestError, match="prepared: certify_many takes none"):
        next(iter(client.certify_many([DARK], **QUICK, prepared=[done])))
