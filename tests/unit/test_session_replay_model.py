from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.contracts import AbortController, LlmAdapter, ModelRequest, ModelStream
from cassette_lab.errors import AbortError, ConfigError, MismatchError, MissingFileError, RecordedError
from cassette_lab.session.entries import ChunksEntry, HangEntry, ReplayEntry, ThrowEntry
from cassette_lab.session.replay_model import ReplayModel
from tests.unit.replay_samples import answer, asked, call, log, script, words

BEGIN = [{"type": "block-start", "index": 0, "blockType": "text"}, {"type": "text-delta", "index": 0, "text": "partial"}]


def model(*entries: ReplayEntry | str, **options: Any) -> ReplayModel:
    return ReplayModel([script("s", *entries)], **options)


async def read(stream: ModelStream) -> list[Any]:
    return [chunk async for chunk in stream]


def test_it_is_an_adapter_whose_streams_can_be_read_and_closed() -> None:
    adapter: LlmAdapter = model("one", "two")
    assert isinstance(adapter, LlmAdapter)

    async def use() -> None:
        async with aclosing(adapter.stream(ModelRequest([]))) as stream:
            assert isinstance(stream, ModelStream)
            assert await anext(stream) == answer("one")[0]
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        assert await read(adapter.stream(ModelRequest([]))) == answer("two")

    asyncio.run(use())


def test_a_call_counts_when_it_is_made_not_when_it_is_read() -> None:
    async def use() -> None:
        replay = model("one", "two", "three")
        first, _never_read, third = (replay.stream(ModelRequest([])) for _ in range(3))
        assert [await read(third), await read(first)] == [answer("three"), answer("one")]
        replay.assert_consumed()

    asyncio.run(use())


def test_messages_are_looked_at_when_the_call_is_made() -> None:
    async def use() -> None:
        messages = [asked("id-1")]
        stream = model(ThrowEntry([], "{{fromRequest:id-.}}", "C")).stream(ModelRequest(messages))
        messages[0] = asked("id-2")
        with pytest.raises(RecordedError, match="id-1"):
            await anext(stream)

    asyncio.run(use())


def test_a_throw_streams_its_chunks_and_raises_with_message_and_code() -> None:
    async def use() -> None:
        stream = model(ThrowEntry(BEGIN, "kaput", "STREAM_CLOSED")).stream(ModelRequest([]))
        assert [await anext(stream), await anext(stream)] == BEGIN
        with pytest.raises(RecordedError) as error:
            await anext(stream)
        assert (error.value.message, error.value.code, error.value.recorded_name) == ("kaput", "STREAM_CLOSED", "LlmError")

    asyncio.run(use())


def test_failures_come_from_the_stream() -> None:
    async def use() -> None:
        replay = model(ChunksEntry([{"type": "text-delta", "text": "{{fromRequest:x}}"}]))
        no_match, exhausted = replay.stream(ModelRequest([])), replay.stream(ModelRequest([]))
        for stream, reason in [(no_match, "placeholder-no-match"), (exhausted, "script-exhausted")]:
            with pytest.raises(MismatchError) as error:
                await anext(stream)
            assert error.value.diagnostic["reason"] == reason

    asyncio.run(use())


@pytest.mark.parametrize("after", [0, 1, 2])
def test_an_abort_stops_the_chunks(after: int) -> None:
    async def use() -> None:
        controller = AbortController()
        stream = model("word").stream(ModelRequest([], signal=controller.signal))
        for _ in range(after):
            await anext(stream)
        controller.abort()
        with pytest.raises(AbortError):
            await anext(stream)

    asyncio.run(use())


class TestHanging:
    def test_it_begins_creates_its_file_and_waits_for_the_abort(self, tmp_path: Path) -> None:
        async def use() -> None:
            controller = AbortController()
            ready = tmp_path / "ready"
            stream = model(HangEntry(str(ready))).stream(ModelRequest([], signal=controller.signal))
            assert [await anext(stream), await anext(stream)] == BEGIN
            assert not ready.exists()
            waiting = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(0.01)
            assert ready.read_bytes() == b""
            assert not waiting.done()
            controller.abort()
            with pytest.raises(AbortError):
                await waiting

        asyncio.run(use())

    def test_a_file_that_is_there_keeps_its_content(self, tmp_path: Path) -> None:
        async def use() -> None:
            ready = tmp_path / "ready"
            ready.write_text("dear")
            controller = AbortController()
            controller.abort()
            with pytest.raises(AbortError):
                await read(model(HangEntry(str(ready))).stream(ModelRequest([], signal=controller.signal)))
            assert ready.read_text() == "dear"

        asyncio.run(use())

    def test_a_file_that_cannot_be_created(self, tmp_path: Path) -> None:
        async def use() -> None:
            for path in (tmp_path / "no" / "ready", "nul\0"):
                with pytest.raises(ConfigError, match="ready file"):
                    await read(model(HangEntry(str(path))).stream(ModelRequest([])))

        asyncio.run(use())

    def test_cancelling_and_closing_end_it(self) -> None:
        async def use() -> None:
            for signal in (None, AbortController().signal):
                replay = model(HangEntry(), HangEntry())
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.02):
                        await read(replay.stream(ModelRequest([], signal=signal)))
                stream = replay.stream(ModelRequest([], signal=signal))
                await anext(stream)
                await stream.aclose()
                with pytest.raises(StopAsyncIteration):
                    await anext(stream)

        asyncio.run(use())


def test_an_error_thrown_in_is_raised_where_the_stream_stands() -> None:
    async def use() -> None:
        stream = model("word").stream(ModelRequest([]))
        await anext(stream)
        with pytest.raises(KeyError):
            await stream.athrow(KeyError("mine"))
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    asyncio.run(use())


class TestPace:
    @pytest.mark.parametrize("pace_ms", [1.5, -1, float("nan"), float("inf"), "1", None, True])
    def test_a_pace_is_a_whole_number(self, pace_ms: Any, tmp_path: Path) -> None:
        with pytest.raises(ConfigError) as error:
            model(pace_ms=pace_ms)
        assert error.value.code == "BAD_PACE"
        with pytest.raises(ConfigError):  # before the files are looked for
            ReplayModel.from_files(tmp_path / "none.jsonl", pace_ms=pace_ms)

    @pytest.mark.parametrize("signal", [None, AbortController().signal])
    def test_it_is_waited_before_each_chunk(self, signal: Any) -> None:
        async def use() -> None:
            begun = time.monotonic()
            assert await read(model("word", pace_ms=10.0).stream(ModelRequest([], signal=signal))) == answer("word")
            assert time.monotonic() - begun >= 0.03

        asyncio.run(use())

    def test_an_abort_ends_the_wait(self) -> None:
        async def use() -> None:
            controller = AbortController()
            stream = model("word", pace_ms=60_000).stream(ModelRequest([], signal=controller.signal))
            asyncio.get_running_loop().call_later(0.01, controller.abort)
            async with asyncio.timeout(5):
                with pytest.raises(AbortError):
                    await anext(stream)

        asyncio.run(use())


def test_from_files(tmp_path: Path) -> None:
    root = log(tmp_path / "root.jsonl", {"type": "user/message", "data": asked("go")}, *call("root"))
    children = [
        log(tmp_path / f"{name}.jsonl", {"type": "user/message", "data": asked(f"task {name}")}, *call(name), createdAt=at)
        for at, name in enumerate("ab")
    ]

    async def use() -> list[str]:
        replay = ReplayModel.from_files(root, children, binding="content")
        asks = [("x", "go"), ("y", "task b"), ("z", "task a")]
        streams = [replay.stream(ModelRequest([asked(text)], session_id=who)) for who, text in asks]
        answers = await asyncio.gather(*map(read, streams))
        replay.assert_consumed()
        return words([ChunksEntry(chunks) for chunks in answers])

    assert asyncio.run(use()) == ["root", "b", "a"]
    with pytest.raises(MissingFileError):
        ReplayModel.from_files(tmp_path / "none.jsonl")


def test_it_shows_what_it_plays_and_tells_who_answers() -> None:
    told: list[str] = []
    replay = ReplayModel([script("a", "one", "two"), script("\x1b[31mb", "three")], tell=told.append)
    assert repr(replay) == r"<ReplayModel: 2 recorded sessions (a, \u{001b}[31mb), 0 of 3 calls asked for>"
    replay.stream(ModelRequest([], session_id="x"))
    assert told == ["session x: call 1 of 2 of a"]
    assert "1 of 3 calls" in repr(replay)
    for _ in range(2):
        replay.stream(ModelRequest([]))
    assert told[1:] == [
        "a session without an id: call 1 of 1 of \x1b[31mb",
        "refused: the session without an id makes model call 2, but only 1 of it are recorded; record the session again",
    ]
