"""Small session logs of our own making, line by line, for the tests of the session room."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cassette_lab.session.frames import compress_frame

START_MS = 1_800_000_000_000


def header(version: int = 0, **members: Any) -> dict[str, Any]:
    since_2 = {"isSeeded": False} if version >= 2 else {}
    return {
        "type": "session",
        "version": version,
        "id": "sample",
        "createdAt": START_MS,
        "delegationDepth": 0,
        **since_2,
        **members,
    }


def event(seq: int, kind: str, data: Any = None, **members: Any) -> dict[str, Any]:
    return {"type": kind, "seq": seq, "time": START_MS + seq, "data": {} if data is None else data, **members}


def delta(seq: int, text: str, kind: str = "text-delta", **members: Any) -> dict[str, Any]:
    chunk = {"type": kind, "index": 0, "text": text, **members}
    return event(seq, "assistant/chunk", {"turn": 1, "step": 1, "chunk": chunk})


def packed(seq: int, *texts: str, **members: Any) -> dict[str, Any]:
    data = {"turn": 1, "step": 1, "index": 0, "dt": [2] * (len(texts) - 1), "texts": list(texts), **members}
    return {"type": "text-chunks", "seq0": seq, "time0": START_MS + seq, "data": data}


def turn(seq: int = 0) -> list[dict[str, Any]]:
    """One finished turn of eight events in seven rows, among them a packed row of two."""
    chunk = {"turn": 1, "step": 1}
    return [
        event(seq, "turn/start", {"turn": 1}),
        event(seq + 1, "step/start", chunk),
        event(seq + 2, "assistant/chunk", {**chunk, "chunk": {"type": "block-start", "index": 0, "blockType": "text"}}),
        packed(seq + 3, "Hel", "lo"),
        event(seq + 5, "assistant/chunk", {**chunk, "chunk": {"type": "finish", "reason": {"kind": "stop"}}}),
        event(seq + 6, "step/end", chunk),
        event(seq + 7, "turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
    ]


TURN_EVENTS = 8


def line(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") + b"\n"


def text(*values: Any) -> bytes:
    return b"".join(map(line, values))


def frames(batches: Iterable[Iterable[Any]]) -> list[bytes]:
    """One zstd frame for each batch of lines, as the harness writes them."""
    return [compress_frame(text(*batch)) for batch in batches]


def write(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
