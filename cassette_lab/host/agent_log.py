"""What an agent loop writes into its session's log, event by event, in format 0.

Each method is one event (or the few that belong together), so that the loop reads as a story and the shapes stand in one
place. Source: session logs, Event types; Tool result message; Calls, and where chunks and times live.
"""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from cassette_lab.contracts import ABSENT, StreamChunk
from cassette_lab.errors import FormatError
from cassette_lab.host.models.failures import malformed
from cassette_lab.jsonio import JsonObject
from cassette_lab.session.model import CHUNK_TYPE, Event
from cassette_lab.session.persistence import StoredSession
from cassette_lab.session.session import Session

_QUICK_S: Final = 0.004
CONTEXT_SOURCE: Final = {"kind": "plugin", "plugin": "cassette_lab", "form": "snapshot"}


class AgentLog:
    """The log of one agent, and where its loop stands in it: the turn and step that are running.

    ``stored`` writes the session down: ``flush`` returns when what was logged is on disk. Without it the log is in memory.
    """

    def __init__(self, session: Session, stored: StoredSession | None = None) -> None:
        self.session = session
        self._stored = stored
        turns = [event.data.get("turn") for event in session.events if event.type == "turn/start"]
        self.turn: int = max((turn for turn in turns if type(turn) is int), default=0)
        self.step = 0
        self._is_continued = bool(turns)  # by this session itself, or by a fork of it
        self._header: Any = ABSENT
        self._context: str | None = None
        self._flush_s = math.inf  # as long as the last one took

    # Turns and steps

    def start_turn(self) -> None:
        """The next turn begins."""
        self.turn += 1
        self.step = 0
        self._append("turn/start", {"turn": self.turn})

    def end_turn(self, reason: JsonObject) -> None:
        """The turn is over: completed, aborted, error or max-tokens."""
        self._append("turn/end", {"turn": self.turn, "reason": reason})

    def start_step(self) -> None:
        """The turn's next step begins."""
        self.step += 1
        self._append("step/start", self._place())

    def end_step(self) -> None:
        """The step is over."""
        self._append("step/end", self._place())

    def describe(self, provider: str, label: str | None) -> None:
        """This is a subagent's log: which provider started it, and as what."""
        data = {"version": 3, "mode": "one-shot", "provider": provider}
        self._append("subagent/descriptor", data if label is None else {**data, "label": label})

    # Messages

    def user_message(self, content: Sequence[JsonObject], source: JsonObject) -> None:
        """What the model is told."""
        self._message("user/message", self._said("user", content, source))

    def context(self, text: str) -> None:
        """What holds at present, told to the model where that is news."""
        if text and text != self._context:
            self._context = text
            self.user_message([{"type": "text", "text": text}], CONTEXT_SOURCE)

    def request_header(self, header: JsonObject) -> None:
        """What the next model calls are made with, logged where it is not what it was."""
        if header != self._header:
            reason = "change" if self._header is not ABSENT else "resume" if self._is_continued else "initial"
            self._header = header
            self._append("request/header", {"header": header, "reason": reason})

    def assistant_message(
        self,
        answer: Sequence[JsonObject],
        model: JsonObject,
        usage: JsonObject | None,
        chunks: range,
        *,
        interrupted: bool = False,
    ) -> None:
        """What the model said, made of these chunks; ``interrupted`` where it was stopped while it spoke."""
        message = self._said("assistant", answer, {"kind": "model", **model})
        data: JsonObject = {**self._place(), "message": message}
        if usage is not None:
            data["usage"] = usage
        if interrupted:
            data["interrupted"] = True
        self._message("assistant/message", data, list(chunks))

    # Model calls

    def chunk(self, chunk: StreamChunk) -> int:
        """A piece of the model's answer; returns its seq. ``ModelFailure`` (``MALFORMED_RESPONSE``) for what is no JSON."""
        try:
            return self._append(CHUNK_TYPE, {"turn": self.turn, "step": self.step, "chunk": chunk}).seq
        except FormatError as error:
            raise malformed("a chunk is no plain JSON") from error

    def retry(self, facts: JsonObject) -> None:
        """The call failed, and is to be made again after a while."""
        self._append("llm/retry", {"retryId": facts["retryId"], **self._place(), **facts})

    def retry_started(self, retry_id: str, retry: int) -> None:
        """The while is over."""
        self._append("llm/retry-started", {"retryId": retry_id, **self._place(), "retry": retry})

    # Tools

    def tool_call(self, call: JsonObject) -> int:
        """The model calls a tool; returns the seq, which the result cites."""
        data = {**self._place(), "callId": call["id"], "name": call["name"], "arguments": call["arguments"]}
        return self._append("tool/call", data).seq

    def tool_result(
        self,
        call_id: str,
        call_seq: int,
        content: Sequence[JsonObject],
        *,
        error: JsonObject | None,
        is_error: bool,
        time_ms: int | None,
    ) -> None:
        """What came of it, at the time when that was there."""
        block = {"type": "tool-result", "toolCallId": call_id, "content": list(content), "isError": is_error}
        data = {**self._place(), "message": self._said("user", [block], {"kind": "tool", "callId": call_id})}
        if error is not None:
            data["error"] = error
        self._message("tool/result", data, [call_seq], time_ms)

    # On disk

    async def flush(self) -> None:
        """Return when all that was logged is on disk. Raises what the store raises.

        The event loop goes on meanwhile, unless the disk is so quick that a thread would take longer than it.
        """
        if self._stored is None:
            return
        if self._flush_s < _QUICK_S:
            self._flush_s = _seconds(self._stored.flush)
        else:
            self._flush_s = await asyncio.to_thread(_seconds, self._stored.flush)

    def close(self) -> None:
        """Write what is left, and let others continue the session."""
        if self._stored is not None:
            self._stored.close()

    def _place(self) -> JsonObject:
        return {"turn": self.turn, "step": self.step}

    @staticmethod
    def _said(role: str, content: Sequence[JsonObject], source: JsonObject) -> JsonObject:
        return {"role": role, "content": list(content), "source": source, "id": str(uuid.uuid4())}

    def _append(self, kind: str, data: JsonObject) -> Event:
        return self.session.append(kind, data)

    def _message(self, kind: str, data: JsonObject, sources: list[int] | None = None, time_ms: int | None = None) -> None:
        self.session.append(kind, data, surface_op="append", source_event_seqs=sources, time_ms=time_ms)


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
