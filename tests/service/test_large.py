"""Images of ImageNet's shape, end to end: three ResNet50, 224 x 224, 1,000 classes, by SDK, HTTP, page and worker."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from app.local.embedded import EmbeddedServer
from smoothcert import Certificate, Client, verify
from smoothcert.examination import examine
from tests.support.api import Api
from tests.support.chromium import MISSING, chromium
from tests.support.large import NAME, SOURCE, large_zoo, peak_mb, photograph
from tests.support.pool import Pool
from tests.support.visit import Visit

MOST_BYTES = 20_000
MOST_MB = 2000
"""The most MB of a worker: twice three networks of 102 MB, torch, and what a batch of 32 takes."""
QUESTION: dict[str, Any] = {"ensemble": NAME, "procedure": {"name": "fixed", "n": 24, "n0": 8}, "consensus": 2}


@dataclass(frozen=True)
class Large:
    api: Api
    pool: Pool

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.api.port}/"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Large]:
    folder: Path = tmp_path_factory.mktemp("large")
    zoo = large_zoo(folder / "zoo")
    with EmbeddedServer(folder / "valkey") as server:
        pool = Pool(server, zoo, "default")
        try:
            pool.start(patience=600)
            with Api(server.url, folder) as api:
                yield Large(api, pool)
        finally:
            pool.end()


@pytest.fixture(scope="module")
def certificate(service: Large) -> Certificate:
    with Client(service.address) as client:
        return client.certify(photograph(), resize={"fit": "cover", "share": 0.875}, **QUESTION)


def test_a_certificate_of_a_thousand_classes_is_small_and_follows_from_its_counts(certificate: Certificate) -> None:
    assert len(certificate.model_dump_json()) < MOST_BYTES
    assert verify(certificate)
    assert certificate.samples == 32
    assert certificate.evaluations is not None
    assert 2 * 32 <= certificate.evaluations <= 3 * 32


def test_what_was_certified_is_the_resized_image_and_the_certificate_says_so(certificate: Certificate) -> None:
    assert certificate.provenance is not None
    stated = certificate.provenance.input
    assert stated.resized is not None
    side = 375 * 0.875
    left, top = (500 - side) / 2, (375 - side) / 2
    assert stated.resized.source == SOURCE
    assert stated.resized.box == pytest.approx((left, top, left + side, top + side))
    picture = Image.open(io.BytesIO(photograph()))
    pixels = np.asarray(picture.resize((224, 224), Image.Resampling.BICUBIC, box=stated.resized.box))
    floats = pixels.transpose(2, 0, 1).astype("<f4") / np.float32(255)
    assert stated.sha256 == hashlib.sha256(floats.tobytes()).hexdigest()
    (note,) = examine(certificate.to_json().encode()).notes
    assert "500 x 375 pixels, resized to 224 x 224 by the method bicubic (Pillow" in note


def test_a_record_of_resizing_that_was_changed_is_noticed(certificate: Certificate) -> None:
    fields = json.loads(certificate.to_json())
    fields["provenance"]["input"]["resized"]["box"][0] += 1
    changed = Certificate.model_validate(fields)
    problems = verify(changed.model_copy(update={"digest": changed.expected_digest()})).problems
    assert [each.field for each in problems] == ["provenance.input.resized"]


def test_an_image_of_another_size_is_refused_with_the_remedy(service: Large) -> None:
    files = {"images": ("photograph.png", photograph())}
    answer = service.api.client.post("/v1/certifications", data={"request": json.dumps(QUESTION)}, files=files)
    assert answer.status_code == 422
    assert "is 500 x 375 (width x height), wanted 224 x 224; `resize`: 'cover' changes that" in answer.json()["detail"]


def test_the_page_shows_progress_that_moves_and_the_words_about_resizing(
    service: Large, certificate: Certificate
) -> None:
    if MISSING:
        pytest.skip(MISSING)
    longer = {**QUESTION, "procedure": {"name": "fixed", "n": 40, "n0": 8}, "resize": "cover"}
    files = {"images": ("photograph.png", photograph())}
    posted = service.api.client.post("/v1/certifications", data={"request": json.dumps(longer)}, files=files).json()
    progress = f"/v1/certifications/{posted['id']}"
    with chromium() as browser, Visit(browser, f"{service.address}#/certifications/{posted['id']}") as visit:
        seen = set()
        while (answer := service.api.client.get(progress).json())["status"] in ("queued", "running"):
            seen.add(answer["progress"]["samples"])
            time.sleep(0.1)
        assert answer["status"] == "succeeded", answer
        assert len(seen) > 1
        visit.page.wait_for_selector("text=What was certified is a resized image", timeout=60_000)
        assert visit.figure("samples") == "48"
        visit.check()


def test_the_memory_of_the_worker_is_bounded(service: Large, certificate: Certificate) -> None:
    (worker,) = service.pool.processes
    taken = peak_mb(worker.pid)
    print(f"the worker has taken {taken:.0f} MB at most, the certificate {len(certificate.model_dump_json()):,} bytes")
    assert taken < MOST_MB
