"""Every alteration of a signed attestation is noticed, and every reason not to believe one is a sentence."""

from __future__ import annotations

import base64
import json
import string
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from securesystemslib.dsse import Envelope

from smoothcert.attestation.envelope import MEDIA_TYPE, Attestation
from smoothcert.attestation.keyring import Keyring
from smoothcert.attestation.keys import KeySet
from smoothcert.attestation.signing import is_signed_by, sign
from smoothcert.attestation.statement import CERTIFICATE, ReplayRecord, Statement
from smoothcert.canonical import canonical_json
from smoothcert.certificate import Certificate
from smoothcert.errors import AttestationError, CertificateError
from smoothcert.examination import UNCHECKED, Examination, examine
from smoothcert.procedures import Fixed, Sequential
from tests.support.attested import (
    FINISHED,
    LATER,
    MADE,
    MEMBERS,
    complete,
    keyring,
    resigned,
    sealed,
    with_every_record,
)

RING = keyring()
CERTIFIED = complete()
TEXT = sealed(CERTIFIED, RING)
FULL = with_every_record(CERTIFIED)
FULL_TEXT = sealed(FULL, RING)


def examined(text: str | bytes, ring: Keyring = RING, **options: Any) -> Examination:
    data = text if isinstance(text, bytes) else text.encode()
    return examine(data, ring.published, **{"now": LATER, **options})


def test_an_attested_certificate_says_three_things() -> None:
    found = examined(TEXT)
    assert found
    assert (found.signed.holds, found.unaltered.holds, found.follows.holds) == (True, True, True)
    assert found.signed.sentence == f"By the tests, with the key {RING.public.keyid[:16]}…."


def test_the_statement_is_about_the_input_and_each_member() -> None:
    assert CERTIFIED.provenance is not None
    payload = json.loads(base64.b64decode(json.loads(TEXT)["payload"]))
    assert payload["_type"] == "https://in-toto.io/Statement/v1"
    assert payload["predicateType"] == CERTIFICATE
    assert [each["digest"]["sha256"] for each in payload["subject"]] == [
        CERTIFIED.provenance.input.sha256,
        *MEMBERS,
    ]
    assert Certificate.from_json(json.dumps(payload["predicate"])) == CERTIFIED


def test_another_implementation_of_the_envelope_reads_it() -> None:
    envelope = Envelope.from_dict(json.loads(TEXT))
    assert envelope.payload_type == MEDIA_TYPE == "application/vnd.in-toto+json"
    assert [*envelope.verify([RING.signer.public_key], 1)] == [RING.public.keyid]


# --- alterations


@settings(max_examples=300, deadline=None)
@given(place=st.integers(0, len(TEXT) - 1), value=st.integers(0, 255))
def test_any_byte_that_is_changed_is_noticed(place: int, value: int) -> None:
    altered = bytearray(TEXT.encode())
    if altered[place] != value:
        altered[place] = value
        assert not examined(bytes(altered))


@pytest.mark.parametrize("bit", [0, 5])
def test_one_bit_of_each_byte_is_enough(bit: int) -> None:
    """Bit 5 distinguishes capitals from small letters, which JSON and base64 tell apart."""
    whole = FULL_TEXT.encode()
    assert examined(whole)
    assert [
        place
        for place in range(len(whole))
        if examined(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
    ] == []


@settings(max_examples=100, deadline=None)
@given(start=st.integers(0, len(TEXT) - 1), length=st.integers(1, 50))
def test_any_bytes_that_are_missing_are_noticed(start: int, length: int) -> None:
    assert not examined(TEXT[:start] + TEXT[start + length :])


@settings(max_examples=100, deadline=None)
@given(place=st.integers(0, len(TEXT)), more=st.text("\n \t,0aA={}", min_size=1, max_size=3))
@example(place=len(TEXT), more="\n")
@example(place=len(TEXT), more="\n\n")
def test_any_bytes_that_are_added_are_noticed(place: int, more: str) -> None:
    """Only one line feed at the end, as in text files, may be added."""
    altered = TEXT[:place] + more + TEXT[place:]
    assert bool(examined(altered)) == (altered == f"{TEXT}\n")


def test_a_second_text_for_the_same_bytes_is_noticed() -> None:
    """The last characters of base64 have bits that mean nothing. Mutant killed: base64 that is decoded leniently."""
    (signature,) = json.loads(TEXT)["signatures"]
    end = signature["sig"][-3:]
    assert end.endswith("==")
    letters = string.ascii_letters + string.digits + "+/"
    accepted = [each for each in letters if examined(TEXT.replace(end, f"{each}=="))]
    assert accepted == [end[0]]
    before = signature["sig"][-4]
    same = [each for each in letters if base64.b64decode(f"{before}{each}==") == base64.b64decode(f"{before}{end}")]
    assert len(same) == 16, "so many texts stand for the same signature"


def test_white_space_between_the_fields_is_noticed() -> None:
    """Mutant killed: accepting any JSON with the right content."""
    for place, character in enumerate(TEXT):
        if character in "{}[]:,":
            assert not examined(f"{TEXT[:place]} {TEXT[place:]}"), place


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a JSON value that is not itself an object or a list."""
    if isinstance(value, dict | list) and value:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*path, key))
    else:
        yield path


STATEMENT = json.loads(Statement.of(FULL).payload)
PLACES = [*leaves(STATEMENT)]


def another(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return value + "0"
    return "0" if value is None else [0]


def with_(value: Any, path: tuple[Any, ...]) -> Any:
    """A copy of a JSON value with another value in one place."""
    copied = place = json.loads(json.dumps(value))
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = another(place[path[-1]])
    return copied


def test_every_field_of_the_statement_is_tried() -> None:
    tried = {path[1] for path in PLACES if path[0] == "predicate"}
    assert tried == Certificate.model_fields.keys()
    for record in records(FULL):
        assert record.model_dump().keys() == type(record).model_fields.keys(), "none may be absent"
    assert len(PLACES) > 90


def records(value: Any) -> Iterator[BaseModel]:
    """A model and all models within it."""
    if isinstance(value, BaseModel):
        yield value
        for name in type(value).model_fields:
            yield from records(getattr(value, name))
    elif isinstance(value, tuple):
        for each in value:
            yield from records(each)


def forged(path: tuple[Any, ...]) -> dict[str, Any]:
    """The statement with another value in one place, and with the digest that its certificate then has."""
    statement: dict[str, Any] = with_(STATEMENT, path)
    if path != ("predicate", "digest"):
        try:
            certificate = Certificate.from_json(json.dumps(statement["predicate"]))
        except CertificateError:  # no certificate can have this value
            return statement
        statement["predicate"] = resigned(certificate).model_dump(mode="json")
    return statement


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_any_field_that_is_changed_under_the_old_signature_is_noticed(path: tuple[Any, ...]) -> None:
    payload = base64.b64encode(canonical_json(forged(path)).encode()).decode()
    found = examined(canonical_json({**json.loads(FULL_TEXT), "payload": payload}))
    assert not found
    assert found.unaltered.holds is not True


@pytest.mark.parametrize("field", ["keyid", "sig"])
def test_a_changed_signature_is_noticed(field: str) -> None:
    envelope = json.loads(TEXT)
    (signature,) = envelope["signatures"]
    signature[field] = ("B" if signature[field][0] == "A" else "A") + signature[field][1:]
    assert not examined(canonical_json(envelope))


def test_a_certificate_that_lies_is_signed_and_does_not_follow() -> None:
    """The holder of the key can sign anything, but the counts reveal it."""
    lie = resigned(CERTIFIED.model_copy(update={"radius": 0.9}))
    found = examined(sealed(lie, RING))
    assert (found.signed.holds, found.unaltered.holds, found.follows.holds) == (True, True, False)
    assert "radius: is 0.9, the counts give" in found.follows.sentence


def test_subjects_that_are_not_those_of_the_certificate_are_noticed() -> None:
    other = Statement.of(complete(1)).subject
    statement = Statement.of(CERTIFIED).model_copy(update={"subject": other})
    found = examined(sign(statement, RING.signer))
    assert "the subjects of the statement are not" in found.problems[0]
    assert found.signed.sentence == "No signature could be confirmed."


# --- sentences


def changed(**fields: Any) -> str:
    return canonical_json({**json.loads(TEXT), **fields})


def complains(found: Examination, sentence: str) -> bool:
    return not found and any(sentence in problem for problem in found.problems)


def test_the_key_of_somebody_else_is_a_sentence() -> None:
    found = examined(TEXT, keyring("somebody else"))
    assert found.signed.holds is False
    assert complains(found, "which is not among the keys given")
    assert found.follows.holds is True, "and the claim still follows from the counts"


def test_a_key_that_was_retired_vouches_for_what_was_finished_before() -> None:
    rotated = RING.rotated(FINISHED + timedelta(days=1))
    assert examined(TEXT, rotated)
    expired = RING.rotated(FINISHED - timedelta(days=1))
    assert complains(examined(TEXT, expired), "expired on 2026-02-28")
    assert examined(sealed(CERTIFIED, rotated), rotated), "the new key signs what was finished before it was made"


def test_a_revoked_key_vouches_for_nothing() -> None:
    revoked = RING.rotated(FINISHED + timedelta(days=1), revoked=True)
    assert complains(examined(TEXT, revoked), "was revoked on 2026-03-02")
    assert examined(sealed(CERTIFIED, revoked), revoked)


def test_a_retired_key_can_be_revoked_later() -> None:
    """Mutant killed: only the key that signs can be revoked, and not one whose theft is noticed after its time."""
    rotated = RING.rotated(FINISHED + timedelta(days=1))
    revoked = rotated.with_revoked(RING.public.keyid[:16], LATER)
    assert complains(examined(TEXT, revoked), "was revoked on")
    assert revoked.public == rotated.public
    assert revoked.with_revoked(RING.public.keyid, LATER + timedelta(days=1)) == revoked, "the first time counts"
    for keyid, words in (
        (rotated.public.keyid, "is the key that signs: --revoke replaces it"),
        (RING.public.keyid[:7], f"there are: {RING.public.keyid}"),
        ("", "must be the keyid of a retired key"),
        ("f" * 64, "must be the keyid of a retired key"),
    ):
        with pytest.raises(AttestationError, match=words):
            rotated.with_revoked(keyid, LATER)


def test_a_key_may_be_valid_until_the_last_date() -> None:
    for field in ("not_before", "not_after"):
        key = RING.public.model_copy(update={field: datetime.max.replace(tzinfo=UTC)})
        assert bool(examine(TEXT.encode(), KeySet(keys=(key,)), now=LATER)) == (field == "not_after")


def test_clocks_may_differ_a_little() -> None:
    assert examined(TEXT, RING.rotated(FINISHED - timedelta(minutes=2)))
    assert examined(TEXT, now=FINISHED - timedelta(minutes=2))
    assert complains(examined(TEXT, now=FINISHED - timedelta(hours=1)), "which is in the future: the clock here says")
    assert complains(examined(TEXT, now=MADE - timedelta(days=1)), "is not valid before")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (changed(payloadType="application/json"), "the envelope is of type 'application/json', wanted"),
        (changed(signatures=[]), "an envelope has one signature"),
        (changed(signatures=json.loads(TEXT)["signatures"] * 2), "an envelope has one signature"),
        (changed(payload="e30="), "not an in-toto statement: subject: is missing"),
        (changed(payload=base64.b64encode(b'{"a": 1}').decode()), "not written in canonical JSON"),
        (changed(payload=base64.b64encode(b"\xff").decode()), "not an in-toto statement"),
        (changed(payload="?"), "must be base64, got '?'"),
        (changed(more=1), "an envelope has the fields payload, payloadType, signatures"),
        (json.dumps(json.loads(TEXT)), "not written in canonical JSON"),
        (TEXT[: len(TEXT) // 2], "not a certificate"),
        (CERTIFIED.to_json(), "is not signed"),
    ],
)
def test_what_cannot_be_checked_is_a_sentence(text: str, sentence: str) -> None:
    assert complains(examined(text), sentence), examined(text).problems


def test_a_statement_about_something_else_is_a_sentence() -> None:
    statement = Statement.of(CERTIFIED).model_copy(update={"predicate_type": "https://slsa.dev/provenance/v1"})
    assert complains(examined(sign(statement, RING.signer)), "is of type 'https://slsa.dev/provenance/v1', wanted")


def test_without_keys_the_signer_is_not_known() -> None:
    found = examine(TEXT.encode())
    assert found
    assert found.signed.holds is None
    assert RING.public.keyid[:16] in found.signed.sentence


def test_lines_of_attestations_are_read_and_one_is_named() -> None:
    lines = [sealed(complete(seed), RING) for seed in range(3)]
    found = examined("\n".join(lines) + "\n")
    assert found
    assert found.certificates == 3
    lines[1] = lines[1].replace("A", "B", 1)
    found = examined("\n".join(lines))
    assert [problem.partition(":")[0] for problem in found.problems] == ["line 2"]


@pytest.mark.parametrize("procedure", [Fixed(n=200), Sequential()])
def test_certificates_of_every_kind_are_attested(procedure: Any) -> None:
    assert examined(sealed(complete(0, procedure), RING))


def test_a_certificate_about_nothing_is_not_signed() -> None:
    with pytest.raises(AttestationError, match="provenance is null"):
        Statement.of(resigned(CERTIFIED.model_copy(update={"provenance": None})))


# --- signatures


def test_a_signature_that_was_not_checked_is_noted() -> None:
    signed = sealed(CERTIFIED, RING).encode()
    assert examine(signed).notes[0].startswith("The signature was not checked")
    assert not any("signature" in note for note in examine(signed, RING.published).notes)
    assert not any("signature" in note for note in examine(CERTIFIED.to_json().encode()).notes)


def test_an_altered_certificate_without_a_signature_is_said_to_be_unsigned() -> None:
    untouched = examine(CERTIFIED.to_json().encode())
    altered = examine(CERTIFIED.model_copy(update={"samples": CERTIFIED.samples + 1}).to_json().encode())
    assert (untouched.unaltered.holds, altered.unaltered.holds) == (True, False)
    assert altered.signed == untouched.signed
    assert altered.signed.sentence.startswith("It is not signed")


def test_a_signature_is_that_of_one_key() -> None:
    """The same keyid on another key must not be accepted. Mutant killed: a check by keyid alone."""
    attestation = Attestation.read(TEXT)
    assert is_signed_by(attestation, RING.public)
    posed = keyring().public.model_copy(update={"keyid": RING.public.keyid})
    assert not is_signed_by(attestation, posed)


WITHOUT = """
import sys
class Missing:  # as if they were not installed
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("securesystemslib", "cryptography"):
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
import smoothcert.examination, smoothcert.attestation.envelope, smoothcert.attestation.keys
from smoothcert.cli import main
sys.argv[1:] = ["verify", *sys.argv[1:]]
main()
"""


def test_without_the_extra_only_signatures_are_missing(tmp_path: Path) -> None:
    file, key = tmp_path / "x.intoto.jsonl", tmp_path / "keys.json"
    file.write_text(TEXT)
    key.write_text(RING.published.model_dump_json())

    def verify(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])

    assert verify(file).stdout == f"consistent  {file}\n  note: {UNCHECKED}\n"
    done = verify("--key", key, file)
    assert done.returncode == 1
    assert (
        done.stderr == "error: a signature needs securesystemslib: pip install '.[attest]' in a clone of smoothcert\n"
    )


def test_what_is_not_signed_beside_what_is_does_not_count_as_signed() -> None:
    """The page allows both. Mutant killed: one signature vouches for the whole file."""
    text = f"{TEXT}\n{complete(1).model_dump_json()}\n"
    found = examined(text, unsigned=True)
    assert found.problems == ()
    assert found.signed.holds is None
    assert found.signed.sentence.startswith("In part: by ")
    assert "1 of 2 certificates are not signed: nobody vouches for them." in found.signed.sentence
    assert "Every byte" not in found.unaltered.sentence


# --- replays


def replayed(by: str) -> str:
    """The attestation of a replay, in which the owner of the key names somebody."""
    record = ReplayRecord(
        certificate=CERTIFIED.digest,
        reproduced=True,
        differences=(),
        remarks=(),
        by=by,
        on={"device": "cpu"},
        replayed_at=FINISHED,
    )
    return sign(Statement.of_replay(CERTIFIED, record), RING.signer)


def test_a_replay_counts_only_with_a_signature_that_was_checked() -> None:
    """Mutant killed: everybody may write that a certificate was reproduced."""
    text = replayed(RING.name)
    assert examined(text).follows.holds is True
    for found in (examine(text.encode()), examined(text, keyring("somebody else"))):
        assert found.follows.holds is None
        assert found.follows.sentence.startswith(f"It says that {RING.name} has reproduced")
    forged = examined(replayed("the authority"))
    assert forged.follows.holds is None
    assert complains(forged, f"is signed by {RING.name}, and says that the authority has replayed it")


def test_a_replay_beside_its_certificate_is_told() -> None:
    found = examined(f"{TEXT}\n{replayed(RING.name)}\n")
    assert found
    assert found.follows.sentence.startswith("Everything that is claimed follows from the counts. ")
    assert f"{RING.name} has reproduced every count" in found.follows.sentence
