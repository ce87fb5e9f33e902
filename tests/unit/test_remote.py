"""Members that run at an endpoint: a real server of the Open Inference Protocol, good and bad."""

from __future__ import annotations

import copy
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import nn

from models.__main__ import run
from models.addition import Addition, add
from models.registry import load
from smoothcert.certificate import Certificate, RemoteRecord
from smoothcert.engine.case import certify
from smoothcert.engine.engine import Engine
from smoothcert.engine.errors import MemberError, RemoteError
from smoothcert.engine.remote.endpoint import Endpoint, ModelAddress, RemotePolicy
from smoothcert.engine.remote.member import Remote, discover
from smoothcert.errors import SmoothcertError
from smoothcert.examination import examine
from smoothcert.noise import Gaussian
from smoothcert.procedures import Fixed
from smoothcert.question import Question
from smoothcert.verification import verify
from tests.service import eventually, free_port
from tests.support.inference import SHAPE, Floats, ServedModel, logits_of, serving_model
from tests.support.walkthrough import left_to
from workers.errors import ReplayError
from workers.replay import replay
from workers.settings import WorkerSettings

QUICK = RemotePolicy(frozenset({"127.0.0.1"}), timeout_s=0.5, patience_s=0.0)
PATIENT = replace(QUICK, timeout_s=10, patience_s=60)
ADDITION = Addition(classes=("dark", "light"), input_shape=SHAPE, noise=Gaussian(0.25))
QUESTION = Question(Gaussian(0.25), Fixed(n=300, n0=20), radius=None, alpha=0.001)


@pytest.fixture
def model() -> Iterator[ServedModel]:
    with serving_model() as running:
        yield running


def found(model: ServedModel, policy: RemotePolicy = QUICK, **fields: Any) -> Endpoint:
    return discover(model.url, classes=2, input_shape=SHAPE, policy=policy, **fields)


def remote(model: ServedModel, policy: RemotePolicy = QUICK, **fields: Any) -> Remote:
    return Remote(found(model, policy, **fields), classes=2, policy=policy)


def images(n: int = 40) -> torch.Tensor:
    return torch.rand(n, *SHAPE, generator=torch.Generator().manual_seed(n))


def expected(batch: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(logits_of(batch.numpy()))


# --- batches


@pytest.mark.parametrize(("n", "rows"), [(1, 64), (40, 64), (64, 16), (65, 16), (3, 1)])
def test_every_row_gets_its_own_logits_however_a_batch_is_split(model: ServedModel, n: int, rows: int) -> None:
    network = remote(model, rows=rows)
    model.batches.clear()
    torch.testing.assert_close(network(images(n)), expected(images(n)))
    requests = -(-(n + 1) // rows)  # one row more for the test image
    assert len(model.batches) == requests
    assert set(model.batches) == {-(-(n + 1) // requests)}


def test_a_model_that_fixes_the_number_of_images_gets_exactly_so_many() -> None:
    with serving_model(rows=16) as model:
        torch.testing.assert_close(remote(model)(images(20)), expected(images(20)))
        assert set(model.batches) == {16}


def test_numbers_in_the_json_of_an_answer_are_read_too_and_half_precision_is_sent() -> None:
    with serving_model(binary=False, datatype="FP16") as model:
        torch.testing.assert_close(remote(model)(images()), expected(images()), rtol=0, atol=0.01)


def test_no_more_requests_are_under_way_than_the_operator_allows(model: ServedModel) -> None:
    network = remote(model, replace(PATIENT, connections=3), rows=1)
    model.together = 0
    barrier = threading.Barrier(3, timeout=30)

    def meet(batch: np.ndarray[Any, Any]) -> Any:
        barrier.wait()
        return logits_of(batch)

    model.answer = meet
    torch.testing.assert_close(network(images(5)), expected(images(5)))
    assert model.together == 3


def test_a_copy_asks_by_connections_of_its_own(model: ServedModel) -> None:
    network = remote(model)
    twin = copy.deepcopy(network)
    network.close()
    torch.testing.assert_close(twin(images()), expected(images()))


# --- retries


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_endpoint_is_asked_again_and_no_sample_is_dropped(model: ServedModel, status: int) -> None:
    network = remote(model, PATIENT, rows=8)
    model.statuses = [(status, {})] * 3
    torch.testing.assert_close(network(images()), expected(images()))


def test_a_retry_comes_when_the_endpoint_wants_it(model: ServedModel) -> None:
    network = remote(model, PATIENT)
    model.statuses = [(503, {"Retry-After": "1"})]
    begun = time.monotonic()
    network(images())
    assert time.monotonic() - begun >= 1


def test_an_endpoint_that_is_away_for_a_while_costs_time_and_no_sample() -> None:
    def come_back() -> None:
        time.sleep(0.5)
        with serving_model(port=port):
            done.wait(60)

    done = threading.Event()
    with serving_model() as first:
        network, port = remote(first, PATIENT, rows=8), first.port
    thread = threading.Thread(target=come_back)
    thread.start()
    try:
        torch.testing.assert_close(network(images()), expected(images()))
    finally:
        done.set()
        thread.join()


def test_having_given_up_once_it_gives_up_at_the_next_failure(model: ServedModel) -> None:
    network = remote(model, replace(QUICK, patience_s=0.3))
    model.statuses = [(503, {})] * 100
    with pytest.raises(RemoteError, match=r"has been away for \d+ s: 127.0.0.1:\d+ answers 503: .*not now"):
        network(images())
    left = len(model.statuses)
    with pytest.raises(RemoteError, match="503"):
        network(images())
    assert left - len(model.statuses) == 1
    model.statuses.clear()
    torch.testing.assert_close(network(images()), expected(images()))


def test_closing_ends_the_waiting(model: ServedModel) -> None:
    network = remote(model, PATIENT)
    model.statuses = [(503, {"Retry-After": "30"})] * 10
    threading.Timer(0.3, network.close).start()
    with pytest.raises(RemoteError, match="503"):
        network(images())


# --- endpoints that are not fit


def slow(model: ServedModel) -> None:
    model.pause_s = 0.05  # every byte comes within the time limit, but the response as a whole does not


def shorter(body: bytes, headers: dict[str, str]) -> bytes:
    return body[:-4]


def fewer_rows(batch: Any) -> Any:
    return logits_of(batch)[:-1]


def more_classes(batch: Any) -> Any:
    return np.concatenate([logits_of(batch)] * 2, 1)


def moody() -> Any:
    draws = np.random.default_rng(0)
    return lambda batch: logits_of(batch) + draws.normal(size=(1, 2)).astype(np.float32)


BAD = {
    "slow": (slow, r"has not answered within 0.5 s"),
    "fewer rows": (lambda model: setattr(model, "answer", fewer_rows), r"logits have the shape \[1, 2\], not \[2, 2\]"),
    "more classes": (lambda model: setattr(model, "answer", more_classes), r"shape \[2, 4\], not \[2, 2\]"),
    "not finite": (lambda model: setattr(model, "answer", lambda x: logits_of(x) * np.inf), "not finite"),
    "changing": (lambda model: setattr(model, "answer", moody()), r"has changed, .* off by"),
    "cut": (lambda model: setattr(model, "spoil", shorter), r"the logits have 12 bytes, not 16"),
    "not JSON": (lambda model: setattr(model, "spoil", lambda *_: b"<html>"), r"answer has 6 bytes, and its header"),
    "empty": (lambda model: setattr(model, "spoil", lambda *_: b""), r"answer has 0 bytes"),
    "another request": (
        lambda model: setattr(model, "spoil", lambda body, _: body.replace(b'"id": "', b'"id": "x', 1)[:-1]),
        r"the answer is (to the request|not JSON)",
    ),
    "refusing": (lambda model: model.statuses.append((400, {})), r"answers 400: .*not now"),
    "elsewhere": (lambda model: model.statuses.append((302, {"Location": "http://127.0.0.1:1/"})), r"answers 302"),
    "two inputs": (
        lambda model: setattr(model, "inputs", model.metadata()["inputs"] * 2), r"has 2 inputs .*must have one"
    ),
    "another shape": (
        lambda model: setattr(model, "inputs", [{"name": "x", "datatype": "FP32", "shape": [-1, 3, 9, 9]}]),
        r"takes x FP32 \[-1, 3, 9, 9\], and the images are \[N, 3, 8, 8\]",
    ),
    "integers": (
        lambda model: setattr(model, "inputs", [{"name": "x", "datatype": "INT8", "shape": [-1, 3, 8, 8]}]),
        r"it must take 1 or more images of a datatype among FP16, FP32, FP64",
    ),
    "no logits": (
        lambda model: setattr(model, "outputs", [{"name": "x", "datatype": "FP32", "shape": [-1, 5]}]),
        r"outputs x FP32 \[-1, 5\], of which one must have the shape \[N, 2\]",
    ),
    "strange metadata": (lambda model: setattr(model, "inputs", [{"shape": "?"}]), "cannot be understood: KeyError"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_an_endpoint_that_is_not_fit_gets_a_sentence_and_nothing_is_half_added(
    model: ServedModel, case: str, tmp_path: Path
) -> None:
    spoil, sentence = BAD[case]
    spoil(model)
    with pytest.raises(SmoothcertError, match=sentence) as raised:
        add("bright", [], ADDITION, zoo=tmp_path, endpoints=[model.url], remote=QUICK)
    assert model.url in str(raised.value)
    assert not any(tmp_path.iterdir())


def test_an_endpoint_that_mixes_its_rows_is_no_member(model: ServedModel, tmp_path: Path) -> None:
    model.answer = lambda batch: logits_of(batch) + batch[:-1].mean() * (len(batch) > 2)  # not seen in two rows
    with pytest.raises(MemberError, match="depends on more than its image"):
        add("bright", [], ADDITION, zoo=tmp_path, endpoints=[model.url], remote=QUICK)
    assert not any(tmp_path.iterdir())


def test_nobody_there_is_a_sentence(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}/v2/models/brightness"
    with pytest.raises(RemoteError, match=r"cannot be reached: ConnectionRefusedError"):
        add("bright", [], ADDITION, zoo=tmp_path, endpoints=[url], remote=QUICK)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1/v2/models/x",
        "http://127.0.0.1/models/x",
        "http://127.0.0.1/v2/models/",
        "http://127.0.0.1/v2/models/x/versions/1/infer",
        "http://me:secret@127.0.0.1/v2/models/x",
        "http://127.0.0.1/v2/models/x?y=1",
        "http://127.0.0.1/v2/models/../../admin",
        "http://127.0.0.1:99999/v2/models/x",
        "http://[::1/v2/models/x",
        "127.0.0.1:80/v2/models/x",
        "http:///v2/models/x",
        "http://127.0.0.1/v2/models/x\r\nHost: y",
        "",
    ],
)
def test_what_is_not_the_url_of_a_model_is_refused(url: str) -> None:
    with pytest.raises(RemoteError, match=r"is not (a|the) URL"):
        ModelAddress.of(url)


def test_a_url_has_its_parts() -> None:
    address = ModelAddress.of("https://models.example/serving/v2/models/resnet/versions/3/")
    assert (address.place, address.base, address.model, address.version) == (
        "models.example:443", "/serving", "resnet", "3"
    )  # fmt: skip
    assert ModelAddress.of("http://[::1]:8000/v2/models/x").place == "[::1]:8000"


@pytest.mark.parametrize(
    ("hosts", "allowed"), [(["127.0.0.1"], True), (["127.0.0.1:8000"], True), (["127.0.0.1:80"], False), ([], False)]
)
def test_only_hosts_that_the_operator_allows_are_asked(hosts: list[str], allowed: bool) -> None:
    policy = RemotePolicy(frozenset(hosts))
    if allowed:
        policy.require(ModelAddress.of("http://127.0.0.1:8000/v2/models/x"))
    else:
        with pytest.raises(RemoteError, match=r"127.0.0.1:8000 is not among the hosts .*SMOOTHCERT_REMOTE_HOSTS"):
            policy.require(ModelAddress.of("http://127.0.0.1:8000/v2/models/x"))


# --- ensembles and certificates


@pytest.fixture
def zoo(model: ServedModel, tmp_path: Path) -> Path:
    add("bright", [], ADDITION, zoo=tmp_path, endpoints=[model.url], remote=PATIENT)
    return tmp_path


def certified(zoo: Path, policy: RemotePolicy = QUICK) -> Certificate:
    ensemble = load("bright", zoo=zoo, batch=64, remote=policy)
    with Engine(ensemble, batch=64) as engine:
        (certificate,) = certify(engine, [torch.full(SHAPE, 0.8)], QUESTION, seed="ab" * 16)
    return certificate


def test_a_certificate_is_the_one_of_the_same_network_here(zoo: Path) -> None:
    class Here(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            excess = 9 * (x.mean((1, 2, 3)) - 0.5)
            return torch.stack([-excess, excess], 1)

    from smoothcert.engine.ensemble import assemble

    there = certified(zoo)
    with Engine(assemble([Here()], classes=("dark", "light"), input_shape=SHAPE), batch=64) as engine:
        (here,) = certify(engine, [torch.full(SHAPE, 0.8)], QUESTION, seed="ab" * 16)
    assert (there.decision, there.class_name, there.samples) == ("certified", "light", 320)
    assert here.decision == "certified"
    assert here.provenance is not None
    assert here.provenance.ensemble.remote is None
    assert not here.remarks


def test_a_certificate_says_that_its_member_is_not_pinned_and_cannot_be_replayed(zoo: Path) -> None:
    certificate = certified(zoo)
    assert certificate.provenance is not None
    record = RemoteRecord(member=0, model="brightness", version=None, platform="by-hand", server="test-server 1")
    assert certificate.provenance.ensemble.remote == (record,)
    assert verify(certificate)
    (note,) = examine(certificate.to_json().encode()).notes
    for words in ("model brightness of by-hand, test-server 1", "not pinned", "cannot be replayed"):
        assert words in note
    assert "not pinned" in certificate._repr_html_()
    assert Certificate.from_json(certificate.to_json()) == certificate
    with pytest.raises(ReplayError, match="not pinned"):
        replay(certificate, torch.full(SHAPE, 0.8), zoo=zoo)


@pytest.mark.parametrize("places", [(), (1,), (0, 0)])
def test_remote_members_that_are_not_there_are_noticed(zoo: Path, places: tuple[int, ...]) -> None:
    certificate = certified(zoo)
    fields = certificate.model_dump()
    (record,) = fields["provenance"]["ensemble"]["remote"]
    fields["provenance"]["ensemble"]["remote"] = [{**record, "member": place} for place in places]
    changed = Certificate.model_validate(fields)
    problems = verify(changed.model_copy(update={"digest": changed.expected_digest()})).problems
    assert [each.field for each in problems] == ["provenance.ensemble.remote"]


def test_an_endpoint_that_serves_another_model_later_is_refused(model: ServedModel, zoo: Path) -> None:
    model.answer = lambda batch: 2 * logits_of(batch)
    with pytest.raises(MemberError, match=r"bright.*has changed, .* the test image has logits that are off by"):
        load("bright", zoo=zoo, remote=QUICK)


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("slow", "has not answered within 0.5 s"),
        ("fewer rows", "the logits have the shape"),
        ("more classes", "the logits have the shape"),
        ("not finite", "not finite"),
        ("changing", "has changed"),
        ("cut", r"the logits have \d+ bytes, not"),
        ("refusing", "answers 400"),
    ],
)
def test_an_endpoint_that_turns_bad_in_the_middle_ends_the_certification_without_a_certificate(
    model: ServedModel, zoo: Path, case: str, sentence: str
) -> None:
    """It is good when it is loaded and for two more requests; what it says afterwards is never a vote."""
    ensemble = load("bright", zoo=zoo, batch=64, remote=QUICK)
    before = len(model.batches)

    def turning(batch: Floats) -> Floats:
        if len(model.batches) > before + 2:
            BAD[case][0](model)
        return logits_of(batch) if model.answer is turning else model.answer(batch)

    model.answer = turning
    with Engine(ensemble, batch=64) as engine, pytest.raises(RemoteError, match=sentence):
        certify(engine, [torch.full(SHAPE, 0.8)], QUESTION)


def test_a_worker_that_does_not_allow_the_host_does_not_load_the_ensemble(zoo: Path) -> None:
    with pytest.raises(RemoteError, match="not among the hosts"):
        load("bright", zoo=zoo)


def test_a_damaged_file_of_an_endpoint_is_a_sentence() -> None:
    for data in (b"", b"{}", b'{"url": "http://x/v2/models/y", "input": "a", "output": "b", "rows": 0}'):
        with pytest.raises(RemoteError, match="not the description of an endpoint"):
            Endpoint.read(data)


def test_the_command_adds_two_endpoints_and_says_what_that_means(
    model: ServedModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--classes", "dark,light", "--input-shape", "3,8,8", "--sigma", "0.25", "--zoo", str(tmp_path)]
    with pytest.raises(SystemExit):
        run(["add", "bright", *arguments])
    assert "--remote" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="not among the hosts"):
        run(["add", "bright", "--remote", model.url, *arguments])
    with pytest.raises(SystemExit) as end:
        run(["add", "bright", "--remote", model.url, "--allow-host", "127.0.0.1", *arguments])
    assert not end.value.code
    assert "not pinned" in capsys.readouterr().out


def test_the_recipe_of_the_documentation_works(
    model: ServedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = left_to(__file__)
    setting, command = (
        typed.replace("models.internal:8000", f"127.0.0.1:{model.port}").split() for typed in block.commands
    )
    assert (setting[0], command[:3]) == ("export", ["python", "-m", "models"])
    monkeypatch.setenv(*setting[1].split("="))
    with pytest.raises(SystemExit) as end:
        run([*command[3:], "--zoo", str(tmp_path)])
    assert not end.value.code
    assert (tmp_path / "bright" / "brightness.json").exists()


KSERVE = os.environ.get("SMOOTHCERT_KSERVE_PYTHON", "")


@pytest.mark.skipif(not KSERVE, reason="SMOOTHCERT_KSERVE_PYTHON names no interpreter that has kserve")
def test_kserve_serves_a_member(tmp_path: Path) -> None:
    port = free_port()
    process = subprocess.Popen(
        [KSERVE, "tests/support/kserve_server.py", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}/v2/models/brightness"
    try:

        def reached() -> bool:
            try:
                discover(url, classes=2, input_shape=SHAPE, policy=QUICK)
            except RemoteError:
                return False
            return True

        eventually(reached, "KServe")
        add("bright", [], ADDITION, zoo=tmp_path, endpoints=[url], remote=PATIENT)
        certificate = certified(tmp_path, PATIENT)
    finally:
        process.kill()
        process.wait()
    assert certificate.class_name == "light"
    assert "kserve" in certificate.remarks[0]


def test_a_try_must_end_before_the_watchdog_takes_it_for_hanging() -> None:
    assert WorkerSettings(watchdog_s=2).remote.hosts == frozenset()  # without endpoints it does not matter
    with pytest.raises(ValidationError, match="remote_timeout_s is 30, and must be less than watchdog_s, 2"):
        WorkerSettings(watchdog_s=2, remote_hosts="a,b:80")
    assert WorkerSettings(remote_hosts="a, b:80").remote.hosts == {"a", "b:80"}
