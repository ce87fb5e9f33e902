"""Tapes: one pass over the samples answers every setting, with the certificates of the engine."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.paper import playback
from benchmarks.paper.setting import alone
from benchmarks.paper.tape import Tape, Tapes
from smoothcert.certificate import Certificate
from smoothcert.engine.case import start
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.form import Form
from smoothcert.errors import DomainError, LedgerError
from smoothcert.evaluation import ENDS_EARLY
from smoothcert.noise import Gaussian, Noise
from smoothcert.procedures import Adaptive, AnyProcedure, Fixed, Sequential
from smoothcert.question import Question
from smoothcert.verification import verify
from tests.support import engines

NOISE = Gaussian(0.25)
FOUR = engines.ensemble(4)
QUESTIONS = [
    Question(NOISE, Fixed(n=333)),
    Question(NOISE, Adaptive(stages=(50, 400)), 0.02),
    Question(NOISE, Adaptive(stages=(30, 700), keep_samples=True), 0.05),
    Question(NOISE, Sequential(max_samples=900), 0.02),
    Question(NOISE, Sequential(max_samples=900, abandon="lost-certificate"), 0.1),
]


class Fragile(engines.Patches):
    """A network that gives no finite logits to a part of the samples."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.log(x.mean((1, 2, 3)) - 0.49).view(-1, 1)


def views(ensemble: Ensemble) -> dict[str, Ensemble]:
    """Every choice that evaluate can make: each member alone, and the k best with every K."""
    members = len(ensemble.members)
    found = {f"member{i + 1}": alone(ensemble, i) for i in range(members)}
    for k in range(1, members + 1):
        found |= {f"k{k}-{K}": ensemble.first_k(k).with_(consensus=K) for K in (None, *range(1, k + 1))}
    return found


def tapes(folder: Path, ensemble: Ensemble = FOUR, noise: Noise = NOISE) -> Tapes:
    return Tapes(folder, ensemble, noise, batch=96)


def without_times(certificate: Certificate) -> dict[str, object]:
    fields = certificate.model_dump(exclude={"digest"})
    del fields["provenance"]["started_at"], fields["provenance"]["finished_at"]
    if certificate.provenance is not None and certificate.provenance.ensemble.voting in ENDS_EARLY:
        del fields["evaluations"], fields["provenance"]["sampling"]["shapes"]  # a vote on a tape never ends early
    return fields


def by_engine(folder: Tapes, question: Question, view: Ensemble, images: list[Tensor]) -> list[dict[str, object]]:
    with Engine(folder.ensemble, batch=64) as engine:
        cases = [
            start(engine, image, question, seed=folder.seed, index=i, ensemble=view, bound=False)
            for i, image in enumerate(images)
        ]
        return [without_times(case.result()) for case in cases]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: type(question.procedure).__name__)
def test_a_tape_gives_the_certificates_of_the_engine(question: Question, tmp_path: Path) -> None:
    """They agree field by field, for every view; digests differ only by the times."""
    images, folder = engines.images(2), tapes(tmp_path)
    shared = [folder.open(image, i) for i, image in enumerate(images)]
    split = 0
    for view in views(FOUR).values():
        played = [playback.certify(tape, question, view) for tape in shared]
        assert [without_times(each) for each in played] == by_engine(folder, question, view, images)
        assert all(verify(each) for each in played)
        split += any(each.provenance.sampling.shapes[0].rest_rows for each in played if each.provenance)
    assert split == 3  # 2 of 3, 2 of 4 and 3 of 4 had samples without consensus


@pytest.mark.parametrize("voting", ["soft", "softmax", "hard", "weighted"])
def test_every_vote_counts_as_in_the_engine_and_so_do_samples_without_a_class(voting: str, tmp_path: Path) -> None:
    networks = [engines.Patches(0), Fragile(1), engines.Patches(2)]
    made = assemble(networks, classes=("a", "b", "c", "d"), input_shape=engines.SHAPE, batch=32, name="fragile")
    weights = {member.digest: weight for member, weight in zip(made.members, (0.2, 0.5, 0.3), strict=True)}
    ensemble = replace(made, weights=weights, voting=voting)
    images, folder = [torch.full(engines.SHAPE, 0.5)], tapes(tmp_path, ensemble)
    with folder.open(images[0], 0) as tape:
        for view in views(ensemble).values():
            played = playback.certify(tape, QUESTIONS[0], view)
            assert [without_times(played)] == by_engine(folder, QUESTIONS[0], view, images)
            if view.members == ensemble.members and view.consensus is None:
                assert 20 < played.stages[0].counts.other < 300


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_the_settings_changes_nothing(seed: int, tmp_path: Path) -> None:
    image = engines.images(1)[0]
    settings = list(itertools.product(QUESTIONS, views(FOUR).values()))
    (tmp_path / "two").mkdir()
    with tapes(tmp_path / "one").open(image, 0) as tape:
        straight = [without_times(playback.certify(tape, *each)) for each in settings]
    (tmp_path / "two" / "seed").write_text((tmp_path / "one" / "seed").read_text())
    for place in np.random.default_rng(seed).permutation(len(settings)):
        with tapes(tmp_path / "two").open(image, 0) as tape:  # this reads the file each time
            assert without_times(playback.certify(tape, *settings[place])) == straight[place]


class Counting:
    """Counts the slices that go through each member."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.slices: list[tuple[int, int]] = []  # the member, and the rows of the slice that held samples
        run, counting = Form._run, self

        def counted(form: Form, images: Tensor) -> Tensor:
            place = next(i for i, member in enumerate(FOUR.members) if member.form.network is form.network)
            counting.slices.append((place, len(images)))
            return run(form, images)

        monkeypatch.setattr(Form, "_run", counted)


def test_members_see_a_sample_once_for_all_full_votes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, counting = tapes(tmp_path), Counting(monkeypatch)
    settings = [view for view in views(FOUR).values() if view.consensus is None]
    with folder.open(engines.images(1)[0], 0) as tape:
        for view in sorted(settings, key=lambda view: folder.view(view).turn):
            playback.certify(tape, QUESTIONS[0], view)
        assert tape.samples == 448  # 433 samples are in full slices of 32
        assert tape.evaluations == 4 * 448
    assert set(counting.slices) == {(place, 32) for place in range(4)}
    counting.slices.clear()
    with folder.open(engines.images(1)[0], 0) as tape:
        for view in views(FOUR).values():
            playback.certify(tape, QUESTIONS[0], view)
    assert counting.slices == []


def test_consensus_alone_runs_the_others_on_full_slices_of_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, counting = tapes(tmp_path), Counting(monkeypatch)
    view = folder.view(FOUR.with_(consensus=2))
    with folder.open(engines.images(1)[0], 0) as tape:
        left = tape.votes(view, 0, 960).undecided
        assert tape.evaluations == 2 * 960 + 2 * left
    assert 100 < left < 800
    others = [rows for place, rows in counting.slices if place == 3]
    assert others == [32] * (left // 32) + [left % 32] * (left % 32 > 0)
    assert len([rows for place, rows in counting.slices if place == 0]) == 30


def test_what_was_recorded_before_an_interruption_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interruption comes among rows that wait for the other members, with a tape saved at every batch."""
    image, view = engines.images(1)[0], FOUR.with_(consensus=2)
    monkeypatch.setattr("benchmarks.paper.tape.SAVE_SECONDS", -1.0)
    folder, calls, perturbed = tapes(tmp_path), itertools.count(), Tape._perturbed

    def interrupted(tape: Tape, places: np.ndarray) -> Tensor:
        if next(calls) == 4:
            raise KeyboardInterrupt
        return perturbed(tape, places)

    monkeypatch.setattr(Tape, "_perturbed", interrupted)
    monkeypatch.setattr(Tape, "__exit__", lambda *_: None)  # a process that is killed does not reach it
    with pytest.raises(KeyboardInterrupt), folder.open(image, 0) as tape:
        playback.certify(tape, QUESTIONS[0], view)
    tape = folder.open(image, 0)
    kept = int(tape._votes(folder.view(view), slice(0, 433)).known.sum())
    assert 288 < kept < 320  # 320 without those that waited for a full slice
    again = playback.certify(tape, QUESTIONS[0], view)
    assert [without_times(again)] == by_engine(folder, QUESTIONS[0], view, [image])
    assert tape.evaluations < 4 * (448 - kept) + 4 * 32


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """The file of a tape."""
    with tapes(tmp_path).open(engines.images(1)[0], 7) as tape:
        playback.certify(tape, QUESTIONS[0], FOUR)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["000007.tape", "seed"]
    return tmp_path / "000007.tape"


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda whole: whole[:-1],
    "longer": lambda whole: whole + b"\0",
    "flipped": lambda whole: whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],
    "empty": lambda whole: b"",
    "no header": lambda whole: whole.partition(b"\n")[2],
    "not JSON": lambda whole: b"[1, 2]\n" + whole.partition(b"\n")[2],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_tape_is_refused(recorded: Path, damage: str) -> None:
    recorded.write_bytes(DAMAGES[damage](recorded.read_bytes()))
    with pytest.raises(LedgerError, match=r"000007.tape is damaged: .*; remove it"):
        tapes(recorded.parent).open(engines.images(1)[0], 7)


def test_the_tape_of_something_else_is_refused(recorded: Path) -> None:
    image, other = engines.images(2)
    folder = recorded.parent
    foreign: list[tuple[str, Tapes, Tensor]] = [
        ("pixels", tapes(folder), other),
        ("noise", tapes(folder, noise=Gaussian(0.5)), image),
        ("ensemble", tapes(folder, FOUR.first_k(3)), image),
        ("voting", tapes(folder, FOUR.with_(voting="hard")), image),
        ("slice", tapes(folder, FOUR.resized(16)), image),
    ]
    for name, wrong, pixels in foreign:
        with pytest.raises(LedgerError, match=rf"is the tape of something else, with .*'{name}': "):
            wrong.open(pixels, 7)
    (folder / "seed").write_text("another")
    with pytest.raises(LedgerError, match=r"'seed': '[0-9a-f]{32}'"):
        tapes(folder).open(image, 7)
    header = json.loads(recorded.read_bytes().partition(b"\n")[0])
    assert header["torch"] == torch.__version__
    assert header["noise"] == {"name": "gaussian", "norm": "l2", "sigma": 0.25}
    assert header["scheme"] == NOISE.scheme


def test_a_full_disk_leaves_the_tape_as_it_was(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = recorded.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LedgerError, match=r"cannot write .*No space left .* unharmed"):  # noqa: SIM117
        with tapes(recorded.parent).open(engines.images(1)[0], 7) as tape:
            playback.certify(tape, Question(NOISE, Fixed(n=900)), FOUR)
    assert recorded.read_bytes() == before
    assert len(list(recorded.parent.iterdir())) == 2


def test_a_tape_answers_only_for_its_own_members_votes_and_noise(tmp_path: Path) -> None:
    folder = tapes(tmp_path)
    stranger = replace(FOUR, members=FOUR.members[1:3])
    for wrong in (stranger, FOUR.with_(voting="hard"), engines.ensemble(5)):
        with pytest.raises(DomainError, match="a tape of patches has the soft votes"):
            folder.view(wrong)
    procedure: AnyProcedure = Fixed(n=10)
    with pytest.raises(DomainError, match=r"tape is gaussian, sigma 0.25, .* question is gaussian, sigma 0.5"):
        playback.certify(folder.open(engines.images(1)[0], 0), Question(Gaussian(0.5), procedure), FOUR)


def test_all_processes_that_open_a_folder_share_the_seed_of_the_first(tmp_path: Path) -> None:
    first, second = tapes(tmp_path / "x"), tapes(tmp_path / "x")
    assert first.seed == second.seed != tapes(tmp_path / "y").seed
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["seed"]
