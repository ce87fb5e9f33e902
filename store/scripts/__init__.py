"""The scripts that run in the server. A script is as indivisible as MULTI, and it can look before it writes.

    first_line.py   what happens where the server's memory is full
    waiting.py      what waits, and its place
    taking.py       how a worker takes what waits, and begins it
    commands.py     commands of `store.commands` and of our own, behind a guard
    admission.py    new work, within limits
    shards.py       a shard is divided, or ends
    allowances.py, deliveries.py, archival.py

A script is Lua text that is put together of such pieces when its file is imported. A file has the scripts of the module
of `store` or `store.transitions` that calls them.
"""
