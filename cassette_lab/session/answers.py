"""The calls that a session's model answered, found in its rows: what was streamed in each, and how it ended.

``derive_replay_script`` reads the chunk events of formats 0 and 1, ``derive_stream_script`` the streams that messages and
attempts carry since format 2. A call that ended without its ``finish`` chunk was thrown, cancelled or cut off; no log says how
it would end again, so that it needs an override (``overrides``), or a rule for all of them (``Unfinished``).

Source: session logs, Stream replay (derive).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from cassette_lab.contracts import StreamChunk
from cassette_lab.errors import FormatError
from cassette_lab.jsonio import number_text
from cassette_lab.session.chunks import Chunk, RowError, read_stream
from cassette_lab.session.entries import CallChunks, Chunks, ChunksEntry, HangEntry, ReplayEntry, ThrowEntry
from cassette_lab.session.fixtures import StoredRow
from cassette_lab.session.model import CHUNK_TYPE, ChunkRun, Event
from cassette_lab.session.quick import DeltaRow

ScriptRow: TypeAlias = StoredRow | Event
"""A row that calls are derived from: of a fixture, or as the reader gives it."""

Unfinished: TypeAlias = Literal["raise", "throw", "hang", "skip"]
"""What becomes of a call that the log has no end of.

``"raise"``: it is an error, as the format's own replay has it. ``"throw"``: the call streams what was recorded and fails
with the code ``STREAM_CLOSED``. ``"hang"``: it begins to answer and waits to be cancelled. ``"skip"``: it is left out, and
the next call takes its place. Except with ``"raise"`` a log that a crash tore is read up to its last whole line, and the end
of a step or a turn, or a retry, ends a call, too.
"""


def derive_replay_script(
    rows: Iterable[ScriptRow], *, path: str | Path | None = None, unfinished: Unfinished = "raise"
) -> list[ReplayEntry]:
    """The calls of a session of format 0 or 1: one entry for each, in order.

    A call is the run of chunks up to its ``finish``. A summary that a local call made counts as one, at its place.
    Raises ``FormatError`` with the code ``MISSING_FINISH`` where a call is left without its end (by a new turn or step, a
    summary, or the log's end), ``SUMMARY_WITHOUT_OUTPUT``, or ``TYPE_ERROR`` for an event that is not what it should be.
    """
    entries: list[ReplayEntry] = []
    call = CallChunks()
    place = ""
    closing = (_SUMMARY,) if unfinished == "raise" else _CLOSING
    last_turn: Any = call  # no turn of a log
    last_step: Any = call
    turn: Any
    step: Any
    chunk: Any
    for row in rows:
        if is_delta := isinstance(row, DeltaRow):
            turn, step, chunk = row.data.turn, row.data.step, row.data.chunk
        elif isinstance(row, ChunkRun):
            turn, step, chunk = row.turn, row.step, row
        else:
            kind, data = (row.get("type"), row.get("data")) if isinstance(row, dict) else (row.type, row.data)
            if kind != CHUNK_TYPE:
                if kind in closing:
                    entries += _left_open(call, place, path, unfinished)
                    if kind == _SUMMARY:
                        entries += _summary_call(data, path)
                continue
            if not isinstance(data, dict):
                raise _type_error("an assistant/chunk event has no data", path)
            turn, step, chunk = data.get("turn", _UNDEFINED), data.get("step", _UNDEFINED), data.get("chunk")
        if not (_is_same(turn, last_turn) and _is_same(step, last_step)):
            last_turn, last_step = turn, step
            here = f"{_key(turn)}/{_key(step)}"
            if here != place:
                entries += _left_open(call, place, path, unfinished)
                place = here
        if is_delta:
            call.add_delta(chunk)
        elif chunk is None:
            raise _type_error("an assistant/chunk event has no chunk", path)
        elif call.add(chunk):
            entries.append(ChunksEntry(call.close()))
    return entries + _left_open(call, place, path, unfinished)


def derive_stream_script(
    rows: Iterable[ScriptRow], *, path: str | Path | None = None, unfinished: Unfinished = "raise"
) -> list[ReplayEntry]:
    """The calls of a session of format 2 or later: one entry for each message and attempt with chunks, in order.

    Raises ``FormatError`` as ``derive_replay_script`` does, and with the code ``MALFORMED_ROW`` for a broken stream.
    """
    entries: list[ReplayEntry] = []
    for row in rows:
        if isinstance(row, (ChunkRun, DeltaRow)):
            continue
        kind, data = (row.type, row.data) if isinstance(row, Event) else (row.get("type"), row.get("data"))
        if kind == _SUMMARY:
            entries.extend(_summary_call(data, path))
        elif kind in _SETTLEMENTS:
            if not isinstance(data, dict):
                raise _type_error(f"an {kind} event has no data", path)
            try:
                items = list(read_stream(data.get("stream")))
            except RowError as error:
                raise FormatError(str(error), code="MALFORMED_ROW", path=path, field=error.field) from None
            pieces = [item.chunk if isinstance(item, Chunk) else item for item in items]
            last = pieces[-1] if pieces else None
            if isinstance(last, dict) and last.get("type") == _FINISH:
                entries.append(ChunksEntry(Chunks(pieces)))
            elif pieces:
                place = f"{_key(data.get('turn', _UNDEFINED))}/{_key(data.get('step', _UNDEFINED))}"
                entries += _unfinished(Chunks(pieces), place, path, unfinished)
    return entries


_SUMMARY: Final = "compaction/summary"
_CLOSING: Final = (_SUMMARY, "llm/retry", "step/end", "turn/end")
_SETTLEMENTS: Final = ("assistant/message", "assistant/attempt")
_FINISH: Final = "finish"
_UNDEFINED: Final = object()


def _left_open(call: CallChunks, place: str, path: str | Path | None, unfinished: Unfinished) -> list[ReplayEntry]:
    return _unfinished(call.close(), place, path, unfinished) if call else []


def _unfinished(chunks: Chunks, place: str, path: str | Path | None, unfinished: Unfinished) -> list[ReplayEntry]:
    if unfinished == "raise":
        raise FormatError(
            f"the model call in turn/step {place} ended without a finish chunk: its stream was thrown, cancelled or cut off; "
            "say in an override file how it ends, or of all such calls by the option unfinished (throw, hang or skip)",
            code="MISSING_FINISH",
            path=path,
        )
    if unfinished == "throw":
        return [ThrowEntry(chunks, "the recorded stream ended here, without a finish", "STREAM_CLOSED")]
    return [HangEntry()] if unfinished == "hang" else []


def _summary_call(data: Any, path: str | Path | None) -> list[ReplayEntry]:
    """The call behind a summary: none, unless it is marked as one."""
    if data is None:
        raise _type_error("a compaction/summary event has no data", path)
    if not isinstance(data, dict) or data.get("llmStreamCall") is not True:
        return []
    if "rawOutput" not in data:
        raise FormatError(
            "a compaction/summary is marked as a model call and has no rawOutput", code="SUMMARY_WITHOUT_OUTPUT", path=path
        )
    output = data["rawOutput"]
    if not isinstance(output, list) or None in output:
        raise _type_error("the rawOutput of a compaction/summary is no array of blocks", path)
    chunks: list[StreamChunk] = []
    for index, block in enumerate(output):
        start: StreamChunk = {"type": "block-start", "index": index}
        if isinstance(block, dict) and "type" in block:
            start["blockType"] = block["type"]
        chunks += (start, {"type": "block-end", "index": index, "block": block})
    if "usage" in data:
        chunks.append({"type": "usage", "usage": data["usage"]})
    chunks.append({"type": _FINISH, "reason": {"kind": "stop"}})
    return [ChunksEntry(Chunks(chunks))]


def _is_same(value: Any, before: Any) -> bool:
    """Whether ``_key`` is the same, as far as that is quickly told."""
    return value is before or (type(value) is int and type(before) is int and value == before)


def _key(value: Any) -> str:
    """A turn or step as JavaScript writes it into a text: what it takes for equal there counts as equal."""
    if isinstance(value, str):
        return value
    if value is None or value is _UNDEFINED:
        return "null" if value is None else "undefined"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return number_text(value or 0) if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return ",".join("" if item is None else _key(item) for item in value)
    return "[object Object]"


def _type_error(sentence: str, path: str | Path | None) -> FormatError:
    return FormatError(sentence, code="TYPE_ERROR", path=path)
