"""What a recorded folder holds of each session: its model calls, how they ended, and what they were asked with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from cassette_lab.contracts import StreamChunk
from cassette_lab.errors import ConfigError, FormatError
from cassette_lab.host.harness.trace import read_trace
from cassette_lab.jsonio import JsonObject
from cassette_lab.jsonio.text import show
from cassette_lab.session.answers import derive_stream_script
from cassette_lab.session.chunks import Chunk, RowError, read_stream
from cassette_lab.session.finding import find_logs
from cassette_lab.session.model import SessionLog
from cassette_lab.session.reader import read_session

SESSIONS: Final = "sessions"
TRACE: Final = "trace.jsonl"


@dataclass(slots=True)
class RecordedCall:
    """One model call. ``chunks`` without a finish are those of a call that was cancelled: it waits, again, for that.

    ``digests`` is what the trace tells of its request; ``rank`` its place among all calls by when they ended, and ``gap_ms``
    how long before that another session's call had ended. Without a trace there are none.
    """

    chunks: list[StreamChunk]
    digests: Mapping[str, Any] | None = None
    rank: int | None = None
    gap_ms: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Whether it came to its end."""
        return bool(self.chunks) and self.chunks[-1].get("type") == "finish"


@dataclass(slots=True)
class RecordedSession:
    """A recorded session: its calls, and (in a replay) the live session that plays it and the number of calls made."""

    id: str
    parent: str | None
    cwd: str | None
    created_at: float
    calls: list[RecordedCall]
    live_id: str | None = field(default=None, compare=False)
    cursor: int = field(default=0, compare=False)


def load_sessions(folder: Path) -> list[RecordedSession]:
    """The sessions of a recorded folder, the oldest first, with what its trace tells if it has one.

    Raises ``ConfigError`` where there is no session log, and ``FormatError`` for logs and traces that cannot be read.
    """
    logs = [read_session(found.path) for found in find_logs(folder / SESSIONS)] if (folder / SESSIONS).is_dir() else []
    if not logs:
        raise ConfigError("there is no recorded run of the harness here: record one first", path=folder)
    sessions = [_session(log) for log in logs]
    if (folder / TRACE).exists():
        _add_trace({session.id: session for session in sessions}, read_trace(folder / TRACE))
    return sorted(sessions, key=lambda session: session.created_at)


def _session(log: SessionLog) -> RecordedSession:
    header = log.header
    return RecordedSession(header.id, header.parent_session, header.cwd, header.created_at or 0, list(_calls(log)))


def _calls(log: SessionLog) -> Iterator[RecordedCall]:
    """The session's own calls, also those that were cut off, which a script of a log refuses."""
    for row in log.own_rows():
        kind, data = getattr(row, "type", None), getattr(row, "data", None)
        if kind == "compaction/summary":
            yield from (RecordedCall(list(entry.chunks)) for entry in derive_stream_script([row], path=log.path))  # type: ignore[union-attr]
        elif kind in ("assistant/message", "assistant/attempt") and isinstance(data, dict):
            chunks: list[StreamChunk] = []
            try:
                for item in read_stream(data.get("stream")):
                    chunks += [item.chunk] if isinstance(item, Chunk) else map(item.chunk, item.texts)
            except RowError as error:
                raise FormatError(str(error), code="MALFORMED_ROW", path=log.path, field=error.field) from None
            yield RecordedCall(chunks)


def _add_trace(sessions: Mapping[str, RecordedSession], trace: Iterator[JsonObject]) -> None:
    streams: dict[Any, RecordedCall] = {}
    met: dict[str, int] = {}
    ended: list[tuple[float, str, RecordedCall]] = []
    owners: dict[Any, str] = {}
    for event in trace:
        kind, stream = event.get("e"), event.get("stream")
        if kind == "stream" and is_logged(event):
            session_id = str(event.get("sessionId"))
            place = met[session_id] = met.get(session_id, -1) + 1
            session = sessions.get(session_id)
            if session is not None and place < len(session.calls):
                call = streams[stream] = session.calls[place]
                owners[stream] = session_id
                call.digests = request_of(event)
        elif kind in ("done", "threw", "return", "throw-in") and stream in streams:
            ended.append((float(event.get("t") or 0), owners[stream], streams.pop(stream)))
    before = (0.0, "")
    for rank, (time, owner, call) in enumerate(ended):
        call.rank = rank
        call.gap_ms = time - before[0] if before[1] not in ("", owner) else 0.0
        before = (time, owner)


def is_logged(event: JsonObject) -> bool:
    """Whether the call of this event is in the log: steps and compactions are, titles and the like are not."""
    return event.get("marked") is True or (event.get("options") or {}).get("purpose") == "compaction"


def request_of(event: JsonObject) -> JsonObject:
    """What an event of a trace tells of a request, so that two can be compared: digests, and the model that was asked."""
    options = event.get("options") or {}
    return {**(event.get("digests") or {}), **{name: options[name] for name in ("provider", "model") if name in options}}


def route_of(folder: Path) -> dict[str, str]:
    """The provider and the model that a recording asked first; nothing where it has no trace."""
    if not (folder / TRACE).exists():
        return {}
    steps = (event for event in read_trace(folder / TRACE) if event.get("e") == "stream" and is_logged(event))
    asked = next(map(request_of, steps), {})
    return {name: asked[name] for name in ("provider", "model") if isinstance(asked.get(name), str)}


def difference(recorded: Mapping[str, Any], live: Mapping[str, Any]) -> str | None:
    """What is different in a request; None if nothing is."""
    before, now = list(recorded.get("messages") or ()), list(live.get("messages") or ())
    for number, (old, new) in enumerate(zip(before, now, strict=False), 1):
        if old != new:
            role = new[0] if new[0] == old[0] else f"{new[0]} instead of {old[0]}"
            call_id = f" result of {show(str(new[2]))}" if new[2:] and new[0] == old[0] else ""
            return f"message {number} ({role}{call_id}) is not the recorded one"
    if len(before) != len(now):
        return f"the request has {len(now)} messages instead of {len(before)}"
    if recorded.get("tools") != live.get("tools"):
        return "the tools are not the recorded ones"
    asked, asks = [" / ".join(str(request.get(name)) for name in ("provider", "model")) for request in (recorded, live)]
    return None if asked == asks else f"the model is {show(asks)} instead of {show(asked)}"


def with_live_names(chunks: list[StreamChunk], names: Mapping[str, str]) -> list[StreamChunk]:
    """The chunks with these names put in place of the recorded ones.

    A name may be cut by the borders of the deltas, so that the deltas of a block that has one become a single delta.
    """
    touched: dict[Any, str] = {}
    for chunk in chunks:
        if chunk.get("type") == "block-end" and any(name in json.dumps(chunk.get("block")) for name in names):
            block = chunk.get("block") or {}
            touched[chunk.get("index")] = _renamed(str(block.get("arguments", block.get("text", ""))), names)
    if not touched:
        return chunks
    result: list[StreamChunk] = []
    begun: set[Any] = set()
    for chunk in chunks:
        index, kind = chunk.get("index"), str(chunk.get("type"))
        if index not in touched:
            result.append(chunk)
        elif kind.endswith("-delta"):
            member = "argumentsDelta" if kind == "tool-call-delta" else "text"
            if index not in begun:
                begun.add(index)
                result.append({**chunk, member: touched[index]})
        elif kind == "block-end":
            block = chunk["block"]
            member = "arguments" if "arguments" in block else "text"
            result.append({**chunk, "block": {**block, member: touched[index]}})
        else:
            result.append(chunk)
    return result


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for name, live in names.items():
        text = text.replace(name, live)
    return text
