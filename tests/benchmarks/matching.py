"""Matching and comparing at size: the matcher of a large cassette, one match, one diagnosis, a large diff."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import orjson

from cassette_lab.cassette.identity import RequestIdentity, parent_fingerprint
from cassette_lab.cassette.matching import Matcher
from cassette_lab.cassette.model import Cassette, Header, Interaction, Outcome, ProviderFacts, StoredRequest, Timing
from cassette_lab.contracts import ParentAgent
from cassette_lab.jsonio import JsonObject
from tests.benchmarks.figures import Bench, figure, fresh_process
from tests.benchmarks.generate import chained

_MATCHED = 20_000

_DIFF = """
import os, sys
from cassette_lab.cassette.diff import diff
with open(os.devnull, "w", encoding="utf-8") as out:
    for piece in diff(sys.argv[1], sys.argv[2]).json_chunks():
        out.write(piece)
"""


@figure("identity")
def identity(bench: Bench) -> None:
    """Snapshot, fingerprints and metadata of one request of an empty root."""
    requests = [_request(number) for number in range(2_000)]
    root = ParentAgent()

    def identify() -> None:
        for request in requests:
            found = RequestIdentity(request)
            _ = found.metadata, parent_fingerprint(root, False)

    bench.report("identity of a call", bench.median(identify) / len(requests) * 1e6, unit="µs", limit=12)


@figure("matcher")
def matcher(bench: Bench) -> None:
    """Construction, one match of a fresh request, and one diagnosis against every recorded call."""
    calls = 2_000 if bench.quick else 200_000
    cassette = _cassette(calls)
    root = ParentAgent()
    bench.report(f"matcher of {calls:,}", bench.median(partial(Matcher, cassette)), limit=1.0)
    requests = [_request(number) for number in range(min(calls, _MATCHED))]

    def match(matching: Matcher) -> None:
        for request in requests:
            matching.release(matching.match(request, root))

    bench.report("one match", bench.median(partial(match, Matcher(cassette))) / len(requests) * 1e6, unit="µs", limit=15)
    diagnose = partial(Matcher(cassette).diagnose, {**_request(1), "persona": "another"}, root)
    bench.report(f"one diagnosis against {calls:,}", bench.median(diagnose), limit=1.0)


@figure("diff")
def compare(bench: Bench) -> None:
    """Two large files compared and printed as JSON, as a process of its own."""
    expected = bench.cassette(200_000)
    actual = _another_run(expected)
    seconds, peak_mib = fresh_process(_DIFF, str(expected), str(actual))
    bench.report("diff of 200,000 with 200,000, JSON", seconds, limit=15)
    bench.report("the same, peak memory", peak_mib, unit="MiB", limit=1024)


def _request(number: int) -> JsonObject:
    return {"label": f"task {number % 50}", "prompt": [{"type": "text", "text": f"look at number {number}. " + "x" * 400}]}


def _cassette(calls: int) -> Cassette:
    """A cassette of objects whose requests are ``_request``'s."""
    context = parent_fingerprint(ParentAgent(), False)
    outcome = Outcome("result", {"output": [{"type": "text", "text": "y" * 800}], "stopReason": "completed"})
    timing = Timing("2026-05-04T09:30:00.000Z", 1.5, 20.25)
    interactions = []
    for number in range(calls):
        request = RequestIdentity(_request(number))
        key = f"root/task-{number}~1"
        stored = StoredRequest(metadata=request.metadata)
        fingerprints = (context, request.fingerprint)
        interactions.append(Interaction(number + 1, key, "root", *fingerprints, 1, stored, timing, True, False, outcome))
    return Cassette(Header("bench", timing.started_at, ProviderFacts("cassette", "spawn")), tuple(interactions))


def _another_run(path: Path) -> Path:
    """The same calls with other times, one outcome in ten changed and the last one in a hundred missing; made once."""
    other = path.with_name(f"another-{path.name}")
    if other.exists():
        return other
    unfinished = other.with_suffix(".unfinished")
    with path.open("rb") as source, unfinished.open("wb") as target:
        lines = list(source)
        line, previous = chained(orjson.loads(lines[0]))
        target.write(line)
        for number, recorded in enumerate(lines[1 : len(lines) - len(lines) // 100], 1):
            record = orjson.loads(recorded)
            record["timing"]["durationMs"] += number % 7 + 0.0625  # never a whole number
            if number % 10 == 0:
                record["outcome"]["result"]["stopReason"] = "max-tokens"
            record["previousHash"] = previous
            line, previous = chained(record)
            target.write(line)
    unfinished.rename(other)
    return other
