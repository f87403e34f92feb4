"""Whatever an endpoint does, a call ends in its documented failure, never shows the key, and leaves nothing open."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest

from cassette_lab.contracts import AbortController, LlmAdapter, ModelRequest, ModelStream, StreamChunk
from cassette_lab.errors import AbortError, ConfigError
from cassette_lab.host.models.deepseek_messages import DeepSeekMessages
from cassette_lab.host.models.endpoint import Timeouts
from cassette_lab.host.models.failures import RETRYABLE_CODES, ModelFailure
from cassette_lab.host.models.openai_chat import OpenAIChat
from cassette_lab.server.mock_model import MockModel, MockRequest, Reply
from tests.mock_model import FAULTS, WHOLE, events_of

KEY = "sk-secret-0123456789"
QUICK = Timeouts(connect_s=2.0, first_chunk_s=0.6, idle_s=0.3, total_s=0.8)
PATIENT = Timeouts(connect_s=2.0, first_chunk_s=10.0, idle_s=10.0, total_s=20.0)
MESSAGES = [{"role": "user", "content": [{"type": "text", "text": "What is new?"}]}]

MODELS: dict[str, Callable[[str, Timeouts], LlmAdapter]] = {
    "chat": lambda url, timeouts: OpenAIChat("mock", base_url=url, api_key_env="MOCK_KEY", timeouts=timeouts),
    "messages": lambda url, timeouts: DeepSeekMessages("mock", base_url=url, api_key_env="MOCK_KEY", timeouts=timeouts),
}
CASES = [
    (wire, name)
    for wire in MODELS
    for name in FAULTS
    if " in " not in name or name.rsplit(" in ")[-1] not in MODELS.keys() - {wire}
]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCK_KEY", KEY)


async def read(model: LlmAdapter, request: ModelRequest | None = None) -> list[StreamChunk]:
    async with aclosing(model.stream(request or ModelRequest(MESSAGES))) as stream:
        return [chunk async for chunk in stream]


async def rest(stream: ModelStream) -> list[StreamChunk]:
    return [chunk async for chunk in stream]


def shown(error: BaseException) -> str:
    """All that a debugger-like traceback shows, locals of every frame included."""
    return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format()) + repr(vars(error))


@pytest.mark.parametrize(("wire", "name"), CASES)
def test_a_fault_ends_in_its_code(wire: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    fault = FAULTS[name]
    timeouts = PATIENT if fault.code is None or name == "huge event" else QUICK
    began = time.monotonic()
    with MockModel(lambda request: fault.reply(server, request)) as server:
        model = MODELS[wire](server.base_url, timeouts)
        if fault.code is None:
            chunks = asyncio.run(read(model))
            assert chunks[-1]["type"] == "finish"
        else:
            with pytest.raises(ModelFailure) as caught:
                asyncio.run(read(model))
            error = caught.value
            assert (error.code, error.retryable, error.status) == (fault.code, fault.retried, fault.status), error
            assert KEY not in shown(error)
            assert error.__context__ is None
    assert time.monotonic() - began < 8
    assert KEY not in caplog.text
    assert KEY not in repr(model)


def test_every_code_is_met() -> None:
    known = {fault.code for fault in FAULTS.values()} - {None}
    assert known >= RETRYABLE_CODES


def test_the_time_to_wait_is_told() -> None:
    def failure(name: str) -> ModelFailure:
        with MockModel(lambda request: FAULTS[name].reply(server, request)) as server, pytest.raises(ModelFailure) as caught:
            asyncio.run(read(MODELS["chat"](server.base_url, QUICK)))
        return caught.value

    assert failure("429").retry_after_s == 2
    assert failure("429").to_json()["providerRetryAfterMs"] == 2000
    until = failure("429 until a date").retry_after_s
    assert until is not None
    assert 50 < until <= 60


def test_an_answer_in_bytes_is_the_answer_in_one_piece() -> None:
    with MockModel(lambda request: FAULTS["slow trickle"].reply(server, request)) as server, MockModel([WHOLE, WHOLE]) as plain:
        for make in MODELS.values():
            assert asyncio.run(read(make(server.base_url, PATIENT))) == asyncio.run(read(make(plain.base_url, PATIENT)))


def test_nobody_there() -> None:
    with MockModel([]) as server:
        url = server.base_url
    with pytest.raises(ModelFailure) as caught:
        asyncio.run(read(MODELS["chat"](url, QUICK)))
    assert (caught.value.code, caught.value.retryable) == ("TRANSPORT", False)  # nobody will come while one waits
    assert str(caught.value) == f"there is no connection to {url} (connection refused, nothing listens there)"
    assert KEY not in shown(caught.value)


def test_a_redirect_takes_no_key_elsewhere() -> None:
    with MockModel([WHOLE]) as elsewhere:
        headers = {"location": f"{elsewhere.base_url}/chat/completions"}
        with MockModel(lambda _: Reply([], 308, headers)) as server, pytest.raises(ModelFailure):
            asyncio.run(read(MODELS["chat"](server.base_url, QUICK)))
        assert elsewhere.requests == []


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("read_before", [0, 1, 3])
def test_an_abort_ends_a_stalled_call(wire: str, read_before: int) -> None:
    async def run(model: LlmAdapter) -> BaseException:
        controller = AbortController()
        stream = model.stream(ModelRequest(MESSAGES, signal=controller.signal))
        async with aclosing(stream):
            for _ in range(read_before):
                await anext(stream)
            asyncio.get_running_loop().call_later(0.05, controller.abort)
            with pytest.raises(AbortError) as caught:
                await rest(stream)
        assert not controller.signal._listeners
        return caught.value

    with MockModel(lambda request: FAULTS["stall in the answer"].reply(server, request)) as server:
        began = time.monotonic()
        error = asyncio.run(run(MODELS[wire](server.base_url, PATIENT)))
        assert time.monotonic() - began < 3
        assert KEY not in shown(error)


def test_a_call_that_is_aborted_before_it_is_read_is_not_made() -> None:
    async def run(model: LlmAdapter) -> None:
        controller = AbortController()
        stream = model.stream(ModelRequest(MESSAGES, signal=controller.signal))
        controller.abort()
        with pytest.raises(AbortError):
            await anext(stream)

    with MockModel([WHOLE]) as server:
        asyncio.run(run(MODELS["chat"](server.base_url, PATIENT)))
        assert server.requests == []


@pytest.mark.parametrize("wire", MODELS)
def test_closing_a_stream_frees_its_connection(wire: str) -> None:
    freed = threading.Event()

    def pieces(server: MockModel, events: list[bytes]) -> Iterator[bytes]:
        try:
            yield from events[:3]
            while not server.stopped.wait(0.01):
                yield b": still here\n\n"
        finally:
            if not server.stopped.is_set():
                freed.set()

    async def run(model: LlmAdapter) -> None:
        stream = model.stream(ModelRequest(MESSAGES))
        await anext(stream)
        await stream.aclose()
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        await asyncio.to_thread(freed.wait, 3)

    with MockModel(lambda request: Reply(pieces(server, events_of(request)))) as server:
        asyncio.run(run(MODELS[wire](server.base_url, PATIENT)))
        assert freed.is_set()


@pytest.mark.parametrize("wire", MODELS)
def test_a_cancelled_call_shows_no_key(wire: str) -> None:
    async def run(model: LlmAdapter) -> BaseException:
        task = asyncio.create_task(read(model))
        await asyncio.sleep(0.15)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return caught.value

    with MockModel(lambda request: FAULTS["stall in the answer"].reply(server, request)) as server:
        assert KEY not in shown(asyncio.run(run(MODELS[wire](server.base_url, PATIENT))))


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of somebody who takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


@pytest.mark.parametrize("wire", MODELS)
def test_nobody_answers(wire: str, silent: str) -> None:
    with pytest.raises(ModelFailure, match=r"0\.3 s a pause") as caught:
        asyncio.run(read(MODELS[wire](silent, QUICK)))
    assert (caught.value.code, caught.value.retryable) == ("TIMEOUT", True)
    assert KEY not in shown(caught.value)


@pytest.mark.parametrize("wire", MODELS)
def test_a_call_that_is_cancelled_before_any_answer_shows_no_key(wire: str, silent: str) -> None:
    async def run() -> BaseException:
        task = asyncio.create_task(read(MODELS[wire](silent, PATIENT)))
        await asyncio.sleep(0.15)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return caught.value

    assert KEY not in shown(asyncio.run(run()))


def test_an_error_thrown_in_comes_back() -> None:
    async def run(model: LlmAdapter) -> None:
        stream = model.stream(ModelRequest(MESSAGES))
        await anext(stream)
        with pytest.raises(ZeroDivisionError):
            await stream.athrow(ZeroDivisionError())

    with MockModel([WHOLE]) as server:
        asyncio.run(run(MODELS["messages"](server.base_url, PATIENT)))


class TestKeys:
    def test_it_goes_into_the_header_of_its_protocol(self) -> None:
        with MockModel([WHOLE, WHOLE]) as server:
            for make in MODELS.values():
                asyncio.run(read(make(server.base_url, PATIENT)))
            assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
            assert server.requests[1].headers["x-api-key"] == KEY
            assert "authorization" not in server.requests[1].headers

    def test_the_default_one_may_be_missing_on_this_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with MockModel([WHOLE, WHOLE]) as server:
            asyncio.run(read(OpenAIChat("mock", base_url=server.base_url)))
            asyncio.run(read(OpenAIChat("mock", base_url=server.base_url, api_key_env=None)))
            assert "authorization" not in {*server.requests[0].headers, *server.requests[1].headers}

    @pytest.mark.parametrize("wire", MODELS)
    def test_one_that_was_asked_for_may_not(self, wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("MOCK_KEY")
        with MockModel([]) as server, pytest.raises(ModelFailure, match="MOCK_KEY, or say api_key_env=None") as caught:
            asyncio.run(read(MODELS[wire](server.base_url, PATIENT)))
        assert caught.value.code == "MISSING_CREDENTIAL"

    @pytest.mark.parametrize("kind", [OpenAIChat, DeepSeekMessages])
    @pytest.mark.parametrize("key", ["sk-0123456789abcdef", "", "two words", "9KEY", "KEY\n"])
    def test_a_key_in_place_of_its_name_is_refused_and_not_shown(self, kind: Any, key: str) -> None:
        with pytest.raises(ConfigError, match="api_key_env names a variable, it is not the key") as caught:
            kind("mock", api_key_env=key)
        assert not key or key not in str(caught.value)

    def test_others_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("MOCK_KEY")
        with pytest.raises(ModelFailure, match="set the environment variable MOCK_KEY") as caught:
            asyncio.run(read(MODELS["chat"]("https://models.example/v1", QUICK)))
        assert (caught.value.code, caught.value.retryable) == ("MISSING_CREDENTIAL", False)

    @pytest.mark.parametrize("key", ["sk-\nsecret", "sk secret", "schlüssel"])
    def test_one_that_cannot_be_sent_is_not_shown(self, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MOCK_KEY", key)
        with MockModel([WHOLE]) as server, pytest.raises(ModelFailure) as caught:
            asyncio.run(read(MODELS["chat"](server.base_url, QUICK)))
        assert caught.value.code == "INVALID_CREDENTIAL"
        assert key not in str(caught.value)
        assert server.requests == []


@pytest.mark.parametrize("wire", MODELS)
def test_an_error_within_a_stream_may_quote_the_key_and_nothing_shows_it(wire: str) -> None:
    def pieces(request: MockRequest) -> Iterator[bytes]:
        yield from events_of(request)[:3]
        told = {"type": "error", "error": {"type": "overloaded_error", "message": f"no place for {KEY}"}}
        yield f"event: error\ndata: {json.dumps(told)}\n\n".encode()

    with MockModel(lambda request: Reply(pieces(request))) as server, pytest.raises(ModelFailure) as caught:
        asyncio.run(read(MODELS[wire](server.base_url, PATIENT)))
    assert (caught.value.code, caught.value.message) == ("SERVER", "the endpoint failed (overloaded_error)")
    assert caught.value.detail == "no place for [REDACTED]"
    assert KEY not in shown(caught.value)


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (Reply([], headers={"content-type": "text/event-stream"}), "begins an answer (HTTP 200), and nothing came"),
        (Reply([b"\x00\x01" * 9], headers={"content-type": "text/event-stream"}), "what it sends is no events (18 bytes)"),
        (
            Reply([b"data: [DONE]\n\n"], headers={"content-type": "text/event-stream"}),
            "ends its answer before it says anything",
        ),
        (
            Reply([b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'], headers={"content-type": "text/event-stream"}),
            "cut off after 1 chunk, before its finish",
        ),
    ],
)
def test_answers_without_an_end_are_told_apart(reply: Reply, sentence: str) -> None:
    with MockModel([reply]) as server, pytest.raises(ModelFailure) as caught:
        asyncio.run(read(MODELS["chat"](server.base_url, PATIENT)))
    assert sentence in str(caught.value)
    assert caught.value.code == "STREAM_CLOSED"


@pytest.mark.parametrize(
    ("body", "kind", "detail"),
    [
        (b'{"error": {"message": "no model llama9"}}', "application/json", "no model llama9"),
        (b'{"error": "no model llama9"}', "application/json", "no model llama9"),
        (b'{"detail": "Not\\nFound"}', "application/json", "Not Found"),
        (b"404 page not found", "text/plain", "404 page not found"),
        (b"<html>", "text/html", None),
        (f'{{"error": {{"message": "{KEY} {"x" * 999}"}}}}'.encode(), "application/json", f"[REDACTED] {'x' * 288}…"),
    ],
)
def test_a_refusal_tells_what_the_endpoint_says(body: bytes, kind: str, detail: str | None) -> None:
    with MockModel([Reply([body], 404, {"content-type": kind})]) as server, pytest.raises(ModelFailure) as caught:
        asyncio.run(read(MODELS["chat"](server.base_url, PATIENT)))
    assert caught.value.detail == detail
    assert str(caught.value).endswith(f"; the endpoint says: {detail}" if detail else "(HTTP 404)")
    assert detail is None or detail not in json.dumps(caught.value.to_json())


def test_an_unknown_host_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ModelFailure, match=r"no connection to http://nobody.invalid/v1 \(unknown host"):
        asyncio.run(read(MODELS["chat"]("http://nobody.invalid/v1", PATIENT)))


def test_an_endpoint_on_this_machine_is_told_the_session() -> None:
    with MockModel([WHOLE, WHOLE]) as server:
        for session_id in ("s1", "ü\n"):
            asyncio.run(read(MODELS["chat"](server.base_url, PATIENT), ModelRequest(MESSAGES, session_id=session_id)))
        assert [request.headers.get("x-session-id") for request in server.requests] == ["s1", None]


class TestProxies:
    @pytest.fixture(autouse=True)
    def _none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(name.lower(), raising=False)

    def test_an_endpoint_on_this_machine_is_asked_without(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
        with MockModel([WHOLE]) as server:
            assert asyncio.run(read(MODELS["chat"](server.base_url, PATIENT)))

    def test_others_are_asked_through_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with MockModel([WHOLE]) as server:
            monkeypatch.setenv("HTTP_PROXY", server.base_url.replace("http://", "http://user:word@").removesuffix("/v1"))
            assert asyncio.run(read(MODELS["chat"]("http://models.example/v1", PATIENT)))
            assert server.requests[0].path == "http://models.example/v1/chat/completions"

    @pytest.mark.parametrize("proxy", ["socks5://user:word@127.0.0.1:9", "nonsense://user:word@127.0.0.1:9"])
    def test_one_that_cannot_be_used_is_told(self, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ALL_PROXY", proxy)
        with pytest.raises(ConfigError, match="the proxy or the certificates of the environment cannot be used") as caught:
            asyncio.run(read(MODELS["chat"]("http://models.example/v1", QUICK)))
        assert "word" not in str(caught.value)
        assert caught.value.__context__ is None


@pytest.mark.parametrize("body", [{"n": float("nan")}, {"o": object()}, {5: {6: {7, 8}}}], ids=repr)
def test_a_request_that_is_no_json(body: dict[Any, Any]) -> None:
    model = OpenAIChat("m", base_url="http://127.0.0.1:9", api_key_env=None, extra_body=body)
    with pytest.raises(ModelFailure, match="the request holds what JSON cannot") as caught:
        asyncio.run(read(model))
    assert caught.value.code == "INVALID_REQUEST"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "models.example/v1",
        "ftp://models.example",
        "https://user:pass@models.example/v1",
        "https://models.example/v1?key=1",
        "http://127.0.0.1:99999/v1",
    ],
)
def test_an_address_that_cannot_be(url: str) -> None:
    with pytest.raises(ConfigError, match="base_url") as caught:
        OpenAIChat("m", base_url=url)
    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize("value", [0, -1.0, float("nan")])
def test_timeouts_are_above_zero(value: float) -> None:
    with pytest.raises(ConfigError, match="idle_s"):
        Timeouts(idle_s=value)


def test_many_calls_at_once_leave_nothing() -> None:
    async def run(url: str) -> None:
        calls: list[Any] = [read(MODELS[wire](url, PATIENT)) for wire in MODELS for _ in range(20)]
        answers = await asyncio.gather(*calls)
        assert all(answer[-1]["type"] == "finish" for answer in answers)
        assert len(asyncio.all_tasks()) == 1

    def script(_request: MockRequest) -> Any:
        return WHOLE

    with MockModel(script) as server:
        asyncio.run(run(server.base_url))
        assert len(server.requests) == 40
