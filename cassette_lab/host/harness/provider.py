"""One-shot runs of the real harness as subagents, so that their results can go into a cassette."""

from __future__ import annotations

from typing import Any, Final

from cassette_lab.cassette.runs import Run, new_run_id
from cassette_lab.contracts import Capabilities, SubagentRequest, SubagentResult
from cassette_lab.errors import AbortError
from cassette_lab.host.harness.options import harness_options, with_option_names
from cassette_lab.host.harness.runtime import Harness, HarnessRun
from cassette_lab.host.tasks import TaskRun


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
        return _PromptRun(new_run_id("harness"), None, _run(harness, request), name="harness run", signal=signal)


class _PromptRun(TaskRun):
    """A prompt that runs. An abort or a disposal ends its runtime."""

    __slots__ = ()

    def _stop(self, reason: BaseException | str | None) -> None:
        # Not at once: a task that is cancelled before it has begun would leave its runtime to itself.
        self._task.get_loop().call_soon(super()._stop, reason)


async def _run(harness: Harness, request: SubagentRequest) -> SubagentResult:
    try:
        run = await harness.run(list(request.prompt))
    finally:
        await harness.close()
    return result_of(run)


def result_of(run: HarnessRun) -> SubagentResult:
    """A run as a subagent's result: its last text, how its last turn ended, and the ``error`` that it ended with.

    That has the members of a failure in a session log, as far as they are known: ``code`` and ``status``.
    """
    output = [{"type": "text", "text": run.text}] if run.text else []
    told = {"code": run.error_code, "status": run.error_status}
    error = {name: value for name, value in told.items() if value is not None}
    return SubagentResult(output, run.end_kind or "error", extra={"error": error} if error else {})
