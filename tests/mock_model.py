"""What can go wrong with a model endpoint, as replies of the mock server, in both wire formats.

``FAULTS`` names each with the failure code that it has to end in (None: none, the answer is whole), and whether a retry
helps. The replies of a fault are made for one request: ``fault.reply(model, request)``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

from cassette_lab.server.mock_model import Answer, MockModel, MockRequest, Reply, ToolUse
from cassette_lab.server.mock_wire import chat_events, message_events, sse

WHOLE = Answer("Here is the answer, word by word.", "Let me think.", (ToolUse("look_up", {"city": "Zürich"}, "call_1"),))
JSON_TYPE = {"content-type": "application/json"}


def events_of(request: MockRequest, said: Answer = WHOLE) -> list[bytes]:
    """The events of a good answer in the request's wire format."""
    return list((message_events if request.speaks_messages else chat_events)(said))


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong."""

    code: str | None
    reply: Callable[[MockModel, MockRequest], Reply]
    retried: bool = False
    status: int | None = None


def _stream(pieces: Callable[[MockModel, list[bytes]], Iterator[bytes]], said: Answer = WHOLE) -> Callable[..., Reply]:
    return lambda model, request: Reply(pieces(model, events_of(request, said)))


def _error(status: int, headers: Mapping[str, str] | None = None, **error: Any) -> Callable[..., Reply]:
    body = json.dumps({"type": "error", "error": error}).encode()
    return lambda _model, _request: Reply([body], status, {**JSON_TYPE, **(headers or {})})


def _body(body: bytes, headers: Mapping[str, str], status: int = 200) -> Callable[..., Reply]:
    return lambda _model, _request: Reply([body], status, headers)


def _reset(_model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    yield from events[:4]
    raise ConnectionResetError


def _reset_at_once(_model: MockModel, _events: list[bytes]) -> Iterator[bytes]:
    raise ConnectionResetError
    yield b""


def _cut(_model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    yield from events[:5]


def _half(_model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    yield from events[:5]
    yield events[5][: len(events[5]) // 2]


def _without_end(_model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    yield from events[:-1]


def _last_event_open(_model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    yield b"".join(events)[:-1]


def _stall(model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    yield from events[:4]
    model.stopped.wait(30)


def _stall_at_once(model: MockModel, _events: list[bytes]) -> Iterator[bytes]:
    model.stopped.wait(30)
    yield b""


def _comments_only(model: MockModel, _events: list[bytes]) -> Iterator[bytes]:
    while not model.stopped.wait(0.02):
        yield b": keep-alive\n\n"


def _endless(model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    yield from events[:2]
    while not model.stopped.wait(0.02):
        yield events[2]


def _trickle(model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    """Byte after byte, cut within characters and line ends; comments between the events."""
    for event in events:
        for byte in event.replace(b"\n", b"\r\n") + b": keep-alive\r\n\r\n":
            yield bytes([byte])
        if model.stopped.wait(0.001):
            return


def _broken_json(_model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    yield from events[:4]
    yield b'data: {"type": "content_block_delta", "choices": [\n\n'


def _no_object(_model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    yield from events[:2]
    yield b"data: [1, 2]\n\n"


def _not_utf8(_model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    yield from events[:2]
    yield b"data: \xff\xfe\n\n"


def _overloaded(_model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    yield from events[:4]
    yield sse({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})


def _large(_model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    yield from events


def _huge(_model: MockModel, events: list[bytes]) -> Iterator[bytes]:
    yield from events[:2]
    yield b"data: "
    for _ in range(10):
        yield b"x" * (1 << 20)


FAULTS: dict[str, Fault] = {
    "reset at once": Fault("TRANSPORT", _stream(_reset_at_once), retried=True),
    "reset in the answer": Fault("TRANSPORT", _stream(_reset), retried=True),
    "cut off": Fault("STREAM_CLOSED", _stream(_cut)),
    "half an event": Fault("STREAM_CLOSED", _stream(_half)),
    "shorter than announced": Fault(
        "TRANSPORT",
        lambda _model, request: Reply(
            events_of(request)[:4], headers={"content-type": "text/event-stream", "content-length": "99999"}
        ),
        retried=True,
    ),
    "stall at once": Fault("TIMEOUT", _stream(_stall_at_once), retried=True),
    "stall in the answer": Fault("TIMEOUT", _stream(_stall), retried=True),
    "comments only": Fault("TIMEOUT", _stream(_comments_only), retried=True),
    "endless": Fault("TIMEOUT", _stream(_endless), retried=True),
    "429": Fault("RATE_LIMIT", _error(429, {"retry-after": "2"}, type="rate_limit_error"), retried=True, status=429),
    "429 until a date": Fault(
        "RATE_LIMIT",
        lambda *_: Reply([], 429, {"retry-after": formatdate(time.time() + 60, usegmt=True)}),
        retried=True,
        status=429,
    ),
    "429 without quota": Fault("QUOTA", _error(429, type="insufficient_quota", message="check your plan"), status=429),
    "402": Fault("QUOTA", _error(402, message="Insufficient Balance"), status=402),
    "401": Fault(
        "AUTH", _error(401, type="authentication_error", message="Incorrect API key: sk-secret-0123456789"), status=401
    ),
    "403": Fault("AUTH", _error(403), status=403),
    "404": Fault("INVALID_REQUEST", _error(404, code="model_not_found"), status=404),
    "413": Fault("INVALID_REQUEST", _body(b"<h1>Too large</h1>", {"content-type": "text/html"}, 413), status=413),
    "context overflow": Fault(
        "CONTEXT_WINDOW_EXCEEDED",
        _error(400, code="context_length_exceeded", message="This model's maximum context length is 8192 tokens."),
        status=400,
    ),
    "prompt too long": Fault(
        "CONTEXT_WINDOW_EXCEEDED",
        _error(400, type="invalid_request_error", message="prompt is too long: 210000 tokens > 200000 maximum"),
        status=400,
    ),
    "500": Fault("SERVER", _error(500, type="api_error", message="internal"), retried=True, status=500),
    "502 in HTML": Fault("SERVER", _body(b"<html>bad gateway", {"content-type": "text/html"}, 502), retried=True, status=502),
    "503 with endless HTML": Fault(
        "SERVER", _body(b"x" * (1 << 20), {"content-type": "text/html"}, 503), retried=True, status=503
    ),
    "overloaded in the answer": Fault("SERVER", _stream(_overloaded), retried=True),
    "malformed JSON": Fault("MALFORMED_RESPONSE", _stream(_broken_json)),
    "no object": Fault("MALFORMED_RESPONSE", _stream(_no_object)),
    "not UTF-8": Fault("MALFORMED_RESPONSE", _stream(_not_utf8)),
    "a web page": Fault("MALFORMED_RESPONSE", _body(b"<html>Sign in</html>", {"content-type": "text/html"}), status=200),
    "not streamed": Fault("MALFORMED_RESPONSE", _body(b'{"choices": []}', JSON_TYPE), status=200),
    "an error with status 200": Fault("SERVER", _error(200, type="api_error"), retried=True),
    "no content": Fault("MALFORMED_RESPONSE", lambda _model, _request: Reply([], 204), status=204),
    "redirect": Fault("MALFORMED_RESPONSE", _body(b"", {"location": "/v1/elsewhere"}, 307), status=307),
    "huge event": Fault("MALFORMED_RESPONSE", _stream(_huge)),
    "empty": Fault("EMPTY_RESPONSE", _stream(_large, Answer()), retried=True),
    "filtered in chat": Fault("CONTENT_FILTER", _stream(_large, Answer("I ", finish="content_filter"))),
    "refused in messages": Fault("CONTENT_FILTER", _stream(_large, Answer("I ", finish="refusal"))),
    "slow trickle": Fault(None, _stream(_trickle)),
    "large event": Fault(None, _stream(_large, Answer("word" * (1 << 19)))),
    "without its end in chat": Fault(None, _stream(_without_end)),
    "without its end in messages": Fault("STREAM_CLOSED", _stream(_without_end)),
    "last event open in messages": Fault("STREAM_CLOSED", _stream(_last_event_open)),
}
