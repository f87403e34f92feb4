"""The replay server over real HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.contracts import StreamChunk
from cassette_lab.errors import ConfigError
from cassette_lab.server.app import is_this_machine, replay_app
from cassette_lab.server.run import address_of, listen
from cassette_lab.session.entries import ChunksEntry, HangEntry, ReplayEntry, ThrowEntry
from cassette_lab.session.replay_model import ReplayModel
from tests.unit.replay_samples import FINISH, answer, script
from tests.unit.server_client import CHAT, LIMIT_S, Client, serving, wait_until

USAGE = {"type": "usage", "usage": {"inputTokens": 10, "outputTokens": 5}}


def model(*entries: ReplayEntry | str, **options: Any) -> ReplayModel:
    return ReplayModel([script("s", *entries)], **options)


def test_a_whole_answer_and_the_lists() -> None:
    with serving(model(ChunksEntry([*answer("yes")[:-1], USAGE, FINISH]), "no")) as client:
        assert client.ask("GET", "/healthz").json == {"status": "ok"}
        assert [entry["id"] for entry in client.ask("GET", "/v1/models").json["data"]] == ["replay"]
        first, second = client.chat(model="gpt"), client.chat()
    document = first.json
    assert document.pop("created") > 0
    assert document == {
        "id": "chatcmpl-replay-1",
        "object": "chat.completion",
        "model": "gpt",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "yes"}, "logprobs": None, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
    assert (second.json["id"], second.json["model"]) == ("chatcmpl-replay-2", "replay")
    assert "usage" not in second.json


def test_a_streamed_answer() -> None:
    chunks: list[StreamChunk] = [
        {"type": "text-delta", "index": 0, "text": "on"},
        {"type": "text-delta", "index": 0, "text": "e \ud83d\ude00 \ud800\n\n"},
        USAGE,
        FINISH,
    ]
    with serving(model(ChunksEntry(chunks), ChunksEntry([FINISH]), ChunksEntry(chunks))) as client:
        reply, empty = client.chat(stream=True, stream_options={"include_usage": True}), client.chat(stream=True)
        plain = client.chat(stream=True)
    *pieces, usage, done = reply.events
    assert {piece["object"] for piece in pieces} == {"chat.completion.chunk"}
    assert len({piece["id"] for piece in pieces}) == 1
    assert [piece["choices"][0]["delta"] for piece in pieces] == [
        {"role": "assistant", "content": "on"},
        {"content": "e \ud83d\ude00 \ud800\n\n".encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")},
        {},
    ]
    assert [piece["choices"][0]["finish_reason"] for piece in pieces] == [None, None, "stop"]
    assert {piece["usage"] for piece in pieces} == {None}
    assert (usage["choices"], usage["usage"]["total_tokens"], done) == ([], 15, "[DONE]")
    assert empty.deltas == [{"role": "assistant"}, {}]
    assert all("usage" not in event for event in plain.events)


def test_failures_are_a_status_before_the_first_piece_and_an_event_after_it() -> None:
    failed = {"type": "finish", "reason": {"kind": "error", "failure": {"message": "no key", "code": "AUTH"}}}
    entries: list[ReplayEntry] = [
        ThrowEntry([], "slow down", "RATE_LIMIT"),
        ThrowEntry(answer("par")[:2], "cut off", "STREAM_CLOSED"),
        ThrowEntry(answer("par")[:2], "cut off", "STREAM_CLOSED"),
        ChunksEntry([failed]),
        ChunksEntry(answer("par")[:2]),
    ]
    with serving(model(*entries)) as client:
        throttled = client.chat(stream=True)
        assert throttled.error == (429, "RATE_LIMIT", "slow down")
        assert throttled.headers["x-should-retry"] == "false"
        begun = client.chat(stream=True)
        assert begun.events[0]["choices"][0]["delta"]["content"] == "par"
        assert begun.events[1:] == [
            {"error": {"message": "cut off", "type": "recorded_error", "param": None, "code": "STREAM_CLOSED"}}
        ]
        assert client.chat().error == (502, "STREAM_CLOSED", "cut off")
        assert client.chat(stream=True).error == (401, "AUTH", "no key")
        assert client.chat().error[:2] == (502, "MISSING_FINISH")


def test_what_is_not_recorded_is_a_conflict_with_a_sentence() -> None:
    with serving(model("one")) as client:
        assert client.chat(session="a", stream=True).said == "one"
        status, code, sentence = client.chat(session="a", stream=True).error
        assert (status, code) == (409, "script-exhausted")
        assert sentence.startswith("session a makes model call 2, but only 1 of it are recorded")
        assert client.chat(user="b").error[:2] == (409, "unrecorded-session")
        assert client.chat().error[:2] == (409, "unrecorded-session")


def test_two_sessions_at_once_keep_to_their_scripts() -> None:
    spoken = {name: [f"{name}{number}" for number in range(8)] for name in ("a", "b")}
    scripts = [script(name, *words, first=(f"task {name}",)) for name, words in spoken.items()]

    def run(name: str) -> list[str]:
        return [client.chat(f"task {name}", session=name, stream=True).said for _ in spoken[name]]

    replay = ReplayModel(scripts, binding="content", pace_ms=1)
    with serving(replay) as client, ThreadPoolExecutor() as pool:
        heard = dict(zip("ba", pool.map(run, "ba"), strict=True))
    assert heard == spoken
    replay.assert_consumed()


def open_call(client: Client, **members: Any) -> socket.socket:
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], **members}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    connection = socket.create_connection(("127.0.0.1", client.port), timeout=LIMIT_S)
    connection.sendall(head.encode() + body)
    return connection


@pytest.mark.parametrize("streamed", [True, False])
def test_a_call_that_hangs_ends_when_its_client_goes_away(streamed: bool, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    replay = model(HangEntry(str(ready)), "next")
    ended = threading.Event()
    play = replay.stream

    async def watched(request: Any) -> Any:
        try:
            async for chunk in play(request):
                yield chunk
        finally:
            ended.set()

    replay.stream = watched  # type: ignore[method-assign]
    with serving(replay) as client:
        with open_call(client, stream=streamed) as connection:
            wait_until(ready.exists)
            if streamed:
                assert b"partial" in connection.recv(65536)
            assert client.ask("GET", "/healthz").status == 200  # others are answered meanwhile
            assert not ended.is_set()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert ended.wait(LIMIT_S)
        assert client.chat(stream=True).said == "next"


def test_the_server_stops_although_a_call_hangs(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    with serving(model(HangEntry(str(ready)))) as client:
        connection = open_call(client, stream=True)
        wait_until(ready.exists)
    with connection:
        while connection.recv(65536):
            pass


def test_a_client_that_leaves_a_paced_answer_does_not_disturb_others() -> None:
    chunks = [{"type": "text-delta", "index": 0, "text": "x" * 1000} for _ in range(200)]
    with serving(ReplayModel([script("a", ChunksEntry([*chunks, FINISH])), script("b", "fine")], pace_ms=5)) as client:
        with open_call(client, stream=True) as connection:
            assert b"200 OK" in connection.recv(100)
        assert client.chat(session="other", stream=True).said == "fine"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/", None, 404),
        ("GET", "/v1/../../etc/passwd", None, 404),
        ("GET", CHAT, None, 405),
        ("OPTIONS", CHAT, None, 405),
        ("POST", "/v1/models", b"{}", 405),
        ("POST", CHAT, b"\xff{", 400),
        ("POST", CHAT, b"[" * 200_000, 400),
        ("POST", CHAT, {"messages": [None]}, 400),
        ("POST", CHAT, {"messages": [{"role": "user"}], "user": {"a": 1}}, 400),
    ],
)
def test_requests_that_are_none_are_refused_and_take_no_call(method: str, path: str, body: Any, status: int) -> None:
    with serving(model("one")) as client:
        reply = client.ask(method, path, body)
        assert (reply.status, reply.json["error"]["type"]) == (status, "invalid_request_error")
        assert client.chat(stream=True).said == "one"


def test_a_body_that_is_too_large_is_refused() -> None:
    with serving(model("one")) as client:
        with socket.create_connection(("127.0.0.1", client.port), timeout=LIMIT_S) as announced:
            announced.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {1 << 40}\r\n\r\n".encode())
            assert announced.recv(65536).startswith(b"HTTP/1.1 413 ")
        assert client.chat(stream=True).said == "one"


def test_a_body_that_does_not_announce_its_size_is_counted() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"[" * 60, "more_body": True}  # without end

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": CHAT, "headers": [(b"host", b"localhost")]}

    async def ask() -> None:
        await asyncio.wait_for(replay_app(model("one"), max_body_bytes=100)(scope, receive, send), LIMIT_S)

    asyncio.run(ask())
    assert sent[0]["status"] == 413
    assert json.loads(sent[1]["body"])["error"]["message"] == "the body has more than 100 bytes"


@pytest.mark.parametrize(
    "host", ["example.org", "127.0.0.1.example.org", "10.0.0.1", "localhost:80:80", "[::2]", "user@localhost"]
)
def test_a_name_that_leads_here_is_not_enough(host: str) -> None:
    assert not is_this_machine(host)
    with serving(model("one")) as client:
        body = {"messages": [{"role": "user", "content": "hi"}]}
        assert client.ask("POST", CHAT, body, host=host).status == 403
        assert client.ask("GET", "/healthz", host=host).status == 403
        for origin in (f"http://{host}", "null", "localhost"):
            assert client.ask("POST", CHAT, body, headers={"Origin": origin}).status == 403
        assert client.ask("POST", CHAT, body, headers={"Origin": "http://localhost:3000"}).status == 200


def test_names_of_this_machine() -> None:
    assert all(map(is_this_machine, ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "[::1]"]))


def test_only_loopback_addresses_are_listened_on() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.1", "example.org", "", "127.0.0.1\n"):  # noqa: S104 - they are refused
        with pytest.raises(ConfigError, match="on this machine only"):
            listen(host)
    with listen("localhost") as listening:
        port = listening.getsockname()[1]
        assert address_of(listening) == f"http://127.0.0.1:{port}/v1"
        with pytest.raises(ConfigError, match=rf"port {port} of 127\.0\.0\.1 cannot be used \(.+\); name another"):
            listen(port=port)
