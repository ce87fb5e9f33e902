"""Faults: processes are killed, stopped, starved and poisoned in the middle of real work, many times.

    python -m tests.faults     runs all tries of all faults and writes a table of what was lost or wrong
    pytest tests/faults        runs a few of them

Each fault is a file with one function `attempt`, which disturbs a service of real processes. A `Witness` records what
was accepted and compares every certificate with that of an undisturbed engine in this process, from the same seed.
"""
