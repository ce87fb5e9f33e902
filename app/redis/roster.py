"""The live workers and the ensembles that they serve, as the workers announced them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean

from app.http.errors import ProblemError, invalid
from smoothcert.certification import Stall
from smoothcert.choices import suited
from smoothcert.errors import shown, suggestion
from smoothcert.published import FailedEnsemble, ServedEnsemble
from store.presence import REMEMBERED, Offer, Presence, Speed
from store.record import Record

SILENT_SECONDS = 3.0
"""The fewest seconds without a heartbeat after which clients are told. With the second until the next look at the
workers, clients learn within five seconds that a worker has died."""
SILENT_BEATS = 1.5
"""The fewest heartbeats that must be missing before clients are told: a worker may be set to beat less often."""


@dataclass(frozen=True)
class Roster:
    """The live workers, and the ensembles that a pool serves or served lately, at one moment."""

    workers: tuple[Presence, ...]
    offers: tuple[Offer, ...]
    default: str = ""
    """The name of the ensemble for requests that name none, where several are served."""

    @classmethod
    def of(cls, workers: Sequence[Presence], offers: Sequence[Offer], *, now: float, default: str = "") -> Roster:
        """One recent offer for each name: one that a live worker serves if there is any, else the latest.

        An offer that no live worker of its pool holds any more is forgotten: those workers would put a request for it
        back until its deadline. Where the pool has no live worker at all, one of them may be restarting.
        """
        live = {(worker.pool, card.name) for worker in workers for card in worker.ensembles}
        staffed = {worker.pool for worker in workers}
        recent = [
            offer
            for offer in offers
            if offer.seen_at >= now - REMEMBERED
            and (offer.pool not in staffed or (offer.pool, offer.card.name) in live)
        ]
        ranked = sorted(recent, key=lambda offer: ((offer.pool, offer.card.name) in live, offer.seen_at))
        chosen = {offer.card.name: offer for offer in ranked}
        return cls(tuple(workers), tuple(sorted(chosen.values(), key=lambda offer: offer.card.name)), default)

    def offer(self, name: str | None) -> Offer:
        """The ensemble of this name. Without a name: the only one that live workers serve, or the only one known.

        Where there are several, it is the default one. ProblemError if there is no such ensemble.
        """
        named = {offer.card.name: offer for offer in self.offers}
        if name is None:
            live = [offer for offer in self.offers if self.holders(offer)] or self.offers
            if len(live) == 1:
                return live[0]
            if self.default in named:
                return named[self.default]
            raise invalid("ensemble", f"must be given unless exactly one is served; there are: {self._names}")
        if name not in named:
            for each in self.failed:
                if each.name == name:
                    raise ProblemError("ensemble_not_loaded", f"the ensemble {name} cannot be loaded: {each.reason}")
            near = suggestion(name, named)
            raise ProblemError(
                "unknown_ensemble", f"there is no ensemble {shown(name)}{near}; there are: {self._names}"
            )
        return named[name]

    @property
    def _names(self) -> str:
        """The names of the ensembles; where there are none, also why others could not be loaded."""
        failed = (f"{each.name} cannot be loaded: {each.reason}" for each in self.failed)
        return ", ".join(each.card.name for each in self.offers) or "; ".join(("none at the moment", *failed))

    def stall(self, record: Record, *, now: float) -> Stall | None:
        """Why a certification does not move; None while its worker beats, or while it waits and workers can take it."""
        if record.ended:
            return None
        able = [each for each in self.workers if each.pool == record.pool and each.holds(record.ensemble)]
        if record.status == "queued" or not record.worker:  # other shards go on where the first has ended
            return None if able else Stall(since=None, until=None, workers=0)
        others = sum(worker.name != record.worker for worker in able)
        own = next((worker for worker in able if worker.name == record.worker), None)
        if own is None:
            return Stall(since=None, until=None, workers=others)
        if now - own.beat_at <= max(SILENT_SECONDS, SILENT_BEATS * own.heartbeat_s):
            return None
        return Stall(since=_moment(own.beat_at), until=_moment(own.dead_at) if own.dead_at else None, workers=others)

    def holders(self, offer: Offer) -> list[Presence]:
        """The live workers that serve an offer."""
        return [worker for worker in self.workers if worker.pool == offer.pool and offer.card in worker.ensembles]

    def speed(self, offer: Offer) -> Speed | None:
        """How fast the workers that serve an offer evaluate it, in the mean; None before any of them measured it."""
        known = [worker.speeds[name] for worker in self.holders(offer) if (name := offer.card.name) in worker.speeds]
        if not known:
            return None
        rate, rows = fmean(each.evaluations_per_second for each in known), max(each.rows for each in known)
        return Speed(evaluations_per_second=rate, rows=rows)

    @property
    def failed(self) -> tuple[FailedEnsemble, ...]:
        """The ensembles that live workers could not load, with the reason of one of them."""
        found: dict[str, list[str]] = {}
        for worker in self.workers:
            for name, reason in worker.failed.items():
                found.setdefault(name, []).append(reason)
        return tuple(
            FailedEnsemble(name=name, reason=reasons[0], workers=len(reasons))
            for name, reasons in sorted(found.items())
        )

    def served(self, offer: Offer) -> ServedEnsemble:
        """An offer as the API publishes it."""
        holders, speed = self.holders(offer), self.speed(offer)
        return ServedEnsemble(
            **offer.card.model_dump(),
            noises=tuple(each.parameters() for each in suited(offer.card.noise, offer.card.input_shape)),
            default=offer.card.name == self.default,
            ready=bool(holders),
            workers=len(holders),
            devices=tuple(sorted({worker.device for worker in holders})),
            evaluations_per_second=speed.evaluations_per_second if speed else None,
        )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
