"""What the kinds of flight vectors share: their files, and records of their JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cassette_lab.flight.members import record_from_json, snapshot_from_json
from cassette_lab.flight.model import CAPABILITIES, FlightRecord, Health
from cassette_lab.jsonio import JsonObject, parse
from tests.conformance.files import file_bytes

_INFO = {"protocolVersion": 1, "recordSchemaVersion": 1, "capabilities": list(CAPABILITIES)}


def document(path: Path) -> JsonObject:
    """The JSON object in a file, which may be packed; an empty one where there is no such file."""
    there = path.is_file() or path.with_name(f"{path.name}.gz").is_file()
    value: JsonObject = parse(file_bytes(path)) if there else {}
    return value


def records(values: Iterable[Mapping[str, Any]]) -> tuple[FlightRecord, ...]:
    return tuple(map(record_from_json, values))


def health(value: Mapping[str, Any]) -> Health:
    return snapshot_from_json({"info": _INFO, "revision": 0, "health": value, "records": []}).health
