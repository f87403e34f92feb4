"""Session logs to measure on: format 0, the same bytes every time, turns with packed and with single deltas alternating.

A turn has a prompt, a model call of some hundred deltas (reasoning, text, the arguments of a tool), its message, the tool's
result, and a second, short call. About 180 bytes a line, as in logs of harnesses that did not pack yet.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import orjson

from cassette_lab.session.frames import FrameWriter
from cassette_lab.session.model import DeltaKind
from cassette_lab.session.paths import FILE_NAMES, LogEncoding, log_path

Form: TypeAlias = Literal["single", "packed"]

START_MS: Final = 1_793_600_000_000
DELTAS: Final = 320
"""Of one turn."""

_PROSE: Final = """
the audit found three open questions in this module and none of them blocks a release of version two
because every caller checks what it gets before it goes on to write ; "quoted" 日本 🙂 src/parser.py
"""
_WORDS: Final = [*(f" {word}" for word in _PROSE.split()), ".\n\n"]


def log_file(folder: Path, size_bytes: int, encoding: LogEncoding) -> Path:
    """A log of at least so many bytes of text, made once; zstd has a frame for the header and one for each turn."""
    path = folder / f"session-{size_bytes}" / FILE_NAMES[encoding]
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        _write(unfinished, _Log("bench"), size_bytes, encoding)
        unfinished.rename(path)
    return path


def small_logs(folder: Path, sessions: int, encoding: LogEncoding) -> Path:
    """A store of so many sessions of two turns each, made once."""
    root = folder / f"sessions-{sessions}"
    if not root.exists():
        unfinished = folder / f"sessions-{sessions}.unfinished"
        for number in range(sessions):
            path = log_path(unfinished, f"/srv/project-{number % 7}", f"session-{number:05}", encoding)
            path.parent.mkdir(parents=True)
            _write(path, _Log(f"session-{number:05}", deltas=60, seed=number), 1, encoding)
        unfinished.rename(root)
    return root


def _write(path: Path, log: _Log, size_bytes: int, encoding: LogEncoding) -> None:
    frames = FrameWriter() if encoding == "zstd" else None
    written = 0
    with path.open("wb") as file:
        for batch in log.batches():
            file.write(batch if frames is None else frames.frame(batch))
            written += len(batch)
            if written >= size_bytes and log.turns >= 2 and log.turns % 2 == 0:
                return


class _Log:
    """A log that grows turn by turn."""

    def __init__(self, session_id: str, *, deltas: int = DELTAS, seed: int = 7) -> None:
        self.turns = 0
        self._id, self._deltas = session_id, deltas
        self._draw = random.Random(seed)  # noqa: S311 - the same file every time is the point
        self._seq, self._now = 0, START_MS
        self._lines: list[bytes] = []

    def batches(self) -> Iterator[bytes]:
        """The header's line, then the lines of a turn, again and again."""
        header = {"type": "session", "version": 0, "id": self._id, "createdAt": START_MS, "delegationDepth": 0, "cwd": "/srv"}
        yield orjson.dumps(header) + b"\n"
        while True:
            self._turn("packed" if self.turns % 2 else "single")
            yield b"\n".join(self._lines) + b"\n"
            self._lines.clear()

    def _turn(self, form: Form) -> None:
        self.turns += 1
        turn = {"turn": self.turns}
        step = {**turn, "step": 1}
        self._event("turn/start", turn)
        self._event("step/start", step)
        prompt = [{"type": "text", "text": "".join(self._draw.choices(_WORDS, k=40))}]
        self._event("user/message", {"role": "user", "content": prompt, "source": {"kind": "user"}}, surfaceOp="append")
        config = {"provider": "scripted", "model": "large"}
        self._event("request/header", {"header": {"config": config}, "reason": "initial"})
        call = {"id": f"call_{self.turns:08}", "name": "read"}
        blocks: list[tuple[DeltaKind, int]] = [
            ("reasoning-delta", self._deltas // 4),
            ("text-delta", self._deltas // 2),
            ("tool-call-delta", self._deltas // 4),
        ]
        written = self._call(step, form, blocks, call, "tool-calls")
        self._event("tool/call", {**step, "callId": call["id"], "name": "read", "arguments": written})
        block = {"type": "tool-result", "toolCallId": call["id"], "isError": self.turns % 10 == 0}
        block["content"] = [{"type": "text", "text": "".join(self._draw.choices(_WORDS, k=self._deltas))}]
        source = {"kind": "tool", "callId": call["id"]}
        answer = {"role": "user", "content": [block], "source": source}
        self._event("tool/result", {**step, "message": answer}, sourceEventSeqs=[self._seq - 1], surfaceOp="append")
        self._event("step/end", step)
        step = {**turn, "step": 2}
        self._event("step/start", step)
        self._call(step, form, [("text-delta", self._deltas // 16)], {}, "stop")
        self._event("step/end", step)
        self._event("turn/end", {**turn, "reason": {"kind": "completed"}})

    def _call(
        self, step: dict[str, Any], form: Form, blocks: list[tuple[DeltaKind, int]], call: dict[str, str], finish: str
    ) -> str:
        first = self._seq
        content: list[dict[str, Any]] = []
        text = ""
        for index, (kind, count) in enumerate(blocks):
            texts = self._draw.choices(_WORDS, k=count)
            text = "".join(texts)
            name = kind.removesuffix("-delta")
            told = {"type": name, **call, "arguments": text} if name == "tool-call" else {"type": name, "text": text}
            self._chunk(step, {"type": "block-start", "index": index, "blockType": name})
            self._deltas_of(step, form, kind, index, texts, call)
            self._chunk(step, {"type": "block-end", "index": index, "block": told})
            content.append(told)
        usage = {"inputTokens": 900, "outputTokens": self._seq - first, "cacheReadTokens": 4_000}
        self._chunk(step, {"type": "usage", "usage": usage})
        self._chunk(step, {"type": "finish", "reason": {"kind": finish}})
        source = {"kind": "model", "provider": "scripted", "model": "large"}
        message = {"role": "assistant", "content": content, "source": source}
        sources = list(range(first, self._seq))
        self._event(
            "assistant/message", {**step, "message": message, "usage": usage}, sourceEventSeqs=sources, surfaceOp="append"
        )
        return text

    def _deltas_of(
        self, step: dict[str, Any], form: Form, kind: DeltaKind, index: int, texts: list[str], call: dict[str, str]
    ) -> None:
        if form == "single":
            member, facts = ("argumentsDelta", call) if kind == "tool-call-delta" else ("text", {})
            for text in texts:
                self._chunk(step, {"type": kind, "index": index, **facts, member: text})
            return
        gaps = self._draw.choices((0, 1, 12, 28, 30), k=len(texts) - 1)
        data: dict[str, Any] = {**step, "index": index, "dt": gaps}
        data |= {**call, "args": texts} if kind == "tool-call-delta" else {"texts": texts}
        row = {"type": f"{kind.removesuffix('-delta')}-chunks", "seq0": self._seq, "time0": self._now, "data": data}
        self._lines.append(orjson.dumps(row))
        self._seq += len(texts)
        self._now += sum(gaps)

    def _chunk(self, step: dict[str, Any], chunk: dict[str, Any]) -> None:
        self._event("assistant/chunk", {**step, "chunk": chunk})

    def _event(self, kind: str, data: dict[str, Any], **members: Any) -> None:
        self._now += self._seq % 3 * 7
        self._lines.append(orjson.dumps({"type": kind, "seq": self._seq, "time": self._now, "data": data, **members}))
        self._seq += 1
