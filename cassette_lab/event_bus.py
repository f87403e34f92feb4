"""The events of a host that runs agents, and whose turn it is: what an observer of model calls may rely on.

Events have the names and modes of the harness: ``system-prompt/assemble`` and ``agent/request`` are waterfalls, ``llm/stream``
is a stream. The host's room implements the bus; an observer needs nothing else of the host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias
from weakref import WeakSet

from cassette_lab.contracts import AbortSignal, ModelRequest, ModelStream

Listener: TypeAlias = Callable[..., Any]
Undo: TypeAlias = Callable[[], None]
"""Takes back what was done; harmless when called again."""

ASSEMBLE: Final = "system-prompt/assemble"
"""Waterfall ``async (payload: Assembly, next) -> Assembly``: once a step, before its first request; retries do not assemble."""
REQUEST: Final = "agent/request"
"""Waterfall ``async (payload: Attempt, next) -> Attempt``: before every model call of an agent loop, retries, too."""
STREAM: Final = "llm/stream"
"""Stream ``(request: ModelRequest, next) -> ModelStream``, a plain function: every model call, whoever makes it.

An agent loop's own steps are marked (``mark_loop_request``), carry the agent's signal and session id, and are made while the
agent is the ``current_initiator``; titles, compactions and the like are not marked.
"""
RUN_END: Final = "agent/run-end"
"""Emitted ``(agent, signal)`` when the run that ``signal`` served is over, however it ended: no stream of it is read again."""
DISPOSED: Final = "disposed"
"""The reason an owner aborts a signal with because it goes itself. ``TimeoutError`` is a time limit's, all else a user's."""


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """A step's system prompt. A listener that changes it passes on ``dataclasses.replace(payload, …)``.

    ``sections`` and ``contexts`` are ``{"name", "text"}`` in the order of the prompt, ``tools`` ``{"name", …}``; of
    ``variables`` an observer sees the names only.
    """

    agent: Any
    signal: AbortSignal | None
    session_id: str | None
    turn: int
    step: int
    sections: Sequence[Mapping[str, Any]] = ()
    contexts: Sequence[Mapping[str, Any]] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    variables: Iterable[str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """One try of a step. Turn and step count from 1, in one session; the same ones again are a retry."""

    agent: Any
    signal: AbortSignal | None
    session_id: str | None
    turn: int
    step: int


class EventBus(Protocol):
    """Where listeners wait for events. A listener of a waterfall or stream gets ``next`` and decides what goes on."""

    def on(self, name: str, listener: Listener, *, prepend: bool = False) -> Undo:
        """Listen; ``prepend`` puts the listener outside of (before) all that are there."""
        ...

    def emit(self, name: str, *args: Any) -> None:
        """Call every listener at once; what one raises does not keep the others from being called."""
        ...

    def serial(self, name: str, *args: Any) -> Awaitable[Any]:
        """Await the listeners one after the other, until one returns something else than None: the value of the whole."""
        ...

    def waterfall(self, name: str, payload: Any, final: Callable[[Any], Awaitable[Any]]) -> Awaitable[Any]:
        """Await the listeners, each wrapping the next, and ``final`` innermost."""
        ...

    def stream(self, name: str, request: ModelRequest, final: Callable[[ModelRequest], ModelStream]) -> ModelStream:
        """The stream that the outermost listener returns, ``final`` innermost. A listener may answer without calling next."""
        ...


_initiator: ContextVar[Any] = ContextVar("cassette_lab_initiator", default=None)
_loop_requests: WeakSet[ModelRequest] = WeakSet()


@contextmanager
def with_initiator(agent: Any) -> Iterator[None]:
    """For the length of an agent's run: model calls are this agent's doing. Pumps and timers start outside of it."""
    token = _initiator.set(agent)
    try:
        yield
    finally:
        with suppress(ValueError):  # a run that is closed in another context has nothing to undo there
            _initiator.reset(token)


def current_initiator() -> Any:
    """The agent whose run this is; None outside of one."""
    return _initiator.get()


def mark_loop_request(request: ModelRequest) -> ModelRequest:
    """Marks a request, by identity, as an agent loop's own step (a title or a compaction is none). Returns it."""
    _loop_requests.add(request)
    return request


def is_loop_request(request: object) -> bool:
    """Whether ``mark_loop_request`` was called for this very request."""
    return isinstance(request, ModelRequest) and request in _loop_requests
