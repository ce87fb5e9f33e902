"""The formulas of a study, each computed a second way: by brute force, by simulation, or from a known model."""

from __future__ import annotations

import itertools
import json
from bisect import bisect_left

import numpy as np
import pytest
from scipy import stats

from smoothcert.bounds import lower_bound
from smoothcert.engine.study import (
    adaptive,
    adaptive_consensus,
    assumptions,
    curve,
    error_bars,
    levels,
    paper,
    radii,
    success,
)
from smoothcert.engine.study.example import Example
from smoothcert.engine.study.logits import Recording
from smoothcert.engine.study.model import LogitModel, fitted_ratio, median_ratio, variance_ratio
from smoothcert.engine.study.moments import TOP, Moments, moments
from smoothcert.engine.study.radius import expected_radius, radius_distribution
from smoothcert.engine.study.samples import About, Samples
from smoothcert.engine.study.study import analyse
from smoothcert.engine.study.variance import reduction
from smoothcert.engine.study.voters import Voter, best, sizes, subsets
from smoothcert.estimate import DRAWS, Bootstrap, Estimate, share
from smoothcert.noise import Gaussian, Noise, Replacement, Uniform
from smoothcert.plan import plan
from smoothcert.procedures import Adaptive, Fixed, Optimal, run
from tests.support.recorded import samples_of

SIGMA_P = np.array([[2.0, 0.6, 0.3, 0.5], [0.6, 1.5, 0.4, 0.2], [0.3, 0.4, 1.0, 0.1], [0.5, 0.2, 0.1, 0.8]])
SIGMA_C = np.diag([0.3, 0.2, 0.25, 0.1]) + 0.05
C = np.array([2.0, 0.5, -0.3, -1.0])
ZETA = 0.7
NOISE = Gaussian(0.25)


def drawn(n: int = 20_000, k: int = 6, *, zeta: float = ZETA, seed: int = 0) -> Recording:
    """Logits of the paper's model: one part of the effect of the noise is common to all members, the rest is not."""
    generator = np.random.default_rng(seed)
    clean = generator.multivariate_normal(C, SIGMA_C, size=k)
    common = generator.multivariate_normal(np.zeros(4), SIGMA_P, size=n)[:, None]
    own = generator.multivariate_normal(np.zeros(4), SIGMA_P, size=(n, k))
    noisy = clean + np.sqrt(zeta) * common + np.sqrt(1 - zeta) * own
    return Recording(clean.astype(np.float32), noisy.astype(np.float32))


def moments_of(recording: Recording, majority: int = 0) -> Moments:
    found = moments(recording, majority)
    assert found is not None
    return found


MODEL = LogitModel(C, SIGMA_C, SIGMA_P, 0.1, ZETA, 0)


# --- moments and parameters


@pytest.mark.parametrize("zeta", [0.0, 0.4, 0.85, 1.0])
def test_zeta_and_sigma_are_recovered_from_logits_that_the_model_draws(zeta: float) -> None:
    found = moments_of(drawn(zeta=zeta))
    assert median_ratio(found.between, found.within) == pytest.approx(zeta, abs=0.03)
    assert fitted_ratio(found.between, found.within) == pytest.approx(zeta, abs=0.02)
    assert found.within == pytest.approx(SIGMA_P, abs=0.05)
    model = LogitModel.of(found)
    assert 0 <= model.zeta_p <= 1
    assert model.c == pytest.approx(drawn(zeta=zeta).clean.mean(0), abs=1e-5)
    assert model.rank_c == 4


def test_the_moments_are_those_of_numpy() -> None:
    recording = drawn(500, 3)
    found = moments_of(recording)
    flat = recording.noisy.astype(float).reshape(500, 12)
    joint = np.cov(flat.T, ddof=1)
    blocks = [[joint[4 * a : 4 * a + 4, 4 * b : 4 * b + 4] for b in range(3)] for a in range(3)]
    assert found.within == pytest.approx(np.mean([blocks[a][a] for a in range(3)], axis=0))
    pairs = [blocks[a][b] for a, b in itertools.permutations(range(3), 2)]
    assert found.between == pytest.approx(np.mean(pairs, axis=0))
    for k in (1, 2, 3):
        mean = recording.noisy[:, :k].astype(float).mean(1)
        margins = mean[:, [0]] - mean
        assert found.margins[k - 1] == pytest.approx(margins.var(0, ddof=1), abs=1e-9)
    assert found.runner_up == 1
    assert found.histogram[1].sum() == pytest.approx(500 * 12, abs=5)  # all but those beyond five sigma


def test_samples_whose_logits_are_not_finite_are_left_out() -> None:
    recording = drawn(300, 3)
    recording.noisy[7, 1, 2] = np.nan
    assert moments_of(recording).samples == 299
    recording.noisy[:, 0, 0] = np.inf
    assert moments(recording, 0) is None


def test_of_many_classes_the_most_likely_ones_are_kept_and_the_majority_class_always() -> None:
    generator = np.random.default_rng(1)
    logits = generator.normal(size=(50, 2, 30)) + np.arange(30)
    found = moments_of(Recording(logits[0].astype(np.float32), logits.astype(np.float32)), majority=3)
    assert sorted(found.classes.tolist()) == [3, *range(21, 30)]
    assert len(found.classes) == TOP
    assert found.classes[found.majority] == 3


# --- the model


@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_covariance_of_the_margins_is_that_of_the_papers_block_matrix(k: int) -> None:
    m = 4
    same, other = SIGMA_P + SIGMA_C, ZETA * SIGMA_P + 0.1 * SIGMA_C
    whole = np.block([[same if a == b else other for b in range(k)] for a in range(k)])
    d = np.zeros((m - 1, m * k))
    for i in range(1, m):
        for j in range(m * k):
            d[i - 1, j] = 1 / k if j % m == 0 else -1 / k if j % m == i else 0
    assert MODEL.covariance(k) == pytest.approx(d @ whole @ d.T)
    assert MODEL.mean == pytest.approx(C[0] - C[1:])


def test_the_majority_class_may_be_any() -> None:
    order = [2, 0, 1, 3]
    shuffled = LogitModel(C[order], SIGMA_C[np.ix_(order, order)], SIGMA_P[np.ix_(order, order)], 0.1, ZETA, 1)
    assert shuffled.success(3) == pytest.approx(MODEL.success(3), abs=1e-3)
    assert shuffled.chebyshev(3) == pytest.approx(MODEL.chebyshev(3))


def test_the_variance_of_the_margin_falls_as_the_formula_says() -> None:
    assert [variance_ratio(1.0, k) for k in (1, 7)] == [1.0, 1.0]
    assert variance_ratio(0.0, 8) == 1 / 8
    assert variance_ratio(0.82, 10**9) == pytest.approx(0.82)
    assert reduction(moments_of(drawn())) == pytest.approx([variance_ratio(ZETA, k) for k in range(1, 7)], abs=0.02)


@pytest.mark.parametrize("k", [1, 3, 50])
def test_the_success_probability_is_that_of_simulated_margins_and_above_chebyshevs_bound(k: int) -> None:
    margins = np.random.default_rng(k).multivariate_normal(MODEL.mean, MODEL.covariance(k), size=200_000)
    simulated = (margins > 0).all(1).mean()
    assert MODEL.success(k) == pytest.approx(simulated, abs=0.005)
    bound = MODEL.chebyshev(k)
    assert bound is not None
    assert bound <= simulated


def test_with_two_classes_the_success_probability_has_a_closed_form() -> None:
    model = LogitModel(np.array([1.0, 0.2]), np.diag([0.1, 0.2]), np.array([[1.0, 0.3], [0.3, 0.5]]), 0.0, 0.5, 0)
    variance = variance_ratio(0.5, 4) * (1.0 + 0.5 - 2 * 0.3) + 0.3 / 4
    assert model.success(4) == pytest.approx(stats.norm.cdf(0.8 / np.sqrt(variance)), abs=1e-3)
    assert model.chebyshev(4) == pytest.approx(1 - variance / 0.8**2)


def test_singular_covariances_and_margins_without_variance_are_no_obstacle() -> None:
    """Two members give a Sigma_c of rank one; members that do not react to the noise give a Sigma_p of zero."""
    loading = np.array([[1.0], [0.5], [-0.2], [0.1]])
    singular = LogitModel(C, np.zeros((4, 4)), loading @ loading.T, 0.0, 0.5, 0)
    z = MODEL.mean[:, None] + (loading[0] - loading[1:]) @ np.random.default_rng(0).normal(size=(1, 100_000))
    assert singular.success(1) == pytest.approx((z > 0).all(0).mean(), abs=0.005)
    still = LogitModel(C, np.zeros((4, 4)), np.zeros((4, 4)), 0.0, 0.0, 0)
    assert (still.success(1), still.chebyshev(1)) == (1.0, 1.0)
    wrong = LogitModel(C, np.zeros((4, 4)), np.zeros((4, 4)), 0.0, 0.0, 2)
    assert (wrong.success(1), wrong.chebyshev(1)) == (0.0, None)


# --- assumptions


def test_the_covariance_of_both_components_is_that_of_all_their_values() -> None:
    recording = drawn(400, 5)
    found = moments_of(recording)
    y_c = np.repeat(recording.clean[None].astype(float), 400, axis=0)
    y_p = recording.noisy - y_c
    both = np.concatenate([y_c, y_p], axis=2).reshape(400 * 5, 8)
    expected = np.cov(both.T, ddof=0)
    ours = assumptions.joint_covariance(found, clean=True)
    # Ours divides by k - 1 when it averages over members, and by n - 1 over samples.
    assert ours[:4, :4] * 4 / 5 == pytest.approx(expected[:4, :4], abs=1e-6)
    assert ours[:4, 4:] * 4 / 5 == pytest.approx(expected[:4, 4:], abs=1e-6)
    assert ours[4:, 4:] == pytest.approx(expected[4:, 4:], abs=0.02)
    assert assumptions.cross_size(assumptions.joint_covariance(found, clean=False)) == 0
    assert assumptions.cross_size(ours) < 0.1


def test_the_model_of_the_covariance_between_members_fits_where_it_is_true() -> None:
    found = moments_of(drawn())
    assert assumptions.between_error(found.between, found.within) < 0.03
    assert np.abs(assumptions.mean_effect(moments_of(drawn()))).max() < 0.05
    other = drawn()
    other.noisy[:, :, 1] += 0.5 * other.noisy[:, ::-1, 3]  # class 1 of a member follows class 3 of another one
    found = moments_of(other)
    assert assumptions.between_error(found.between, found.within) > 0.05


@pytest.mark.parametrize("k", [3, 5, 12])
def test_standardised_residuals_of_few_gaussians_have_the_density_that_is_drawn(k: int) -> None:
    values = np.random.default_rng(k).normal(size=(100_000, k))
    residuals = ((values - values.mean(1, keepdims=True)) / values.std(1, ddof=1, keepdims=True))[:, 0]
    edges = np.linspace(-1, 1, 21)
    seen = np.histogram(residuals, edges)[0] / len(values)
    axis = np.linspace(-1, 1, 20_001)
    density = assumptions.residual_density(axis, k)
    expected = [density[i * 1000 : (i + 1) * 1000].mean() * 0.1 for i in range(20)]
    assert seen == pytest.approx(expected, abs=0.004)


def test_the_distance_from_a_gaussian_is_zero_for_one_and_large_for_others() -> None:
    edges, generator = assumptions.EDGES, np.random.default_rng(0)
    normal = np.histogram(generator.normal(size=500_000), edges)[0]
    shifted = np.histogram(generator.normal(1.0, size=500_000), edges)[0]
    assert assumptions.distance_to_normal(normal) < 0.01
    expected = stats.norm.cdf(0.5) - stats.norm.cdf(-0.5)  # the total variation distance of N(0, 1) and N(1, 1)
    assert assumptions.distance_to_normal(shifted) == pytest.approx(expected, abs=0.01)


# --- radii


@pytest.mark.parametrize("noise", [Gaussian(0.25), Uniform(1.0), Replacement(0.8, 2)], ids=lambda noise: noise.name)
def test_the_distribution_of_the_radius_is_that_of_certify_for_every_count(noise: Noise) -> None:
    n, p, radii = 200, 0.9, []
    for count in range(n + 1):
        drawn = iter([np.array([100, 0, 0]), np.array([count, n - count, 0])])
        verdict = run(Fixed(n=n).start(noise, None, alpha=0.001, beta=0.001), lambda _, drawn=drawn: next(drawn))
        radii.append(verdict.radius)
    mass = stats.binom.pmf(np.arange(n + 1), n, p)
    assert expected_radius(p, n, noise=noise, alpha=0.001) == pytest.approx(float(mass @ radii), rel=1e-9)
    found, weight = radius_distribution(p, n, noise=noise, alpha=0.001)
    assert weight.sum() == pytest.approx(1)
    assert set(np.round(found, 9)) <= set(np.round(radii, 9))
    assert (np.diff(found) > 0).all()
    assert weight[0] == pytest.approx(mass[np.array(radii) == found[0]].sum(), abs=1e-12)
    assert expected_radius(1.0, n, noise=noise, alpha=0.001) == pytest.approx(radii[-1])


# --- shares, means and ratios


def test_shares_have_exact_intervals() -> None:
    interval = stats.binomtest(37, 50).proportion_ci(0.95, "exact")
    found = share(np.arange(50) < 37)
    assert (found.value, found.low, found.high) == pytest.approx((74.0, 100 * interval.low, 100 * interval.high))


def test_the_bootstrap_covers_the_mean_and_compares_in_pairs() -> None:
    """About 95 % of the intervals of 300 samples of 40 numbers contain the mean. Mutant killed: level 0.2."""
    generator, bootstrap = np.random.default_rng(2), Bootstrap(40)
    covered = [bootstrap.mean(generator.exponential(size=40)) for _ in range(300)]
    assert 0.88 < np.mean([each.low <= 1 <= each.high for each in covered]) < 0.99
    values = generator.exponential(size=40)
    ratio = bootstrap.ratio(3 * values, values)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((3, 3, 3))
    median = bootstrap.median(values)
    assert median.low <= np.median(values) == median.value <= median.high
    assert np.isnan(bootstrap.ratio(np.zeros(40), np.zeros(40)).value)
    assert sum(map(len, bootstrap._kept)) == DRAWS
    assert str(Estimate(0.5, 0.41, 12.0)) == "0.500 (0.410 to 12.0)"


def test_a_deviation_between_columns_is_covered_although_the_images_scatter() -> None:
    """There are 60 populations of 30 images. Mutant killed: the plain interval of resamples, which covers 80 %."""
    generator, bootstrap = np.random.default_rng(4), Bootstrap(30)
    means = np.array([0.0, 0.1, 0.25, 0.3])
    covered = []
    for _ in range(60):
        found = bootstrap.deviation(means + generator.normal(size=(30, 4)))
        assert found.low <= found.value <= found.high
        covered.append(found.low <= means.std(ddof=1) <= found.high)
    assert np.mean(covered) > 0.93


def test_figures_of_means_are_resampled_together() -> None:
    values = np.random.default_rng(5).exponential(size=(40, 2, 3))
    bootstrap = Bootstrap(40)
    found, mean = bootstrap.of_means(values, lambda m: float(m[1, 2])), bootstrap.mean(values[:, 1, 2])
    assert (found.value, found.low, found.high) == pytest.approx((mean.value, mean.low, mean.high))
    columns = values[:, 0]
    ratio = bootstrap.deviation_ratio(3 * columns, columns)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((3, 3, 3))
    assert np.isnan(bootstrap.deviation_ratio(columns, np.ones((40, 3))).value)
    assert bootstrap.deviation(np.ones((40, 3))) == Estimate(0, 0, 0)


# --- schedules


@pytest.mark.parametrize("radius", [0.25, 0.75])
@pytest.mark.parametrize("stages", [paper.SCHEDULES[0], paper.SCHEDULES[8], paper.SCHEDULES[10]], ids=str)
def test_a_schedule_does_what_its_boundaries_say(stages: tuple[int, ...], radius: float) -> None:
    shares = [0.6, 0.83, 0.86, 0.95, 1.0]
    samples = samples_of(shares)
    staged = adaptive.play(samples, best(2), stages, radius)
    boundaries = Adaptive(stages=stages).boundaries(samples.noise, radius, alpha=0.001, beta=0.001)
    for place, p in enumerate(shares):
        count = round(p * 5000)
        ps = stats.beta.ppf(adaptive.LEVELS, count + 0.5, 5000 - count + 0.5)
        outcomes = [boundaries.outcome(float(each)) for each in ps]
        assert staged.certified[place].sum() == pytest.approx(np.mean([o.certify for o in outcomes]), abs=1e-9)
        assert staged.samples[place] == pytest.approx(100 + np.mean([o.samples for o in outcomes]), rel=1e-9)
    assert (staged.certified + staged.abandoned).sum(1) == pytest.approx(np.ones(5))
    accuracy, reduction = adaptive.judge(samples, best(2), staged)
    assert accuracy.value == pytest.approx(100 * staged.certified.sum(1).mean())
    assert reduction.value == pytest.approx(100_100 / staged.samples.mean())


def test_the_figures_of_the_example_vary_with_its_samples() -> None:
    """Two members that always agree are one, so the interval of p_A is about that of Clopper and Pearson."""
    samples = samples_of([0.6, 0.8, 1.0], n=5000)
    image = Example.of(samples)
    assert image.p_a == [0.8, 0.8]
    exact = stats.binomtest(4000, 5000).proportion_ci(0.95)
    found = image.probability(1)
    assert (found.value, found.low, found.high) == pytest.approx((0.8, exact.low, exact.high), abs=0.002)
    radius = image.radius(0, 2000)
    ends = [expected_radius(p, 2000, noise=NOISE, alpha=0.001) for p in (found.low, 0.8, found.high)]
    assert (radius.low, radius.value, radius.high) == pytest.approx(ends, abs=1e-4)
    assert image.gain(1, 1000) == Estimate(0, 0, 0)
    more = image.gain(0, 2000)
    assert more.value == pytest.approx(100 * (ends[1] / expected_radius(0.8, 1000, noise=NOISE, alpha=0.001) - 1))
    assert more.low < more.value < more.high


def test_a_curve_is_what_its_plan_expects_of_each_image() -> None:
    samples = samples_of([0.6, 0.9, 0.98, 1.0], n=1000)
    targets = (0.25, 0.5, 0.75)
    certified, spent = curve.by_optimal(samples, best(2), targets)
    for place, p in enumerate((0.6, 0.9, 0.98, 1.0)):
        outcome = plan(Optimal(radii=targets), NOISE, 0.0).expected(p)
        assert (*certified[place], spent[place]) == pytest.approx((*outcome.certified, outcome.samples))
    plain = curve.by_certify(samples, best(2), targets)
    counts = range(100_001)
    least = [bisect_left(counts, NOISE.probability(r), key=lambda c: lower_bound(c, 100_000, 0.001)) for r in targets]
    assert plain[1] == pytest.approx(stats.binom.sf(np.array(least) - 1, 100_000, 0.9), abs=1e-9)
    (table,) = curve.chapter(samples).tables
    rows = {row[0]: row for row in table.rows}
    assert rows["k = 2, optimal"][4].value == pytest.approx(spent.mean())
    assert rows["k = 2, optimal"][5].value == pytest.approx(100_100 / spent.mean())
    assert rows["k = 2, Certify"][1].value == pytest.approx(100 * plain[:, 0].mean())


def test_every_measured_figure_of_the_chapters_has_an_interval() -> None:
    """These are shares by stage, Chebyshev's bound, distances, pooled covariances, deviations and gains."""
    tapes = [drawn(400, 3, seed=seed) for seed in range(5)]
    samples = Samples.of(About("three", "drawn"), NOISE, [0] * 5, range(5), tapes.__getitem__)
    for make in (adaptive, adaptive_consensus, assumptions, success, error_bars, radii, curve):
        chapter = make.chapter(samples)
        for name, figure in chapter.figures:
            if isinstance(figure, Estimate):
                assert figure.low <= figure.value <= figure.high, name
            else:
                assert name.startswith(("modelled gain of 50 members", "cases in which Chebyshev's")), name
        for table in chapter.tables:
            for row in table.rows:
                if str(row[0]).startswith("the paper") or str(row[1]).startswith("the paper"):
                    continue
                cells = dict(zip(table.columns, row, strict=True))
                for column in cells:
                    if column.startswith(("ASC", "ASA", "ASR", "Chebyshev", "acc_cert", "gain by", "deviation")):
                        assert isinstance(cells[column], Estimate) or cells[column] == "", (table.name, column)
    stages = adaptive.chapter(samples).tables[1]
    for row in stages.rows:
        shares = [cell.value if isinstance(cell, Estimate) else cell for cell in row[3:] if cell != ""]
        assert sum(shares) == pytest.approx(100, abs=0.5)


def test_two_members_that_always_agree_have_every_chapter() -> None:
    """The second member adds nothing: zeta_p is one, a margin is constant, and Sigma_c is zero."""
    found = analyse(samples_of([0.6, 0.9, 1.0], n=300))
    assert len(found.chapters) == 15
    assert dict(found["theory"].figures)["zeta_p"] == Estimate(1, 1, 1)
    assert dict(found["variance"].figures)["variance ratio at k"].value == pytest.approx(1)
    assert dict(found["size"].figures)["ACR of all members / of the best"] == Estimate(1, 1, 1)
    assert dict(found["consensus"].figures)["KCR, K = 1"].value == 100
    json.dumps(found.as_json(), allow_nan=False)


def test_an_image_without_finite_logits_is_left_out_of_the_theory_alone() -> None:
    whole = samples_of([0.6, 0.9, 1.0], n=300)
    broken = Recording(np.full((2, 3), np.nan, np.float32), np.full((300, 2, 3), np.nan, np.float32))
    tapes = [whole.recording(0), broken, whole.recording(1)]
    found = analyse(Samples.of(About("two", "shares"), NOISE, [0, 0, 0], range(3), tapes.__getitem__))
    assert [row[0] for row in found["theory"].tables[1].rows] == [0, 2]
    assert "leaves out 1 image whose" in " ".join(found["theory"].sentences)
    assert found["size"].tables[0].rows[0][-3] == pytest.approx(0.2 * 0.6)  # between p_A = 0 and .6


@pytest.mark.parametrize(("alpha", "beta"), [(0.001, 0.001), (0.1, 0.0001)])
def test_the_first_stage_decides_with_binomial_probabilities(alpha: float, beta: float) -> None:
    p = np.array([0.5, 0.8, 0.95, 0.999])
    certify, abandon, go_on = levels.first_stage(Gaussian(0.25), 0.25, alpha, beta, p)
    p0 = stats.norm.cdf(1.0)
    counts = np.arange(101)
    lower = [stats.binomtest(int(c), 100, alternative="greater").proportion_ci(1 - alpha / 4).low for c in counts]
    upper = [stats.binomtest(int(c), 100, alternative="less").proportion_ci(1 - beta / 3).high for c in counts]
    for place, each in enumerate(p):
        mass = stats.binom.pmf(counts, 100, each)
        assert certify[place] == pytest.approx(mass[np.array(lower) >= p0].sum(), abs=1e-9)
        assert abandon[place] == pytest.approx(mass[np.array(upper) < p0].sum(), abs=1e-9)
    assert certify + abandon + go_on == pytest.approx(np.ones(4))


# --- voters


def test_the_subsets_of_a_size_are_all_of_them_or_a_fixed_draw() -> None:
    assert {voter.members for voter in subsets(5, 2)} == set(itertools.combinations(range(5), 2))
    many = subsets(30, 10)
    assert len({voter.members for voter in many}) == len(many) == 20
    assert best(10) in many
    assert many == subsets(30, 10)
    assert all(len(set(voter.members)) == 10 for voter in many)
    assert sizes(5) == [1, 2, 3, 4, 5]
    assert sizes(50) == [1, 2, 3, 4, 5, 10, 20, 50]
    assert Voter((0,)) == best(1)
