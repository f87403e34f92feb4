"""Flight records as rows: saved snapshots (``*.flight.json``) and the logs that recorders write.

A row is a request, not a line of a file: a record that several files have (snapshots of one recorder, a log beside them) is
one row, the first that tells how it ended, else the first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cassette_lab.flight.model import SUFFIX, FlightRecord, PromptAssembly, Usage
from cassette_lab.flight.persist import rotated
from cassette_lab.flight.reader import Flights, is_log, read_flights, read_log
from cassette_lab.jsonio import as_integer
from cassette_lab.jsonio.text import arrow_text
from cassette_lab.looking import exists
from cassette_lab.session.reader import FILE_NAME
from cassette_lab.tables.flight_columns import FLIGHT_HEALTH, FLIGHTS, MISSES
from cassette_lab.tables.gathering import Columns
from cassette_lab.tables.session_columns import TOKENS

_HEAD_BYTES: Final = 1_024
_SNAPSHOT: Final = re.compile(rb'\s*\{\s*"info"\s*:\s*\{[^{}]*"recordSchemaVersion"')
_FULL: Final = re.compile(r"(?P<log>.+)\.[1-9][0-9]*")
_NO_USAGE: Final = Usage()
_NO_PROMPT: Final = PromptAssembly()


def found_in_folder(path: Path) -> bool:
    """A file named ``*.flight.json``; also a ``*.json`` or ``*.jsonl`` that begins as a snapshot or log does.

    The full files of a log (``NAME.1``, …) belong to it, and count alone only where it is gone.
    """
    name = path.name
    if name.endswith(SUFFIX):
        return True
    full = _FULL.fullmatch(name)
    if full is not None:
        return full["log"].endswith(".jsonl") and not exists(path.with_name(full["log"])) and is_log(_head(path))
    if name.endswith(".jsonl"):  # thousands of session logs need not be opened once more
        return FILE_NAME.fullmatch(name) is None and is_log(_head(path))
    return name.endswith(".json") and _SNAPSHOT.match(_head(path)) is not None


def build(
    path: Path,
    *,
    bodies: bool = False,
    workers: int = 1,
    collect: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[tuple[str, Columns]]:
    """The rows of a file, the oldest request first. Raises ``FormatError`` before the first one if it cannot be verified."""
    del bodies, workers, collect, progress  # a file is accepted as a whole or not at all, and is small
    found = read_log(path) if is_log(_head(path)) else read_flights(path)
    yield "flight_health", [[value] for value in _health(path, found).values()]
    if found.records or found.auxiliary:
        records = sorted((*reversed(found.records), *reversed(found.auxiliary)), key=lambda record: record.started_at_ms)
        yield "flights", list(map(list, zip(*(_row(record).values() for record in records), strict=True)))


def without_repeats(flights: pa.Table) -> pa.Table:
    """Each record once. Place and time tell it as well as its id does: ids of several recorders may be equal."""
    if len(flights["source"].unique()) < 2:
        return flights
    names = ("record_id", "session_id", "turn", "step", "attempt", "started_at")
    columns = [flights[name].cast(pa.int64()) if name == "started_at" else flights[name] for name in names]
    chosen: dict[tuple[Any, ...], tuple[int, bool]] = {}
    ends = [kind != "running" for kind in flights["outcome_kind"].to_pylist()]
    for number, key in enumerate(zip(*(each.to_pylist() for each in columns), strict=True)):
        earlier = chosen.get(key)
        if earlier is None or (ends[number] and not earlier[1]):
            chosen[key] = (number, ends[number])
    kept = sorted(number for number, _ in chosen.values())
    return flights if len(kept) == len(flights) else flights.take(np.array(kept, np.int64))


def _row(record: FlightRecord) -> dict[str, Any]:
    request, outcome, extra, omissions = record.request, record.outcome, record.extra, record.omissions
    usage = outcome.usage or _NO_USAGE
    seen = record.known_assembly
    prompt = _NO_PROMPT if seen is None else seen
    is_step = not extra.auxiliary
    row = {
        "record_id": record.id,
        "session_id": record.session_id,
        "turn": record.turn if is_step else None,
        "step": record.step if is_step else None,
        "attempt": record.attempt if is_step else None,
        "started_at": record.started_at_ms,
        "auxiliary": extra.auxiliary,
        "provider": request.provider,
        "model": request.model,
        "reasoning_effort": request.reasoning_effort,
        "temperature": request.temperature,
        "max_tokens": as_integer(request.max_tokens),
        "stop_sequences": request.stop_count,
        "messages": request.messages.total,
        "messages_by_role": _counts(request.messages.by_role),
        "messages_by_source": _counts(request.messages.by_source),
        "blocks_by_type": _counts(request.messages.by_block_type),
        "system_characters": request.system_characters,
        "tools": len(request.tools),
        "schema_nodes": sum(tool.parameter_nodes for tool in request.tools),
        "prompt_sections": None if seen is None else len(prompt.sections),
        "prompt_contexts": None if seen is None else len(prompt.contexts),
        "prompt_variables": None if seen is None else len(prompt.variables),
        "prompt_characters": None if seen is None else _characters(prompt),
        "prompt_kept": None if seen is None else record.prompt_assembly is None,
        "outcome_kind": outcome.kind,
        "finish_kind": outcome.finish,
        "error_kind": outcome.error,
        "incomplete_reason": outcome.reason,
        "error_code": extra.error_code,
        "error_status": extra.http_status,
        "aborted_by": extra.aborted,
        "ended_by": extra.ended_by,
        "first_chunk_ms": outcome.first_chunk_ms,
        "duration_ms": outcome.total_ms,
        **{name: as_integer(getattr(usage, name)) for name in TOKENS},
        "request_omissions": omissions.request_count,
        "prompt_omissions": omissions.prompt_count,
    }
    assert len(row) == len(FLIGHTS), "a value for each column"  # noqa: S101
    return row


def _health(path: Path, found: Flights) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(field.name for field in FLIGHT_HEALTH)
    row |= {"records": len(found.records), "auxiliary_records": len(found.auxiliary), "torn_bytes": found.torn_bytes}
    if found.snapshot is None:
        return row | {"kind": "log", "bytes": sum(each.stat().st_size for each in _files(path))}
    health = found.snapshot.health
    misses = {name: health.correlation_misses_by_reason[reason] for reason, name in MISSES.items()}
    counts = {name: getattr(health, name) for name in row if hasattr(health, name)}
    revision = found.snapshot.revision
    return row | {"kind": "snapshot", "revision": revision, "bytes": path.stat().st_size, **counts, **misses}


def _files(log: Path) -> Iterator[Path]:
    """A log and its full files."""
    number = 0
    while (path := rotated(log, number)).is_file():
        yield path
        number += 1


def _counts(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """A map's entries; names that are the same once they are escaped are counted together."""
    told: Counter[str] = Counter()
    for name, count in counts.items():
        told[arrow_text(name)] += count
    return list(told.items())


def _characters(prompt: PromptAssembly) -> int:
    parts: Iterable[Any] = (*prompt.sections, *prompt.contexts)
    return sum(part.characters for part in parts)


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""
