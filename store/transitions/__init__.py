"""The life of a certification: every change of its record is one indivisible call, together with RQ's bookkeeping.

    queued ──> running ──> succeeded | failed
      │  ^        │
      │  └────────┤ handed back, or its worker died
      v           v
    canceled <─ canceling

    queued ──> failed, where the deadline passes before a worker begins

Every call has a guard: the statuses that the record may have and, for a worker's calls, the execution that it must
belong to. The first final status wins, because a later call (of a worker that was thought dead) fails its guard.

A certification that was divided (`store.division`) has several shards, which wait and run for themselves. A record that
is given here may stand for any of them. The shard that ends last ends the certification; one that fails, or that ends
because a client canceled, ends it for all.

    admission.py     it is taken in
    lease.py         a worker begins, saves, and gives it back; or dies
    endings.py       it ends by itself
    cancellation.py  a client cancels or deletes it
    agenda.py        the janitor looks at it again, or forgets it

These are made of `writing.py` (fields, guards), `pieces.py` (checkpoints and certificates) and `final.py` (what every
end writes).
"""
