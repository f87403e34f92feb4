"""A host's context: named services, events, and everything that has to be undone when it goes.

What is built in a context belongs to it: listeners, services, child contexts, other effects. ``dispose`` undoes all of it, the
newest first. Children share the events of their parent and see its services; a service of their own hides the parent's.
A context belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import ChainMap
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from cassette_lab.contracts import ModelRequest, ModelStream
from cassette_lab.errors import ClosedError, ConfigError
from cassette_lab.event_bus import Listener, Undo

T = TypeVar("T")
_REQUIRED: Final = object()


class Context:
    """An ``event_bus.EventBus`` that owns what was made in it. ``async with`` disposes it at the end.

    After ``dispose`` has begun nothing more can be added: ``ClosedError``.
    """

    def __init__(self, *, name: str = "host") -> None:
        self.name = name
        self._listeners: dict[str, tuple[_Entry, ...]] = {}
        self._services: ChainMap[str, Any] = ChainMap()
        self._effects: dict[object, Callable[[], Any]] = {}  # in the order in which they were made
        self._disposal: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<context {self.name}{', disposed' if self.disposed else ''}>"

    @property
    def disposed(self) -> bool:
        """Whether its disposal has begun."""
        return self._disposal is not None

    # What it owns

    def effect(self, undo: Callable[[], T]) -> Callable[[], T | None]:
        """Own ``undo``, a plain or an async function. Returns what undoes it now, once, and gives what that gives."""
        self._check_open()
        key = object()
        self._effects[key] = undo
        return lambda: None if self._effects.pop(key, None) is None else undo()

    def child(self, *, name: str = "child", owned: bool = True) -> Context:
        """A context inside of this one, disposed with it at the latest. One that is not ``owned`` lives on its own."""
        child = Context(name=name)
        child._listeners = self._listeners
        child._services = self._services.new_child()
        self._check_open()
        if owned:
            self._effects[child] = child.dispose
            child.effect(lambda: self._effects.pop(child, None))
        return child

    async def dispose(self) -> None:
        """Undo everything, the newest first. All of it is undone, whatever fails; then the failure is raised.

        Calls share one disposal, which goes on to its end also where one who waits for it is cancelled.
        """
        callers = _being_disposed.get()
        if self in callers:  # something that is undone asks for it again
            return
        if self._disposal is None:
            self._disposal = asyncio.get_running_loop().create_task(self._undo_all(), name=f"dispose {self.name}")
        if any(_waits(self, caller) for caller in callers):  # two that own each other would wait for ever
            return
        edges = {(caller, self) for caller in callers}
        _waiting.update(edges)
        try:
            await asyncio.shield(self._disposal)
        finally:
            _waiting.difference_update(edges)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.dispose()

    # Services

    def provide(self, name: str, service: Any) -> Undo:
        """Give ``service`` a name, for this context and its children. ``ConfigError`` where this context gave it already."""
        self._check_open()
        if name in self._services.maps[0]:
            raise ConfigError(
                f"the context {self.name!r} has a service {name!r} already; take another name, or a child context"
            )
        self._services[name] = service

        def withdraw() -> None:
            self._services.pop(name, None)

        return self.effect(withdraw)

    def get(self, name: str, default: Any = _REQUIRED) -> Any:
        """The service of that name, the nearest one. Without one ``default``, else ``ConfigError``."""
        service = self._services.get(name, default)
        if service is _REQUIRED:
            raise ConfigError(f"no service {name!r} is provided in the context {self.name!r}")
        return service

    # Events

    def on(self, name: str, listener: Listener, *, prepend: bool = False) -> Undo:
        """Listen for an event, until the returned function is called or this context is disposed."""
        self._check_open()
        entry = _Entry(listener)
        there = self._listeners.get(name, ())
        self._listeners[name] = (entry, *there) if prepend else (*there, entry)

        def remove() -> None:
            left = tuple(other for other in self._listeners.get(name, ()) if other is not entry)
            if left:
                self._listeners[name] = left
            else:
                self._listeners.pop(name, None)

        return self.effect(remove)

    def listeners(self, name: str) -> int:
        """How many listen for the event, in all contexts that share it."""
        return len(self._listeners.get(name, ()))

    def emit(self, name: str, *args: Any) -> None:
        """Call the (plain) listeners in order. What one raises is logged, and keeps neither the others nor the caller."""
        for entry in self._listeners.get(name, ()):
            try:
                answer = entry.listener(*args)
                if inspect.iscoroutine(answer):
                    answer.close()
                    raise TypeError("a listener of an emitted event is a plain function; start a task in it")  # noqa: TRY301
            except Exception:  # noqa: BLE001 - whatever it is, the emitter has no part in it
                _log.exception("a listener of %s failed", name)

    async def serial(self, name: str, *args: Any) -> Any:
        """Await the listeners one after the other, until one gives something else than None: that is the answer."""
        for entry in self._listeners.get(name, ()):
            answer = entry.listener(*args)
            if inspect.isawaitable(answer):
                answer = await answer
            if answer is not None:
                return answer
        return None

    def waterfall(self, name: str, payload: Any, final: Callable[[Any], Awaitable[Any]]) -> Awaitable[Any]:
        """``async (payload, next) -> payload`` each, ``final`` innermost; ``next()`` hands on what came in, or its argument."""
        settled: Awaitable[Any] = _wrapped(self._listeners.get(name, ()), final)(payload)
        return settled

    def stream(self, name: str, request: ModelRequest, final: Callable[[ModelRequest], ModelStream]) -> ModelStream:
        """A plain ``(request, next) -> stream`` each, ``final`` innermost; all are called at once, before the first chunk."""
        stream: ModelStream = _wrapped(self._listeners.get(name, ()), final)(request)
        return stream

    def _check_open(self) -> None:
        if self.disposed:
            raise ClosedError(f"the context {self.name!r} is disposed; make a new one", code="CONTEXT_CLOSED")

    async def _undo_all(self) -> None:
        _being_disposed.set(_being_disposed.get() | {self})  # this task's own context variables
        failures: list[BaseException] = []
        while self._effects:
            _, undo = self._effects.popitem()
            try:
                done = undo()
                if inspect.isawaitable(done):
                    await done
            except BaseException as failure:  # noqa: BLE001 - all the others are undone first
                failures.append(failure)
        if len(failures) == 1:
            raise failures[0]
        if failures:
            raise BaseExceptionGroup(f"{len(failures)} effects of the context {self.name!r} could not be undone", failures)


class _Entry:
    """One registration: the same listener may be registered twice."""

    __slots__ = ("listener",)

    def __init__(self, listener: Listener) -> None:
        self.listener = listener


def _wrapped(entries: tuple[_Entry, ...], final: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``final`` inside the listeners, the first one outermost."""
    call = final
    for entry in reversed(entries):
        call = _layer(entry.listener, call)
    return call


def _layer(listener: Listener, inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(value: Any) -> Any:
        return listener(value, lambda other=value: inner(other))

    return call


_waiting: Final[set[tuple[Context, Context]]] = set()
"""Whose disposal waits for whose."""


def _waits(context: Context, other: Context) -> bool:
    return any(waited is other or _waits(waited, other) for waiting, waited in [*_waiting] if waiting is context)


_log: Final = logging.getLogger("cassette_lab.host")
_being_disposed: Final[ContextVar[frozenset[Context]]] = ContextVar("cassette_lab_being_disposed", default=frozenset())


HOST: Final = Context()
"""The host of agents that are given none. Whoever listens here hears of all of them; it is never disposed."""
