"""What got slower and what quicker over repeated runs, and how sure that is: paired differences with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from cassette_lab.errors import ConfigError
from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.layout import empty
from cassette_lab.views.rows import Calls, calls_of, shown
from cassette_lab.views.statistics.figures import RESAMPLES, Estimate, Statistic
from cassette_lab.views.statistics.forest import Line, forest, forest_text
from cassette_lab.views.statistics.paired import Change, Pairs, changes, pairs_of
from cassette_lab.views.statistics.scales import signed_scale
from cassette_lab.views.theme import MUTED, QUICKER, SLOWER, TIMES
from cassette_lab.words import MINUS, UNKNOWN, delta_text, duration_text, plural

if TYPE_CHECKING:
    import altair as alt

LABEL_ROWS: Final = 20
_FEW_RUNS: Final = 5


def paired_deltas(before: Calls, after: Calls, *, statistic: Statistic = "mean") -> Drawing:
    """How much longer calls took after than before, overall and for each label, with 95 % bootstrap intervals.

    Each side is a lab, a ``calls`` table or paths: one or more cassettes of the same agent, each a run. Calls are paired as
    ``cl.diff`` does, by parent, parent context, request and occurrence; a pair's difference is the mean over the runs
    after less the mean over those before. ``statistic`` is the ``"mean"`` or ``"median"`` of these differences.

    Intervals are those of the percentile bootstrap, 2,000 resamples with a fixed seed. Where both sides have several runs,
    whole runs are drawn, on each side for itself: calls of one run share its hour and its machine, so only runs are
    independent, and the interval says what other runs would give. Of a few runs it is too short: in simulations of equal
    runs it held the truth in 93 of 100 cases with ten runs a side, in 90 with five, 86 with three and 64 with two.
    Otherwise the pairs of calls are drawn, and the interval says only how much calls differ among themselves; what another
    run would give cannot be known. A single pair of single runs has no interval. Notes say which of these it
    is, and count calls without a partner and calls without a known duration.
    """
    if statistic not in ("mean", "median"):
        raise ConfigError(f"differences are told by their mean or median, not by {shown(str(statistic))}")
    pairs = pairs_of(calls_of(before), calls_of(after))
    found = changes(pairs, statistic, LABEL_ROWS)
    lines = [_line(each, heading=place == 0 and len(found) > 1) for place, each in enumerate(found)]
    runs = pairs.before.shape[1], pairs.after.shape[1]
    title = f"Paired differences · {plural(len(pairs.label), 'call')} · {plural(runs[0], 'run')} before, {runs[1]:,} after"
    notes = _notes(pairs, found, runs, statistic)
    ends = [value for each in found for value in (each.ms.value, each.ms.low, each.ms.high) if value is not None]
    scale = signed_scale(min([0.0, *ends]), max([1e-3, *ends]), f"{statistic} change of duration")
    headers = ("change", "95 % interval", "relative", "n")
    cells = Cells(
        ("label", "pairs", "before", "after", "change", "95 % interval", "relative", "95 % interval of relative"),
        [
            (
                each.label,
                f"{each.pairs:,}",
                duration_text(each.before_ms),
                duration_text(each.after_ms),
                delta_text(each.ms.value),
                _span(each.ms),
                _percent(each.relative.value),
                _relative_span(each.relative),
            )
            for each in found
        ],
        frozenset({"pairs", "before", "after", "change", "95 % interval", "relative", "95 % interval of relative"}),
    )
    nothing = "No call is in both sides with a known duration."

    def build() -> alt.TopLevelMixin:
        return forest(lines, headers, scale, title, notes) if lines else empty(title, nothing)

    def draw_text(columns: int) -> list[str]:
        return forest_text(lines, headers, scale, columns) if lines else [nothing]

    return Drawing(title, tuple(notes), cells, build, draw_text)


def _line(each: Change, *, heading: bool) -> Line:
    low, high = each.ms.low, each.ms.high
    sure = low is not None and high is not None and (low > 0 or high < 0)
    colour = (SLOWER if each.ms.value > 0 else QUICKER) if sure else MUTED
    figures = (delta_text(each.ms.value), _span(each.ms), _percent(each.relative.value), f"{each.pairs:,}")
    return Line(
        label=each.label,
        figures=figures,
        about=f"{each.label} · {figures[0]} ({figures[2]}) · 95 % interval {figures[1]} · {plural(each.pairs, 'pair')}",
        point=each.ms.value,
        outer=None if low is None or high is None else (low, high),
        heading=heading,
        colour=colour,
    )


def _notes(pairs: Pairs, found: Sequence[Change], runs: tuple[int, int], statistic: Statistic) -> list[str]:
    notes = []
    if pairs.unit == "run" and found:
        notes.append(
            f"dot: {statistic}; line: 95 % bootstrap interval, {RESAMPLES:,} resamples of whole runs; grey: it holds 0"
        )
        if min(runs) < _FEW_RUNS:
            notes.append(f"fewer than {_FEW_RUNS} runs on a side: intervals are rough, and rather too short")
    elif any(each.ms.low is not None for each in found):
        notes.append(
            f"dot: {statistic}; line: 95 % bootstrap interval, {RESAMPLES:,} resamples of pairs of calls; grey: it holds 0"
        )
        notes.append("a single run on a side: intervals tell how calls differ, not what other runs would give")
    if alone := sum(each.ms.low is None for each in found):
        notes.append(f"a single pair has no interval ({plural(alone, 'row')})")
    if pairs.only_before or pairs.only_after:
        notes.append(f"without a partner: {plural(pairs.only_before, 'call')} only before, {pairs.only_after:,} only after")
    if pairs.unknown:
        notes.append(f"{plural(pairs.unknown, 'call')} without a known duration on one side left out")
    if pairs.partial:
        notes.append(f"{plural(pairs.partial, 'call')} not in every run: counted with the runs that have them")
    if len(pairs.labels) > LABEL_ROWS:
        notes.append(f"{plural(len(pairs.labels) - LABEL_ROWS, 'label')} with smaller changes in the first row only")
    return notes


def _span(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return UNKNOWN
    return f"{delta_text(estimate.low)} to {delta_text(estimate.high)}"


def _relative_span(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return UNKNOWN
    return f"{_percent(estimate.low)} to {_percent(estimate.high)}"


def _percent(share: float) -> str:
    """A relative change: ``+12 %``, from ten times on a factor; a dash where nothing took time before."""
    if math.isnan(share):
        return UNKNOWN
    if share > 9.99:
        return f"{TIMES}{share + 1:,.0f}" if share < 1e6 else "more"
    percent = 100 * share
    if abs(percent) < 0.05:
        return "±0 %"
    text = f"{percent:+.1f} %" if abs(percent) < 9.95 else f"{percent:+,.0f} %"
    return text.replace("-", MINUS)
