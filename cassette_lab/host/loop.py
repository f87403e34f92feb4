"""The agent loop: one turn, step by step, until the model has said its last word; all of it logged while it happens.

A step is one model call, made again where it failed and may succeed, and the tools that the model asked for, all at once.
Their results are logged in the order of the calls, whichever is there first, so that a run that is repeated says the same.
An abort comes as a cancellation of the task that runs the turn; the log is then closed in good order.
Source: session logs, Event types; Calls, and where chunks and times live.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from cassette_lab.cassette.runs import Turns
from cassette_lab.contracts import ABSENT, AbortSignal, ModelRequest, StreamChunk
from cassette_lab.errors import AbortError, CassetteLabError, ConfigError
from cassette_lab.event_bus import ASSEMBLE, DISPOSED, REQUEST, Assembly, Attempt, EventBus, mark_loop_request
from cassette_lab.host.agent_log import AgentLog
from cassette_lab.host.answer import ERROR_FINISHES, Answer, failure_json, failure_of, failure_of_finish, text_of
from cassette_lab.host.llm import Llm
from cassette_lab.host.models.failures import ModelFailure
from cassette_lab.host.retrying import RetryPolicy
from cassette_lab.host.structured import REMINDER, SECTION, TOOL_NAME, Output
from cassette_lab.host.tasks import wait_a_little
from cassette_lab.host.tools import ABORTED_OUTPUT, Toolbox, ToolContext, ToolOutput, carry_out
from cassette_lab.jsonio import JsonObject
from cassette_lab.jsonio.text import show
from cassette_lab.session.session import now_ms

if TYPE_CHECKING:
    from cassette_lab.host.agent import Agent

MOST_REMINDERS: Final = 3
"""How often a model is told that its structured output is missing."""

MOST_INVALID: Final = 5
"""How often in a row a model may make the very same calls that no tool can take."""

USER: Final[JsonObject] = {"kind": "user"}


@dataclass(frozen=True, slots=True)
class LoopConfig:
    """What does not change from turn to turn.

    ``options`` are a request's own (``maxTokens``, ``temperature``, …), ``sections`` the parts of the system prompt by name.
    A turn that takes more than ``max_steps`` steps fails.
    """

    provider: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    sections: Sequence[tuple[str, str]] = ()
    max_steps: int = 100
    retry: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended (``completed``, ``max-tokens``, ``refusal``, ``error``, ``aborted``), its last text, what was wrong."""

    stop_reason: str
    content: Sequence[JsonObject] = ()
    error: ModelFailure | None = None
    structured: Any = ABSENT


class Turn:
    """One turn of ``agent``. ``found`` is where the value of a structured answer will be, ``usages`` are those of the calls."""

    def __init__(
        self,
        agent: Agent,
        *,
        bus: EventBus,
        llm: Llm,
        log: AgentLog,
        config: LoopConfig,
        tools: Toolbox,
        signal: AbortSignal,
        found: list[Any] | None = None,
        wanted: Output | None = None,
    ) -> None:
        self._agent = agent
        self._bus, self._llm, self._log = bus, llm, log
        self._config, self._tools, self._signal = config, tools, signal
        self._found, self._wanted = found, wanted
        self._invalid: tuple[Any, int] = (None, 0)
        self._in_step = False
        self._said: Sequence[JsonObject] = ()
        self.usages: list[JsonObject] = []

    async def run(self, prompt: Sequence[JsonObject]) -> TurnEnd:
        """The turn, from the prompt to its end, which is then on disk. Raises what is neither the model's nor a tool's."""
        self._log.start_turn()
        try:
            if self._signal.aborted:
                raise AbortError("the run was aborted before it began")  # noqa: TRY301 - ends like any other abort
            end = await self._steps(prompt)
        except BaseException as error:
            await self._fail(error)
            failure = failure_of(error)
            if failure is not None:
                stop_reason = "refusal" if failure.code == "CONTENT_FILTER" else "error"
                return TurnEnd(stop_reason, self._said, failure)
            if self._is_abort(error):
                return TurnEnd("aborted", self._said)
            raise
        self._log.end_turn({"kind": end.stop_reason})
        await self._flush_at_the_end()
        return end

    async def _steps(self, prompt: Sequence[JsonObject]) -> TurnEnd:
        news: Sequence[JsonObject] = prompt
        reminders = 0
        for _ in range(self._config.max_steps):
            self._log.start_step()
            self._in_step = True
            if news:
                self._log.user_message(news, USER)
            answer = await self._answer(await self._assembled())
            calls = answer.tool_calls() if answer.finish_kind != "max-tokens" else []
            if calls:
                await self._run_tools(calls)
            self._log.end_step()
            self._in_step = False
            if answer.finish_kind == "max-tokens":
                return TurnEnd("max-tokens", self._said)
            if self._found:
                return TurnEnd("completed", self._said, structured=self._found[0])
            if calls:
                await self._log.flush()
                news = ()
            elif self._found is None or self._wanted is None:
                return TurnEnd("completed", self._said)
            elif (value := self._wanted.told(text_of(self._said))) is not ABSENT:
                return TurnEnd("completed", self._said, structured=value)
            elif reminders == MOST_REMINDERS:
                raise CassetteLabError(
                    "the model does not give the structured output that was asked for: it neither calls the tool "
                    f"{TOOL_NAME} with a value that fits nor says one as JSON",
                    code="NO_OUTPUT",
                )
            else:
                reminders += 1
                news = [{"type": "text", "text": REMINDER}]
        raise CassetteLabError(
            f"the turn has taken {self._config.max_steps} steps and is not at its end; raise max_steps, or ask for less",
            code="STEP_LIMIT",
        )

    # The model

    async def _assembled(self) -> Assembly:
        sections = [*self._config.sections]
        if self._found is not None:
            sections.append(("output", SECTION))
        payload = Assembly(
            agent=self._agent,
            signal=self._signal,
            session_id=self._log.session.header.id,
            turn=self._log.turn,
            step=self._log.step,
            sections=[{"name": name, "text": text} for name, text in sections],
            tools=self._tools.definitions,
        )
        assembled = await self._bus.waterfall(ASSEMBLE, payload, _unchanged)
        if not isinstance(assembled, Assembly):
            raise ConfigError(f"a listener of {ASSEMBLE} gave {type(assembled).__name__}; it gives on an Assembly")
        self._log.context(_joined(assembled.contexts))
        return assembled

    async def _answer(self, assembled: Assembly) -> Answer:
        """The answer to this step, its message logged; calls are repeated as the policy says."""
        config, log = self._config, self._log
        system, options = _joined(assembled.sections), dict(config.options)
        tools = assembled.tools
        header: JsonObject = {"config": {"provider": config.provider, "model": config.model, **options}, "system": system}
        log.request_header({**header, "tools": list(tools)} if tools else header)
        messages = log.session.messages()
        retry_id, retry, began = str(uuid.uuid4()), 0, time.monotonic()
        while True:
            payload = Attempt(self._agent, self._signal, log.session.header.id, log.turn, log.step)
            await self._bus.waterfall(REQUEST, payload, _unchanged)
            request = ModelRequest(
                messages=messages,
                tools=cast("Sequence[JsonObject]", tools),
                provider=config.provider,
                model=config.model,
                options=options,
                session_id=log.session.header.id,
                signal=self._signal,
                system=system or None,
            )
            try:
                return await self._call(mark_loop_request(request))
            except ModelFailure as failure:
                retry += 1
                delay_s = config.retry.delay_s(failure, retry)
                if delay_s is None:
                    failure.attempts, failure.elapsed_s = retry, time.monotonic() - began
                    raise
                await self._wait(failure, retry_id, retry, delay_s)

    async def _call(self, request: ModelRequest) -> Answer:
        """One call. A failure is logged as the finish it is, so that a replay fails alike, and raised as ``ModelFailure``."""
        log, answer, turns, first = self._log, Answer(), Turns(), None
        last = -1
        model: JsonObject = {"provider": self._config.provider, "model": self._config.model}
        try:
            stream = self._llm.stream(request)
            async with aclosing(cast("Any", stream)) as chunks:
                async for chunk in cast("AsyncIterator[StreamChunk]", chunks):
                    answer.add(chunk)
                    last = log.chunk(chunk)
                    first = last if first is None else first
                    if self._signal.aborted:
                        raise AbortError("the run was aborted")  # noqa: TRY301 - ends like an adapter's own
                    if answer.finish is not None:
                        break
                    if turns.due:  # a model that never waits must not keep an abort, or anyone, waiting
                        await turns.give()
            if answer.finish is None:
                raise ModelFailure("the model's answer has no end", code="STREAM_CLOSED")  # noqa: TRY301 - as above
        except BaseException as error:
            if self._is_abort(error) or not isinstance(error, Exception):
                self._interrupted(answer, model, range(first or 0, last + 1))
                raise
            if answer.finish is None:
                log.chunk({"type": "finish", "reason": {"kind": "error", "failure": failure_json(error)}})
            failure = failure_of(error)
            if failure is not None and failure is not error:
                raise failure from error
            raise
        if answer.finish_kind in ERROR_FINISHES:
            raise failure_of_finish(answer.finish)
        content = answer.content(with_tools=answer.finish_kind != "max-tokens")
        if answer.replay_state is not None and content == answer.content():
            model["replayState"] = answer.replay_state
        log.assistant_message(content, model, answer.usage, range(first or 0, last + 1))
        if answer.usage is not None:
            self.usages.append(answer.usage)
        self._said = [block for block in content if block.get("type") == "text"] or self._said
        return answer

    def _interrupted(self, answer: Answer, model: JsonObject, chunks: range) -> None:
        """The model was stopped while it spoke: what it said counts, what it had begun to ask for does not."""
        content = answer.content(with_tools=False)
        if any(block.get("type") == "text" for block in content):
            self._log.assistant_message(content, model, answer.usage, chunks, interrupted=True)
            self._said = [block for block in content if block.get("type") == "text"]

    async def _wait(self, failure: ModelFailure, retry_id: str, retry: int, delay_s: float) -> None:
        policy = self._config.retry
        self._log.retry(
            {
                "retryId": retry_id,
                "provider": self._config.provider,
                "mode": "normal",
                "policyKey": policy.key,
                "retry": retry,
                "maxRetries": policy.max_retries,
                "delayMs": delay_s * 1000,
                "failure": failure.to_json(),
            }
        )
        await policy.sleep(delay_s)
        self._log.retry_started(retry_id, retry)

    # The tools

    async def _run_tools(self, calls: Sequence[JsonObject]) -> None:
        """Run all calls at once. They are on disk before they begin, for what they do may not be undone."""
        seqs = [self._log.tool_call(call) for call in calls]
        tasks: list[asyncio.Task[tuple[ToolOutput, int]]] = []
        logged = 0
        try:
            await self._log.flush()
            tasks += [asyncio.create_task(self._run_tool(call), name=f"tool {call['name']}") for call in calls]
            for task in tasks:
                await asyncio.wait({task})
                self._log_result(calls[logged], seqs[logged], task)
                logged += 1
        except BaseException:
            try:
                for task in tasks:
                    task.cancel()
                await wait_a_little(tasks)
            finally:  # every call gets its result, or no model could be asked again
                for number in range(logged, len(calls)):
                    stopped = tasks[number] if number < len(tasks) else None
                    self._log_result(calls[number], seqs[number], stopped, stopped=True)
            raise
        self._check_invalid(calls, [task.result()[0] for task in tasks])

    def _check_invalid(self, calls: Sequence[JsonObject], outputs: Sequence[ToolOutput]) -> None:
        """Raise ``CassetteLabError`` (``INVALID_CALLS``) where a model goes on and on with calls that cannot be made."""
        if not all((output.error or {}).get("code") in _UNCALLABLE for output in outputs):
            self._invalid = (None, 0)
            return
        made = [(call["name"], call["arguments"]) for call in calls]
        times = self._invalid[1] + 1 if made == self._invalid[0] else 1
        self._invalid = made, times
        if times == MOST_INVALID:
            why = text_of(outputs[0].content).removeprefix("Error: ")
            raise CassetteLabError(
                f"the model has made the same invalid call of the tool {show(calls[0]['name'])} {times} times in a row "
                f"({show(why[:_LONGEST_WHY])}); look at the tool's description, or take another model",
                code="INVALID_CALLS",
            )

    async def _run_tool(self, call: JsonObject) -> tuple[ToolOutput, int]:
        context = ToolContext(self._agent, self._signal, call["id"])
        output = await carry_out(self._tools.get(call["name"]), call, context)
        return output, now_ms()

    def _log_result(
        self, call: JsonObject, seq: int, task: asyncio.Task[tuple[ToolOutput, int]] | None, *, stopped: bool = False
    ) -> None:
        """Log what a task came to. Raises what ends the run, unless that is being stopped already."""
        output, time_ms = ABORTED_OUTPUT, None
        if task is not None and task.done() and not task.cancelled() and (not stopped or task.exception() is None):
            output, time_ms = task.result()
        self._log.tool_result(call["id"], seq, output.content, error=output.error, is_error=output.is_error, time_ms=time_ms)

    # The end

    async def _fail(self, error: BaseException) -> None:
        """Close the log of a turn that was stopped or has failed."""
        if self._in_step:
            self._log.end_step()
        if self._is_abort(error) or not isinstance(error, Exception):
            self._log.end_turn({"kind": "aborted", "reason": {"kind": self._who_aborted()}})
        else:
            self._log.end_turn({"kind": "error", "error": failure_json(error)})
        await self._flush_at_the_end()

    async def _flush_at_the_end(self) -> None:
        """An abort may come late; its cancellation then changes nothing any more."""
        try:
            await self._log.flush()
        except asyncio.CancelledError:
            if not self._signal.aborted:
                raise
            await self._log.flush()

    def _is_abort(self, error: BaseException) -> bool:
        return self._signal.aborted and isinstance(error, (asyncio.CancelledError, AbortError))

    def _who_aborted(self) -> str:
        if self._signal.reason == DISPOSED:
            return "disposed"
        return "parent" if self._log.session.header.origin is not None else "user"


_UNCALLABLE: Final = frozenset({"INVALID_ARGS", "UNKNOWN_TOOL"})
_LONGEST_WHY: Final = 300


async def _unchanged(payload: Any) -> Any:
    return payload


def _joined(parts: Sequence[Mapping[str, Any]]) -> str:
    return "\n\n".join(str(part["text"]) for part in parts if part.get("text"))
