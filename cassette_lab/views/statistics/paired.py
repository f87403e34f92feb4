"""From two sides of repeated runs to pairs of calls, and from these to estimates: what changed, and how sure one can be.

Every call is paired with itself by what it is (parent, parent context, request, occurrence), as a diff does. What is drawn
again in the bootstrap is the run wherever both sides have several: the calls of one run share its hour, its machine and
its provider's load, so they are not independent of each other, and taking them for so would make intervals too short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from cassette_lab.views.rows import LONGEST_MS, NO_LABEL, ranked, sources_of
from cassette_lab.views.statistics.figures import Estimate, Statistic, change, interval, resample_pairs, resample_runs
from cassette_lab.views.statistics.measuring import floats

if TYPE_CHECKING:
    import pyarrow as pa

    from cassette_lab.views.statistics.figures import Floats, Whole

Unit: TypeAlias = Literal["run", "call"]

IDENTITY: Final = ("parent_key", "parent_context_fingerprint", "request_fingerprint", "occurrence")


@dataclass(frozen=True)
class Pairs:
    """Calls that both sides have: a row each, a column for each run, durations in ms, NaN where a run lacks the call.

    ``only_before`` and ``only_after`` count calls that no run of the other side has, ``unknown`` calls that both have and
    of which one side knows no duration.
    """

    labels: Sequence[str]
    label: Whole
    before: Floats
    after: Floats
    only_before: int
    only_after: int
    unknown: int

    @property
    def unit(self) -> Unit:
        """What is drawn again: runs where both sides have several, else calls."""
        return "run" if min(self.before.shape[1], self.after.shape[1]) > 1 else "call"

    @property
    def partial(self) -> int:
        """Pairs that some run lacks."""
        import numpy as np

        return int((~(np.isfinite(self.before).all(axis=1) & np.isfinite(self.after).all(axis=1))).sum())


@dataclass(frozen=True, slots=True)
class Change:
    """What a group of pairs tells: the difference in ms, and the relative one (of 1; NaN where nothing took time)."""

    label: str
    pairs: int
    ms: Estimate
    relative: Estimate
    before_ms: float
    after_ms: float


def pairs_of(before: pa.Table, after: pa.Table) -> Pairs:
    """Pair the calls of two ``calls`` tables; each file in them is a run."""
    import numpy as np
    import pyarrow as pa

    sizes = len(before), len(after)
    both = pa.concat_tables([_identities(table) for table in (before, after)])
    _, first, number = _distinct(both)
    calls = len(first)
    sides = []
    for table, here in ((before, number[: sizes[0]]), (after, number[sizes[0] :])):
        runs = max(1, len(sources_of(table)))
        times = floats(table["duration_ms"])
        known = np.isfinite(times) & (times >= 0)
        matrix = np.full((calls, runs), np.nan)
        matrix[here[known], _run_numbers(table)[known]] = np.minimum(times[known], LONGEST_MS)
        there = np.zeros(calls, dtype=bool)
        there[here] = True
        sides.append((matrix, there, np.isfinite(matrix).any(axis=1)))
    (old, in_old, known_old), (new, in_new, known_new) = sides
    paired = known_old & known_new
    labels, label = ranked(both.select(["label"]).take(first[paired]), "label", NO_LABEL)
    return Pairs(
        labels, label, old[paired], new[paired],
        int((in_old & ~in_new).sum()), int((in_new & ~in_old).sum()), int((in_old & in_new & ~paired).sum()),
    )  # fmt: skip


def changes(pairs: Pairs, statistic: Statistic, most: int) -> list[Change]:
    """The change of all pairs, then that of the ``most`` labels with the largest changes of time together."""
    import numpy as np

    if not len(pairs.label):
        return []
    old, new = np.nanmean(pairs.before, axis=1), np.nanmean(pairs.after, axis=1)
    together = np.abs(np.bincount(pairs.label, weights=new - old, minlength=len(pairs.labels)))
    shown = [int(label) for label in np.argsort(-together, kind="stable")[:most]]
    everything = np.arange(len(pairs.label))
    groups = [everything, *(np.flatnonzero(pairs.label == label) for label in shown)]
    names = ["all calls", *(pairs.labels[label] for label in shown)]
    if len(pairs.labels) == 1:
        groups, names = groups[1:], names[1:]
    resampled = _resampled(pairs, old, new, statistic, groups)
    found = []
    for name, rows, samples in zip(names, groups, resampled, strict=True):
        ms, relative = (float(figure[0]) for figure in change(old[rows, None], new[rows, None], statistic))
        spans = [None, None] if samples is None else [interval(each) for each in samples]
        middle = np.mean if statistic == "mean" else np.median
        found.append(
            Change(
                name,
                len(rows),
                Estimate(ms, *(spans[0] or ())),
                Estimate(relative, *(spans[1] or ())),
                float(middle(old[rows])),
                float(middle(new[rows])),
            )
        )
    return found


def _resampled(
    pairs: Pairs, old: Floats, new: Floats, statistic: Statistic, groups: Sequence[Whole]
) -> list[tuple[Floats, Floats] | None]:
    """For each group its resampled figures; None where a single pair of single runs tells nothing of its spread."""
    if pairs.unit == "run":
        return [*resample_runs(pairs.before, pairs.after, statistic, groups)]
    return [resample_pairs(old[rows], new[rows], statistic) if len(rows) > 1 else None for rows in groups]


def _identities(table: pa.Table) -> pa.Table:
    import pyarrow as pa

    names = [*IDENTITY[:3], "label"]
    columns: dict[str, Any] = {name: table[name].cast(pa.string()) for name in names}
    return pa.table({**columns, "occurrence": table["occurrence"].cast(pa.int64())})


def _distinct(both: pa.Table) -> tuple[int, Whole, Whole]:
    """How many calls there are, the first row of each, and for every row the number of its call."""
    import numpy as np
    import pyarrow.compute as pc

    number = np.zeros(len(both), dtype=np.int64)
    for name in IDENTITY:
        codes = pc.rank(both[name], tiebreaker="dense").to_numpy().astype(np.int64)
        _, number = np.unique(number * (len(both) + 1) + codes, return_inverse=True)
    _, first, number = np.unique(number, return_index=True, return_inverse=True)
    return len(first), first, number


def _run_numbers(table: pa.Table) -> Whole:
    import numpy as np
    import pyarrow as pa

    if "source" not in table.column_names:
        return np.zeros(len(table), dtype=np.int64)
    encoded = table["source"].cast(pa.string()).combine_chunks().dictionary_encode()
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
