"""What a recorded harness run answers to a live one, and where the two differ.

The model's answers come from the session logs, which is all that a replay needs. Where there is a trace, its digests say
whether a live request is the recorded one, whatever its ids and wherever it runs; and concurrent sessions are answered in
the order in which the recorded answers ended, so that who hears of whose end, and when, is the same again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from cassette_lab.errors import MismatchError
from cassette_lab.host.harness.channel import TICK
from cassette_lab.host.harness.recorded import (
    RecordedCall,
    RecordedSession,
    difference,
    load_sessions,
    request_of,
    with_live_names,
)
from cassette_lab.jsonio import JsonObject

DepartureKind: TypeAlias = Literal["changed-request", "extra-call", "extra-session", "missing-calls", "missing-session"]

PATIENCE_S: Final = 20.0
"""How long an answer waits for others that came before it. A run that has departed may never ask for those."""
DEPARTED_PATIENCE_S: Final = 1.0
LONGEST_GAP_MS: Final = 250.0
"""Of a pause between the answers of two sessions, so much is kept: time for the one to hear of the other's end."""


@dataclass(frozen=True, slots=True)
class Departure:
    """One place where a run is not as it was recorded. ``call`` counts the calls of the recorded session, from 1."""

    kind: DepartureKind
    session_id: str
    call: int
    message: str

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, slots=True)
class _Waiting:
    stream: Any
    rank: int
    answer: JsonObject


class HarnessScript:
    """The plugin's partner in a replay: gets its events, gives the answers that are due. Used by one thread at a time.

    ``cwd`` is where the live run works; the recorded folder's name in an answer becomes that. ``clock`` counts seconds.
    """

    def __init__(
        self, sessions: Iterable[RecordedSession], *, cwd: str | Path | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.sessions = {session.id: session for session in sessions}
        self._cwd = None if cwd is None else str(cwd)
        self._clock = clock
        self._last_heard = clock()
        self._parents: dict[str, str] = {}
        self._departures: list[Departure] = []
        self._strangers: set[str] = set()
        self._waiting: list[_Waiting] = []
        self._ranks: dict[Any, int] = {}
        self._ended: set[int] = set()

    def hear(self, event: JsonObject) -> list[JsonObject]:
        """An event of the live run; returns the answers that are due."""
        kind, stream = event.get("e"), event.get("stream")
        if event == TICK:
            return self._patience_lost()
        self._last_heard = self._clock()
        if kind == "request":
            session_id, parent = event.get("session"), event.get("parent")
            if isinstance(session_id, str) and isinstance(parent, str):
                self._parents[session_id] = parent
        elif kind == "stream":
            return self._asked(event)
        elif kind in ("done", "threw", "return", "throw-in") and stream in self._ranks:
            self._ended.add(self._ranks.pop(stream))
        return self._due()

    def departures(self) -> list[Departure]:
        """Where the run departed so far; what is missing counts as if it were over."""
        missing = []
        for session in self.sessions.values():
            left = len(session.calls) - session.cursor
            if session.live_id is None and left:
                sentence = f"the recorded session {session.id} was not run ({_count(left)})"
                missing.append(Departure("missing-session", session.id, 1, sentence))
            elif left:
                sentence = f"session {session.id} ended {_count(left)} before the recorded one, after call {session.cursor}"
                missing.append(Departure("missing-calls", session.id, session.cursor + 1, sentence))
        return [*self._departures, *missing]

    def assert_as_recorded(self) -> None:
        """Raise ``MismatchError`` unless the run was the recorded one."""
        found = self.departures()
        if found:
            more = f" (and {len(found) - 1} more departures)" if len(found) > 1 else ""
            reason = {"reason": found[0].kind, "departures": [str(departure) for departure in found]}
            raise MismatchError(f"the run departed from the recording: {found[0]}{more}", diagnostic=reason)

    # Which call it is

    def _asked(self, event: JsonObject) -> list[JsonObject]:
        stream, live_id = event.get("stream"), str(event.get("sessionId"))
        call = self._call(live_id, request_of(event))
        if isinstance(call, str):
            return [{"stream": stream, "error": {"message": call, "code": "REPLAY_DEPARTED"}}, *self._due()]
        answer: JsonObject = {
            "stream": stream,
            "chunks": with_live_names(call.chunks, self._names()),
            "hangs": not call.is_whole,
        }
        if call.rank is None:
            return [answer, *self._due()]
        if call.gap_ms > 0:
            answer["delayMs"] = min(call.gap_ms, LONGEST_GAP_MS)
        self._waiting.append(_Waiting(stream, call.rank, answer))
        return self._due()

    def _call(self, live_id: str, digests: Mapping[str, Any]) -> RecordedCall | str:
        """The recorded call that is asked for, or the sentence that says why there is none."""
        session = self._bound(live_id, digests)
        if session is None:
            if live_id not in self._strangers:
                self._strangers.add(live_id)
                self._depart("extra-session", live_id, 1, f"session {live_id} is not in the recording")
            return "this session is not in the recording"
        place, total = session.cursor, len(session.calls)
        if place >= total:
            self._depart(
                "extra-call", session.id, place + 1, f"session {session.id} asks for more than the recorded {_count(total)}"
            )
            return f"the recording has only {_count(total)} of this session"
        session.cursor += 1
        call = session.calls[place]
        changed = None if call.digests is None else difference(call.digests, digests)
        if changed is not None:
            self._depart("changed-request", session.id, place + 1, f"call {place + 1} of session {session.id}: {changed}")
        return call

    def _bound(self, live_id: str, digests: Mapping[str, Any]) -> RecordedSession | None:
        """The recorded session that this one plays: of its own id, else the first unplayed child of its parent, those that
        begin with the same request before others."""  # noqa: D205, D209
        for session in self.sessions.values():
            if session.live_id == live_id:
                return session
        found = self.sessions.get(live_id)
        if found is None or found.live_id is not None:
            parent = self._parents.get(live_id)
            played = next((other.id for other in self.sessions.values() if other.live_id == parent), None)
            free = [other for other in self.sessions.values() if other.live_id is None and other.parent == played]
            alike = [other for other in free if other.calls and difference(other.calls[0].digests or {}, digests) is None]
            found = next(iter([*alike, *free]), None) if parent is not None and played is not None else None
        if found is not None:
            found.live_id = live_id
        return found

    def _names(self) -> dict[str, str]:
        """What is called otherwise in the live run: its sessions, and the folder where it works."""
        names = {session.id: session.live_id for session in self.sessions.values() if session.live_id}
        if self._cwd is not None:
            names.update({session.cwd: self._cwd for session in self.sessions.values() if session.cwd})
        return {name: live for name, live in names.items() if name != live}

    def _depart(self, kind: DepartureKind, session_id: str, call: int, message: str) -> None:
        self._departures.append(Departure(kind, session_id, call, message))

    # When it is answered

    def _due(self) -> list[JsonObject]:
        """The answers that need not wait for an earlier one."""
        first_open = 0
        while first_open in self._ended:
            first_open += 1
        return self._release([each for each in self._waiting if each.rank <= first_open])

    def _patience_lost(self) -> list[JsonObject]:
        patience_s = DEPARTED_PATIENCE_S if self._departures else PATIENCE_S
        if not self._waiting or self._clock() - self._last_heard < patience_s:
            return []
        self._last_heard = self._clock()
        return self._release([min(self._waiting, key=lambda each: each.rank)])

    def _release(self, released: list[_Waiting]) -> list[JsonObject]:
        for each in released:
            self._waiting.remove(each)
            self._ranks[each.stream] = each.rank
        return [each.answer for each in released]


def load_script(folder: str | Path, *, cwd: str | Path | None = None) -> HarnessScript:
    """The script of a recorded folder. Raises what ``load_sessions`` raises."""
    return HarnessScript(load_sessions(Path(folder)), cwd=cwd)


def _count(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"
