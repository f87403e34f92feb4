"""When a failed model call is made again, and after how long."""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cassette_lab.errors import ConfigError
from cassette_lab.host.models.failures import RETRYABLE_CODES, ModelFailure


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently. ``max_retries`` 0 tries once only.

    The waits double from ``first_delay_s`` up to ``longest_delay_s``; where the provider says how long it wants to be left
    alone, that counts instead, and a wait beyond ``longest_asked_s`` is not taken. ``jitter`` lengthens a wait by up to that
    share of it, at random; 0 keeps runs alike. ``sleep`` is what waits.
    """

    max_retries: int = 5
    first_delay_s: float = 0.5
    longest_delay_s: float = 10.0
    longest_asked_s: float = 60.0
    jitter: float = 0.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        if type(self.max_retries) is not int or self.max_retries < 0:
            raise ConfigError(f"max_retries is a whole number, 0 or more, not {self.max_retries!r}", field="max_retries")
        for name in ("first_delay_s", "longest_delay_s", "longest_asked_s", "jitter"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 <= value < math.inf:
                raise ConfigError(f"{name} is a number, 0 or more, not {value!r}", field=name)

    @property
    def key(self) -> str:
        """The policy as a session log names it."""
        codes = sorted(RETRYABLE_CODES)
        first_ms, longest_ms = round(self.first_delay_s * 1000), round(self.longest_delay_s * 1000)
        return json.dumps(["normal", self.max_retries, codes, first_ms, longest_ms, self.jitter], separators=(",", ":"))

    def delay_s(self, failure: ModelFailure, retry: int) -> float | None:
        """How long to wait before retry number ``retry`` (from 1); None where there is none."""
        if not failure.retryable or retry > self.max_retries:
            return None
        if failure.retry_after_s is not None:
            return failure.retry_after_s if failure.retry_after_s <= self.longest_asked_s else None
        delay_s: float = min(self.first_delay_s * 2 ** min(retry - 1, 62), self.longest_delay_s)
        return delay_s * (1 + self.jitter * random.random()) if self.jitter else delay_s  # noqa: S311 - no secret
