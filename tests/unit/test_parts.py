"""A run that goes on on another kind of machine keeps its counts, takes fresh noise if it must, and says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from smoothcert.certificate import Certificate
from smoothcert.counts import SampleCounts
from smoothcert.engine import arithmetic as machine
from smoothcert.engine.case import start
from smoothcert.engine.checkpoint import Checkpoint, Machine, Part
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble
from smoothcert.engine.run import Run, Sampled
from smoothcert.engine.sampling import NoisyImage
from smoothcert.noise import Gaussian, GaussianLinf, Noise, Replacement, RoundedGaussian, Uniform
from smoothcert.procedures import Fixed
from smoothcert.question import Question
from smoothcert.verification import verify
from tests.support import engines
from tests.support.engines import SHAPE, draws

NOISES = [Gaussian(0.25), GaussianLinf(0.25, 48), RoundedGaussian(0.25), Uniform(0.5), Replacement(0.8, 2)]
SIZES = (70, 33, 50)
FLOAT = Gaussian(0.25)
BYTES = torch.arange(48, dtype=torch.uint8).reshape(SHAPE) * 5


@pytest.fixture(scope="module")
def ensemble() -> Ensemble:
    return engines.ensemble(2, consensus=1)


def become(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("smoothcert.engine.ensemble.arithmetic", lambda device: {"torch": "2.13.0", "cpu": kind})


def recorded(
    engine: Engine, noise: Noise, monkeypatch: pytest.MonkeyPatch, resume: Checkpoint | None = None
) -> tuple[Sampled, list[Checkpoint]]:
    """The end of a run, and every checkpoint on its way."""
    taken: list[Checkpoint] = []
    publish = Run._publish

    def recording(run: Run) -> None:
        publish(run)
        assert run.handle.checkpoint is not None
        taken.append(run.handle.checkpoint)

    with monkeypatch.context() as patched:
        patched.setattr(Run, "_publish", recording)
        end = engine.submit(draws(*SIZES), BYTES, noise, "s", resume=resume).result(30)
    return end, taken


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_an_interruption_at_any_step_changes_no_count(
    ensemble: Ensemble, noise: Noise, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine(ensemble, batch=32) as engine:
        whole, taken = recorded(engine, noise, monkeypatch)
        assert len(taken) > 5
        for each in taken:
            restored = Checkpoint.from_json(each.rest_json(), {n: each.draw_json(n) for n in range(len(each.draws))})
            assert engine.submit(draws(*SIZES), BYTES, noise, "s", resume=restored).result(30) == whole


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_another_kind_of_machine_goes_on_from_the_counts(
    ensemble: Ensemble, noise: Noise, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Portable noise is continued; torch's noise is drawn afresh, and the parts say from which sample on."""
    with Engine(ensemble, batch=32) as engine:
        whole, taken = recorded(engine, noise, monkeypatch)
        middle = next(each for each in taken if 70 < each.samples < 103)
        become(monkeypatch, "another kind")
        resumed = engine.submit(draws(*SIZES), BYTES, noise, "s", resume=middle).result(30)
        streams = tuple((part.start, part.stream) for part in resumed.parts)
        repeated = engine.submit(draws(*SIZES), BYTES, noise, "s", streams=streams).result(30)
    assert resumed.verdict[0] == whole.verdict[0]  # type: ignore[index]
    assert [part.start for part in resumed.parts] == [0, middle.samples]
    assert [part.machine.arithmetic["cpu"] for part in resumed.parts][-1] == "another kind"
    assert streams[-1][1] == (0 if noise.portable else 1)
    assert (resumed.verdict == whole.verdict) == noise.portable
    assert repeated.verdict == resumed.verdict


def test_a_part_without_samples_is_left_out_and_a_third_machine_keeps_the_streams(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = Gaussian(0.25)
    with Engine(ensemble, batch=32) as engine:
        _, taken = recorded(engine, noise, monkeypatch)
        become(monkeypatch, "second")
        second_end, second = recorded(engine, noise, monkeypatch, taken[3])
        unused = next(each for each in second if each.samples == taken[3].samples)
        become(monkeypatch, "third")
        third = engine.submit(draws(*SIZES), BYTES, noise, "s", resume=unused).result(30)
        assert [part.machine.arithmetic["cpu"] for part in third.parts][1:] == ["third"]
        used = next(each for each in second if each.samples > taken[3].samples)
        end = engine.submit(draws(*SIZES), BYTES, noise, "s", resume=used).result(30)
        assert [part.stream for part in end.parts] == [0, 1, 2]
        become(monkeypatch, "second")  # the first machine comes back and goes on in its own stream
        back = engine.submit(draws(*SIZES), BYTES, noise, "s", resume=used)
        assert [part.stream for part in back.result(30).parts] == [0, 1]
        assert back.result(30).verdict == second_end.verdict


def test_streams_are_independent_and_meet_at_any_sample() -> None:
    pixels = torch.zeros(SHAPE)
    one, two = (torch.empty(100, *SHAPE) for _ in range(2))
    NoisyImage(Gaussian(1.0), pixels, "s", 0).sample(one, 0)
    NoisyImage(Gaussian(1.0), pixels, "s", 0, ((0, 0), (45, 1))).sample(two, 0)
    assert torch.equal(one[:45], two[:45])
    assert not (one[45:] == two[45:]).flatten(1).all(1).any()
    for first in (0, 17, 44, 45, 46, 64):
        piece = torch.empty(20, *SHAPE)
        NoisyImage(Gaussian(1.0), pixels, "s", 0, ((0, 0), (45, 1))).sample(piece, first)
        assert torch.equal(piece, two[first : first + 20])


# --- the certificate


def interrupted(ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch, noise: Noise = FLOAT) -> Certificate:
    question = Question(noise, Fixed(n0=32, n=100))
    with Engine(ensemble, batch=32) as engine:
        first = start(engine, BYTES, question, seed="seed")
        first.result(30)
        assert first.handle.checkpoint is not None
        half = _half(first.handle.checkpoint)
        become(monkeypatch, "another kind")
        return start(engine, BYTES, question, seed="seed", resume=half).result(30)


def _half(ended: Checkpoint) -> Checkpoint:
    """The checkpoint after the selection."""
    shape = replace(ended.shapes[0], stop=32)
    return replace(ended, draws=ended.draws[:1], partial=SampleCounts(), evaluations=32, shapes=(shape,))


def test_a_certificate_records_its_parts_and_verifies(ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = interrupted(ensemble, monkeypatch)
    assert verify(certificate).problems == ()
    assert Certificate.from_json(certificate.to_json()) == certificate
    parts = certificate.provenance and certificate.provenance.sampling.parts
    assert parts
    assert [(part.start, part.stop, part.stream) for part in parts] == [(0, 32, 0), (32, 132, 1)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": 33}, "without gap or overlap"),
        ({"stop": 131}, "without gap or overlap"),
        ({"start": 32, "stop": 32}, "without gap or overlap"),
        ({"stream": 2}, "have the streams [0, 2], with gaussian noise they are [0, 1]"),
        ({"stream": 0}, "have the streams [0, 0]"),
        ({"device": "cuda"}, "another device"),
    ],
)
def test_parts_that_do_not_fit_are_found(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], message: str
) -> None:
    certificate = interrupted(ensemble, monkeypatch)
    provenance = certificate.provenance
    assert provenance is not None
    assert provenance.sampling.parts is not None
    first, last = provenance.sampling.parts
    sampling = provenance.sampling.model_copy(update={"parts": (first, last.model_copy(update=change))})
    changed = certificate.model_copy(update={"provenance": provenance.model_copy(update={"sampling": sampling})})
    signed = changed.model_copy(update={"digest": changed.expected_digest()})
    assert any(message in problem.message for problem in verify(signed).problems)


def test_an_exact_noise_has_one_stream_and_parts_differ_in_their_machine(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a service could choose among streams, and each of them would verify."""
    certificate = interrupted(ensemble, monkeypatch, RoundedGaussian(0.25))
    assert verify(certificate).problems == ()
    provenance = certificate.provenance
    assert provenance is not None
    assert provenance.sampling.parts is not None
    first, last = provenance.sampling.parts
    assert (first.stream, last.stream) == (0, 0)
    for change, message in (({"stream": 1}, "[0, 1]"), ({"versions": first.versions}, "the same kind of machine")):
        sampling = provenance.sampling.model_copy(update={"parts": (first, last.model_copy(update=change))})
        changed = certificate.model_copy(update={"provenance": provenance.model_copy(update={"sampling": sampling})})
        signed = changed.model_copy(update={"digest": changed.expected_digest()})
        assert any(message in problem.message for problem in verify(signed).problems)


def test_the_image_of_the_noise_is_the_index_of_the_certificate(ensemble: Ensemble) -> None:
    """Otherwise one seed would have many streams to choose from."""
    question = Question(Gaussian(0.25), Fixed(n=100))
    with Engine(ensemble, batch=32) as engine:
        certificate = start(engine, BYTES, question, seed="seed", index=3).result(30)
    changed = certificate.model_copy(update={"index": 0})
    signed = changed.model_copy(update={"digest": changed.expected_digest()})
    assert [problem.field for problem in verify(signed).problems] == ["provenance.sampling.image"]


def test_a_machine_that_counted_nothing_leaves_no_trace(ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    question = Question(Gaussian(0.25), Fixed(n0=32, n=100))
    with Engine(ensemble, batch=32) as engine:
        first = start(engine, BYTES, question, seed="seed")
        whole = first.result(30)
        assert first.handle.checkpoint is not None
        half = _half(first.handle.checkpoint)
        become(monkeypatch, "second")
        idle = replace(half, parts=(*half.parts, Part(32, 1, Machine("cpu", "float32", {"cpu": "second"}))))
        become(monkeypatch, "third")
        third = start(engine, BYTES, question, seed="seed", resume=idle).result(30)
        assert verify(third).problems == ()
        monkeypatch.undo()
        back = start(engine, BYTES, question, seed="seed", resume=idle).result(30)
    assert (back.selection, back.stages) == (whole.selection, whole.stages)
    assert back.provenance is not None
    assert back.provenance.sampling.parts is None


def test_a_run_that_ends_where_it_is_resumed_names_the_machine_of_its_samples(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = Question(Gaussian(0.25), Fixed(n0=32, n=100))
    with Engine(ensemble, batch=32) as engine:
        first = start(engine, BYTES, question, seed="seed")
        whole = first.result(30)
        become(monkeypatch, "another kind")
        again = start(engine, BYTES, question, seed="seed", resume=first.handle.checkpoint).result(30)
    assert whole.provenance is not None
    assert again.provenance is not None
    assert again.provenance.versions == whole.provenance.versions


def test_a_certificate_of_one_machine_has_no_parts_and_no_nonce(ensemble: Ensemble) -> None:
    with Engine(ensemble, batch=32) as engine:
        certificate = start(engine, BYTES, Question(Gaussian(0.25), Fixed(n=100)), seed="seed").result(30)
    text = certificate.to_json()
    assert '"parts"' not in text
    assert '"nonce"' not in text


# --- the arithmetic of a device that is not here


def test_a_gpu_is_named_with_its_arithmetic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    before = (
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
    )
    try:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        loose = machine.arithmetic(torch.device("cuda"))
        machine.settle(torch.device("cuda"))
        settled = machine.arithmetic(torch.device("cuda"))
    finally:
        (
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.cudnn.allow_tf32,
            torch.backends.cudnn.deterministic,
            torch.backends.cudnn.benchmark,
        ) = before
    assert (loose["tf32"], loose["deterministic"]) == ("on", "off")
    assert (settled["gpu"], settled["capability"]) == ("a GPU", "8.0")
    assert (settled["tf32"], settled["deterministic"]) == ("off", "on")
