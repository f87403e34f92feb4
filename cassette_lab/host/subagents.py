"""Children of the agents in this process: spawned ones begin with nothing, forked ones with what their parent has completed.

A start either publishes a run or leaves nothing behind. The run belongs to whoever called ``start``: an abort or a disposal
stops the child, whose session is closed when it ends. The tool by which a model delegates asks for one like everybody else,
so that a cassette records and answers it. Source: session logs, Header line; Parents and children.
"""

from __future__ import annotations

from typing import Final, Literal

from cassette_lab.cassette.runs import aborted_result, new_run_id
from cassette_lab.contracts import ABSENT, AbortController, AbortSignal, SubagentRequest, SubagentResult
from cassette_lab.errors import AbortError, ConfigError, FormatError, NoUpstreamError
from cassette_lab.host.agent import Agent
from cassette_lab.host.answer import text_of
from cassette_lab.host.local import AgentCall, LocalAgent
from cassette_lab.host.loop import TurnEnd
from cassette_lab.host.parts import child_parts
from cassette_lab.host.tasks import TaskRun, abort
from cassette_lab.host.tools import FatalToolError, Tool, ToolContext, ToolOutput, failed, text_output, tool
from cassette_lab.session.persistence import StoredSession
from cassette_lab.session.session import Session

Provider = Literal["spawn", "fork"]
REFUSED: Final = "SUBAGENT_REFUSED"


def agent_of(request: SubagentRequest) -> Agent | None:
    """The agent of this process whose child the request asks for; None where there is none."""
    if isinstance(request, AgentCall):
        return request.agent
    return request.parent.agent if isinstance(request.parent, LocalAgent) else None


def start_child(parent: Agent, request: SubagentRequest, provider: Provider) -> AgentRun:
    """Start a child of ``parent``.

    Raises ``AbortError`` for a signal that is aborted, ``ConfigError`` (code ``SUBAGENT_REFUSED``) for a child that is too deep
    or asks for what its parent does not have, and what the store raises.
    """
    if request.signal is not None and request.signal.aborted:
        raise AbortError("the call was aborted before it started")
    parts = child_parts(parent.parts, request)
    depth = (parent.session.header.delegation_depth or 0) + 1
    if depth > parts.max_depth:
        raise ConfigError(f"subagent depth {depth} exceeds maxDepth {parts.max_depth}", field="maxDepth", code=REFUSED)
    session = Session.fork(parent.session) if provider == "fork" else Session.spawn(parent.session)
    stored = None if parts.store is None else StoredSession.create(parts.store, session)
    context = parent.context.child(name="subagent")
    return AgentRun(Agent.of(context, parts, session, stored), request, provider)


class AgentRun(TaskRun):
    """A child at its task. A stop aborts its turn; when that is over, its session is closed."""

    __slots__ = ("_controller",)

    def __init__(self, child: Agent, request: SubagentRequest, provider: Provider) -> None:
        self._controller = AbortController()
        super().__init__(
            new_run_id(provider),
            child.as_parent(),
            _work(child, request, provider, self._controller.signal),
            name=f"subagent {request.label or 'agent'}",
            signal=request.signal,
        )

    def _stop(self, reason: BaseException | str | None) -> None:
        abort(self._controller, reason)


async def _work(child: Agent, request: SubagentRequest, provider: Provider, signal: AbortSignal) -> SubagentResult:
    try:
        child.log.describe(provider, request.label)
        end, _ = await child.turn(request.prompt, child.parts.output, signal)
    finally:
        await child.dispose()
    return _result(end)


def subagent_tool(provider: Provider | str) -> Tool:
    """The tool by which a model gives a task to a child: ``subagent``, or ``subagent_fork``."""
    if provider not in _DESCRIPTIONS:
        raise ConfigError(f'subagents are "spawn" or "fork", not {provider!r}', field="subagents")

    async def delegate(description: str, prompt: str, context: ToolContext) -> ToolOutput:
        """Ask for a child and tell how it ended.

        Args:
            description: A few words that name the task.
            prompt: The task, with everything that it takes.
        """
        try:
            result = await context.agent.delegate(prompt, label=description, provider=provider, signal=context.signal)
        except (ConfigError, NoUpstreamError, FormatError) as error:
            if error.code == REFUSED:
                raise
            raise FatalToolError from error  # a matter of how the run is set up or written, not of what the model wants
        return _told(result)

    name = "subagent" if provider == "spawn" else "subagent_fork"
    return tool(name=name, description=_DESCRIPTIONS[provider])(delegate)


_DESCRIPTIONS: Final = {
    "spawn": "Give a task to a subagent and wait for its answer. It knows nothing of this conversation: tell it all it needs. "
    "Call this several times at once for tasks that do not depend on each other.",
    "fork": "Give a task to a subagent that knows this conversation up to the last completed turn, and wait for its answer.",
}
_ENDINGS: Final = {
    "max-tokens": "reached its limit of tokens before it was done",
    "aborted": "was stopped before it was done",
    "refusal": "was refused by the model",
}


def _result(end: TurnEnd) -> SubagentResult:
    if end.stop_reason == "aborted":
        return aborted_result()
    extra = {} if end.error is None else {"error": end.error.to_json()}
    return SubagentResult([*end.content], end.stop_reason, ABSENT if end.structured is ABSENT else end.structured, extra)


def _told(result: SubagentResult) -> ToolOutput:
    """A child's result as the model that asked for it is told."""
    text = text_of(result.output)
    if result.stop_reason == "completed":
        return text_output(text)
    error = result.extra.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    how = _ENDINGS.get(result.stop_reason) or (f"failed ({code})" if code else "failed")
    return failed(
        f"the subagent {how}" + (f"\nIts answer up to then:\n{text}" if text else ""), name="SubagentError", code=code
    )
