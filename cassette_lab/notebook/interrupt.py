"""Ctrl-C and the kernel's stop button while a cell awaits.

An awaiting cell is a task. In a kernel SIGINT only asks the loop to cancel it, too late for a body that is busy without
awaiting; in a terminal SIGINT leaves the loop and the task behind, with whatever they hold open. ``InterruptGuard``
turns the signal into the end of the cell's task, so that the block around the body can close what it has opened.
It never breaks into this package's own work: half a record, or a lock that nobody holds, would be left behind.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final, Self

from cassette_lab.cassette.reader import read_cassette

_guards: Final[ContextVar[InterruptGuard | None]] = ContextVar("cassette_lab_interrupt_guard", default=None)


class InterruptGuard:
    """While entered, SIGINT ends the current task: as ``KeyboardInterrupt`` where it is busy, by cancelling it where it waits.

    Signals reach the main thread only; elsewhere the guard does nothing. ``interrupts`` counts the signals; ``pending``
    is one that the task is still to be told of, when it next waits.
    """

    def __init__(self) -> None:
        self.interrupts = 0
        self.pending = False
        self._on_interrupt: Callable[[], None] | None = None
        self._cancellations = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._before: Any = None
        self._installed: Any = None

    @property
    def closing(self) -> bool:
        """Whether ``close`` was called."""
        return self._on_interrupt is not None

    def close(self, on_interrupt: Callable[[], None]) -> None:
        """From here on the task is not disturbed: a signal calls ``on_interrupt``, on the loop."""
        self._on_interrupt = on_interrupt
        for _ in range(self._cancellations):  # the cancellation was ours and has been dealt with
            if self._task is not None:
                self._task.uncancel()
        self._cancellations = 0

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._loop = asyncio.get_running_loop()
            self._task = asyncio.current_task()
            _guards.set(self)
            self._installed = self._signalled
            self._before = signal.signal(signal.SIGINT, self._installed)
        return self

    def __exit__(self, *_: object) -> None:
        if self._installed is not None and signal.getsignal(signal.SIGINT) is self._installed:
            # A handler that was not set from Python reads as None and cannot be put back.
            signal.signal(signal.SIGINT, signal.default_int_handler if self._before is None else self._before)
        self._installed = None
        if _guards.get() is self:
            _guards.set(None)

    def _signalled(self, _number: int, frame: FrameType | None) -> None:
        """The signal handler: runs between two steps of whatever the main thread is doing."""
        __tracebackhide__ = True
        assert self._loop is not None  # noqa: S101 - entered
        assert self._task is not None  # noqa: S101 - entered
        self.interrupts += 1
        if self._on_interrupt is not None:
            self._loop.call_soon_threadsafe(self._on_interrupt)
            return
        running = asyncio.current_task(self._loop)
        breakable = _is_breakable(frame)
        if running is self._task and breakable:
            raise KeyboardInterrupt
        self.pending = True
        self._loop.call_soon_threadsafe(self._cancel)
        if running is not None and running is not self._task and breakable and _guards.get() is self:
            # A task of the cell is busy without awaiting. KeyboardInterrupt would leave the loop; a cancellation ends the task.
            raise asyncio.CancelledError

    def _cancel(self) -> None:
        self.pending = False
        if self._task is not None and not self.closing:
            self._cancellations += self._task.cancel()


_WHOLE: Final = frozenset({__name__.partition(".")[0], "zmq", "jupyter_client", "tornado"})
"""Packages whose steps belong together: half a record, or half a message of the kernel, would be left behind."""


def _is_breakable(frame: FrameType | None) -> bool:
    """Whether an exception may be raised in ``frame``: it runs what people wrote, or what that calls.

    It may not in a step of the packages that are whole, mere reading of a cassette excepted, nor in the event loop's own
    steps: the end of a task would be lost, and whoever waits for it would wait for ever.
    """
    whole = False
    while frame is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if frame.f_code is read_cassette.__code__:
            return True
        if frame.f_code is asyncio.Handle._run.__code__:  # noqa: SLF001 - where the loop hands over to a task or callback
            return False
        if package in _WHOLE:
            whole = True
        elif package not in sys.stdlib_module_names:
            break
        frame = frame.f_back
    return not whole
