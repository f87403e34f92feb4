"""Plays a cassette: a subagent provider that answers every call with the recorded one of the same identity.

Nothing is run: no upstream provider, no local child. A call that matches no recorded one fails at once.
Source: cassette format, Matching and diagnosis, Replay.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from cassette_lab.cassette.delays import Delay, ReplayTiming, Timer, check_speed, loop_timer, replay_delays
from cassette_lab.cassette.failures import recorded_error
from cassette_lab.cassette.identity import RequestIdentity
from cassette_lab.cassette.matching import DuplicatePolicy, Matcher, NestedPolicy
from cassette_lab.cassette.model import Cassette, Interaction
from cassette_lab.cassette.progress import Progress
from cassette_lab.cassette.runs import Run, Turns, aborted_result, new_run_id
from cassette_lab.contracts import ROOT_PARENT, AbortSignal, Capabilities, SubagentRequest, SubagentResult
from cassette_lab.errors import AbortError, CassetteLabError, ClosedError
from cassette_lab.jsonio import detach


class ReplayProvider:
    """The provider that plays ``cassette``.

    ``timing`` ``recorded`` waits as long as the recording took, divided by ``speed``; ``instant`` does not wait. The
    other options are the ``Matcher``'s. ``timer`` is what waiting is made of. Raises ``ConfigError`` for an option that
    cannot be used, and what the ``Matcher`` raises.
    """

    def __init__(
        self,
        cassette: Cassette,
        *,
        name: str = "cassette",
        timing: ReplayTiming = "instant",
        speed: float = 1,
        duplicate_policy: DuplicatePolicy = "reject",
        allow_redacted: bool = False,
        nested: NestedPolicy = "strict",
        timer: Timer = loop_timer,
    ) -> None:
        check_speed(timing, speed)
        self.name = name
        self.capabilities: Capabilities = cassette.header.provider.capabilities
        self.inherits_parent_context: bool = cassette.header.provider.inherits_parent_context
        self.matcher = Matcher(cassette, duplicate_policy=duplicate_policy, allow_redacted=allow_redacted, nested=nested)
        self.progress = Progress()
        self._timing: ReplayTiming = timing
        self._speed = speed
        self._timer = timer
        self._closed = False
        self._turns = Turns()

    async def start(self, request: SubagentRequest) -> Run:
        """The recorded run that answers ``request``.

        Raises ``MismatchError`` where there is none, the recorded error of a failed start, ``AbortError`` where the
        signal aborts before the run is published, ``ConfigError`` for a delay that never ends. But for the recorded
        error, a failed start leaves the recorded call to be asked for again.
        """
        if self._closed:
            raise ClosedError("the cassette is closed; open it again to replay", path=self.matcher.cassette.path)
        identity = RequestIdentity(request.to_json())
        try:
            interaction = self.matcher.match(identity, request.parent or ROOT_PARENT)
        except CassetteLabError:
            self.progress.refused += 1
            raise
        label = identity.label if isinstance(identity.label, str) else None
        number = self.progress.start(label)
        published = False
        try:
            start_ms, result_ms = replay_delays(interaction.timing, self._timing, self._speed)
            signal = request.signal
            if signal is not None and signal.aborted:
                raise _start_aborted()
            if start_ms > 0:
                await self._wait(start_ms, signal)
            elif self._turns.due:
                await self._turns.give()
            published = True
        finally:
            if not published:
                self.matcher.release(interaction)
                self.progress.withdraw(number)
        self.progress.recorded_ms += interaction.timing.duration_ms
        self.progress.waited_ms += start_ms
        if interaction.outcome.kind == "start-error":
            self.progress.finish(number, None)
            assert interaction.outcome.error is not None, "checked by the schema"  # noqa: S101 - for the type checker
            raise recorded_error(interaction.outcome.error)
        return ReplayRun(interaction, result_ms, signal, self._timer, self.progress, number)

    def close(self) -> None:
        """Refuse further starts. Runs that are out go on to their recorded end."""
        self._closed = True

    async def _wait(self, delay_ms: float, signal: AbortSignal | None) -> None:
        """Wait out the start latency; ``AbortError`` at an abort."""
        over: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def end(aborted: bool) -> Callable[[], None]:  # noqa: FBT001 - names the future's value
            return lambda: None if over.done() else over.set_result(aborted)

        remove = None if signal is None else signal.on_abort(end(aborted=True))
        delay = Delay(delay_ms, end(aborted=False), self._timer)
        try:
            if await over:
                raise _start_aborted()
        finally:
            delay.cancel()
            if remove is not None:
                remove()


class ReplayRun(Run):
    """A recorded run. An abort or a disposal while it waits makes its result an aborted one; it has no local agent."""

    __slots__ = ("_delay", "_interaction", "_number", "_progress", "_remove_listener", "_started")

    def __init__(
        self,
        interaction: Interaction,
        delay_ms: float,
        signal: AbortSignal | None,
        timer: Timer,
        progress: Progress,
        number: int,
    ) -> None:
        super().__init__(new_run_id("replay"))
        self._interaction = interaction
        self._progress = progress
        self._number = number
        self._delay: Delay | None = None
        self._remove_listener: Callable[[], None] | None = None
        if delay_ms > 0:
            self._started = time.perf_counter()
            self._delay = Delay(delay_ms, self._play, timer)
            if signal is not None and not self.settled:
                self._remove_listener = signal.on_abort(self._stop)
        else:
            self._started = 0.0
            self._play()

    async def dispose(self) -> None:
        """Stop waiting. Idempotent; a result that is there stays."""
        self._disposed = True
        if self._result is None and self._error is None:
            self._stop()

    def _play(self) -> None:
        """Settle with the recorded outcome."""
        outcome = self._interaction.outcome
        if outcome.kind == "result":
            assert outcome.result is not None, "checked by the schema"  # noqa: S101 - for the type checker
            result = SubagentResult.from_json(detach(outcome.result))
            self._end(result, None)
        else:
            assert outcome.error is not None, "checked by the schema"  # noqa: S101 - for the type checker
            self._end(None, recorded_error(outcome.error))

    def _stop(self) -> None:
        if self._delay is not None:
            self._delay.cancel()
        self._end(aborted_result(), None)

    def _end(self, result: SubagentResult | None, error: BaseException | None) -> None:
        if self._remove_listener is not None:
            self._remove_listener()
            self._remove_listener = None
        if self._started:
            self._progress.waited_ms += (time.perf_counter() - self._started) * 1000
        self._progress.finish(self._number, None if result is None else result.stop_reason)
        self._settle(result, error)


def _start_aborted() -> AbortError:
    return AbortError("the call was aborted before its run was published")
