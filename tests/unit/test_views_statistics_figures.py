"""The arithmetic of the charts of statistics against numpy, published values and cases that can be done by hand."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.views.statistics.figures import (
    RESAMPLES,
    Statistic,
    change,
    ecdf,
    interval,
    quantiles,
    resample_pairs,
    resample_runs,
    wilson,
)


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [  # R: prop.test(hits, trials, correct=FALSE)$conf.int, and by the formula with 1.96 on paper
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (1, 10, 0.0179, 0.4042),
        (5, 10, 0.2366, 0.7634),
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_published_intervals(hits: int, trials: int, low: float, high: float) -> None:
    found = wilson(hits, trials)
    assert found.value == hits / trials
    assert (found.low, found.high) == pytest.approx((low, high), abs=6e-5)


def test_wilson_ends_solve_the_score_equation() -> None:
    for hits, trials in ((1, 3), (7, 19), (400, 1000)):
        found = wilson(hits, trials)
        for end in (found.low, found.high):
            assert end is not None
            assert abs(hits / trials - end) == pytest.approx(1.959964 * (end * (1 - end) / trials) ** 0.5, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.floats(0, 1e6)), min_size=1, max_size=60))
def test_quantiles_of_groups_are_those_of_numpy(drawn: list[tuple[int, float]]) -> None:
    groups, values = np.array([group for group, _ in drawn]), np.array([value for _, value in drawn])
    found = quantiles(values, groups, 6, (0.05, 0.5, 0.9))
    for group in range(6):
        mine = values[groups == group]
        expected = np.quantile(mine, [0.05, 0.5, 0.9]) if len(mine) else [np.nan] * 3
        np.testing.assert_allclose(found[group], expected, rtol=1e-9, atol=1e-9)


def test_an_ecdf_steps_at_every_value_and_a_thinned_one_at_true_steps() -> None:
    steps, shares = ecdf(np.array([3.0, 1.0, 1.0, 2.0]), 200)
    assert (steps.tolist(), shares.tolist()) == ([1, 2, 3], [0.5, 0.75, 1.0])
    values = np.random.default_rng(5).lognormal(6, 1, 5000)
    steps, shares = ecdf(values, 200)
    assert len(steps) <= 201
    assert (steps[0], steps[-1], shares[-1]) == (values.min(), values.max(), 1.0)
    assert np.diff(shares).max() <= 1 / 199 + 1 / 5000
    for step, share in zip(steps, shares, strict=True):
        assert share == pytest.approx((values <= step).mean())


def test_change_is_the_mean_of_differences_and_the_change_of_all_time_together() -> None:
    before, after = np.array([[100.0], [300.0], [np.nan]]), np.array([[150.0], [330.0], [7.0]])
    assert [float(figure[0]) for figure in change(before, after, "mean")] == [40.0, 80 / 400]
    assert [float(figure[0]) for figure in change(before, after, "median")] == [40.0, pytest.approx((0.5 + 0.1) / 2)]
    nothing = change(np.array([[0.0]]), np.array([[5.0]]), "median")
    assert float(nothing[0][0]) == 5.0
    assert np.isnan(nothing[1][0]), "nothing took time before, so no relative change"


def test_resampled_pairs_have_the_spread_of_every_possible_sample() -> None:
    """Of three pairs there are 27 samples: the bootstrap draws each as often as it should."""
    before, after = np.zeros(3), np.array([1.0, 10.0, 100.0])
    for statistic, middle in (("mean", np.mean), ("median", np.median)):
        expected: dict[float, float] = {}
        for sample in combinations_with_replacement(after, 3):
            ways = factorial(3) / np.prod([factorial(sample.count(value)) for value in set(sample)])
            figure = round(float(middle(sample)), 9)
            expected[figure] = expected.get(figure, 0) + ways / 27
        drawn, _ = resample_pairs(before, after, statistic)  # type: ignore[arg-type]
        figures, counts = np.unique(drawn.round(9), return_counts=True)
        assert set(figures) <= set(expected)
        for figure, count in zip(figures, counts, strict=True):
            assert count / RESAMPLES == pytest.approx(expected[float(figure)], abs=0.035)


def test_resampled_medians_of_an_even_number_of_pairs_are_those_of_samples() -> None:
    after = np.random.default_rng(3).exponential(size=10)
    drawn, _ = resample_pairs(np.zeros(10), after, "median")
    samples = np.median(np.random.default_rng(4).choice(after, size=(20_000, 10)), axis=1)
    for share in (0.025, 0.25, 0.5, 0.75, 0.975):
        assert (samples <= np.quantile(drawn, share)).mean() == pytest.approx(share, abs=0.07)
    assert drawn.mean() == pytest.approx(samples.mean(), rel=0.05)


def test_means_of_many_pairs_are_drawn_from_the_normal_they_follow() -> None:
    chance = np.random.default_rng(9)
    before = chance.lognormal(6, 0.5, 3000)
    after = before * chance.lognormal(0.1, 0.2, 3000)
    drawn, relative = resample_pairs(before, after, "mean")
    samples = chance.integers(3000, size=(1000, 3000))
    sampled = (after - before)[samples].mean(axis=1)
    assert interval(drawn) == pytest.approx(interval(sampled), rel=0.06)
    assert interval(relative) == pytest.approx(interval(sampled / before[samples].mean(axis=1)), rel=0.06)


def test_runs_are_drawn_whole() -> None:
    """Calls of a run move together: ten copies of one call tell no more than the call itself."""
    one_before, one_after = np.array([[100.0, 120.0, 90.0]]), np.array([[150.0, 110.0, 160.0]])
    copied = [np.repeat(side, 10, axis=0) for side in (one_before, one_after)]
    (alone,), (ten,) = (
        resample_runs(one_before, one_after, "mean", [np.arange(1)]),
        resample_runs(copied[0], copied[1], "mean", [np.arange(10)]),
    )
    np.testing.assert_allclose(alone[0], ten[0])
    every = {
        round((sum(after) - sum(before)) / 2, 6)
        for before in combinations_with_replacement(one_before[0], 2)
        for after in combinations_with_replacement(one_after[0], 2)
    }
    assert set(alone[0].round(6)) <= every


def test_medians_over_runs_are_those_of_the_runs_that_were_drawn() -> None:
    chance = np.random.default_rng(6)
    before, after = chance.lognormal(6, 1, (9, 3)), chance.lognormal(6, 1, (9, 4))
    ((drawn, _),) = resample_runs(before, after, "median", [np.arange(9)])
    every = {
        round(float(np.median(after[:, list(new)].mean(axis=1) - before[:, list(old)].mean(axis=1))), 6): 0
        for old in combinations_with_replacement(range(3), 2)
        for new in combinations_with_replacement(range(4), 3)
    }
    assert len(drawn) == RESAMPLES
    assert set(drawn.round(6)) <= set(every)
    assert len(set(drawn.round(6))) > len(every) * 0.9


def test_a_run_that_lacks_a_call_does_not_count_for_it() -> None:
    before = np.array([[100.0, 100.0], [50.0, np.nan]])
    after = np.array([[110.0, 110.0], [50.0, 50.0]])
    ((differences, relative),) = resample_runs(before, after, "mean", [np.arange(2)])
    assert set(differences.round(9)) == {5.0, 10.0}, "without the second run's partner only the first call counts"
    assert set(relative.round(9)) == {round(10 / 150, 9), 0.1}
    ((medians, _),) = resample_runs(before, after, "median", [np.arange(2)])
    assert set(medians.round(9)) == {5.0, 10.0}


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_intervals_of_pairs_cover_the_truth_as_often_as_they_say(statistic: Statistic) -> None:
    chance = np.random.default_rng(20)
    covered = 0
    for _ in range(300):
        before = chance.lognormal(6, 0.6, 40)
        low, high = interval(resample_pairs(before, before + chance.normal(25, 60, 40), statistic)[0]) or (0, 0)
        covered += low <= 25 <= high
    assert 0.90 <= covered / 300 <= 0.98


def test_intervals_of_runs_cover_where_those_of_calls_would_not() -> None:
    """Each run has its own speed: drawing calls takes what one run shares for evidence, and covers far too seldom."""
    chance = np.random.default_rng(21)
    base = chance.lognormal(6, 0.5, 30)[:, None]
    runs_cover = calls_cover = 0
    truth = float((0.1 * base).mean())
    for _ in range(200):
        before = base * (1 + chance.normal(0, 0.08, 10)) + chance.normal(0, 5, (30, 10))
        after = base * (1.1 + chance.normal(0, 0.08, 10)) + chance.normal(0, 5, (30, 10))
        ((drawn, _),) = resample_runs(before, after, "mean", [np.arange(30)])
        low, high = interval(drawn) or (0, 0)
        runs_cover += low <= truth <= high
        low, high = interval(resample_pairs(before[:, 0], after[:, 0], "mean")[0]) or (0, 0)
        calls_cover += low <= truth <= high
    assert 0.89 <= runs_cover / 200 <= 0.98
    assert calls_cover / 200 < 0.5


def test_resampled_runs_spread_as_the_estimate_does() -> None:
    chance = np.random.default_rng(22)
    before, after = chance.normal(500, 40, (1, 4)), chance.normal(500, 40, (1, 4))
    ((drawn, _),) = resample_runs(before, after, "mean", [np.arange(1)])
    error = (before.var(ddof=1) / 4 + after.var(ddof=1) / 4) ** 0.5
    assert drawn.std() == pytest.approx(error, rel=0.05)
    assert drawn.mean() == pytest.approx((after - before).mean(), abs=error / 10)


def test_no_figures_have_no_interval() -> None:
    assert interval(np.full(10, np.nan)) is None
    assert interval(np.arange(1001.0)) == (25.0, 975.0)
