"""Worker processes: the engine that draws samples, and what feeds it.

This package may use torch; of ours it imports `smoothcert`, `models` and `store`.
"""
