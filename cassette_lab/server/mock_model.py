"""A model endpoint that says what it was told to: for notebooks and tests, without a key or a network.

It listens on this machine, in threads of its own, and speaks both wire formats: chat completions and Messages, always
streamed. Nothing but the standard library is needed.
"""

from __future__ import annotations

import http.server
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeAlias

from cassette_lab.errors import ConfigError
from cassette_lab.jsonio import JsonObject
from cassette_lab.server.mock_wire import Answer, ToolUse, chat_events, message_events

__all__ = ["Answer", "MockModel", "MockRequest", "Reply", "Script", "ToolUse"]


@dataclass(frozen=True, slots=True)
class MockRequest:
    """A request that came in: its path, its headers (names in lower case), and the JSON of its body."""

    path: str
    headers: Mapping[str, str]
    document: JsonObject

    @property
    def speaks_messages(self) -> bool:
        """Whether it is one of the Messages protocol; else it is a chat completion."""
        return self.path.endswith("/messages")

    @property
    def user_texts(self) -> list[str]:
        """What users (not tools) said, message by message."""
        messages = self.document.get("messages") or []
        return [_text(message.get("content")) for message in messages if message.get("role") == "user"]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer byte by byte. A piece that raises ``ConnectionResetError`` resets the connection."""

    pieces: Iterable[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})


Script: TypeAlias = (
    "Sequence[Answer | Reply] | Mapping[str, Sequence[Answer | Reply]] | Callable[[MockRequest], Answer | Reply]"
)
"""Answers in the order of the requests; or for each phrase, where a conversation is known by the phrase that the latest user
message with any phrase has, the longest of them; or a function."""


class MockModel:
    """A server that answers by ``script``, from ``with`` on until its end.

    ``base_url`` is what a client takes (``http://127.0.0.1:PORT/v1``); ``requests`` are those that came, in order. A request
    that the script has no answer for gets HTTP 400 and a sentence.
    """

    def __init__(self, script: Script, *, port: int = 0) -> None:
        self.requests: list[MockRequest] = []
        self.stopped = threading.Event()
        self._script = script
        self._taken: dict[str, int] = {}
        self._lock = threading.Lock()
        self._port = port
        self._server: http.server.ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<mock model at {self.base_url}>" if self._server is not None else "<mock model, not started>"

    @property
    def base_url(self) -> str:
        """The address for clients. Raises ``ConfigError`` unless it runs."""
        if self._server is None:
            raise ConfigError("the mock model does not run: start it with `with`, or `.start()`")
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def start(self) -> Self:
        """Listen; until ``stop``."""
        if self._server is None:
            self.stopped.clear()
            handler = type("Handler", (_Handler,), {"model": self})
            self._server = _Server(("127.0.0.1", self._port), handler)
            self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="mock model", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> None:
        """End all answers and the threads that give them. Idempotent."""
        self.stopped.set()
        server, self._server = self._server, None
        if server is not None and self._thread is not None:
            server.shutdown()
            server.server_close()
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def answer(self, request: MockRequest) -> Reply:
        """What the script says to this request."""
        with self._lock:
            self.requests.append(request)
            said = self._next(request)
        if isinstance(said, Reply):
            return said
        events = message_events if request.speaks_messages else chat_events
        return Reply(self._paced(events(said), said.pace_s))

    def _next(self, request: MockRequest) -> Answer | Reply:
        if callable(self._script):
            return self._script(request)
        answers: Sequence[Answer | Reply] = ()
        phrase = ""
        if isinstance(self._script, Mapping):
            known = sorted(self._script, key=len, reverse=True)
            phrases = [word for text in reversed(request.user_texts) for word in known if word in text]
            if not phrases:
                return _refusal("no phrase of the script is in this conversation")
            phrase = phrases[0]
            answers = self._script[phrase]
        else:
            answers = self._script
        place = self._taken.get(phrase, 0)
        self._taken[phrase] = place + 1
        return answers[place] if place < len(answers) else _refusal(f"the script has no answer number {place + 1} {phrase}")

    def _paced(self, events: Iterable[bytes], pace_s: float) -> Iterator[bytes]:
        for event in events:
            if pace_s and self.stopped.wait(pace_s):
                return
            yield event


def _refusal(sentence: str) -> Reply:
    body = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": sentence}})
    return Reply([body.encode()], 400, {"content-type": "application/json"})


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(block["text"] for block in blocks if isinstance(block, dict) and isinstance(block.get("text"), str))


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for them
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news, and nothing of a request is shown."""


class _Handler(http.server.BaseHTTPRequestHandler):
    model: MockModel
    protocol_version = "HTTP/1.1"
    timeout = 5.0

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass

    def do_GET(self) -> None:
        body = json.dumps({"object": "list", "data": [{"id": "mock", "object": "model", "owned_by": "mock"}]}).encode()
        self._send(Reply([body], headers={"content-type": "application/json"}))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if not self.path.endswith(("/messages", "/chat/completions")):
            self._send(Reply([b"{}"], headers={"content-type": "application/json"}))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._send(self.model.answer(MockRequest(self.path, headers, json.loads(body))))

    def _send(self, reply: Reply) -> None:
        self.close_connection = True
        try:
            self.send_response(reply.status)
            for name, value in {"connection": "close", **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            for piece in reply.pieces:
                self.wfile.write(piece)
                self.wfile.flush()
        except ConnectionResetError:  # by a piece, or by the client: there is nobody to tell in either case
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        except BrokenPipeError:
            return
