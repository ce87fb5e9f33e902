"""A whole data set: jobs of a suitable size, a few of them at a time, and a file of the finished certificates.

Only the jobs under way are held in memory. The file is a `Ledger` with a line for each image, in their order. A run
that was interrupted goes on after the last line if it is given the same images and the same question.

A second file has the jobs under way: a line for each before it is sent. A run that goes on asks for the same jobs by
their idempotency keys, and does not send their images as new ones. Otherwise the images that were undecided when the
run was interrupted, and only those, would have a second chance at a certificate.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from smoothcert.canonical import digest
from smoothcert.certificate import Certificate, EnsembleRecord
from smoothcert.client.bar import ignored
from smoothcert.client.core import Core, Leaving, new_key, require_known
from smoothcert.client.deadline import Deadline
from smoothcert.client.errors import (
    BusyError,
    CertificationFailedError,
    ClientError,
    ImageError,
    InvalidRequestError,
)
from smoothcert.client.exchange import NEVER
from smoothcert.client.fields import RequestFields
from smoothcert.client.images import EncodedImage, Image, encode, images_of
from smoothcert.client.outcome import certificates
from smoothcert.client.steps import EXHAUSTED, Emit, Pull, Steps
from smoothcert.errors import CertificateError, LedgerError
from smoothcert.ledger import REMEDY, Ledger
from smoothcert.request import CertificationRequest
from smoothcert.verification import verify

JOB_IMAGES = 64
"""The images of a job: enough to fill the batches of a worker, few enough to finish soon."""
JOB_BYTES = 8_000_000
"""The most bytes of a request, unless a single image is larger."""
JOBS = 4
"""The jobs under way at a time: enough that a worker never waits for the client."""
REPEAT = "remove that file to ask about those images anew, which gives each of them a second chance at a certificate"
HANDLING = {"metadata", "priority", "deadline_s", "webhook"}
"""The fields that may change when a run goes on: no claim depends on them."""


@dataclass(frozen=True)
class Job:
    """Images that are being certified together."""

    start: int
    """The place of the first image in the data set."""
    digests: tuple[str, ...]
    key: str
    """The idempotency key under which they are sent."""
    handling: Mapping[str, Any] = field(default_factory=dict)
    """Its fields HANDLING: sent again, the job must be the same request."""
    certification: str = ""

    @property
    def stop(self) -> int:
        return self.start + len(self.digests)

    def __str__(self) -> str:
        return _places(self.start, len(self.digests))


def _places(start: int, count: int) -> str:
    return f"images {start} to {start + count - 1} of the data set"


def certify_many(
    core: Core, fields: RequestFields, *, out: Path | None, job_images: int, leaving: Leaving
) -> Steps[None]:
    """Emits the certificate of each image that is pulled, in their order."""
    if fields.get("labels") is not None:
        raise InvalidRequestError(
            "labels: certify_many takes none, and ignores those of pairs (images, labels); zip them yourself"
        )
    if fields.get("prepared") is not None:
        raise InvalidRequestError(
            "prepared: certify_many takes none, since it has an entry for each image of a request; use certify"
        )
    if fields.get("family_wise"):
        detail = (
            "it shares alpha among the images of one request, and a data set is sent in many: divide alpha yourself"
        )
        raise InvalidRequestError(f"family_wise: {detail}")
    if not isinstance(job_images, int) or job_images < 1:
        raise InvalidRequestError(f"job_images must be a whole number from 1 on, got {job_images!r}")
    require_known(leaving)
    request = yield from core.settled(fields)
    question = request.model_dump(mode="json", exclude=HANDLING)
    stated = request.model_dump(mode="json", exclude=HANDLING, exclude_defaults=True)  # a later default changes nothing
    with CertificateLedger(out, question) as ledger, JobLedger(out, stated) as jobs:
        run = DataSetRun(core, request, ledger, jobs, job_images=job_images, leaving="leave" if out else leaving)
        yield from run.certify()


class DataSetRun:
    """Pulls images one by one and certifies them in jobs."""

    def __init__(
        self,
        core: Core,
        request: CertificationRequest,
        ledger: CertificateLedger,
        jobs: JobLedger,
        *,
        job_images: int,
        leaving: Leaving,
    ) -> None:
        self._core, self._request, self._ledger, self._jobs = core, request, ledger, jobs
        self._job_images, self._leaving = job_images, leaving
        self._sent_before: deque[Job] = deque()
        """Jobs that an earlier run sent and did not finish."""
        self._under_way: deque[Job] = deque()
        self._put_back: deque[EncodedImage] = deque()
        self._batch: deque[Image] = deque()
        """Images of the last item that was pulled, which may be several."""
        self._pulled = 0
        self._begun = 0
        """The number of images that are in a job or were finished before."""
        self._finished = 0
        """The number of images whose certificates have been emitted."""

    def certify(self) -> Steps[None]:
        """Emits every certificate; an exception before the end cancels the jobs under way, or leaves them to go on."""
        try:
            yield from self._recall()
            while (yield from self._fill()):
                for certificate in (yield from self._finish(self._under_way[0])):
                    yield Emit(certificate)
        except BaseException as error:  # Ctrl-C, and a caller that stops iterating, included
            yield from self._core.leave([job.certification for job in self._under_way], self._leaving, error)
            if not isinstance(error, LedgerError):
                yield from self._salvage()
            raise
        self._jobs.remove()

    def _recall(self) -> Steps[None]:
        """Emit the certificates of the earlier run; the first images must be those that they belong to.

        The images of the job in which it was interrupted are kept, to be sent again with the others of the job.
        """
        self._sent_before.extend(job for job in self._jobs.recall() if job.stop > len(self._ledger))
        self._begun = self._sent_before[0].start if self._sent_before else len(self._ledger)
        again: list[EncodedImage] = []
        for sha256, certificate in self._ledger.recall():
            image = yield from self._pull()
            if image is None or image.sha256() != sha256:
                seen = "the data set is shorter" if image is None else "this one is different"
                remedy = "give the same images in the same order, or name another file"
                raise LedgerError(
                    f"{self._ledger.path} has a certificate of image {self._finished}, but {seen}; {remedy}"
                )
            if self._finished >= self._begun:
                again.append(image)
            self._finished += 1
            yield Emit(certificate)
        self._put_back.extend(again)

    def _fill(self) -> Steps[bool]:
        """Submit jobs until JOBS are under way; False if none is under way and no image is left."""
        while len(self._under_way) < JOBS and (images := (yield from self._next_images())):
            sent_before = bool(self._sent_before)
            job = self._job_of(images)
            request = self._request.model_copy(update=dict(job.handling))
            try:
                accepted = yield from self._core.submit(images, request, leaving=self._leaving, key=job.key)
            except ClientError as error:
                if isinstance(error, BusyError) and self._under_way:  # there may be room when a job under way has ended
                    self._put_back.extendleft(reversed(images))
                    self._sent_before.appendleft(job)
                    break
                if isinstance(error, InvalidRequestError) and not sent_before:
                    self._jobs.strike(job)  # it was not accepted, and other images may take its place
                error.add_note(f"with {job}, here counted from 0")
                raise
            self._under_way.append(replace(job, certification=accepted.id))
            self._begun += len(images)
        return bool(self._under_way)

    def _job_of(self, images: list[EncodedImage]) -> Job:
        """The job of the next images: one that was sent before, or a new one, which is written down first."""
        digests = tuple(image.sha256() for image in images)
        if self._sent_before:
            job = self._sent_before.popleft()
            if job.digests != digests:
                raise LedgerError(f"{self._jobs.path} has other {job}; {REPEAT}")
            return job
        handling = self._request.model_dump(mode="json", include=HANDLING)
        job = Job(self._begun, digests, new_key(), handling)
        self._jobs.add(job)
        return job

    def _finish(self, job: Job) -> Steps[tuple[Certificate, ...]]:
        """The certificates of a job at its end; all of them are in the file before the first is emitted."""
        try:
            found = certificates((yield from self._core.wait(job.certification, NEVER, ignored)))
        except ClientError as error:
            error.add_note(f"with {job}")
            if self._jobs.path and isinstance(error, CertificationFailedError):
                error.add_note(f"{self._jobs.path} names the certification {job.certification}; {REPEAT}")
            raise
        new = slice(self._finished - job.start, None)  # an earlier run may have had the first ones
        for sha256, certificate in zip(job.digests[new], found[new], strict=True):
            self._ledger.add(sha256, certificate)
            self._finished += 1
        self._under_way.popleft()  # only now: a Ctrl-C in between must find the job whose lines are being written
        return found[new]

    def _salvage(self) -> Steps[None]:
        """Keep the certificates that the oldest job has finished, without a gap from its first image on."""
        if not (self._under_way and self._ledger.exists):
            return
        job = self._under_way[0]
        try:
            found = yield from self._core.get(job.certification, deadline=Deadline(0))
        except ClientError:
            return
        for place, certificate in enumerate(found.certificates):
            if certificate.index != place:
                break
            if job.start + place >= self._finished:
                self._ledger.add(job.digests[place], certificate)
                self._finished += 1

    def _next_images(self) -> Steps[list[EncodedImage]]:
        """The images of the next job: those of one that was sent before, or as many as make a new one."""
        images: list[EncodedImage] = []
        size = 0
        if self._sent_before:
            for _ in self._sent_before[0].digests:
                if (image := (yield from self._pull())) is None:
                    raise LedgerError(f"{self._jobs.path} has {self._sent_before[0]}, but there are fewer; {REPEAT}")
                images.append(image)
            return images
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
        while not self._batch:
            pulled = yield Pull()
            if pulled is EXHAUSTED:
                return None
            self._batch.extend(images_of(pulled))
        self._pulled += 1
        try:
            return encode(self._batch.popleft())
        except ImageError as error:
            error.add_note(f"image {self._pulled - 1} of the data set")
            raise


class JobLedger:
    """The jobs of a run in a file beside its certificates, if there is one, each written before it is sent."""

    def __init__(self, out: Path | None, question: Mapping[str, Any]) -> None:
        self.path = None if out is None else out.with_name(f"{out.name}.jobs")
        self._question = digest(question)
        try:
            self._ledger = None if self.path is None else Ledger(self.path, {"jobs": 1})
        except OSError as error:
            raise LedgerError(f"cannot keep the jobs in {self.path}: {error.strerror or error}") from error

    def recall(self) -> Iterator[Job]:
        """The jobs of an earlier run that may have been accepted, in their order."""
        lines = [*(self._ledger or ())]
        struck = {line["struck"] for line in lines if "struck" in line}
        for line in lines:
            if line.get("question") == self._question and line["key"] not in struck:
                handling = line.get("handling", {})
                yield Job(int(line["start"]), tuple(map(str, line["images"])), str(line["key"]), handling)

    def add(self, job: Job) -> None:
        """Append a job; it is on disk when this returns."""
        if self._ledger is not None:
            line = {"start": job.start, "key": job.key, "question": self._question, "handling": job.handling}
            self._ledger.append({**line, "images": list(job.digests)})

    def strike(self, job: Job) -> None:
        """Write down that the service refused a job."""
        if self._ledger is not None:
            self._ledger.append({"struck": job.key})

    def remove(self) -> None:
        """Delete the file: every image has its certificate."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> JobLedger:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ledger is not None:
            self._ledger.close()


class CertificateLedger:
    """The finished certificates in a file, if there is a path; otherwise they are not kept."""

    def __init__(self, path: Path | None, question: Mapping[str, Any]) -> None:
        self.path = path
        self._ensemble: EnsembleRecord | None = None
        try:
            self._ledger = None if path is None else Ledger(path, {"certify_many": 1, "question": question})
        except OSError as error:
            raise LedgerError(f"cannot keep the certificates in {path}: {error.strerror or error}") from error

    @property
    def exists(self) -> bool:
        return self._ledger is not None

    def __len__(self) -> int:
        """The number of certificates in the file."""
        return 0 if self._ledger is None else len(self._ledger)

    def recall(self) -> Iterator[tuple[str, Certificate]]:
        """The digests of the images of an earlier run and their certificates; LedgerError if one was altered."""
        if self._ledger is None:
            return
        for number, line in enumerate(self._ledger, 2):  # the first line describes the run
            try:
                certificate = Certificate.from_json(json.dumps(line.get("certificate")))
                problems = verify(certificate).problems
            except CertificateError as error:
                raise LedgerError(f"{self.path}, line {number}: {error}; {REMEDY}") from error
            if problems:
                raise LedgerError(f"{self.path}, line {number} has been altered: {problems[0]}; {REMEDY}")
            self.require_one_ensemble(certificate)
            yield str(line.get("image")), certificate

    def add(self, sha256: str, certificate: Certificate) -> None:
        """Append a certificate; it is on disk when this returns."""
        if self._ledger is not None:
            self.require_one_ensemble(certificate)
            self._ledger.append({"image": sha256, "certificate": certificate.model_dump(mode="json")})

    def require_one_ensemble(self, certificate: Certificate) -> None:
        """Raise LedgerError if the certificate is of another ensemble than those before; a request may not name it."""
        if certificate.provenance is None:
            return
        ensemble = certificate.provenance.ensemble
        first = self._ensemble = self._ensemble or ensemble
        if ensemble.digest != first.digest:
            detail = f"{first.name} ({first.digest}), and the next one is of {ensemble.name} ({ensemble.digest})"
            raise LedgerError(f"{self.path} has certificates of {detail}; name another file or remove it")

    def __enter__(self) -> CertificateLedger:
        return self

    def __exit__(self, *_: object) -> None:
        if self._ledger is not None:
            self._ledger.close()
