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
from cassette_lab.flight.model import NOTHING_OMITTED, RUNNING, FlightRecord, Omissions, PromptAssembly, RecordExtra
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


class _Attempt(NamedTuple):
    """One try of a step. ``kept`` is a retry's prompt: that of the step's first attempt."""

    agent: Callable[[], Any]
    session_id: str | None
    turn: int
    step: int
    prompt: _Prompt | None
    kept: PromptAssembly | None


class _Run:
    """What is known under one signal: a prompt that no attempt has taken, the last attempt, and whether its stream is due."""

    __slots__ = ("attempt", "due", "prompt", "watched")

    def __init__(self) -> None:
        self.prompt: _Prompt | None = None
        self.attempt: _Attempt | None = None
        self.due = False
        self.watched: dict[str, Watch] = {}


class _Observer:
    def __init__(self, recorder: FlightRecorder) -> None:
        self._recorder = recorder
        self._projector = Projector()
        self._runs: _ByIdentity[AbortSignal, _Run] = _ByIdentity()
        self._attempts: _ByIdentity[Any, dict[tuple[int, int], int]] = _ByIdentity()

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
        run = self._runs.take(signal)
        if run is not None:
            for watch in list(run.watched.values()):
                watch.abandoned()

    def _assembled(self, payload: Assembly) -> None:
        agent, signal = payload.agent, payload.signal
        if agent is not None and signal is not None:
            self._run(signal).prompt = _Prompt(_weakly(agent), *self._projector.prompt(payload))

    def _requested(self, payload: Attempt) -> None:
        agent, signal = payload.agent, payload.signal
        if agent is None or signal is None:
            return
        run = self._run(signal)
        prompt, run.prompt = run.prompt, None
        if prompt is not None and prompt.agent() is not agent:
            prompt = None
        turn, step, last = payload.turn, payload.step, run.attempt
        kept = None
        if prompt is None and last is not None and last.agent() is agent and (last.turn, last.step) == (turn, step):
            kept = last.kept if last.prompt is None else last.prompt.projection
        run.attempt = _Attempt(_weakly(agent), payload.session_id, turn, step, prompt, kept)
        run.due = True

    def _begun(self, request: ModelRequest) -> Watch | None:
        """Insert the record of a request; None for one that is not, or cannot be, told whose it is."""
        if self._recorder.disposed:
            return None
        if not is_loop_request(request):
            return self._auxiliary(request)
        signal = request.signal
        if signal is None:
            self._recorder.miss("missing-signal")
            return None
        run = self._runs.get(signal)
        if run is None or not run.due or run.attempt is None:
            self._recorder.miss("missing-pending")
            return None
        session_id, turn, step = run.attempt.session_id, run.attempt.turn, run.attempt.step
        agent = run.attempt.agent()
        if agent is None or current_initiator() is not agent:
            self._recorder.miss("agent-mismatch")
            return None
        if request.session_id != session_id:
            self._recorder.miss("session-mismatch")
            return None
        run.due = False
        attempt = self._count(agent, turn, step)
        projection, omissions = self._projector.request(request)
        prompt = run.attempt.prompt
        if prompt is not None and prompt.omissions is not NOTHING_OMITTED:
            omissions += prompt.omissions
        extra = _NOTHING_MORE if run.attempt.kept is None else RecordExtra(run.attempt.kept)
        record = FlightRecord(
            _new_id(), _plain(session_id or ""), turn, step, attempt, _now_ms(), projection,
            None if prompt is None else prompt.projection, omissions, RUNNING, extra,
        )  # fmt: skip
        watch = Watch(self._recorder.settle, record.id, extra, ref(signal), run.watched)
        self._recorder.insert(record)
        return watch

    def _auxiliary(self, request: ModelRequest) -> Watch | None:
        """A call that is no step: it stands beside the records, and what cannot be projected is not counted."""
        try:
            projection, omissions = self._projector.request(request)
            session_id = _plain(request.session_id or "")
        except Exception:  # noqa: BLE001 - as the docstring says
            return None
        record = FlightRecord(_new_id(), session_id, 0, 0, 1, _now_ms(), projection, omissions=omissions, extra=_AUXILIARY)
        signal = request.signal
        among = {} if signal is None else self._run(signal).watched
        watch = Watch(self._recorder.settle_auxiliary, record.id, _AUXILIARY, _weakly(signal), among)
        self._recorder.insert_auxiliary(record)
        return watch

    def _run(self, signal: AbortSignal) -> _Run:
        run = self._runs.get(signal)
        if run is None:
            self._runs.put(signal, run := _Run())
        return run

    def _count(self, agent: Any, turn: int, step: int) -> int:
        """The number of an attempt at a step."""
        if type(turn) is not int or type(step) is not int:
            raise TypeError("turns and steps are whole numbers")
        attempts = self._attempts.get(agent)
        if attempts is None:
            self._attempts.put(agent, attempts := {})
        place = (turn, step)
        attempts[place] = count = attempts.pop(place, 0) + 1
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


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _new_id() -> str:
    """A random UUID of version 4; the standard library's takes longer than all the rest."""
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{'89ab'[int(digits[16], 16) & 3]}{digits[17:20]}-{digits[20:]}"
