"""A scan shared with a second process, which is started once and kept for the next file.

The first process takes ranges from the front, the second from the back, until they meet; so a process that starts late
or is slowed down by others just does less. Ranges that the second process cannot finish, the first one does itself.
"""

from __future__ import annotations

import atexit
import io
import os
import selectors
import subprocess
import tempfile
import threading
from collections import deque
from typing import IO, Any, Final, TypeAlias

import pyarrow as pa

from cassette_lab.cassette.model import RequestStorage
from cassette_lab.cassette.scan.blocks import DoubtError
from cassette_lab.cassette.scan.part import Part, scan_part
from cassette_lab.cassette.scan.worker import receive_message, send_message
from cassette_lab.cassette.second_process import second_process

Range: TypeAlias = tuple[int, int]

_AHEAD: Final = 2
"""Tasks that the second process has at most: with the second one it need not wait until the first process looks."""

_PATIENCE_SECONDS: Final = 60
"""How long the first process waits for one range before it gives the second one up."""


def scan_alone(file: io.FileIO, ranges: list[Range], storage: RequestStorage, *, bodies: bool) -> list[Part]:
    """The parts of all ranges, in order. Raises ``DoubtError`` as ``scan_part`` does."""
    return [scan_part(file, start, stop, storage, bodies=bodies) for start, stop in ranges]


def scan_shared(file: io.FileIO, ranges: list[Range], storage: RequestStorage, *, bodies: bool) -> list[Part]:
    """The same, shared with the second process where there can be one that is not busy for another thread."""
    if not _Worker.lock.acquire(blocking=False):
        return scan_alone(file, ranges, storage, bodies=bodies)
    try:
        worker = _Worker.current()
        if worker is None:
            return scan_alone(file, ranges, storage, bodies=bodies)
        try:
            return _share(worker, file, ranges, storage, bodies=bodies)
        except DoubtError:
            worker.finish_tasks()
            raise
        except BaseException:
            worker.end()
            raise
    finally:
        _Worker.lock.release()


def _share(worker: _Worker, file: io.FileIO, ranges: list[Range], storage: RequestStorage, *, bodies: bool) -> list[Part]:
    facts = os.fstat(file.fileno())
    same_file = [facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns]
    parts: dict[int, Part] = {}
    front, back = 0, len(ranges)
    while front < back:
        while back - front > 1 and worker.free:
            back -= 1
            start, stop = ranges[back]
            task = {"path": os.path.abspath(file.name), "facts": same_file, "start": start, "stop": stop}  # noqa: PTH100
            worker.give(back, task | {"storage": storage, "bodies": bodies})
        parts[front] = scan_part(file, *ranges[front], storage, bodies=bodies)
        front += 1
        parts |= worker.take(wait=False)
    parts |= worker.take(wait=True)
    for number, (start, stop) in enumerate(ranges):
        if number not in parts:
            parts[number] = scan_part(file, start, stop, storage, bodies=bodies)
    return [parts[number] for number in range(len(ranges))]


class _Worker:
    """The second process and the tasks it has. When it fails, it is ended, and its tasks are not done."""

    lock = threading.Lock()
    _current: _Worker | None = None

    def __init__(self) -> None:
        """Start the process; ``OSError`` where that is not possible."""
        self._tasks: deque[tuple[int, IO[bytes]]] = deque()
        self.process: subprocess.Popen[bytes] | None
        self.connection, self.process = second_process()
        self.connection.settimeout(_PATIENCE_SECONDS)

    @classmethod
    def current(cls) -> _Worker | None:
        """The process, started if there is none; None where there cannot be one."""
        if cls._current is not None and cls._current._tasks:  # noqa: SLF001 - left by an interrupt
            cls._current.end()
        if cls._current is None or cls._current.process is None:
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
        """In a forked process: the second process belongs to the one that started it."""
        cls.lock = threading.Lock()
        if cls._current is not None:
            cls._current.connection.close()
            if cls._current.process is not None:
                cls._current.process.returncode = 0  # as far as this copy knows; it must not be waited for
            cls._current = None

    @property
    def free(self) -> bool:
        """Whether it can be given one more task."""
        return self.process is not None and len(self._tasks) < _AHEAD

    def give(self, number: int, task: dict[str, Any]) -> None:
        """Hand over a task; what it makes is known by ``number``."""
        output = _shared_memory()
        self._tasks.append((number, output))
        try:
            send_message(self.connection, task, (output.fileno(),))
        except OSError:
            self.end()

    def take(self, *, wait: bool) -> dict[int, Part]:
        """The tasks that are done (with ``wait``: all, unless it fails). ``DoubtError`` where it met a doubt."""
        parts = {}
        while self._tasks and (wait or self._has_answered()):
            try:
                received = receive_message(self.connection)
            except OSError:
                received = None
            if received is None:
                self.end()
                break
            number, output = self._tasks.popleft()
            with output:
                reply, _ = received
                if reply.get("doubt"):
                    raise DoubtError
                if not reply.get("failed"):
                    parts[number] = _part(reply, output)
        return parts

    def finish_tasks(self) -> None:
        """Wait for what it still has to do, and forget it."""
        while self._tasks:
            try:
                self.take(wait=True)
            except DoubtError:
                continue

    def end(self) -> None:
        """Close the connection, which ends the process, and wait for that."""
        self.connection.close()
        for _, output in self._tasks:
            output.close()
        self._tasks.clear()
        process, self.process = self.process, None
        if process is not None:
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _has_answered(self) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self.connection, selectors.EVENT_READ)
            return bool(selector.select(0))


def _shared_memory() -> IO[bytes]:
    """An empty file without a name: nothing of it stays, however the processes end."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("cassette-lab"), "rb")
    return tempfile.TemporaryFile()


def _part(reply: dict[str, Any], output: IO[bytes]) -> Part:
    """A part as the second process has made it."""
    part = Part([], reply["previous_hash"], reply["last_hash"], reply["line_count"], reply["row_count"])
    for name, row, value in reply["raw_texts"]:
        part.raw_texts.setdefault(name, {})[row] = value
    if part.row_count:
        # Copied: a mapping would keep a file open for each range, for as long as somebody holds the table.
        output.seek(0)
        part.batches = list(pa.ipc.open_stream(pa.py_buffer(output.read())))
    return part


atexit.register(_Worker.end_current)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Worker.forget)
