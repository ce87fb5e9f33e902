"""Measurements of the machine: the speed and the memory of the engine, the service and the boundaries.

`boundaries`, `engine`, `load`, `peers` and `service` are benchmarks; the other modules run a service and talk to it.
"""
