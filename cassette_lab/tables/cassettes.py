"""A cassette file as rows: one of ``cassettes``, and its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from cassette_lab.cassette.columns import Projection, time_ms
from cassette_lab.cassette.model import HEADER_KIND, TARGET
from cassette_lab.cassette.scan import project
from cassette_lab.cassette.summary import summary
from cassette_lab.jsonio.text import arrow_text
from cassette_lab.tables.schemas import CASSETTES

SUFFIX: Final = ".cassette.jsonl"
_HEAD_BYTES: Final = 1 << 14


def found_in_folder(path: Path) -> bool:
    """A file named ``*.cassette.jsonl``; also a ``*.jsonl`` that begins with a cassette's header."""
    if path.name.endswith(SUFFIX):
        return True
    if path.suffix != ".jsonl":
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES).lstrip().partition(b"\n")[0]
    except OSError:
        return False
    return f'"{HEADER_KIND}"'.encode() in head


def build(
    path: Path,
    *,
    bodies: bool = False,
    workers: int = 1,
    collect: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of a cassette. Raises ``FormatError`` before the first one if it cannot be verified to its end."""
    del collect, progress  # a cassette is accepted as a whole or not at all
    projection = project(path, workers=workers, bodies=bodies, digest=True)
    yield "cassettes", pa.RecordBatch.from_pylist([row_of(projection)], schema=pa.schema(CASSETTES))
    for batch in projection.calls.to_batches():
        yield "calls", batch


def row_of(projection: Projection) -> dict[str, Any]:
    """The row of ``cassettes`` of a verified file."""
    header, document = projection.header, summary(projection)
    provider = header.provider
    can = provider.capabilities
    return {
        "cassette_id": arrow_text(header.cassette_id),
        "created_at": time_ms(header.created_at),
        "target": TARGET["dshSubagent"],
        "provider": arrow_text(provider.cassette),
        "upstream": arrow_text(provider.upstream),
        "supports_output_schema": can.output_schema,
        "supports_depth_limit": can.depth_limit,
        "supports_tool_filter": can.tool_filter,
        "supports_persona": can.persona,
        "inherits_parent_context": provider.inherits_parent_context,
        "request_storage": header.request_storage,
        "redact_secrets": header.redact_secrets,
        "redaction_patterns": [arrow_text(pattern) for pattern in header.redaction_patterns],
        "interactions": document["interactions"],
        "completed": document["completed"],
        "failed": document["failed"],
        "aborted": document["aborted"],
        "ambiguous_groups": document["ambiguousGroups"],
        "redacted_results": document["redactedResults"],
        "duration_ms": float(document["durationMs"]) if document["interactions"] else None,
        "bytes": projection.size_bytes,
        "file_sha256": projection.file_sha256,
    }
