"""Watches the model requests of a host: the only module here that knows a host's events.

Three points of observation are put together by what cannot be mistaken: the run's signal, the agent itself, its session.
Whoever makes a request notices nothing: chunks, their order and pace, cancellation, exceptions and closing are the caller's
own, whatever the observer meets. It holds on to nothing of the caller's but by weak references.
Source: flight records, Correlation.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar, cast
from weakref import ref

from cassette_lab.contracts import AbortSignal, ModelRequest, ModelStream
from cassette_lab.event_bus import (
    ASSEMBLE,
    REQUEST,
    RUN_END,
    STREAM,
    Assembly,
    Attempt,
    EventBus,
    Undo,
    current_initiator,
    is_loop_request,
)
from cassette_lab.flight.model import NOTHING_OMITTED, FlightRecord, MissReason, Omissions, PromptAssembly, RecordExtra
from cassette_lab.flight.projection import Projector
from cassette_lab.flight.recorder import FlightRecorder
from cassette_lab.flight.watching import ObservedStream, Watch

K = TypeVar("K")
V = TypeVar("V")
STEPS_REMEMBERED: Final = 4096
"""Of one agent: of how many steps the attempts are counted, the most recent ones."""


def attach(bus: EventBus, recorder: FlightRecorder) -> Undo:
    """Let ``recorder`` see every request of a host, from now until the returned function is called (twice is once).

    The observer stands outside of all listeners that are there: it sees what they made of prompts, attempts and streams.
    """
    observer = _Observer(recorder)
    undo = [
        bus.on(ASSEMBLE, observer.assembling, prepend=True),
        bus.on(REQUEST, observer.requesting, prepend=True),
        bus.on(STREAM, observer.streaming, prepend=True),
        bus.on(RUN_END, observer.run_ended),
    ]

    def detach() -> None:
        while undo:
            undo.pop()()

    return detach


class _Prompt(NamedTuple):
    """The assembly of a step."""

    agent: Callable[[], Any]
    projection: PromptAssembly
    omissions: Omissions


class _Pending(NamedTuple):
    """An attempt whose stream has not been made yet. ``kept``: the assembly of a retry's step."""

    agent: Callable[[], Any]
    session_id: str | None
    turn: int
    step: int
    prompt: _Prompt | None
    kept: PromptAssembly | None


class _Observer:
    def __init__(self, recorder: FlightRecorder) -> None:
        self._recorder = recorder
        self._projector = Projector()
        self._prompts: _ByIdentity[AbortSignal, _Prompt] = _ByIdentity()
        self._pending: _ByIdentity[AbortSignal, _Pending] = _ByIdentity()
        self._last: _ByIdentity[AbortSignal, _Pending] = _ByIdentity()
        self._attempts: _ByIdentity[Any, dict[tuple[int, int], int]] = _ByIdentity()
        self._watched: _ByIdentity[AbortSignal, dict[str, Watch]] = _ByIdentity()

    async def assembling(self, payload: Assembly, proceed: Callable[..., Awaitable[Assembly]]) -> Assembly:
        done = await proceed(payload)
        try:
            self._assembled(done)
        except Exception:  # noqa: BLE001 - what cannot be projected is counted, and is nobody else's concern
            self._recorder.projection_failed()
        return done

    async def requesting(self, payload: Attempt, proceed: Callable[..., Awaitable[Attempt]]) -> Attempt:
        done = await proceed(payload)
        try:
            self._requested(done)
        except Exception:  # noqa: BLE001 - then its stream will be one that nobody announced
            return done
        return done

    def streaming(self, request: ModelRequest, proceed: Callable[..., ModelStream]) -> ModelStream:
        try:
            watch = self._begun(request)
        except Exception:  # noqa: BLE001 - what cannot be projected is counted, and passes
            self._recorder.projection_failed()
            watch = None
        if watch is None:
            return proceed(request)
        watch.begin()
        try:
            stream = proceed(request)
        except BaseException as error:
            watch.threw(error)
            raise
        return cast("ModelStream", ObservedStream(stream, watch))

    def run_ended(self, _agent: Any, signal: AbortSignal | None) -> None:
        """Nobody reads the streams of this run any more."""
        for watch in list((self._watched.take(signal) or {}).values()):
            watch.abandoned()
        for known in (self._prompts, self._pending, self._last):
            known.take(signal)

    def _assembled(self, payload: Assembly) -> None:
        if payload.agent is not None and payload.signal is not None:
            projection, omissions = self._projector.prompt(payload)
            self._prompts.put(payload.signal, _Prompt(_weakly(payload.agent), projection, omissions))

    def _requested(self, payload: Attempt) -> None:
        agent, signal = payload.agent, payload.signal
        if agent is None or signal is None:
            return
        prompt = self._prompts.take(signal)
        if prompt is not None and prompt.agent() is not agent:
            prompt = None
        kept = None
        if prompt is None:
            last = self._last.get(signal)
            if last is not None and last.agent() is agent and (last.turn, last.step) == (payload.turn, payload.step):
                kept = last.kept if last.prompt is None else last.prompt.projection
        pending = _Pending(_weakly(agent), payload.session_id, payload.turn, payload.step, prompt, kept)
        self._pending.put(signal, pending)
        self._last.put(signal, pending)

    def _begun(self, request: ModelRequest) -> Watch | None:
        """Insert the record of a request; None for one that is not, or cannot be, told whose it is."""
        if self._recorder.disposed:
            return None
        if not is_loop_request(request):
            return self._auxiliary(request)
        pending = self._announced(request)
        if isinstance(pending, str):
            self._recorder.miss(pending)
            return None
        signal = request.signal
        self._pending.take(signal)
        turn, step = _whole(pending.turn), _whole(pending.step)
        attempt = self._count(pending.agent(), (turn, step))
        projection, omissions = self._projector.request(request)
        prompt = pending.prompt
        extra = RecordExtra(pending.kept) if pending.kept is not None else _NOTHING_MORE
        record = FlightRecord(
            _new_id(), _plain(pending.session_id or ""), turn, step, attempt, _now_ms(), projection,
            None if prompt is None else prompt.projection,
            omissions if prompt is None or prompt.omissions is NOTHING_OMITTED else omissions + prompt.omissions,
            extra=extra,
        )  # fmt: skip
        watch = Watch(self._recorder.settle, record.id, extra, _weakly(signal))
        self._recorder.insert(record)
        return self._keep(signal, watch)

    def _announced(self, request: ModelRequest) -> _Pending | MissReason:
        """The attempt that this is the stream of, or the first reason why it is none that was announced."""
        signal = request.signal
        if signal is None:
            return "missing-signal"
        pending = self._pending.get(signal)
        if pending is None:
            return "missing-pending"
        agent = pending.agent()
        if agent is None or current_initiator() is not agent:
            return "agent-mismatch"
        if request.session_id != pending.session_id:
            return "session-mismatch"
        return pending

    def _auxiliary(self, request: ModelRequest) -> Watch | None:
        """A call that is no step: it stands beside the records, and what cannot be projected is not counted."""
        try:
            projection, omissions = self._projector.request(request)
            session_id = _plain(request.session_id or "")
            record = FlightRecord(_new_id(), session_id, 0, 0, 1, _now_ms(), projection, omissions=omissions, extra=_AUXILIARY)
        except Exception:  # noqa: BLE001 - as the docstring says
            return None
        signal = request.signal
        watch = Watch(self._recorder.settle_auxiliary, record.id, _AUXILIARY, _weakly(signal))
        self._recorder.insert_auxiliary(record)
        return self._keep(signal, watch)

    def _keep(self, signal: AbortSignal | None, watch: Watch) -> Watch:
        """Remember what is to be settled when the run ends."""
        if signal is not None:
            watched = self._watched.get(signal)
            if watched is None:
                self._watched.put(signal, watched := {})
            watched[watch.id] = watch
            watch.among = watched
        return watch

    def _count(self, agent: Any, step: tuple[int, int]) -> int:
        attempts = self._attempts.get(agent)
        if attempts is None:
            self._attempts.put(agent, attempts := {})
        attempts[step] = count = attempts.pop(step, 0) + 1
        if len(attempts) > STEPS_REMEMBERED:
            del attempts[next(iter(attempts))]
        return count


_NOTHING_MORE: Final = RecordExtra()
_AUXILIARY: Final = RecordExtra(auxiliary=True)


class _ByIdentity(Generic[K, V]):
    """Values by object, as long as the object lives. What cannot be referenced weakly is not remembered."""

    __slots__ = ("__weakref__", "_entries")

    def __init__(self) -> None:
        self._entries: dict[int, tuple[ref[Any], V]] = {}

    def put(self, key: K, value: V) -> None:
        number = id(key)
        entries = self._entries  # not self: the reference lives as long as the key does

        def forget(gone: ref[Any]) -> None:
            entry = entries.get(number)
            if entry is not None and entry[0] is gone:
                del entries[number]

        entry = entries.get(number)
        if entry is not None and entry[0]() is key:
            entries[number] = (entry[0], value)
            return
        try:
            entries[number] = (ref(key, forget), value)
        except TypeError:
            return

    def get(self, key: K) -> V | None:
        entry = self._entries.get(id(key))
        return entry[1] if entry is not None and entry[0]() is key else None

    def take(self, key: K | None) -> V | None:
        entry = self._entries.get(id(key))
        if entry is None or entry[0]() is not key:
            return None
        del self._entries[id(key)]
        return entry[1]


def _weakly(value: Any) -> Callable[[], Any]:
    """A weak reference; to what has none, a reference to nothing."""
    try:
        return ref(value)
    except TypeError:
        return _nothing


def _nothing() -> None:
    return None


def _plain(text: str) -> str:
    return text if type(text) is str else str.__str__(text)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"turns and steps are whole numbers, not {type(value).__name__}")
    return int(value)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _new_id() -> str:
    """A random UUID of version 4; the standard library's takes longer than all the rest."""
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{'89ab'[int(digits[16], 16) & 3]}{digits[17:20]}-{digits[20:]}"
