"""The recorder: one state of records, counters, revision and listeners."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cassette_lab.errors import ConfigError
from cassette_lab.flight.model import Omissions, Outcome, RecordExtra, Usage
from cassette_lab.flight.recorder import FlightConfig, FlightRecorder
from cassette_lab.jsonio import MAX_SAFE_INTEGER
from tests.unit.flight_samples import record, shape

DONE = Outcome("finished", finish="stop", total_ms=2.0)


def test_a_snapshot_is_one_moment() -> None:
    recorder = FlightRecorder(2)
    for name in ("a", "b", "c"):
        recorder.insert(record(name, omissions=Omissions(request_tools=1) if name == "b" else Omissions()))
    snapshot = recorder.snapshot()
    recorder.settle("c", DONE)
    recorder.miss("missing-signal")
    assert [each.id for each in snapshot.records] == ["c", "b"]
    assert (snapshot.revision, snapshot.health.evicted, snapshot.health.active, snapshot.health.truncated_records) == (
        3,
        1,
        3,
        1,
    )
    assert snapshot.records[0].outcome.kind == "running"
    assert recorder.revision == 5


def test_views_cannot_be_changed() -> None:
    recorder = FlightRecorder()
    recorder.insert(record())
    snapshot = recorder.snapshot()
    with pytest.raises(AttributeError):
        snapshot.revision = 7  # type: ignore[misc]
    with pytest.raises(AttributeError):
        snapshot.records[0].turn = 7  # type: ignore[misc]
    with pytest.raises(TypeError):
        snapshot.health.correlation_misses_by_reason["missing-signal"] = 7  # type: ignore[index]


def test_the_same_id_twice_is_an_error_and_changes_nothing() -> None:
    recorder = FlightRecorder()
    recorder.insert(record())
    with pytest.raises(ConfigError, match="already"):
        recorder.insert(record())
    assert recorder.snapshot().health.captured == 1


def test_the_revision_stops_at_the_largest_safe_integer() -> None:
    recorder = FlightRecorder()
    recorder._revision = MAX_SAFE_INTEGER - 1
    recorder.insert(record())
    recorder.settle("r1", DONE)
    assert recorder.revision == MAX_SAFE_INTEGER


@pytest.mark.parametrize("capacity", [0, -1, 1.5, "5", True, None, 2**53, float("nan")])
def test_a_capacity_is_a_whole_number_from_one_on(capacity: Any) -> None:
    with pytest.raises(ConfigError, match="whole number") as raised:
        FlightRecorder(capacity)
    assert raised.value.code == "OUT_OF_RANGE"


def test_thresholds_have_defaults_and_limits() -> None:
    assert FlightConfig.from_json({"capacity": None, "mine": 1}).to_json() == {
        "capacity": 128, "slowFirstChunkMs": 1000, "slowTotalMs": 2000, "mine": 1,
    }  # fmt: skip
    with pytest.raises(ConfigError):
        FlightConfig(slow_total_ms=0)


def test_queries() -> None:
    recorder = FlightRecorder()
    for number in range(4):
        recorder.insert(record(f"r{number}", session_id="even" if number % 2 == 0 else "odd", step=number))
    recorder.settle("r2", DONE)
    assert [each.id for each in recorder.query(session_id="even")] == ["r2", "r0"]
    assert [each.id for each in recorder.query(limit=3, outcome="running")] == ["r3", "r1", "r0"]
    assert [each.id for each in recorder.query(provider="mock", model="m-1", turn=1, step=3)] == ["r3"]
    assert recorder.query(model="other") == ()
    assert getattr(recorder.latest("even"), "id", None) == "r2"
    assert recorder.latest("nobody") is None
    with pytest.raises(ConfigError):
        recorder.query(limit=0)


def test_auxiliary_records_have_a_ring_of_their_own() -> None:
    recorder = FlightRecorder(2)
    recorder.insert(record("step"))
    for name in ("a", "b", "c"):
        recorder.insert_auxiliary(record(name, extra=RecordExtra(auxiliary=True)))
    assert recorder.settle_auxiliary("c", DONE, RecordExtra(auxiliary=True))
    assert not recorder.settle_auxiliary("a", DONE, RecordExtra())
    snapshot = recorder.snapshot()
    assert [(each.id, each.outcome.kind) for each in snapshot.auxiliary] == [("c", "finished"), ("b", "running")]
    assert (snapshot.revision, snapshot.health.captured, snapshot.health.active) == (1, 1, 1)


def test_dispose_empties_it_for_good() -> None:
    recorder = FlightRecorder()
    recorder.insert(record())
    recorder.dispose()
    recorder.dispose()
    recorder.insert(record("late"))
    recorder.insert_auxiliary(record("late"))
    recorder.miss("missing-signal")
    recorder.projection_failed()
    assert not recorder.settle("r1", DONE)
    assert recorder.snapshot() == FlightRecorder().snapshot()
    assert "disposed" in repr(recorder)
    with pytest.raises(ConfigError, match="disposed"):
        recorder.persist("nowhere.jsonl")


class TestSubscriptions:
    async def _turns(self) -> None:
        for _ in range(4):
            await asyncio.sleep(0)

    def test_changes_fold_and_never_reach_a_listener_at_once(self) -> None:
        async def run() -> None:
            recorder = FlightRecorder()
            told: list[dict[str, int]] = []
            stop = recorder.subscribe(told.append)
            recorder.insert(record())
            recorder.settle("r1", DONE)
            assert told == []
            await self._turns()
            assert told == [{"revision": 2}]
            stop()
            stop()
            recorder.miss("missing-signal")
            await self._turns()
            assert told == [{"revision": 2}]

        asyncio.run(run())

    def test_an_async_listener_is_called_once_more_afterwards(self) -> None:
        async def run() -> None:
            recorder, told, gate = FlightRecorder(), [], asyncio.Event()
            running = 0

            async def listener(change: dict[str, int]) -> None:
                nonlocal running
                running += 1
                assert running == 1, "two calls at once"
                told.append(change["revision"])
                await gate.wait()
                running -= 1

            recorder.subscribe(listener)
            recorder.miss("missing-signal")
            await self._turns()
            for _ in range(3):
                recorder.miss("missing-pending")
            await self._turns()
            assert told == [1]
            gate.set()
            await self._turns()
            await self._turns()
            assert told == [1, 4]

        asyncio.run(run())

    def test_failures_count_and_change_nothing(self) -> None:
        async def run() -> None:
            recorder = FlightRecorder()
            told: list[dict[str, int]] = []

            def bad(_: object) -> None:
                raise ValueError("no")

            async def worse(_: object) -> None:
                raise KeyError("no")

            recorder.subscribe(bad)
            recorder.subscribe(worse)
            recorder.subscribe(told.append)
            recorder.miss("missing-signal")
            await self._turns()
            recorder.miss("missing-signal")
            await self._turns()
            assert recorder.health().subscriber_failures == 4
            assert [each["revision"] for each in told] == [1, 2]

        asyncio.run(run())

    def test_a_change_in_another_thread_is_told_on_the_listeners_loop(self) -> None:
        async def run() -> None:
            recorder, told = FlightRecorder(), asyncio.Queue[int]()
            recorder.subscribe(lambda change: told.put_nowait(change["revision"]))
            await asyncio.to_thread(recorder.miss, "missing-signal")
            assert await asyncio.wait_for(told.get(), 5) == 1

        asyncio.run(run())

    def test_a_listener_whose_loop_is_gone_hinders_nobody(self) -> None:
        recorder = FlightRecorder()
        told: list[dict[str, int]] = []

        async def subscribe() -> None:
            recorder.subscribe(told.append)

        asyncio.run(subscribe())
        recorder.miss("missing-signal")
        recorder.miss("missing-signal")
        assert told == []
        assert recorder.revision == 2

    def test_without_a_loop_there_is_no_later(self) -> None:
        with pytest.raises(RuntimeError):
            FlightRecorder().subscribe(print)

    def test_disposal_forgets_listeners_and_what_is_due(self) -> None:
        async def run() -> None:
            recorder = FlightRecorder()
            told: list[dict[str, int]] = []
            recorder.subscribe(told.append)
            recorder.miss("missing-signal")
            recorder.dispose()
            recorder.subscribe(told.append)()
            await self._turns()
            assert told == []

        asyncio.run(run())


def test_a_recorder_is_freed() -> None:
    recorder = FlightRecorder()
    recorder.insert(record())
    gone = weakref.ref(recorder)
    recorder.dispose()
    del recorder
    gc.collect()
    assert gone() is None


def test_a_listener_is_a_function() -> None:
    with pytest.raises(ConfigError, match="a listener is a function, not NoneType"):
        FlightRecorder(later=lambda _: None).subscribe(None)  # type: ignore[arg-type]


def test_a_listener_that_is_at_it_ends_also_where_its_recorder_is_forgotten() -> None:
    async def scenario() -> list[str]:
        told = list[str]()

        async def listen(_: dict[str, int]) -> None:
            await asyncio.sleep(0.01)
            told.append("done")

        recorder = FlightRecorder()
        recorder.subscribe(listen)
        recorder.miss("missing-signal")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del recorder
        gc.collect()
        await asyncio.sleep(0.05)
        return told

    assert asyncio.run(scenario()) == ["done"]


class TestThreads:
    def test_a_snapshot_is_one_moment_whoever_records_meanwhile(self) -> None:
        recorder = FlightRecorder(5)
        done = threading.Event()

        def work(name: str) -> None:
            for number in range(300):
                recorder.insert(record(f"{name}{number}"))
                recorder.settle(f"{name}{number}", DONE)

        def look() -> None:
            while not done.is_set():
                snapshot = recorder.snapshot()
                assert snapshot.health.retained == len(snapshot.records)
                assert snapshot.health.captured == snapshot.health.completed + snapshot.health.active
                assert len(recorder.query(limit=3)) <= 3

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            with ThreadPoolExecutor(4) as pool:
                looking = pool.submit(look)
                working = [pool.submit(work, name) for name in "abc"]
                for each in working:
                    each.result()
                done.set()
                looking.result()
        finally:
            done.set()
            sys.setswitchinterval(interval)
        assert recorder.health().completed == 900

    def test_changes_of_many_threads_reach_a_listener_once_at_a_time(self) -> None:
        async def scenario() -> list[int]:
            recorder, told, at_once = FlightRecorder(), list[int](), set[int]()

            async def listen(news: dict[str, int]) -> None:
                assert not at_once
                at_once.add(1)
                await asyncio.sleep(0)
                at_once.clear()
                told.append(news["revision"])

            recorder.subscribe(listen)
            await asyncio.gather(*(asyncio.to_thread(_misses, recorder) for _ in range(4)))
            for _ in range(5):
                await asyncio.sleep(0)
            assert recorder.health().subscriber_failures == 0
            return told

        told = asyncio.run(scenario())
        assert told[-1] == 400
        assert told == sorted(told)


def _misses(recorder: FlightRecorder) -> None:
    for _ in range(100):
        recorder.miss("missing-signal")


def test_a_diff_is_by_default_of_the_newest_and_the_one_before_of_its_session() -> None:
    recorder = FlightRecorder()
    with pytest.raises(ConfigError, match="a diff needs two records of a session"):
        recorder.diff()
    for name, session in (("a", "s"), ("other", "t"), ("b", "s")):
        recorder.insert(record(name, session_id=session))
    for found in (recorder.diff(), recorder.diff("a"), recorder.diff(to_id="b")):
        assert found.diff is not None
        assert (found.diff.from_id, found.diff.to_id) == ("a", "b")
    assert recorder.diff("gone").ids == ("gone",)
    with pytest.raises(ConfigError, match="needs two"):
        recorder.diff(to_id="other")


def test_a_record_and_its_outcome_are_one_line_each() -> None:
    done = Outcome("finished", finish="stop", total_ms=1_400, first_chunk_ms=120, usage=Usage(1_500, 3))
    assert repr(done) == "<outcome: finished (stop), first chunk 120 ms, total 1.4 s, tokens in 1,500, out 3>"
    failed = Outcome("threw", error="error", total_ms=2.0)
    shown = repr(record("a1b2c3d4-x", outcome=failed, extra=RecordExtra(error_code="SERVER", http_status=500)))
    assert shown == (
        "<flight record a1b2c3d4 of s: turn 1, step 1, attempt 1, mock / m-1, threw (error), total 2.0 ms, HTTP 500, SERVER>"
    )
    assert repr(Outcome("running")) == "<outcome: running>"
    assert "\x1b" not in repr(record("\x1b[31m", session_id="\x1b", request=shape("\x1b")))
