"""Listeners that are told that something changed, later, once for many changes, and never twice at once."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

Listener: TypeAlias = Callable[[dict[str, int]], Any]
"""Is called with ``{"revision": n}``; may return something to await."""
Later: TypeAlias = Callable[[Callable[[], None]], Any]
"""Calls a function soon, but not now."""


class Subscriptions:
    """The listeners of one state. ``revision()`` is what they are told; ``failures`` counts what they raised."""

    def __init__(self, revision: Callable[[], int], later: Later | None = None) -> None:
        self.failures = 0
        self._revision = revision
        self._later = later
        self._listening: tuple[_Subscription, ...] = ()

    def add(self, listener: Listener) -> Callable[[], None]:
        """Tell ``listener`` of changes from now on, until the returned function is called."""
        subscription = _Subscription(self, listener, self._later or _on_loop(asyncio.get_running_loop()))
        self._listening += (subscription,)

        def remove() -> None:
            subscription.listener = None
            self._listening = tuple(other for other in self._listening if other is not subscription)

        return remove

    def mark(self) -> None:
        """Something has changed."""
        for subscription in self._listening:
            subscription.mark()

    def failed(self) -> None:
        """A listener raised."""
        self.failures += 1

    def dispose(self) -> None:
        """Everyone is forgotten, calls that are due, too. Whoever is still at it may yet fail, and that counts."""
        for subscription in self._listening:
            subscription.listener = None
        self._listening = ()
        self.failures = 0

    def revision(self) -> int:
        """What a call is told."""
        return self._revision()


class _Subscription:
    """One listener: idle, to be called (``queued``), or at it (``running``), perhaps with news since (``changed``)."""

    __slots__ = ("_changed", "_later", "_owner", "_queued", "_running", "_step", "listener")

    def __init__(self, owner: Subscriptions, listener: Listener, later: Later) -> None:
        self.listener: Listener | None = listener
        self._owner = owner
        self._later = later
        self._queued = self._running = self._changed = False
        self._step = threading.RLock()  # changes come from any thread, calls from the listener's own

    def mark(self) -> None:
        with self._step:
            if self._running:
                self._changed = True
                return
            if self._queued:
                return
            self._queued = True
        try:
            self._later(self._call)
        except RuntimeError:  # its event loop is closed: nobody is there to be told
            self.listener = None

    def _call(self) -> None:
        with self._step:
            self._queued = False
            listener = self.listener
            if listener is None:
                return
            self._running = True
        try:
            result = listener({"revision": self._owner.revision()})
            if inspect.isawaitable(result):
                task = asyncio.ensure_future(_awaited(result))
                _at_it.add(task)
                task.add_done_callback(self._ended)
                return
        except Exception:  # noqa: BLE001 - whatever it is, the one who made the change has no part in it
            self._owner.failed()
        except BaseException:
            self._idle()
            raise
        self._idle()

    def _ended(self, task: asyncio.Future[Any]) -> None:
        _at_it.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._owner.failed()
        self._idle()

    def _idle(self) -> None:
        with self._step:
            self._running = False
            again, self._changed = self._changed, False
        if again and self.listener is not None:
            self.mark()


_at_it: Final[set[asyncio.Future[Any]]] = set()
"""Listeners that are still at it: nobody else holds their tasks."""


async def _awaited(result: Awaitable[Any]) -> None:
    await result


def _on_loop(loop: asyncio.AbstractEventLoop) -> Later:
    """On the next turn of a loop, from whatever thread."""

    def later(call: Callable[[], None]) -> None:
        try:
            here = asyncio.get_running_loop() is loop
        except RuntimeError:
            here = False
        (loop.call_soon if here else loop.call_soon_threadsafe)(call)

    return later
