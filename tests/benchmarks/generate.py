"""Cassettes to measure on and to mutate: valid, canonical, the same bytes every time, about 1.9 KB a call.

Shapes: ``plain`` (labelled calls with one text block, as a recorder writes them), ``mixed`` (every optional member,
several kinds of block, errors, structured results, many escapes), ``full`` (plain, with the whole request stored),
``spaced`` (plain, but with a space after each colon and comma: valid, and for the exact reader only).
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import orjson

Shape = Literal["plain", "mixed", "full", "spaced"]

_PROSE = """
the audit found three open questions in this module and none of them blocks a release
of version two because every caller checks what it gets before it goes on to write
"""
_WORDS = _PROSE.split()
_SPICE = [
    '"quoted"',
    "line\nbreak",
    "tab\there",
    "C:\\temp\\x",
    "日本語の文",
    "“typographic”",
    "naïve",
    "\x1b[1mbold\x1b[0m",
    "🙂",
]


def cassette_file(folder: Path, calls: int, shape: Shape = "plain") -> Path:
    """The file ``SHAPE-CALLS.cassette.jsonl`` in ``folder``, made if it is not there."""
    path = folder / f"{shape}-{calls}.cassette.jsonl"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            file.writelines(cassette_lines(calls, shape))
        unfinished.rename(path)
    return path


def cassette_lines(calls: int, shape: Shape = "plain", seed: int = 7) -> Iterator[bytes]:
    """The lines of a valid cassette, each with its newline."""
    draw = random.Random(seed)  # noqa: S311 - the same file every time is the point
    header: dict[str, Any] = {
        "kind": "cassette/header",
        "format": "dsh-subagent-cassette",
        "version": 1,
        "cassetteId": f"{draw.getrandbits(128):032x}",
        "createdAt": "2026-05-04T09:30:00.000Z",
        "target": {"dshSubagent": "0.1.0-rc.7"},
        "provider": {
            "cassette": "cassette",
            "upstream": "spawn",
            "capabilities": {"outputSchema": True, "depthLimit": True, "toolFilter": True, "persona": True},
            "inheritsParentContext": False,
        },
        "requestStorage": "full" if shape == "full" else "metadata",
        "redactSecrets": True,
        "redactionPatterns": [],
    }
    line, previous = chained(header)
    yield _spelled(line, shape)
    parents = ["root"]
    for sequence in range(1, calls + 1):
        record = _mixed(draw) if shape == "mixed" else _plain(draw, full=shape == "full")
        identity = f"{draw.getrandbits(256):064x}"
        parent = draw.choice(parents) if shape == "mixed" else "root"
        record |= {
            "kind": "cassette/interaction",
            "sequence": sequence,
            "callKey": f"{parent}/task-{sequence % 50}-{identity[:12]}~1",
            "parentKey": parent,
            "parentContextFingerprint": "sha256:" + hashlib.sha256(parent.encode()).hexdigest(),
            "requestFingerprint": "sha256:" + identity,
            "occurrence": 1,
            "previousHash": previous,
        }
        line, previous = chained(record)
        if shape == "mixed" and parent.count("/") < 3 and draw.random() < 0.01:
            parents.append(record["callKey"])
        yield _spelled(line, shape)


def chained(record: dict[str, Any]) -> tuple[bytes, str]:
    """A record with its hash, as a canonical line with its newline; and the hash.

    Only for values that orjson spells canonically (no integral floats, no astral member names).
    """
    bare = {name: value for name, value in record.items() if name != "hash"}
    record["hash"] = "sha256:" + hashlib.sha256(orjson.dumps(bare, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return orjson.dumps(record, option=orjson.OPT_SORT_KEYS) + b"\n", record["hash"]


def _spelled(line: bytes, shape: Shape) -> bytes:
    return json.dumps(json.loads(line)).encode() + b"\n" if shape == "spaced" else line


def _plain(draw: random.Random, *, full: bool) -> dict[str, Any]:
    prompt = [{"type": "text", "text": _prose(draw, 20, spice=0.02)}]
    request: dict[str, Any] = {"storage": "full", "value": {"label": "audit", "prompt": prompt}, "redactions": 0}
    if not full:
        size = len(orjson.dumps(prompt))
        metadata = {"label": "audit", "promptBlocks": 1, "promptBytes": size, "hasOutputSchema": False, "hasPersona": False}
        request = {"storage": "metadata", "metadata": metadata}
    output = [{"type": "text", "text": _prose(draw, 190, spice=0.02)}]
    return {
        "request": request,
        "timing": _timing(draw),
        "published": True,
        "local": False,
        "outcome": {"kind": "result", "result": {"output": output, "stopReason": "completed"}, "redactions": 0},
    }


def _mixed(draw: random.Random) -> dict[str, Any]:
    def chance(probability: float) -> bool:
        return draw.random() < probability

    metadata: dict[str, Any] = {
        "promptBlocks": draw.randint(1, 3),
        "promptBytes": draw.randint(30, 4_000),
        "hasOutputSchema": chance(0.3),
        "hasPersona": chance(0.3),
    }
    if chance(0.8):
        metadata["label"] = draw.choice(["audit", 'plan "b"', "日本", "write\ttests"])
    if chance(0.4):
        metadata |= {"childProvider": "deepseek", "childModel": draw.choice(["deepseek-chat", "deepseek-reasoner"])}
    if chance(0.2):
        metadata["maxDepth"] = draw.randint(0, 3)
    if chance(0.2):
        metadata["toolFilter"] = draw.choice([{"allow": ["bash", "read"]}, {"deny": ["web"]}, {"allow": [], "deny": ["x"]}, {}])
    timing = _timing(draw)
    if chance(0.1):
        timing["signalAbortedAtMs"] = _milliseconds(draw, 100)
    if chance(0.1):
        timing["disposeCalledAtMs"] = _milliseconds(draw, 100)
    kind = draw.choices(["result", "result-error", "start-error"], [85, 10, 5])[0]
    published = kind != "start-error"
    outcome: dict[str, Any] = {"kind": kind}
    if kind == "result":
        output = [_block(draw) for _ in range(draw.choice([0, 1, 1, 1, 1, 1, 2, 2, 3]))]
        stop = draw.choice(["completed", "completed", "error", "max-tokens", "aborted", "refusal", "strange"])
        outcome |= {"result": {"output": output, "stopReason": stop}, "redactions": draw.choice([0, 0, 0, 2])}
        if chance(0.1):
            outcome["result"]["structured"] = {"score": draw.randint(0, 9), "why": _prose(draw, 6), "weight": 0.25}
    else:
        outcome["error"] = {"name": draw.choice(["Error", "TypeError"]), "message": _prose(draw, 8, spice=0.3)}
        if chance(0.5):
            outcome["error"]["code"] = "E_LIMIT"
    return {
        "request": {"storage": "metadata", "metadata": metadata},
        "timing": timing,
        "published": published,
        "local": published and chance(0.5),
        "outcome": outcome,
    }


def _block(draw: random.Random) -> dict[str, Any]:
    kind = draw.choices(["text", "reasoning", "tool-call", "tool-result", "image"], [65, 20, 10, 3, 2])[0]
    if kind == "tool-call":
        return {"type": kind, "id": f"call-{draw.randint(1, 99)}", "name": "bash", "arguments": '{"command":"ls \\"x\\""}'}
    if kind == "tool-result":
        return {"type": kind, "toolCallId": "call-1", "content": [{"type": "text", "text": _prose(draw, 30, spice=0.2)}]}
    if kind == "image":
        picture = {"attachmentId": "a1", "mediaType": "image/png", "bytes": 2048, "width": 64, "height": 64}
        return {"type": kind, "attachment": picture}
    return {"type": kind, "text": _prose(draw, draw.choice([30, 90, 150]), spice=0.25)}


def _prose(draw: random.Random, words: int, spice: float = 0.0) -> str:
    """So many words, of which a share has characters that JSON escapes or UTF-8 spells with several bytes."""
    text = draw.choices(_WORDS, k=words)
    for _ in range(int(words * spice + draw.random())):
        text[draw.randrange(words)] = draw.choice(_SPICE)
    return " ".join(text)


def _timing(draw: random.Random) -> dict[str, Any]:
    latency = _milliseconds(draw, 20)
    total = _milliseconds(draw, 1_000)
    started = (
        f"2026-05-04T{draw.randint(0, 23):02}:{draw.randint(0, 59):02}:{draw.randint(0, 59):02}.{draw.randint(0, 999):03}Z"
    )
    return {"startedAt": started, "startLatencyMs": latency, "durationMs": max(latency, total)}


def _milliseconds(draw: random.Random, most: float) -> float:
    """Three decimals, as recorders round; a whole number as an integer, which is its canonical spelling."""
    value = round(draw.random() * most, 3)
    return int(value) if value.is_integer() else value
