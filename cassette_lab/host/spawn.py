"""The providers of this process: ``spawn`` runs ``@subagent`` functions, each call as a task of its own, a child of who called.

For an agent of this process it starts another agent, and so does ``fork``.
"""

from __future__ import annotations

from typing import Final, Literal

from cassette_lab.cassette.runs import Run, new_run_id
from cassette_lab.contracts import ROOT_PARENT, Capabilities, SubagentRequest
from cassette_lab.errors import AbortError, ConfigError
from cassette_lab.host.ambient import context_of, new_child
from cassette_lab.host.handlers import Arguments, FunctionCall, Handler
from cassette_lab.host.local import AgentCall, LocalAgent
from cassette_lab.host.registry import REGISTRY
from cassette_lab.host.tasks import TaskRun


class FunctionProvider:
    """Runs the functions it knows by their labels; defining a label again replaces its function."""

    def __init__(self, name: str = "spawn") -> None:
        self.name = name
        self.capabilities = Capabilities()
        self.inherits_parent_context = False
        self._handlers: dict[str, Handler] = {}

    def define(self, handler: Handler) -> None:
        """Know ``handler`` by its label, from now on."""
        self._handlers[handler.label] = handler

    async def start(self, request: SubagentRequest) -> Run:
        """Call the function of a call made in Python, else the one that the request's label names; spawn an agent for an agent.

        ``ConfigError`` where there is none, ``AbortError`` for a signal that is aborted, ``IdentityError`` or
        ``TypeError`` where the request does not fit the function.
        """
        if request.signal is not None and request.signal.aborted:
            raise AbortError("the call was aborted before it started")
        if isinstance(request, FunctionCall):
            handler = request.handler
        elif request.label in self._handlers and not isinstance(request, AgentCall):
            handler = self._handlers[request.label]
        elif isinstance(request, AgentCall) or isinstance(request.parent, LocalAgent):
            return _start_agent(request, "spawn")
        else:
            known = ", ".join(self._handlers) or "none"
            raise ConfigError(f"no @subagent is called {request.label!r}; there is {known}", field="label")
        return _start_function(handler, handler.arguments(request), request)


class ForkProvider:
    """Starts children that begin with what the calling agent, one of this process, has completed."""

    name: Final = "fork"
    capabilities: Final = Capabilities()
    inherits_parent_context: Final = True

    async def start(self, request: SubagentRequest) -> Run:
        """Fork the agent that asks. ``ConfigError`` where that is none of this process; what ``start_child`` raises."""
        return _start_agent(request, "fork")


def _start_function(handler: Handler, arguments: Arguments, request: SubagentRequest) -> Run:
    """Call an ``@subagent`` function."""
    child = new_child(request.parent or ROOT_PARENT)
    return TaskRun(
        new_run_id("spawn"),
        child,
        handler.run(arguments),
        name=f"subagent {handler.label}",
        signal=request.signal,
        context=context_of(child),
    )


def _start_agent(request: SubagentRequest, provider: Literal["spawn", "fork"]) -> Run:
    from cassette_lab.host.subagents import agent_of, start_child

    agent = agent_of(request)
    if agent is None:
        raise ConfigError(f"{provider} is for the agents of this process, and who asks is none of them", field="parent")
    return start_child(agent, request, provider)


FUNCTIONS: Final = FunctionProvider()
"""Where ``@subagent`` defines functions."""

REGISTRY.register(FUNCTIONS)
REGISTRY.register(ForkProvider())
