"""A worker as the server sees it: started for one request, read frame by frame, killed when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from contextlib import asynccontextmanager, suppress
from typing import BinaryIO, cast

from cassette_lab.processes import start_module
from cassette_lab.server.jupyter.frames import Event, frame, read_frame
from cassette_lab.server.jupyter.tasks import Task
from cassette_lab.server.jupyter.worker import SPARE, TOO_MUCH_MEMORY


class Worker:
    """The process, and its frames in order."""

    def __init__(self, *arguments: str) -> None:
        """Start it; ``OSError`` where that is not possible."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = start_module("cassette_lab.server.jupyter.worker", *arguments, **pipes)
        self._input, self._output = cast("BinaryIO", self._process.stdin), cast("BinaryIO", self._process.stdout)

    def give(self, task: Task) -> None:
        """Tell it what to do, once."""
        with suppress(OSError):  # it has ended, which the reader of its frames will see
            self._input.write(json.dumps(task.to_json()).encode() + b"\n")
            self._input.flush()

    @property
    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def next(self) -> tuple[Event, bytes] | None:
        """The next event, and its whole frame to hand on; waits for it. None where the process has ended."""
        found = read_frame(self._output)
        if found is None:
            self._process.wait()
            return None
        return found[0], frame(*found)

    @property
    def took_too_much_memory(self) -> bool:
        """Whether that is why it has ended."""
        return self._process.returncode == TOO_MUCH_MEMORY

    def kill(self) -> None:
        """End it, wherever it is; it only reads, so there is nothing that it must finish."""
        self._process.kill()

    def close(self) -> None:
        """Wait for its end. Only when nobody reads its frames any more."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._input, self._output):
            with suppress(OSError):  # for what it did not take
                pipe.close()


class Workers:
    """Starts workers, and keeps a spare one for a while after somebody has opened something: the next one begins at once."""

    def __init__(self, threads: Executor, *, spare_seconds: float) -> None:
        self._threads = threads
        self._spare_seconds = spare_seconds
        self._spare: Worker | None = None
        self._is_starting = False
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def working(self, task: Task) -> AsyncIterator[Worker]:
        """A worker for a task. Nothing is left of it when the block is left."""
        loop = asyncio.get_running_loop()
        worker, self._spare = self._spare, None
        if worker is not None and worker.has_ended:
            await loop.run_in_executor(self._threads, worker.close)
            worker = None
        if worker is None:
            worker = await loop.run_in_executor(self._threads, Worker)
        try:
            await loop.run_in_executor(self._threads, worker.give, task)
            yield worker
        finally:
            worker.kill()  # so a thread that waits for a frame of it is done at once
            await asyncio.shield(loop.run_in_executor(self._threads, worker.close))

    async def keep_spare(self) -> None:
        """Start a spare worker if there is none; it is ended when nobody has asked for that for a while."""
        if self._spare_seconds <= 0:
            return
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(self._spare_seconds, self._end_spare)
        if self._spare is None and not self._is_starting:
            self._is_starting = True
            try:
                with suppress(OSError):
                    self._spare = await loop.run_in_executor(self._threads, Worker, SPARE)
            finally:
                self._is_starting = False

    def _end_spare(self) -> None:
        spare, self._spare = self._spare, None
        if spare is not None:
            self._threads.submit(spare.close)
