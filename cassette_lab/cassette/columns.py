"""The calls of a cassette as an Arrow table: its schema, the projection of one file, and its exact reference.

``CALLS`` is the table every report, diff and chart works on; it holds no prompt, output or error message. Columns of
``BODIES`` come on top where they are asked for. ``project_cassette`` makes the projection from checked objects, one
call at a time; the fast load in ``scan`` must give the same table for the same file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from cassette_lab.cassette.identity import request_metadata
from cassette_lab.cassette.model import (
    OUTCOME_KINDS,
    STOP_REASON_CATEGORIES,
    Cassette,
    Header,
    Interaction,
    stop_reason_category,
)
from cassette_lab.jsonio import canonical, digest
from cassette_lab.jsonio.dates import LAST_MS, date_parse_ms
from cassette_lab.jsonio.text import arrow_text

WORD: Final = pa.dictionary(pa.int8(), pa.string())
"""Type of a bounded vocabulary."""

TIME: Final = pa.timestamp("ms", "UTC")


def column(name: str, kind: pa.DataType, doc: str, unit: str | None = None) -> pa.Field:
    """A field that says what it means: ``doc`` (a phrase) and, where there is one, ``unit`` in its metadata."""
    metadata = {"doc": doc} if unit is None else {"doc": doc, "unit": unit}
    return pa.field(name, kind, metadata=metadata)


CALLS: Final = pa.schema(
    [
        column("sequence", pa.int64(), "order in which the calls were admitted, from 1"),
        column("line", pa.int64(), "physical line of the file, from 1"),
        column("call_key", pa.string(), "readable key of the call, unique in its file"),
        column("parent_key", pa.string(), "key of the call whose agent made this one; root for the root agent"),
        column("depth", pa.int64(), "nesting depth by the parent key: 1 for a call of the root agent", "levels"),
        column("label", pa.string(), "label of the request; null without one"),
        column("parent_context_fingerprint", pa.string(), "digest of what the parent agent could be seen to be"),
        column("request_fingerprint", pa.string(), "digest of the request before redaction"),
        column("occurrence", pa.int64(), "number of the call among those of equal parent, context and request, from 1"),
        column("started_at", TIME, "when the call was admitted; null where that is no date of the years 1 to 9999", "ms"),
        column("start_latency_ms", pa.float64(), "admission until the upstream had started (or failed to)", "ms"),
        column("duration_ms", pa.float64(), "admission until the outcome", "ms"),
        column("signal_aborted_at_ms", pa.float64(), "admission until the caller's abort; null without one", "ms"),
        column("dispose_called_at_ms", pa.float64(), "admission until dispose, where it came before the outcome", "ms"),
        column("published", pa.bool_(), "whether a run was handed to the caller"),
        column("local", pa.bool_(), "whether the child agent lived in the same process"),
        column("outcome_kind", WORD, f"one of {', '.join(OUTCOME_KINDS)}"),
        column("stop_reason", WORD, f"one of {', '.join(STOP_REASON_CATEGORIES)}; null for an error"),
        column("outcome_fingerprint", pa.string(), "digest of the outcome as it is stored"),
        column("redactions", pa.int64(), "substitutions made in the stored result; null for an error", "substitutions"),
        column("error_name", pa.string(), "name of the error; null for a result"),
        column("error_code", pa.string(), "code of the error; null without one"),
        column("prompt_blocks", pa.int64(), "content blocks of the prompt", "blocks"),
        column("prompt_bytes", pa.int64(), "canonical JSON of the prompt (as stored, where the request is)", "bytes"),
        column("has_output_schema", pa.bool_(), "whether the request asks for structured output"),
        column("has_persona", pa.bool_(), "whether the request names a persona"),
        column("max_depth", pa.int64(), "delegation depth the request allows; null without a limit", "levels"),
        column("child_provider", pa.string(), "model provider the request asks for; null without one"),
        column("child_model", pa.string(), "model the request asks for; null without one"),
        column("tools_allow", pa.list_(pa.string()), "tools the child may use; null without such a list"),
        column("tools_deny", pa.list_(pa.string()), "tools the child may not use; null without such a list"),
        column("output_blocks", pa.int64(), "content blocks of the result; null for an error", "blocks"),
        column("output_bytes", pa.int64(), "canonical JSON of the result's blocks; null for an error", "bytes"),
    ]
)  # fmt: skip
"""One row per recorded call. Metadata only. Unknown is null, never 0."""

BODIES: Final = pa.schema(
    [
        column("prompt", pa.string(), "prompt blocks as canonical JSON; null where only metadata is stored"),
        column("output", pa.string(), "result blocks as canonical JSON; null for an error"),
        column("structured", pa.string(), "structured result as canonical JSON; null without one"),
        column("error_message", pa.string(), "message of the error; null for a result"),
    ]
)
"""What the calls said: only where it was asked for."""

_VOCABULARIES: Final[dict[str, Sequence[str]]] = {"outcome_kind": OUTCOME_KINDS, "stop_reason": STOP_REASON_CATEGORIES}

RawTexts: TypeAlias = Mapping[str, Mapping[int, Any]]
"""Values that Arrow cannot hold as they are (lone surrogates): column name, then row number, then text or texts."""


def calls_schema(*, bodies: bool = False) -> pa.Schema:
    """Schema of a projection's calls, with or without the columns of ``BODIES``."""
    return pa.schema([*CALLS, *BODIES]) if bodies else CALLS


@dataclass(frozen=True)
class Projection:
    r"""One verified cassette as a header and a table.

    ``calls`` has the schema ``calls_schema()``, rows in physical order. ``last_hash`` is the hash of the last record.
    ``raw_texts`` holds the exact form of texts with lone surrogates, which stand escaped (``\udxxx``) in the table.
    """

    header: Header
    calls: pa.Table
    last_hash: str
    path: str | None = None
    size_bytes: int = 0
    raw_texts: RawTexts = field(default_factory=dict)
    _file_sha256: str = ""

    @cached_property
    def file_sha256(self) -> str:
        """``sha256:`` and hex digits over the whole file; read now if it is not known yet. Empty without a file."""
        if self._file_sha256 or self.path is None:
            return self._file_sha256
        with open(self.path, "rb") as file:  # noqa: PTH123 - the path is as the caller gave it
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()

    def raw(self, name: str) -> list[Any]:
        """The values of one column in row order, texts exactly as in the file (lone surrogates restored)."""
        values: list[Any] = self.calls[name].to_pylist()
        for row, text in self.raw_texts.get(name, {}).items():
            values[row] = text
        return values


def project_cassette(cassette: Cassette, *, bodies: bool = False) -> Projection:
    """The projection of a cassette that is already read: the reference the fast load is held to."""
    batch, raw_texts = interactions_batch(cassette.interactions, bodies=bodies)
    return Projection(
        header=cassette.header,
        calls=pa.Table.from_batches([batch]),
        last_hash=cassette.interactions[-1].hash if cassette.interactions else cassette.header.hash,
        path=cassette.path,
        size_bytes=cassette.size_bytes,
        raw_texts=raw_texts,
        _file_sha256=cassette.file_sha256,
    )


def interactions_batch(interactions: Sequence[Interaction], *, bodies: bool = False) -> tuple[pa.RecordBatch, RawTexts]:
    """Rows of ``calls_schema(bodies=bodies)`` for checked interactions, and the texts that had to be escaped."""
    rows = [_row(interaction, bodies=bodies) for interaction in interactions]
    raw_texts: dict[str, dict[int, Any]] = {}
    arrays = []
    for each in calls_schema(bodies=bodies):
        values = [row.get(each.name) for row in rows]
        if each.name in _VOCABULARIES:
            words = _VOCABULARIES[each.name]
            arrays.append(word_array([None if word is None else words.index(word) for word in values], words))
            continue
        try:
            arrays.append(pa.array(values, each.type))
        except UnicodeEncodeError:
            shown = [_escaped(value) for value in values]
            raw_texts[each.name] = {row: value for row, value in enumerate(values) if value != shown[row]}
            arrays.append(pa.array(shown, each.type))
    return pa.RecordBatch.from_arrays(arrays, schema=calls_schema(bodies=bodies)), raw_texts


def word_array(values: Any, vocabulary: Sequence[str], mask: Any = None) -> pa.DictionaryArray:
    """A column of a bounded vocabulary from indices into it; always with the whole vocabulary, so that parts join."""
    return pa.DictionaryArray.from_arrays(pa.array(values, pa.int8(), mask=mask), pa.array(vocabulary, pa.string()))


def call_depth(parent_key: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Depth of calls with these parent keys. A call key is its parent's key, a slash and a part without slashes."""
    return pc.add(pc.count_substring(parent_key, "/").cast(pa.int64()), 1)


def time_ms(text: str) -> int | None:
    """A recorded time as milliseconds since 1970; None where the text is no date of the years 1 to 9999.

    Cassettes may hold others, but Python's dates cannot.
    """
    value = date_parse_ms(text)
    return value if value is not None and _FIRST_MS <= value <= LAST_MS else None


_FIRST_MS: Final = -62_135_596_800_000


def _row(interaction: Interaction, *, bodies: bool) -> dict[str, Any]:
    timing, outcome, request = interaction.timing, interaction.outcome, interaction.request
    metadata = request.metadata if request.metadata is not None else request_metadata(request.value or {})
    tools = metadata.tool_filter or {}
    row: dict[str, Any] = {
        "sequence": interaction.sequence,
        "line": interaction.line,
        "call_key": interaction.call_key,
        "parent_key": interaction.parent_key,
        "depth": interaction.parent_key.count("/") + 1,
        "label": metadata.label,
        "parent_context_fingerprint": interaction.parent_context_fingerprint,
        "request_fingerprint": interaction.request_fingerprint,
        "occurrence": interaction.occurrence,
        "started_at": time_ms(timing.started_at),
        "start_latency_ms": float(timing.start_latency_ms),
        "duration_ms": float(timing.duration_ms),
        "signal_aborted_at_ms": _float(timing.signal_aborted_at_ms),
        "dispose_called_at_ms": _float(timing.dispose_called_at_ms),
        "published": interaction.published,
        "local": interaction.local,
        "outcome_kind": outcome.kind,
        "outcome_fingerprint": digest(outcome.to_json()),
        "prompt_blocks": metadata.prompt_blocks,
        "prompt_bytes": metadata.prompt_bytes,
        "has_output_schema": metadata.has_output_schema,
        "has_persona": metadata.has_persona,
        "max_depth": metadata.max_depth,
        "child_provider": metadata.child_provider,
        "child_model": metadata.child_model,
        "tools_allow": tools.get("allow"),
        "tools_deny": tools.get("deny"),
    }
    if outcome.result is not None:
        output = canonical(outcome.result["output"])
        row |= {
            "stop_reason": stop_reason_category(outcome.result["stopReason"]),
            "redactions": outcome.redactions,
            "output_blocks": len(outcome.result["output"]),
            "output_bytes": len(output),
        }
        if bodies:
            row["output"] = output.decode()
            if "structured" in outcome.result:
                row["structured"] = canonical(outcome.result["structured"]).decode()
    if outcome.error is not None:
        row |= {"error_name": outcome.error.name, "error_code": outcome.error.code}
        if bodies:
            row["error_message"] = outcome.error.message
    if bodies and request.value is not None:
        row["prompt"] = canonical(request.value["prompt"]).decode()
    return row


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _escaped(value: Any) -> Any:
    if isinstance(value, list):
        return [arrow_text(text) for text in value]
    return None if value is None else arrow_text(value)
