"""The events of a host that runs agents, and whose turn it is: what an observer of model calls may rely on.

Events have the names and modes of the harness: ``system-prompt/assemble`` and ``agent/request`` are waterfalls, ``llm/stream``
is a stream. The host's room implements the bus; an observer needs nothing else of the host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeAlias
from weakref import WeakSet

from cassette_lab.contracts import ModelRequest, ModelStream

Listener: TypeAlias = Callable[..., Any]
Undo: TypeAlias = Callable[[], None]
"""Takes back what was done; harmless when called again."""

ASSEMBLE: Final = "system-prompt/assemble"
"""Waterfall: ``async (payload, next) -> payload``, before a step's request; the payload has the agent, its signal and the
sections, contexts, tools and variables of the prompt."""
REQUEST: Final = "agent/request"
"""Waterfall: ``async (payload, next) -> payload``, once an attempt; the payload has agent, signal, turn, step."""
STREAM: Final = "llm/stream"
"""Stream: a plain ``(request, next) -> ModelStream``."""


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
