"""``python -m tests.conformance [--golden DIR] [--kind KIND]``: every vector of DIR through the public functions.

Prints ``KIND: N passed, M failed`` for each kind and ``N passed, M failed`` at the end; failures are named on standard
error. Exit code 0 when all passed, 1 on any failure, 2 when DIR or KIND is unknown or holds no vector.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.run import GOLDEN, is_known, kinds, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and print; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description="Run conformance vectors.")
    parser.add_argument("--golden", type=Path, default=GOLDEN, metavar="DIR", help="the directory of vectors")
    parser.add_argument("--kind", metavar="KIND", help="only this kind (a folder of DIR)")
    options = parser.parse_args(arguments)

    folder: Path = options.golden
    if not folder.is_dir():
        return _refuse(f"no directory of vectors at {folder}")
    present = kinds(folder)
    if options.kind is not None:
        known = [kind for kind in present if is_known(folder, kind)]
        if options.kind not in known:
            return _refuse(f"no kind {options.kind!r} in {folder}; there is: {', '.join(known) or 'none'}")
        present = [options.kind]
    unknown = [kind for kind in present if not is_known(folder, kind)]

    passed = failed = executed = 0
    for kind in present:
        if kind in unknown:
            continue
        outcome = run(folder, kind)
        for vector, reason in outcome.failures:
            print(f"  {kind} {vector}: {reason}", file=sys.stderr)
        print(f"{kind}: {outcome.passed} passed, {len(outcome.failures)} failed", flush=True)
        for reason, count in sorted(outcome.deviations.items()):
            print(f"deviates: {count} ({reason})", flush=True)
        if not outcome.executed:
            print(f"  {kind}: the folder holds no vector", file=sys.stderr)
        passed += outcome.passed
        failed += len(outcome.failures)
        executed += outcome.executed
    print(f"{passed} passed, {failed} failed", flush=True)

    if failed:
        return 1
    if unknown:
        return _refuse(f"not run, no such kind: {', '.join(unknown)}")
    if not executed:
        return _refuse(f"no vector was found in {folder}")
    return 0


def _refuse(sentence: str) -> int:
    print(f"conformance: {sentence}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
