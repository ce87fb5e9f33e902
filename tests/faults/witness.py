"""The witness of a fault records what the service accepted, and finds at the end what was lost and what is wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from smoothcert.certificate import Certificate
from store import keys
from store.record import Record
from tests.faults.exhibit import Images
from tests.faults.service import Service, StuckError
from tests.support.pool import without_times

ACCEPTED, UNAVAILABLE = 202, 503


class Witness:
    """The witness of one fault in a service; threads may share it."""

    def __init__(self, service: Service) -> None:
        self.lost: list[str] = []
        self.wrong: list[str] = []
        self._service = service
        self._began = time.time()
        self._counted = {status: service.counted(status) for status in ("succeeded", "failed")}
        self._accepted: dict[str, str] = {}
        """How each certification that was answered with 202 must end."""
        self._forgotten: list[str] = []

    @property
    def accepted(self) -> list[str]:
        return list(self._accepted)

    def post(self, question: Mapping[str, Any], images: Images | None = None, *, end: str = "succeeded") -> str | None:
        """The id of the accepted question, or None if the service is away; `end` is how it must end."""
        try:
            answer = self._service.post(self._service.body(question, images))
        except httpx2.TransportError:
            return None
        if answer.status_code == ACCEPTED:
            self._accepted[answer.json()["id"]] = end
            return str(answer.json()["id"])
        self.check(answer.status_code == UNAVAILABLE, f"a submission was answered with {answer.text}")
        return None

    def submit(self, question: Mapping[str, Any], images: Images | None = None, *, end: str = "succeeded") -> str:
        """Post until the service accepts, and return the id."""
        found = self._service.until(lambda: self.post(question, images, end=end), "a submission that is accepted")
        assert found is not None
        return found

    def saw(self, certificates: Sequence[Certificate]) -> None:
        """Check what a client received: all certificates, in order, equal to those of an undisturbed engine."""
        places = [each.index for each in certificates]
        if places != list(range(len(self._service.exhibit.images))):
            self.wrong.append(f"a client was given the certificates {places}")
            return
        seeds = {each.provenance.sampling.seed for each in certificates if each.provenance}
        records = [record for record in self._service.records(since=self._began) if record.seed in seeds]
        same = len(records) == 1 and [
            without_times(each) for each in certificates
        ] == self._service.reference.certificates(records[0])
        self.check(same, f"a client was given other certificates than the undisturbed ones, for seeds {seeds}")

    def forget(self, certification: str) -> None:
        """Expect no record of a certification that was deleted, or may have been; its end was counted."""
        if self._accepted.pop(certification, None) is not None:
            self._forgotten.append(certification)

    def check(self, true: bool, otherwise: str) -> None:
        """Note the sentence as wrong unless `true`."""
        if not true:
            self.wrong.append(otherwise)

    def await_ends(self) -> None:
        """Wait until every accepted certification has ended."""
        for certification in self._accepted:
            self._service.until(lambda: self._has_ended(certification), f"the end of {certification}")  # noqa: B023

    def _has_ended(self, certification: str) -> bool:
        record = self._service.record(certification)
        return record is None or record.ended  # a lost record does not come back; the audit reports it

    def audit(self) -> None:
        """Check everything that was accepted, and everything that is in Redis."""
        for certification, end in self._accepted.items():
            record = self._service.record(certification)
            if record is None:
                self.lost.append(f"{certification} is gone")
            elif not record.ended or (record.status != "succeeded" and end == "succeeded"):
                self.lost.append(f"{certification} is {record.status} {record.error}")
            elif end != "succeeded":
                self.check(f'"{end}"' in record.error, f"{certification} is {record.status} {record.error}, not {end}")
        records = self._service.records(since=self._began)
        for record in records:
            self._audit_certificates(record)
        gone = len(self._forgotten) - sum(record.id in self._forgotten for record in records)
        for status, before in self._counted.items():
            ends, counted = sum(record.status == status for record in records), self._service.counted(status) - before
            ends += gone if status == "succeeded" else 0
            self.check(ends == counted, f"{counted} ends were counted for {ends} certifications that {status}")
        try:
            self._service.until(lambda: not self._service.left_behind(), "an empty registry")
        except StuckError:
            self.wrong.append(f"RQ still has {self._service.left_behind()}")

    def _audit_certificates(self, record: Record) -> None:
        """Check the certificates of a record, also where the answer to its submission was lost."""
        if record.status == "succeeded":
            found = [without_times(each) for each in self._service.certificates(record.id)]
            self.check(found == self._service.reference.certificates(record), f"{record.id} has other certificates")
            arrived = self._service.redis.zcard(keys.arrivals(record.id))
            self.check(record.done == record.images == arrived, f"{record.id}: {record.done} done, {arrived} arrived")
        else:
            self.check(record.ended, f"{record.id} has not ended, it is {record.status}")
