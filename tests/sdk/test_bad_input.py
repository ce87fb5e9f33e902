"""Every error is a sentence that says what to do."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import smoothcert
from smoothcert import Client, __version__
from smoothcert.client import errors
from smoothcert.errors import DomainError
from smoothcert.problem import KINDS, type_uri
from smoothcert.procedures import PROCEDURES
from tests.support.questions import DARK, LIGHT, QUICK
from tests.support.rogue import Rogue, changed, refuse, reply


@pytest.fixture
def nowhere() -> Any:
    """A client whose requests must be refused before they are sent."""
    with Client("http://127.0.0.1:9", retries=0) as client:
        yield client


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("nothing.png", "cannot read the image 'nothing.png': No such file"),
        (Path("/"), "'/' is not a regular file"),
        ("/dev/null", "'/dev/null' is not a regular file"),
        (7, "an array, or several of them, got int"),
        (None, "NoneType"),
        ([7], "an image must be a path, .* got int"),
        (np.zeros((8, 8, 3), np.int64), "dtype int64; it must be uint8"),
        (np.zeros((8, 8, 3), bool), "dtype bool"),
        (np.zeros(8, np.uint8), r"shape \[8\]"),
        (np.zeros((1, 1, 8, 8, 3), np.uint8), r"shape \[1, 8, 8, 3\]"),
        (Image.new("CMYK", (8, 8)), "mode 'CMYK'"),
    ],
)
def test_what_is_no_image_never_leaves(nowhere: Client, image: Any, message: str) -> None:
    with pytest.raises(errors.ImageError, match=message):
        nowhere.certify(image, **QUICK)


def test_an_empty_file_is_named(nowhere: Client, tmp_path: Path) -> None:
    (tmp_path / "empty.png").touch()
    with pytest.raises(errors.ImageError, match=r"empty\.png' is an empty file"):
        nowhere.certify(tmp_path / "empty.png", **QUICK)


def test_a_huge_file_is_named_and_not_read(nowhere: Client, tmp_path: Path) -> None:
    with (tmp_path / "huge.png").open("wb") as file:
        file.truncate(64_000_001)
    with pytest.raises(errors.ImageError, match=r"huge\.png' has 64,000,001 bytes, more than the 64,000,000"):
        nowhere.certify(tmp_path / "huge.png", **QUICK)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (b"no image at all", "images.0: cannot be decoded as PNG, JPEG or WebP; it begins with 'no image'"),
        (b"\xff\xd8\x00", "images.0: cannot be decoded as PNG, JPEG or WebP; its first bytes are ff d8 00"),
        (np.zeros((9, 8, 3), np.uint8), r"(?=.*\[9, 8, 3\])(?=.*\[3, 8, 8\])"),
        (np.full((8, 8, 3), 255.0), "values from 255 to 255.* 0 to 1"),
        (np.full((8, 8, 3), np.nan), "NaN"),
        (np.zeros((8, 8), np.uint8), r"shape.* \[8, 8, 1\]"),
        (Image.new("RGBA", (8, 8)), "(?=.*RGBA with transparency)(?=.* RGB .*`convert`: 'rgb')"),
    ],
)
def test_what_the_ensemble_does_not_take_is_told(client: Client, image: Any, message: str) -> None:
    with pytest.raises(errors.InvalidImageError, match=message) as caught:
        client.certify(image, **QUICK)
    assert isinstance(caught.value, ValueError)
    assert (caught.value.code, caught.value.status, caught.value.errors[0].field) == ("invalid_image", 422, "images.0")


def test_a_wrong_file_is_named(client: Client, tmp_path: Path) -> None:
    file = io.BytesIO()
    Image.new("RGB", (9, 8)).save(file, "PNG")
    (tmp_path / "wide.png").write_bytes(file.getvalue())
    with pytest.raises(errors.InvalidImageError, match=r"images.1 \(.*wide.png\): .*9 x 8"):
        client.certify([DARK, tmp_path / "wide.png"], **QUICK)


def test_a_conversion_that_is_allowed_is_made(client: Client) -> None:
    assert client.certify(Image.new("RGBA", (8, 8), "white"), convert="rgb", **QUICK).class_index == 1


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://here", "http://", "http://here:port", "http://here/?x=1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(DomainError, match=r"base_url .* must look like http://127\.0\.0\.1:8000"):
        Client(url)


@pytest.mark.parametrize("key", ["sk_\n", "schlüssel"])
def test_a_key_that_no_header_takes_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(DomainError, match="printable ASCII") as caught:
        Client(api_key=key)
    assert key not in str(caught.value)


def test_another_server_at_the_address_is_told_apart(rogue: Rogue) -> None:
    rogue.plan("", refuse(404), refuse(404))
    with Client(rogue.url) as client, pytest.raises(errors.VersionError, match="the address of a smoothcert service"):
        client.ensembles.list()


def test_a_success_that_is_not_ours_is_told_apart(rogue: Rogue) -> None:
    rogue.plan("", refuse(200), refuse(200))
    with Client(rogue.url) as client, pytest.raises(errors.VersionError, match="Invalid JSON"):
        client.ensembles.list()


# --- a server of another version


def test_what_a_later_version_adds_is_passed_over(rogue: Rogue) -> None:
    def later(payload: Any) -> None:
        payload["mood"] = "good"
        payload["progress"]["colour"] = "blue"
        payload["request"]["temperature"] = 1
        payload["request"]["procedure"]["patience"] = 3

    rogue.plan("/v1/certifications", changed(later), times=9)
    with Client(rogue.url) as client:
        submitted = client.submit([DARK, LIGHT], **QUICK)
        assert client.certifications.get(submitted.id).request.ensemble == "trivial"


def test_a_list_of_a_later_version_is_read(rogue: Rogue, client: Client) -> None:
    client.submit(DARK, **QUICK)

    def later(payload: Any) -> None:
        for each in payload["data"]:
            each["request"]["temperature"] = 1

    rogue.plan("GET /v1/certifications", changed(later), times=9)
    with Client(rogue.url) as through:
        assert next(through.certifications.list()).ensemble


def test_what_another_version_leaves_out_names_both_versions(rogue: Rogue) -> None:
    rogue.plan("/v1/ensembles", changed(lambda payload: payload["data"][0].pop("digest")))
    rogue.plan("/v1/version", reply(200, {"smoothcert": "9.9.9", "api": "1", "certificate": "x"}))
    with Client(rogue.url) as client, pytest.raises(errors.VersionError) as caught:
        client.ensembles.list()
    for words in ("data.0.digest: is missing", "smoothcert 9.9.9", f"this is {__version__}", "install 9.9.9 here"):
        assert words in str(caught.value)


def test_an_api_of_another_version_is_named(rogue: Rogue) -> None:
    gone = {"type": "x", "title": "x", "status": 404, "detail": "there is nothing at '/v1/plan'", "code": "not_found"}
    rogue.plan("/v1/plan", reply(404, {**gone, "request_id": "r1"}))
    rogue.plan("/v1/version", reply(200, {"smoothcert": "9.9.9", "api": "2", "certificate": "x"}))
    with (
        Client(rogue.url) as client,
        pytest.raises(errors.VersionError, match="with API 2 is served") as caught,
    ):
        client.plan(**QUICK)
    assert caught.value.request_id == "r1"


def test_a_certificate_that_says_more_than_is_understood_is_refused(rogue: Rogue, client: Client) -> None:
    submitted = client.submit(DARK, **QUICK)
    client.certifications.wait(submitted.id)
    rogue.plan(
        "GET /v1/certifications", changed(lambda payload: payload["certificates"][0].update(caveat="none of it"))
    )
    with Client(rogue.url) as through, pytest.raises(errors.VersionError, match="caveat"):
        through.certifications.get(submitted.id)


def test_a_problem_of_a_later_version_keeps_its_code(rogue: Rogue) -> None:
    new = {"type": "x", "title": "x", "status": 422, "detail": "too blue", "code": "too_blue", "request_id": "r1"}
    rogue.plan("/v1/plan", reply(422, new))
    with Client(rogue.url) as client, pytest.raises(errors.InvalidRequestError, match="too blue") as caught:
        client.plan(**QUICK)
    assert (caught.value.code, caught.value.status, caught.value.request_id) == ("too_blue", 422, "r1")


def test_a_request_that_is_too_large_is_sent_once(client: Client) -> None:
    with pytest.raises(errors.TooLargeError, match="certify_many") as caught:
        client.certify(bytes(40_000_000), **QUICK)
    assert (caught.value.status, caught.value.attempts) == (413, 1)
    with pytest.raises(errors.TooLargeError, match=r"may have .*1,000 images"):
        client.certify(np.zeros((1001, 8, 8, 3), np.uint8), **QUICK)


@pytest.mark.parametrize("code", KINDS)
def test_every_problem_raises_the_class_of_its_code(rogue: Rogue, code: str) -> None:
    status, title = KINDS[code].status, KINDS[code].title
    field = {"field": "radius", "message": "is blue"}
    payload = {"type": type_uri(code), "title": title, "status": status, "detail": "so it is", "code": code}
    rogue.plan("/v1/plan", reply(status, {**payload, "request_id": "r1", "errors": [field]}))
    with Client(rogue.url, retries=0) as client, pytest.raises(smoothcert.ClientError, match="so it is") as caught:
        client.plan(**QUICK)
    error = caught.value
    if code == "not_found":  # the API itself is not there
        assert isinstance(error, errors.VersionError)
        return
    assert type(error) is errors.BY_CODE[code]
    assert (error.code, error.status, error.request_id) == (code, status, "r1")
    assert [each.model_dump() for each in error.errors] == [field]


def test_an_address_may_have_a_path(rogue: Rogue) -> None:
    with Client(f"{rogue.url}/behind/a/proxy/") as client, pytest.raises(errors.VersionError):
        client.ensembles.list()
    assert rogue.seen[0].path == "/behind/a/proxy/v1/ensembles"


def test_an_address_may_end_with_the_version_of_the_api(rogue: Rogue) -> None:
    with Client(f"{rogue.url}/v1/") as client:
        client.ensembles.list()
    assert rogue.seen[0].path == "/v1/ensembles"


def test_a_closed_client_says_so(nowhere: Client) -> None:
    nowhere.close()
    with pytest.raises(errors.ClientError, match="the client is closed") as caught:
        nowhere.ensembles.list()
    assert caught.value.code == "closed"


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_nobody_waits_less_than_no_time(nowhere: Client, seconds: float) -> None:
    with pytest.raises(DomainError, match="wait_timeout must be zero seconds or more"):
        nowhere.certify(LIGHT, **QUICK, wait_timeout=seconds)


@pytest.mark.parametrize(
    ("procedure", "message"),
    [
        ("bogus", f"must be one of {', '.join(map(repr, PROCEDURES.offered))}, got 'bogus'"),
        ({"n": 5}, "procedure: must have the field 'name', got {'n': 5}"),
    ],
)
def test_an_unknown_procedure_is_named_with_those_there_are(nowhere: Client, procedure: Any, message: str) -> None:
    with pytest.raises(errors.InvalidRequestError) as caught:
        nowhere.certify(LIGHT, procedure=procedure)
    assert message in str(caught.value)
