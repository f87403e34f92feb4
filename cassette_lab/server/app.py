"""The HTTP side: routes, the stream of events, and who may ask.

A model call ends when its client goes away. Nothing of a request or an answer is logged.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import time
from contextlib import aclosing, suppress
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from cassette_lab.contracts import AbortController, LlmAdapter, ModelRequest, ModelStream
from cassette_lab.errors import AbortError, CassetteLabError
from cassette_lab.jsonio import JsonObject
from cassette_lab.server.openai import (
    SERVED_MODEL,
    Answer,
    ChatCall,
    Failure,
    RequestError,
    failure_of,
    read_call,
    usage_document,
)

MAX_BODY_BYTES: Final = 64 << 20


def replay_app(model: LlmAdapter, *, max_body_bytes: int = MAX_BODY_BYTES) -> ASGIApp:
    """An ASGI application that answers chat completions with ``model``, for clients of this machine only."""
    routes = [
        Route("/v1/chat/completions", _Completions(model, max_body_bytes), methods=["POST"]),
        Route("/v1/models", _models, methods=["GET"]),
        Route("/healthz", _healthy, methods=["GET"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _refused, Exception: _broken})
    return _LocalOnly(app)


async def _models(_request: Request) -> Response:
    entry = {"id": SERVED_MODEL, "object": "model", "created": 0, "owned_by": "cassette-lab"}
    return _json({"object": "list", "data": [entry]})


async def _healthy(_request: Request) -> Response:
    return _json({"status": "ok"})


async def _refused(_request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentence = "there is POST /v1/chat/completions, GET /v1/models and GET /healthz"
    response = _failed(Failure(status, sentence, "invalid_request_error"))
    response.headers.update(getattr(error, "headers", None) or {})
    return response


async def _broken(_request: Request, error: Exception) -> Response:
    return _failed(Failure(500, f"the replay server failed ({type(error).__name__})", "server_error"))


class _Completions:
    """``POST /v1/chat/completions``."""

    def __init__(self, model: LlmAdapter, max_body_bytes: int) -> None:
        self._model = model
        self._max_body_bytes = max_body_bytes
        self._answered = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            call = read_call(await self._body(request), request.headers.get("x-session-id"))
        except RequestError as error:
            await _failed(failure_of(error))(scope, receive, send)
            return
        except ClientDisconnect:
            return
        client = AbortController()
        watcher = asyncio.create_task(_abort_when_gone(receive, client))
        try:
            with suppress(AbortError):  # nobody is left to hear of it
                await self._answer(call, client, scope, receive, send)
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)

    async def _body(self, request: Request) -> bytes:
        too_large = RequestError(f"the body has more than {self._max_body_bytes} bytes", status=413)
        announced = request.headers.get("content-length", "")
        if announced.isascii() and announced.isdigit() and int(announced[:20]) > self._max_body_bytes:
            raise too_large
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self._max_body_bytes:
                raise too_large
        return bytes(body)

    async def _answer(self, call: ChatCall, client: AbortController, scope: Scope, receive: Receive, send: Send) -> None:
        self._answered += 1
        common: JsonObject = {
            "id": f"chatcmpl-replay-{self._answered}",
            "object": "chat.completion.chunk" if call.is_streamed else "chat.completion",
            "created": int(time.time()),
            "model": call.model,
        }
        request = ModelRequest(call.messages, call.tools, model=call.model, session_id=call.session_id, signal=client.signal)
        events = _Events(send, common, include_usage=call.include_usage)
        answer = Answer()
        async with aclosing(self._model.stream(request)) as stream:
            failure = await _read(stream, answer, events if call.is_streamed else None)
        if events.has_begun:
            await events.end(answer, failure)
        elif failure is not None:
            await _failed(failure)(scope, receive, send)
        elif call.is_streamed:
            await events.put({})
            await events.end(answer, None)
        else:
            choice = {"index": 0, "message": answer.message(), "logprobs": None, "finish_reason": answer.finish_reason}
            usage = {} if answer.usage is None else {"usage": usage_document(answer.usage)}
            await _json({**common, "choices": [choice], **usage})(scope, receive, send)


async def _read(stream: ModelStream, answer: Answer, events: _Events | None) -> Failure | None:
    """Read a call to its end, and give its deltas on to ``events``. Returns how it failed."""
    try:
        async for chunk in stream:
            delta = answer.add(chunk)
            if delta is not None and events is not None:
                await events.put(delta)
    except AbortError:
        raise
    except CassetteLabError as error:
        return failure_of(error)
    return answer.failure


class _Events:
    """A streamed answer. It begins with its first delta: until then a failure can still be a status."""

    def __init__(self, send: Send, common: JsonObject, *, include_usage: bool) -> None:
        self.has_begun = False
        self._send = send
        self._common = common
        self._include_usage = include_usage

    async def put(self, delta: JsonObject) -> None:
        """The next delta."""
        if not self.has_begun:
            self.has_begun = True
            delta = {"role": "assistant", **delta}
            headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._event(self._chunk([{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]))

    async def end(self, answer: Answer, failure: Failure | None) -> None:
        """The last events: the finish, the usage if it is asked for and known, ``[DONE]``; or an error."""
        if failure is not None:
            await self._event(failure.to_json())
        else:
            choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": answer.finish_reason}
            await self._event(self._chunk([choice]))
            if self._include_usage and answer.usage is not None:
                await self._event({**self._chunk([]), "usage": usage_document(answer.usage)})
            await self._write(b"data: [DONE]\n\n")
        await self._send({"type": "http.response.body", "body": b""})

    def _chunk(self, choices: list[JsonObject]) -> JsonObject:
        return {**self._common, "choices": choices, **({"usage": None} if self._include_usage else {})}

    async def _event(self, document: JsonObject) -> None:
        await self._write(b"data: " + _encoded(document) + b"\n\n")

    async def _write(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})
        await asyncio.sleep(0)  # sending need not wait, and others have their turn


async def _abort_when_gone(receive: Receive, client: AbortController) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    client.abort("the client has gone")


class _LocalOnly:
    """Refuses what a page of somebody else's makes a browser send here, also under a name that leads to this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if len(hosts) != 1 or not is_this_machine(hosts[0].decode("latin-1")):
            failure = Failure(403, "the Host header does not name this machine; ask 127.0.0.1 or localhost", "forbidden")
        elif not all(_is_own_origin(value.decode("latin-1")) for value in origins):
            failure = Failure(403, "pages of other machines may not ask", "forbidden")
        else:
            await self._app(scope, receive, send)
            return
        await _failed(failure)(scope, receive, send)


def is_this_machine(host: str) -> bool:
    """Whether a host, with or without a port, is ``localhost`` or a loopback address."""
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match["v6"] or match["name"]
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


_HOST: Final = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]+))(?::[0-9]{1,5})?", re.ASCII)


def _is_own_origin(origin: str) -> bool:
    scheme, separator, host = origin.partition("://")
    return bool(separator) and scheme in ("http", "https") and is_this_machine(host)


def _failed(failure: Failure) -> Response:
    """An error. Clients that would try again by themselves are asked not to: every call takes the next recorded one."""
    return _json(failure.to_json(), failure.status, {"x-should-retry": "false"})


def _json(document: JsonObject, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(_encoded(document), status, headers, media_type="application/json")


def _encoded(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode("ascii")  # lone surrogates stay escapes
