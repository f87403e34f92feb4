"""Pictures and reports of recorded calls and session logs: views that live in notebooks, charts, one HTML file that travels."""

from __future__ import annotations

from cassette_lab.views.drawing import Drawing
from cassette_lab.views.report import report
from cassette_lab.views.showing import explore, side_by_side, stop_reasons, timeline, timing_deltas, topology, waterfall
from cassette_lab.views.spent import time_went
from cassette_lab.views.statistics import durations, first_chunks, paired_deltas, statistics_of, token_rates, tool_errors
from cassette_lab.views.view import View

__all__ = [
    "Drawing",
    "View",
    "durations",
    "explore",
    "first_chunks",
    "paired_deltas",
    "report",
    "side_by_side",
    "statistics_of",
    "stop_reasons",
    "time_went",
    "timeline",
    "timing_deltas",
    "token_rates",
    "tool_errors",
    "topology",
    "waterfall",
]
