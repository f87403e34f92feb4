"""One call while it is recorded: it watches the upstream's run, and writes down once how that ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Protocol

from cassette_lab.cassette.failures import abort_facts, error_facts
from cassette_lab.cassette.members import error_members, result_members, timing_members
from cassette_lab.cassette.model import ErrorFacts, OutcomeKind, iso_now
from cassette_lab.cassette.progress import Progress
from cassette_lab.cassette.redaction import Redactor
from cassette_lab.cassette.runs import INTERRUPTIONS, Run, aborted_result, new_run_id
from cassette_lab.cassette.topology import Reservation
from cassette_lab.contracts import AbortSignal, SubagentResult, SubagentRun
from cassette_lab.errors import FormatError
from cassette_lab.jsonio import CanonicalError, JsonObject, detach


class Recorder(Protocol):
    """What a recorded run needs of the provider that records it."""

    progress: Progress
    redactor: Redactor

    def write(self, call: RecordedRun, timing: JsonObject, outcome: JsonObject) -> None:
        """Append the line of a call that has ended; ``CassetteLabError`` where it does not get into the file."""

    def ended(self, call: RecordedRun) -> None:
        """Forget a call that has its outcome."""


class RecordedRun(Run):
    """A call that is being recorded: the run that its caller holds, once it is published."""

    __slots__ = (
        "_aborted_at_ms",
        "_admitted_ns",
        "_disposal",
        "_dispose_called_at_ms",
        "_disposer",
        "_latency_ms",
        "_number",
        "_provider",
        "_started_at",
        "_unwatch",
        "_upstream_run",
        "_watched",
        "_watcher",
        "reservation",
        "sequence",
        "stored",
    )

    def __init__(
        self,
        provider: Recorder,
        sequence: int,
        reservation: Reservation,
        stored: JsonObject,
        number: int,
        signal: AbortSignal | None,
    ) -> None:
        super().__init__(new_run_id("record"))
        self._disposed = True  # until it is published, nobody has to dispose it
        self.sequence = sequence
        self.reservation = reservation
        self.stored = stored
        self._provider = provider
        self._number = number
        self._latency_ms: float | None = None
        self._aborted_at_ms: float | None = None
        self._dispose_called_at_ms: float | None = None
        self._upstream_run: SubagentRun | None = None
        self._watched = False
        self._watcher: asyncio.Task[None] | None = None
        self._disposal: asyncio.Future[None] | None = None
        self._disposer: asyncio.Task[None] | None = None
        self._started_at = iso_now()
        self._admitted_ns = time.perf_counter_ns()
        self._unwatch = None if signal is None else signal.on_abort(self._signal_aborted)

    async def result(self) -> SubagentResult:
        """The upstream's result, once it is recorded; raises what the run failed with."""
        __tracebackhide__ = True
        if self._result is None and self._error is None:
            if self._watched:
                await self._wait()
            else:
                await self._watch_for_caller()
        if self._error is not None:
            raise self._error
        assert self._result is not None, "settled"  # noqa: S101 - for the type checker
        return self._result

    async def dispose(self) -> None:
        """Stop the upstream's run; returns once that and the record are done. Shared by all who call it."""
        self._disposed = True
        if self._disposal is not None:
            await asyncio.shield(self._disposal)
            return
        if not self.settled:
            self._dispose_called_at_ms = self._elapsed_ms()
        self._disposal = asyncio.get_running_loop().create_future()
        await self._dispose(self._disposal)

    def publish(self, run: SubagentRun) -> None:
        """The upstream has started; from here on the caller owns this run, and somebody must ``watch`` it."""
        self._latency_ms = self._elapsed_ms()
        self._upstream_run = run
        self._local_agent = run.local_agent
        self._disposed = False

    def watch(self) -> None:
        """See to it that the outcome is recorded, if nobody does yet. A caller who asks for the result at once does."""
        if not self._watched:
            self._watched = True
            self._watcher = asyncio.create_task(self._watch())

    def start_failed(self, error: BaseException) -> None:
        """Record that no run was published. Raises what keeps that out of the file."""
        failure = self._end_start(error)
        if failure is not None:
            raise failure from error

    async def stop(self) -> None:
        """Dispose the run, where there is one yet."""
        if self._upstream_run is not None:
            await self.dispose()

    def give_up(self) -> None:
        """Record as aborted what has not ended, and look at it no more."""
        if self._upstream_run is None:
            self._end_start(asyncio.CancelledError())
        else:
            self._end_with_result(aborted_result())
        self._watched = True
        if self._watcher is not None:
            self._watcher.cancel()

    async def _watch_for_caller(self) -> None:
        """Wait for the upstream in the caller's task. A caller that is cancelled leaves the rest to a task."""
        __tracebackhide__ = True
        assert self._upstream_run is not None, "published"  # noqa: S101 - for the type checker
        self._watched = True
        try:
            result = await self._upstream_run.result()
        except BaseException as error:
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                self._watcher = asyncio.create_task(self._watch())
                raise
            self._end_with(error)
        else:
            self._end_with_result(result)

    async def _watch(self) -> None:
        assert self._upstream_run is not None, "published"  # noqa: S101 - for the type checker
        try:
            result = await self._upstream_run.result()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is how the call ended
            self._end_with(error)
        else:
            self._end_with_result(result)

    async def _dispose(self, done: asyncio.Future[None]) -> None:
        """Dispose the upstream's run and wait for the record; ``done`` says so to those who share this."""
        assert self._upstream_run is not None, "published"  # noqa: S101 - for the type checker
        try:
            await self._upstream_run.dispose()
            if not self.settled:
                await self._wait()
        except asyncio.CancelledError:
            if self._disposer is None:  # the caller gives up; the others, and the record, do not
                self._disposer = asyncio.create_task(self._dispose(done))
            else:
                done.cancel()
            raise
        except BaseException as error:
            done.set_exception(error)
            done.exception()  # it is raised here; nobody else needs to look at it
            raise
        done.set_result(None)

    def _end_with(self, error: BaseException) -> None:
        """The upstream's result raised ``error``. Interrupts go on their way once the call is recorded as aborted."""
        if isinstance(error, asyncio.CancelledError):
            self._end_with_result(aborted_result())
        elif isinstance(error, INTERRUPTIONS):
            self._end_with_result(aborted_result())
            raise error
        else:
            self._end_with_error("result-error", error_facts(error), error)

    def _end_start(self, error: BaseException) -> Exception | None:
        if isinstance(error, INTERRUPTIONS):
            facts = abort_facts("the call was cancelled while its run was starting")
        else:
            facts = error_facts(error)
        return self._end_with_error("start-error", facts, error)

    def _end_with_result(self, result: Any) -> None:
        if self.settled:
            return
        try:
            snapshot = detach(_members(result))
            stored, redactions = self._provider.redactor.result(snapshot)
            self._provider.write(self, self._timing(), result_members(stored, redactions))
            self._provider.progress.redacted_results += redactions > 0
        except CanonicalError as error:
            self._refuse_result(str(error), None)
        except FormatError as error:
            self._refuse_result(error.message, error.field)
        except Exception as error:  # noqa: BLE001 - nothing may leave the call without an outcome
            self._end_with_error("result-error", error_facts(error), error)
        else:
            self._end(SubagentResult.from_json(snapshot), None)

    def _refuse_result(self, reason: str, field: str | None) -> None:
        refusal = FormatError(f"the result of a call cannot be stored, so it is recorded as an error: {reason}", field=field)
        self._end_with_error("result-error", error_facts(refusal), refusal)

    def _end_with_error(self, kind: OutcomeKind, facts: ErrorFacts, error: BaseException) -> Exception | None:
        """Record the error. What keeps it out of the file is returned, and is then what the run fails with."""
        if self.settled:
            return None
        try:
            self._provider.write(self, self._timing(), error_members(kind, self._provider.redactor.error(facts).to_json()))
        except Exception as failure:  # noqa: BLE001 - as above
            failure.__cause__ = failure.__cause__ or error
            self._end(None, failure)
            return failure
        self._end(None, error)
        return None

    def _end(self, result: SubagentResult | None, error: BaseException | None) -> None:
        if self._unwatch is not None:
            self._unwatch()
        self._provider.progress.finish(self._number, None if result is None else result.stop_reason)
        self._settle(result, error)
        self._provider.ended(self)

    def _timing(self) -> JsonObject:
        duration_ms = self._elapsed_ms()
        latency_ms = duration_ms if self._latency_ms is None else self._latency_ms
        return timing_members(self._started_at, latency_ms, duration_ms, self._aborted_at_ms, self._dispose_called_at_ms)

    def _signal_aborted(self) -> None:
        self._aborted_at_ms = self._elapsed_ms()

    def _elapsed_ms(self) -> float:
        """Milliseconds since the admission, rounded to 3 decimals; an integer where there are none."""
        microseconds = (time.perf_counter_ns() - self._admitted_ns + 500) // 1000
        return microseconds / 1000 if microseconds % 1000 else microseconds // 1000


def _members(result: Any) -> JsonObject:
    """The JSON members of whatever the upstream returned."""
    if isinstance(result, SubagentResult):
        return result.to_json()
    if isinstance(result, Mapping):
        return dict(result)
    raise CanonicalError(f"it is {type(result).__name__}, not a SubagentResult")
