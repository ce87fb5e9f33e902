"""Simulated histories of the service: many small ones, disturbed in every way that a seed can choose.

    python -m tests.simulation --seed 1 --histories 1000     plays histories, and names those with something wrong
    python -m tests.simulation --histories 1000 --jobs 4     plays them in four processes
    python -m tests.simulation --replay 1-17                 plays one of them again and prints all of its steps
    pytest tests/simulation                                  plays a few, the seeds that once failed, and some mutants

The API with its routes and its queue, the worker with its clerk, its janitor and its runs, the client, the scripts and
the server that executes them are real. The clock, the threads, the network, and the classes that the networks give are
simulated. One history lasts for some twenty simulated seconds.

    stage.py      what the service's modules see in the place of time, threading and secrets
    world.py      the clock, the events, the processes
    network.py    what happens to commands on their way to Redis; lines.py ends redis-py's connections there
    server.py     the real Valkey, with a database for each history under way
    worker.py  api.py  customer.py  engine.py   the processes
    scripts.py    what customers do
    history.py    what happens in a history
    audit.py      what must be true of it
"""
