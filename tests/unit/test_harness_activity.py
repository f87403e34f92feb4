"""When a prompt of the real runtime is done, from what the runtime tells; without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cassette_lab.errors import ClosedError
from cassette_lab.host.harness.activity import QUIET_S, UNFINISHED_QUIET_S, Activity, Watch


def status(session_id: str, state: str) -> tuple[str, dict[str, Any]]:
    return "session.status", {"sessionId": session_id, "status": state}


def event(session_id: str, kind: str, **data: Any) -> tuple[str, dict[str, Any]]:
    return "session.event", {"sessionId": session_id, "event": {"type": kind, "data": data}}


def lifecycle(kind: str, child: str, parent: str = "root") -> tuple[str, dict[str, Any]]:
    return f"subagent.{kind}", {"childSessionId": child, "parentSessionId": parent}


RECEIPT = event("root", "agent/inbox/spliced", inserted=[{"id": "m1"}])


def watched(work: Callable[[Activity, Watch, asyncio.Task[None]], Any]) -> Watch:
    async def run() -> Watch:
        activity = Activity()
        watch = activity.begin("root")
        watch.message_id = "m1"
        task = asyncio.create_task(watch.settled())
        await asyncio.sleep(0)
        await work(activity, watch, task)
        return watch

    return asyncio.run(run())


def test_it_is_done_when_all_have_been_idle_for_a_while() -> None:
    async def work(activity: Activity, _watch: Watch, task: asyncio.Task[None]) -> None:
        activity.hear(*status("root", "idle"))
        await asyncio.sleep(QUIET_S * 1.5)
        assert not task.done(), "idle, and the prompt has not been received"
        activity.hear(*RECEIPT)
        activity.hear(*status("root", "running"))
        activity.hear(*event("root", "assistant/message", message={"content": [{"type": "text", "text": "So."}]}))
        activity.hear(*event("root", "turn/end", reason={"kind": "completed"}))
        activity.hear(*status("root", "idle"))
        await asyncio.wait_for(task, QUIET_S * 8)

    watch = watched(work)
    assert (watch.text, watch.end_kind) == ("So.", "completed")


def test_it_waits_for_children_and_for_what_they_wake() -> None:
    async def work(activity: Activity, _watch: Watch, task: asyncio.Task[None]) -> None:
        for told in (
            RECEIPT,
            lifecycle("started", "c"),
            lifecycle("started", "g", "c"),
            status("root", "idle"),
            status("c", "idle"),
        ):
            activity.hear(*told)
        assert list(activity.descendants("root")) == ["c", "g"]
        await asyncio.sleep(QUIET_S * 2)
        assert not task.done()
        activity.hear(*status("g", "idle"))
        assert activity.quiet_s("root") == UNFINISHED_QUIET_S, "it wakes its parent before its end is told"
        activity.hear(*status("c", "running"))
        activity.hear(*lifecycle("finished", "g", "c"))
        assert activity.quiet_s("root") is None
        activity.hear(*status("c", "idle"))
        activity.hear(*lifecycle("finished", "c"))
        assert activity.quiet_s("root") == QUIET_S
        activity.hear(*status("c", "running"))
        assert activity.quiet_s("root") is None
        activity.hear(*status("c", "idle"))
        assert activity.quiet_s("root") == UNFINISHED_QUIET_S, "a child that goes on will end once more"
        activity.hear(*lifecycle("finished", "c"))
        await asyncio.wait_for(task, QUIET_S * 8)

    watched(work)


def test_a_runtime_that_ends_ends_the_waiting() -> None:
    async def work(activity: Activity, _watch: Watch, task: asyncio.Task[None]) -> None:
        activity.end(ClosedError("it is closed"))
        activity.end(RuntimeError("later"))
        with pytest.raises(ClosedError):
            await task

    watched(work)


def test_others_and_odd_things_are_passed_over() -> None:
    async def work(activity: Activity, watch: Watch, task: asyncio.Task[None]) -> None:
        for told in (
            event("other", "turn/end", reason={"kind": "error"}),
            ("session.event", {"sessionId": "root", "event": {"type": "turn/end", "data": 7}}),
            ("session.event", {"sessionId": "root", "event": 7}),
            ("session.status", {}),
            ("subagent.started", {"childSessionId": 7}),
            ("something.new", {}),
        ):
            activity.hear(*told)
        assert watch.end_kind is None
        task.cancel()

    watched(work)
