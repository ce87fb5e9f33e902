"""Files with several certificates: what is around them must agree with them, and nothing counts twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from smoothcert.certificate import Certificate
from smoothcert.examination import UNBOUND, examine
from smoothcert.noise import Gaussian, GaussianLinf, RoundedGaussian, Uniform
from smoothcert.procedures import Adaptive, Fixed
from smoothcert.request import CertificationRequest
from smoothcert.wrapper import Others, Wrapper
from tests.support.attested import complete, keyring, resigned, sealed
from tests.support.certificates import altered, certificate_of
from tests.support.command import one_sentence, smoothcert

FIRST, SECOND = complete(0, index=0), complete(1, index=1)
REQUEST = CertificationRequest(
    ensemble="pair",
    noise=FIRST.noise,
    radius=0.25,
    alpha=0.001,
    beta=0.002,
    procedure=Adaptive(),
    voting="soft",
).model_dump(mode="json")
GOLDEN = Path(__file__).parent / "golden"
MARK = b"\xef\xbb\xbf"
MARKED = "it begins with a byte-order mark, which JSON must not have: save it as UTF-8 without one"


def fields(*certificates: Certificate) -> list[dict[str, Any]]:
    return [each.model_dump(mode="json") for each in certificates]


def certification(*certificates: Certificate, **others: Any) -> bytes:
    progress = {"images_done": 2, "images_total": 2, "samples": 0, "evaluations": 0, "images": []}
    wrapper = {"id": "cert_1", "status": "succeeded", "ensemble": "pair", "request": REQUEST, "progress": progress}
    return json.dumps({**wrapper, **others, "certificates": fields(*certificates)}).encode()


def lines(*records: Any) -> bytes:
    return "".join(json.dumps(each) + "\n" for each in records).encode()


def ledger(question: dict[str, Any], *certificates: Certificate) -> bytes:
    head = {"run": {"certify_many": 1, "question": question}, "once": {}}
    return lines(head, *({"image": "x", "certificate": each} for each in fields(*certificates)))


def test_a_certification_that_agrees_with_its_request_is_consistent() -> None:
    found = examine(certification(FIRST, SECOND))
    assert found.problems == ()
    assert found.certificates == 2
    assert examine(ledger(REQUEST, FIRST, SECOND))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("radius", 0.5, "radius: is 0.25, the file around it says 0.5"),
        ("alpha", 0.01, "alpha: is 0.001, the file around it says 0.01"),
        ("beta", 0.01, "beta: is 0.002, the file around it says 0.01"),
        ("family_wise", True, "family_wise: is False, the file around it says True"),
        ("ensemble", "other", "ensemble.name: is 'pair', the file around it says 'other'"),
        ("voting", "hard", "ensemble.voting: is 'soft', the file around it says 'hard'"),
        ("consensus", 2, "ensemble.consensus: is None, the file around it says 2"),
        ("nonce", "n", "nonce: is None, the file around it says 'n'"),
        ("procedure", "sequential", "procedure: is Adaptive("),
        ("noise", {"name": "gaussian", "sigma": 0.5}, "noise: is Gaussian(sigma=0.25"),
    ],
)
def test_a_request_that_asks_something_else_is_noticed(name: str, value: Any, sentence: str) -> None:
    request = {**REQUEST, name: value}
    found = examine(ledger(request, FIRST))
    assert not found
    assert any(problem.startswith(f"line 2: {sentence}") for problem in found.problems), found.problems
    found = examine(certification(FIRST, SECOND, request=request, ensemble=request["ensemble"]))
    assert any(problem.startswith(f"certificates[1]: {sentence}") for problem in found.problems), found.problems


def test_a_shorthand_sigma_stands_for_both_arithmetics() -> None:
    assert examine(ledger({**REQUEST, "noise": None, "sigma": 0.25}, FIRST))
    assert not examine(ledger({**REQUEST, "noise": None, "sigma": 0.5}, FIRST))
    around = Wrapper.of_run({"question": {"sigma": 0.25, "procedure": "fixed"}})
    for noise, problems in (
        (Gaussian(0.25), []),
        (RoundedGaussian(0.25), []),
        (RoundedGaussian(0.5), ["sigma: is 0.5, the file around it says 0.25"]),
        (GaussianLinf(0.25, 192), ["sigma: is None, the file around it says 0.25"]),
        (Uniform(0.25), ["sigma: is None, the file around it says 0.25"]),
    ):
        seen = around.contradictions(certificate_of(Fixed(), 0.95, noise=noise))
        assert [each for each in seen if each.startswith("sigma")] == problems


def test_a_certification_has_a_certificate_for_each_image() -> None:
    assert "has 1 certificates, and the certification had 2 images" in str(examine(certification(FIRST)).problems)
    other = examine(certification(FIRST, SECOND, ensemble="other")).problems
    assert "ensemble: is 'other', the request is for 'pair'" in other


def test_a_request_that_cannot_be_read_is_a_sentence() -> None:
    found = examine(certification(FIRST, SECOND, request={"radius": "far"}))
    assert any(problem.startswith("request: radius: ") for problem in found.problems)


@pytest.mark.parametrize("written", [lambda *each: ledger(REQUEST | {"ensemble": None}, *each), certification])
def test_a_file_that_mixes_ensembles_is_noticed(written: Any) -> None:
    found = examine(written(FIRST, complete(1, index=1, ensemble="other")))
    assert any("the file mixes ensembles" in problem for problem in found.problems)


def test_certificates_of_several_ensembles_may_stand_in_a_list() -> None:
    assert examine(lines(*fields(FIRST, complete(1, ensemble="other"))))


def test_a_certificate_under_two_names_is_noticed(tmp_path: Path) -> None:
    found = examine(lines(*fields(FIRST, SECOND, FIRST)))
    assert found.problems == ("line 3: is the same certificate as line 1",)
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    for file in (one, two):
        file.write_text(FIRST.to_json())
    done = smoothcert("verify", one, two)
    assert done.returncode == 1
    assert f"consistent  {one}" in done.stdout
    assert f"  is the same certificate as {one}" in done.stdout


def test_an_attestation_beside_the_certificate_that_it_attests_is_no_repetition(tmp_path: Path) -> None:
    """`certify --out --attest` writes both; where certificates are counted, they still must not be together."""
    one, attested, two = tmp_path / "one.json", tmp_path / "attested.jsonl", tmp_path / "two.json"
    for file in (one, two):
        file.write_text(FIRST.to_json())
    attested.write_text(sealed(FIRST, keyring("me")) + "\n")
    assert smoothcert("verify", one, attested).returncode == 0
    assert smoothcert("verify", attested, one).returncode == 0
    done = smoothcert("verify", one, attested, two)
    assert (done.returncode, done.stdout.count("is the same certificate as")) == (1, 1)
    others = Others()
    assert others.repetition(FIRST, "one") is None
    assert others.repetition(FIRST, "attested", sealed=True) == "is the same certificate as one"


def test_a_text_that_is_nested_too_deeply_is_said_in_words() -> None:
    assert examine(b"[" * 5_000).problems == ("not a certificate: it is nested too deeply",)


def test_certificates_from_the_same_samples_are_noticed() -> None:
    """The second differs only by its time, as if it had been drawn once more."""
    assert FIRST.provenance is not None
    provenance = FIRST.provenance.model_copy(update={"versions": {"torch": "3"}})
    again = resigned(FIRST.model_copy(update={"provenance": provenance}))
    assert again.digest != FIRST.digest
    (problem,) = examine(lines(*fields(FIRST, again))).problems
    assert problem == "line 2: rests on the same samples as line 1: they have the same seed and image"


def test_another_question_with_the_same_seed_has_other_noise() -> None:
    seed = "00" * 16
    assert examine(lines(*fields(complete(0, drawn=seed), complete(0, Fixed(n=300), drawn=seed))))


def test_a_run_is_described_by_the_first_line_alone() -> None:
    head, *rest = ledger(REQUEST, FIRST, SECOND).splitlines()
    found = examine(b"\n".join([head, rest[0], head, rest[1]]))
    assert found.problems == ("line 3: describes a run, which only the first line of a ledger may do",)
    assert examine(b"\n".join([b"", head, *rest])), "empty lines do not count"


@pytest.mark.parametrize("path", [["p_lower"], ["stages", 0, "p_lower"], ["stages", 0, "p_upper"]])
@pytest.mark.parametrize("value", [-1e-10, 1 + 1e-10])
def test_probabilities_lie_between_zero_and_one(path: list[Any], value: float) -> None:
    """Both are closer to what the counts give than the libraries of two machines are to each other."""
    with pytest.raises(ValueError, match="than or equal to"):
        altered(complete(0, Fixed(n=200)), path, value, signed=True)


def test_the_first_format_is_said_to_bind_nothing() -> None:
    found = examine((GOLDEN / "fixed.json").read_bytes())
    assert found
    assert found.notes == (UNBOUND,)
    assert examine(FIRST.to_json().encode()).notes == ()
    assert "note: In format 1 the noise is not bound" in smoothcert("verify", GOLDEN / "fixed.json").stdout


# --- the command


def test_verify_with_a_key_says_three_things(tmp_path: Path) -> None:
    ring, file, key = keyring(), tmp_path / "x.intoto.jsonl", tmp_path / "keys.json"
    file.write_text(sealed(FIRST, ring) + "\n")
    key.write_text(ring.published.model_dump_json())
    done = smoothcert("verify", "--key", key, file)
    assert done.returncode == 0
    assert [line.split(".")[0] for line in done.stdout.splitlines()[1:]] == [
        "  signed:    yes",
        "  unaltered: yes",
        "  follows:   yes",
    ]
    record = json.loads(smoothcert("verify", "--json", "--key", key, file).stdout)
    assert {name: record[name]["holds"] for name in ("signed", "unaltered", "follows")} == {
        "signed": True,
        "unaltered": True,
        "follows": True,
    }
    key.write_text(keyring("somebody else").published.model_dump_json())
    done = smoothcert("verify", "--key", key, file)
    assert done.returncode == 1
    assert "  signed:    no. Not by anybody whose key was given" in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot be read: No such file"),
        ("{}", "not public keys as a service publishes them"),
        ("-----BEGIN PUBLIC KEY-----", "not public keys"),
        (FIRST.to_json(), ": this is a certificate, not the public keys that a service publishes at /.well-known/"),
        (sealed(FIRST, keyring()), ": this is an attestation, not the public keys"),
        (f"{sealed(FIRST, keyring())}\n{sealed(FIRST, keyring())}\n", ": this is an attestation, not the public keys"),
        (json.dumps({"certificates": []}), ": this is a certification, not the public keys"),
        ('{"run": {}}\n', ": this is a ledger of certificates, not the public keys"),
        ("[1]", "not public keys as a service publishes them"),
        ("\ufeff{}", f"smoothcert-keys.json: {MARKED}"),
    ],
)
def test_a_key_that_cannot_be_read_is_a_sentence(tmp_path: Path, text: str | None, words: str) -> None:
    key, file = tmp_path / "keys.json", tmp_path / "x.json"
    file.write_text(FIRST.to_json())
    if text is not None:
        key.write_text(text)
    one_sentence(smoothcert("verify", "--key", key, file), f"--key {key}", words)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"\x89PNG\r\n\x1a\n", "line 1: not a certificate: it is not text"),
        (b"# smoothcert", "not a certificate: it is not JSON (Expecting value at character 1)"),
        (b'{"format": "smoo', "not a certificate: it is not JSON (Unterminated string starting at character 12)"),
        (b"\xff\xfe" + '{"payloadType": 1}'.encode("utf-16-le"), "not a certificate: it is not text"),
        (b"1" * 5000, "not a certificate: it has a number of too many digits"),
        (b'{"run": {}}', "there is no certificate in it"),
        (MARK + FIRST.to_json().replace("\n", "").encode(), f"not a certificate: {MARKED}"),
        (MARK + sealed(FIRST, keyring()).encode(), f"not a certificate: {MARKED}"),
        (MARK + b'{"run": {}}\n{}', f"line 1: not a certificate: {MARKED}"),
    ],
)
def test_a_file_of_another_kind_is_told_without_codecs(text: bytes, sentence: str) -> None:
    assert examine(text).problems == (sentence,)


SHARED = {**REQUEST, "family_wise": True}


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"certificates": 5, "request": SHARED}, "not a certificate"),
        ({"certificates": [], "request": SHARED}, "there is no certificate in it"),
        ({"certificates": fields(FIRST), "request": SHARED, "progress": {"images_total": 0}}, "alpha: is 0.001"),
        ({"certificates": fields(FIRST), "request": SHARED, "progress": {"images_total": 10**400}}, "alpha: is 0.001"),
        ({"certificates": fields(FIRST), "request": {"\ud800": 1}}, "request: it: Input should be a valid string"),
    ],
)
def test_a_certification_of_no_kind_is_a_sentence(payload: dict[str, Any], words: str) -> None:
    """The number of images divides alpha, and JSON can name a field that no encoding has."""
    found = " ".join(examine(json.dumps(payload).encode()).problems)
    assert words in found
    assert found.isprintable()


def test_the_name_of_a_field_is_cut_where_it_is_quoted() -> None:
    (problem,) = examine(json.dumps({"x" * 1_000_000: 1}).encode()).problems
    assert len(problem) < 2000


def test_a_line_of_a_ledger_may_stand_alone() -> None:
    line = {"image": 0, "label": 1, "certificate": json.loads(FIRST.to_json())}
    assert examine(json.dumps(line).encode()).certificates == 1
    assert examine(json.dumps(line).encode())


def test_a_time_without_its_zone_is_refused() -> None:
    """It could not be compared with other times."""
    fields = json.loads(FIRST.to_json())
    fields["provenance"]["finished_at"] = "2026-03-01T12:00:00"
    (problem,) = examine(json.dumps(fields).encode()).problems
    assert "provenance.finished_at: must be a time with its zone, such as" in problem


def test_a_file_of_which_nothing_can_be_read_is_not_said_to_be_unsigned() -> None:
    found = examine(sealed(FIRST, keyring()).encode()[:300], keyring().published)
    assert found.signed.holds is None
    assert found.signed.sentence == "That cannot be told: nothing in it could be read."
