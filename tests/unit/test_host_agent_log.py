"""What an agent writes down: the numbers of turns go on where the log does, and a slow disk holds nobody up."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from cassette_lab.host.agent import AgentResult
from cassette_lab.host.agent_log import AgentLog
from cassette_lab.session.persistence import StoredSession
from cassette_lab.session.session import Session, new_header
from cassette_lab.session.store_jsonl import JsonlStore
from cassette_lab.session.usage import Usage
from tests.unit.upstreams import play


class Disk(StoredSession):
    """A stored session whose disk takes as long as it is told, and that notes the threads it was written in."""

    takes_s = 0.0

    def flush(self) -> None:
        self.__dict__.setdefault("threads", []).append(threading.get_ident())
        time.sleep(self.takes_s)
        super().flush()


async def _flushes(folder: Path) -> None:
    disk = Disk.create(JsonlStore(folder), Session(new_header()))
    log = AgentLog(disk.session, disk)
    here = threading.get_ident()
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    for takes_s in (0.0, 0.0, 0.03, 0.03, 0.0, 0.0):
        disk.takes_s = takes_s
        log.start_turn()
        await log.flush()
    ticking.cancel()
    inline = [thread == here for thread in disk.__dict__["threads"]]
    assert not inline[0]  # nobody knows yet
    assert not inline[3]  # behind a slow one
    assert not inline[4]
    assert ticks >= 10  # the event loop went on
    log.close()
    assert len(list(JsonlStore(folder).load(disk.session.header.id).events())) == 6


def test_a_slow_disk_is_waited_for_in_a_thread(tmp_path: Path) -> None:
    play(_flushes(tmp_path))


def test_a_quick_disk_is_written_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("cassette_lab.host.agent_log._QUICK_S", 60)

    async def scenario() -> list[int]:
        disk = Disk.create(JsonlStore(tmp_path), Session(new_header()))
        log = AgentLog(disk.session, disk)
        for _ in range(3):
            log.start_turn()
            await log.flush()
        log.close()
        threads: list[int] = disk.__dict__["threads"]
        return [threads.index(thread) for thread in threads]

    assert play(scenario())[:3] == [0, 1, 1]


def test_turns_go_on_counting_and_steps_begin_anew() -> None:
    session = Session(new_header())
    log = AgentLog(session)
    for _ in range(2):
        log.start_turn()
        log.start_step()
        log.start_step()
        assert log.step == 2
        log.end_turn({"kind": "completed"})
    child = AgentLog(Session.fork(session))
    assert child.turn == 2
    child.start_turn()
    child.start_step()
    assert (child.turn, child.step) == (3, 1)


def test_a_header_is_logged_when_it_is_news() -> None:
    log = AgentLog(Session(new_header()))
    for model in ("a", "a", "b", "a"):
        log.request_header({"config": {"model": model}})
    assert [event.data["reason"] for event in log.session.events] == ["initial", "change", "change"]


def test_a_result_is_one_line() -> None:
    usage = Usage(input_tokens=1_500, output_tokens=3)
    result = AgentResult("completed", "It is 4. " * 100, output={"sum": 4}, usage=usage, turn=2, session_id="sums")
    shown = repr(result)
    assert shown.startswith("<agent result: completed, turn 2 of sums, text='It is 4. ")
    assert shown.endswith("…', output={'sum': 4}, tokens in 1,500, out 3>")
    assert len(shown) < 250
