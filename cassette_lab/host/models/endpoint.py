"""One POST to a model endpoint, and the events of its answer: what all wire formats have in common.

The key is read from the environment when a request is built, and put into the request by httpx2's own hook: no frame of ours
has it in a local, no attribute holds it. Redirects are not followed, since they would carry the key elsewhere. Each call has
a connection of its own, closed with its stream.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import json
import os
import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from cassette_lab.contracts import AbortSignal
from cassette_lab.errors import AbortError, ConfigError
from cassette_lab.host.models.connections import no_connection, nothing_told
from cassette_lab.host.models.failures import ModelFailure, failure_of_answer, malformed
from cassette_lab.host.models.keys import check_key_name, key_state
from cassette_lab.host.models.sse import EventParser, EventTooLargeError, ServerEvent
from cassette_lab.jsonio import JsonObject, JsonSyntaxError, parse

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

MAX_ANSWER_BYTES: Final = 64 << 20
MAX_ERROR_BYTES: Final = 64 << 10
_LONGEST_ID: Final = 512
_LARGEST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a call may take, in seconds; None is for ever.

    ``connect_s`` until there is a connection; ``first_chunk_s`` from the start to the first event of the answer (providers
    keep a queueing request alive with comments, which are no events); ``idle_s`` between two arrivals of anything;
    ``total_s`` for the whole call.
    """

    connect_s: float | None = 10.0
    first_chunk_s: float | None = 300.0
    idle_s: float | None = 120.0
    total_s: float | None = 1800.0

    def __post_init__(self) -> None:
        for name in ("connect_s", "first_chunk_s", "idle_s", "total_s"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"the timeout {name} is a number of seconds above 0, or None, not {value!r}")


DEFAULT_TIMEOUTS: Final = Timeouts()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model answers, and how one shows that one may ask. Raises ``ConfigError`` for an address that cannot be.

    ``api_key_env`` names the environment variable with the key; None sends no key. Where that variable is not set, an endpoint
    on this machine is asked nevertheless if ``is_key_optional``; no other is.
    """

    base_url: str
    path: str
    api_key_env: str | None
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    headers: Mapping[str, str] = field(default_factory=dict)
    is_key_optional: bool = False

    def __post_init__(self) -> None:
        import httpx2

        check_key_name(self.api_key_env)
        try:
            url = httpx2.URL(self.base_url)
        except (httpx2.InvalidURL, TypeError):
            url = httpx2.URL("")
        if (
            url.scheme not in ("http", "https")
            or not url.host
            or (url.port or 0) > _LARGEST_PORT
            or url.userinfo
            or url.query
            or url.fragment
        ):
            raise ConfigError(
                "base_url is an http or https address with a host and perhaps a path, without user, password or query"
            )

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine: no proxy is asked then, and no key needed."""
        import httpx2

        host: str = httpx2.URL(self.base_url).host
        with suppress(ValueError):
            return ipaddress.ip_address(host).is_loopback
        return host == "localhost" or host.endswith(".localhost")

    async def events(
        self, document: JsonObject, signal: AbortSignal | None, *, session_id: str | None = None
    ) -> AsyncGenerator[ServerEvent, None]:
        """The events of the answer to ``document``; at least one. An endpoint on this machine is told the ``session_id``.

        Raises ``ModelFailure``, also for an event that tells an error, ``AbortError`` once the signal is aborted, and
        ``ConfigError`` where the proxy or the certificates of the environment cannot be used. Ends where the answer ends,
        which may be before its proper end: that is for the wire format to know.
        """
        failure = self.credential_failure()
        if failure is not None:
            raise failure
        with _Watch(self, signal) as watch:
            client = self._client()
            try:
                response = await watch.wait(client.send(self._request(client, document, session_id), stream=True))
                await _check(response, watch, self.without_key)
                parser = EventParser()
                received = 0
                async with aclosing(_pieces(response, watch)) as pieces:
                    async for piece in pieces:
                        received += len(piece)
                        for event in _fed(parser, piece, received):
                            watch.check()
                            watch.has_begun = True
                            failure = _told_failure(event, self.without_key)
                            if failure is not None:
                                del event, piece  # they may quote the key, and the traceback would show them
                                raise failure
                            yield event
                if not watch.has_begun:
                    raise nothing_told(received, response.status_code)
            finally:
                await client.aclose()

    def without_key(self, text: str) -> str:
        """``text`` with the key taken out of it."""
        if self.api_key_env is None or key_state(self.api_key_env) == "missing":
            return text
        return text.replace(os.environ[self.api_key_env].strip(), "[REDACTED]")

    def _client(self) -> httpx2.AsyncClient:
        import httpx2

        is_local = self.is_local
        try:
            return httpx2.AsyncClient(
                auth=functools.partial(_with_key, self) if self.api_key_env is not None else None,
                verify=_ssl_context(self.base_url.lower().startswith("https:")),
                timeout=httpx2.Timeout(None, connect=self.timeouts.connect_s),
                trust_env=not is_local,
            )
        except ImportError:
            reason = "a SOCKS proxy needs the package socksio"
        except (ValueError, OSError) as error:
            reason = type(error).__name__
        raise ConfigError(
            f"the proxy or the certificates of the environment cannot be used ({reason}); "
            "look at HTTPS_PROXY, ALL_PROXY, SSL_CERT_FILE and the like"
        )

    def _request(self, client: httpx2.AsyncClient, document: JsonObject, session_id: str | None) -> httpx2.Request:
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "user-agent": "cassette-lab",
            **self.headers,
        }
        if (
            session_id
            and len(session_id) <= _LONGEST_ID
            and session_id.isascii()
            and session_id.isprintable()
            and self.is_local
        ):
            headers["x-session-id"] = session_id
        url = f"{self.base_url.rstrip('/')}/{self.path}"
        return client.build_request("POST", url, headers=headers, content=_encoded(document))

    def credential_failure(self) -> ModelFailure | None:
        """What a call would raise for want of a usable key; None where there is one, or none is needed."""
        name = self.api_key_env
        if name is None:
            return None
        state = key_state(name)
        if state == "missing" and not (self.is_local and self.is_key_optional):
            or_none = ", or say api_key_env=None to send none" if self.is_local else ""
            return ModelFailure(f"there is no key: set the environment variable {name}{or_none}", code="MISSING_CREDENTIAL")
        if state == "unusable":
            return ModelFailure(
                f"the environment variable {name} holds no usable key: visible ASCII characters only", code="INVALID_CREDENTIAL"
            )
        return None


def _with_key(endpoint: Endpoint, request: httpx2.Request) -> httpx2.Request:
    name = endpoint.api_key_env
    if name is not None and key_state(name) == "usable":
        request.headers[endpoint.key_header] = endpoint.key_prefix + os.environ[name].strip()
    return request


class _Watch:
    """Waits for one thing after the other, no longer than the limits and the signal allow."""

    def __init__(self, endpoint: Endpoint, signal: AbortSignal | None) -> None:
        self.has_begun = False
        self._endpoint = endpoint
        self._timeouts = endpoint.timeouts
        self._signal = signal
        self._scope: asyncio.Timeout | None = None
        self._started = asyncio.get_running_loop().time()
        self._remove: Callable[[], None] = _nothing

    def __enter__(self) -> Self:
        if self._signal is not None:
            self._remove = self._signal.on_abort(self._on_abort)
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def check(self) -> None:
        """Raise ``AbortError`` if the signal is aborted."""
        if self._is_aborted():
            raise aborted()

    async def wait(self, step: Awaitable[T]) -> T:
        """The step's result. Its failure is raised anew, so that nothing of the connection's frames goes with it."""
        import httpx2

        limit, deadline = self._limit()
        failure: Exception
        try:
            async with asyncio.timeout_at(deadline) as self._scope:
                if self._is_aborted():
                    self._on_abort()
                return await step
        except TimeoutError:
            failure = ModelFailure(f"the endpoint {self._endpoint.base_url} took too long: {limit}", code="TIMEOUT")
        except httpx2.TimeoutException:
            connect_s = self._timeouts.connect_s
            failure = ModelFailure(f"no connection to {self._endpoint.base_url} within {connect_s:g} s", code="TIMEOUT")
        except httpx2.DecodingError:
            failure = ModelFailure("the answer is compressed, and broken", code="MALFORMED_RESPONSE")
        except httpx2.ConnectError as error:
            failure = no_connection(self._endpoint.base_url, error, is_local=self._endpoint.is_local)
        except (httpx2.HTTPError, OSError, ValueError, ExceptionGroup) as error:
            failure = ModelFailure(
                f"the connection to {self._endpoint.base_url} broke ({type(error).__name__})", code="TRANSPORT"
            )
        finally:
            self._scope = None
        raise aborted() if self._is_aborted() else failure

    def _limit(self) -> tuple[str, float | None]:
        now = asyncio.get_running_loop().time()
        limits = [("a pause", now, self._timeouts.idle_s), ("in all", self._started, self._timeouts.total_s)]
        if not self.has_begun:
            limits.append(("until the first chunk", self._started, self._timeouts.first_chunk_s))
        known = [(start + seconds, f"{seconds:g} s {name}") for name, start, seconds in limits if seconds is not None]
        if not known:
            return "", None
        deadline, name = min(known)
        return name, deadline

    def _is_aborted(self) -> bool:
        return self._signal is not None and self._signal.aborted

    def _on_abort(self) -> None:
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())


def document_of(event: ServerEvent) -> JsonObject:
    """The JSON object that an event carries. Raises ``ModelFailure`` where it carries none."""
    try:
        document = parse(event.data)
    except JsonSyntaxError:
        document = None
    if not isinstance(document, dict):
        raise malformed("an event is no JSON object")
    return document


def _told_failure(event: ServerEvent, without_key: Callable[[str], str]) -> ModelFailure | None:
    """The failure that an event tells, in either protocol."""
    if event.name != "error" and '"error"' not in event.data:
        return None
    try:
        document = parse(event.data)
    except JsonSyntaxError:
        return None
    told = isinstance(document, dict) and (document.get("error") or document.get("type") == "error")
    return failure_of_answer(document, without_key=without_key) if told else None


def aborted() -> AbortError:
    """What a call raises that its signal has stopped."""
    return AbortError("the model call was aborted")


def _nothing() -> None: ...


async def _pieces(response: httpx2.Response, watch: _Watch) -> AsyncGenerator[bytes, None]:
    async with aclosing(response.aiter_bytes()) as pieces:
        while (piece := await watch.wait(anext(pieces, None))) is not None:
            yield piece


def _fed(parser: EventParser, piece: bytes, received: int) -> list[ServerEvent]:
    failure: ModelFailure
    try:
        if received <= MAX_ANSWER_BYTES:
            return parser.feed(piece)
        failure = ModelFailure(f"the answer has more than {MAX_ANSWER_BYTES >> 20} MiB", code="MALFORMED_RESPONSE")
    except EventTooLargeError as error:
        failure = ModelFailure(str(error), code="MALFORMED_RESPONSE")
    raise failure


async def _check(response: httpx2.Response, watch: _Watch, without_key: Callable[[str], str]) -> None:
    """Raise unless the answer is a stream of events."""
    content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if response.status_code != 200 or content_type != "text/event-stream":
        raise await _refusal(response, content_type, watch, without_key)


async def _refusal(
    response: httpx2.Response, content_type: str, watch: _Watch, without_key: Callable[[str], str]
) -> ModelFailure:
    """What an answer that is no stream of events says. Its text, which may quote the key, stays in this frame."""
    status = response.status_code
    if 300 <= status < 400:
        return ModelFailure(
            f"the endpoint points elsewhere (HTTP {status}), and that is not followed; give the final address as base_url",
            code="MALFORMED_RESPONSE",
            status=status,
        )
    document = await _document(response, watch, content_type)
    watch.check()
    if status >= 400:
        retry_after = response.headers.get("retry-after")
        return failure_of_answer(document, status=status, retry_after=retry_after, without_key=without_key)
    if isinstance(document, dict) and document.get("error"):
        return failure_of_answer(document, without_key=without_key)
    shown = content_type if _CONTENT_TYPE.fullmatch(content_type) else "another kind of content"
    sentence = f"the endpoint answers with {shown} (HTTP {status}), not with a stream of events"
    return ModelFailure(sentence, code="MALFORMED_RESPONSE", status=status)


_CONTENT_TYPE: Final = re.compile(r"[a-z]{1,32}/[a-z0-9.+-]{1,64}", re.ASCII)


async def _document(response: httpx2.Response, watch: _Watch, content_type: str) -> Any:
    """The JSON of an error's body, as far as there is one, or its plain text; a body that cannot be read is none."""
    body = bytearray()
    try:
        async with aclosing(_pieces(response, watch)) as pieces:
            async for piece in pieces:
                body += piece
                if len(body) > MAX_ERROR_BYTES:
                    return None
        return parse(bytes(body))
    except JsonSyntaxError:
        return body.decode(errors="replace") if content_type == "text/plain" else None
    except (ModelFailure, AbortError):
        return None


def _encoded(document: JsonObject) -> bytes:
    """As ASCII: a lone surrogate of a recorded text goes as its escape."""
    try:
        return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError):
        failure = ModelFailure("the request holds what JSON cannot", code="INVALID_REQUEST")
    raise failure


@functools.cache
def _ssl_context(is_secure: bool) -> ssl.SSLContext:  # noqa: FBT001 - the key of a cache
    if is_secure:
        import httpx2

        return httpx2.create_ssl_context()
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # never used; reading the certificates would take a while
