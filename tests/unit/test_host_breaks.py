"""What models, tools and callers may do wrongly: it is told in a sentence, nothing hangs, and the log stays whole."""

from __future__ import annotations

import asyncio
import errno
import functools
import math
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.contracts import AbortController, ModelRequest
from cassette_lab.errors import ConfigError, FormatError
from cassette_lab.event_bus import ASSEMBLE
from cassette_lab.host.agent import Agent
from cassette_lab.host.context import Context
from cassette_lab.host.contexts import record
from cassette_lab.host.models.failures import ModelFailure
from cassette_lab.host.models.scripted import Call, Say
from cassette_lab.host.retrying import RetryPolicy
from cassette_lab.host.tools import ToolContext, ToolOutput, tool
from cassette_lab.session import store_jsonl
from cassette_lab.session.store_jsonl import JsonlStore
from tests.unit.host_samples import agent, facts_of, logged, replaying, without_ids
from tests.unit.upstreams import play

STOP = {"type": "finish", "reason": {"kind": "stop"}}
DELTA = {"type": "text-delta", "index": 0, "text": "a"}


class Streaming:
    """A model that streams what it is given, whatever that is."""

    provider = model = "odd"

    def __init__(self, *streams: Sequence[Any]) -> None:
        self._streams = iter(streams)

    def stream(self, _: ModelRequest) -> AsyncGenerator[Any, None]:
        return self._chunks(next(self._streams))

    async def _chunks(self, chunks: Sequence[Any]) -> AsyncGenerator[Any, None]:
        for chunk in chunks:
            yield chunk


def _ended(block: Any) -> dict[str, Any]:
    return {"type": "block-end", "index": 0, "block": block}


def _called(**members: Any) -> dict[str, Any]:
    return _ended({"type": "tool-call", "id": "a", "name": "f", "arguments": "{}", **members})


NO_CHUNKS = [
    None,
    7,
    "text-delta",
    [DELTA],
    {"type": "text-delta", "index": 0},
    {"type": "text-delta", "index": 0, "text": None},
    {"type": "text-delta", "index": 0, "text": b"a"},
    {"type": "text-delta", "index": [0], "text": "a"},
    {"type": "tool-call-delta", "index": 1, "id": 5, "argumentsDelta": "{}"},
    {"type": "tool-call-delta", "index": 0, "id": "a", "argumentsDelta": "{}"},  # of a text block
    {"type": "block-start", "index": 1, "blockType": 7},
    _ended(None),
    _ended("text"),
    _ended({}),
    _ended({"type": "text"}),
    _ended({"type": "text", "text": 5}),
    _called(id=5),
    _called(id=""),
    _called(name=None),
    _called(arguments={"a": 1}),
    {"type": "usage"},
    {"type": "finish"},
    {"type": "finish", "reason": None},
    {"type": "finish", "reason": "stop"},
    {"type": "finish", "reason": {"kind": 5}},
    {**DELTA, "more": object()},
    {**DELTA, "more": math.nan},
    {**DELTA, "index": math.inf},
]


@pytest.mark.parametrize("chunk", NO_CHUNKS, ids=repr)
def test_what_is_no_chunk_is_a_malformed_response(tmp_path: Path, chunk: Any) -> None:
    async def scenario() -> Agent:
        model = Streaming([DELTA, chunk, STOP], [DELTA, STOP])
        async with Agent(model, context=Context(), sessions=tmp_path) as work:
            with pytest.raises(ModelFailure, match="the answer breaks its protocol") as caught:
                await work.run("go")
            assert caught.value.code == "MALFORMED_RESPONSE"
            assert (await work.run("again")).text == "a"
        return work

    work = play(scenario())
    facts = facts_of(tmp_path, work.session_id)
    assert [turn.end_kind for turn in facts.turns] == ["error", "completed"]
    assert facts.turns[0].error_code == "MALFORMED_RESPONSE"


def test_two_calls_with_one_id_are_malformed_for_no_result_could_be_told_from_the_other() -> None:
    async def scenario() -> None:
        model = Streaming([_called(), {**_called(), "index": 1}, STOP])
        async with Agent(model, context=Context()) as made:
            with pytest.raises(ModelFailure) as caught:
                await made.run("go")
        assert caught.value.code == "MALFORMED_RESPONSE"

    play(scenario())


def test_a_broken_answer_replays_as_broken(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with Agent(Streaming([DELTA, None]), context=Context(), sessions=tmp_path) as work:
            with pytest.raises(ModelFailure):
                await work.run("go")
        async with Agent(replaying(logged(tmp_path, work.session_id)), context=Context()) as again:
            with pytest.raises(ModelFailure) as caught:
                await again.run("go")
        assert caught.value.code == "MALFORMED_RESPONSE"
        assert without_ids(again.session.messages()) == without_ids(work.session.messages())

    play(scenario())


@pytest.mark.parametrize(
    "chunks",
    [
        [STOP],
        [{"type": "news"}, {}, STOP],
        [{"type": "usage", "usage": "many"}, STOP],
        [{"type": "usage", "usage": {"inputTokens": "many", "outputTokens": -1}}, STOP],
        [{"type": "finish", "reason": {"kind": "a new one"}}, DELTA],
    ],
    ids=repr,
)
def test_what_is_only_unknown_passes(chunks: list[Any]) -> None:
    async def scenario() -> None:
        async with Agent(Streaming(chunks), context=Context()) as work:
            result = await work.run("go")
        assert (result.stop_reason, result.text, result.usage.input_tokens) == ("completed", "", None)

    play(scenario())


def test_a_model_that_streams_nothing_and_a_listener_that_gives_nothing_are_told_by_name() -> None:
    class Silent:
        def stream(self, _: ModelRequest) -> Any:
            return None

    async def scenario() -> None:
        with pytest.raises(ConfigError, match=r"stream\(\) gave NoneType"):
            await Agent(Silent(), context=Context()).run("go")
        context = Context()
        context.on(ASSEMBLE, lambda *_: asyncio.sleep(0))
        with pytest.raises(ConfigError, match="a listener of system-prompt/assemble gave NoneType"):
            await agent("hi", context=context).run("go")

    play(scenario())


class BrokenError(Exception):
    """Cannot be told."""

    @property
    def code(self) -> str:
        raise RuntimeError("no code")

    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_an_error_that_cannot_be_told_is_raised_and_logged_by_its_name(tmp_path: Path) -> None:
    async def scenario() -> str:
        async with agent(BrokenError(), sessions=tmp_path) as work:
            with pytest.raises(BrokenError):
                await work.run("go")
        return work.session_id

    log = logged(tmp_path, play(scenario()))
    (end,) = [event for event in log.events() if event.type == "turn/end"]
    assert end.data["reason"]["error"] == {"message": "BrokenError: ", "code": "UNKNOWN"}


class Endless:
    """A model that talks on without ever waiting, or that never lets its stream be closed."""

    def __init__(self, *, stays: bool) -> None:
        self._stays = stays

    def stream(self, _: ModelRequest) -> AsyncGenerator[Any, None]:
        return self._chunks()

    async def _chunks(self) -> AsyncGenerator[Any, None]:
        try:
            while True:
                yield DELTA
        finally:
            if self._stays:
                await asyncio.sleep(30)


def test_a_model_that_never_waits_can_be_stopped() -> None:
    async def scenario() -> None:
        made = Agent(Endless(stays=False), context=Context())
        run = asyncio.create_task(made.run("go"))
        await asyncio.sleep(0.02)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert made.session.messages()[-1]["content"][0]["text"].startswith("aaa")

    play(scenario(), seconds=5)


def test_a_stream_that_does_not_let_itself_be_closed_keeps_no_context_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cassette_lab.host.tasks.CLEAN_UP_S", 0.05)

    async def scenario() -> None:
        async with Agent(Endless(stays=True), context=Context()) as made:
            stream = made.parts.llm.stream(ModelRequest([], provider="Endless"))
            await anext(aiter(stream))
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    play(scenario(), seconds=5)


# Tools


def _stop_iteration() -> str:
    raise StopIteration


def _told(made: Agent) -> Any:
    result = next(message for message in reversed(made.session.messages()) if message["source"]["kind"] == "tool")
    return result["content"][0]


async def _of(function: Callable[..., Any], **arguments: Any) -> Any:
    async with agent(Call("f", arguments), "done", tools=[tool(name="f")(function)]) as work:
        assert (await work.run("go")).text == "done"
    return _told(work)


def test_a_thread_that_raises_what_no_future_takes_does_not_hang() -> None:
    assert play(_of(_stop_iteration))["content"][0]["text"] == "Error: RuntimeError: StopIteration was raised"


def test_threads_that_hang_keep_nobody_from_ending(tmp_path: Path) -> None:
    released, begun = threading.Event(), threading.Semaphore(0)

    def hang() -> None:
        begun.release()
        released.wait(30)

    async def scenario() -> str:
        async with agent([Call("hang")] * 40, "never said", tools=[hang], sessions=tmp_path) as made:
            run = asyncio.create_task(made.run("go"))
            for _ in range(40):
                await asyncio.to_thread(begun.acquire, timeout=5)
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
        return made.session_id

    try:
        before = time.monotonic()
        facts = facts_of(tmp_path, play(scenario()))
        assert time.monotonic() - before < 10
    finally:
        released.set()
    assert facts.turns[0].end_kind == "aborted"
    assert {call.error_code for call in facts.tool_calls} == {"ABORTED"}


def test_a_plain_function_around_an_async_one_is_awaited() -> None:
    async def inner(number: int) -> int:
        return number + 1

    @functools.wraps(inner)
    def outer(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs)

    told = play(_of(outer, number=1))
    assert (told["isError"], told["content"][0]["text"]) == (False, "2")


@pytest.mark.parametrize(
    "output",
    [
        ToolOutput("text"),  # type: ignore[arg-type]
        ToolOutput(None),  # type: ignore[arg-type]
        ToolOutput([{"text": "no type"}]),
        ToolOutput([{"type": "text", "text": 5}]),
        ToolOutput([{"type": "image", "data": object()}]),
        ToolOutput([], is_error=True, error={"name": object()}),
    ],
    ids=repr,
)
def test_an_output_that_cannot_be_logged_is_a_failure_of_the_tool(output: ToolOutput) -> None:
    assert play(_of(lambda: output))["isError"] is True


def test_what_yields_is_no_tool() -> None:
    def one() -> Any:
        yield 1

    async def other() -> Any:
        yield 1

    for function in (one, other):
        with pytest.raises(ConfigError, match="it yields"):
            tool(function)


def test_the_context_may_stand_anywhere() -> None:
    def first(context: ToolContext, /, number: int) -> str:
        return f"{context.call_id} {number}"

    def several(number: int, one: ToolContext, other: ToolContext | None = None) -> str:
        return f"{one.call_id} {number} {one is other}"

    assert play(_of(first, number=2))["content"][0]["text"] == "call-1-1 2"
    assert play(_of(several, number=2))["content"][0]["text"] == "call-1-1 2 True"
    assert tool(several).parameters["required"] == ["number"]


def test_a_default_that_json_cannot_hold_is_not_shown() -> None:
    def f(number: float = math.nan, plain: int = 3) -> str:
        return f"{number} {plain}"

    shown = tool(f).parameters["properties"]
    assert [name for name, schema in shown.items() if "default" in schema] == ["plain"]
    assert play(_of(f))["content"][0]["text"] == "nan 3"


# Callers


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tools": None}, "tools is a list, not NoneType"),
        ({"tools": "search"}, "tools is a list, not str"),
        ({"tools": [None]}, "a tool is a function, not NoneType"),
        ({"subagents": 5}, "subagents is a list, not int"),
        ({"instructions": ["be brief"]}, "instructions is a text, not list"),
        ({"persona": 5}, "persona is a text"),
        ({"provider": b"p"}, "provider is a text"),
        ({"resume": 5}, "resume is a text"),
    ],
)
def test_an_agent_says_what_it_cannot_be_made_of(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        agent("hi", **options)


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"tool_filter": []}, "toolFilter"),
        ({"tool_filter": {"allow": None}}, "toolFilter"),
        ({"tool_filter": {"allow": "work"}}, "toolFilter"),
        ({"tool_filter": {"deny": [5]}}, "toolFilter"),
        ({"tool_filter": {"only": []}}, "toolFilter"),
        ({"agent_options": 5}, "agentOptions"),
        ({"agent_options": {"provider": ["other"]}}, "agentOptions"),
        ({"max_depth": "1"}, "maxDepth"),
        ({"max_depth": True}, "maxDepth"),
        ({"max_depth": -1}, "maxDepth"),
        ({"persona": 5}, "persona"),
        ({"label": 5}, "label"),
    ],
)
def test_a_child_that_is_asked_for_wrongly_is_refused_by_name(tmp_path: Path, asked: dict[str, Any], field: str) -> None:
    async def scenario() -> None:
        async with agent("hi", tools=[work], sessions=tmp_path) as made:
            with pytest.raises(ConfigError) as caught:
                await made.delegate("go", **asked)
            assert (caught.value.code, caught.value.field) == ("SUBAGENT_REFUSED", field)
        assert JsonlStore(tmp_path).headers() == []

    play(scenario())


@pytest.mark.parametrize("prompt", [None, 5, [], [5], [{}], ["a text"], {"type": "text", "text": "a"}])
def test_a_prompt_is_a_text_or_blocks(prompt: Any) -> None:
    async def scenario() -> None:
        work = agent("hi")
        for call in (work.run, work.delegate):
            with pytest.raises(ConfigError, match=r"prompt is a (text, or content blocks|list)"):
                await call(prompt)
        assert len(work.session.events) == 0

    play(scenario())


def test_a_signal_is_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        controller: Any = AbortController()
        made = agent("hi", "child")
        async with record(tmp_path / "run.jsonl"):
            for call in (made.run, made.delegate):
                with pytest.raises(ConfigError, match="signal is an AbortSignal"):
                    await call("go", signal=controller)
        assert not made.is_running
        assert (await made.run("go", signal=controller.signal)).text == "hi"

    play(scenario())


@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None, True, -1])
def test_a_retry_policy_has_numbers(value: Any) -> None:
    with pytest.raises(ConfigError, match="first_delay_s is a number"):
        RetryPolicy(first_delay_s=value)


@pytest.mark.parametrize("asked_s", [math.nan, math.inf, -5.0])
def test_patience_that_cannot_be_is_none(asked_s: float) -> None:
    failure = ModelFailure("busy", code="SERVER", retry_after_s=asked_s)
    assert (failure.retry_after_s, "providerRetryAfterMs" in failure.to_json()) == (None, False)


def test_a_log_that_finds_no_free_file_says_the_way_out_and_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: Any) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def scenario() -> str:
        async with agent("hi", "again", sessions=tmp_path) as made:
            with monkeypatch.context() as patch:
                patch.setattr("cassette_lab.session.store_jsonl._publish", none_left)
                with pytest.raises(FormatError, match=r"raise the limit \(ulimit -n\)"):
                    await made.run("go")
            assert (await made.run("go")).text == "again"
        return made.session_id

    assert [turn.end_kind for turn in facts_of(tmp_path, play(scenario())).turns] == ["completed", "completed"]


def test_a_child_that_cannot_be_logged_ends_the_run_and_its_model_hears_no_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = store_jsonl._publish

    def only_the_first(text: bytes, path: Path) -> int:
        if list(tmp_path.rglob("session.jsonl*")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(text, path)

    async def scenario() -> str:
        call = Call("subagent", description="d", prompt="p")
        async with agent([call], "child", "never said", subagents="spawn", sessions=tmp_path) as made:
            monkeypatch.setattr(store_jsonl, "_publish", only_the_first)
            with pytest.raises(FormatError, match="No space left"):
                await made.run("go")
            assert str(tmp_path) not in str(made.session.messages())
        return made.session_id

    assert facts_of(tmp_path, play(scenario())).turns[0].end_kind == "error"


# Schemas


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"$ref": "#"}, "refers to itself without an end"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "refers to itself"),
        ({"$ref": "http://127.0.0.1:9/schema"}, "refers to what is not in it"),
        ({"$ref": "file:///etc/passwd"}, "refers to what is not in it"),
        ({"$schema": 5}, "is no JSON schema"),
        ({"properties": 5}, "is no JSON schema"),
    ],
)
def test_a_schema_that_leads_nowhere_is_refused_before_anything_runs(schema: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        agent("hi", output=schema)


def test_a_reference_that_is_met_late_ends_the_run() -> None:
    async def scenario() -> None:
        schema = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}}
        work = agent(Call("structured_output", a=1), "never said", output=schema)
        with pytest.raises(ConfigError, match="refers to what is not in it"):
            await work.run("go")

    play(scenario())


def test_a_schema_of_any_depth_does_not_break() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"type": "array", "items": deep}
    with pytest.raises(ConfigError, match="is no JSON schema"):
        agent("hi", output=deep)


def test_a_value_that_is_too_deep_is_told_to_the_model() -> None:
    async def scenario() -> None:
        schema = {"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"}
        deep = '{"value":' + "[" * 3000 + "]" * 3000 + "}"
        work = agent(Call("structured_output", deep), Call("structured_output", value=[[]]), output=schema)
        assert (await work.run("go")).output == [[]]

    play(scenario())


def test_a_listener_of_the_abort_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    begun: list[asyncio.Event] = []

    async def sleep(context: ToolContext) -> str:
        def listen() -> None:
            raise ValueError("a listener's own")

        context.signal.on_abort(listen)
        begun[-1].set()
        await asyncio.sleep(30)
        return "never"

    async def scenario() -> None:
        child = Call("subagent", description="d", prompt="p")
        made = agent(Call("sleep"), child, Call("sleep"), Call("sleep"), tools=[sleep], subagents="spawn")
        for stop in ("cancel", "abort", "dispose"):
            controller = AbortController()
            begun.append(asyncio.Event())
            run = asyncio.create_task(made.run("go", signal=controller.signal))
            await begun[-1].wait()
            if stop == "dispose":
                await made.dispose()
            else:
                (run.cancel if stop == "cancel" else controller.abort)()
            ended = (await asyncio.gather(run, return_exceptions=True))[0]
            assert isinstance(ended, asyncio.CancelledError) or getattr(ended, "stop_reason", "") == "aborted"

    play(scenario())
    assert "a listener of an abort failed" in caplog.text


# A stop at every moment


class _Counting(asyncio.SelectorEventLoop):
    """Calls ``hook`` after each of its turns."""

    hook: Callable[[], None] = staticmethod(lambda: None)

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        self.hook()


def _family(request: ModelRequest) -> Any:
    last = request.messages[-1]["content"][-1]
    if last.get("text") == "go":
        return Say("I ask.", calls=[Call("work"), Call("subagent", description="c", prompt="child"), Call("thread")])
    if last.get("text") == "child":
        return [Call("subagent_fork", description="g", prompt="grandchild"), Call("work")]
    return "done"


async def work() -> str:
    """Work."""
    await asyncio.sleep(0)
    return "worked"


def thread() -> str:
    """Work elsewhere."""
    return "worked"


async def _one(store: JsonlStore, loop: _Counting, moment: int, how: str) -> bool:
    """One run, stopped after ``moment`` turns of the event loop; whether it went on for so long."""
    made = agent(_family, tools=[work, thread], subagents=("spawn", "fork"), sessions=store, max_depth=2)
    turns, helpers = iter(range(10**6)), list[asyncio.Task[None]]()
    run = asyncio.create_task(made.run("go"))

    def stop() -> None:
        if next(turns) == moment and not run.done():
            if how == "dispose":
                helpers.append(loop.create_task(made.dispose()))
            else:
                run.cancel()

    loop.hook = stop
    async with asyncio.timeout(10):
        ended = (await asyncio.gather(run, return_exceptions=True))[0]
    went_on = next(turns) > moment
    loop.hook = _Counting.hook
    await asyncio.gather(*helpers)
    assert isinstance(ended, asyncio.CancelledError) or ended.stop_reason in ("aborted", "completed")  # type: ignore[union-attr]
    if how != "dispose":
        assert (await made.run("more")).text == "done"
    await made.dispose()
    return went_on


@pytest.mark.parametrize("how", ["cancel", "dispose"])
def test_a_run_may_be_stopped_at_every_turn_of_the_event_loop(tmp_path: Path, how: str) -> None:
    complaints: list[Any] = []

    async def scenario() -> int:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, _Counting)
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        with JsonlStore(tmp_path) as store:
            moment = 0
            while await _one(store, loop, moment, how):
                moment += 1
            assert asyncio.all_tasks() == {asyncio.current_task()}
            for header in store.headers():
                facts = facts_of(tmp_path, header.id)
                assert facts.problems == ()
                assert all(not turn.is_open for turn in facts.turns)
                assert all(call.has_result for call in facts.tool_calls)
        return moment

    with asyncio.Runner(loop_factory=_Counting) as runner:
        assert runner.run(scenario()) > 20
    assert complaints == []
