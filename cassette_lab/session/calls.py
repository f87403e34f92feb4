"""Model calls and attempts, with their retries and an estimate of when each request was sent.

Formats 0 and 1 have a call's chunks as events of their own, between other events; later formats have one event per call
with its stream inside. Source: session logs, Calls, and where chunks and times live.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Raw
from msgspec.structs import replace

from cassette_lab.jsonio import as_integer
from cassette_lab.session.facts import ModelCall, Retry, SettledAs
from cassette_lab.session.members import inner, items, number, text, text_blocks, time_of, turn_and_step, whole
from cassette_lab.session.model import CHUNK_TYPE, ChunkRun, Event
from cassette_lab.session.rows import read_json
from cassette_lab.session.spans import Time
from cassette_lab.session.streams import Stream
from cassette_lab.session.stretches import Stretch
from cassette_lab.session.usage import Usage, read_usage, total

_Key: TypeAlias = tuple[float | None, float | None]
_Request: TypeAlias = tuple[Time | None, str | None]
_BEFORE_REQUESTS: Final = ("user/message", "system/message", "developer/message", "request/header", "request/context")


class CallsTracker:
    """Reads model calls and retries off the rows of one log; ``cut`` ends what a fork inherited."""

    def __init__(self, version: int, *, bodies: bool = False) -> None:
        self.calls: list[ModelCall] = []
        self.retries: list[Retry] = []
        self._final_content: list[Any] | None = None
        self._version, self._bodies = version, bodies
        self._stream: Stream | None = None
        self._key: _Key = (None, None)
        self._is_streaming = False
        self._usages: list[Usage | None] = []
        self._attempts: dict[_Key, int] = {}
        self._open_retries: dict[tuple[str | None, int | None], int] = {}
        self._markers: list[tuple[Time, str]] = []
        self._request: _Request = (None, None)
        self._provider: str | None = None
        self._model: str | None = None

    @property
    def final_text(self) -> str | None:
        """The text of the last own assistant message."""
        if self._final_content is None:
            return None
        blocks = [read_json(bytes(block)) if type(block) is Raw else block for block in self._final_content]
        return "".join(text_blocks(blocks))

    @property
    def message_usage(self) -> Usage:
        """What the own assistant messages cost."""
        return total(self._usages)

    def handlers(self) -> Mapping[str, Callable[[Event], None]]:
        """What to call for which type of event."""
        settling: dict[str, Callable[[Event], None]] = {"assistant/message": self._message}
        if self._version >= 2:
            settling["assistant/attempt"] = self._attempt
        else:
            settling |= {CHUNK_TYPE: self._chunk}
        return {
            **settling,
            **dict.fromkeys(_BEFORE_REQUESTS, self._mark),
            "request/header": self._header,
            "request/context": self._context,
            "turn/end": self._close_at,
            "step/start": self._step_start,
            "step/end": self._close_at,
            "llm/retry": self._retry,
            "llm/retry-started": self._retry_started,
        }

    def add_run(self, run: ChunkRun) -> None:
        """A packed run of deltas (formats 0 and 1)."""
        self._open((run.turn, run.step), run.time0).add_run(run)

    def add_stretch(self, stretch: Stretch) -> None:
        """Consecutive chunks of a log that is skimmed (formats 0 and 1)."""
        self._open((stretch.turn, stretch.step), stretch.time0).add_stretch(stretch)
        if stretch.finish is not None:  # its message may follow
            self._is_streaming = False

    def cut(self) -> None:
        """Everything so far is inherited, and nothing of it goes on; only the model stays the one that was set."""
        self.close()
        self.calls = [replace(call, inherited=True) for call in self.calls]
        self.retries = [replace(retry, inherited=True) for retry in self.retries]
        self._usages, self._final_content = [], None
        self._attempts, self._open_retries, self._markers = {}, {}, []

    def close(self) -> None:
        """The call whose chunks were coming in is over, and no message will follow it."""
        self._is_streaming = False
        stream, self._stream = self._stream, None
        if stream is not None:
            self._add(self._key, stream, "none", self._request)

    def _open(self, key: _Key, time: Time) -> Stream:
        if not self._is_streaming or key != self._key:
            self.close()
        if self._stream is None:
            self._stream, self._key, self._is_streaming = Stream(bodies=self._bodies), key, True
            self._request = self._take_request(time)
        return self._stream

    def _chunk(self, event: Event) -> None:
        chunk = event.data.get("chunk")
        self._open(_key(event), event.time).add_chunk(chunk, time_of(event))
        if type(chunk) is dict and chunk.get("type") == "finish":  # its message may follow
            self._is_streaming = False

    def _message(self, event: Event) -> None:
        data = event.data
        usage = read_usage(data.get("usage"))
        self._usages.append(usage)
        content = inner(data, "message").get("content")
        if type(content) is list:
            self._final_content = content
        if self._version >= 2:
            self._settle_stream(event, "message", usage)
            return
        stream, key = self._stream, _key(event)
        if stream is not None and self._key == key:
            self._stream, self._is_streaming = None, False
            self._settle(event, key, stream, "message", self._request, usage)

    def _attempt(self, event: Event) -> None:
        self._settle_stream(event, "attempt", read_usage(event.data.get("usage")))

    def _settle_stream(self, event: Event, settled_as: SettledAs, usage: Usage | None) -> None:
        stream = Stream(bodies=self._bodies)
        for item in items(event.data, "stream"):
            stream.add_item(item)
        first = event.time if stream.first_chunk_at is None else stream.first_chunk_at
        self._settle(event, _key(event), stream, settled_as, self._take_request(first), usage)

    def _settle(
        self, event: Event, key: _Key, stream: Stream, settled_as: SettledAs, request: _Request, usage: Usage | None
    ) -> None:
        interrupted = event.data.get("interrupted") is True
        self._add(key, stream, settled_as, request, time_of(event), interrupted=interrupted, usage=usage)

    def _add(
        self,
        key: _Key,
        stream: Stream,
        settled_as: SettledAs,
        request: _Request,
        settled_at: Time | None = None,
        *,
        interrupted: bool = False,
        usage: Usage | None = None,
    ) -> None:
        attempt = self._attempts[key] = self._attempts.get(key, 0) + 1
        turn, step = key
        finish, chars = stream.finish, stream.chars
        self.calls.append(
            ModelCall(  # by place, for names take as long as everything else here
                _whole(turn),
                _whole(step),
                attempt,
                settled_as,
                interrupted,
                self._provider,
                self._model,
                *request,
                stream.chunks,
                stream.deltas,
                stream.first_chunk_at,
                stream.first_delta_at,
                stream.last_delta_at,
                stream.last_chunk_at,
                settled_at,
                finish,
                text(finish, "kind") if finish else None,
                text(inner(finish, "failure"), "code") if finish else None,
                usage or stream.usage,
                chars.get("text-delta", 0),
                chars.get("reasoning-delta", 0),
                chars.get("tool-call-delta", 0),
                stream.body("text-delta"),
                stream.body("reasoning-delta"),
            )
        )

    def _close_at(self, event: Event) -> None:
        del event
        self.close()

    def _mark(self, event: Event) -> None:
        """An event that comes before every request: the latest one before the first chunk is the best estimate."""
        at = time_of(event)
        if at is not None:
            self._markers.append((at, event.type))

    def _take_request(self, time: Time) -> _Request:
        """The estimate for a call whose first chunk came at ``time``; no later call is estimated from what came before it.

        A later format writes a call's event when it is over: what was logged while it streamed belongs to the next one.
        """
        before = [marker for marker in self._markers if marker[0] <= time]
        self._markers = [marker for marker in self._markers if marker[0] > time]
        latest: _Request = (None, None)
        for marker in before:
            if latest[0] is None or marker[0] >= latest[0]:
                latest = marker
        return latest

    def _step_start(self, event: Event) -> None:
        self.close()
        self._markers.clear()
        self._mark(event)

    def _header(self, event: Event) -> None:
        config = inner(inner(event.data, "header"), "config")
        self._use_model(text(config, "provider"), text(config, "model"))
        self._mark(event)

    def _context(self, event: Event) -> None:
        self._use_model(text(event.data, "provider"), text(event.data, "model"))
        self._mark(event)

    def _use_model(self, provider: str | None, model: str | None) -> None:
        if not self._is_streaming:  # whatever ended before was another request's
            self.close()
        if model is not None:
            self._provider, self._model = provider, model

    def _retry(self, event: Event) -> None:
        self.close()
        data = event.data
        failure, retry = inner(data, "failure"), whole(data, "retry")
        self._open_retries[text(data, "retryId"), retry] = len(self.retries)
        self.retries.append(
            Retry(
                turn=whole(data, "turn"),
                step=whole(data, "step"),
                retry=retry,
                max_retries=whole(data, "maxRetries"),
                delay_ms=number(data, "delayMs"),
                error_code=text(failure, "code"),
                error_status=whole(failure, "status"),
                failed_at=time_of(event),
            )
        )

    def _retry_started(self, event: Event) -> None:
        place = self._open_retries.pop((text(event.data, "retryId"), whole(event.data, "retry")), None)
        if place is not None:
            self.retries[place] = replace(self.retries[place], started_at=time_of(event))
        self._mark(event)


def _whole(value: float | None) -> int | None:
    value = as_integer(value)
    return value if value is not None and value >= 0 else None


def _key(event: Event) -> _Key:
    """The step that a call belongs to."""
    return turn_and_step(event.data, number)
