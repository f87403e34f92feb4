"""Logs for the tests of the derivation: events without their numbers, which are put in here."""

from __future__ import annotations

import json
from typing import Any

from cassette_lab.session.derive import derive
from cassette_lab.session.facts import SessionFacts
from cassette_lab.session.model import SessionLog
from cassette_lab.session.reader import read_session
from tests.unit.session_samples import START_MS, header

AT = {"turn": 1, "step": 1}


def ev(kind: str, data: Any = None, at: int = 0, **members: Any) -> dict[str, Any]:
    """An event ``at`` ms after the sample's start."""
    return {"type": kind, "time": START_MS + at, "data": {} if data is None else data, **members}


def run(*texts: str, at: int = 0, gap: int = 10, step: int = 1, row: str = "text-chunks", **members: Any) -> dict[str, Any]:
    """A packed row of format 0."""
    tail = {"texts": list(texts)} if row != "tool-call-chunks" else {"id": "c1", "args": list(texts)}
    data = {"turn": 1, "step": step, "index": 0, "dt": [gap] * (len(texts) - 1), **tail, **members}
    return {"type": row, "time0": START_MS + at, "data": data}


def chunk(kind: str, at: int = 0, step: int = 1, **members: Any) -> dict[str, Any]:
    """A chunk event of format 0."""
    return ev("assistant/chunk", {"turn": 1, "step": step, "chunk": {"type": kind, **members}}, at)


def finish(kind: str = "stop", at: int = 0, **members: Any) -> dict[str, Any]:
    """A finish chunk event of format 0."""
    return chunk("finish", at, reason={"kind": kind, **members})


def message(*texts: str, at: int = 0, **members: Any) -> dict[str, Any]:
    """An assistant's message with these text blocks."""
    content = [{"type": "text", "text": text} for text in texts]
    return ev("assistant/message", {**AT, "message": {"content": content}, **members}, at, surfaceOp="append")


def read(*rows: dict[str, Any], version: int = 0, **members: Any) -> SessionLog:
    """A log of these rows, seqs put in."""
    lines, seq = [json.dumps(header(version, **members))], 0
    for row in rows:
        packed = "time0" in row
        lines.append(json.dumps({**row, "seq0" if packed else "seq": seq}))
        data = row["data"]
        seq += len(data.get("texts") or data.get("args")) if packed else 1
    return read_session("".join(f"{line}\n" for line in lines).encode())


def tell(*rows: dict[str, Any], version: int = 0, bodies: bool = False, **members: Any) -> SessionFacts:
    """Everything that a log of these rows tells."""
    return derive(read(*rows, version=version, **members), bodies=bodies)
