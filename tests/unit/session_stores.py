"""The stores that share one contract, and sessions to put into them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cassette_lab.jsonio import JsonObject
from cassette_lab.session.persistence import SessionStore
from cassette_lab.session.session import Session, new_header
from cassette_lab.session.store_jsonl import JsonlStore
from cassette_lab.session.store_sqlite import SqliteSessionStore

NOW: Final = 1_700_000_000_000
STORES: Final[dict[str, Callable[[Path], SessionStore]]] = {
    "zstd": lambda folder: JsonlStore(folder / "zstd"),
    "raw": lambda folder: JsonlStore(folder / "raw", encoding="jsonl"),
    "unpacked": lambda folder: JsonlStore(folder / "unpacked", pack=False),
    "sqlite": lambda folder: SqliteSessionStore(folder / "sessions.db"),
}


def open_store(kind: str, folder: Path) -> SessionStore:
    return STORES[kind](folder)


def clock() -> Callable[[], int]:
    return itertools.count(NOW).__next__


def new_session(session_id: str = "root", *, cwd: str | None = "/w/project") -> Session:
    return Session(new_header(session_id=session_id, cwd=cwd, created_at=NOW), clock=clock())


def user(text: str) -> JsonObject:
    return {"id": f"m-{text}", "role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": "user"}}


def delta(text: str, index: int = 0) -> JsonObject:
    return {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": index, "text": text}}


def log_turn(session: Session, number: int = 1) -> None:
    """A turn with a user's message, an answer in deltas, and everything ended."""
    session.append("turn/start", {"turn": number})
    session.append("step/start", {"turn": number, "step": 1})
    session.append("user/message", user(f"hello {number}"), surface_op="append")
    first = len(session.events)
    for word in ("One", " two", "", " three"):
        session.append(
            "assistant/chunk", {"turn": number, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": word}}
        )
    message = {"role": "assistant", "content": [{"type": "text", "text": "One two three"}]}
    session.append(
        "assistant/message",
        {"turn": number, "step": 1, "message": message},
        surface_op="append",
        source_event_seqs=range(first, first + 4),
    )
    session.append("step/end", {"turn": number, "step": 1})
    session.append("turn/end", {"turn": number, "reason": {"kind": "completed"}})
