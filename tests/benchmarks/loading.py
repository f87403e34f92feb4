"""How long a verified load takes beside the least it could take, what memory it needs, and that its quick way is sound."""

from __future__ import annotations

import hashlib
from pathlib import Path

import orjson

from cassette_lab.cassette.model import RequestStorage
from tests.benchmarks.figures import Bench, figure, fresh_process
from tests.benchmarks.generate import Shape, cassette_lines
from tests.benchmarks.mutants import mutants

CALLS, MANY_CALLS = 20_000, 200_000


def parse_and_hash(path: Path) -> None:
    """The floor: each line is read, parsed and hashed, and nothing is checked or kept."""
    with path.open("rb") as file:
        for line in file:
            orjson.loads(line)
            hashlib.sha256(line).digest()


@figure("load")
def load_figures(bench: Bench) -> None:
    """One process and two, on files of several shapes."""
    shapes: list[tuple[Shape, float | None, float | None]] = [("plain", 2.0, 1.2), ("mixed", 3.2, None), ("full", None, None)]
    for shape, limit, shared_limit in shapes:
        compare_loads(bench, bench.cassette(CALLS, shape), f"load 20k {shape}", limit, shared_limit)
    compare_loads(bench, bench.cassette(1_000), "load 1k plain", None, None)


@figure("load-large")
def load_large(bench: Bench) -> None:
    """200,000 calls."""
    compare_loads(bench, bench.cassette(MANY_CALLS), "load 200k plain", 2.0, 1.2, runs=3)


def compare_loads(
    bench: Bench, path: Path, name: str, limit: float | None, shared_limit: float | None, *, runs: int = 7
) -> None:
    import polars as pl

    from cassette_lab.tables import load

    times = bench.compare(
        {
            "floor": lambda: parse_and_hash(path),
            "one": lambda: load(path),
            "two": lambda: load(path, workers=2),
            "polars": lambda: pl.read_ndjson(path, infer_schema_length=None),
        },
        runs,
    )
    bench.report(f"{name}, one process", times["one"], floor=times["floor"], limit=limit)
    bench.report(f"{name}, two processes", times["two"], floor=times["floor"], limit=shared_limit)
    against = 1.0 if shared_limit else None
    bench.report(f"{name}, two / polars", times["two"], floor=times["polars"], limit=against, note="which verifies nothing")


@figure("memory")
def memory(bench: Bench) -> None:
    """Peak memory of a process that loads one file, and how much of its growth is not the table."""
    from cassette_lab.tables import load

    code = "import sys\nimport cassette_lab as cl\ncl.load(sys.argv[1])"
    paths = [bench.cassette(calls) for calls in (CALLS, MANY_CALLS)]
    peaks = [fresh_process(code, str(path))[1] for path in paths]
    tables = [load(path).calls.nbytes / 2**20 for path in paths]
    bench.report("peak memory, load 200k", peaks[1], unit="MiB", limit=350, note=f"of it the table {tables[1]:.0f} MiB")
    growth = (peaks[1] - tables[1]) - (peaks[0] - tables[0])
    bench.report("its growth from 20k, table excluded", growth, unit="MiB")


@figure("verify")
def verify(bench: Bench) -> None:
    """The command, as a process from start to end."""
    path = str(bench.cassette(MANY_CALLS))
    code = "import sys\nfrom cassette_lab.cli import main\nsys.exit(main())"
    bench.report("verify 200k, whole process", bench.median(lambda: fresh_process(code, "verify", path), 3), limit=1.9)


@figure("import")
def import_time(bench: Bench) -> None:
    """What ``import cassette_lab`` adds to a bare start of Python."""
    times = bench.compare(
        {
            "bare": lambda: fresh_process(""),
            "import": lambda: fresh_process("import cassette_lab"),
        },
        9,
    )
    bench.report("import cassette_lab", times["import"] - times["bare"], limit=0.15, note=f"Python {times['bare']:.3f} s")


@figure("mutants")
def differential(bench: Bench) -> None:
    """100,000 changed calls with repaired hashes: what the block tier accepts, the exact tier accepts, with equal rows."""
    from tests.unit.test_scan import accepted

    count = 2_000 if bench.quick else 100_000
    taken = 0
    shares: list[tuple[Shape, RequestStorage, float]] = [
        ("mixed", "metadata", 0.5),
        ("plain", "metadata", 0.25),
        ("full", "full", 0.25),
    ]
    for shape, storage, share in shares:
        changed = list(mutants(list(cassette_lines(300, shape))[1:], int(count * share), seed=11))
        taken += sum(accepted(changed[start : start + 500], storage) for start in range(0, len(changed), 500))
    bench.report("mutants accepted wrongly", 0, unit=f"of {count:,}", limit=0, note=f"{taken:,} accepted rightly")
