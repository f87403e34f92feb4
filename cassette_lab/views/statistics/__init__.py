"""Charts of statistics: how long things take and what changed, how soon models answer and how quickly, how often tools fail."""

from __future__ import annotations

from cassette_lab.views.statistics.durations import durations
from cassette_lab.views.statistics.first_chunks import first_chunks
from cassette_lab.views.statistics.paired_deltas import paired_deltas
from cassette_lab.views.statistics.selecting import statistics_of
from cassette_lab.views.statistics.token_rates import token_rates
from cassette_lab.views.statistics.tool_errors import tool_errors

__all__ = ["durations", "first_chunks", "paired_deltas", "statistics_of", "token_rates", "tool_errors"]
