"""Runs that are one task, and what was stopped: it is waited for a little, and never for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from contextvars import Context
from typing import Any, Final

from cassette_lab.cassette.runs import Run, aborted_result
from cassette_lab.contracts import AbortController, AbortSignal, ParentAgent, SubagentResult
from cassette_lab.event_bus import DISPOSED

CLEAN_UP_S: Final = 2.0
"""How long what was stopped may take to clean up before nobody waits for it any more."""


class TaskRun(Run):
    """A run that is one task, whose value is the result. A stop cancels it; subclasses may have a gentler way."""

    __slots__ = ("_stopping", "_task", "_unwatch")

    def __init__(
        self,
        run_id: str,
        local_agent: ParentAgent | None,
        work: Coroutine[Any, Any, SubagentResult],
        *,
        name: str,
        signal: AbortSignal | None,
        context: Context | None = None,
    ) -> None:
        super().__init__(run_id, local_agent)
        self._stopping = False
        # Not create_task: a loop's task factory may run it before its place in the topology is known.
        self._task = asyncio.Task(work, loop=asyncio.get_running_loop(), name=name, context=context)
        self._task.add_done_callback(self._ended)
        self._unwatch = None if signal is None else signal.on_abort(lambda: self._stop(signal.reason))

    async def dispose(self) -> None:
        """Stop it if it still works, and return once it has ended; it may clean up before that."""
        self._disposed = True
        if not self.settled:
            self._stop(DISPOSED)
            await self._wait()

    def _stop(self, reason: BaseException | str | None) -> None:
        """Once: a second cancellation would interrupt the cleaning up after the first."""
        del reason
        if not self._stopping:
            self._stopping = True
            self._task.cancel("the call was aborted")

    def _ended(self, task: asyncio.Task[SubagentResult]) -> None:
        if self._unwatch is not None:
            self._unwatch()
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or isinstance(error, (KeyboardInterrupt, SystemExit)):  # those have left through the event loop
            self._settle(aborted_result())
        elif error is not None:
            self._settle(None, error)
        else:
            self._settle(task.result())


def abort(controller: AbortController, reason: BaseException | str | None) -> None:
    """Abort. What a listener of the signal raises is logged: whoever stops something goes on with that."""
    try:
        controller.abort(reason)
    except Exception:  # noqa: BLE001 - whatever it is, the one who aborts has no part in it
        _log.exception("a listener of an abort failed")


async def wait_a_little(tasks: Iterable[asyncio.Task[Any]], *, times: int = 1) -> None:
    """Wait ``times`` ``CLEAN_UP_S`` for the end of tasks that were stopped.

    What does not end by then goes on to it with nobody waiting; what it raises is nobody's concern.
    """
    waiting = {task for task in tasks if not task.done()}
    for task in waiting:
        _cleaning.add(task)
        task.add_done_callback(_cleaned)
    if waiting:
        await asyncio.wait(waiting, timeout=times * CLEAN_UP_S)


_log: Final = logging.getLogger("cassette_lab.host")
_cleaning: Final[set[asyncio.Task[Any]]] = set()


def _cleaned(task: asyncio.Task[Any]) -> None:
    _cleaning.discard(task)
    if not task.cancelled():
        task.exception()  # looked at: nobody else will
