"""The arithmetic under the charts of statistics: quantiles, Wilson's interval, steps of an ECDF, and the bootstrap.

Nothing here knows of tables or pictures. Arrays hold finite numbers unless it says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np

    Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
    Whole: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

Statistic: TypeAlias = Literal["mean", "median"]

RESAMPLES: Final = 2_000
SEED: Final = 20_261_201
"""The same data give the same interval, whenever and wherever it is drawn."""

Z_95: Final = 1.959963984540054
_MANY: Final = 2_000
_CELLS: Final = 2_000_000
"""Numbers that one step of a bootstrap holds: 16 MB."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval; ``low`` and ``high`` are None where nothing tells how far it may be off."""

    value: float
    low: float | None = None
    high: float | None = None


def wilson(hits: int, trials: int) -> Estimate:
    """The share ``hits / trials`` with Wilson's 95 % score interval, which stays sensible at 0, at 1 and for few trials.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference (1927).
    """
    share, square = hits / trials, Z_95**2
    middle = (share + square / (2 * trials)) / (1 + square / trials)
    half = Z_95 * (share * (1 - share) / trials + square / (4 * trials**2)) ** 0.5 / (1 + square / trials)
    return Estimate(share, max(0.0, middle - half), min(1.0, middle + half))


def quantiles(values: Floats, groups: Whole, count: int, shares: Sequence[float]) -> Floats:
    """Quantiles of each of ``count`` groups, one row a group, linear between values; NaN for a group without values.

    One sort for all groups, so that thousands of them cost no more than one.
    """
    import numpy as np

    order = np.lexsort([values, groups])
    ordered = values[order]
    sizes = np.bincount(groups, minlength=count)
    first = np.cumsum(sizes) - sizes
    result = np.full((count, len(shares)), np.nan)
    there = sizes > 0
    for column, share in enumerate(shares):
        place = (sizes[there] - 1) * share
        low = np.floor(place).astype(np.int64)
        part = place - low
        below = ordered[first[there] + low]
        above = ordered[first[there] + np.minimum(low + 1, sizes[there] - 1)]
        result[there, column] = below * (1 - part) + above * part
    return result


def ecdf(values: Floats, most: int) -> tuple[Floats, Floats]:
    """Where the empirical distribution of ``values`` steps, and the share of values up to there.

    Of more than ``most`` distinct values so many are kept, evenly by share, with the least and the largest: each step that
    is kept lies where it is.
    """
    import numpy as np

    steps, counts = np.unique(values, return_counts=True)
    shares = np.cumsum(counts) / len(values)
    if len(steps) > most:
        kept = np.unique(np.append(np.searchsorted(shares, np.linspace(shares[0], 1, most)), 0).clip(0, len(steps) - 1))
        steps, shares = steps[kept], shares[kept]
    return steps, shares


def interval(resampled: Floats) -> tuple[float, float] | None:
    """The middle 95 % of resampled figures (percentile bootstrap); None where no resample gave one."""
    import numpy as np

    known = resampled[np.isfinite(resampled)]
    if not len(known):
        return None
    low, high = np.percentile(known, [2.5, 97.5])
    return float(low), float(high)


def resample_pairs(before: Floats, after: Floats, statistic: Statistic) -> tuple[Floats, Floats]:
    """Figures of ``RESAMPLES`` samples of pairs, drawn with replacement: the difference, and the relative change.

    Means of more than 2,000 pairs are drawn from the normal distribution that they then follow; medians are drawn as what
    they are, order statistics of a sample, which takes no sample.
    """
    import numpy as np

    chance = np.random.default_rng(SEED)
    difference = after - before
    if statistic == "median":
        took = before > 0
        relative = difference[took] / before[took]
        return _resampled_medians(difference, chance), _resampled_medians(relative, chance)
    number = len(before)
    totals = np.empty((2, RESAMPLES))
    if number > _MANY:
        size = max(float(np.abs(difference).max()), float(before.max()), 1.0)  # no square is beyond what floats hold
        both = np.stack([difference, before]) / size
        totals = chance.multivariate_normal(both.mean(axis=1), np.cov(both) / number, RESAMPLES, method="svd").T * size
    else:
        for step in _steps(number):
            drawn = chance.integers(number, size=(step.stop - step.start, number), dtype=np.int32)
            totals[0, step], totals[1, step] = difference[drawn].mean(axis=1), before[drawn].mean(axis=1)
    return totals[0], totals[0] / np.where(totals[1] > 0, totals[1], np.nan)


def _resampled_medians(values: Floats, chance: np.random.Generator) -> Floats:
    """Medians of ``RESAMPLES`` samples as large as ``values``: which of the sorted values stand in a sample's middle."""
    import numpy as np

    number = len(values)
    if not number:
        return np.full(RESAMPLES, np.nan)
    ordered = np.sort(values)
    middle = (number + 1) // 2
    first = chance.beta(middle, number + 1 - middle, RESAMPLES)

    def at(share: Floats) -> Floats:
        return np.asarray(ordered[np.minimum((share * number).astype(np.int64), number - 1)], dtype=np.float64)

    if number % 2:
        return at(first)
    second = first + (1 - first) * chance.beta(1, number - middle, RESAMPLES)
    return np.asarray((at(first) + at(second)) / 2, dtype=np.float64)


def resample_runs(before: Floats, after: Floats, statistic: Statistic, groups: Sequence[Whole]) -> list[tuple[Floats, Floats]]:
    """For each group of rows: figures of ``RESAMPLES`` samples of whole runs, drawn with replacement on each side.

    One run less is drawn than a side has, which makes the spread of the samples that of the estimate (as many would make
    it too small, which matters with a few runs; source: Rao and Wu, Resampling inference with complex survey data, 1988).
    ``before`` and ``after`` have a row for each call and a column for each run, NaN where a run lacks the call. A call
    counts with the mean over the runs that were drawn and have it.
    """
    import numpy as np

    chance = np.random.default_rng(SEED)
    drawn = [
        chance.multinomial(side.shape[1] - 1, np.full(side.shape[1], 1 / side.shape[1]), size=RESAMPLES).T.astype(np.float64)
        for side in (before, after)
    ]
    if statistic == "median":
        # A few runs can be drawn in a few ways only: each way is reckoned once.
        ways, way = np.unique(np.concatenate(drawn), axis=1, return_inverse=True)
        split = np.split(ways, [before.shape[1]])
        medians: list[list[tuple[Floats, Floats]]] = [[] for _ in groups]
        for step in _steps(len(before), ways.shape[1]):
            old, new = (_means(side, times[:, step]) for side, times in zip((before, after), split, strict=True))
            for found, rows in zip(medians, groups, strict=True):
                found.append(change(old[rows], new[rows], statistic))
        together = [[np.concatenate(figures)[way.ravel()] for figures in zip(*found, strict=True)] for found in medians]
        return [(difference, relative) for difference, relative in together]
    return [_resampled_means(before[rows], after[rows], *drawn) for rows in groups]


def _resampled_means(before: Floats, after: Floats, drawn_before: Floats, drawn_after: Floats) -> tuple[Floats, Floats]:
    """The means of one group: calls that every run has are summed run by run first, the others draw by draw."""
    import numpy as np

    whole = np.isfinite(before).all(axis=1) & np.isfinite(after).all(axis=1)
    old = before[whole].sum(axis=0) @ drawn_before / (before.shape[1] - 1)
    new = after[whole].sum(axis=0) @ drawn_after / (after.shape[1] - 1)
    count = np.full(RESAMPLES, float(whole.sum()))
    if not whole.all():
        for step in _steps(int((~whole).sum())):
            one, other = _means(before[~whole], drawn_before[:, step]), _means(after[~whole], drawn_after[:, step])
            known = np.isfinite(one) & np.isfinite(other)
            old[step] += np.where(known, one, 0).sum(axis=0)
            new[step] += np.where(known, other, 0).sum(axis=0)
            count[step] += known.sum(axis=0)
    return (new - old) / np.where(count > 0, count, np.nan), (new - old) / np.where(old > 0, old, np.nan)


def change(before: Floats, after: Floats, statistic: Statistic) -> tuple[Floats, Floats]:
    """The mean (median) difference of the pairs in each column, and the relative change; NaN pairs are left out.

    Relative is, for the mean, the change of all time together; for the median, the median of the pairs' own changes, of
    pairs that took any time before.
    """
    import numpy as np

    difference = after - before
    known = np.isfinite(difference)
    with np.errstate(divide="ignore", invalid="ignore"):
        if statistic == "mean":
            count, total = known.sum(axis=0), np.where(known, difference, 0).sum(axis=0)
            base = np.where(known, before, 0).sum(axis=0)
            return total / np.where(count, count, np.nan), total / np.where(base > 0, base, np.nan)
        relative = np.where(before > 0, difference / before, np.nan)
        return _medians(difference), _medians(relative)


def _medians(values: Floats) -> Floats:
    """The median of each column without its NaN; NaN for a column of nothing else."""
    import warnings

    import numpy as np

    rows = np.ascontiguousarray(values.T)  # twice as quick as columns
    if not np.isnan(rows).any():
        return np.asarray(np.median(rows, axis=1), dtype=np.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a column that is all NaN
        return np.asarray(np.nanmedian(rows, axis=1), dtype=np.float64)


def _means(side: Floats, times: Floats) -> Floats:
    """For each call and each draw (``times`` a run was drawn): the mean over the drawn runs that have the call; else NaN."""
    import numpy as np

    known = np.isfinite(side)
    counts = known.astype(np.float64) @ times
    return np.asarray((np.where(known, side, 0.0) @ times) / np.where(counts > 0, counts, np.nan), dtype=np.float64)


def _steps(width: int, count: int = RESAMPLES) -> Iterator[slice]:
    """Parts that make ``count`` samples together, each so small that its numbers fit in memory."""
    most = max(1, _CELLS // max(width, 1))
    for begin in range(0, count, most):
        yield slice(begin, min(begin + most, count))
