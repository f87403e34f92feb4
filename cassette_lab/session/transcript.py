"""The conversation of a session as a person reads it: every message once, in the order it was said.

Only what was appended counts: an event that replaces others on the surface (a compaction's checkpoint, a rewritten result)
is for the model, and what it replaced was really said. Source: session logs, Surface.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cassette_lab.session.members import inner, result_body, text, text_blocks, time_of, whole
from cassette_lab.session.model import Event, SessionLog
from cassette_lab.session.spans import Time

_ROLES: Final = {
    "user/message": "user",
    "assistant/message": "assistant",
    "tool/result": "tool",
    "system/message": "system",
    "developer/message": "developer",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One message. ``role`` is user, assistant, tool, system or developer, whatever the format calls a tool's.

    ``content`` are the blocks as the log has them (of a tool the blocks of its result), ``text`` the text blocks joined.
    ``source`` says who speaks in a user's role (``user``, ``subagent-settled``, ``runtime-context``, …); ``call_id`` is the
    tool call that a tool answers; ``interrupted``: the model was stopped while it spoke.
    """

    seq: int
    at: Time | None
    role: str
    content: list[Any]
    source: str | None = None
    turn: int | None = None
    step: int | None = None
    call_id: str | None = None
    is_error: bool | None = None
    interrupted: bool = False
    inherited: bool = False

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join(text_blocks(self.content))


def transcript(log: SessionLog, *, inherited: bool = False) -> Iterator[Entry]:
    """The messages of a log; with ``inherited`` also those that a fork took over, which come first."""
    for row in log.rows_from(0 if inherited else log.boundary):
        if isinstance(row, Event) and row.surface_op == "append" and row.type in _ROLES:
            yield _entry(row, inherited=row.seq < log.boundary)


def _entry(event: Event, *, inherited: bool) -> Entry:
    data, role = event.data, _ROLES[event.type]
    message = data if role == "user" else inner(data, "message") or data
    body = result_body(data) if role == "tool" else message
    content = body.get("content")
    return Entry(
        seq=event.seq,
        at=time_of(event),
        role=role,
        content=content if type(content) is list else [],
        source=text(inner(message, "source"), "kind"),
        turn=whole(data, "turn"),
        step=whole(data, "step"),
        call_id=text(body, "toolCallId") or text(body, "callId") if role == "tool" else None,
        is_error=body.get("isError") is True if role == "tool" else None,
        interrupted=data.get("interrupted") is True,
        inherited=inherited,
    )
