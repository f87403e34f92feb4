"""How long a replay waits, and the waiting: in pieces that every timer can count, each of which can be given up.

Source: cassette format, Matching and diagnosis, Replay.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from cassette_lab.cassette.model import Timing
from cassette_lab.errors import ConfigError

ReplayTiming: TypeAlias = Literal["instant", "recorded"]

REPLAY_TIMINGS: Final[tuple[ReplayTiming, ...]] = ("instant", "recorded")
MIN_SPEED: Final = 0.001
MAX_TIMER_MS: Final = 2_147_483_647
"""The longest single timer of the original's host; a longer wait is several of them."""


Timer: TypeAlias = Callable[[float, Callable[[], None]], Callable[[], None]]
"""Calls a function once, so many milliseconds from now, and returns the function that takes it back."""


def loop_timer(delay_ms: float, callback: Callable[[], None]) -> Callable[[], None]:
    """The running event loop's timer."""
    return asyncio.get_running_loop().call_later(delay_ms / 1000, callback).cancel


def check_speed(timing: Any, speed: Any) -> None:
    """``ConfigError`` unless timing is one of ``REPLAY_TIMINGS`` and speed a finite number of at least 0.001."""
    if timing not in REPLAY_TIMINGS:
        raise ConfigError(f"timing must be instant or recorded, not {timing!r}", field="timing")
    if type(speed) not in (int, float) or not math.isfinite(speed) or speed < MIN_SPEED:
        raise ConfigError(f"speed must be a finite number of at least {MIN_SPEED}, not {speed!r}", field="speed")


def replay_delays(recorded: Timing, timing: ReplayTiming, speed: float) -> tuple[float, float]:
    """Milliseconds to wait before a call is published, and from there to its outcome.

    Raises ``ConfigError`` where a delay is not finite: such a wait would never end.
    """
    if timing == "instant":
        return (0.0, 0.0)
    scale = 1 / speed
    start = recorded.start_latency_ms * scale
    result = max(0.0, recorded.duration_ms - recorded.start_latency_ms) * scale
    for name, delay in (("start", start), ("result", result)):
        if not 0 <= delay < math.inf:
            raise ConfigError(
                f"the {name} delay of a recorded call is not finite at speed {speed!r}; replay with timing instant, or faster",
                field="speed",
            )
    return (start, result)


class Delay:
    """One wait. Calls ``done`` when it is over; ``cancel`` ends it without that."""

    __slots__ = ("_cancel", "_done", "_remaining_ms", "_timer")

    def __init__(self, delay_ms: float, done: Callable[[], None], timer: Timer) -> None:
        self._remaining_ms = delay_ms
        self._done = done
        self._timer = timer
        self._cancel: Callable[[], None] | None = None
        self._next()

    def cancel(self) -> None:
        """End the wait without calling anything; nothing once it is over."""
        if self._cancel is not None:
            self._cancel()
            self._cancel = None

    def _next(self) -> None:
        if self._remaining_ms > 0:
            piece = min(self._remaining_ms, MAX_TIMER_MS)
            self._remaining_ms -= piece
            self._cancel = self._timer(piece, self._next)
        else:
            self._cancel = None
            self._done()
