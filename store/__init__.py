"""Certifications in Redis: the one place that knows the keys, the records and RQ's bookkeeping.

The API and the workers meet here and nowhere else. Nothing in this package talks to a server: it makes commands, as
plain tuples, which the API sends from its event loop and a worker from its threads.
"""
