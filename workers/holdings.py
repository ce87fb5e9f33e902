"""The ensembles that a worker process holds in device memory."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from itertools import chain
from typing import cast

import torch

from models.registry import load, names
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.memory import peak_bytes
from smoothcert.engine.pace import Pace
from smoothcert.engine.remote.member import Remote, remotes
from smoothcert.engine.sizing import USUAL, loaded
from smoothcert.engine.voting import RULES
from smoothcert.errors import SmoothcertError
from smoothcert.figures import counted
from smoothcert.procedures import PROCEDURES
from smoothcert.published import EnsembleCard
from smoothcert.request import CertificationRequest, Voting
from workers.errors import HoldingsError
from workers.settings import WorkerSettings

logger = logging.getLogger(__name__)

MOST_CHARACTERS = 500
"""The most characters of a reason that is published with every heartbeat."""
MEGABYTE = 1_000_000


class Holdings:
    """Ensembles on one device, loaded and ready."""

    def __init__(self, ensembles: Mapping[str, Ensemble], failed: Mapping[str, str] | None = None) -> None:
        self._ensembles = dict(ensembles)
        self.failed = dict(failed or {})
        """Why ensembles that were to be held could not be loaded, by their names."""
        self.paces: dict[str, Pace] = {}
        """How fast each ensemble was evaluated when it was loaded."""
        self._views: dict[tuple[str, str, int | None], Ensemble] = {}  # kept, because a view caches its digest
        self._remotes = {
            name: tuple(each for member in held.members for each in remotes(member.network))
            for name, held in self._ensembles.items()
        }
        if not self._ensembles:
            raise HoldingsError("a worker needs at least one ensemble")

    @classmethod
    def load(cls, settings: WorkerSettings, device: str) -> Holdings:
        """Load the ensembles that the settings name, or all of the zoo.

        One that cannot be loaded does not stop the others. HoldingsError if none can be, or if one does not exist.
        """
        known = names(zoo=settings.zoo)
        chosen = settings.ensemble_list or known
        if not chosen:
            raise HoldingsError(f"there is no ensemble in {settings.zoo}")
        if missing := [name for name in chosen if name not in known]:
            there = ", ".join(known) or "none"
            raise HoldingsError(f"SMOOTHCERT_ENSEMBLES names {missing[0]!r}; in {settings.zoo} there are: {there}")
        held, paces, failed = {}, {}, {}
        for name in chosen:
            try:
                held[name] = _load(name, settings, device)
                paces[name] = warm(held[name])
            except Exception as error:  # a network of the operator's own may raise anything
                held.pop(name, None)
                failed[name] = _reason(error)
                logger.error("%s cannot be loaded and is not served: %s", name, failed[name])
            else:
                logger.info(
                    "holding %s: %s on %s; the process has taken %d MB at most",
                    name,
                    counted(len(held[name].members), "member"),
                    device,
                    peak_bytes() // MEGABYTE,
                )
        if not held:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
            raise HoldingsError(f"no ensemble can be loaded: {reasons}")
        holdings = cls(held, failed)
        holdings.paces = paces
        return holdings

    @property
    def ensembles(self) -> tuple[Ensemble, ...]:
        return tuple(self._ensembles.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._ensembles)

    def has(self, name: str) -> bool:
        """Whether an ensemble of this name is held."""
        return name in self._ensembles

    def remotes(self, name: str) -> tuple[Remote, ...]:
        """The endpoints that the members of an ensemble ask; none for most."""
        return self._remotes[name]

    @property
    def rows(self) -> int:
        """The most rows that one of the ensembles takes at a time."""
        return max(held.members[0].form.shape[0] for held in self._ensembles.values())

    def close(self) -> None:
        """Stop waiting for endpoints."""
        for each in chain.from_iterable(self._remotes.values()):
            each.close()

    @property
    def cards(self) -> tuple[EnsembleCard, ...]:
        """What the worker publishes about its ensembles."""
        return tuple(map(card, self._ensembles.values()))

    def view(self, request: CertificationRequest, digest: str) -> Ensemble:
        """The ensemble of a request, with its voting rule and K; its digest must be the one that was accepted."""
        held = self._ensembles.get(request.ensemble or "")
        if held is None:
            raise HoldingsError(f"this worker holds {', '.join(self._ensembles)}; the request names {request.ensemble}")
        if held.digest != digest:
            raise HoldingsError(f"{held.name} has digest {held.digest} here, the request was accepted for {digest}")
        key = (held.name, request.voting or held.voting, request.consensus)
        if key not in self._views:
            self._views[key] = held.with_(voting=key[1], consensus=key[2])
        return self._views[key]


def _load(name: str, settings: WorkerSettings, device: str) -> Ensemble:
    def of_size(batch: int) -> Ensemble:
        return load(
            name,
            zoo=settings.zoo,
            device=device,
            precision=settings.precision,
            runtime=settings.runtime,
            batch=batch,
            allowed_imports=settings.import_list,
            remote=settings.remote,
        )

    by_measurement = not settings.batch and torch.device(device).type != "cpu"
    return loaded(of_size) if by_measurement else of_size(settings.batch or USUAL)


def _reason(error: Exception) -> str:
    """An error as one line; errors of others have their kind before it."""
    text = str(error) if isinstance(error, SmoothcertError) else f"{type(error).__name__}: {error}"
    line = " ".join(text.split())
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 3]}..."


def card(ensemble: Ensemble) -> EnsembleCard:
    """An ensemble as it is published."""
    votings = [name for name in RULES if name != "weighted" or ensemble.weights is not None]
    return EnsembleCard(
        name=ensemble.name,
        digest=ensemble.digest,
        members=tuple(member.digest for member in ensemble.members),
        architectures=tuple(member.identity.architecture for member in ensemble.members),
        classes=ensemble.classes,
        input_shape=ensemble.input_shape,
        noise=ensemble.noise,
        voting=cast(Voting, ensemble.voting),
        votings=tuple(cast(Voting, name) for name in votings),
        superclasses=ensemble.superclasses,
        procedures=tuple(name for name in PROCEDURES.names if not PROCEDURES[name].local),
    )


def warm(ensemble: Ensemble) -> Pace:
    """Run every member twice: once so that the first certification does not pay for it, and once to measure it."""
    pace = Pace(ensemble.members[0].form.shape[0])
    batch = torch.zeros(pace.rows, *ensemble.input_shape, device=ensemble.device)
    ensemble.logits(batch).cpu()
    begun = time.monotonic()
    ensemble.logits(batch).cpu()  # the answer of a GPU is there when it has been copied
    pace.see(pace.rows * len(ensemble.members), time.monotonic() - begun)
    return pace
