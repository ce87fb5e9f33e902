"""Benchmarks: `python -m benchmarks NAME`. `results/` holds the committed tables.

`paper/` repeats the experiments of the paper, `machine/` measures how fast our own code is on this machine.
"""
