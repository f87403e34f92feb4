"""Providers for the tests of recording: one that does what a test tells it, and how to run a test on an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar

from cassette_lab.cassette.config import CassetteConfig
from cassette_lab.cassette.install import CassetteHandle, open_cassette
from cassette_lab.contracts import Capabilities, ParentAgent, SubagentRequest, SubagentResult, SubagentRun
from cassette_lab.host.registry import SubagentRegistry

T = TypeVar("T")

CHILD_HEADER = {"origin": "subagent"}


def play(scenario: Coroutine[Any, Any, T], *, seconds: float = 20) -> T:
    """Run a test's coroutine; a test that hangs fails."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await scenario

    return asyncio.run(bounded())


def text_result(text: str = "done", stop_reason: str = "completed") -> SubagentResult:
    return SubagentResult(output=[{"type": "text", "text": text}], stop_reason=stop_reason)


def ask(text: str = "one", **members: Any) -> SubagentRequest:
    return SubagentRequest(prompt=[{"type": "text", "text": text}], **{"label": text, **members})


class UpstreamRun:
    """A run whose outcome a test sets. Disposed before that, it ends as aborted, unless it is ``stubborn``."""

    def __init__(self, local_agent: ParentAgent | None = None, *, stubborn: bool = False) -> None:
        self.id = "upstream"
        self.local_agent = local_agent
        self.stubborn = stubborn
        self.disposals = 0
        self.release_disposal: asyncio.Event | None = None
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def result(self) -> SubagentResult:
        answer: SubagentResult = await asyncio.shield(self.outcome)
        return answer

    async def dispose(self) -> None:
        self.disposals += 1
        if self.release_disposal is not None:
            await self.release_disposal.wait()
        if not self.outcome.done() and not self.stubborn:
            self.outcome.set_result(SubagentResult(output=[], stop_reason="aborted"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.dispose()


class Upstream:
    """Starts ``UpstreamRun``s.

    ``answer`` (a result or an exception) settles every run at once, ``error`` is raised by ``start``, ``gate`` holds it
    back; ``deaf`` keeps a cancellation of ``start`` to itself.
    """

    def __init__(self, name: str = "real", *, inherits_parent_context: bool = False) -> None:
        self.name = name
        self.capabilities = Capabilities(persona=False)
        self.inherits_parent_context = inherits_parent_context
        self.requests: list[SubagentRequest] = []
        self.runs: list[UpstreamRun] = []
        self.answer: Any = None
        self.error: BaseException | None = None
        self.gate: asyncio.Event | None = None
        self.deaf = False
        self.local_agent: ParentAgent | None = None
        self.stubborn = False

    async def start(self, request: SubagentRequest) -> SubagentRun:
        self.requests.append(request)
        if self.gate is not None:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                if not self.deaf:
                    raise
        if self.error is not None:
            raise self.error
        run = UpstreamRun(self.local_agent, stubborn=self.stubborn)
        if isinstance(self.answer, Exception):
            run.outcome.set_exception(self.answer)
        elif self.answer is not None:
            run.outcome.set_result(self.answer)
        self.runs.append(run)
        return run


def recording(path: Path, upstream: Upstream, **options: Any) -> CassetteHandle:
    """A cassette that records ``upstream`` into ``path``."""
    providers = SubagentRegistry()
    providers.register(upstream)
    return open_cassette(CassetteConfig(file=path, upstream_provider=upstream.name, **options), providers)


def replaying(path: Path, **options: Any) -> CassetteHandle:
    """A replay of ``path``."""
    return open_cassette(CassetteConfig(mode="replay", file=path, **options), SubagentRegistry())


async def one_call(handle: CassetteHandle, request: SubagentRequest) -> SubagentResult:
    """Start, await and dispose one run."""
    async with await handle.provider.start(request) as run:
        return await run.result()


async def record_calls(path: Path, *calls: tuple[SubagentRequest, Any], **options: Any) -> None:
    """A cassette of calls that end at once, each with its result."""
    upstream = Upstream()
    handle = recording(path, upstream, **options)
    for request, answer in calls:
        upstream.answer = answer
        await one_call(handle, request)
    await handle.dispose()
