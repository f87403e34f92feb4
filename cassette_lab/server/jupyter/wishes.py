"""What a client asks for, checked; and what it is told where that cannot be done."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final, TypeGuard

MAX_WISH_BYTES: Final = 1 << 16
MAX_PATHS: Final = 100

TABLES: Final = (
    "cassettes",
    "calls",
    "sessions",
    "turns",
    "steps",
    "model_calls",
    "tool_calls",
    "compactions",
    "notes",
    "flights",
    "flight_health",
    "problems",
)
"""The lab's tables, as ``tables.schemas`` has them; said once more here because the server does without pyarrow."""


class RefusalError(Exception):
    """One sentence for the client, with an HTTP status and a stable code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


@dataclass(frozen=True, slots=True)
class Wish:
    """The members of ``POST open``; ``tables`` are all that are wanted."""

    paths: tuple[str, ...]
    compare: bool = False
    bodies: bool = False
    tables: tuple[str, ...] = TABLES


def read_wish(body: bytes, *, allow_bodies: bool) -> Wish:
    """The wish in a request's body. Raises ``RefusalError``; no value of the body stands in it."""
    if len(body) > MAX_WISH_BYTES:
        raise RefusalError(413, "TOO_LARGE", f"the request has more than {MAX_WISH_BYTES:,} bytes")
    members = _members(body)
    paths, tables = members.get("paths"), members.get("tables", list(TABLES))
    if not _are_texts(paths) or not 1 <= len(paths) <= MAX_PATHS:
        raise _bad(f"paths must be a list of 1 to {MAX_PATHS} paths")
    for name in ("compare", "bodies"):
        if not isinstance(members.get(name, False), bool):
            raise _bad(f"{name} must be true or false")
    if not _are_texts(tables) or not set(tables) <= set(TABLES):
        raise _bad(f"tables must be a list of names: {', '.join(TABLES)}")
    wish = Wish(tuple(paths), members.get("compare", False), members.get("bodies", False), tuple(tables))
    if wish.compare and len(wish.paths) != 2:
        raise _bad("to compare, name two files")
    if wish.bodies and not allow_bodies:
        sentence = (
            "this server shows no bodies; set c.CassetteLab.allow_bodies = True in jupyter_server_config.py to allow them"
        )
        raise RefusalError(403, "NO_BODIES", sentence)
    return wish


def clean_path(path: str) -> str:
    """A path of the contents API without slashes at its ends. Raises ``RefusalError`` for what no such path can be."""
    plain = path.strip("/")
    parts = plain.split("/") if plain else []
    if PurePath(plain).drive or any(part in ("", ".", "..") or "\0" in part or "\\" in part for part in parts):
        raise not_there()
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise not_there() from None
    return plain


def not_there() -> RefusalError:
    """The same sentence whatever the reason is, so that nothing is learnt of what is not shown."""
    return RefusalError(404, "NOT_FOUND", "there is no such file or folder, or it is not shown")


def _members(body: bytes) -> dict[str, Any]:
    try:
        members = json.loads(body)
    except (ValueError, RecursionError):
        raise _bad("the request is no JSON object") from None
    if not isinstance(members, dict):
        raise _bad("the request is no JSON object")
    if unknown := set(members) - {"paths", "compare", "bodies", "tables"}:
        raise _bad(f"there are {len(unknown)} unknown members; paths, compare, bodies and tables are known")
    return members


def _are_texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _bad(message: str) -> RefusalError:
    return RefusalError(400, "BAD_REQUEST", message)
