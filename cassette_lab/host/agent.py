"""``Agent``: a model, tools and a session, in this process.

>>> import cassette_lab as cl
>>> async with cl.Agent(cl.ScriptedModel("It is 4."), tools=[]) as agent:  # doctest: +SKIP
...     print((await agent.run("What is 2 + 2?")).text)

An agent's session is logged while it runs. It can delegate: ``delegate`` starts a child, and with ``subagents`` the model may
do that itself. Its calls, and those of ``@subagent`` functions that its tools make, go through the active cassette.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from cassette_lab.contracts import ABSENT, AbortController, AbortSignal, LlmAdapter, SubagentResult
from cassette_lab.errors import ClosedError, ConfigError
from cassette_lab.event_bus import DISPOSED, RUN_END, with_initiator
from cassette_lab.host.agent_log import AgentLog
from cassette_lab.host.ambient import current_parent, enter_parent
from cassette_lab.host.answer import text_of
from cassette_lab.host.context import HOST, Context
from cassette_lab.host.driving import check_signal
from cassette_lab.host.llm import Llm
from cassette_lab.host.local import AgentCall, EventMembers, LocalAgent
from cassette_lab.host.loop import LoopConfig, Turn, TurnEnd
from cassette_lab.host.parts import AgentParts
from cassette_lab.host.retrying import RetryPolicy
from cassette_lab.host.structured import TOOL_NAME, Output
from cassette_lab.host.tasks import abort, wait_a_little
from cassette_lab.host.tools import AnyTool, Toolbox
from cassette_lab.jsonio import JsonObject
from cassette_lab.jsonio.text import show
from cassette_lab.session.persistence import SessionStore, StoredSession
from cassette_lab.session.session import Session, new_header
from cassette_lab.session.usage import Usage, read_usage, total

DEFAULT_MAX_DEPTH: Final = 3
_SHOWN_CHARACTERS: Final = 120
_PULSE_S: Final = 0.2


@dataclass(frozen=True, slots=True, repr=False)
class AgentResult:
    """How one turn of an agent ended.

    ``stop_reason`` is ``completed``, ``max-tokens``, ``refusal`` or ``aborted``. ``text`` is the model's last text. ``output``
    is the value of a structured answer, in the type that was asked for; None without one. ``usage`` is that of the turn's
    model calls.
    """

    stop_reason: str
    text: str
    output: Any = None
    usage: Usage = field(default_factory=Usage)
    turn: int = 0
    session_id: str = ""

    def __repr__(self) -> str:
        said = repr(self.text if len(self.text) <= _SHOWN_CHARACTERS else f"{self.text[: _SHOWN_CHARACTERS - 1]}…")
        session = f" of {show(self.session_id)}" if self.session_id else ""
        words = [self.stop_reason, f"turn {self.turn}{session}", f"text={show(said)}"]
        if self.output is not None:
            value = repr(self.output)
            shown = value if len(value) <= _SHOWN_CHARACTERS else f"{value[: _SHOWN_CHARACTERS - 1]}…"
            words.append(f"output={show(shown)}")
        counted = (("tokens in", self.usage.input_tokens), ("out", self.usage.output_tokens))
        words += [f"{name} {count:,}" for name, count in counted if count is not None]
        return f"<agent result: {', '.join(words)}>"


class Agent:
    """An agent of this process. ``async with`` disposes it; else call ``dispose``, so that others may continue its session.

    ``model``: what answers (an ``LlmAdapter``). ``provider`` and ``model_name`` are what the log and a cassette call it, by
    default the model's own ``provider`` and ``model``.
    ``tools``: functions (see ``tool``). ``subagents``: ``"spawn"``, ``"fork"`` or both, to let the model delegate.
    ``instructions`` and ``persona``: the system prompt; a child has the instructions, too, and may get another persona.
    ``output``: a JSON schema, or a type, that the answer must fit: the model calls the tool ``structured_output`` with it, or
    says it as JSON. ``max_tokens``, and ``options`` (``temperature``, …): of
    every request. ``max_steps``: of one turn. ``max_depth``: how deep children of children may go. ``retry``: of failed calls.
    ``sessions``: a store, or a folder, for the logs of the agent and its children; None keeps them in memory. ``resume``: the
    id of a stored session to go on with. ``session_id``: of a new one. ``context``: the host that it belongs to and goes with.

    Raises ``ConfigError`` for what cannot be used, and what the store raises.
    """

    def __init__(
        self,
        model: LlmAdapter,
        *,
        tools: Sequence[AnyTool] = (),
        instructions: str | None = None,
        persona: str | None = None,
        output: Any = None,
        subagents: str | Sequence[str] = (),
        provider: str | None = None,
        model_name: str | None = None,
        max_tokens: int | None = None,
        options: Mapping[str, Any] | None = None,
        max_steps: int = 100,
        max_depth: int = DEFAULT_MAX_DEPTH,
        retry: RetryPolicy | None = None,
        sessions: SessionStore | str | Path | None = None,
        resume: str | None = None,
        session_id: str | None = None,
        context: Context | None = None,
    ) -> None:
        _check_model(model)
        _check_texts(instructions=instructions, persona=persona, provider=provider, model_name=model_name, resume=resume)
        for name, count in (("max_steps", max_steps), ("max_depth", max_depth), ("max_tokens", max_tokens or 0)):
            if type(count) is not int or count < 0:
                raise ConfigError(f"{name} is a whole number, 0 or more, not {count!r}", field=name)
        route = provider or _named(model, "provider") or type(model).__name__
        sections = [("persona", persona), ("instructions", instructions)]
        config = LoopConfig(
            provider=route,
            model=model_name or _named(model, "model") or route,
            options={**(options or {}), **({} if max_tokens is None else {"maxTokens": max_tokens})},
            sections=[(name, text) for name, text in sections if text],
            max_steps=max_steps,
            retry=retry or RetryPolicy(),
        )
        toolbox, wanted = (
            Toolbox([*_listed("tools", tools), *_delegating(subagents)]),
            None if output is None else Output(output),
        )
        store = _opened(sessions)
        session, stored = _session(store, resume, session_id)
        self.context = HOST.child(name="agent", owned=False) if context is None else context.child(name="agent")
        if store is not None and store is not sessions:
            self.context.effect(store.close)
        llm = Llm(self.context)
        llm.register(route, model)
        self._set_up(AgentParts(llm, config, toolbox, wanted, max_depth, store), session, stored)

    @classmethod
    def of(cls, context: Context, parts: AgentParts, session: Session, stored: StoredSession | None) -> Self:
        """An agent of these parts, in a context of its own: a child, whose store is its parent's."""
        agent = cls.__new__(cls)
        agent.context = context
        agent._set_up(parts, session, stored)  # noqa: SLF001 - another way to construct it
        return agent

    def _set_up(self, parts: AgentParts, session: Session, stored: StoredSession | None) -> None:
        self.parts = parts
        self.log = AgentLog(session, stored)
        self._wanted: tuple[Any, Output] | None = None
        self._answering: tuple[Output, list[Any], Toolbox] | None = None
        self._running: asyncio.Task[TurnEnd] | None = None
        self._controller: AbortController | None = None
        self.context.effect(self.log.close)
        self.context.effect(self._stop)

    def __repr__(self) -> str:
        state = ", disposed" if self.context.disposed else ", running" if self.is_running else ""
        return f"<agent {self.session.header.id}, {self.parts.config.model}, turn {self.log.turn}{state}>"

    @property
    def session(self) -> Session:
        """The agent's log so far."""
        return self.log.session

    @property
    def session_id(self) -> str:
        """The id of its session."""
        return self.session.header.id

    @property
    def is_running(self) -> bool:
        """Whether a turn is on its way, or still cleaning up."""
        return self._running is not None and not self._running.done()

    async def run(
        self, prompt: str | Sequence[JsonObject], *, output: Any = None, signal: AbortSignal | None = None
    ) -> AgentResult:
        """One turn: tell the agent something and wait until it has answered. ``prompt``: a text, or content blocks.

        ``output`` takes the place of the agent's own. An abort of ``signal`` ends the turn with the stop reason ``aborted``;
        cancelling the caller does, too, waits a little for the clean-up, and raises ``CancelledError`` again.

        Raises ``ModelFailure`` where the model fails for good, ``ConfigError`` while another turn runs, ``ClosedError``
        after ``dispose``, ``CassetteLabError`` (``STEP_LIMIT``, ``INVALID_CALLS``, ``NO_OUTPUT``), what a listener of the
        host raises, and what a cassette says of calls that it does not know.
        """
        __tracebackhide__ = True
        wanted = self.parts.output if output is None else self._output(output)
        end, usage = await self.turn(prompt, wanted, signal)
        if end.stop_reason == "error" and end.error is not None:
            raise end.error
        value = None if end.structured is ABSENT or wanted is None else wanted.value(end.structured)
        return AgentResult(end.stop_reason, text_of(end.content), value, usage, self.log.turn, self.session_id)

    async def turn(
        self, prompt: str | Sequence[JsonObject], wanted: Output | None, signal: AbortSignal | None
    ) -> tuple[TurnEnd, Usage]:
        """``run``, as the loop tells it: failures of the model are in the end, not raised."""
        __tracebackhide__ = True
        if self.context.disposed:
            raise ClosedError("the agent is disposed; make a new one, or resume its session", code="AGENT_CLOSED")
        if self.is_running:
            raise ConfigError("the agent's turn is not over yet; await it first, or take another agent")
        check_signal(signal)
        controller = AbortController()
        blocks = _blocks(prompt)
        found, tools = self._tools(wanted)
        turn = Turn(
            self,
            bus=self.context,
            llm=self.parts.llm,
            log=self.log,
            config=self.parts.config,
            tools=tools,
            signal=controller.signal,
            found=found,
            wanted=wanted,
        )
        work = self._run(turn, blocks, controller)
        # Not create_task: a loop's task factory may run it before the next line.
        task = asyncio.Task(work, loop=asyncio.get_running_loop(), name=f"agent {self.session_id}")
        self._running, self._controller = task, controller
        unwatch = None if signal is None else signal.on_abort(lambda: abort(controller, signal.reason))
        try:
            while not task.done():  # a kernel's interrupt is only noticed by a loop that wakes
                await asyncio.wait({task}, timeout=_PULSE_S)
        except asyncio.CancelledError as error:
            abort(controller, error)
            await wait_a_little([task], times=2)
            raise
        finally:
            if unwatch is not None:
                unwatch()
        return task.result(), total(map(read_usage, turn.usages))

    async def delegate(
        self,
        prompt: str | Sequence[JsonObject],
        *,
        label: str | None = None,
        provider: str = "spawn",
        agent_options: JsonObject | None = None,
        output_schema: JsonObject | None = None,
        tool_filter: JsonObject | None = None,
        persona: str | None = None,
        max_depth: int | None = None,
        signal: AbortSignal | None = None,
    ) -> SubagentResult:
        """Give a task to a child and wait for its result; through the active cassette where there is one.

        ``provider``: ``spawn`` begins with nothing, ``fork`` with this agent's completed turns. The rest is as in a
        ``SubagentRequest``; without a ``max_depth`` the agent's own counts.
        Raises what ``run_subagent`` raises; ``ConfigError`` with the code ``SUBAGENT_REFUSED`` where the child may not be.
        """
        from cassette_lab.host.function import run_subagent

        request = AgentCall(
            prompt=_blocks(prompt),
            label=label,
            agent_options=agent_options,
            output_schema=output_schema,
            max_depth=self.parts.max_depth if max_depth is None else max_depth,
            tool_filter=tool_filter,
            persona=persona,
            parent=self.as_parent(),
            signal=signal,
            agent=self,
        )
        return await run_subagent(request, provider=provider)

    def as_parent(self) -> LocalAgent:
        """The agent as the parent of its calls: what their identity may see of it.

        An agent that nobody delegated to stands for whoever runs it (the root, or the ``@subagent`` around it).
        """
        header = self.session.header
        config = self.parts.config
        facts = {
            "cwd": header.cwd,
            "origin": header.origin,
            "delegationDepth": header.delegation_depth,
            "agentPreset": header.agent_preset,
        }
        return LocalAgent(
            id=current_parent().id if header.origin is None else header.id,
            options={"provider": config.provider, "model": config.model, **config.options},
            header={name: value for name, value in facts.items() if value is not None},
            events=EventMembers(self.session.events),
            agent=self,
        )

    async def dispose(self) -> None:
        """Stop the turn that runs and the children, and close the session. Idempotent; all who call it wait for the end."""
        await self.context.dispose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.dispose()

    async def _stop(self) -> None:
        if self._controller is not None and self._running is not None and not self._running.done():
            abort(self._controller, DISPOSED)
            await wait_a_little([self._running], times=2)

    async def _run(self, turn: Turn, blocks: Sequence[JsonObject], controller: AbortController) -> TurnEnd:
        """In a task of its own, which an abort cancels, and whose context variables say whose turn it is."""
        task = asyncio.current_task()
        if task is not None and not controller.signal.aborted:
            controller.signal.on_abort(lambda: _cancel(task))
        enter_parent(self.as_parent())
        with with_initiator(self):
            try:
                return await turn.run(blocks)
            finally:
                self.context.emit(RUN_END, self, controller.signal)

    def _output(self, given: Any) -> Output:
        """What one turn asks for; made once where the next one asks for the same."""
        if self._wanted is None or self._wanted[0] is not given:
            self._wanted = given, Output(given)
        return self._wanted[1]

    def _tools(self, wanted: Output | None) -> tuple[list[Any] | None, Toolbox]:
        """Where a structured answer will be, and the tools of a turn: the same ones as before, where they can be."""
        if wanted is None:
            return None, self.parts.tools
        if self._answering is None or self._answering[0] is not wanted:
            if self.parts.tools.get(TOOL_NAME) is not None:
                raise ConfigError(f"the name {TOOL_NAME} belongs to the structured answer; rename your tool", field="tools")
            found: list[Any] = []
            self._answering = wanted, found, Toolbox([*self.parts.tools, wanted.tool(found)])
        _, found, tools = self._answering
        found.clear()
        return found, tools


def _opened(sessions: SessionStore | str | Path | None) -> SessionStore | None:
    if not isinstance(sessions, (str, Path)):
        return sessions
    from cassette_lab.session.store_jsonl import JsonlStore

    return JsonlStore(sessions)


def _session(store: SessionStore | None, resume: str | None, session_id: str | None) -> tuple[Session, StoredSession | None]:
    if resume is not None:
        if store is None or session_id is not None:
            raise ConfigError("resume names a session of a store; give sessions, and no session_id", field="resume")
        stored = StoredSession.resume(store, resume)
        return stored.session, stored
    depth = current_parent().header.get("delegationDepth", 0)
    session = Session(new_header(session_id=session_id, delegation_depth=depth if type(depth) is int else 0))
    return session, None if store is None else StoredSession.create(store, session)


def _delegating(subagents: str | Sequence[str]) -> list[AnyTool]:
    from cassette_lab.host.subagents import subagent_tool

    return [subagent_tool(name) for name in ((subagents,) if isinstance(subagents, str) else _listed("subagents", subagents))]


def _blocks(prompt: Any) -> list[JsonObject]:
    """A prompt as content blocks."""
    blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else _listed("prompt", prompt)
    if not blocks or not all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in blocks):
        raise ConfigError('a prompt is a text, or content blocks ({"type": "text", "text": …})', field="prompt")
    return blocks


def _named(model: LlmAdapter, name: str) -> str | None:
    value = getattr(model, name, None)
    return value if isinstance(value, str) and value else None


def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel("the run was aborted")


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise ConfigError(f"{name} is a list, not {type(values).__name__}", field=name)
    return list(values)


def _check_texts(**values: object) -> None:
    for name, value in values.items():
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{name} is a text, not {type(value).__name__}", field=name)


def _check_model(model: object) -> None:
    if isinstance(model, type) or not isinstance(model, LlmAdapter):
        kind = "a class" if isinstance(model, type) else type(model).__name__
        raise ConfigError(f"model is an LlmAdapter (ScriptedModel(…), OpenAIChat(…), …), not {kind}", field="model")
