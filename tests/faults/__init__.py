"""Faults: processes are killed, stopped, starved and poisoned in the middle of real work, again and again.

    python -m tests.faults     all tries of all faults, and the table of what was lost or wrong
    pytest tests/faults        a share of them

Each fault is a file with one `attempt` at a service of real processes. A `Witness` keeps what was accepted and compares
every certificate with the one that the engine gives undisturbed, from the same seed, in this process.
"""
