"""A report of many calls: how long it takes to write, and how large it is.

A part of ``dev.py bench views``; ``dev.py bench views-report`` measures it alone.
"""

from __future__ import annotations

import sys

import cassette_lab as cl
from tests.benchmarks.figures import Bench, figure, fresh_process

CALLS = 20_000
_COMMAND = "import sys; from cassette_lab.cli import main; main(['report', sys.argv[1], '-o', sys.argv[2]])"


@figure("views-report", part_of="views")
def reports(bench: Bench) -> None:
    """Seconds and bytes of a report of 20,000 calls with keys as a recorder makes them."""
    cassette = bench.cassette(CALLS)
    out = bench.folder / "report.html"
    lab = cl.load(cassette)
    seconds = bench.median(lambda: cl.report(lab, out), runs=3)
    bench.report(f"report of {len(lab.calls):,} calls", seconds, unit="s", limit=5)
    bench.report("its size", out.stat().st_size / 1e6, unit="MB", limit=3)
    command, _ = fresh_process(_COMMAND, str(cassette), str(out))
    note = f"start, imports, reading and verifying too; Python {sys.version_info.major}.{sys.version_info.minor}"
    bench.report("the command in a new process", command, unit="s", note=note)
