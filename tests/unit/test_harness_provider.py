"""The real runtime as a provider of subagents: its results go into a cassette and come from there."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from cassette_lab.contracts import AbortController, SubagentRequest, SubagentResult
from cassette_lab.errors import AbortError, ConfigError
from cassette_lab.host.contexts import record, replay
from cassette_lab.host.driving import drive
from cassette_lab.host.function import run_subagent
from cassette_lab.host.harness.provider import HarnessProvider, result_of
from cassette_lab.host.harness.runtime import HarnessRun
from cassette_lab.host.registry import REGISTRY
from cassette_lab.server.mock_model import Answer, MockModel
from tests.unit.harness_runs import OPTIONS, need_runtime
from tests.unit.test_harness_recording import runtimes

REQUEST = SubagentRequest([{"type": "text", "text": "Answer it."}], label="harness")


def provider(url: str, cwd: Path) -> HarnessProvider:
    return HarnessProvider(base_url=url, cwd=cwd, **OPTIONS)


def test_a_result_is_the_last_text() -> None:
    assert result_of(HarnessRun("s", "Said.", "completed")) == SubagentResult([{"type": "text", "text": "Said."}], "completed")
    assert result_of(HarnessRun("s", "", None)) == SubagentResult([], "error")


def test_a_result_says_what_it_failed_with() -> None:
    result = result_of(HarnessRun("s", "", "error", (), "AUTH", 401))
    assert result.to_json() == {"output": [], "stopReason": "error", "error": {"code": "AUTH", "status": 401}}
    assert result_of(HarnessRun("s", "", "error", (), "NETWORK")).extra == {"error": {"code": "NETWORK"}}


def test_an_option_that_is_unknown_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"no option modle; did you mean model\?"):
        HarnessProvider(modle="x")


def test_its_results_go_into_a_cassette(tmp_path: Path) -> None:
    need_runtime()
    file = tmp_path / "harness.cassette.jsonl"
    answer = SubagentResult([{"type": "text", "text": "It is said."}], "completed")

    async def run(url: str) -> None:
        undo = REGISTRY.register(provider(url, tmp_path))
        try:
            async with record(file, upstream_provider="harness"):
                assert await run_subagent(REQUEST) == answer
            async with replay(file):
                assert await run_subagent(REQUEST) == answer
        finally:
            undo()

    with MockModel([Answer("It is said.")]) as model:
        asyncio.run(run(model.base_url))
        assert len(model.requests) == 1
    assert runtimes() == []


def test_an_abort_or_a_disposal_ends_the_runtime(tmp_path: Path) -> None:
    need_runtime()

    async def run(url: str) -> None:
        harness = provider(url, tmp_path)
        controller = AbortController()
        aborted = await harness.start(SubagentRequest(REQUEST.prompt, signal=controller.signal))
        disposed = await harness.start(REQUEST)
        assert len(runtimes()) == 2
        await asyncio.sleep(0.3)
        began = time.monotonic()
        controller.abort()
        await disposed.dispose()
        for each in (aborted, disposed):
            assert await each.result() == SubagentResult([], "aborted")
            await each.dispose()
        assert time.monotonic() - began < 8
        assert runtimes() == []
        with pytest.raises(AbortError):
            await harness.start(SubagentRequest(REQUEST.prompt, signal=controller.signal))

    with MockModel(lambda _: Answer("word " * 500, pace_s=0.05)) as model:
        asyncio.run(run(model.base_url))


def test_a_run_that_is_disposed_at_once_leaves_no_runtime(tmp_path: Path) -> None:
    need_runtime()

    async def run(url: str) -> None:
        started = await provider(url, tmp_path).start(REQUEST)
        await started.dispose()
        assert await started.result() == SubagentResult([], "aborted")
        assert runtimes() == []

    with MockModel([Answer("Never asked for.")]) as model:
        asyncio.run(run(model.base_url))


def test_what_it_cannot_do_is_refused() -> None:
    async def run() -> None:
        await drive(HarnessProvider(), SubagentRequest(REQUEST.prompt, persona="a pirate"))

    with pytest.raises(ConfigError, match="does not support persona"):
        asyncio.run(run())
