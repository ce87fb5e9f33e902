"""A history: a service of processes that are disturbed for a while, customers, and what must be true in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pkgutil import iter_modules
from random import Random
from typing import Any

from store import scripts as made
from tests.simulation import scripts
from tests.simulation.api import ApiProcess
from tests.simulation.audit import Audit
from tests.simulation.customer import Customer, Internet
from tests.simulation.network import CALM, Network, Weather
from tests.simulation.scripts import Order
from tests.simulation.server import Database
from tests.simulation.stage import STAGE
from tests.simulation.worker import SETTINGS, WorkerProcess
from tests.simulation.world import Process, World

WORKERS = 2
STRANGER = 2
"""The place of a worker that holds another ensemble than the customers ask for."""
STRANGE = 0.25
"""The share of histories with such a worker."""
LIMIT_S = 200.0
"""The simulated seconds after which a history that has not ended counts as stuck."""
LAST_ARRIVAL_S = 3.0
"""The simulated seconds after which no further customer comes."""
SKEW_S = 1.0
"""The most seconds between a clock and that of Redis, in proportion to 2 s for 12 s without a heartbeat by default."""


@dataclass
class Outcome:
    """The result of a history."""

    seed: str
    wrong: list[str]
    commands: int
    """The number of commands that the server has executed for it, without those of the audit."""
    notes: list[tuple[float, str, Any]] = field(default_factory=list, repr=False)
    """Everything that the world has noted."""

    @property
    def steps(self) -> list[str]:
        """All steps of the history, as text."""
        return [f"{at:9.4f}  {who:10}  {_told(what)}" for at, who, what in self.notes]


def play(seed: str, database: Database) -> Outcome:
    """Play the history of a seed."""
    return History(seed, database).play()


class History:
    def __init__(self, seed: str, database: Database) -> None:
        self.seed, self.database = seed, database
        self.world = World(seed)
        self.strange = Random(f"{seed} stranger").random() < STRANGE
        STAGE.world = self.world
        database.resumed = lambda: setattr(STAGE, "world", self.world)
        self.network, self.internet = Network(self.world, database), Internet(self.world)
        self._acts: list[tuple[Order, Callable[[Customer, Order], None]]] = []
        self.deaths = 0
        """The number of times that a worker was killed, stopped or cut off."""
        self.audit = Audit(self)
        self._workers: list[WorkerProcess] = []
        self._customers: list[Customer] = []
        self._skews: dict[str, float] = {}

    def play(self) -> Outcome:
        chance = self.world.chance
        self.weather = Weather.draw(chance)
        self.network.weather, self.internet.weather = self.weather, Weather.draw(chance)
        calm_at = chance.uniform(2.0, 10.0)
        self.world.after(calm_at, self._calm)
        self._workers = [self._worker(place) for place in range(WORKERS + self.strange)]
        self.internet.processes = [self._api(place) for place in range(chance.choice((1, 2)))]
        self._schedule_faults(calm_at)
        for number in range(chance.choice((1, 2, 2, 3, 4))):
            self.world.after(chance.uniform(0.1, LAST_ARRIVAL_S), partial(self._customer, number))
        self.world.after(2.0, self._look)
        ended = self.world.run(self._ended, limit=LIMIT_S)
        wrong = list(self.audit.seen)
        if not wrong:
            wrong = self.audit.final() if ended else self.audit.stuck()
        self._end()
        if not wrong:
            wrong = self.audit.remains()
        commands = sum(len(what) for _, _, what in self.world.notes if not isinstance(what, str))
        return Outcome(self.seed, wrong, commands, self.world.notes)

    @property
    def orders(self) -> list[Order]:
        """The certifications that the customers have asked for so far."""
        return [order for order, _ in self._acts]

    # --- processes

    def _skew(self, name: str) -> float:
        chance = self.world.chance
        return self._skews.setdefault(name, chance.choice((0.0, chance.uniform(-SKEW_S, SKEW_S))))

    def _worker(self, place: int) -> WorkerProcess:
        name = f"worker {place}"
        holds = "another" if place == STRANGER else "looked-up"
        return WorkerProcess(self.network, name, skew=self._skew(name), holds=holds)

    def _api(self, place: int) -> ApiProcess:
        name = f"api {place}"
        return ApiProcess(self.network, name, skew=self._skew(name))

    def _supervise(self) -> None:
        """Start again the processes that have ended."""
        for place, worker in enumerate(self._workers):
            if not worker.alive:
                self._workers[place] = self._worker(place)
        for place, api in enumerate(self.internet.processes):
            if not api.alive:
                self.internet.processes[place] = self._api(place)

    def _customer(self, number: int) -> None:
        chance = self.world.chance
        owner = chance.choice(("alice", "alice", "bob"))
        act = chance.choice((scripts.certify, scripts.certify, scripts.certify, scripts.cancel, scripts.delete))
        shared = [order for order, how in self._acts if order.owner == owner and how is act is scripts.certify]

        def order_of(customer: Customer) -> Order:
            if shared and chance.random() < 0.2:
                return shared[0]  # two customers make the same submission at the same time
            order = scripts.place(customer)
            self._acts.append((order, act))
            return order

        self._customers.append(Customer(self.internet, f"{owner} {number}", owner, scripts.acting(order_of, act)))

    def _ended(self) -> bool:
        if self.audit.seen:
            return True
        if not (self.audit.settled and self.world.now > LAST_ARRIVAL_S and all(each.done for each in self._customers)):
            return False
        self.audit.look()  # something may have come since the last look
        return self.audit.settled

    def _end(self) -> None:
        self._calm()
        for process in (*self._workers, *self.internet.processes, *self._customers):
            if process.alive:
                process.kill()

    # --- what happens to them

    def _schedule_faults(self, calm_at: float) -> None:
        chance = self.world.chance
        faults: list[Callable[[], None]] = []
        kinds = chance.sample((self._kill_worker, self._stop, self._cut, self._terminate, self._kill_api), 2)
        for kind in kinds:
            faults += [kind] * chance.choice((0, 1, 1, 2))
        for fault in faults:
            self.world.after(chance.uniform(0.0, calm_at), fault)

    def _calm(self) -> None:
        self.world.note("weather", "calm")
        self.network.weather = self.internet.weather = CALM

    def _look(self) -> None:
        """Let the supervisors check the processes, and the audit the places, once in a while."""
        self._supervise()
        self.audit.look()
        self.world.after(self.world.chance.uniform(0.5, 2.0), self._look)

    def _victim(self, kind: str) -> Process | None:
        alive = [each for each in self._workers if each.alive]
        victim = self.world.chance.choice(alive) if alive else None
        if victim:
            self.world.note(victim.name, kind)
        return victim

    def _kill_worker(self) -> None:
        if victim := self._victim("is killed"):
            self.deaths += 1
            victim.kill()

    def _terminate(self) -> None:
        victim = self._victim("gets SIGTERM")
        if isinstance(victim, WorkerProcess):
            victim.terminate()

    def _stop(self) -> None:
        seconds = self.world.chance.uniform(0.5, 2 * SETTINGS.dead_after_s)
        if victim := self._victim(f"is stopped for {seconds:.1f} s"):
            self.deaths += 1
            victim.stopped_until = self.world.now + seconds

    def _cut(self) -> None:
        chance = self.world.chance
        seconds = chance.uniform(0.5, 2 * SETTINGS.dead_after_s)
        victim: Process = chance.choice([*self._workers, *self.internet.processes])
        self.world.note(victim.name, f"is cut off for {seconds:.1f} s")
        self.deaths += isinstance(victim, WorkerProcess)
        victim.cut_until = self.world.now + seconds

    def _kill_api(self) -> None:
        victim = self.world.chance.choice(self.internet.processes)
        if victim.alive:
            self.world.note(victim.name, "is killed")
            victim.kill()


def _told(what: object) -> str:
    if isinstance(what, str):
        return what
    assert isinstance(what, list | tuple)
    return "; ".join(" ".join(_short(part) for part in command) for command in what)


def _short(part: object) -> str:
    text = part.decode(errors="replace") if isinstance(part, bytes) else str(part)
    if text.startswith("#!lua"):
        return f"<{scripts_by_text().get(text, 'script')}>"
    return text if len(text) < 200 else text[:200] + "..."


@cache
def scripts_by_text() -> dict[str, str]:
    """The names of the scripts of `store`."""
    modules = [import_module(f"{made.__name__}.{each.name}") for each in iter_modules(made.__path__)]
    named = {name: text for module in modules for name, text in vars(module).items() if name.isupper()}
    return {text: name for name, text in named.items() if isinstance(text, str)}
