"""The engine: counts that do not depend on packing, order, interruption or resume; consensus; faults."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from smoothcert.counts import SampleCounts
from smoothcert.engine.checkpoint import Checkpoint
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.errors import CheckpointError, ClosedError, PixelsError, RunCanceledError, StreamError
from smoothcert.engine.line import Line
from smoothcert.engine.pixels import Pixels
from smoothcert.engine.run import Run, Sampled
from smoothcert.engine.sampling import NoisyImage
from smoothcert.engine.usage import HALF_LIFE_S, Usage
from smoothcert.engine.waiting import PATIENCE
from smoothcert.errors import DomainError
from smoothcert.noise import Gaussian, GaussianLinf
from smoothcert.procedures import certify, certify_sequential
from tests.support.engines import DEVICE, NOISE, SHAPE, counts_by_hand, draws, endless, ensemble, images, until


@pytest.fixture(scope="module")
def three() -> Ensemble:
    return ensemble(3, consensus=2)


SIZES = [100, 32, 64, 7, 500, 1]


@pytest.mark.parametrize("consensus", [None, 1, 2, 3])
def test_counts_are_those_of_the_definition(three: Ensemble, consensus: int | None) -> None:
    view = three.with_(consensus=consensus)
    with Engine(view, batch=32) as engine:
        sampled = engine.submit(draws(*SIZES), images(1)[0], NOISE, "s", index=4).result(30)
    assert sampled.verdict == counts_by_hand(view, images(1)[0], "s", 4, SIZES)


def test_evaluations_are_what_consensus_leaves(three: Ensemble) -> None:
    total = sum(SIZES)
    noisy = torch.empty(total, *SHAPE, device=three.device)
    NoisyImage(NOISE, images(1)[0].to(three.device), "s", 0).sample(noisy, 0)
    with Engine(three, batch=32) as engine:
        found = engine.submit(draws(*SIZES), images(1)[0], NOISE, "s").result(30).evaluations
    assert found == three.classify(noisy).evaluations
    assert 2 * total < found < 3 * total


@pytest.mark.parametrize("batch", [32, 48, 256])
@pytest.mark.parametrize("order", [1, -1])
def test_packing_and_order_do_not_change_a_count(three: Ensemble, batch: int, order: int) -> None:
    """The image runs alone, or among twenty others that arrive before or after, in batches of any size of one slice."""
    pictures = images(20)
    alone = [counts_by_hand(three, picture, "s", i, SIZES) for i, picture in enumerate(pictures)]
    with Engine(three, batch=batch) as engine:
        jobs = list(enumerate(pictures))[::order]
        handles = {i: engine.submit(draws(*SIZES), picture, NOISE, "s", index=i) for i, picture in jobs}
        assert [handles[i].result(60).verdict for i in range(20)] == alone


def test_an_interruption_at_any_step_changes_nothing(three: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints: list[Checkpoint] = []
    publish = Run._publish

    def recording(run: Run) -> None:
        publish(run)
        assert run.handle.checkpoint is not None
        checkpoints.append(run.handle.checkpoint)

    monkeypatch.setattr(Run, "_publish", recording)

    with Engine(three, batch=32) as engine:
        whole = engine.submit(draws(*SIZES), images(3)[2], NOISE, "s", index=2).result(30)
        taken = list(checkpoints)
        assert len(taken) > 10
        for checkpoint in taken:
            again = engine.submit(draws(*SIZES), images(3)[2], NOISE, "s", index=2, resume=checkpoint).result(30)
            assert again == whole


def test_a_checkpoint_of_another_certification_is_refused(three: Ensemble) -> None:
    """Another image, noise, seed, index, vote or K must not mix its counts with these."""
    image, other = images(2)
    with Engine(three, batch=32) as engine:
        handle = engine.submit(draws(100, 50), image, NOISE, "s")
        handle.result(30)
        checkpoint = handle.checkpoint
        assert checkpoint is not None
        for different in (
            {"image": other},
            {"noise": Gaussian(0.5)},
            {"noise": GaussianLinf(NOISE.sigma, math.prod(image.shape))},  # the same samples, and another claim
            {"seed": "other"},
            {"index": 1},
            {"ensemble": three.with_(consensus=None)},
            {"ensemble": three.with_(voting="hard")},
        ):
            arguments = {"image": image, "noise": NOISE, "seed": "s", **different}
            with pytest.raises(CheckpointError, match="another certification"):
                engine.submit(draws(100, 50), resume=checkpoint, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"draws": (SampleCounts(((7, 100),)),)},
        {"draws": (SampleCounts(((4, 100),)),)},
        {"draws": (SampleCounts.of((20, 20, 20, 20, 19)),)},
        {"draws": (SampleCounts(((0, 120), (1, -20))),)},
        {"draws": (SampleCounts(((0, 100),)),) * 3},
        {"draws": (), "partial": SampleCounts(((0, 100),))},
    ],
)
def test_a_checkpoint_with_impossible_counts_is_refused(three: Ensemble, change: dict[str, object]) -> None:
    with Engine(three, batch=32) as engine:
        handle = engine.submit(draws(100), images(1)[0], NOISE, "s")
        handle.result(30)
        assert handle.checkpoint is not None
        with pytest.raises(CheckpointError):
            engine.submit(draws(100), images(1)[0], NOISE, "s", resume=replace(handle.checkpoint, **change))  # type: ignore[arg-type]


def test_views_with_other_votes_share_an_engine(three: Ensemble) -> None:
    views = [
        three,
        three.with_(consensus=None),
        three.with_(voting="hard", consensus=None),
        three.with_(consensus=None).first_k(1),
    ]
    picture = images(1)[0]
    with Engine(three, batch=32) as engine:
        handles = [engine.submit(draws(*SIZES), picture, NOISE, "s", ensemble=view) for view in views]
        for view, handle in zip(views, handles, strict=True):
            assert handle.result(30).verdict == counts_by_hand(view, picture, "s", 0, SIZES)


def test_progress_is_told_batch_by_batch(three: Ensemble) -> None:
    with Engine(three, batch=32) as engine:
        handle = engine.submit(draws(100, 200), images(1)[0], NOISE, "s")
        handle.result(30)
    assert handle.progress.draws == 2
    assert handle.progress.samples == 300
    assert handle.checkpoint is not None
    assert [counts.total for counts in handle.checkpoint.draws] == [100, 200]


def test_batches_are_full_while_there_is_enough_to_do(three: Ensemble) -> None:
    with Engine(three, batch=32) as engine:
        for handle in [engine.submit(draws(320), image, NOISE, "s") for image in images(4)]:
            handle.result(30)
        assert engine.workload.rows == 4 * 320
        assert engine.workload.fill > 0.9


def test_cancel_ends_one_certification_and_no_other(three: Ensemble) -> None:
    with Engine(three, batch=32) as engine:
        handle, other = (engine.submit(endless(), image, NOISE, "s") for image in images(2))
        until(lambda: handle.progress.samples > 0)
        handle.cancel()
        with pytest.raises(RunCanceledError):
            handle.result(30)
        ended_at = handle.progress.samples
        before = other.progress.samples
        until(lambda: other.progress.samples > before + 320)
        assert handle.progress.samples == ended_at, "a canceled certification draws no more"
        assert not other.future.done()


def test_a_future_cannot_be_canceled_behind_the_engine_s_back(three: Ensemble) -> None:
    with Engine(three, batch=32) as engine:
        handle = engine.submit(draws(500), images(1)[0], NOISE, "s")
        assert handle.future.cancel() is False
        assert handle.result(30).verdict


def test_the_result_comes_after_the_progress_that_led_to_it(three: Ensemble) -> None:
    seen: list[int] = []
    with Engine(three, batch=32) as engine:
        handle = engine.submit(draws(100, 60), images(1)[0], NOISE, "s")
        handle.future.add_done_callback(lambda _: seen.append(handle.progress.samples))
        handle.result(30)
    assert seen == [160]


def test_a_small_certification_does_not_wait_for_a_large_one(three: Ensemble) -> None:
    """Mutant killed: serving the first run until it is done."""
    with Engine(three, batch=32) as engine:
        large = engine.submit(endless(), images(2)[0], NOISE, "s")
        until(lambda: large.progress.samples > 0)
        small = engine.submit(draws(64, 64), images(2)[1], NOISE, "s")
        before = large.progress.samples
        small.result(30)
        assert large.progress.samples - before < 64 * 32
        large.cancel()


def test_parties_get_equal_parts_of_the_batches(three: Ensemble) -> None:
    """Mutant killed: one line for all runs, in which a party with many runs gets the most."""
    with Engine(three, batch=32) as engine:
        flood = [
            engine.submit(endless(), each, NOISE, "s", party=("flood", str(i))) for i, each in enumerate(images(16))
        ]
        until(lambda: all(each.progress.samples for each in flood))
        before = sum(each.progress.samples for each in flood)
        engine.submit(draws(*20 * [32]), images(1)[0], NOISE, "s", party=("other", "0")).result(30)
        assert sum(each.progress.samples for each in flood) - before < 4 * 20 * 32
        for each in flood:
            each.cancel()


def test_an_owner_who_asks_for_little_does_not_wait_for_a_flood(three: Ensemble) -> None:
    """Mutant killed: owners take turns, so that one beside a flood takes twice as long as alone."""
    with Engine(three.with_(voting="soft", consensus=None), batch=32) as engine:
        engine.submit(draws(32), images(1)[0], NOISE, "s", party=("other",)).result(30)
        flood = [engine.submit(endless(), each, NOISE, "s", party=("flood",)) for each in images(4)]
        until(lambda: sum(each.progress.samples for each in flood) > 600 * 32)
        before = sum(each.progress.samples for each in flood)
        engine.submit(draws(*150 * [32]), images(1)[0], NOISE, "s", party=("other",)).result(30)
        # A device with a queue gets one of the flood's batches while the counts of the other owner's are under way.
        assert sum(each.progress.samples for each in flood) - before < 150 * 32 * (engine._device.depth - 0.5)
        for each in flood:
            each.cancel()


def test_many_views_give_an_owner_no_larger_part(three: Ensemble) -> None:
    """Mutant killed: lanes take turns, whichever owner has many of them."""
    views = [three.with_(voting=voting, consensus=None) for voting in ("hard", "softmax", "soft")]
    with Engine(three, batch=32) as engine:
        flood = [engine.submit(endless(), images(1)[0], NOISE, "s", party=("flood",), ensemble=view) for view in views]
        other = engine.submit(endless(), images(1)[0], NOISE, "s", party=("other",))
        until(lambda: sum(each.progress.samples for each in (*flood, other)) > 400 * 32)
        assert 0.35 < other.progress.samples / sum(each.progress.samples for each in (*flood, other)) < 0.65
        assert min(each.progress.samples for each in flood) > 32 * 32
        for each in (*flood, other):
            each.cancel()


def test_many_owners_who_want_all_get_equal_parts(three: Ensemble) -> None:
    """Mutant killed: an account that was not charged yet follows the largest one, and two owners get all."""
    with Engine(three, batch=32) as engine:
        runs = [engine.submit(endless(), each, NOISE, "s", party=(f"key {i}",)) for i, each in enumerate(images(5))]
        until(lambda: sum(each.progress.samples for each in runs) > 1000 * 32)
        shares = [each.progress.samples for each in runs]
        assert min(shares) > 0.5 * max(shares), shares
        for each in runs:
            each.cancel()


def test_what_an_owner_has_had_is_divided_by_samples_and_fades() -> None:
    now = 100.0
    usage = Usage(clock=lambda: now)
    usage.charge({"a": 3, "b": 1}, 8.0)
    assert (usage.of("a"), usage.of("b")) == (6.0, 2.0)
    now += HALF_LIFE_S
    usage.charge({"b": 5}, 3.0)
    assert (usage.of("a"), usage.of("b")) == (3.0, 4.0)
    now += 100 * HALF_LIFE_S
    usage.charge({}, 1.0)
    assert (usage.of("a"), usage.of("b")) == (0.0, 0.0)


def test_a_flood_that_has_just_begun_does_not_come_first() -> None:
    """Mutant killed: a new owner has nothing on the account, and goes before all who were there."""
    now = 100.0
    usage = Usage(clock=lambda: now)
    usage.charge({"light": 1}, 1.0)
    usage.charge({"heavy": 1}, 3.0)
    assert usage.of("heavy") == usage.of("new") == 4.0
    usage.charge({"new": 1}, 1.0)
    assert usage.of("light") < usage.of("heavy") < usage.of("new") == 5.0


def test_a_flood_that_comes_back_after_a_pause_does_not_come_first() -> None:
    """Mutant killed: an owner who was away has next to nothing on the account, and takes the device from all others."""
    now = 100.0
    usage = Usage(clock=lambda: now)
    usage.charge({"flood": 1}, 4.0)
    for _ in range(60):
        now += 1.0
        usage.charge({"steady": 1}, 0.25)
    assert usage.of("flood") == usage.of("steady") > 1.0


def test_the_owner_who_has_had_least_is_first_in_line(three: Ensemble) -> None:
    parties = [("a", "1"), ("b", "2"), ("b", "3"), ("c", "4")]
    usage = Usage()
    usage.charge({"a": 5, "b": 1, "c": 3}, 1.0)
    line, pixels = Line(usage), Pixels.of(images(1)[0], SHAPE)
    runs = [Run(draws(1), pixels, NOISE, "s", i, three, party=party) for i, party in enumerate(parties)]
    for run in runs:
        line.append(run)
    assert [runs.index(line.popleft()) for _ in parties] == [1, 2, 3, 0]


def test_owners_take_turns_then_their_certifications_then_the_images_of_each(three: Ensemble) -> None:
    parties = [("a", "1"), ("a", "1"), ("a", "2"), ("b", "3")]
    line, pixels = Line(), Pixels.of(images(1)[0], SHAPE)
    runs = [Run(draws(1), pixels, NOISE, "s", i, three, party=party) for i, party in enumerate(parties)]
    for run in runs:
        line.append(run)
    assert [runs.index(line.popleft()) for _ in parties] == [0, 3, 2, 1]
    assert not line


def test_lanes_take_turns(three: Ensemble) -> None:
    """Mutant killed: staying with one lane for as long as it has work."""
    with Engine(three, batch=32) as engine:
        large = engine.submit(endless(), images(1)[0], NOISE, "s")
        other = three.with_(voting="hard", consensus=None)
        assert engine.submit(draws(64), images(1)[0], NOISE, "s", ensemble=other).result(30).verdict
        large.cancel()


class Split(nn.Module):
    """A network that agrees with the other member on bright images and disagrees on dark ones."""

    def __init__(self, sign: float) -> None:
        super().__init__()
        self.sign = nn.Parameter(torch.tensor(sign))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(dim=(1, 2, 3))
        side = torch.where(mean > 0.5, 1.0, self.sign)
        return torch.stack([side, -side], dim=1)


@pytest.fixture
def split() -> Ensemble:
    networks = [Split(1.0), Split(-1.0), Split(-2.0)]
    return assemble(networks, classes=("a", "b"), input_shape=SHAPE, consensus=2, batch=32, device=DEVICE)


def test_rows_without_consensus_are_gathered_across_batches(split: Ensemble) -> None:
    """Mutant killed: running the other members on what each batch leaves. Half of the rows have no consensus."""
    with Engine(split, batch=32) as engine:
        engine.submit(draws(32 * 40), torch.full(SHAPE, 0.5), NOISE, "s").result(30)
        assert engine.workload.rest_rows > 32 * 15
        assert engine.workload.rest_slices <= engine.workload.rest_rows / 32 + 40 / PATIENCE + 1


def test_rows_without_consensus_do_not_wait_for_ever(split: Ensemble) -> None:
    """Beside a large certification with consensus everywhere, they would never fill a slice."""
    with Engine(split, batch=32) as engine:
        large = engine.submit(endless(), torch.ones(SHAPE), Gaussian(0.01), "s")
        small = engine.submit(draws(5), torch.zeros(SHAPE), Gaussian(0.01), "s")
        assert small.result(30).evaluations == 15
        large.cancel()


def test_closing_ends_what_is_under_way(three: Ensemble) -> None:
    engine = Engine(three, batch=32)
    handle = engine.submit(endless(), images(1)[0], NOISE, "s")
    engine.close()
    with pytest.raises(ClosedError):
        handle.result(30)
    with pytest.raises(ClosedError):
        engine.submit(endless(), images(1)[0], NOISE, "s")


def test_submissions_come_from_many_threads(three: Ensemble) -> None:
    found: list[Sampled] = []
    picture = images(1)[0]

    def caller(engine: Engine) -> None:
        found.append(engine.submit(draws(200), picture, NOISE, "s").result(30))

    with Engine(three, batch=32) as engine:
        threads = [threading.Thread(target=caller, args=(engine,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(found) == 16
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize(
    ("image", "seen"),
    [
        (torch.rand(3, 5, 4), r"\(3, 5, 4\)"),
        (torch.rand(1, 3, 4, 4), r"\(1, 3, 4, 4\)"),
        (torch.rand(SHAPE) + 1, "must lie in"),
        (torch.rand(SHAPE) - 1, "must lie in"),
        (torch.full(SHAPE, float("nan")), "48 values that are not finite"),
        (torch.full(SHAPE, float("inf")), "48 values that are not finite"),
        (torch.zeros(SHAPE, dtype=torch.int64), "int64"),
        (np.zeros(SHAPE), "ndarray"),
    ],
)
def test_bad_images_are_refused_by_name(three: Ensemble, image: Tensor, seen: str) -> None:
    with Engine(three, batch=32) as engine, pytest.raises(PixelsError, match=seen):
        engine.submit(certify(NOISE), image, NOISE, "s")


@pytest.mark.parametrize("sigma", [0.0, -1.0, float("nan")])
def test_sigma_must_be_positive(three: Ensemble, sigma: float) -> None:
    with Engine(three, batch=32) as engine, pytest.raises(DomainError, match=str(sigma)):
        engine.submit(certify(NOISE), images(1)[0], Gaussian(sigma), "s")


@pytest.mark.parametrize(
    ("seed", "index", "seen"),
    [
        ("", 0, "''"),
        ("\ud800", 0, "ud800"),
        ("ä", 0, "ä"),
        (7, 0, "7"),
        ("s", -1, "-1"),
        ("s", "1/2", "1/2"),
        ("s", True, "True"),
    ],
)
def test_a_stream_must_have_a_name(three: Ensemble, seed: Any, index: Any, seen: str) -> None:
    with Engine(three, batch=32) as engine, pytest.raises(StreamError, match=seen):
        engine.submit(draws(9), images(1)[0], NOISE, seed, index=index)


def test_what_happens_to_the_caller_s_tensor_afterwards_changes_nothing(three: Ensemble) -> None:
    image = images(1)[0].clone().requires_grad_(True)
    with Engine(three, batch=32) as engine:
        handle = engine.submit(draws(640), image, NOISE, "s")
        image.data.fill_(0.5)
        assert handle.result(30).verdict == counts_by_hand(three, images(1)[0], "s", 0, [640])


def test_the_default_dtype_of_torch_does_not_change_the_noise(three: Ensemble) -> None:
    try:
        torch.set_default_dtype(torch.float64)
        with Engine(three, batch=32) as engine:
            found = engine.submit(draws(99), images(1)[0].float(), NOISE, "s").result(30).verdict
    finally:
        torch.set_default_dtype(torch.float32)
    assert sum(found[0]) == 99  # type: ignore[index]


def test_bytes_and_floats_are_the_same_image(three: Ensemble) -> None:
    pixels = torch.randint(0, 256, SHAPE, dtype=torch.uint8)
    with Engine(three, batch=32) as engine:
        found = [engine.submit(draws(99), each, NOISE, "s").result(30) for each in (pixels, pixels.float() / 255)]
    assert found[0] == found[1]


class Silent(nn.Module):
    """A network that gives no finite logit for half of what it sees."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(dim=(1, 2, 3))
        return torch.stack([torch.where(mean > 0.5, mean, torch.nan), -mean], dim=1)


def test_what_is_no_class_is_counted_as_such() -> None:
    silent = assemble([Silent()], classes=("a", "b"), input_shape=SHAPE, batch=32, device=DEVICE)
    with Engine(silent, batch=32) as engine:
        (counts,) = engine.submit(draws(1000), torch.full(SHAPE, 0.5), NOISE, "s").result(30).verdict  # type: ignore[misc]
    assert counts[2] > 300
    assert counts[0] > 300
    assert sum(counts) == 1000


def test_a_real_procedure_runs_to_its_verdict(three: Ensemble) -> None:
    with Engine(three, batch=32) as engine:
        handles = [engine.submit(certify_sequential(NOISE, 0.05, max_samples=2000), i, NOISE, "s") for i in images(8)]
        verdicts = [handle.result(60).verdict for handle in handles]
    assert all(verdict.stop_reason in ("certified", "abandoned", "exhausted") for verdict in verdicts)
    assert all(handle.progress.samples == v.samples for handle, v in zip(handles, verdicts, strict=True))
