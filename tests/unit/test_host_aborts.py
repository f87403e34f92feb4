"""Runs that are stopped at any moment, in any way, leave a log that can be read, continued and sent to a model."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.contracts import AbortController
from cassette_lab.errors import CassetteLabError
from cassette_lab.host.agent import Agent
from cassette_lab.host.context import Context
from cassette_lab.host.models.failures import ModelFailure
from cassette_lab.host.models.scripted import Call, Say, ScriptedModel
from cassette_lab.host.retrying import RetryPolicy
from cassette_lab.session.store_jsonl import JsonlStore
from tests.unit.host_samples import facts_of
from tests.unit.upstreams import play

RUNS_A_SEED = 12


def script(dice: random.Random) -> Any:
    """A model that says anything, and delegates now and then."""

    async def answer(_: Any) -> Any:
        await asyncio.sleep(dice.choice((0, 0, 0.001)))
        said = dice.random()
        if said < 0.15:
            return ModelFailure("busy", code=dice.choice(("RATE_LIMIT", "SERVER", "AUTH", "CONTENT_FILTER")))
        if said < 0.2:
            return Say("half of", error=ModelFailure("gone", code="TRANSPORT"))
        if said < 0.25:
            return Say("too long", finish="max-tokens")
        if said < 0.65:
            names = dice.choices(("quick", "slow", "thread", "broken", "nope", "subagent"), k=dice.randint(1, 4))
            return Say(
                "let me", [Call(name, {"description": "d", "prompt": "p"} if name == "subagent" else {}) for name in names]
            )
        return Say("a few words", pace_s=dice.choice((0, 0.0005)))

    return answer


async def quick() -> str:
    """Quick."""
    return "quick"


async def slow() -> str:
    """Slow."""
    try:
        await asyncio.sleep(0.004)
    finally:
        await asyncio.sleep(0)
    return "slow"


def thread() -> str:
    """In a thread."""
    return "thread"


def broken() -> str:
    """Broken."""
    raise ValueError("broken")


async def _stopped(work: Agent, dice: random.Random) -> None:
    """One turn, stopped somewhere by a cancellation or a signal, or not at all."""
    controller = AbortController()
    task = asyncio.create_task(work.run("go", signal=controller.signal))
    await asyncio.sleep(dice.random() * 0.015)
    how = dice.choice(("cancel", "abort", "wait"))
    if how == "cancel":
        task.cancel()
    elif how == "abort":
        controller.abort("enough")
    try:
        result = await task
        assert how != "wait" or result.stop_reason != "aborted"
    except asyncio.CancelledError:
        assert how == "cancel"
    except CassetteLabError as error:
        if error.code not in ("RATE_LIMIT", "SERVER", "AUTH", "TRANSPORT", "STEP_LIMIT"):
            raise


async def _runs(folder: Path, seed: int) -> list[str]:
    dice = random.Random(seed)  # noqa: S311 - no secret
    retry = RetryPolicy(max_retries=2, first_delay_s=0.001)
    with JsonlStore(folder) as store:
        for _ in range(RUNS_A_SEED):
            work = Agent(
                ScriptedModel(script(dice)),
                tools=[quick, slow, thread, broken],
                subagents="spawn",
                max_depth=2,
                max_steps=6,
                retry=retry,
                sessions=store,
                context=Context(),
            )
            async with work:
                for _ in range(2):
                    await _stopped(work, dice)
            assert not work.is_running
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return [header.id for header in store.headers()]


@pytest.mark.parametrize("seed", range(4))
def test_however_a_run_is_stopped_its_log_is_whole(tmp_path: Path, seed: int) -> None:
    ids = play(_runs(tmp_path, seed))
    assert len(ids) >= RUNS_A_SEED
    ends = set()
    for session_id in ids:
        facts = facts_of(tmp_path, session_id)
        assert facts.problems == ()
        assert facts.surface.problem is None
        assert all(not turn.is_open for turn in facts.turns)
        assert all(not step.is_open for step in facts.steps)
        assert all(call.has_result for call in facts.tool_calls)
        asked = {call.call_id for call in facts.tool_calls}
        assert len(asked) == len(facts.tool_calls)
        ends |= {turn.end_kind for turn in facts.turns}
    assert "aborted" in ends
    assert ends - {"aborted"}
