"""A whole data set: jobs of a good size, a few of them at a time, and a file of what is finished.

Only the jobs under way are held in memory. The file is a `Ledger` with a line for each image, in their order; a run
that was cut goes on after the last of them, if it is given the same images and the same question.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smoothcert.certificate import Certificate, EnsembleRecord
from smoothcert.client.bar import unseen
from smoothcert.client.core import Core, Leaving, require_known
from smoothcert.client.deadline import Deadline
from smoothcert.client.errors import BusyError, ClientError, ImageError, InvalidRequestError
from smoothcert.client.exchange import NEVER
from smoothcert.client.images import EncodedImage, encode
from smoothcert.client.outcome import certificates
from smoothcert.client.question import RequestFields, ask
from smoothcert.client.steps import EXHAUSTED, Pull, Steps, Tell
from smoothcert.errors import CertificateError, LedgerError
from smoothcert.ledger import REMEDY, Ledger
from smoothcert.request import CertificationRequest
from smoothcert.verification import verify

JOB_IMAGES = 64
"""Enough to fill the batches of a worker, few enough to come back soon."""
JOB_BYTES = 8_000_000
"""Of a request, at most, unless a single image is larger."""
JOBS = 4
"""Under way at a time, so that the workers never wait for us."""
HANDLING = {"metadata", "priority", "deadline_s"}
"""What may be another in a run that goes on: no certificate depends on it."""


@dataclass(frozen=True)
class Job:
    """Some images under way."""

    start: int
    """The place of the first in the data set."""
    digests: tuple[str, ...]
    certification: str

    def __str__(self) -> str:
        return _places(self.start, len(self.digests))


def _places(start: int, count: int) -> str:
    return f"images {start} to {start + count - 1} of the data set"


def certify_many(
    core: Core, question: RequestFields, *, out: Path | None, job_images: int, leaving: Leaving
) -> Steps[None]:
    """Tells the certificate of each image that is pulled, in their order."""
    if question.get("labels") is not None:
        raise InvalidRequestError("labels: they belong to one request; zip them with the certificates instead")
    if question.get("family_wise"):
        said = "it shares alpha among the images of one request, and these are many: give each image its share of alpha"
        raise InvalidRequestError(f"family_wise: {said}")
    if not isinstance(job_images, int) or job_images < 1:
        raise InvalidRequestError(f"job_images must be a whole number from 1 on, got {job_images!r}")
    require_known(leaving)
    request = ask(question, CertificationRequest)
    with Finished(out, request.model_dump(mode="json", exclude=HANDLING)) as finished:
        yield from DataSet(core, request, finished, job_images=job_images, leaving=leaving).certify()


class DataSet:
    """Images that are pulled one by one, and the jobs that they are certified in."""

    def __init__(
        self, core: Core, request: CertificationRequest, finished: Finished, *, job_images: int, leaving: Leaving
    ) -> None:
        self._core, self._request, self._finished = core, request, finished
        self._job_images, self._leaving = job_images, leaving
        self._under_way: deque[Job] = deque()
        self._put_back: deque[EncodedImage] = deque()
        self._pulled = 0
        self._begun = 0
        """Images that are in a job, or were finished before."""

    def certify(self) -> Steps[None]:
        """Tells every certificate; whoever leaves before the end cancels the jobs under way, or leaves them."""
        try:
            yield from self._recall()
            while (yield from self._fill()):
                for certificate in (yield from self._finish(self._under_way[0])):
                    yield Tell(certificate)
        except BaseException as error:  # also Ctrl-C, and a caller who breaks off
            yield from self._core.leave([job.certification for job in self._under_way], self._leaving, error)
            if not isinstance(error, LedgerError):
                yield from self._salvage()
            raise

    def _recall(self) -> Steps[None]:
        """What was finished before, for as many images; they must be the same ones."""
        for digest, certificate in self._finished.recalled():
            image = yield from self._pull()
            if image is None or image.sha256() != digest:
                seen = "there is none" if image is None else "this is another one"
                remedy = "give the same images in the same order, or name another file"
                raise LedgerError(f"{self._finished.path} has an image {self._begun} of which {seen}; {remedy}")
            self._begun += 1
            yield Tell(certificate)

    def _fill(self) -> Steps[bool]:
        """Submit as many jobs as may be under way; false when there is none left."""
        while len(self._under_way) < JOBS and (images := (yield from self._next_images())):
            try:
                certification = yield from self._core.submit(images, self._request, leaving=self._leaving)
            except ClientError as error:
                if isinstance(error, BusyError) and self._under_way:  # when one of ours has ended there may be room
                    self._put_back.extendleft(reversed(images))
                    break
                error.add_note(f"with {_places(self._begun, len(images))}, here counted from 0")
                raise
            self._under_way.append(Job(self._begun, tuple(image.sha256() for image in images), certification.id))
            self._begun += len(images)
        return bool(self._under_way)

    def _finish(self, job: Job) -> Steps[tuple[Certificate, ...]]:
        """The certificates of a job at its end, all of them in the file before the first is told."""
        try:
            found = certificates((yield from self._core.wait(job.certification, NEVER, unseen)))
        except ClientError as error:
            error.add_note(f"with {job}")
            raise
        self._under_way.popleft()
        for digest, certificate in zip(job.digests, found, strict=True):
            self._finished.add(digest, certificate)
        return found

    def _salvage(self) -> Steps[None]:
        """What the oldest job has finished, from its first image on without a gap, is kept for the next run."""
        if not (self._under_way and self._finished.kept):
            return
        job = self._under_way[0]
        try:
            found = yield from self._core.get(job.certification, deadline=Deadline(0))
        except ClientError:
            return
        for place, certificate in enumerate(found.certificates):
            if certificate.index != place:
                break
            self._finished.add(job.digests[place], certificate)

    def _next_images(self) -> Steps[list[EncodedImage]]:
        """So many as make a job."""
        images: list[EncodedImage] = []
        size = 0
        while len(images) < self._job_images and (image := (yield from self._pull())):
            size += image.size
            if images and size > JOB_BYTES:
                self._put_back.appendleft(image)
                break
            images.append(image)
        return images

    def _pull(self) -> Steps[EncodedImage | None]:
        if self._put_back:
            return self._put_back.popleft()
        pulled = yield Pull()
        if pulled is EXHAUSTED:
            return None
        self._pulled += 1
        try:
            return encode(pulled)
        except ImageError as error:
            error.add_note(f"image {self._pulled - 1} of the data set")
            raise


class Finished:
    """The certificates that are finished, in a file; or nowhere, where no file is wanted."""

    def __init__(self, path: Path | None, question: Mapping[str, Any]) -> None:
        self.path = path
        self._ensemble: EnsembleRecord | None = None
        try:
            self._ledger = None if path is None else Ledger(path, {"certify_many": 1, "question": question})
        except OSError as error:
            raise LedgerError(f"cannot keep the certificates in {path}: {error.strerror or error}") from error

    @property
    def kept(self) -> bool:
        """Whether there is a file."""
        return self._ledger is not None

    def recalled(self) -> Iterator[tuple[str, Certificate]]:
        """The digests of the images of an earlier run, and their certificates; nobody must have altered them."""
        if self._ledger is None:
            return
        for number, line in enumerate(self._ledger, 2):  # the first says what run it is
            try:
                certificate = Certificate.from_json(json.dumps(line.get("certificate")))
                problems = verify(certificate).problems
            except CertificateError as error:
                raise LedgerError(f"{self.path}, line {number}: {error}; {REMEDY}") from error
            if problems:
                raise LedgerError(f"{self.path}, line {number} has been altered: {problems[0]}; {REMEDY}")
            self.require_one_ensemble(certificate)
            yield str(line.get("image")), certificate

    def add(self, digest: str, certificate: Certificate) -> None:
        """On disk when this returns."""
        if self._ledger is not None:
            self.require_one_ensemble(certificate)
            self._ledger.append({"image": digest, "certificate": certificate.model_dump(mode="json")})

    def require_one_ensemble(self, certificate: Certificate) -> None:
        """That it is of the same ensemble as those before it: which one that is, the question need not say."""
        if certificate.provenance is None:
            return
        ensemble = certificate.provenance.ensemble
        first = self._ensemble = self._ensemble or ensemble
        if ensemble.digest != first.digest:
            said = f"{first.name} ({first.digest}), and the next one is of {ensemble.name} ({ensemble.digest})"
            raise LedgerError(f"{self.path} has certificates of {said}; name another file or remove it")

    def __enter__(self) -> Finished:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ledger is not None:
            self._ledger.close()
