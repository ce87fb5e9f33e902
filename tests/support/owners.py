"""Two owners, their keys, and the entries by which a service knows them."""

from __future__ import annotations

import hashlib

ALICE, BOB = "sk_alice", "sk_bob"
ENTRIES = [f"{name}:{hashlib.sha256(key.encode()).hexdigest()}" for name, key in (("alice", ALICE), ("bob", BOB))]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}
