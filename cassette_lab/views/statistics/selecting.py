"""Which charts of statistics a lab has something to show for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cassette_lab.views.rows import Calls
from cassette_lab.views.statistics.durations import Measurable, durations
from cassette_lab.views.statistics.first_chunks import first_chunks
from cassette_lab.views.statistics.measuring import tables_of
from cassette_lab.views.statistics.token_rates import token_rates
from cassette_lab.views.statistics.tool_errors import tool_errors

if TYPE_CHECKING:
    from cassette_lab.views.drawing import Drawing

_DURATIONS: tuple[Measurable, ...] = ("calls", "model_calls", "tool_calls")


def statistics_of(lab: Calls) -> list[Drawing]:
    """The charts that have something to show: durations of calls, models and tools; first chunks; rates; tool errors.

    For a page with all of them: a chart without a known figure is not among them, and of first chunks and rates there
    is one each, of model calls or else of a flight recorder.
    """
    tables = tables_of(lab)
    drawings = [durations(lab, of=name) for name in _DURATIONS if name in tables and len(tables[name])]
    for draw in (first_chunks, token_rates):
        drawings += _first_told(draw, lab, tables)
    if "tool_calls" in tables and len(tables["tool_calls"]):
        drawings.append(tool_errors(lab))
    return [drawing for drawing in drawings if drawing.cells.rows]


def _first_told(draw: Any, lab: Calls, tables: Any) -> list[Drawing]:
    drawn = (draw(lab, of=name) for name in ("model_calls", "flights") if name in tables and len(tables[name]))
    return next(([drawing] for drawing in drawn if drawing.cells.rows), [])
