"""Keys and ids can neither be guessed nor be found out by measuring time."""

from __future__ import annotations

import hashlib
import hmac
import random
from collections import Counter
from pathlib import Path

import pytest

from app.http.authentication import MOST_FAILURES, Keys, new_key
from app.local.embedded import EmbeddedServer
from app.requests.intake import new_id
from tests.support.api import Api, problem
from tests.support.owners import ALICE, BOB, ENTRIES, bearer

URL = "/v1/certifications"


@pytest.mark.parametrize(("key", "owner"), [(ALICE, "alice"), (BOB, "bob"), ("sk_carol", None), ("", None)])
def test_every_key_is_compared_with_every_digest_in_constant_time(
    monkeypatch: pytest.MonkeyPatch, key: str, owner: str | None
) -> None:
    compared: list[tuple[str, str]] = []
    honest = hmac.compare_digest

    def noting(seen: str, known: str) -> bool:
        compared.append((seen, known))
        return honest(seen, known)

    monkeypatch.setattr(hmac, "compare_digest", noting)
    assert Keys.read(",".join(ENTRIES)).owner(key) == owner
    digest = hashlib.sha256(key.encode()).hexdigest()
    assert compared == [(digest, entry.partition(":")[2]) for entry in ENTRIES]


def test_what_is_kept_of_a_key_does_not_open_the_service() -> None:
    keys = Keys.read(",".join(ENTRIES))
    for entry in ENTRIES:
        assert keys.owner(entry) is None
        assert keys.owner(entry.partition(":")[2]) is None


@pytest.mark.parametrize(("new", "letters", "size"), [(new_id, 16, 32), (new_key, 64, 43)])
def test_ids_and_keys_cannot_be_guessed(new: type, letters: int, size: int) -> None:
    random.seed(1)
    made = [new().partition("_")[2] for _ in range(4000)]
    random.seed(1)
    assert new().partition("_")[2] not in made
    assert len(set(made)) == len(made)
    assert {len(each) for each in made} == {size}
    for place in range(size - 1):  # the last letter of a key has two bits fewer
        seen = Counter(each[place] for each in made)
        assert len(seen) == letters
        assert max(seen.values()) < 2.5 * len(made) / letters


def test_who_guesses_cannot_take_another_address(valkey: EmbeddedServer, tmp_path: Path) -> None:
    with Api(valkey.url, tmp_path, api_keys=",".join(ENTRIES)) as api:
        for number in range(MOST_FAILURES):
            headers = {
                **bearer(f"sk_{number}"),
                "X-Forwarded-For": f"192.0.2.{number}",
                "Forwarded": f"for=192.0.2.{number}",
            }
            problem(api.client.get(URL, headers=headers), "unauthorized")
        headers = {**bearer("sk_other"), "X-Forwarded-For": "198.51.100.1"}
        problem(api.client.get(URL, headers=headers), "too_many_failures")
