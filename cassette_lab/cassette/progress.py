"""Live counters of the calls that pass through one cassette."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from cassette_lab.cassette.model import stop_reason_category
from cassette_lab.cassette.runs import ABORTED

COMPLETED = "completed"


@dataclass(slots=True)
class Progress:
    """Calls so far. ``running`` holds the labels of those without an outcome, by admission number.

    ``completed`` and ``aborted`` count results by their stop reason, ``failed`` every other outcome, as the summary of
    a cassette does. Of the failed, ``raised`` raised an error and ``stopped`` did not: results by the category of their
    stop reason (``max-tokens``, ``refusal``, …). ``refused`` are calls that a replay had no answer for: they are not among
    the started. ``redacted_results`` of a recording are those that a replay must be allowed. ``recorded_ms`` is the
    recorded duration of the calls that replay has answered, ``waited_ms`` what it has waited instead (both 0 while
    recording).
    """

    started: int = 0
    completed: int = 0
    aborted: int = 0
    raised: int = 0
    stopped: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    redacted_results: int = 0
    recorded_ms: float = 0.0
    waited_ms: float = 0.0
    running: dict[int, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1), repr=False)
    _waiters: list[asyncio.Future[None]] = field(default_factory=list, repr=False)

    @property
    def failed(self) -> int:
        """Outcomes that neither completed nor were aborted."""
        return self.raised + sum(self.stopped.values())

    @property
    def saved_ms(self) -> float:
        """Milliseconds of work that replay did not have to wait for."""
        return max(0.0, self.recorded_ms - self.waited_ms)

    async def idle(self) -> None:
        """Return once no call is running."""
        while self.running:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def start(self, label: str | None) -> int:
        """Count an admitted call; returns its admission number."""
        self.started += 1
        number = next(self._numbers)
        self.running[number] = label or "agent"
        return number

    def finish(self, number: int, stop_reason: str | None) -> None:
        """Count the outcome of an admitted call: a result's stop reason, None for an error."""
        if stop_reason == COMPLETED:
            self.completed += 1
        elif stop_reason == ABORTED:
            self.aborted += 1
        elif stop_reason is None:
            self.raised += 1
        else:
            category = stop_reason_category(stop_reason)
            self.stopped[category] = self.stopped.get(category, 0) + 1
        self._leave(number)

    def withdraw(self, number: int) -> None:
        """Take back an admitted call that is to be asked for again."""
        self.started -= 1
        self._leave(number)

    def _leave(self, number: int) -> None:
        del self.running[number]
        if not self.running and self._waiters:
            waiters, self._waiters = self._waiters, []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
