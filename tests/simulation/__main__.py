"""`python -m tests.simulation` plays histories; exit code 1 if something is wrong in one of them."""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.history import Outcome
from tests.simulation.simulator import simulate, simulate_in_processes

SHOWN = 3
"""The histories that are printed step by step."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", default="1", help="the same seed gives the same histories")
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1, help="the processes that play them")
    parser.add_argument("--replay", default="", metavar="SEED-NUMBER", help="one history, with all of its steps")
    options = parser.parse_args()
    if options.replay:
        return replay(options.replay)
    wrong: list[Outcome] = []
    began, done, commands = time.monotonic(), 0, 0

    def tell(outcome: Outcome) -> None:
        nonlocal done, commands
        done, commands = done + 1, commands + outcome.commands
        if outcome.wrong:
            wrong.append(outcome)
            print("\n  ".join([f"\nhistory {outcome.seed}:", *outcome.wrong]), flush=True)
        if done % 100 == 0 or done == options.histories:
            rate = done / (time.monotonic() - began)
            print(f"{done} histories, {commands} commands, {len(wrong)} wrong, {rate:.1f} a second", flush=True)

    seeds = [f"{options.seed}-{number}" for number in range(options.histories)]
    if options.jobs > 1:
        simulate_in_processes(seeds, tell, jobs=options.jobs)
    else:
        simulate(seeds, tell)
    for outcome in wrong[:SHOWN]:
        show(outcome)
    return 1 if wrong else 0


def replay(seed: str) -> int:
    outcomes: list[Outcome] = []
    simulate([seed], outcomes.append)
    show(outcomes[0])
    return 1 if outcomes[0].wrong else 0


def show(outcome: Outcome) -> None:
    again = f"`python -m tests.simulation --replay {outcome.seed}` plays it again"
    print("\n".join([f"\nhistory {outcome.seed}; {again}", *outcome.steps, *(outcome.wrong or ["nothing is wrong"])]))


if __name__ == "__main__":
    sys.exit(main())
