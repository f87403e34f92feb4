"""The header line of a session log, checked. Source: session logs, Header line."""

from __future__ import annotations

from typing import Any, Final

from cassette_lab.jsonio import JsonObject, as_integer
from cassette_lab.jsonio.text import show
from cassette_lab.session.chunks import RowError, as_number, is_number
from cassette_lab.session.model import NEWEST_FORMAT, SessionHeader

_RETIRED: Final = ("sandboxMode", "approvalPolicy")
_MEMBERS_SINCE_2: Final = frozenset(
    {"type", "version", "id", "createdAt", "delegationDepth", "isSeeded", "cwd", "parentSession", "origin", "agentPreset"}
)
_NAME_CHARACTERS: Final = 60


def read_header(value: Any) -> SessionHeader:
    """The header that a line's JSON says. Test fixtures of format 0 may lack version, createdAt and delegationDepth.

    Raises ``RowError`` with the member that is at fault.
    """
    if type(value) is not dict or value.get("type") != "session":
        raise RowError('the first line is no session header (an object with "type": "session")', "type")
    version = _whole(value, "version") or 0
    if version > NEWEST_FORMAT:
        raise RowError(f"format {version} is newer than {NEWEST_FORMAT}, the last one known here", "version")
    for name in _RETIRED:
        if name in value:
            raise RowError(f"the member {name} has been retired; the harness refuses such a log, too", name)
    session_id = value.get("id")
    if type(session_id) is not str or not session_id:
        raise RowError("the header needs an id", "id")
    created_at = value.get("createdAt")
    if not is_number(created_at) and (created_at is not None or version >= 2):
        raise RowError("createdAt is a number of milliseconds", "createdAt")
    if version >= 2:
        _check_closed(value)
    return SessionHeader(
        version=version,
        id=session_id,
        created_at=None if created_at is None else as_number(created_at),
        delegation_depth=_whole(value, "delegationDepth"),
        cwd=_text(value, "cwd"),
        parent_session=_text(value, "parentSession"),
        origin=_text(value, "origin"),
        agent_preset=_text(value, "agentPreset"),
        seed_length=_whole(value, "seedLength") if version < 2 else None,
        is_seeded=value["isSeeded"] if version >= 2 else None,
    )


def _check_closed(value: JsonObject) -> None:
    """From format 2 on the header has no other members, and says whether it is seeded."""
    for name in value:
        if name not in _MEMBERS_SINCE_2:
            shown = show(name[:_NAME_CHARACTERS])
            raise RowError(f"a header of format 2 or later has no member {shown!r}", shown)
    if type(value.get("isSeeded")) is not bool:
        raise RowError("isSeeded is true or false", "isSeeded")
    if "delegationDepth" not in value:
        raise RowError("the header needs a delegationDepth", "delegationDepth")


def _whole(value: JsonObject, name: str) -> int | None:
    member = value.get(name)
    if member is None:
        return None
    number = as_integer(member)
    if number is None or number < 0:
        raise RowError(f"{name} is a whole number, 0 or more", name)
    return number


def _text(value: JsonObject, name: str) -> str | None:
    member = value.get(name)
    if member is not None and type(member) is not str:
        raise RowError(f"{name} is a string", name)
    return member
