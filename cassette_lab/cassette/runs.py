"""What every run of this package shares: an id, a result that many may await, a disposal that must not be forgotten."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
import uuid
import warnings
from types import TracebackType
from typing import Final, Self

from cassette_lab.contracts import ParentAgent, SubagentResult

ABORTED = "aborted"
"""The stop reason of a run that was stopped before it had a result."""
INTERRUPTIONS: Final = (asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit)
"""What ends work from outside; it is not the work's own failure."""


def aborted_result() -> SubagentResult:
    """What a run that was stopped after its publication resolves to."""
    return SubagentResult(output=[], stop_reason=ABORTED)


def new_run_id(kind: str) -> str:
    """An id that no other run has, in this process or in another: ``<kind>-<12 hex digits>-<number>``."""
    return f"{kind}-{_process.token}-{next(_process.numbers)}"


class Run:
    """A published run. Subclasses call ``_settle`` once and say in ``dispose`` how they stop.

    Everyone who awaits ``result()`` waits alone: cancelling one neither stops the run nor disturbs the others. A run
    that is dropped without ``dispose()`` gives a ``ResourceWarning``. Belongs to the event loop it was started on.
    """

    __slots__ = ("__weakref__", "_disposed", "_error", "_id", "_local_agent", "_result", "_waiters")

    def __init__(self, run_id: str, local_agent: ParentAgent | None = None) -> None:
        self._id = run_id
        self._local_agent = local_agent
        self._disposed = False
        self._result: SubagentResult | None = None
        self._error: BaseException | None = None
        self._waiters: list[asyncio.Future[None]] = []

    @property
    def id(self) -> str:
        """Unique, also among processes."""
        return self._id

    @property
    def local_agent(self) -> ParentAgent | None:
        """The child as a parent of further calls, when it runs in this process."""
        return self._local_agent

    @property
    def settled(self) -> bool:
        """Whether the result, or the error in its place, is there."""
        return self._result is not None or self._error is not None

    async def result(self) -> SubagentResult:
        """The terminal result; raises what the run failed with."""
        __tracebackhide__ = True
        if self._result is None and self._error is None:
            await self._wait()
        if self._error is not None:
            raise self._error
        assert self._result is not None, "settled"  # noqa: S101 - for the type checker
        return self._result

    async def dispose(self) -> None:
        """Stop the run if it is still going and free what it holds. Idempotent."""
        self._disposed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.dispose()

    def __del__(self) -> None:
        if not self._disposed:
            warnings.warn(
                f"the run {self._id} was never disposed; use `async with run:` or `await run.dispose()`",
                ResourceWarning,
                stacklevel=1,
                source=self,
            )

    async def _wait(self) -> None:
        """Return once settled."""
        __tracebackhide__ = True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def _settle(self, result: SubagentResult | None, error: BaseException | None = None) -> None:
        self._result = result
        self._error = error
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


class Turns:
    """Leaves other tasks a turn every few milliseconds. A long row of calls that end at once would starve them."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = time.perf_counter()

    @property
    def due(self) -> bool:
        """Whether others have not had a turn for a while."""
        return time.perf_counter() - self._last > _TURN_S

    async def give(self) -> None:
        """Let others run."""
        await asyncio.sleep(0)
        self._last = time.perf_counter()


_TURN_S = 0.005


class _Process:
    """The part of run ids that tells processes apart. A forked child draws a new one."""

    __slots__ = ("numbers", "token")

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        self.token = uuid.uuid4().hex[:12]
        self.numbers = itertools.count(1)


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.renew)
