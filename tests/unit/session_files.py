"""Session logs as files, for tests that go through the public face: rows get their seqs, and the name says the packing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cassette_lab.session.frames import compress_frame
from tests.unit.session_samples import header, line, write
from tests.unit.session_told import AT, ev, finish, message, run


def numbered(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their seqs, 0 first; those that have one keep it."""
    told, seq = [], 0
    for row in rows:
        packed = "time0" in row
        told.append({"type": row["type"], "seq0" if packed else "seq": seq, **row})  # the order of the harness
        seq += len(row["data"].get("texts") or row["data"].get("args")) if packed else 1
    return told


def log_file(path: Path, *rows: dict[str, Any], version: int = 0, **members: Any) -> Path:
    """A log of these rows. One named ``.zstd`` has the header in a frame of its own, and a frame for every three rows."""
    told = numbered(rows)
    lines = [line(header(version, **members)), *map(line, told)]
    if path.suffix == ".zstd":
        batches = [lines[:1], *(lines[at : at + 3] for at in range(1, len(lines), 3))]
        return write(path, b"".join(compress_frame(b"".join(batch)) for batch in batches))
    return write(path, b"".join(lines))


def asked(number: int, *, at: int = 0, usage: dict[str, Any] | None = None, end: Any = None) -> list[dict[str, Any]]:
    """Turn ``number`` of format 0: one model call (100 tokens in, 10 out), one tool call, one step; ten events in nine rows."""
    place = {"turn": number, "step": 1}
    used = {"inputTokens": 100, "outputTokens": 10} if usage is None else usage
    answer = {"type": "tool-result", "toolCallId": f"c{number}", "content": [{"type": "text", "text": "done"}]}
    rows = [
        ev("turn/start", {"turn": number}, at),
        ev("step/start", place, at + 1),
        run("Hel", "lo", at=at + 5, turn=number),
        finish("tool-calls", at + 20),
        message("Hello", at=at + 21, usage=used),
        ev("tool/call", {**place, "callId": f"c{number}", "name": "read", "arguments": "{}"}, at + 22),
        ev("tool/result", {**place, "message": {"role": "user", "content": [answer]}}, at + 30, surfaceOp="append"),
        ev("step/end", place, at + 31),
        ev("turn/end", {"turn": number, "reason": {"kind": "completed"} if end is None else end}, at + 32),
    ]
    for row in rows:
        if row["data"].keys() >= AT.keys():
            row["data"] = {**row["data"], **place}
    return rows


ASKED_EVENTS = 10
