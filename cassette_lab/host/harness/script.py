"""What a recorded harness run answers to a live one, and where the two differ.

The model's answers come from the session logs, which is all that a replay needs. The digests of the recorded requests, where
there is a trace, say whether a live request is the same, whatever its ids and wherever it runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cassette_lab.contracts import StreamChunk
from cassette_lab.errors import ConfigError, MismatchError
from cassette_lab.host.harness.trace import read_trace
from cassette_lab.jsonio import JsonObject
from cassette_lab.session.entries import ChunksEntry, ReplayEntry
from cassette_lab.session.finding import find_logs
from cassette_lab.session.reader import read_session
from cassette_lab.session.scripts import script_of_log

DepartureKind: TypeAlias = Literal["changed-request", "extra-call", "extra-session", "missing-calls", "missing-session"]


@dataclass(frozen=True, slots=True)
class Departure:
    """One place where a run is not as it was recorded. ``call`` counts the calls of the recorded session, from 1."""

    kind: DepartureKind
    session_id: str
    call: int
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(slots=True)
class RecordedSession:
    """A recorded session: its answers, the digests of its requests as far as there are, and how far a live one has come."""

    id: str
    parent: str | None
    cwd: str | None
    created_at: float
    entries: Sequence[ReplayEntry]
    digests: list[Mapping[str, Any]] = field(default_factory=list)
    live_id: str | None = None
    cursor: int = 0


class HarnessScript:
    """The plugin's partner in a replay: gets its events, gives the chunks of each call. Used by one thread at a time."""

    def __init__(self, sessions: Iterable[RecordedSession], *, cwd: str | Path | None = None) -> None:
        self.sessions = {session.id: session for session in sorted(sessions, key=lambda session: session.created_at)}
        self._cwd = None if cwd is None else str(cwd)
        self._parents: dict[str, str] = {}
        self._departures: list[Departure] = []
        self._strangers: set[str] = set()

    def hear(self, event: JsonObject) -> JsonObject | None:
        """An event of the live run; a stream is answered."""
        if event.get("e") == "request":
            session_id, parent = event.get("session"), event.get("parent")
            if isinstance(session_id, str) and isinstance(parent, str):
                self._parents[session_id] = parent
        if event.get("e") != "stream":
            return None
        answer = self._answer(str(event.get("sessionId")), event.get("digests") or {})
        return {"stream": event.get("stream"), **answer}

    def departures(self) -> list[Departure]:
        """Where the run departed so far; what is missing counts as if it were over."""
        missing = []
        for session in self.sessions.values():
            left = len(session.entries) - session.cursor
            if session.live_id is None and left:
                sentence = f"the recorded session {session.id} was not run ({_calls(left)})"
                missing.append(Departure("missing-session", session.id, 1, sentence))
            elif left:
                sentence = f"session {session.id} ended {_calls(left)} before the recorded one, after call {session.cursor}"
                missing.append(Departure("missing-calls", session.id, session.cursor + 1, sentence))
        return [*self._departures, *missing]

    def assert_as_recorded(self) -> None:
        """Raise ``MismatchError`` unless the run was the recorded one."""
        found = self.departures()
        if found:
            more = f" (and {len(found) - 1} more departures)" if len(found) > 1 else ""
            reason = {"reason": found[0].kind, "departures": [str(departure) for departure in found]}
            raise MismatchError(f"the run departed from the recording: {found[0]}{more}", diagnostic=reason)

    def _answer(self, live_id: str, digests: Mapping[str, Any]) -> JsonObject:
        session = self._bound(live_id, digests)
        if session is None:
            if live_id not in self._strangers:
                self._strangers.add(live_id)
                self._depart("extra-session", live_id, 1, f"session {live_id} is not in the recording")
            return _refusal("this session is not in the recording")
        place = session.cursor
        if place >= len(session.entries):
            total = len(session.entries)
            self._depart(
                "extra-call", session.id, place + 1, f"session {session.id} asks for a call more than the recorded {total}"
            )
            return _refusal(f"the recording has only {_calls(total)} of this session")
        session.cursor += 1
        if place < len(session.digests):
            changed = difference(session.digests[place], digests)
            if changed is not None:
                self._depart("changed-request", session.id, place + 1, f"call {place + 1} of session {session.id}: {changed}")
        entry = session.entries[place]
        if not isinstance(entry, ChunksEntry):
            return _refusal("the recording does not say how this call ended")
        return {"chunks": with_live_names(list(entry.chunks), self._names(session))}

    def _bound(self, live_id: str, digests: Mapping[str, Any]) -> RecordedSession | None:
        for session in self.sessions.values():
            if session.live_id == live_id:
                return session
        found = self.sessions.get(live_id)
        if found is None or found.live_id is not None:
            parent = self._parents.get(live_id)
            recorded_parent = next((other.id for other in self.sessions.values() if other.live_id == parent), None)
            free = [other for other in self.sessions.values() if other.live_id is None and other.parent == recorded_parent]
            alike = [other for other in free if other.digests and difference(other.digests[0], digests) is None]
            found = next(iter([*alike, *free]), None) if parent is None or recorded_parent is not None else None
        if found is not None:
            found.live_id = live_id
        return found

    def _names(self, session: RecordedSession) -> dict[str, str]:
        """What is called otherwise in the live run: its sessions, and the folder where it works."""
        names = {other.id: other.live_id for other in self.sessions.values() if other.live_id}
        if session.cwd and self._cwd and session.cwd != self._cwd:
            names[session.cwd] = self._cwd
        return {name: live for name, live in names.items() if name != live}

    def _depart(self, kind: DepartureKind, session_id: str, call: int, message: str) -> None:
        self._departures.append(Departure(kind, session_id, call, message))


def load_script(folder: str | Path, *, cwd: str | Path | None = None) -> HarnessScript:
    """The script of a recorded folder: its session logs, and its trace if it has one.

    Raises ``ConfigError`` where there is no session log, and what reading them raises: ``FormatError`` (code
    ``MISSING_FINISH``) for a call that was cut off.
    """
    folder = Path(folder)
    sessions = []
    for found in find_logs(folder / "sessions") if (folder / "sessions").is_dir() else ():
        log = read_session(found.path)
        header = log.header
        entries = script_of_log(log).entries
        sessions.append(RecordedSession(header.id, header.parent_session, header.cwd, header.created_at or 0, entries))
    if not sessions:
        raise ConfigError(f"there is no recorded harness run in {folder.name!r}: record one first", path=folder)
    script = HarnessScript(sessions, cwd=cwd)
    trace = folder / "trace.jsonl"
    if trace.exists():
        for event in read_trace(trace):
            session = script.sessions.get(str(event.get("sessionId")))
            if event.get("e") == "stream" and session is not None and _is_logged(event):
                session.digests.append(event.get("digests") or {})
    return script


def _is_logged(event: JsonObject) -> bool:
    """Whether the call of this event is in the log: steps and compactions are, titles and the like are not."""
    return event.get("marked") is True or (event.get("options") or {}).get("purpose") == "compaction"


def difference(recorded: Mapping[str, Any], live: Mapping[str, Any]) -> str | None:
    """What is different in a request; None if nothing is."""
    before, now = list(recorded.get("messages") or ()), list(live.get("messages") or ())
    for number, (old, new) in enumerate(zip(before, now, strict=False), 1):
        if old != new:
            role = new[0] if new[0] == old[0] else f"{new[0]} instead of {old[0]}"
            return f"message {number} ({role}) is not the recorded one"
    if len(before) != len(now):
        return f"the request has {len(now)} messages instead of {len(before)}"
    if recorded.get("tools") != live.get("tools"):
        return "the tools are not the recorded ones"
    return None


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


def _refusal(message: str) -> JsonObject:
    return {"error": {"message": message, "code": "REPLAY_DEPARTED"}}


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"
