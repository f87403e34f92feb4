"""One-shot runs of the real harness as subagents, so that their results can go into a cassette."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from cassette_lab.cassette.runs import Run, aborted_result, new_run_id
from cassette_lab.contracts import Capabilities, SubagentRequest, SubagentResult
from cassette_lab.errors import AbortError
from cassette_lab.host.harness.options import harness_options, with_option_names
from cassette_lab.host.harness.runtime import Harness, HarnessRun


class HarnessProvider:
    """A ``SubagentProvider`` whose every run is a runtime of its own, with a home that goes with it.

    Options are those of ``HarnessOptions``; a request's ``agentOptions`` (``provider``, ``model``) go before them. The
    runtime takes no schema, depth, tools or persona from a request.
    """

    capabilities: Final = Capabilities(output_schema=False, depth_limit=False, tool_filter=False, persona=False)
    inherits_parent_context: Final = False

    @with_option_names
    def __init__(self, name: str = "harness", **options: Any) -> None:
        harness_options(options)  # what is unknown is told here
        self.name = name
        self._options = options

    async def start(self, request: SubagentRequest) -> Run:
        """Start a runtime, and give it the prompt. Raises ``AbortError`` for a signal that is aborted by then.

        Raises what ``Harness.start`` raises, too. Cancelled while the runtime starts, it ends it.
        """
        signal = request.signal
        if signal is not None and signal.aborted:
            raise AbortError("the call was aborted before it started")
        asked = {
            name: value for name in ("provider", "model") if (value := (request.agent_options or {}).get(name)) is not None
        }
        harness = Harness(**{**self._options, **asked})
        try:
            await harness.start()
        except BaseException:
            await harness.close()
            raise
        if signal is not None and signal.aborted:
            await harness.close()
            raise AbortError("the call was aborted while it started")
        return _HarnessTask(harness, request)


class _HarnessTask(Run):
    """A prompt that runs. An abort or a disposal ends its runtime."""

    __slots__ = ("_task", "_unwatch")

    def __init__(self, harness: Harness, request: SubagentRequest) -> None:
        super().__init__(new_run_id("harness"))
        self._task = asyncio.create_task(_run(harness, request), name="harness run")
        self._task.add_done_callback(self._ended)
        signal = request.signal
        self._unwatch = None if signal is None else signal.on_abort(self._stop)

    async def dispose(self) -> None:
        """End the runtime if it still works, and return once it has ended."""
        await super().dispose()
        if not self.settled:
            self._stop()
            await self._wait()

    def _stop(self) -> None:
        self._task.cancel("the call was aborted")

    def _ended(self, task: asyncio.Task[SubagentResult]) -> None:
        if self._unwatch is not None:
            self._unwatch()
        if task.cancelled():
            self._settle(aborted_result())
        elif (error := task.exception()) is not None:
            self._settle(None, error)
        else:
            self._settle(task.result())


async def _run(harness: Harness, request: SubagentRequest) -> SubagentResult:
    try:
        run = await harness.run(list(request.prompt))
    finally:
        await harness.close()
    return result_of(run)


def result_of(run: HarnessRun) -> SubagentResult:
    """A run as a subagent's result: its last text, and how its last turn ended."""
    output = [{"type": "text", "text": run.text}] if run.text else []
    return SubagentResult(output=output, stop_reason=run.end_kind or "error")
