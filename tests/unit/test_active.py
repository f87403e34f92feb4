"""The active cassette: one at a time, found from every task and thread, ended in order whatever happens under it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import errno
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cassette_lab as cl
from cassette_lab.cassette.model import Interaction
from cassette_lab.errors import RecordedAbortError
from cassette_lab.host import REGISTRY, active, current_cassette, tasks, threads
from tests.unit.upstreams import Upstream, ask, play, text_result

live_calls: list[Any] = []


@cl.subagent
async def echo(value: Any) -> Any:
    live_calls.append(value)
    await asyncio.sleep(0.001)
    return value


@cl.subagent
async def slow(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


@cl.subagent
async def deaf(seconds: float) -> str:
    """Does not listen to cancellations for so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            await asyncio.sleep(end - time.monotonic())
        except asyncio.CancelledError:
            continue
    return "done"


@cl.subagent
async def outer(value: Any) -> Any:
    return await echo(value)


def calls_of(path: Path) -> list[Interaction]:
    return sorted(cl.read_cassette(path).interactions, key=lambda call: call.sequence)


def results_of(path: Path) -> list[Any]:
    """Per call: the stop reason of its result, or the name of its error."""
    return [
        call.outcome.result["stopReason"] if call.outcome.result is not None else call.outcome.error and call.outcome.error.name
        for call in calls_of(path)
    ]


def record_echoes(path: Path, *values: Any) -> None:
    async def scenario() -> None:
        async with cl.record(path):
            for value in values:
                await echo(value)

    play(scenario())
    live_calls.clear()


@pytest.fixture(autouse=True)
def _nothing_stays_open() -> Any:
    live_calls.clear()
    yield
    cassette = current_cassette()
    if cassette is not None:
        cassette.close_now(KeyboardInterrupt())
        pytest.fail(f"{cassette} was left open")


class TestOneAtATime:
    @pytest.mark.parametrize("second", [cl.record, cl.replay])
    def test_a_second_or_nested_one_names_the_first(self, tmp_path: Path, second: Any) -> None:
        async def scenario() -> None:
            async with cl.record(tmp_path / "first") as first:
                assert current_cassette() is first
                with pytest.raises(cl.ConfigError, match=r"record of .*first.*one cassette at a time"):
                    second(tmp_path / "second").open()
                await echo(1)
            assert current_cassette() is None
            with pytest.raises(cl.ConfigError, match="opened once"):
                first.open()

        play(scenario())
        assert [call.request.metadata and call.request.metadata.label for call in calls_of(tmp_path / "first")] == ["echo"]

    def test_a_cassette_that_cannot_be_opened_leaves_the_place_free(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            with pytest.raises(cl.FormatError):
                await cl.replay(tmp_path / "missing").__aenter__()
            async with cl.record(tmp_path / "c"):
                pass

        play(scenario())

    def test_options_are_checked_at_once_and_unknown_ones_named(self, tmp_path: Path) -> None:
        with pytest.raises(cl.ConfigError, match=r"'writemode'.*write_mode"):
            cl.record(tmp_path / "c", writemode="append")  # type: ignore[call-arg]
        with pytest.raises(cl.ConfigError, match="speed"):
            cl.replay(tmp_path / "c", speed=0)
        assert not (tmp_path / "c").exists()

    def test_once_records_and_then_replays(self, tmp_path: Path) -> None:
        async def scenario() -> list[tuple[str, Any]]:
            seen: list[tuple[str, Any]] = []
            for _ in range(2):
                async with cl.record(tmp_path / "c", write_mode="once") as cassette:
                    seen.append((cassette.mode, await echo(1)))
            return seen

        assert play(scenario()) == [("record", 1), ("replay", 1)]
        assert live_calls == [1]


class TestLookup:
    def test_a_context_of_its_own_still_finds_it(self, tmp_path: Path) -> None:
        """As a fixture that opens it in another context than the test's."""

        async def scenario() -> None:
            cassette = cl.record(tmp_path / "c")
            task = asyncio.get_running_loop().create_task(cassette.__aenter__(), context=contextvars.Context())
            await task
            assert await echo(1) == 1
            await cassette.__aexit__(None, None, None)

        play(scenario())
        assert len(calls_of(tmp_path / "c")) == 1

    def test_opened_around_several_cells(self, tmp_path: Path) -> None:
        loop = asyncio.new_event_loop()
        try:
            cassette = cl.record(tmp_path / "c").open()
            for value in range(3):
                assert loop.run_until_complete(echo(value)) == value
            assert cassette.status().started == 3
            loop.run_until_complete(cassette.close())
        finally:
            loop.close()
        assert [call.parent_key for call in calls_of(tmp_path / "c")] == ["root"] * 3

    @pytest.mark.parametrize("context", [cl.record, cl.replay])
    def test_threads_and_executors_go_through_it(self, tmp_path: Path, context: Any) -> None:
        def in_loop_of_its_own(value: Any) -> Any:
            return asyncio.run(echo(value))

        async def work() -> list[Any]:
            loop = asyncio.get_running_loop()
            with concurrent.futures.ThreadPoolExecutor(2) as pool:
                in_pool = [loop.run_in_executor(pool, in_loop_of_its_own, value) for value in range(3)]
                values = [*await asyncio.gather(*in_pool), await asyncio.to_thread(in_loop_of_its_own, 3)]
            plain: list[Any] = []
            thread = threading.Thread(target=lambda: plain.append(in_loop_of_its_own(4)))
            thread.start()
            await asyncio.to_thread(thread.join)
            return values + plain

        async def scenario() -> None:
            async with cl.record(tmp_path / "c"):
                assert await work() == [0, 1, 2, 3, 4]
            if context is cl.replay:
                live_calls.clear()
                async with cl.replay(tmp_path / "c"):
                    assert await work() == [0, 1, 2, 3, 4]
                assert live_calls == []

        play(scenario())
        assert len(calls_of(tmp_path / "c")) == 5

    def test_errors_and_cancellations_cross_threads(self, tmp_path: Path) -> None:
        @cl.subagent
        async def fails() -> None:
            raise KeyError("k")

        def in_thread() -> str:
            with pytest.raises(KeyError):
                asyncio.run(fails())
            with pytest.raises(TimeoutError):
                asyncio.run(asyncio.wait_for(slow(30), 0.02))
            return "done"

        async def scenario() -> None:
            async with cl.record(tmp_path / "c"):
                assert await asyncio.to_thread(in_thread) == "done"

        play(scenario())
        assert results_of(tmp_path / "c") == ["KeyError", "aborted"]

    def test_a_thread_that_waits_for_a_blocked_loop_is_told_so(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(threads, "_HAND_OVER_S", 0.1)

        async def scenario() -> list[str]:
            told: list[str] = []

            def in_thread() -> None:
                try:
                    asyncio.run(echo(1))
                except cl.ClosedError as error:
                    told.append(str(error))

            async with cl.record(tmp_path / "c"):
                thread = threading.Thread(target=in_thread)
                thread.start()
                thread.join()  # blocks the loop that the call needs
            return told

        (sentence,) = play(scenario())
        assert "blocked" in sentence
        assert "asyncio.to_thread" in sentence
        assert calls_of(tmp_path / "c") == []

    def test_a_forked_process_does_not_go_live_under_a_replay(self, tmp_path: Path) -> None:
        record_echoes(tmp_path / "c", 1)

        async def scenario() -> str:
            async with cl.replay(tmp_path / "c", assert_consumed=False):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)  # the child does one call and ends
                    with multiprocessing.get_context("fork").Pool(1) as pool:
                        return pool.apply(_call_in_child)

        assert "belongs to another process" in play(scenario())

    def test_inside_a_subagent_a_new_cassette_starts_at_the_root(self, tmp_path: Path) -> None:
        @cl.subagent
        async def harness() -> str:
            async with cl.record(tmp_path / "c"):
                await outer(1)
            return "done"

        play(harness())
        assert [call.parent_key.count("/") for call in calls_of(tmp_path / "c")] == [0, 1]


def _call_in_child() -> str:
    try:
        asyncio.run(echo(1))
    except cl.ClosedError as error:
        return str(error)
    return f"live: {live_calls}"


class TestAfterTheEnd:
    def test_a_task_that_outlives_a_replay_is_refused_and_never_goes_live(self, tmp_path: Path) -> None:
        record_echoes(tmp_path / "c", 1)

        async def scenario() -> None:
            gate = asyncio.Event()

            async def later() -> Any:
                await gate.wait()
                return await echo(2)

            async with cl.replay(tmp_path / "c"):
                task = asyncio.create_task(later())
                await echo(1)
            gate.set()
            with pytest.raises(cl.ClosedError, match=r"'echo'.*not made live"):
                await task
            assert live_calls == []
            assert await echo(3) == 3
            assert live_calls == [3]

        play(scenario())

    def test_a_task_that_outlives_a_recording_goes_live_with_a_warning(self, tmp_path: Path) -> None:
        async def scenario() -> Any:
            gate = asyncio.Event()

            async def later() -> Any:
                await gate.wait()
                return await echo(2)

            async with cl.record(tmp_path / "c") as cassette:
                task = asyncio.create_task(later())
                await echo(1)
            gate.set()
            async with cl.record(tmp_path / "another"):
                with pytest.warns(RuntimeWarning, match=r"'echo'.*missing in the file"):
                    assert await task == 2
            return cassette.status()

        status = play(scenario())
        assert (status.late_calls, status.started, status.closed) == (1, 1, True)
        assert (len(calls_of(tmp_path / "c")), len(calls_of(tmp_path / "another"))) == (1, 0)

    def test_what_a_run_has_started_keeps_to_its_cassette_without_a_block_too(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            gate = asyncio.Event()
            tasks: list[asyncio.Task[Any]] = []

            @cl.subagent
            async def spawns() -> None:
                async def later() -> Any:
                    await gate.wait()
                    return await echo("late")

                tasks.append(asyncio.create_task(later()))

            await_recorded = cl.record(tmp_path / "c").open()
            await spawns()
            await await_recorded.close()
            gate.set()
            with pytest.warns(RuntimeWarning):
                await tasks[0]
            assert await_recorded.status().late_calls == 1

        play(scenario())


class TestLeaving:
    def test_it_waits_for_calls_that_nobody_awaits_and_for_what_they_call(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with cl.record(tmp_path / "c") as cassette:
                task = asyncio.create_task(outer(1))
                await asyncio.sleep(0)
                assert cassette.status().running == ("outer",)
            assert cassette.status().running == ()
            assert await task == 1

        play(scenario())
        assert results_of(tmp_path / "c") == ["completed", "completed"]

    def test_a_task_that_was_only_just_made_still_counts(self, tmp_path: Path) -> None:
        async def scenario() -> Any:
            async with cl.record(tmp_path / "c"):
                task = asyncio.create_task(outer(1))
            return await task

        assert play(scenario()) == 1
        assert results_of(tmp_path / "c") == ["completed", "completed"]

    def test_calls_that_do_not_end_are_named_stopped_and_recorded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(active, "ABORT_GRACE_S", 0.1)

        async def scenario() -> None:
            tasks: list[asyncio.Task[str]] = []

            async def body() -> None:
                async with cl.record(tmp_path / "c", settle_timeout_s=0.05):
                    tasks.extend([asyncio.create_task(slow(30)), asyncio.create_task(deaf(0.5))])
                    await asyncio.sleep(0.01)

            with pytest.raises(cl.CassetteLabError, match=r"2 calls.*slow, deaf.*settle_timeout_s") as unsettled:
                await body()
            assert unsettled.value.code == "STILL_RUNNING"
            assert len(calls_of(tmp_path / "c")) == 2
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(result, cl.AbortError) for result in results)

        play(scenario())
        assert results_of(tmp_path / "c") == ["aborted", "aborted"]

    def test_the_bodys_own_exception_wins_and_skips_the_check(self, tmp_path: Path) -> None:
        record_echoes(tmp_path / "c", 1, 2)

        async def scenario() -> Any:
            error = ValueError("own")
            cassette = cl.replay(tmp_path / "c")

            async def body() -> None:
                async with cassette:
                    await echo(1)
                    raise error

            with pytest.raises(ValueError, match="own") as raised:
                await body()
            assert raised.value is error
            return cassette.status()

        status = play(scenario())
        assert status.consumption == "skipped: ValueError was raised"
        assert (status.consumed, status.total) == (1, 2)

    def test_what_goes_wrong_at_the_end_is_noted_on_the_bodys_exception(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async def body() -> None:
                async with cl.record(tmp_path / "c"):
                    (tmp_path / "c").unlink()
                    raise ValueError("own")

            with pytest.raises(ValueError, match="own") as raised:
                await body()
            assert "removed or replaced" in raised.value.__notes__[0]

        play(scenario())

    def test_a_replay_checks_that_it_was_asked_for_everything(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with cl.record(tmp_path / "c"):
                await outer(1)
                await echo(2)
            live_calls.clear()
            seen = []
            for options, values in (
                ({"nested": "covered"}, (1, 2)),
                ({}, (1, 2)),
                ({"nested": "covered"}, (1,)),
                ({"assert_consumed": False}, ()),
            ):
                cassette = cl.replay(tmp_path / "c", **options)
                try:
                    async with cassette:
                        for value in values:
                            await (outer if value == 1 else echo)(value)
                except cl.MismatchError as error:
                    seen.append(str(error).partition(":")[0])
                seen.append(cassette.status().consumption)
            assert seen == [
                "complete",
                "1 of 3 recorded calls was never asked for; it lies below a call that was replayed",
                "1 call was never asked for",
                "1 of 3 recorded calls was never asked for",
                "1 call was never asked for",
                "not checked",
            ]
            assert live_calls == []

        play(scenario())

    def test_counters_and_saved_time(self, tmp_path: Path) -> None:
        async def work() -> None:
            await asyncio.gather(slow(0.03), echo(1))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(slow(30), 0.01)

        async def scenario() -> tuple[Any, Any]:
            async with cl.record(tmp_path / "c") as recording:
                await work()
            async with cl.replay(tmp_path / "c", assert_consumed=False) as replaying:
                await asyncio.gather(slow(0.03), echo(1))
            return recording.status(), replaying.status()

        recorded, replayed = play(scenario())
        assert (recorded.mode, recorded.started, recorded.completed, recorded.aborted, recorded.failed) == (
            "record",
            3,
            2,
            1,
            0,
        )
        assert (recorded.saved_ms, recorded.elapsed_s > 0.03) == (0, True)
        assert (replayed.mode, replayed.total, replayed.consumed, replayed.completed) == ("replay", 3, 2, 2)
        assert replayed.saved_ms == replayed.recorded_ms >= 30
        assert replayed.elapsed_s < recorded.elapsed_s

    def test_closing_is_shared_and_can_be_done_where_nothing_can_be_awaited(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            cassette = cl.record(tmp_path / "a").open()
            await echo(1)
            await asyncio.gather(cassette.close(), cassette.close())
            await cassette.close()
            other = cl.record(tmp_path / "b").open()
            task = asyncio.create_task(slow(30))
            await asyncio.sleep(0.01)
            with pytest.raises(cl.CassetteLabError, match="slow"):
                other.close_now()
            assert results_of(tmp_path / "b") == ["aborted"]
            other.close_now()
            with pytest.raises(cl.AbortError):
                await task
            never = cl.record(tmp_path / "never")
            await never.close()
            assert never.closed

        play(scenario())
        assert not (tmp_path / "never").exists()


class TestInterrupts:
    @pytest.mark.parametrize("function", [slow, deaf])
    @pytest.mark.parametrize("awaited", [True, False])
    def test_an_interrupt_stops_the_calls_records_them_and_closes(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: Callable[[float], Any], awaited: bool
    ) -> None:
        assert tasks.CLEAN_UP_S + active.ABORT_GRACE_S < 5
        monkeypatch.setattr(tasks, "CLEAN_UP_S", 0.1)
        monkeypatch.setattr(active, "ABORT_GRACE_S", 0.1)

        async def scenario() -> float:
            async def body() -> None:
                async with cl.record(tmp_path / "c"):
                    await echo(1)
                    task = asyncio.create_task(function(0.8))
                    await (task if awaited else asyncio.sleep(0.8))

            cell = asyncio.create_task(body())
            await asyncio.sleep(0.05)
            start = time.monotonic()
            cell.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cell
            return time.monotonic() - start

        assert play(scenario()) < 0.6
        assert results_of(tmp_path / "c") == ["completed", "aborted"]

    def test_an_interrupt_while_it_waits_at_the_end(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async def body() -> None:
                async with cl.record(tmp_path / "c"):
                    body.task = asyncio.create_task(slow(30))  # type: ignore[attr-defined]
                    await asyncio.sleep(0)

            cell = asyncio.create_task(body())
            await asyncio.sleep(0.05)
            assert not cell.done()
            cell.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cell
            assert current_cassette() is None

        play(scenario())
        assert results_of(tmp_path / "c") == ["aborted"]

    def test_a_start_that_hangs_is_recorded_too(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream("hangs")
            upstream.gate = asyncio.Event()
            upstream.deaf = True
            remove = REGISTRY.register(upstream)
            try:

                async def body() -> None:
                    async with cl.record(tmp_path / "c", upstream_provider="hangs"):
                        with pytest.raises(cl.ConfigError, match="records from 'hangs'"):
                            await cl.run_subagent(ask(), provider="spawn")
                        await cl.run_subagent(ask())

                cell = asyncio.create_task(body())
                await asyncio.sleep(0.05)
                cell.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await cell
            finally:
                remove()

        play(scenario())
        assert results_of(tmp_path / "c") == ["AbortError"]

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT to send")
    def test_ctrl_c_leaves_a_whole_file_and_no_lock(self, tmp_path: Path) -> None:
        program = textwrap.dedent("""
            import asyncio, sys
            import cassette_lab as cl

            @cl.subagent
            async def wait(name: str) -> str:
                print(name, flush=True)
                await asyncio.sleep(60)
                return name

            async def main():
                async with cl.record(sys.argv[1]):
                    await asyncio.gather(wait("a"), wait("b"))

            asyncio.run(main())
        """)
        process = subprocess.Popen(
            [sys.executable, "-c", program, tmp_path / "c"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        assert [process.stdout.readline(), process.stdout.readline()] == [b"a\n", b"b\n"]
        start = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert time.monotonic() - start < 5
        assert b"KeyboardInterrupt" in errors
        assert results_of(tmp_path / "c") == ["aborted", "aborted"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["c"]


class TestReplayHelp:
    def test_a_replay_says_what_a_call_would_match(self, tmp_path: Path) -> None:
        record_echoes(tmp_path / "c", 1)

        async def scenario() -> None:
            cassette = cl.replay(tmp_path / "c", assert_consumed=False)
            with pytest.raises(cl.ConfigError, match="not open"):
                cassette.diagnose(ask())
            async with cassette:
                assert cassette.diagnose(ask()).status == "mismatch"
                assert cassette.status().consumed == 0
                assert "replay of" in repr(cassette)
            async with cl.record(tmp_path / "d") as recording:
                with pytest.raises(cl.ConfigError, match="only a replay"):
                    recording.diagnose(ask())
            assert recording.status().file == str(tmp_path / "d")

        play(scenario())


def test_a_provider_of_another_name_is_recorded_and_replayed(tmp_path: Path) -> None:
    async def scenario() -> None:
        upstream = Upstream("agents")
        upstream.answer = text_result("live")
        remove = REGISTRY.register(upstream)
        try:
            assert (await cl.run_subagent(ask(), provider="agents")).output[0]["text"] == "live"
            async with cl.record(tmp_path / "c", upstream_provider="agents"):
                assert (await cl.run_subagent(ask(), provider="agents")).output[0]["text"] == "live"
        finally:
            remove()
        async with cl.replay(tmp_path / "c"):
            assert (await cl.run_subagent(ask())).output[0]["text"] == "live"
        assert len(upstream.requests) == 2

    play(scenario())


class TestStoppedCalls:
    """Whoever stops waiting for a call stops it: at once, and it is recorded as aborted."""

    def test_a_timeout_stops_the_call_and_records_it(self, tmp_path: Path) -> None:
        file = tmp_path / "c"
        cleaned = []

        @cl.subagent
        async def patient() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                cleaned.append(True)

        async def scenario() -> list[int]:
            aborted = []
            async with cl.record(file) as recording:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(patient(), 0.05)
                aborted.append(recording.status().aborted)
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await patient()
                aborted.append(recording.status().aborted)
                task = asyncio.create_task(patient())
                await asyncio.sleep(0.05)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                aborted.append(recording.status().aborted)
            return aborted

        began = time.monotonic()
        assert play(scenario()) == [1, 2, 3]
        assert time.monotonic() - began < 2
        assert cleaned == [True] * 3
        for call in cl.read_cassette(file).interactions:
            assert call.outcome.result == {"output": [], "stopReason": "aborted"}
            assert call.timing.signal_aborted_at_ms is not None
            assert call.timing.duration_ms < 1000

    def test_a_cancelled_block_closes_the_file_at_once(self, tmp_path: Path) -> None:
        async def work() -> None:
            async with cl.record(tmp_path / "c"):
                await slow(60)

        async def scenario() -> None:
            task = asyncio.create_task(work())
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        began = time.monotonic()
        play(scenario())
        assert time.monotonic() - began < 2
        (call,) = cl.read_cassette(tmp_path / "c").interactions
        assert call.outcome.result == {"output": [], "stopReason": "aborted"}

    def test_while_a_call_runs_the_loop_wakes_up(self, tmp_path: Path) -> None:
        """A kernel's interrupt waits in the loop, without waking it."""

        async def scenario() -> float:
            loop = asyncio.get_running_loop()
            noticed: list[float] = []

            def interrupt(_number: int, _frame: object) -> None:
                loop.call_soon(lambda: noticed.append(time.monotonic()))

            before = signal.signal(signal.SIGUSR1, interrupt)
            threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGUSR1]).start()
            began = time.monotonic()
            try:
                async with cl.record(tmp_path / "c"):
                    await slow(1.5)
            finally:
                signal.signal(signal.SIGUSR1, before)
            return noticed[0] - began

        assert play(scenario()) < 1


class TestLateCalls:
    """Calls that come while a recording is closing: recorded, or live with a warning that says so; never an error."""

    def test_a_call_handed_over_too_late_is_made_live(self, tmp_path: Path) -> None:
        async def scenario() -> Any:
            cassette = cl.record(tmp_path / "c")
            loop, entered, free = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

            def held_back() -> Any:
                async def call() -> Any:
                    taken = current_cassette()
                    assert taken is cassette
                    loop.call_soon_threadsafe(entered.set)
                    free.wait(5)
                    return await cassette.call(ask())

                return asyncio.run(call())

            async with cassette:
                await echo(1)
                late = asyncio.ensure_future(asyncio.to_thread(held_back))
                await entered.wait()
            free.set()
            with pytest.warns(RuntimeWarning, match="is made live, and is missing"):
                answer = await late
            return answer, cassette.status().late_calls

        assert play(scenario()) == (None, 1)
        assert len(calls_of(tmp_path / "c")) == 1

    def test_a_call_between_two_turns_of_the_loop_is_made_live(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cassette_lab.cassette.runs._TURN_S", 0)

        async def scenario() -> Any:
            cassette = cl.record(tmp_path / "c", settle_timeout_s=0)
            cassette.open()
            cassette.bind()
            task = asyncio.create_task(echo("late"))
            await asyncio.sleep(0)  # it waits for its turn
            cassette.close_now()
            with pytest.warns(RuntimeWarning, match="'echo' is made live"):
                return await task, cassette.status().late_calls

        assert play(scenario()) == ("late", 1)
        assert calls_of(tmp_path / "c") == []

    def test_a_replay_that_closes_does_not_answer_live(self, tmp_path: Path) -> None:
        record_echoes(tmp_path / "c", 1)

        async def scenario() -> None:
            cassette = cl.replay(tmp_path / "c", assert_consumed=False).open()
            cassette.close_now()
            with pytest.raises(cl.ClosedError, match="not made live"):
                await cassette.call(ask())

        play(scenario())

    def test_a_handler_of_timeouts_works_in_replay_too(self, tmp_path: Path) -> None:
        async def agent() -> str:
            try:
                return await asyncio.wait_for(slow(60), 0.02)
            except TimeoutError:
                return "too slow"

        async def scenario() -> list[str]:
            answers = [await asyncio.wait_for(agent(), 5)]
            async with cl.record(tmp_path / "c"):
                answers.append(await agent())
            async with cl.replay(tmp_path / "c"):
                answers.append(await agent())
                with pytest.raises(cl.MismatchError):
                    await slow(1)
            async with cl.replay(tmp_path / "c"):
                with pytest.raises(RecordedAbortError, match=r"^the call slow was recorded as aborted: ") as caught:
                    await slow(60)
            assert isinstance(caught.value, cl.AbortError)
            assert isinstance(caught.value, TimeoutError)
            assert (caught.value.code, caught.value.recorded_name) == ("ABORTED", "AbortError")
            return answers

        assert play(scenario()) == ["too slow"] * 3


class TestRefusedCalls:
    def test_they_are_counted_also_where_the_agent_goes_on(self, tmp_path: Path) -> None:
        async def agent(value: Any) -> Any:
            try:
                return await echo(value)
            except Exception:  # noqa: BLE001 - what agents do
                return "fallback"

        async def scenario() -> None:
            async with cl.record(tmp_path / "c"):
                await agent(1)
            async with cl.replay(tmp_path / "c") as replaying:
                assert await agent(2) == "fallback"
                assert await agent(1) == 1
                assert await agent(1) == "fallback"
                status = replaying.status()
            assert (status.refused, status.started, status.completed) == (2, 1, 1)
            assert replaying.status().consumption == "complete"

        play(scenario())


class TestRedactedResults:
    def test_a_recording_says_so_before_a_replay_does(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            async with cl.record(tmp_path / "c") as recording:
                await echo({"password": "hunter22"})
                await echo("plain")
            assert recording.status().redacted_results == 1
            async with cl.record(tmp_path / "d", redact_secrets=False) as recording:
                await echo({"password": "hunter22"})
            assert recording.status().redacted_results == 0
            with pytest.raises(cl.MismatchError) as caught:
                cl.replay(tmp_path / "c").open()
            for way_out in ("--allow-redacted", "allow_redacted_replay=True", "--no-redact", "redact_secrets=False"):
                assert way_out in str(caught.value)

        play(scenario())


class TestFiles:
    def test_a_file_that_is_there_or_is_not(self, tmp_path: Path) -> None:
        (tmp_path / "there").write_bytes(b"")
        with pytest.raises(FileExistsError) as there:
            cl.record(tmp_path / "there").open()
        with pytest.raises(FileNotFoundError) as missing:
            cl.replay(tmp_path / "missing").open()
        for error, number, name in ((there.value, errno.EEXIST, "there"), (missing.value, errno.ENOENT, "missing")):
            assert isinstance(error, cl.FormatError)
            assert (error.errno, error.filename) == (number, str(tmp_path / name))
            assert str(error).startswith(f"{tmp_path / name}: there is ")
            assert error.__cause__ is None
            assert error.__suppress_context__
        assert 'write_mode="truncate", "append" or "once"' in str(there.value)
        assert current_cassette() is None

    def test_the_traceback_is_about_the_users_line(self, tmp_path: Path) -> None:
        (tmp_path / "there").write_bytes(b"")
        program = (
            "import asyncio, cassette_lab as cl\n"
            "async def main():\n"
            "    async with cl.record('there'):\n"
            "        pass\n"
            "asyncio.run(main())\n"
        )
        ran = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ran.stderr.count("cassette_lab/") <= 2
        assert "During handling" not in ran.stderr
        assert "direct cause" not in ran.stderr


class TestCallsThatWereStopped:
    """Who stopped a call when it was recorded stops it in the replay too, before it ends by itself."""

    def test_by_a_sibling_that_failed(self, tmp_path: Path) -> None:
        @cl.subagent
        async def failing() -> str:
            raise KeyError("x")

        async def group() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(slow(60))
                tasks.create_task(failing())

        async def agent() -> list[type]:
            with pytest.raises(ExceptionGroup) as caught:
                await group()
            return [KeyError if isinstance(error, KeyError) else type(error) for error in caught.value.exceptions]

        async def scenario() -> list[list[type]]:
            answers = [await agent()]
            async with cl.record(tmp_path / "c"):
                answers.append(await agent())
            async with cl.replay(tmp_path / "c"):
                answers.append(await agent())
            return answers

        assert play(scenario()) == [[KeyError]] * 3

    def test_by_the_first_of_a_race(self, tmp_path: Path) -> None:
        async def agent() -> int:
            tasks = [asyncio.create_task(call) for call in (echo("quick"), slow(60), slow(61))]
            done, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in late:
                task.cancel()
            await asyncio.wait(late)
            return len(done)

        async def scenario() -> list[int]:
            answers = []
            for cassette in (cl.record(tmp_path / "c"), cl.replay(tmp_path / "c")):
                async with cassette:
                    answers.append(await agent())
            return answers

        assert play(scenario()) == [1, 1]
