"""The report of an evaluation: its rows, figures and goals, beside the tables of the paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from benchmarks.paper import evaluation
from benchmarks.paper import published as paper
from benchmarks.paper.setting import Setting
from benchmarks.paper.uncertainty import uncertainty
from models.data import Images
from models.description import Description
from models.registry import describe
from smoothcert.noise import Gaussian, Replacement
from smoothcert.procedures import Adaptive, Fixed, Largest, Optimal
from smoothcert.question import Question
from smoothcert.report import Report
from tests.support import engines
from tests.support.api import ROOT
from tests.support.evaluated import CIFAR10, FIVE, described, evaluated, in_l0, judged, members_of


def test_an_ensemble_is_compared_with_its_best_member_not_its_first() -> None:
    alone = {"k1": 0.90, "member2": 0.95, "member3": 0.80, "member4": 0.85, "member5": 0.91}
    runs = [evaluated(p, p, members=name) for name, p in alone.items()]
    gain, weakest = evaluation.member_figures([*runs, evaluated(0.97, 0.99)], 5, paper.GAUSSIAN.goals)
    acr = {p: runs_p.judged[0].correct_radius for p, runs_p in zip(alone.values(), runs, strict=True)}
    both = [judged(p, Fixed(n=10_000), None).correct_radius for p in (0.97, 0.99)]
    assert gain.value == pytest.approx(sum(both) / 2 / acr[0.95])
    assert gain.at_least == 1.08
    assert (weakest.value, weakest.at_least) == (0, 55)  # p = .8 proves less than .25
    assert evaluation.member_figures(runs, 5, paper.GAUSSIAN.goals) == []
    assert evaluation.member_figures([*runs[1:], evaluated(0.97, 0.99)], 5, paper.GAUSSIAN.goals) == []


def test_members_that_certify_nothing_reach_no_goal() -> None:
    runs = [evaluated(0.4, members=name) for name in ("k1", "member2")]
    pair = replace(runs[0].setting, members="k2", ensemble=replace(FIVE, members=FIVE.members[:2]))
    gain, _ = evaluation.member_figures([*runs, replace(runs[0], setting=pair)], 2, paper.GAUSSIAN.goals)
    assert not gain.reached


def test_the_paper_stands_beside_what_it_measured_too() -> None:
    description = replace(describe("cifar10-resnet20-gaussian-0.25"), method="gaussian")
    ours = evaluated(0.9).setting
    found = paper.published(description, ours, "cifar10-test")
    assert found is not None
    assert (found.acr, *found.accuracies.values()) == (0.5, 80.2, 65.4, 50.4, 36.8)
    assert paper.published(description, evaluated(0.9, members="k3").setting, "cifar10-test") == paper.GAUSSIAN.rows[3]
    others = [
        (description, evaluated(0.9, members="k2").setting, "cifar10-test"),
        (description, evaluated(0.9, members="member1").setting, "cifar10-test"),
        (description, ours, "mnist"),
        (replace(description, method="macer"), ours, "cifar10-test"),
        (description, replace(ours, question=replace(ours.question, noise=Gaussian(0.5))), "cifar10-test"),
        (description, evaluated(0.9, procedure=Adaptive(), radius=0.25).setting, "cifar10-test"),
    ]
    assert [paper.published(*other) for other in others] == [None] * 6


def test_another_noise_has_its_own_radii_rows_and_goals() -> None:
    description = Description(
        "mnist-lenet", CIFAR10, (1, 28, 28), Replacement(0.8, 2), members_of(3), method="augmentation"
    )
    digits = Images("mnist-test", np.zeros((3, 1, 4, 4), np.uint8), np.zeros(3, np.int64), CIFAR10)
    runs = [in_l0("k1", 0.6, 0.99, 0.999), in_l0("k3", 0.9, 0.99, 1.0)]
    report = evaluation.report(runs, digits, description, "l0")
    first, paper_first, three, paper_three, paper_ten = report.rows
    assert list(report.columns[2:12]) == [f"r={r}" for r in range(10)]
    # By hand, from the thresholds .875, .96875, .9922, .99275, .99699, .99901: the radii are 0, 2, 5 and 1, 2, 9.
    assert first[1:8] == (round(7 / 3, 3), 100, 66.7, 66.7, 33.3, 33.3, 33.3)
    assert three[1] == 4
    assert (paper_first[0], paper_first[1], paper_first[7]) == ("the paper, k = 1", 3.231, 32.6)
    assert paper_three[1:4] == (3.575, 98.4, 92.5)
    assert paper_ten[:2] == ("the paper, k = 10", 3.612)
    figures = {figure.name: (figure.value, figure.goal) for figure in report.figures}
    assert figures == {
        "ACR of the first member alone": (pytest.approx(7 / 3), ">= 3"),
        "ACR of 3 members / of the first one alone": (pytest.approx(12 / 7), ">= 1.05"),
    }
    notes = " ".join(report.notes)
    assert "23.6" in notes
    assert "No radius above 9 can be proved with n = 100,000" in notes


def test_the_paper_s_sizes_that_we_have_not_run_stand_at_the_end() -> None:
    """The paper has four denoisers, and we have three. Mutant killed: only the paper's rows of sizes that were run."""
    description = describe("cifar10-resnet20-denoised-0.25")
    images = Images("cifar10-test", np.zeros((1, 3, 4, 4), np.uint8), np.zeros(1, np.int64), CIFAR10)
    report = evaluation.report([evaluated(0.7, members=k) for k in ("k1", "k3")], images, description, "denoised")
    assert [row[0] for row in report.rows] == ["fixed-k1", "the paper, k = 1", "fixed-k3", "the paper, k = 4"]
    assert report.rows[-1][1:6] == (0.445, 75.2, 62.2, 45.8, 29.0)
    assert all(len(row) == len(report.columns) for row in report.rows)
    foreign = replace(images, name="mnist-test")
    assert len(evaluation.report([evaluated(0.7)], foreign, description, "denoised").rows) == 1


def test_the_committed_tables_have_every_row_of_the_paper() -> None:
    for name, table in (("fixed", paper.GAUSSIAN), ("l1", paper.UNIFORM), ("l0", paper.REPLACEMENT),
                        ("denoised", paper.DENOISING)):  # fmt: skip
        lines = (ROOT / "benchmarks" / "results" / f"{name}.md").read_text().splitlines()
        found = {line.split(" | ")[0]: line.split(" | ")[1] for line in lines if line.startswith("| the paper, ")}
        assert found == {f"| the paper, k = {k}": f"{row.acr:g}" for k, row in table.rows.items()}, name


def test_the_paper_stands_beside_a_consensus_too_and_a_note_says_how_they_differ() -> None:
    description = replace(describe("cifar10-resnet20-gaussian-0.25"), method="gaussian")
    full = evaluated(0.9)
    partial = replace(full, setting=replace(full.setting, ensemble=full.setting.ensemble.with_(consensus=3)))
    assert paper.published(description, partial.setting, "cifar10-test") == paper.GAUSSIAN.rows[5]
    assert not evaluation.consensus_notes([full])
    assert "the first 3 do" in evaluation.consensus_notes([full, partial])[0]


@pytest.mark.parametrize(
    ("table", "k", "acr"),
    [
        (paper.UNIFORM, 3, 0.610),
        (paper.REPLACEMENT, 10, 3.612),
        (paper.DENOISING, 4, 0.445),
        (paper.CONSISTENCY, 3, 0.544),
        (paper.OTHERS[0], 5, 0.615),
        (paper.OTHERS[3], 3, 0.777),
    ],
)
def test_every_table_of_the_paper_is_found_by_its_noise(table: paper.PaperTable, k: int, acr: float) -> None:
    members = replace(engines.ensemble(k), noise=table.noise)
    setting = Setting("fixed", f"k{k}", members, Question(table.noise, Fixed(n=100_000)))
    description = Description(
        table.architecture, CIFAR10, (3, 32, 32), table.noise, members_of(k), method=table.methods[0]
    )
    found = paper.published(description, setting, table.data)
    assert found is not None
    assert found.acr == acr
    assert paper.published(replace(description, architecture="cifar-resnet110"), setting, table.data) is None


@pytest.mark.parametrize("table", paper.TABLES, ids=lambda table: f"{table.methods[0]}, {table.noise.label}")
def test_the_columns_are_the_radii_of_the_papers_table(table: paper.PaperTable) -> None:
    for row in table.rows.values():
        assert list(evaluation.radii_of(table.noise).values()) == list(row.accuracies)


def test_other_ensembles_are_to_beat_their_best_member() -> None:
    runs = [evaluated(p, members=name) for name, p in {"k1": 0.90, "member2": 0.95, "member3": 0.8}.items()]
    for p, reached in ((0.95, False), (0.96, True)):
        (gain,) = evaluation.member_figures([*runs, evaluated(p, members="k3")], 3, paper.CONSISTENCY.goals)
        assert (gain.goal, gain.reached) == ("> 1", reached)


def test_a_curve_and_the_largest_radius_have_rows_without_those_of_the_paper() -> None:
    description = described({}, {}, {}, {}, {})
    images = Images("cifar10-test", np.zeros((2, 3, 4, 4), np.uint8), np.zeros(2, np.int64), CIFAR10)
    curve = evaluated(0.9, 1.0, procedure=Optimal(radii=(0.25, 0.75)))
    largest = evaluated(0.9, 1.0, procedure=Largest())
    target = evaluated(0.9, 1.0, procedure=Optimal(), radius=0.25)
    report = evaluation.report([curve, largest, target], images, description, "x")
    assert [row[2:6] for row in report.rows] == [("", 100, "", 50), (100, 100, 50, 50), (100, 100, "", "")]
    assert not report.figures  # no two of them decide the same single radius, and none is Certify
    assert not any("can be proved with n" in note for note in report.notes)


def test_the_intervals_are_those_of_reports_and_p_a_is_beside_them() -> None:
    run = evaluated(0.5, 0.9, 0.95, 1.0)
    table = uncertainty([run, evaluated(0.5, 0.9, 0.95, 1.0, procedure=Adaptive(), radius=0.25)])
    first, second = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    report = Report("x", list("abcd"), run.judged)
    assert first["ACR"] == report.acr
    exact = binomtest(3, 4).proportion_ci(0.95)
    share = first["r=0.25"]
    assert (share.value, share.low, share.high) == pytest.approx((75, 100 * exact.low, 100 * exact.high))
    assert first["p_A at 50 %"] == "0.9250"  # between .9 and .95
    assert (second["r=0.25"].value, second["r=0.5"]) == (75, "")


@pytest.mark.parametrize("k", [1, 3, 10])
def test_the_acr_in_l0_is_the_sum_of_the_certified_accuracies(k: int) -> None:
    """The misprint in the paper's row k = 1 breaks this by .09."""
    row = paper.REPLACEMENT.rows[k]
    assert sum(row.accuracies[r] for r in range(1, 10)) / 100 == pytest.approx(row.acr, abs=0.0011)


def test_the_report_says_what_training_cost_and_how_far_n_reaches() -> None:
    records = [{"preset": "one-cycle", "epochs": 16, "seconds": seconds} for seconds in (5800.2, 5700.0)]
    images = Images("cifar10-test", np.zeros((1, 3, 4, 4), np.uint8), np.zeros(1, np.int64), CIFAR10)
    runs = [evaluated(0.9, members="k1"), evaluated(0.95)]
    report = evaluation.report(runs, images, described(*records), "fixed")
    below = ["fixed-k1", "the paper, k = 1", "fixed-k5", "the paper, k = 5"]
    assert [row[0] for row in report.rows] == [*below, *(f"the paper, k = {k}" for k in (3, 10, 50))]
    assert all(len(row) == len(report.columns) for row in report.rows)
    notes = " ".join(report.notes)
    assert "2 members, gaussian, 16 epochs of the preset one-cycle each, 5,700 to 5,800 s each" in notes
    ours, theirs = (0.25 * norm.ppf(0.001 ** (1 / n)) for n in (10_000, 100_000))
    assert f"No radius above {ours:.3f} can be proved with n = 10,000, and none above {theirs:.3f}" in notes
    values = dict(zip(report.columns, report.rows[0], strict=True))
    assert values["s/image"] == 2.0
    assert values["TimeRF"] == round(100_100 * 0.001 / 2, 2)
    assert "do not tell" in evaluation.budget(described(*records, {}))
