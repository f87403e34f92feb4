"""The active cassette: what ``record`` and ``replay`` open, what every subagent call of this process goes through.

One cassette at a time. A task that began under a cassette keeps to it (a context variable says so); every other call,
of later cells and other threads too, goes to the one that is open (one slot for the process). Calls from other threads
are handed to the thread that opened it. A call through a cassette that is closed never goes live in replay; in record
it does, with a warning, and ``status().late_calls`` counts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from cassette_lab.cassette.config import CassetteConfig, Mode, resolve_file
from cassette_lab.cassette.diagnosis import Diagnosis
from cassette_lab.cassette.install import CassetteHandle, open_cassette
from cassette_lab.cassette.player import ReplayProvider
from cassette_lab.cassette.progress import Progress
from cassette_lab.cassette.recorder import NotAdmittedError, RecordingProvider
from cassette_lab.cassette.runs import ABORTED, INTERRUPTIONS
from cassette_lab.contracts import ROOT_PARENT, AbortController, SubagentRequest, SubagentResult
from cassette_lab.errors import CassetteLabError, ClosedError, ConfigError, RecordedAbortError
from cassette_lab.event_bus import DISPOSED
from cassette_lab.host.current import SLOT, bind, release
from cassette_lab.host.driving import drive
from cassette_lab.host.registry import REGISTRY, SubagentRegistry
from cassette_lab.host.status import CassetteStatus
from cassette_lab.host.tasks import abort
from cassette_lab.host.threads import hand_over
from cassette_lab.jsonio import canonical, parse
from cassette_lab.words import plural, was

SETTLE_TIMEOUT_S: Final = 60.0
ABORT_GRACE_S: Final = 2.0
"""How long stopped calls may take to end before they are recorded as aborted as they are."""

STOPPED_AGAIN_S: Final = 0.05
"""How long a replayed call that was recorded as aborted waits for whoever stopped it then (a sibling that fails, a race)."""

_BEGINNINGS: Final = 3
_LAST_WAIT_S: Final = ABORT_GRACE_S + 1
_PULSE_S: Final = 0.2


class ActiveCassette:
    """A cassette to enter with ``async with``, or to ``open()`` and ``close()`` around several cells.

    While it is open every subagent call of the process goes through it. Leaving the block waits for the calls that are
    out, at most ``settle_timeout_s``; what still runs then is stopped, recorded as aborted and named in an error
    (``STILL_RUNNING``). An exception of the block is raised as it is, and skips the consumption check. An interrupt stops
    the calls, records them as aborted and closes the file within seconds.
    """

    def __init__(
        self, config: CassetteConfig, *, settle_timeout_s: float = SETTLE_TIMEOUT_S, registry: SubagentRegistry = REGISTRY
    ) -> None:
        self.config = config
        self._settle_timeout_s = settle_timeout_s
        self._registry = registry
        self._handle: CassetteHandle | None = None
        self._state: Literal["new", "open", "closed"] = "new"
        self._pid = os.getpid()
        self._thread = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._controllers: set[AbortController] = set()
        self._ending: asyncio.Task[None] | None = None
        self._interrupted = asyncio.Event()
        self._opened_at = self._closed_at = 0.0
        self._consumption = ""
        self._covered = 0
        self._late_calls = 0
        self._unbind: Callable[[], None] | None = None
        self._pulsing: asyncio.AbstractEventLoop | None = None

    @property
    def handle(self) -> CassetteHandle:
        """The installed cassette; ``ConfigError`` before it is opened."""
        if self._handle is None:
            raise ConfigError("the cassette is not open yet; enter it with `async with`", path=os.fspath(self.config.file))
        return self._handle

    @property
    def mode(self) -> Mode:
        """What it does: ``record`` or ``replay``."""
        return self.config.mode if self._handle is None else self._handle.mode

    @property
    def upstream_provider(self) -> str:
        """The name of the provider that is, or was, recorded from."""
        provider = None if self._handle is None else self._handle.provider
        if isinstance(provider, ReplayProvider):
            return provider.matcher.cassette.header.provider.upstream
        return self.config.upstream_provider

    @property
    def path(self) -> Path:
        """Where the file is, once it is open."""
        return resolve_file(self.config.file) if self._handle is None else self._handle.path

    @property
    def closed(self) -> bool:
        """Whether it was open and is no more."""
        return self._state == "closed"

    @property
    def accepts_calls(self) -> bool:
        """Whether calls can go through it: it is open, in this process."""
        return self._state == "open" and self._pid == os.getpid()

    def status(self) -> CassetteStatus:
        """What has happened so far."""
        progress = Progress() if self._handle is None else self._handle.stats
        matcher = self._handle.provider.matcher if self._handle and isinstance(self._handle.provider, ReplayProvider) else None
        end = self._closed_at or time.monotonic()
        return CassetteStatus(
            file=str(self.path),
            mode=self.mode,
            closed=self.closed,
            started=progress.started,
            running=tuple(progress.running.values()),
            completed=progress.completed,
            failed=progress.failed,
            raised=progress.raised,
            stopped=dict(progress.stopped),
            aborted=progress.aborted,
            total=progress.started if matcher is None else len(matcher.cassette.interactions),
            consumed=0 if matcher is None else matcher.consumed,
            covered=self._covered,
            recorded_ms=progress.recorded_ms,
            saved_ms=progress.saved_ms,
            elapsed_s=end - self._opened_at if self._opened_at else 0.0,
            consumption=self._consumption,
            late_calls=self._late_calls,
            refused=progress.refused,
            redacted_results=progress.redacted_results,
        )

    def diagnose(self, request: SubagentRequest) -> Diagnosis:
        """Replay: what ``request`` would match, or why nothing; changes nothing. ``ConfigError`` for a recording."""
        provider = self.handle.provider
        if not isinstance(provider, ReplayProvider):
            raise ConfigError("only a replay can say what a call would match", path=self.path)
        return provider.matcher.diagnose(request.to_json(), request.parent or ROOT_PARENT)

    def open(self) -> Self:
        """Open the file and take the calls of this process from here on. ``ConfigError`` while another one is open."""
        with SLOT:
            if self._state != "new":
                raise ConfigError("a cassette is opened once; make another one with record() or replay()", path=self.path)
            first = SLOT.current()
            if first is not None:
                raise ConfigError(
                    f"{first.mode} of {first.path} is active, and there is one cassette at a time; end that one first",
                    path=self.path,
                )
            try:
                self._handle = open_cassette(self.config, self._registry)
            except CassetteLabError as error:  # its sentence says all; our frames would bury it
                raise error.with_traceback(None) from error.__cause__
            self._pid = os.getpid()
            self._thread = threading.get_ident()
            with contextlib.suppress(RuntimeError):
                self._loop = asyncio.get_running_loop()
            self._opened_at = time.monotonic()
            self._state = "open"
            SLOT.take(self)
        return self

    def bind(self) -> Callable[[], None]:
        """Make tasks that start from here on keep to this cassette, also after its end. Returns what undoes it."""
        return bind(self)

    def release(self) -> None:
        """Let this context go: what it starts from here on does not keep to this cassette."""
        release(self)

    async def call(self, request: SubagentRequest) -> SubagentResult | None:
        """Record or replay one call, from any thread of this process. None: it came late, so it is to be made live."""
        __tracebackhide__ = True
        try:
            if threading.get_ident() != self._thread:
                return await self._hand_over(request)
            self._loop = asyncio.get_running_loop()
            return await self._call(request)
        except NotAdmittedError:
            self.late_call(request.label or "agent")
            return None

    def late_call(self, label: str) -> None:
        """A call came that this cassette does not take any more: ``ClosedError`` in replay, a warning in record."""
        why = "is closed" if self._pid == os.getpid() else "belongs to another process"
        if self.mode == "replay":
            raise ClosedError(f"the cassette {why}, so the call {label!r} has no answer; it is not made live", path=self.path)
        self._late_calls += 1
        warnings.warn(
            f"{self.path}: the cassette {why}; the call {label!r} is made live, and is missing in the file",
            RuntimeWarning,
            stacklevel=4,
        )

    def interrupt(self) -> None:
        """Let ``close`` wait no longer for the calls that are out: they are stopped and end as aborted."""
        self._interrupted.set()

    async def close(self, error: BaseException | None = None) -> None:
        """End the recording or replay; ``error`` is what the work under it failed with. Shared by all who call it.

        Raises ``CassetteLabError`` (``STILL_RUNNING``) for calls that had to be stopped, ``MismatchError`` for calls that
        a replay was not asked for, ``FormatError`` for a file that could not be completed.
        """
        if self._handle is None or self._state == "closed":
            self._state = "closed"
            return
        self.release()
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(error))
        try:
            await asyncio.shield(self._ending)
        except asyncio.CancelledError:
            if not self._ending.done():
                self.interrupt()
                await asyncio.wait({self._ending}, timeout=_LAST_WAIT_S)
            raise

    def close_now(self, error: BaseException | None = None) -> None:
        """``close`` where nothing can be awaited: at once. Calls that are out end as aborted. Raises what ``close`` does."""
        if self._handle is None or self._state == "closed":
            self._state = "closed"
            return
        self.release()
        stopped = tuple(self._handle.stats.running.values())
        for controller in list(self._controllers):
            abort(controller, DISPOSED)
        self._leave()
        self._conclude(error, stopped)

    async def __aenter__(self) -> Self:
        self.open()
        self._unbind = self.bind()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._unbind is not None:
            self._unbind()
        try:
            await self.close(error)
        except CassetteLabError as failure:
            if error is None:
                raise
            error.add_note(f"At the end of the cassette: {failure}")

    def __repr__(self) -> str:
        return f"<{self.mode} of {self.path}, {self._state}, {plural(self.status().started, 'call')}>"

    async def _call(self, request: SubagentRequest) -> SubagentResult:
        __tracebackhide__ = True
        if not self.accepts_calls:
            raise NotAdmittedError("the cassette was closed before the call could start", path=self.path)
        loop = asyncio.get_running_loop()
        if self._pulsing is not loop:
            self._pulsing = loop
            loop.call_later(_PULSE_S, self._pulse, loop)
        leave = bind(self, parent=None)  # what the run starts keeps to this cassette
        try:
            result = await drive(self.handle.provider, request, self._controllers)
        except RecordedAbortError:
            await asyncio.sleep(STOPPED_AGAIN_S)
            raise
        finally:
            leave()
        if self.mode == "record":
            return _as_replayed(result)
        if result.stop_reason == ABORTED and self.accepts_calls:
            await asyncio.sleep(STOPPED_AGAIN_S)
        return result

    def _pulse(self, loop: asyncio.AbstractEventLoop) -> None:
        """While calls run, wake the loop now and then: a kernel's interrupt is only noticed by a loop that wakes."""
        if self._pulsing is loop and self.handle.stats.running:
            loop.call_later(_PULSE_S, self._pulse, loop)
        elif self._pulsing is loop:
            self._pulsing = None

    async def _hand_over(self, request: SubagentRequest) -> SubagentResult:
        """A call of another thread, made on the event loop of the one that opened the cassette."""
        __tracebackhide__ = True
        return await hand_over(lambda: self._call(request), self._loop, accepts=lambda: self.accepts_calls, path=self.path)

    async def _end(self, error: BaseException | None) -> None:
        handle = self.handle
        interrupted = isinstance(error, INTERRUPTIONS)
        stopped: tuple[str, ...] = ()
        try:
            if interrupted or not await self._settle():
                stopped = tuple(handle.stats.running.values())
                await self._stop_calls()
            self._leave()
            if isinstance(handle.provider, RecordingProvider):
                await handle.dispose()
            self._conclude(error, stopped)
        finally:
            self._leave()
            handle.abandon()

    async def _settle(self) -> bool:
        """Wait for the calls that are out; whether they have ended."""
        progress = self.handle.stats
        for _ in range(_BEGINNINGS):  # tasks that were only just made get as far as their calls
            await asyncio.sleep(0)
        if not progress.running:
            return True
        idle = asyncio.create_task(progress.idle())
        interrupt = asyncio.create_task(self._interrupted.wait())
        try:
            await asyncio.wait({idle, interrupt}, timeout=self._settle_timeout_s, return_when=asyncio.FIRST_COMPLETED)
            return idle.done()
        finally:
            idle.cancel()
            interrupt.cancel()

    async def _stop_calls(self) -> None:
        for controller in list(self._controllers):
            abort(controller, DISPOSED)
        provider = self.handle.provider
        if isinstance(provider, RecordingProvider):
            await provider.abort(ABORT_GRACE_S)
        else:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ABORT_GRACE_S):
                    await provider.progress.idle()

    def _conclude(self, error: BaseException | None, stopped: tuple[str, ...]) -> None:
        """Close, and raise what is left to say: calls that had to be ``stopped``, calls that were not asked for."""
        handle = self.handle
        handle.abandon()
        skipped = f"skipped: {type(error).__name__} was raised" if error is not None else ""
        if stopped and not skipped:
            skipped = "skipped: calls were stopped"
        if isinstance(handle.provider, ReplayProvider):
            self._check_consumption(handle.provider, skipped)
        if stopped and not isinstance(error, INTERRUPTIONS):
            raise CassetteLabError(
                f"{plural(len(stopped), 'call')} still ran at the end, {was(len(stopped))} stopped and "
                f"{'counts' if len(stopped) == 1 else 'count'} as aborted: {', '.join(stopped)}; "
                "await what still runs before the end, or raise settle_timeout_s",
                code="STILL_RUNNING",
                path=self.path,
            )

    def _check_consumption(self, provider: ReplayProvider, skipped: str) -> None:
        """Check that a replay was asked for everything; says in ``status`` how that went."""
        missing = provider.matcher.missing()
        self._covered = provider.matcher.remaining - len(missing)
        if skipped:
            self._consumption = skipped
        elif not self.config.assert_consumed:
            self._consumption = "not checked"
        elif missing:
            self._consumption = f"{plural(len(missing), 'call')} {was(len(missing))} never asked for"
            self.handle.assert_consumed()
        else:
            self._consumption = "complete"

    def _leave(self) -> None:
        """Take no more calls, and give the slot back."""
        with SLOT:
            if self._state == "open":
                self._state = "closed"
                self._closed_at = time.monotonic()
            SLOT.leave(self)


def _as_replayed(result: SubagentResult) -> SubagentResult:
    """``result`` as a replay gives it: members in the file's order, its numbers. Only what is redacted in the file stays."""
    return SubagentResult.from_json(parse(canonical(result.to_json())))
