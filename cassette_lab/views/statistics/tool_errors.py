"""How often tools fail: the share of calls whose result is an error, by tool, with what a small number of calls can tell."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from cassette_lab.views.drawing import Cells, Drawing
from cassette_lab.views.layout import empty
from cassette_lab.views.rows import Calls, ranked, shown
from cassette_lab.views.statistics.figures import Estimate, wilson
from cassette_lab.views.statistics.forest import Line, forest, forest_text
from cassette_lab.views.statistics.measuring import left_out, rows_of
from cassette_lab.views.statistics.scales import share_scale
from cassette_lab.views.theme import SLOWER, TIMES
from cassette_lab.words import plural

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

    from cassette_lab.views.statistics.figures import Whole

TOOL_ROWS: Final = 20
_CODES: Final = 3
_HEADERS: Final = ("rate", "errors / calls", "95 % interval")


def tool_errors(data: Calls) -> Drawing:
    """The error rate of each tool of session logs, with Wilson's 95 % interval, the errors and the calls.

    A call is one with a result; calls without one (they were cut off, or still run) are no success and no failure: they
    are left out and counted in a note. So are, without a note, calls that a fork took over (``inherited``). Of more than 20
    tools those with the most errors are drawn, then those with the most calls. The table names the errors' codes.
    """
    rows = rows_of(data, ("tool_calls",))
    known = rows.table.filter(rows.table["is_error"].is_valid())
    open_calls = len(rows.table) - len(known)
    names, groups = ranked(known, "name", "(no name)")
    calls, errors = _counts(known, groups, len(names))
    order = sorted(range(len(names)), key=lambda tool: (-errors[tool], -calls[tool], names[tool]))
    drawn, others = order[:TOOL_ROWS], order[TOOL_ROWS:]
    rates = {tool: wilson(errors[tool], calls[tool]) for tool in drawn}
    drawn.sort(key=lambda tool: (-rates[tool].value, -calls[tool], names[tool]))
    codes = _codes(known, groups)
    title = rows.title("Tool errors")
    notes = []
    if drawn:
        notes.append(f"{_overall(errors, calls)}; dot: share of errors, line: Wilson's 95 % interval")
    notes += left_out(open_calls, rows.noun, "without a result")
    if others:
        left = (
            f"{plural(sum(errors[tool] for tool in others), 'error')} in {plural(sum(calls[tool] for tool in others), 'call')}"
        )
        notes.append(f"{plural(len(others), 'tool')} with {left} not drawn")
    lines = [_line(names[tool], errors[tool], calls[tool], rates[tool]) for tool in drawn]
    scale = share_scale(max([0.0, *(rate.high or 0.0 for rate in rates.values())]), "calls whose result is an error")
    cells = Cells(
        ("tool", "errors", "calls", "rate", "95 % interval", "error codes"),
        [
            (names[tool], f"{errors[tool]:,}", f"{calls[tool]:,}", line.figures[0], line.figures[2], codes.get(tool, ""))
            for tool, line in zip(drawn, lines, strict=True)
        ],
        frozenset({"errors", "calls", "rate", "95 % interval"}),
    )
    nothing = "No tool call has a result." if open_calls else "There are no tool calls to draw."

    def build() -> alt.TopLevelMixin:
        return forest(lines, _HEADERS, scale, title, notes) if lines else empty(title, nothing)

    def draw_text(columns: int) -> list[str]:
        return forest_text(lines, _HEADERS, scale, columns) if lines else [nothing]

    return Drawing(title, tuple(notes), cells, build, draw_text)


def _line(name: str, errors: int, calls: int, rate: Estimate) -> Line:
    low, high = 100 * (rate.low or 0.0), 100 * (rate.high or 0.0)
    share, span = _percent(100 * rate.value), f"{_digits(low)} to {_percent(high)}"
    return Line(
        label=name,
        figures=(share, f"{errors:,} / {calls:,}", span),
        about=f"{name} · {share} of {plural(calls, 'call')}, 95 % interval {span}",
        point=100 * rate.value,
        outer=(low, high),
        colour=SLOWER,
    )


def _overall(errors: list[int], calls: list[int]) -> str:
    rate = wilson(sum(errors), sum(calls))
    return f"all tools: {plural(sum(errors), 'error')} in {plural(sum(calls), 'call')}, {_percent(100 * rate.value)}"


def _counts(known: pa.Table, groups: Whole, tools: int) -> tuple[list[int], list[int]]:
    import numpy as np

    failed = np.asarray(known["is_error"].to_numpy(), dtype=np.float64)
    calls, errors = np.bincount(groups, minlength=tools), np.bincount(groups, weights=failed, minlength=tools)
    return [int(count) for count in calls], [round(count) for count in errors]


def _codes(known: pa.Table, groups: Whole) -> dict[int, str]:
    """The codes (else names) of each tool's errors with their numbers, most frequent first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    code = pc.coalesce(*(known[name].cast(pa.string()) for name in ("error_code", "error_name")), "(no code)")
    failed = pa.table({"tool": groups, "code": code}).filter(known["is_error"])
    counted = failed.group_by(["tool", "code"]).aggregate([("code", "count")])
    found: dict[int, Counter[str]] = {}
    for tool, each, count in zip(*(counted[name].to_pylist() for name in ("tool", "code", "code_count")), strict=True):
        found.setdefault(tool, Counter())[each] = count
    return {tool: _named(codes) for tool, codes in found.items()}


def _named(codes: Counter[str]) -> str:
    first = sorted(codes.items(), key=lambda pair: (-pair[1], pair[0]))
    texts = [f"{shown(code)} {TIMES}{count:,}" for code, count in first[:_CODES]]
    return ", ".join([*texts, *([f"{len(first) - _CODES:,} more"] if len(first) > _CODES else [])])


def _digits(percent: float) -> str:
    return f"{percent:.1f}" if 0 < percent < 9.95 else f"{percent:.0f}"


def _percent(percent: float) -> str:
    return f"{_digits(percent)} %"
