"""`python -m tests.faults` runs every try of every fault and writes a table; exit code 1 if anything went wrong."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported, for workers and reference

from tests.faults.disk_full import NoMountError
from tests.faults.fault import Fault, Outcome, run
from tests.faults.faults import FAULTS
from tests.faults.hosts import NoNamespacesError
from tests.faults.service import Service

START, END = ("\r\x1b[K", "") if sys.stdout.isatty() else ("", "\n")  # on a terminal, one line changes in place
TABLE = Path(__file__).parents[2] / "benchmarks" / "results" / "faults.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same choices")
    parser.add_argument("--only", default="", metavar="TEXT", help="faults with this in their name; writes no table")
    parser.add_argument("--tries", type=int, help="tries of each fault, in place of its own number; writes no table")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # whatever ends this process then ends the services, too
    logging.basicConfig(level=logging.ERROR)  # the networks run in their plain form here, and each would warn about it
    chosen = [fault for fault in FAULTS if options.only in fault.name]
    if options.tries:
        chosen = [replace(fault, tries=options.tries) for fault in chosen]
    outcomes = list(tried(chosen, options.seed))
    if len(outcomes) == len(FAULTS) and not options.tries:
        TABLE.write_text(table(outcomes, options.seed))
    return 1 if any(outcome.lost or outcome.wrong for outcome in outcomes) else 0


def tried(faults: Sequence[Fault], seed: int) -> Iterator[Outcome]:
    """Run the faults of one stage one after the other in one service; keep its logs if something failed."""
    for stage, together in groupby(faults, lambda fault: fault.stage):
        folder = Path(mkdtemp(prefix="faults-"))
        try:
            with stage(folder) as service:
                outcomes = [report(tried_often(fault, service, seed)) for fault in together]
        except (NoMountError, NoNamespacesError) as error:
            print(f"left out: {error}")
            rmtree(folder)
            continue
        if any(outcome.lost or outcome.wrong for outcome in outcomes):
            print(f"the logs are in {folder}")
        else:
            rmtree(folder)
        yield from outcomes


def tried_often(fault: Fault, service: Service, seed: int) -> Outcome:
    """Run all tries of a fault, and show a line of progress."""
    return run(fault, service, tries=fault.tries, seed=seed, tell=partial(tell, fault))


def report(outcome: Outcome) -> Outcome:
    """Print the row of an outcome, and everything that was lost or wrong."""
    print(START + "\n  ".join([row(outcome), *outcome.lost, *outcome.wrong]), flush=True)
    return outcome


def tell(fault: Fault, number: int) -> None:
    print(f"{START}{fault.name}: {number} of {fault.tries}", end=END, flush=True)


def row(outcome: Outcome) -> str:
    counts = (outcome.tries, outcome.certifications, len(outcome.lost), len(outcome.wrong))
    return f"| {outcome.fault} | " + " | ".join(map(str, counts)) + " |"


def table(outcomes: Sequence[Outcome], seed: int) -> str:
    minutes = sum(outcome.seconds for outcome in outcomes) / 60
    return "\n".join(
        [
            "# faults",
            "",
            f"`python -m tests.faults --seed {seed}`, {os.cpu_count()} cores, {minutes:.0f} minutes.",
            "",
            "| fault | tries | certifications | lost | wrong |",
            "|---|---:|---:|---:|---:|",
            *map(row, outcomes),
            "",
            "Lost: a certification that was accepted and did not end as it must. Wrong: a certificate that differs in",
            "any field but its times from that of an undisturbed engine with the same seed, a certification that ended",
            "or was made twice, an error that a client saw, a worker that ended and should not have.",
            "",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
