"""A replay server in a thread, and a client that reads answers and events by hand."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cassette_lab.contracts import LlmAdapter
from cassette_lab.server.run import listen, make_server

LIMIT_S = 10
CHAT = "/v1/chat/completions"


@dataclass
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str, str]:
        """Status, code and message of an answer that is an error."""
        error = self.json["error"]
        assert sorted(error) == ["code", "message", "param", "type"]
        return self.status, error["code"], error["message"]

    @property
    def events(self) -> list[Any]:
        """The documents of a stream of events; the end mark is ``"[DONE]"``."""
        assert (self.status, self.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
        *frames, rest = self.body.split(b"\n\n")
        assert rest == b""
        assert all(frame.startswith(b"data: ") and b"\n" not in frame for frame in frames)
        data = [frame.removeprefix(b"data: ") for frame in frames]
        return ["[DONE]" if text == b"[DONE]" else json.loads(text) for text in data]

    @property
    def deltas(self) -> list[Any]:
        return [event["choices"][0]["delta"] for event in self.events if event != "[DONE]" and event.get("choices")]

    @property
    def said(self) -> str:
        return "".join(delta.get("content", "") for delta in self.deltas)


@dataclass
class Client:
    port: int

    def ask(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, host: str | None = None
    ) -> Reply:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        try:
            connection.request(method, path, data, {"Host": host or f"127.0.0.1:{self.port}", **(headers or {})})
            response = connection.getresponse()
            return Reply(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
        finally:
            connection.close()

    def chat(self, text: str = "hello", *, session: str | None = None, **members: Any) -> Reply:
        body = {"messages": [{"role": "user", "content": text}], **members}
        return self.ask("POST", CHAT, body, headers={} if session is None else {"X-Session-Id": session})


@contextmanager
def serving(model: LlmAdapter) -> Iterator[Client]:
    """A server on a free port, which has ended at the end."""
    server = make_server(model)
    with listen() as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield Client(listening.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(LIMIT_S)
    assert not thread.is_alive()


def wait_until(done: Any) -> None:
    """Wait for something that happens soon."""
    end = time.monotonic() + LIMIT_S
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)
