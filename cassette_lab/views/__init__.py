"""Pictures and reports of recorded calls and session logs: charts that need no network, and one HTML file that travels."""

from __future__ import annotations

from cassette_lab.views.deltas import timing_deltas
from cassette_lab.views.drawing import Drawing
from cassette_lab.views.outcomes import stop_reasons
from cassette_lab.views.report import report
from cassette_lab.views.spent import time_went
from cassette_lab.views.timelines import timeline
from cassette_lab.views.topologies import topology
from cassette_lab.views.waterfalls import waterfall

__all__ = ["Drawing", "report", "stop_reasons", "time_went", "timeline", "timing_deltas", "topology", "waterfall"]
