"""The observer on a real event bus: what it tells of requests, and that nobody notices it."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, cast

import pytest

from cassette_lab.contracts import AbortController, ModelRequest, ModelStream, StreamChunk
from cassette_lab.errors import AbortError, RecordedError
from cassette_lab.event_bus import ASSEMBLE, DISPOSED, RUN_END, STREAM, Assembly
from cassette_lab.flight.model import FlightRecord, Usage
from cassette_lab.flight.observer import attach
from cassette_lab.flight.recorder import FlightRecorder
from cassette_lab.flight.watching import ObservedStream, abort_cause, error_kind
from cassette_lab.host.context import Context
from cassette_lab.host.models.failures import ModelFailure
from tests.unit.flight_samples import DELTA, STOP, Agent, Host, answer, as_it_is, read, usage

Play = Callable[[Host, FlightRecorder], Any]


def observed(play: Play) -> FlightRecorder:
    """A recorder after ``play`` on a host that it is attached to."""
    recorder = FlightRecorder()

    async def run() -> None:
        async with Context() as context:
            context.effect(attach(context, recorder))
            async with asyncio.timeout(10):
                await play(Host(context), recorder)

    asyncio.run(run())
    return recorder


def only(recorder: FlightRecorder) -> FlightRecord:
    (record,) = recorder.snapshot().records
    return record


class TestRecords:
    def test_a_whole_step(self) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            await host.assemble(sections=[{"name": "identity", "text": "you are"}])
            chunks = [DELTA, usage(inputTokens=3, outputTokens=1, cacheReadTokens=2, totalTokens=6), STOP]
            assert await host.ask(*chunks) == chunks

        record = only(observed(play))
        assert (record.session_id, record.turn, record.step, record.attempt) == ("s", 1, 1, 1)
        assert record.prompt_assembly is not None
        assert [tuple(part) for part in record.prompt_assembly.sections] == [("identity", 7)]
        outcome = record.outcome
        assert (outcome.kind, outcome.finish) == ("finished", "stop")
        assert outcome.usage is not None
        assert outcome.usage.to_json() == {"inputTokens": 3, "outputTokens": 1, "cacheReadTokens": 2}
        assert outcome.first_chunk_ms is not None
        assert outcome.total_ms is not None
        assert 0 <= outcome.first_chunk_ms <= outcome.total_ms < 10_000
        assert not record.extra

    def test_a_retry_keeps_the_prompt_beside_the_record(self) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            await host.assemble(sections=[{"name": "identity", "text": "you are"}])
            for _attempt in range(3):
                await host.ask(STOP)
            await host.ask(STOP, step=2)

        records = observed(play).snapshot().records
        assert [record.attempt for record in records] == [1, 3, 2, 1]
        assert [record.prompt_assembly is not None for record in records] == [False, False, False, True]
        assert [record.extra.prompt_assembly is not None for record in records] == [False, True, True, False]
        assert records[1].known_assembly == records[3].prompt_assembly

    def test_failure_codes_are_of_a_closed_list(self) -> None:
        def failed(code: Any) -> StreamChunk:
            return {"type": "finish", "reason": {"kind": "error", "failure": {"message": "private", "code": code}}}

        async def play(host: Host, _: FlightRecorder) -> None:
            for code in ("RATE_LIMIT", "sk-private", 7):
                await host.ask(failed(code))
            await host.attempt()
            with pytest.raises(ModelFailure):
                await read(host.stream(lambda _: raising(ModelFailure("private", code="TIMEOUT", status=504))))

        recorder = observed(play)
        assert [record.extra.error_code for record in recorder.query()] == ["TIMEOUT", None, "OTHER", "RATE_LIMIT"]
        assert [record.extra.http_status for record in recorder.query()] == [504, None, None, None]
        assert "private" not in repr(recorder.snapshot())

    @pytest.mark.parametrize(
        ("reason", "cause"),
        [("the user is gone", "user"), (None, "user"), (TimeoutError("late"), "timeout"), (DISPOSED, "dispose")],
    )
    def test_who_aborted(self, reason: Any, cause: str) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            await host.attempt()
            stream = host.stream(lambda request: waiting(request))  # noqa: PLW0108 - named for what it does
            await anext(cast("AsyncIterator[StreamChunk]", stream))
            host.controller.abort(reason)
            with pytest.raises(AbortError):
                await stream.__anext__()

        record = only(observed(play))
        assert (record.outcome.error, record.extra.aborted) == ("abort-error", cause)

    def test_auxiliary_calls_stand_beside_the_records(self) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            await host.attempt()
            await read(host.stream(lambda _: answer([DELTA, STOP]), marked=False))
            await read(host.stream(lambda _: answer([DELTA, STOP]), marked=False, signal=None, messages=None))
            await read(host.stream(lambda _: answer([STOP])))

        snapshot = observed(play).snapshot()
        assert [record.extra.auxiliary for record in snapshot.records] == [False]
        assert [(record.extra.auxiliary, record.outcome.finish) for record in snapshot.auxiliary] == [(True, "stop")]
        assert (snapshot.health.captured, snapshot.health.projection_failures, snapshot.revision) == (1, 0, 2)

    def test_the_end_of_a_run_closes_what_nobody_reads(self) -> None:
        async def play(host: Host, recorder: FlightRecorder) -> None:
            await host.attempt()
            host.stream(lambda _: Silent())  # made, and never read
            await host.attempt(step=2)
            half = host.stream(lambda _: answer([DELTA, STOP]))
            await half.__anext__()
            assert recorder.health().active == 2
            host.bus.emit(RUN_END, host.agent, host.controller.signal)
            assert recorder.health().active == 0
            assert await half.__anext__() is STOP  # still the reader's own
            host.bus.emit(RUN_END, host.agent, host.controller.signal)
            host.bus.emit(RUN_END, host.agent, None)

        records = observed(play).query()
        assert [record.outcome.reason for record in records] == ["consumer-returned"] * 2
        assert [record.extra.ended_by for record in records] == ["run-end"] * 2
        assert [record.outcome.first_chunk_ms is None for record in records] == [False, True]

    def test_a_kind_of_finish_that_is_a_story_is_not_kept(self) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            await host.ask({"type": "finish", "reason": {"kind": "x" * 300}})

        assert only(observed(play)).outcome.finish == "other"


class TestMisses:
    def test_the_first_reason_that_holds(self) -> None:
        async def play(host: Host, recorder: FlightRecorder) -> None:
            def model(_: ModelRequest) -> ModelStream:
                return answer([STOP])

            await read(host.stream(model, signal=None))
            await read(host.stream(model))
            await host.attempt()
            other = Host(host.bus)
            await read(other.bus.stream(STREAM, host.request(), model))
            await read(host.stream(model, session_id="another"))
            assert recorder.health().correlation_misses_by_reason == dict.fromkeys(
                ("missing-signal", "missing-pending", "agent-mismatch", "session-mismatch"), 1
            )
            await read(host.stream(model))

        assert observed(play).health().captured == 1

    def test_an_agent_that_is_gone_is_no_match(self) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            await host.attempt()
            host.agent = Agent()
            gc.collect()
            await read(host.stream(lambda _: answer([STOP])))

        assert observed(play).health().correlation_misses_by_reason["agent-mismatch"] == 1

    def test_an_assembly_of_another_agent_is_not_taken(self) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            stranger = Agent()
            payload = Assembly(stranger, host.controller.signal, "s", 1, 1, sections=[{"name": "n", "text": "t"}])
            await host.bus.waterfall(ASSEMBLE, payload, as_it_is)
            await host.ask(STOP)

        assert only(observed(play)).prompt_assembly is None

    def test_what_cannot_be_projected_passes_and_counts(self) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            await host.assemble(sections=[{"name": "n", "text": None}])
            assert await host.ask(DELTA, STOP, messages=[{"role": Hostile()}]) == [DELTA, STOP]
            await host.ask(STOP)

        recorder = observed(play)
        assert recorder.health().projection_failures == 2
        assert only(recorder).attempt == 2


class TestPassive:
    """A stream and its model behave as they would without the observer."""

    def test_chunks_order_and_pace(self) -> None:
        made: list[int] = []

        async def counting() -> AsyncGenerator[StreamChunk, None]:
            for number in range(3):
                made.append(number)
                yield {"type": "text-delta", "index": 0, "text": str(number)}

        async def play(host: Host, _: FlightRecorder) -> None:
            await host.attempt()
            stream = host.stream(lambda _: counting())
            for number in range(3):
                chunk = await stream.__anext__()
                assert chunk["text"] == str(number)
                assert made == list(range(number + 1)), "the model is not asked ahead of its reader"

        observed(play)

    @pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), AbortError("x"), asyncio.CancelledError()])
    def test_exceptions_are_the_same_ones(self, error: BaseException) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            await host.attempt()
            stream = host.stream(lambda _: raising(error))
            assert await stream.__anext__() is DELTA
            with pytest.raises(type(error)) as raised:
                await stream.__anext__()
            assert raised.value is error

        assert only(observed(play)).outcome.kind == "threw"

    def test_making_a_stream_may_fail(self) -> None:
        error = OSError("no network")

        def broken(_: ModelRequest) -> ModelStream:
            raise error

        async def play(host: Host, _: FlightRecorder) -> None:
            await host.attempt()
            with pytest.raises(OSError, match="no network") as raised:
                host.stream(broken)
            assert raised.value is error

        outcome = only(observed(play)).outcome
        assert (outcome.kind, outcome.error, outcome.first_chunk_ms) == ("threw", "error", None)

    def test_closing_reaches_the_model(self) -> None:
        closed: list[str] = []

        async def model() -> AsyncGenerator[StreamChunk, None]:
            try:
                yield DELTA
            except ValueError:
                closed.append("thrown into")
                yield STOP
            finally:
                closed.append("closed")

        async def play(host: Host, _: FlightRecorder) -> None:
            await host.attempt()
            stream = host.stream(lambda _: model())
            await stream.__anext__()
            assert await stream.athrow(ValueError("x")) is STOP
            await stream.aclose()
            await stream.aclose()
            assert closed == ["thrown into", "closed"]
            await host.attempt()
            unread = host.stream(lambda _: model())
            await unread.aclose()

        records = observed(play).query()
        assert [record.outcome.reason for record in records] == ["consumer-returned", "consumer-threw"]

    def test_a_close_that_fails_fails_for_its_reader(self) -> None:
        async def model() -> AsyncGenerator[StreamChunk, None]:
            try:
                yield DELTA
            finally:
                raise OSError("no close")

        async def play(host: Host, _: FlightRecorder) -> None:
            await host.attempt()
            stream = host.stream(lambda _: model())
            await stream.__anext__()
            with pytest.raises(OSError, match="no close"):
                await stream.aclose()

        assert only(observed(play)).outcome.reason == "consumer-returned"

    def test_cancellation_reaches_the_model(self) -> None:
        seen: list[str] = []

        async def model() -> AsyncGenerator[StreamChunk, None]:
            yield DELTA
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        async def play(host: Host, _: FlightRecorder) -> None:
            await host.attempt()
            task = asyncio.create_task(read(host.stream(lambda _: model())))
            for _turn in range(5):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert seen == ["cancelled"]

        record = only(observed(play))
        assert (record.outcome.error, record.extra.aborted) == ("abort-error", "user")

    def test_a_reading_that_is_cancelled_before_it_begins(self) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            await host.attempt()
            stream = host.stream(lambda _: answer([DELTA, STOP]))
            task = asyncio.ensure_future(stream.__anext__())
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await read(stream) == [DELTA, STOP]

        assert only(observed(play)).outcome.kind == "finished"

    def test_a_cancel_between_making_and_reading_loses_no_record(self) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            await host.attempt()

            async def consume() -> None:
                async with aclosing(host.stream(lambda _: answer([STOP]))) as stream:
                    await asyncio.sleep(60)
                    await stream.__anext__()

            task = asyncio.create_task(consume())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        assert only(observed(play)).outcome.reason == "consumer-returned"

    @pytest.mark.parametrize(
        "chunk",
        [{}, {"type": None}, {"type": []}, {"type": "usage"}, {"type": "usage", "usage": 7}, {"type": "finish"}, None, 7,
         {"type": "finish", "reason": {"kind": []}}, {"type": "usage", "usage": {"inputTokens": "1", "outputTokens": -1}}],
    )  # fmt: skip
    def test_any_chunk_passes(self, chunk: Any) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            assert await host.ask(chunk, STOP) == [chunk, STOP]

        outcome = only(observed(play)).outcome
        assert outcome.kind == "finished"
        assert outcome.usage in (None, Usage())

    def test_hostile_objects_pass(self) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            hostile = cast("StreamChunk", Hostile())
            assert (await host.ask(hostile, STOP))[0] is hostile
            await host.attempt()
            with pytest.raises(HostileError):
                await read(host.stream(lambda _: raising(HostileError())))

        recorder = observed(play)
        assert [record.outcome.error for record in recorder.query()] == ["error", None]

    def test_a_schema_that_is_huge_or_contains_itself(self) -> None:
        cyclic: dict[str, Any] = {"properties": {}}
        cyclic["properties"]["self"] = cyclic
        huge = {str(number): {"type": "string"} for number in range(100_000)}

        async def play(host: Host, _: FlightRecorder) -> None:
            tools = [{"name": "cyclic", "parameters": cyclic}, {"name": "huge", "parameters": huge}]
            await host.ask(STOP, tools=tools)

        record = only(observed(play))
        assert [tool.parameter_nodes for tool in record.request.tools] == [2, 4096]
        assert record.omissions.truncated_tool_schemas == 2

    def test_a_failing_subscriber_or_recorder_is_nobodys_concern(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: Any, **__: Any) -> Any:
            raise MemoryError

        async def play(host: Host, recorder: FlightRecorder) -> None:
            recorder.subscribe(broken)
            assert await host.ask(DELTA, STOP) == [DELTA, STOP]
            monkeypatch.setattr(recorder, "settle", broken)
            assert await host.ask(DELTA, STOP) == [DELTA, STOP]

        observed(play)

    def test_a_stream_has_what_the_models_stream_has(self) -> None:
        class Special(Silent):
            request_id = "r-17"

        async def play(host: Host, _: FlightRecorder) -> None:
            await host.attempt()
            stream = cast("Any", host.stream(lambda _: Special()))
            assert stream.request_id == "r-17"
            with pytest.raises(AttributeError):
                stream.nothing_like_it  # noqa: B018 - reading it is the test
            assert isinstance(stream, ModelStream)

        observed(play)

    def test_a_listener_that_answers_itself_is_seen(self) -> None:
        async def play(host: Host, _: FlightRecorder) -> None:
            host.bus.on(STREAM, lambda _request, _next: answer([DELTA, STOP]))
            await host.attempt()
            assert await read(host.stream(lambda _: raising(ValueError()))) == [DELTA, STOP]

        assert only(observed(play)).outcome.kind == "finished"


def test_after_detaching_nothing_is_seen() -> None:
    async def run() -> None:
        context, recorder = Context(), FlightRecorder()
        detach = attach(context, recorder)
        host = Host(context)
        await host.attempt()
        stream = host.stream(lambda _: answer([DELTA, STOP]))
        detach()
        detach()
        assert context.listeners(STREAM) == 0
        assert await read(stream) == [DELTA, STOP]  # what had begun is told to its end
        await host.attempt(step=2)
        assert type(host.stream(lambda _: answer([STOP]))) is not ObservedStream
        assert [record.outcome.kind for record in recorder.query()] == ["finished"]
        recorder.dispose()
        await context.dispose()

    asyncio.run(run())


def test_a_disposed_recorder_costs_and_keeps_nothing() -> None:
    async def play(host: Host, recorder: FlightRecorder) -> None:
        recorder.dispose()
        await host.attempt()
        assert type(host.stream(lambda _: Silent())) is Silent

    assert observed(play).snapshot().records == ()


def test_nothing_of_the_caller_is_kept_alive() -> None:
    async def play(host: Host, recorder: FlightRecorder) -> None:
        tools = [{"name": "t", "parameters": {}}]
        await host.assemble(tools=tools)
        await host.attempt()
        request = host.request(tools=tools)
        stream = host.bus.stream(STREAM, request, lambda _: Silent())
        agent, signal = host.agent, host.controller.signal
        gone = [weakref.ref(each) for each in (request, agent, signal)]
        host.agent, host.controller = Agent(), AbortController()
        del request, stream, agent, signal
        gc.collect()
        assert [ref() for ref in gone] == [None, None, None]
        assert recorder.health().correlation_misses_by_reason["agent-mismatch"] == 1

    observed(play)


def test_a_hundred_hosts_leave_nothing() -> None:
    async def once() -> list[weakref.ref[Any]]:
        recorder = FlightRecorder()
        async with Context() as context:
            undo = context.effect(attach(context, recorder))
            recorder.subscribe(lambda _: None)
            host = Host(context)
            await host.assemble(sections=[{"name": "n", "text": "t"}])
            await host.ask(DELTA, STOP)
            await host.attempt(step=2)
            half = host.stream(lambda _: answer([DELTA, STOP]))
            await half.__anext__()
            assert undo is not None
        await half.aclose()
        assert context.listeners(STREAM) == context.listeners(ASSEMBLE) == context.listeners(RUN_END) == 0
        recorder.dispose()
        return [weakref.ref(each) for each in (recorder, host, host.agent, host.controller.signal)]

    async def run() -> None:
        tasks, threads = len(asyncio.all_tasks()), threading.active_count()
        left = [ref for _ in range(100) for ref in await once()]
        await asyncio.sleep(0)
        gc.collect()
        assert [ref() for ref in left if ref() is not None] == []
        assert (len(asyncio.all_tasks()), threading.active_count()) == (tasks, threads)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (TypeError(), "type-error"), (SyntaxError(), "syntax-error"), (NameError(), "reference-error"),
        (UnboundLocalError(), "reference-error"), (IndexError(), "range-error"), (OverflowError(), "range-error"),
        (TimeoutError(), "timeout-error"), (asyncio.CancelledError(), "abort-error"), (AbortError("x"), "abort-error"),
        (ExceptionGroup("x", [ValueError()]), "aggregate-error"), (ReferenceError(), "error"), (ValueError(), "error"),
        (KeyboardInterrupt(), "non-error-thrown"), (SystemExit(), "non-error-thrown"),
        (RecordedError("x", recorded_name="URIError"), "uri-error"), (RecordedError("x", recorded_name="Odd"), "error"),
    ],
)  # fmt: skip
def test_kinds_of_errors(error: BaseException, kind: str) -> None:
    assert error_kind(error) == kind


def test_a_cause_is_read_from_the_reason() -> None:
    assert [abort_cause(reason) for reason in (None, "disposed", "x", TimeoutError())] == ["user", "dispose", "user", "timeout"]


class Silent:
    """A stream that gives nothing."""

    def __aiter__(self) -> AsyncIterator[StreamChunk]:
        return self

    async def __anext__(self) -> StreamChunk:
        raise StopAsyncIteration

    async def athrow(self, error: BaseException, /) -> StreamChunk:
        raise error

    async def aclose(self) -> None:
        return


class Hostile:
    """Everything one asks of it fails."""

    def __getitem__(self, name: Any) -> Any:
        raise RuntimeError("hands off")

    def __hash__(self) -> int:
        raise RuntimeError("hands off")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("hands off")


class HostileError(Exception):
    """Nobody may look at it."""

    def __getattribute__(self, name: str) -> Any:
        if name in {"code", "name", "recorded_name"}:
            raise RuntimeError("hands off")
        return super().__getattribute__(name)


async def raising(error: BaseException) -> AsyncGenerator[StreamChunk, None]:
    yield DELTA
    raise error


async def waiting(request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
    yield DELTA
    assert request.signal is not None
    await request.signal.wait()
    raise AbortError("aborted")
