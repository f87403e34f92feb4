"""What the worker tells of a path: how far it can be trusted, and what is wrong with it, in words."""

from __future__ import annotations

from typing import Any, Final

from cassette_lab.cassette.model import Header
from cassette_lab.cassette.source import CHANGED_WHILE_READ
from cassette_lab.errors import CassetteLabError
from cassette_lab.jsonio.dates import date_parse_ms
from cassette_lab.jsonio.text import show
from cassette_lab.server.jupyter.frames import Event

CHANGED: Final = "the file changed while it was read"


def state(source: str, kind: str | None, word: str, words: str, **more: Any) -> Event:
    """A ``state``; what is not given is unknown."""
    facts: Event = {"rows": None, "line": None, "changed": False, "problem": None, **more}
    return {"event": "state", "source": show(source), "kind": kind, "state": word, "words": words, **facts}


def header_event(source: str, header: Header, size_bytes: int) -> Event:
    """The facts of a cassette's header that are no secrets."""
    return {
        "event": "header",
        "source": show(source),
        "bytes": size_bytes,
        "cassette_id": show(header.cassette_id),
        "created_at": None if date_parse_ms(header.created_at) is None else show(header.created_at),
        "provider": show(header.provider.cassette),
        "upstream": show(header.provider.upstream),
        "request_storage": header.request_storage,
        "redact_secrets": header.redact_secrets,
        "redaction_patterns": len(header.redaction_patterns),
    }


def problem(error: CassetteLabError, source: str) -> Event:
    """What is wrong, told of the path that the client knows."""
    return {
        "code": "CHANGED" if is_change(error) else error.code,
        "message": show(error.message),
        "file": show(source),
        "line": error.line,
        "field": None if error.field is None else show(error.field),
    }


def is_change(error: CassetteLabError) -> bool:
    """Whether it says that the file changed."""
    return error.message == CHANGED_WHILE_READ


def plain_problem(code: str, message: str, source: str) -> Event:
    """A problem that is no error of a format."""
    return {"code": code, "message": message, "file": show(source), "line": None, "field": None}


def broken_words(error: CassetteLabError) -> str:
    """``not verified: line 31, hash``."""
    place = [] if error.line is None else [f"line {error.line:,}"]
    if error.field is not None:
        place.append(show(error.field))
    return f"not verified: {', '.join(place)}" if place else "not verified"
