"""The second process of shared reading as the first one sees it: started once, kept for the next time, ended with this one.

It is given functions of this package with their arguments (``helper_process``). Where it fails, is killed or hangs, it is
ended and its tasks are not done; nothing else happens.
"""

from __future__ import annotations

import atexit
import os
import pickle
import selectors
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

from cassette_lab.processes import start_connected
from cassette_lab.session.helper_process import DONE, READY, TOLD, receive_message, send_message

PATIENCE_S: Final = 60.0
"""How long it may say nothing while it has a task."""


class Helper:
    """The process and the tasks it has, oldest first. Only whoever holds ``lock`` may use it."""

    lock = threading.Lock()
    _current: Helper | None = None

    def __init__(self) -> None:
        """Start the process; ``OSError`` where that is not possible."""
        self.tasks: deque[int] = deque()
        self._asked: set[Callable[..., Any]] = set()
        self._ready: set[Callable[..., Any]] = set()
        self._connection, process = start_connected("cassette_lab.session.helper_process")
        self._connection.settimeout(PATIENCE_S)
        self._heard_at = time.monotonic()
        self.process: subprocess.Popen[bytes] | None = process

    @classmethod
    def is_there(cls) -> bool:
        """Whether there is a process already."""
        current = cls._current
        return current is not None and current.process is not None

    @classmethod
    def current(cls) -> Helper | None:
        """The process, started if there is none; None where there cannot be one."""
        if cls._current is not None and cls._current.tasks:  # left by an interrupt
            cls._current.end()
        if not cls.is_there():
            try:
                cls._current = cls()
            except OSError:
                cls._current = None
        return cls._current

    @classmethod
    def end_current(cls) -> None:
        """End the process, if there is one."""
        if cls._current is not None:
            cls._current.end()
            cls._current = None

    @classmethod
    def forget(cls) -> None:
        """In a forked process: the helper belongs to the one that started it."""
        cls.lock = threading.Lock()
        if cls._current is not None:
            cls._current._connection.close()  # noqa: SLF001 - its own class
            if cls._current.process is not None:
                cls._current.process.returncode = 0  # as far as this copy knows; it must not be waited for
            cls._current = None

    def is_ready_for(self, function: Callable[..., Any]) -> bool:
        """Whether it has imported what it needs for tasks of this function. It begins with that when it is first asked.

        So nobody ever waits for a process that is just starting.
        """
        if function not in self._asked:
            self._asked.add(function)
            self._send(function, None)
        return function in self._ready and self.process is not None

    def give(self, number: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        """Hand over a task: ``function(*arguments, tell)``. What comes of it is known by ``number``."""
        self.tasks.append(number)
        self._send(function, arguments)

    def take(self, tell: Callable[..., object], wait_s: float) -> Iterator[tuple[int, Any]]:
        """The tasks that are done, waiting so long for one message; what a task tells goes to ``tell``."""
        while (self.tasks or self._asked != self._ready) and self._has_said_something(wait_s):
            try:
                message = receive_message(self._connection)
            except OSError:
                message = None
            if message is None:
                self.end()
                return
            kind, what = pickle.loads(message)  # noqa: S301 - from a process of ours
            if kind == TOLD:
                tell(*what)
            elif kind == READY:
                self._ready.add(what)
            else:
                number = self.tasks.popleft()
                if kind == DONE:
                    yield number, what
            wait_s = 0

    def end(self) -> None:
        """End the process and forget its tasks."""
        self._connection.close()
        self.tasks.clear()
        self._asked.clear()
        self._ready.clear()
        process, self.process = self.process, None
        if process is not None:
            process.kill()  # it reads only: there is nothing that it must finish
            process.wait()

    def _send(self, function: Callable[..., Any], arguments: tuple[Any, ...] | None) -> None:
        if len(self.tasks) < 2:  # it was idle, and may have been for long
            self._heard_at = time.monotonic()
        try:
            send_message(self._connection, pickle.dumps((function, arguments)))
        except OSError:
            self.end()

    def _has_said_something(self, wait_s: float) -> bool:
        """Whether there is a message. One that has been silent for too long is ended."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            has_said = bool(selector.select(wait_s))
        now = time.monotonic()
        if has_said:
            self._heard_at = now
        elif now - self._heard_at > PATIENCE_S:
            self.end()
        return has_said


atexit.register(Helper.end_current)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Helper.forget)
