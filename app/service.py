"""What the routes share: one object of each kind in a process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Request

from app.answers.attestations import Attester
from app.archive.archive import Archive
from app.archive.archivist import Archivist
from app.archive.reader import ArchiveReader
from app.archive.storage import Bucket, Folder, Storage
from app.archive.threads import ArchiveThreads
from app.executor import BoundedExecutor
from app.http.authentication import Authenticator
from app.http.body import Bodies
from app.http.visitors import Visitors
from app.metrics import RequestMetrics
from app.redis.queue import Queue
from app.requests.intake import Intake
from app.settings import ApiSettings
from app.webhooks.courier import Courier
from store.presence import Offer

if TYPE_CHECKING:
    from store.traces import Traces


@dataclass(frozen=True)
class Service:
    """The parts of a running API."""

    settings: ApiSettings
    queue: Queue
    request_metrics: RequestMetrics
    bodies: Bodies
    intake: Intake
    authenticator: Authenticator
    planner: BoundedExecutor
    verifier: BoundedExecutor
    courier: Courier | None
    """Delivers webhooks; None if the settings allow none."""
    archivist: Archivist | None
    """Writes the archive; None if the settings name none."""
    archive: ArchiveReader | None
    attester: Attester
    visitors: Visitors

    @classmethod
    def of(cls, settings: ApiSettings, traces: Traces | None = None) -> Service:
        """The parts as the settings describe them; none of them connects to Redis yet."""
        keys = settings.keys
        queue = Queue(
            settings.redis,
            settings.limits,
            result_ttl=settings.result_ttl,
            default_ensemble=settings.default_ensemble,
            replicas=settings.wait_replicas,
        )
        bodies = Bodies(settings.bodies_mb * 1_000_000)
        attester = Attester(settings.keyring)
        archivist, archive = _archive(settings, queue, attester)
        return cls(
            settings=settings,
            queue=queue,
            request_metrics=RequestMetrics(),
            bodies=bodies,
            intake=Intake(settings, keys, bodies, queue, traces),
            authenticator=Authenticator(keys, queue, rate=settings.rate, requests=settings.requests_of_a_key),
            planner=BoundedExecutor(),
            verifier=BoundedExecutor(),
            courier=_courier(settings, queue),
            archivist=archivist,
            archive=archive,
            attester=attester,
            visitors=Visitors(queue, limited=bool(keys)),
        )

    async def offer(self, name: str | None) -> Offer:
        """The ensemble that a request names."""
        return await self.queue.staff.offer(name)

    def close(self) -> None:
        self.planner.close()
        self.verifier.close()
        self.attester.close()
        self.visitors.close()
        self.bodies.close()


def _courier(settings: ApiSettings, queue: Queue) -> Courier | None:
    secret = settings.webhook_secret
    if secret is None or not settings.receivers:
        return None
    return Courier(queue, settings.receivers, secret, settings.webhook_pauses)


def _archive(
    settings: ApiSettings, queue: Queue, attester: Attester
) -> tuple[Archivist, ArchiveReader] | tuple[None, None]:
    if not settings.archive:
        return None, None
    storage: Storage
    if settings.archive.startswith("s3://"):
        credentials = settings.archive_credentials
        storage = Bucket.at(
            settings.archive,
            endpoint=settings.archive_endpoint,
            region=settings.archive_region,
            credentials=credentials,
        )
    else:
        storage = Folder(Path(settings.archive))
    archive, threads = Archive(storage), ArchiveThreads()
    return Archivist(queue, archive, threads, attester), ArchiveReader(queue, archive, threads)


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(_service)]
"""The type of a route's parameter that receives the service."""
