"""Certifications in Redis: the one place that knows the keys, the records and RQ's bookkeeping.

The API and the workers share this package and nothing else. It never talks to a server: it makes commands, as plain
tuples, which the API sends from its event loop and a worker from its threads.
"""
