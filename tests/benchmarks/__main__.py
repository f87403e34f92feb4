"""``python -m tests.benchmarks [NAME …] [--quick]``: measure, and print each figure beside its floor."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import tempfile
import time
from pathlib import Path

import tests.benchmarks
from tests.benchmarks.figures import FIGURES, PART_OF, Bench


def main(arguments: list[str] | None = None) -> int:
    for module in pkgutil.iter_modules(tests.benchmarks.__path__):
        if module.name != "__main__":
            importlib.import_module(f"tests.benchmarks.{module.name}")
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"figures to measure, of: {', '.join(FIGURES)}")
    parser.add_argument("--quick", action="store_true", help="small files and one run, to see that everything works")
    parser.add_argument("--folder", type=Path, help="keep the cassettes here and use them again")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in FIGURES]
    if unknown:
        parser.error(f"no figure is called {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    with tempfile.TemporaryDirectory(prefix="cassette-lab-bench-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(folder, quick=options.quick)
        start = time.perf_counter()
        for name in FIGURES:
            if not options.names or name in options.names or PART_OF.get(name) in options.names:
                FIGURES[name](bench)
        missed = [result.name for result in bench.results if result.met is False]
        print(f"{len(bench.results)} figures in {time.perf_counter() - start:.0f} s, {len(missed)} over their limit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
