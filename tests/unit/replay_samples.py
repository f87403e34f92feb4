"""Small recordings of our own making for the tests of the replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cassette_lab.contracts import StreamChunk
from cassette_lab.session.entries import ChunksEntry, ReplayEntry, SessionScript
from tests.unit.session_samples import event, header, text, write

FINISH: StreamChunk = {"type": "finish", "reason": {"kind": "stop"}}


def answer(word: str) -> list[StreamChunk]:
    return [
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "text-delta", "index": 0, "text": word},
        FINISH,
    ]


def call(word: str, turn: int = 1, step: int = 1, *, finished: bool = True) -> list[dict[str, Any]]:
    """The events of one model call in format 0, without seq and time."""
    chunks = answer(word) if finished else answer(word)[:-1]
    return [{"type": "assistant/chunk", "data": {"turn": turn, "step": step, "chunk": chunk}} for chunk in chunks]


def asked(*texts: str) -> dict[str, Any]:
    """A user message as a request holds it."""
    return {"role": "user", "content": [{"type": "text", "text": part} for part in texts], "source": {"kind": "user"}}


def log(path: Path, *events: dict[str, Any], **members: Any) -> Path:
    """A fixture of format 0."""
    return write(path, text(header(**members), *events))


def script(recorded_id: str, *entries: ReplayEntry | str, first: tuple[str, ...] | None = None) -> SessionScript:
    """A script; a word stands for a call that answers it."""
    calls = [ChunksEntry(answer(entry)) if isinstance(entry, str) else entry for entry in entries]
    return SessionScript(recorded_id, 0, calls, primary=False, first_message=first)


def words(entries: Any) -> list[str]:
    """What each call says."""
    return ["".join(chunk.get("text", "") for chunk in entry.chunks) for entry in entries]


def settled(seq: int, word: str, kind: str = "assistant/message", *, finished: bool = True) -> dict[str, Any]:
    """The event of one model call in format 2 and later."""
    stream: list[dict[str, Any]] = [
        {"type": "chunk", "time": 1, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}},
        {"type": "text-chunks", "time0": 1, "index": 0, "dt": [1] * (len(word) - 1), "texts": list(word)},
    ]
    if finished:
        stream.append({"type": "chunk", "time": 2, "chunk": FINISH})
    return event(seq, kind, {"turn": 1, "step": 1, "message": {"role": "assistant", "content": []}, "stream": stream})
