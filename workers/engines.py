"""The engines of a worker: one for all ensembles on its device, and one for each that asks an endpoint.

A batch of a remote member takes as long as its endpoint does, which may be a minute without an answer. In an engine of
its own, it keeps no other ensemble waiting.
"""

from __future__ import annotations

from collections.abc import Collection
from types import TracebackType

from smoothcert.engine.engine import Engine
from smoothcert.engine.pace import Pace
from workers.holdings import Holdings


class Engines:
    """An engine for every ensemble that is held; a context in which they run."""

    def __init__(self, holdings: Holdings, *, batch: int) -> None:
        self._engines: dict[str, Engine] = {}
        shared: Engine | None = None
        for each in holdings.ensembles:
            if holdings.remotes(each.name):
                self._engines[each.name] = Engine(each, batch=batch)
            else:
                self._engines[each.name] = shared = shared or Engine(each, batch=batch)
        self._all = tuple(dict.fromkeys(self._engines.values()))
        self._holdings = holdings
        self._still = dict.fromkeys(self._all, 0.0)
        self._moved = {each: self._movement(each) for each in self._all}
        for name, pace in holdings.paces.items():
            self._engines[name].paces[name] = pace

    def of(self, ensemble: str) -> Engine:
        """The engine of an ensemble; any engine for an ensemble that is not held, because none will run it."""
        return self._engines.get(ensemble, self._all[0])

    @property
    def device(self) -> str:
        return str(self._all[0].ensemble.device)

    @property
    def fill(self) -> float:
        """The mean share of a batch that held samples."""
        capacity = sum(each.workload.capacity for each in self._all)
        return sum(each.workload.rows for each in self._all) / capacity if capacity else 0.0

    @property
    def paces(self) -> dict[str, Pace]:
        """How fast each ensemble is evaluated, by its name."""
        return {name: pace for each in self._all for name, pace in list(each.paces.items())}

    def stillness(self, waiting: Collection[str], seconds: float) -> float:
        """The seconds for which an engine has not moved although one of the `waiting` ensembles needs it.

        `seconds` have passed since the last call. An attempt to reach an endpoint counts as movement, because it has
        a time limit of its own.
        """
        wanted = {self.of(name) for name in waiting}
        for each in self._all:
            moved = self._movement(each)
            idle = each not in wanted or moved != self._moved[each]
            self._still[each] = 0.0 if idle else self._still[each] + seconds
            self._moved[each] = moved
        return max(self._still.values())

    def close(self) -> None:
        """Stop waiting for endpoints, and end every run that is under way."""
        self._holdings.close()
        for each in self._all:
            each.close()

    def __enter__(self) -> Engines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _movement(self, engine: Engine) -> tuple[float, int]:
        names = [name for name, each in self._engines.items() if each is engine]
        return engine.last_step, sum(remote.tries for name in names for remote in self._holdings.remotes(name))
