"""Which recorded call answers a live one: live sessions take scripts, and a cursor goes through each.

Source: session logs, Stream replay (binding).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from cassette_lab.contracts import ModelRequest
from cassette_lab.errors import ConfigError, MismatchError
from cassette_lab.jsonio.text import show
from cassette_lab.session.entries import ReplayEntry, SessionScript, message_texts
from cassette_lab.words import plural

BindingStrategy: TypeAlias = Literal["first-call", "content"]
"""How a live session finds its script: by the order of first calls, or by what its first user message says."""


_SHOWN_SCRIPTS: Final = 5
_SHOWN_CHARACTERS: Final = 80


@dataclass(slots=True)
class _Bound:
    script: SessionScript
    cursor: int = 0


class ScriptBinding:
    """The scripts of one replay, and who has taken which.

    Calls without a session id are one session of their own; with ``"content"`` each goes on with the script that began as
    it does, and what began like none with the last one.

    ``"first-call"``: a session that is seen for the first time takes the next script. ``"content"``: it takes the script
    whose session began with a user message that the request holds, so that siblings that start at the same time
    cannot take each other's; among scripts that began alike the order decides. Raises ``ConfigError`` for another word.
    """

    def __init__(self, scripts: Sequence[SessionScript], *, binding: BindingStrategy = "first-call") -> None:
        if binding not in ("first-call", "content"):
            raise ConfigError(f'binding is "first-call" or "content", not {show(repr(binding))}')
        self._strategy = binding
        self._free = list(scripts)
        self._recorded = len(self._free)
        self._bound: dict[str | None, _Bound] = {}  # None: what answered last of what has no id
        self._nameless: list[_Bound] = []

    def next_entry(self, request: ModelRequest) -> ReplayEntry:
        """The entry that answers this call; the session's cursor moves.

        Raises ``MismatchError`` whose diagnostic has the reason ``unrecorded-session`` or ``script-exhausted``.
        """
        bound = self._bound.get(request.session_id)
        if request.session_id is None and self._strategy == "content":
            bound = self._nameless_of(request) or bound
        if bound is None:
            bound = _Bound(self._take(request))
            if request.session_id is None:
                self._nameless.append(bound)
        self._bound[request.session_id] = bound
        index = bound.cursor
        bound.cursor += 1
        entries = bound.script.entries
        if index >= len(entries):
            raise MismatchError(
                f"{_who(request.session_id)} makes model call {index + 1}, but only {len(entries)} of it are recorded; "
                "record the session again",
                diagnostic={
                    "reason": "script-exhausted",
                    "sessionId": request.session_id,
                    "recordedId": bound.script.recorded_id,
                    "call": index + 1,
                    "recorded": len(entries),
                },
            )
        return entries[index]

    def place_of(self, session_id: str | None) -> tuple[str, int, int] | None:
        """Which recorded session a live one has taken, how many of its calls were asked for, and how many it has."""
        bound = self._bound.get(session_id)
        return None if bound is None else (bound.script.recorded_id, bound.cursor, len(bound.script.entries))

    def _nameless_of(self, request: ModelRequest) -> _Bound | None:
        """Whose call it is, by what it says: of those that have calls left, else a script that is free; None for neither."""
        left = [bound for bound in self._nameless if bound.cursor < len(bound.script.entries)]
        at = _best_match([*(bound.script for bound in left), *self._free], request.messages)
        if at is None:
            return None
        if at >= len(left):
            left.append(_Bound(self._free.pop(at - len(left))))
            self._nameless.append(left[-1])
            at = len(left) - 1
        return left[at]

    def _taken(self) -> Iterator[tuple[str | None, _Bound]]:
        yield from ((session_id, bound) for session_id, bound in self._bound.items() if session_id is not None)
        yield from ((None, bound) for bound in self._nameless)

    def __repr__(self) -> str:
        taken = [bound for _, bound in self._taken()]
        scripts = [*(bound.script for bound in taken), *self._free]
        asked = sum(min(bound.cursor, len(bound.script.entries)) for bound in taken)
        names = ", ".join(script.recorded_id[:_SHOWN_CHARACTERS] for script in scripts[:_SHOWN_SCRIPTS])
        names += ", …" if len(scripts) > _SHOWN_SCRIPTS else ""
        calls = sum(len(script.entries) for script in scripts)
        return show(f"{plural(len(scripts), 'recorded session')} ({names}), {asked:,} of {plural(calls, 'call')} asked for")

    def assert_consumed(self) -> None:
        """Raise ``MismatchError`` (reason ``not-consumed``) unless every script is taken and at its end."""
        partial: list[dict[str, Any]] = [
            {"sessionId": session_id, "recordedId": bound.script.recorded_id, "calls": bound.cursor, "recorded": recorded}
            for session_id, bound in self._taken()
            if bound.cursor < (recorded := len(bound.script.entries))
        ]
        problems = []
        if self._free:
            problems.append(f"{len(self._free)} of {self._recorded} recorded sessions made no call")
        problems += (f"{_who(item['sessionId'])} made {item['calls']} of {item['recorded']} recorded calls" for item in partial)
        if problems:
            raise MismatchError(
                f"the recording was not used up: {'; '.join(problems)}",
                diagnostic={"reason": "not-consumed", "unbound": len(self._free), "partial": partial},
            )

    def _take(self, request: ModelRequest) -> SessionScript:
        at = 0 if self._strategy == "first-call" else _best_match(self._free, request.messages)
        if at is None or not self._free:
            why = "no recorded session that is left began as it does" if self._free else "no recorded session is left for it"
            raise MismatchError(
                f"{_who(request.session_id)} is not recorded: {why} (recorded: {self._recorded}); record it again",
                diagnostic={"reason": "unrecorded-session", "sessionId": request.session_id, "recorded": self._recorded},
            )
        return self._free.pop(at)


def _best_match(scripts: Sequence[SessionScript], messages: Sequence[Mapping[str, Any]]) -> int | None:
    """Which script's session began with one of the user messages.

    The message may stand behind others: a fork begins with what it inherited, so that a later one says more. The first
    block is the task; others may hold what differs from run to run (ids of sessions), and only decide between equals.
    A client that joins the blocks to one text is known by how that begins; the longest task that fits is meant.
    """
    live = [message_texts(message) for message in messages if message.get("role") == "user"]
    best: tuple[bool, int, int, int] | None = None
    found = None
    for index, script in enumerate(scripts):
        first = script.first_message
        if first is None:
            continue
        ranks = [
            (likeness > 1, place, likeness, len(first[0]))
            for place, texts in enumerate(live)
            if (likeness := _likeness(texts, first))
        ]
        if ranks and (best is None or max(ranks) > best):
            best, found = max(ranks), index
    return found


def _likeness(texts: Sequence[str], recorded: Sequence[str]) -> int:
    """3 for the same message, 2 for the same task, 1 for a text that the recorded blocks may have been joined to, else 0."""
    if not texts:
        return 0
    if texts[0] == recorded[0]:
        return 3 if list(texts) == list(recorded) else 2
    return int(len(texts) == 1 < len(recorded) and bool(recorded[0]) and texts[0].startswith(recorded[0]))


def _who(session_id: str | None) -> str:
    return "the session without an id" if session_id is None else f"session {show(session_id)}"
