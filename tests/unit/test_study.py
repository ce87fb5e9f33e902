"""A study: one pass over the samples, every chapter of the report, and a sentence for what cannot be studied."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from models import __main__ as front
from smoothcert.engine.case import start
from smoothcert.engine.engine import Engine
from smoothcert.engine.ensemble import Ensemble, assemble
from smoothcert.engine.form import Form
from smoothcert.engine.smoothed import Smoothed
from smoothcert.engine.study import logits, study
from smoothcert.engine.study.consensus import agreement, consensus
from smoothcert.engine.study.logits import LogitTape, LogitTapes, Recording
from smoothcert.engine.study.samples import About, Samples
from smoothcert.engine.study.voters import Voter, best
from smoothcert.errors import DomainError, LedgerError
from smoothcert.noise import Gaussian, Noise, Replacement, Splitting, Uniform
from smoothcert.procedures import Fixed
from smoothcert.question import Question
from tests.support import engines
from tests.support.zoo import ALLOWED, make_zoo

NOISE = Gaussian(0.25)
THREE = engines.ensemble(3)
IMAGES = engines.images(4)
ABOUT = About("patches", "four images", methods=("gaussian", "gaussian", "macer"))


def tapes(folder: Path, ensemble: Ensemble = THREE, noise: Noise = NOISE, samples: int = 500) -> LogitTapes:
    return LogitTapes(folder, ensemble, noise, samples, batch=96)


def samples_of(folder: LogitTapes, labels: list[int], weights: list[float] | None = None) -> Samples:
    list(folder.record(IMAGES[: len(labels)], range(len(labels))))
    return Samples.of(
        ABOUT, folder.noise, labels, range(len(labels)), lambda i: folder.read(IMAGES[i], i), weights=weights
    )


class Fragile(engines.Patches):
    """A network that gives no finite logits to a part of the samples."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.log(x.mean((1, 2, 3)) - 0.49).view(-1, 1)


def fragile(*networks: engines.Patches) -> Ensemble:
    made = assemble(list(networks), classes=("a", "b", "c", "d"), input_shape=engines.SHAPE, batch=32, name="fragile")
    weights = {member.digest: weight for member, weight in zip(made.members, (0.2, 0.5, 0.3), strict=True)}
    return replace(made, weights=weights)


# --- the samples are those of the engine


@pytest.mark.parametrize("voting", ["soft", "hard", "softmax", "weighted"])
@pytest.mark.parametrize("leading", [None, 1, 2])
def test_a_recording_counts_and_proves_what_the_engine_does(voting: str, leading: int | None, tmp_path: Path) -> None:
    """This holds for every vote and consensus, with samples that have no class."""
    ensemble = fragile(engines.Patches(0), Fragile(1), engines.Patches(2))
    folder, image = tapes(tmp_path, ensemble), torch.full(engines.SHAPE, 0.5)
    list(folder.record([image], [0]))
    recording, voter = folder.read(image, 0), Voter((0, 1, 2), voting, leading)
    classes, decided = voter.classes(
        torch.from_numpy(recording.noisy.copy()).permute(1, 0, 2), torch.tensor([0.2, 0.5, 0.3])
    )
    view = ensemble.with_(voting=voting, consensus=leading)
    sizes = [100, 400]
    expected = engines.counts_by_hand(view, image, folder.seed, 0, sizes)
    assert [tuple(np.bincount(part, minlength=5)) for part in np.split(classes.numpy(), [100])] == expected
    assert 20 < expected[1][-1] < 380 or leading == 1
    noisy = torch.empty(500, *engines.SHAPE)
    engines.NoisyImage(NOISE, image, folder.seed, 0).sample(noisy, 0)
    if leading is not None:
        assert 3 * 500 - (3 - leading) * decided == view.classify(noisy).evaluations


def test_certify_on_a_recording_proves_the_radii_of_the_engines_certificates(tmp_path: Path) -> None:
    folder = tapes(tmp_path)
    with Engine(THREE, batch=64) as engine:
        question = Question(NOISE, Fixed(n=400))
        cases = [
            [
                start(engine, image, question, seed=folder.seed, index=i, ensemble=view, bound=False)
                for i, image in enumerate(IMAGES)
            ]
            for view in (THREE, THREE.first_k(2), THREE.with_(consensus=2))
        ]
        certified = [[case.result() for case in row] for row in cases]
    labels = [certificate.selection.leading or 0 for certificate in certified[0]]
    samples = samples_of(folder, labels)
    for row, voter in zip(certified, (best(3), best(2), consensus(3, 2)), strict=True):
        proofs = samples.proofs(voter)
        for place, certificate in enumerate(row):
            right = certificate.class_index == labels[place]
            assert proofs.right[place] == right
            assert proofs.radii[place] == pytest.approx(certificate.radius if right else 0.0, abs=1e-6)
    assert samples.proofs(best(3)).radii.max() > 0.01
    saved = [3 * c.samples - (c.evaluations or 0) for c in certified[2]]
    assert agreement(samples, consensus(3, 2)) * 500 == pytest.approx(saved)
    assert not agreement(samples, consensus(3, 3)).any()
    short = samples.proofs(best(3), short=True)
    assert (short.n, samples.n) == (133, 400)
    assert (short.radii <= 0.25 * 2.0).all()


# --- recording


def test_members_see_a_sample_once_and_a_longer_study_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    run = Form._run
    monkeypatch.setattr(Form, "_run", lambda form, images: (rows.append(len(images)), run(form, images))[1])
    assert list(tapes(tmp_path, samples=320).record(IMAGES[:1], [0])) == [320]
    assert sum(rows) == 3 * (320 + 1)
    rows.clear()
    assert list(tapes(tmp_path, samples=320).record(IMAGES[:1], [0])) == [0]
    assert rows == []
    assert list(tapes(tmp_path, samples=500).record(IMAGES[:1], [0])) == [180]
    assert sum(rows) == 3 * 180
    shorter, longer = (tapes(tmp_path, samples=n).read(IMAGES[0], 0) for n in (200, 500))
    assert (longer.noisy[:200] == shorter.noisy).all()
    assert longer.clean == pytest.approx(THREE.logits(IMAGES[0].unsqueeze(0))[:, 0].numpy())


def test_a_recording_that_was_killed_goes_on_and_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list(tapes(tmp_path / "whole").record(IMAGES[:1], [0]))
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "seed").write_text((tmp_path / "whole" / "seed").read_text())
    monkeypatch.setattr(logits, "SAVE_SECONDS", -1.0)
    answers, calls = LogitTape._answers, []

    def interrupted(tape: LogitTape, images: Tensor) -> object:
        calls.append(len(images))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return answers(tape, images)

    monkeypatch.setattr(LogitTape, "_answers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(tapes(tmp_path / "cut").record(IMAGES[:1], [0]))
    with pytest.raises(LedgerError, match=r"000000.logits has 192 of 500 samples: record the others first"):
        tapes(tmp_path / "cut").read(IMAGES[0], 0)
    assert list(tapes(tmp_path / "cut").record(IMAGES[:1], [0])) == [308]
    assert calls == [1, 96, 96, 96, 96, 96, 96, 20]
    one, other = (tapes(tmp_path / name).read(IMAGES[0], 0).noisy for name in ("whole", "cut"))
    assert (one == other).all()


def test_the_tape_of_another_ensemble_noise_or_image_is_refused(tmp_path: Path) -> None:
    list(tapes(tmp_path).record(IMAGES[:1], [0]))
    foreign = [
        ("ensemble", tapes(tmp_path, engines.ensemble(2)), IMAGES[0]),
        ("noise", tapes(tmp_path, noise=Gaussian(0.5)), IMAGES[0]),
        ("pixels", tapes(tmp_path), IMAGES[1]),
    ]
    for name, wrong, image in foreign:
        with pytest.raises(LedgerError, match=rf"is the tape of something else, with .*'{name}': .*; name another"):
            list(wrong.record([image], [0]))
    path = tmp_path / "000000.logits"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(LedgerError, match=r"is damaged: its 24044 bytes are not those that were written"):
        tapes(tmp_path).read(IMAGES[0], 0)


def test_tapes_are_bounded_and_a_full_disk_is_foreseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = replace(tapes(tmp_path), most_bytes=40_000)
    with pytest.raises(LedgerError, match=r"4 images with 500 samples would take 0 MB, more than the limit of 0 MB"):
        list(wide.record(IMAGES, range(4)))
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(10**9, 10**9, 10_000))
    with pytest.raises(LedgerError, match=r"need 0 MB more in .*, and 0 MB are free: make room, take fewer"):
        list(tapes(tmp_path).record(IMAGES, range(4)))
    assert [path.name for path in tmp_path.iterdir()] == ["seed"]


def test_a_disk_that_fills_up_leaves_what_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list(tapes(tmp_path, samples=200).record(IMAGES[:1], [0]))
    before = (tmp_path / "000000.logits").read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LedgerError, match=r"cannot write .*No space left .* unharmed"):
        list(tapes(tmp_path).record(IMAGES[:1], [0]))
    assert (tmp_path / "000000.logits").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2


# --- the report


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[study.Study, Path]:
    """The study of three small models on four images, one of which has a wrong label."""
    folder = tmp_path_factory.mktemp("study")
    with Smoothed([engines.Patches(seed).eval() for seed in range(3)], NOISE, classes=4, batch=64) as smoothed:
        labels = [each or 0 for each in smoothed.predict(torch.stack(IMAGES), n=200, seed=1)]
        labels[3] = (labels[3] + 1) % 4
        return smoothed.study(torch.stack(IMAGES), labels, folder, samples=400, progress=False), folder


def test_the_report_has_every_chapter_with_its_tables_and_pictures(written: tuple[study.Study, Path]) -> None:
    found, folder = written
    text = (folder / "report.md").read_text()
    assert len(found.chapters) == len(study.CHAPTERS) == 15
    for chapter in found.chapters:
        assert f"## {chapter.title}\n" in text
        for table in chapter.tables:
            rows = list(csv.DictReader(io.StringIO((folder / f"{table.name}.csv").read_text())))
            assert len(rows) == len(table.rows) > 0
            assert not any(None in row for row in rows)
    pictures = re.findall(r"\]\((\S+\.png)\)", text)
    assert len(pictures) == len(set(pictures)) == 12
    for name in pictures:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    data = json.loads((folder / "study.json").read_text(), parse_constant=pytest.fail)
    assert data["noise"] == {"name": "gaussian", "norm": "l2", "sigma": 0.25}
    assert (data["images"], data["samples"], data["members"]) == (4, 400, 3)
    assert [chapter["name"] for chapter in data["chapters"]] == [chapter.name for chapter in found.chapters]
    assert len(json.loads((folder / "parameters.json").read_text())) == 4


def test_every_acr_has_an_interval_and_the_distribution_of_p_a_beside_it(written: tuple[study.Study, Path]) -> None:
    checked = 0
    for chapter in written[0].chapters:
        for table in chapter.tables:
            if "ACR" not in table.columns or chapter.name == "error-bars":
                continue
            row = dict(zip(table.columns, table.rows[0], strict=True))
            assert row["ACR"].low <= row["ACR"].value <= row["ACR"].high
            assert 0.25 <= row["p_A at 10 %"] <= row["p_A at 50 %"] <= row["p_A at 90 %"] <= 1
            checked += 1
    assert checked == 4


def test_chapters_agree_where_they_say_the_same(written: tuple[study.Study, Path]) -> None:
    found = written[0]
    acr = {row[0]: row[1].value for row in found["size"].tables[0].rows if not isinstance(row[1], float)}
    assert acr["k = 1"] == acr["member 1 alone"]
    assert found["consensus"].tables[0].rows[2][1].value == acr["k = 3"]
    assert found["aggregation"].tables[0].rows[0][1].value == acr["k = 3"]
    assert "0.0" in str(found["consensus"].tables[0].rows[2])
    bars = found["error-bars"].tables[0].rows
    alone = [acr[f"member {i} alone"] for i in (1, 2, 3)]
    assert bars[0][2] == f"{np.mean(alone):.4f} ± {np.std(alone, ddof=1):.4f}"
    with pytest.raises(KeyError, match="'x' is not one of theory, variance"):
        found["x"]


def test_a_second_study_of_the_same_images_runs_no_member(
    written: tuple[study.Study, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, folder = written
    monkeypatch.setattr(study, "CHAPTERS", study.CHAPTERS[5:6])
    monkeypatch.setattr(LogitTape, "_answers", lambda *_: pytest.fail("a member ran"))
    with Smoothed([engines.Patches(seed).eval() for seed in range(3)], NOISE, classes=4, batch=64) as smoothed:
        labels = [1, 1, 1, 1]
        again = smoothed.study(torch.stack(IMAGES), labels, folder, samples=300, progress=False)
    assert again["size"].tables[0].columns == found["size"].tables[0].columns


def test_differently_trained_members_are_compared_by_their_methods(tmp_path: Path) -> None:
    samples = samples_of(tapes(tmp_path), [0, 1, 2, 3], [0.5, 0.3, 0.2])
    (table,) = study.trained.chapter(samples).tables
    ours = [row[:2] for row in table.rows if not str(row[0]).startswith("the paper")]
    assert ours == [("gaussian", 2), ("macer", 1), ("gaussian, macer", 3)]
    (votes,) = study.aggregation.chapter(samples).tables
    assert [row[0] for row in votes.rows if not str(row[0]).startswith("the paper")] == [
        "soft", "hard", "softmax", "weighted",
    ]  # fmt: skip


@pytest.mark.parametrize("noise", [Uniform(0.5), Replacement(0.9, 4)], ids=lambda noise: noise.norm)
def test_the_theory_says_what_applies_to_other_norms(noise: Noise, tmp_path: Path) -> None:
    grid = [(255 * image).round() / 255 for image in IMAGES[:3]]
    folder = tapes(tmp_path, noise=noise, samples=300)
    list(folder.record(grid, range(3)))
    samples = Samples.of(ABOUT, noise, [0, 1, 2], range(3), lambda i: folder.read(grid[i], i))
    text = " ".join(study.theory.chapter(samples).sentences)
    wanted = "replaces values instead of adding" if noise.norm == "l0" else "does not depend on the norm"
    assert wanted in text
    assert "Sigma_c is singular: 3 members give it a rank of at most 2" in text
    for make in (study.radii.chapter, study.size.chapter, study.adaptive.chapter, study.adaptive_consensus.chapter):
        assert make(samples).tables
    curve = study.curve.chapter(samples)
    assert curve.tables or "No radius of the tables can be proved" in curve.sentences[0]


def test_without_finite_logits_the_chapters_on_the_theory_are_left_out() -> None:
    empty = Recording(np.full((2, 3), np.nan, np.float32), np.full((250, 2, 3), np.nan, np.float32))
    samples = Samples.of(About("nothing", "none"), NOISE, [0, 1], [0, 1], lambda _: empty)
    found = study.analyse(samples)
    assert "no image has finite logits" in found.about
    assert next(iter(found.chapters)).name == "size"
    assert found["size"].tables[0].rows[0][1].value == 0


# --- bad input


def test_what_cannot_be_studied_is_refused_with_a_sentence(tmp_path: Path) -> None:
    def refused(match: str, ensemble: Ensemble = THREE, labels: tuple[int, ...] = (0, 1), **options: object) -> None:
        with pytest.raises(DomainError, match=match):
            study.study(ensemble, IMAGES[:2], labels, tmp_path, **{"noise": NOISE, "about": ABOUT, **options})

    refused("takes two or more of them; got 1", THREE.first_k(1))
    refused("there are 0 labels for 2 images; a study takes one for each", labels=())
    refused("samples must be from 1", samples=0)
    refused("a study takes 200 samples or more of each image, 100 of them to choose the class; got 150", samples=150)
    refused("alpha must lie strictly between 0 and 1", alpha=1.5)
    refused("splitting noise has .* outcomes, all of which are evaluated", noise=Splitting(1.0))
    with pytest.raises(DomainError, match="there are no images to study"):
        study.study(THREE, [], [], tmp_path, noise=NOISE, about=ABOUT)
    assert not list(tmp_path.iterdir())  # nothing was recorded
    with pytest.raises(DomainError, match="labels must be a sequence of classes, by name or number, got NoneType"):
        Smoothed([engines.Patches(0).eval()], NOISE, classes=4).study(torch.stack(IMAGES), None, tmp_path)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_zoo(tmp_path_factory.mktemp("zoo") / "zoo")


def models(*arguments: object) -> str:
    """What the command prints, or the sentence with which it exits."""
    try:
        front.run([str(each) for each in arguments])
    except SystemExit as end:
        return str(end.code)
    return ""


def test_the_command_writes_a_report_of_two_members(
    zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of the chapters are enough, since pictures take time; another test makes all chapters of two members."""
    monkeypatch.setattr(study, "CHAPTERS", (study.theory.chapter, study.aggregation.chapter, study.consensus.chapter))
    grey = np.array([120, 124, 130, 134], np.uint8)
    pixels = np.broadcast_to(grey[:, None, None, None], (4, 8, 8, 3))
    np.savez(tmp_path / "grey.npz", images=pixels, labels=[0, 0, 1, 1])
    command = ("study", "trivial", "--images", tmp_path / "grey.npz", "--zoo", zoo, "--allow-import", ALLOWED[0])
    assert models(*command, "--samples", 300, "--out", tmp_path / "out") == "0"
    assert capsys.readouterr().out.strip() == str(tmp_path / "out" / "report.md")
    assert "2 members" in (tmp_path / "out" / "report.md").read_text()
    printed = models(*command, "--samples", 300, "--sigma", 0.5, "--out", tmp_path / "out")
    assert re.match(r"error: .*000000.logits is the tape of something else, with .*noise", printed)
    printed = models(*command, "--samples", 300, "--precision", "bfloat16", "--out", tmp_path / "out")
    assert re.match(r"error: .*000000.logits is the tape of something else, with .*precision", printed)
    printed = models(*command, "--samples", 300, "--precision", "half", "--out", tmp_path / "other")
    assert printed.endswith("precision must be one of float32, bfloat16, float16; got 'half'")
    printed = models(*command, "--samples", 300, "--most-bytes", 100, "--out", tmp_path / "other")
    assert printed.startswith("error: the tapes of 4 images with 300 samples would take")
    np.savez(tmp_path / "bare.npz", images=np.zeros((4, 8, 8, 3), np.uint8))
    command = ("study", "trivial", "--images", tmp_path / "bare.npz", "--zoo", zoo, "--out", tmp_path / "none")
    missing = "there is no array `labels`; it must have `images` and `labels`"
    assert models(*command) == f"error: {tmp_path}/bare.npz: {missing}"
    printed = models("study", "trivial", "--images", "shipped", "--zoo", zoo, "--out", tmp_path / "none")
    assert printed.startswith("error: no sheet in")
    assert not (tmp_path / "none").exists()
