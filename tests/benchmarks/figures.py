"""What a benchmark needs: figures that register themselves, cassettes to measure on, and a way to time fairly.

A figure is a function in a module of this package::

    @figure("recording")
    def recording(bench: Bench) -> None:
        times = bench.compare({"floor": write_lines, "record": record_calls})
        bench.report("recording, 16 at once", times["record"] / calls * 1e6, unit="µs a call", limit=80)

The machine is expected to be noisy. So compared things run in turns, medians are kept, and ratios stand first.
"""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.generate import Shape, cassette_file

Measure = Callable[["Bench"], None]

FIGURES: dict[str, Measure] = {}
"""Every registered figure, by the name the command line knows it by."""


PART_OF: dict[str, str] = {}
"""Figures that are measured with another one, too, by whose name they are asked for as well."""


def figure(name: str, *, part_of: str = "") -> Callable[[Measure], Measure]:
    """Register a function as the figure ``name``; ``part_of`` another one it is measured with that, too."""

    def register(measure: Measure) -> Measure:
        assert name not in FIGURES, f"two figures are called {name}"
        FIGURES[name] = measure
        if part_of:
            PART_OF[name] = part_of
        return measure

    return register


@dataclass(frozen=True)
class Result:
    """One printed line: a value, the floor it was measured beside, and the limit it should stay under."""

    name: str
    value: float
    unit: str
    floor: float | None
    limit: float | None
    note: str

    @property
    def ratio(self) -> float | None:
        return None if self.floor is None else self.value / self.floor

    @property
    def met(self) -> bool | None:
        """Whether the limit holds (for the ratio where there is a floor); None without a limit."""
        return None if self.limit is None else (self.value if self.ratio is None else self.ratio) <= self.limit

    def __str__(self) -> str:
        ratio = "" if self.ratio is None else f"{self.ratio:.2f} x"
        limit = "" if self.limit is None else f"{'<=' if self.met else 'OVER'} {self.limit:g}{' x' if ratio else ''}"
        floor = "" if self.floor is None else f", floor {self.floor:.4g} {self.unit}"
        note = f"  ({self.note})" if self.note else ""
        return f"{self.name:<44} {ratio:>8} {limit:>10}   {self.value:.4g} {self.unit}{floor}{note}"


@dataclass
class Bench:
    """What a figure works with. ``quick``: small files and few runs, to see that everything works."""

    folder: Path
    quick: bool = False
    results: list[Result] = field(default_factory=list)

    def cassette(self, calls: int, shape: Shape = "plain") -> Path:
        """A cassette of so many calls of about 1.9 KB, made once; in a quick run never more than 2,000."""
        return cassette_file(self.folder, min(calls, 2_000) if self.quick else calls, shape)

    def compare(self, functions: Mapping[str, Callable[[], object]], runs: int = 5) -> dict[str, float]:
        """Median seconds of each function; they take turns, after one turn that does not count."""
        times: dict[str, list[float]] = {name: [] for name in functions}
        for turn in range(1 + (1 if self.quick else runs)):
            for name, function in functions.items():
                gc.collect()
                start = time.perf_counter()
                function()
                if turn:
                    times[name].append(time.perf_counter() - start)
        return {name: statistics.median(each) for name, each in times.items()}

    def median(self, function: Callable[[], object], runs: int = 5) -> float:
        """Median seconds of one function."""
        return self.compare({"": function}, runs)[""]

    def report(
        self,
        name: str,
        value: float,
        *,
        unit: str = "s",
        floor: float | None = None,
        limit: float | None = None,
        note: str = "",
    ) -> None:
        """Print a figure. ``limit`` is for value / floor where there is a floor, else for the value."""
        self.results.append(Result(name, value, unit, floor, limit, note))
        print(self.results[-1], flush=True)


def fresh_process(code: str, *arguments: str) -> tuple[float, float]:
    """Run Python code in a process of its own: seconds from start to end, and its peak memory in MiB.

    Peak memory is the kernel's high-water mark of that process alone (``ru_maxrss`` would start at its parent's).
    """
    command = [sys.executable, "-c", _PRINT_PEAK + code, *arguments]
    start = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    return time.perf_counter() - start, int(done.stdout.split()[-1]) / 1024


_PRINT_PEAK = """
import atexit, re
atexit.register(lambda: print(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]))
"""
