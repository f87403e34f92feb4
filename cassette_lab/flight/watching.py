"""One stream under observation: what comes is passed on as it is, and how it ends is told to the recorder once."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any, Final, Literal

from cassette_lab.contracts import AbortSignal, ModelStream, StreamChunk
from cassette_lab.errors import CassetteLabError
from cassette_lab.event_bus import DISPOSED
from cassette_lab.flight.model import (
    ERROR_CODES,
    OTHER_CODE,
    USAGE_NAMES,
    AbortCause,
    ErrorKind,
    IncompleteReason,
    Outcome,
    OutcomeKind,
    RecordExtra,
    Usage,
)

Settle = Callable[[str, Outcome, RecordExtra], bool]
FINISH_CHARACTERS: Final = 256
"""A longer kind of finish is nobody's; it is told as ``other``."""


class Watch:
    """Times and usage of one request, until it has settled. Knows nothing of the stream, and its signal only weakly.

    ``among`` are the run's requests that are still going; what has settled leaves them.
    """

    __slots__ = ("_among", "_extra", "_first_ms", "_settle", "_signal", "_started", "_usage", "id", "open")

    def __init__(
        self,
        settle: Settle,
        record_id: str,
        extra: RecordExtra,
        signal: Callable[[], AbortSignal | None],
        among: dict[str, Watch],
    ) -> None:
        self.id = record_id
        self.open = True
        self._settle = settle
        self._extra = extra
        self._signal = signal
        self._among = among
        self._first_ms: float | None = None
        self._usage: Usage | None = None
        self._started = 0.0
        among[record_id] = self

    def begin(self) -> None:
        """The clock starts."""
        self._started = perf_counter()

    def first(self) -> None:
        """The first chunk has come."""
        if self._first_ms is None:
            self._first_ms = self._elapsed_ms()

    def told(self, chunk: Any) -> None:
        """A chunk of usage, or the last one."""
        try:
            kind = chunk["type"]
            if kind == "usage":
                self._usage = _usage(chunk.get("usage"))
            elif kind == "finish":
                self._finished(chunk["reason"])
        except Exception:  # noqa: BLE001 - a chunk that is not what it would have to be is passed on all the same
            return

    def ended(self) -> None:
        """The stream is at its end."""
        self._incomplete("stream-ended-without-finish")

    def threw(self, error: BaseException) -> None:
        """The stream raised, or could not be made."""
        if not self.open:
            return
        if isinstance(error, GeneratorExit):  # a close on its way out
            self._incomplete("consumer-returned")
            return
        cause = self._cause() or ("user" if isinstance(error, asyncio.CancelledError) else None)
        status = _status(_of(error, "status"))
        self._done("threw", error=error_kind(error), code=_code(_of(error, "code")), status=status, aborted=cause)

    def returned(self) -> None:
        """The reader closes it."""
        self._incomplete("consumer-returned")

    def thrown_into(self, error: BaseException | type[BaseException]) -> None:
        """The reader throws an exception into it."""
        closed = isinstance(error, GeneratorExit) or error is GeneratorExit
        self._incomplete("consumer-returned" if closed else "consumer-threw")

    def abandoned(self) -> None:
        """Its run is over, and nobody has read it to the end."""
        if self.open:
            self._done("incomplete", reason="consumer-returned", aborted=self._cause(), ended_by="run-end")

    def _finished(self, reason: Mapping[str, Any]) -> None:
        kind = reason["kind"]
        if kind in {"error", "aborted"}:
            failure = reason.get("failure")
            facts: Mapping[str, Any] = failure if isinstance(failure, Mapping) else {}
            code, status = _code(facts.get("code")), _status(facts.get("status"))
            cause = self._cause() or ("user" if kind == "aborted" else None)
            self._done("threw", error="error", code=code, status=status, aborted=cause)
            return
        finish = str.__str__(kind)
        self._done("finished", finish=finish if len(finish) <= FINISH_CHARACTERS else "other")

    def _incomplete(self, reason: IncompleteReason) -> None:
        if self.open:
            self._done("incomplete", reason=reason, aborted=self._cause())

    def _elapsed_ms(self) -> float:
        return (perf_counter() - self._started) * 1000

    def _done(
        self,
        kind: OutcomeKind,
        *,
        finish: str | None = None,
        error: ErrorKind | None = None,
        reason: IncompleteReason | None = None,
        code: str | None = None,
        status: int | None = None,
        aborted: AbortCause | None = None,
        ended_by: Literal["run-end"] | None = None,
    ) -> None:
        outcome = Outcome(kind, finish, error, reason, self._elapsed_ms(), self._first_ms, self._usage)
        self.open = False
        self._among.pop(self.id, None)
        extra = self._extra
        if (code, status, aborted, ended_by) != (None, None, None, None):
            extra = RecordExtra(extra.prompt_assembly, code, aborted, extra.auxiliary, ended_by, status)
        with contextlib.suppress(Exception):  # whatever it is, the reader of the stream has no part in it
            self._settle(self.id, outcome, extra)

    def _cause(self) -> AbortCause | None:
        """Who has aborted the run's signal, if anyone has."""
        signal = self._signal()
        return abort_cause(signal.reason) if signal is not None and getattr(signal, "aborted", False) is True else None


class ObservedStream:
    """A stream that is watched. What it does not know of itself it has from the stream."""

    __slots__ = ("__weakref__", "_first", "_next", "_stream", "_watch")

    def __init__(self, stream: ModelStream, watch: Watch) -> None:
        self._stream = stream
        self._watch = watch
        self._next: Callable[[], Awaitable[StreamChunk]] | None = None
        self._first = True

    def __aiter__(self) -> AsyncIterator[StreamChunk]:
        return self

    async def __anext__(self) -> StreamChunk:
        try:
            chunk = await (self._next or self._begin())()
        except StopAsyncIteration:
            self._watch.ended()
            raise
        except BaseException as error:
            self._watch.threw(error)
            raise
        if self._first:
            self._first = False
            self._watch.first()
        try:
            if chunk["type"] in _TELLING and self._watch.open:
                self._watch.told(chunk)
        except Exception:  # noqa: BLE001 - whatever it is, it is the reader's
            return chunk
        return chunk

    def aclose(self) -> Awaitable[None]:
        """Close the stream."""
        self._watch.returned()
        return self._stream.aclose()

    def athrow(self, error: BaseException, /, *more: Any) -> Awaitable[StreamChunk]:
        """Throw into the stream."""
        self._watch.thrown_into(error)
        return self._stream.athrow(error, *more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _begin(self) -> Callable[[], Awaitable[StreamChunk]]:
        """The first reading begins the iteration, as ``async for`` would."""
        self._next = self._stream.__aiter__().__anext__
        return self._next


_TELLING: Final = frozenset({"usage", "finish"})


def error_kind(error: BaseException) -> ErrorKind:
    """The word for an error: by the name a replay says it had, else by the first of its classes that has one."""
    if isinstance(error, CassetteLabError):
        name = _of(error, "recorded_name")
        if type(name) is str and name in _ERROR_NAMES:
            return _ERROR_NAMES[name]
    for kind in type(error).__mro__:
        found = _ERROR_CLASSES.get(kind)
        if found is not None:
            return found
        if kind.__name__ in _ERROR_NAMES and issubclass(kind, Exception):
            return _ERROR_NAMES[kind.__name__]
    return "non-error-thrown"


def abort_cause(reason: object) -> AbortCause:
    """Who aborts a signal with this reason."""
    if isinstance(reason, TimeoutError):
        return "timeout"
    return "dispose" if isinstance(reason, str) and reason == DISPOSED else "user"


_ERROR_NAMES: Final[dict[str, ErrorKind]] = {
    "TypeError": "type-error",
    "RangeError": "range-error",
    "SyntaxError": "syntax-error",
    "ReferenceError": "reference-error",
    "URIError": "uri-error",
    "EvalError": "eval-error",
    "AggregateError": "aggregate-error",
    "AbortError": "abort-error",
    "TimeoutError": "timeout-error",
}
_ERROR_CLASSES: Final[dict[type, ErrorKind]] = {
    asyncio.CancelledError: "abort-error",
    TimeoutError: "timeout-error",
    TypeError: "type-error",
    SyntaxError: "syntax-error",
    NameError: "reference-error",
    ReferenceError: "error",  # Python's is about weak references
    IndexError: "range-error",
    OverflowError: "range-error",
    BaseExceptionGroup: "aggregate-error",
    Exception: "error",
}


def _usage(usage: Any) -> Usage | None:
    """The known counts, of those that are counts; None for what is no usage."""
    if not isinstance(usage, Mapping):
        return None
    found = {attribute: usage.get(name) for name, attribute in USAGE_NAMES.items()}
    return Usage(**{name: count for name, count in found.items() if _is_count(count)})


def _is_count(value: Any) -> bool:
    kind = type(value)
    return (kind is int or (kind is float and math.isfinite(value))) and value >= 0


def _code(code: Any) -> str | None:
    """A failure code, of those that are known."""
    if not isinstance(code, str):
        return None
    plain = str.__str__(code)
    return plain if plain in ERROR_CODES else OTHER_CODE


def _status(status: Any) -> int | None:
    """An HTTP status; None for what is none."""
    return status if type(status) is int and 100 <= status <= 599 else None


def _of(error: BaseException, name: str) -> Any:
    """An attribute of somebody's exception; None where reading it fails."""
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001 - whatever it is made of
        return None
