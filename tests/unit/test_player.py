"""Replaying at the provider's boundary: recorded results, errors and delays; aborts; what is used up and what is not."""

from __future__ import annotations

import asyncio
import multiprocessing
import pickle
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.cassette.delays import MAX_TIMER_MS, Delay, replay_delays
from cassette_lab.cassette.failures import error_facts, recorded_error
from cassette_lab.cassette.install import CassetteHandle
from cassette_lab.cassette.model import ErrorFacts, Timing
from cassette_lab.cassette.player import ReplayProvider
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.cassette.runs import new_run_id
from cassette_lab.contracts import AbortController, Capabilities, SubagentResult
from cassette_lab.errors import AbortError, AmbiguityError, ClosedError, ConfigError, MismatchError, RecordedError
from tests.unit.upstreams import Upstream, ask, one_call, play, record_calls, recording, replaying, text_result

SLOW_MS = 200.0


async def record_slow(path: Path, *texts: str, start_ms: float = 0.0, fails: str = "") -> None:
    """Calls with recorded times: ``start_ms`` to start, ``SLOW_MS`` more to end. Made by rewriting the times."""
    upstream = Upstream()
    upstream.answer = text_result()
    handle = recording(path, upstream)
    provider: Any = handle.provider
    write = provider.write

    def timed(call: Any, timing: Any, outcome: Any) -> None:
        write(call, Timing(timing["startedAt"], start_ms, start_ms + (0 if fails == "start" else SLOW_MS)).to_json(), outcome)

    provider.write = timed
    for text in texts:
        if fails == "start":
            upstream.error = ValueError(text)
            with pytest.raises(ValueError, match=text):
                await one_call(handle, ask(text))
        else:
            await one_call(handle, ask(text))
    await handle.dispose()


class Clock:
    """Timers that a test lets go off by hand; nothing waits."""

    def __init__(self) -> None:
        self.pending: list[tuple[float, Callable[[], None]]] = []

    def __call__(self, delay_ms: float, callback: Callable[[], None]) -> Callable[[], None]:
        entry = (delay_ms, callback)
        self.pending.append(entry)
        return lambda: self.pending.remove(entry) if entry in self.pending else None

    def tick(self) -> float:
        delay_ms, callback = self.pending.pop(0)
        callback()
        return delay_ms


def slow_provider(path: Path, clock: Clock, **options: Any) -> ReplayProvider:
    return ReplayProvider(read_cassette(path), timing="recorded", timer=clock, **options)


class TestAnswers:
    def test_siblings_may_come_in_another_order(self, tmp_path: Path) -> None:
        texts = ("a", "b", "c")
        play(record_calls(tmp_path / "c", *((ask(text), text_result(text.upper())) for text in texts)))

        async def scenario() -> list[str]:
            handle = replaying(tmp_path / "c")
            results = await asyncio.gather(*(one_call(handle, ask(text)) for text in reversed(texts)))
            await handle.dispose()
            return [result.output[0]["text"] for result in results]

        assert play(scenario()) == ["C", "B", "A"]

    def test_the_stored_result_comes_back_detached_each_time(self, tmp_path: Path) -> None:
        answer = SubagentResult(output=[], stop_reason="odd", structured={"a": [1]}, extra={"usage": {"t": 1}, "z": None})
        play(record_calls(tmp_path / "c", (ask(), answer), (ask(), answer)))

        async def scenario() -> None:
            handle = replaying(tmp_path / "c")
            one, other = await one_call(handle, ask()), await one_call(handle, ask())
            assert one == other == answer
            one.structured["a"].append(2)
            assert other.structured == {"a": [1]}
            stored = handle.provider.matcher.cassette.interactions[0]  # type: ignore[union-attr]
            assert stored.outcome.result is not None
            assert stored.outcome.result["structured"] == {"a": [1]}
            await handle.dispose()

        play(scenario())

    def test_the_provider_has_the_capabilities_of_the_recorded_one(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            await recording(tmp_path / "c", Upstream(inherits_parent_context=True)).dispose()
            provider = replaying(tmp_path / "c", provider="again").provider
            assert provider.name == "again"
            assert provider.capabilities == Capabilities(persona=False)
            assert provider.inherits_parent_context is True

        play(scenario())

    def test_a_run_has_no_local_agent_and_an_id_of_its_own(self, tmp_path: Path) -> None:
        play(record_calls(tmp_path / "c", (ask("a"), text_result()), (ask("b"), text_result())))

        async def scenario() -> list[str]:
            ids = []
            for name in ("one", "two"):
                handle = replaying(tmp_path / "c", provider=name)
                for text in ("a", "b"):
                    run = await handle.provider.start(ask(text))
                    assert run.local_agent is None
                    ids.append(run.id)
                    await run.dispose()
            return ids

        assert len(set(play(scenario()))) == 4

    def test_a_forked_process_draws_other_ids(self) -> None:
        context = multiprocessing.get_context("fork")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # this process has threads; the child only counts
            with context.Pool(1) as pool:
                theirs = pool.apply(new_run_id, ("replay",))
        assert theirs.rsplit("-", 1)[0] != new_run_id("replay").rsplit("-", 1)[0]

    def test_a_call_that_was_not_recorded_fails_with_a_diagnosis_and_changes_nothing(self, tmp_path: Path) -> None:
        play(record_calls(tmp_path / "c", (ask("a"), text_result())))

        async def scenario() -> None:
            handle = replaying(tmp_path / "c")
            with pytest.raises(MismatchError) as miss:
                await handle.provider.start(ask("other"))
            assert miss.value.diagnostic.reason == "request-changed"
            assert handle.stats.started == 0
            await one_call(handle, ask("a"))
            await handle.dispose()

        play(scenario())

    def test_a_closed_replay_answers_nothing(self, tmp_path: Path) -> None:
        play(record_calls(tmp_path / "c", (ask(), text_result())))

        async def scenario() -> None:
            handle = replaying(tmp_path / "c", assert_consumed=False)
            await handle.dispose()
            with pytest.raises(ClosedError):
                await handle.provider.start(ask())

        play(scenario())

    def test_a_row_of_instant_answers_leaves_other_tasks_a_turn(self, tmp_path: Path) -> None:
        play(record_calls(tmp_path / "c", *((ask(), text_result()) for _ in range(2_000))))

        async def scenario() -> int:
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.create_task(other())
            handle = replaying(tmp_path / "c")
            for _ in range(2_000):
                await one_call(handle, ask())
            task.cancel()
            await handle.dispose()
            return turns

        assert play(scenario()) > 1

    def test_dropping_a_run_gives_a_resource_warning(self, tmp_path: Path) -> None:
        play(record_calls(tmp_path / "c", (ask(), text_result())))

        async def scenario() -> None:
            handle = replaying(tmp_path / "c")
            run = await handle.provider.start(ask())
            runs = [run]
            del run
            with pytest.warns(ResourceWarning, match=runs[0].id):
                runs.clear()
            await handle.dispose()

        play(scenario())


class TestUses:
    def test_calls_that_were_not_asked_for_are_named_at_the_end(self, tmp_path: Path) -> None:
        play(record_calls(tmp_path / "c", (ask("a"), text_result()), (ask("b"), text_result())))

        async def scenario() -> None:
            handle = replaying(tmp_path / "c")
            await one_call(handle, ask("a"))
            with pytest.raises(MismatchError, match="1 of 2"):
                handle.assert_consumed()
            with pytest.raises(MismatchError, match="1 of 2"):
                await handle.dispose()
            await handle.dispose()
            await replaying(tmp_path / "c", assert_consumed=False).dispose()

        play(scenario())

    def test_ambiguous_and_redacted_cassettes_are_refused_unless_allowed(self, tmp_path: Path) -> None:
        play(record_calls(tmp_path / "two", (ask(), text_result("1")), (ask(), text_result("2"))))
        play(record_calls(tmp_path / "red", (ask(), text_result("token=abcdefgh"))))
        with pytest.raises(AmbiguityError):
            replaying(tmp_path / "two")
        with pytest.raises(MismatchError):
            replaying(tmp_path / "red")

        async def scenario() -> list[str]:
            two = replaying(tmp_path / "two", duplicate_policy="sequence")
            red = replaying(tmp_path / "red", allow_redacted_replay=True)
            return [(await one_call(handle, ask())).output[0]["text"] for handle in (two, two, red)]

        assert play(scenario()) == ["1", "2", "token=[REDACTED]"]


class TestTiming:
    def test_recorded_times_are_waited_out_and_counted(self, tmp_path: Path) -> None:
        play(record_slow(tmp_path / "c", "a", start_ms=20))

        async def scenario() -> CassetteHandle:
            handle = replaying(tmp_path / "c", timing="recorded", speed=4)
            start = time.perf_counter()
            run = await handle.provider.start(ask("a"))
            started = time.perf_counter()
            assert tuple(handle.stats.running.values()) == ("a",)
            await run.result()
            assert started - start >= 0.005
            assert time.perf_counter() - started >= SLOW_MS / 4000
            await run.dispose()
            await handle.dispose()
            return handle

        stats = play(scenario()).stats
        assert stats.recorded_ms == 20 + SLOW_MS
        assert (20 + SLOW_MS) / 4 <= stats.waited_ms < 20 + SLOW_MS
        assert stats.saved_ms == stats.recorded_ms - stats.waited_ms

    def test_an_instant_replay_saves_all_of_it(self, tmp_path: Path) -> None:
        play(record_slow(tmp_path / "c", "a", "b"))

        async def scenario() -> float:
            handle = replaying(tmp_path / "c")
            for text in "ab":
                await one_call(handle, ask(text))
            await handle.dispose()
            return handle.stats.saved_ms

        assert play(scenario()) == 2 * SLOW_MS

    def test_a_long_wait_is_cut_in_pieces_each_of_which_can_be_given_up(self) -> None:
        clock = Clock()
        over: list[int] = []
        delay = Delay(2 * MAX_TIMER_MS + 5.0, lambda: over.append(1), clock)
        assert [clock.tick(), clock.tick()] == [MAX_TIMER_MS, MAX_TIMER_MS]
        assert [entry[0] for entry in clock.pending] == [5.0]
        delay.cancel()
        assert not clock.pending
        assert not over
        Delay(7.0, lambda: over.append(1), clock)
        assert clock.tick() == 7.0
        assert over == [1]

    @given(
        st.floats(0, 1e308, allow_nan=False),
        st.floats(0, 1e308, allow_nan=False),
        st.floats(0.001, 1e308, allow_nan=False, allow_infinity=False),
    )
    @settings(max_examples=60)
    def test_delays_are_finite_and_not_negative_or_refused(self, latency: float, extra: float, speed: float) -> None:
        timing = Timing("2026-01-01T00:00:00Z", latency, latency + extra)
        assert replay_delays(timing, "instant", speed) == (0, 0)
        try:
            start, result = replay_delays(timing, "recorded", speed)
        except ConfigError:
            assert latency / speed > 1e307 or (latency + extra) / speed > 1e307
        else:
            assert 0 <= start < float("inf")
            assert 0 <= result < float("inf")

    @pytest.mark.parametrize(
        ("timing", "speed"), [("quick", 1), ("recorded", 0), ("instant", float("nan")), ("instant", True), ("instant", "1")]
    )
    def test_timing_and_speed_are_checked_in_either_timing(self, tmp_path: Path, timing: Any, speed: Any) -> None:
        play(record_calls(tmp_path / "c"))
        with pytest.raises(ConfigError):
            ReplayProvider(read_cassette(tmp_path / "c"), timing=timing, speed=speed)


class TestAborts:
    @pytest.mark.parametrize("fails", ["", "start"])
    def test_a_start_that_is_aborted_leaves_the_call_to_be_asked_for_again(self, tmp_path: Path, fails: str) -> None:
        play(record_slow(tmp_path / "c", "a", start_ms=5, fails=fails))

        async def scenario() -> None:
            clock = Clock()
            provider = slow_provider(tmp_path / "c", clock)
            before = AbortController()
            before.abort()
            with pytest.raises(AbortError) as refusal:
                await provider.start(ask("a", signal=before.signal))
            assert (type(refusal.value).__name__, refusal.value.code) == ("AbortError", "ABORTED")
            assert clock.pending == []

            during = AbortController()
            starting = asyncio.create_task(provider.start(ask("a", signal=during.signal)))
            await asyncio.sleep(0)
            assert [entry[0] for entry in clock.pending] == [5]
            during.abort()
            with pytest.raises(AbortError):
                await starting
            cancelled = asyncio.create_task(provider.start(ask("a")))
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            assert clock.pending == []
            assert (provider.matcher.consumed, provider.progress.started, len(provider.progress.running)) == (0, 0, 0)

            again = asyncio.create_task(provider.start(ask("a")))
            await asyncio.sleep(0)
            clock.tick()
            if fails:
                with pytest.raises(RecordedError):
                    await again
            else:
                await (await again).dispose()
            assert provider.matcher.consumed == 1

        play(scenario())

    def test_a_delay_that_never_ends_is_refused_and_uses_nothing_up(self, tmp_path: Path) -> None:
        play(record_slow(tmp_path / "c", "a", start_ms=1e307))

        async def scenario() -> None:
            clock = Clock()
            provider = slow_provider(tmp_path / "c", clock, speed=0.001)
            with pytest.raises(ConfigError, match="not finite"):
                await provider.start(ask("a"))
            assert (clock.pending, provider.matcher.consumed) == ([], 0)

        play(scenario())

    @pytest.mark.parametrize("stop", ["abort", "dispose"])
    def test_an_abort_or_disposal_while_waiting_ends_the_result_as_aborted(self, tmp_path: Path, stop: str) -> None:
        play(record_slow(tmp_path / "c", "a"))

        async def scenario() -> None:
            clock = Clock()
            provider = slow_provider(tmp_path / "c", clock)
            controller = AbortController()
            run = await provider.start(ask("a", signal=controller.signal))
            waiters = [asyncio.create_task(run.result()) for _ in range(2)]
            await asyncio.sleep(0)
            if stop == "abort":
                controller.abort()
            else:
                await run.dispose()
            assert [(await waiter).to_json() for waiter in waiters] == [{"output": [], "stopReason": "aborted"}] * 2
            assert clock.pending == []
            await run.dispose()
            controller.abort()
            assert (provider.progress.aborted, provider.matcher.consumed) == (1, 1)

        play(scenario())

    def test_an_instant_result_is_there_whatever_comes_after(self, tmp_path: Path) -> None:
        play(record_slow(tmp_path / "c", "a", "b"))

        async def scenario() -> None:
            handle = replaying(tmp_path / "c")
            controller = AbortController()
            one = await handle.provider.start(ask("a", signal=controller.signal))
            controller.abort()
            other = await handle.provider.start(ask("b"))
            await other.dispose()
            assert (await one.result()).stop_reason == (await other.result()).stop_reason == "completed"
            await one.dispose()
            await handle.dispose()

        play(scenario())


class TestRecordedErrors:
    @pytest.mark.parametrize("where", ["start", "result"])
    def test_a_recorded_builtin_is_raised_as_one(self, tmp_path: Path, where: str) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            error = KeyError("k")
            error.code = "MISSING"  # type: ignore[attr-defined]
            upstream.error = error if where == "start" else None
            upstream.answer = error
            with pytest.raises(KeyError):
                await one_call(handle, ask())
            await handle.dispose()
            again = replaying(tmp_path / "c")
            with pytest.raises(KeyError) as raised:
                await one_call(again, ask())
            assert isinstance(raised.value, RecordedError)
            assert (raised.value.recorded_name, str(raised.value), raised.value.code) == ("KeyError", "'k'", "MISSING")
            await again.dispose()

        play(scenario())

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("ValueError", ValueError),
            ("TimeoutError", TimeoutError),
            ("FileNotFoundError", OSError),
            ("SyntaxError", SyntaxError),
            ("UnicodeDecodeError", ValueError),
            ("ImportError", ImportError),
            ("LinkError", RecordedError),
            ("Exception", RecordedError),
            ("CancelledError", RecordedError),
            ("", RecordedError),
        ],
    )
    @pytest.mark.parametrize("code", [None, "C"])
    def test_name_message_and_code_survive_raising_and_pickling(
        self, name: str, kind: type[Exception], code: str | None
    ) -> None:
        facts = ErrorFacts(name, "it's", code)
        for error in (recorded_error(facts), pickle.loads(pickle.dumps(recorded_error(facts)))):  # noqa: S301 - made here
            assert isinstance(error, kind)
            assert isinstance(error, RecordedError)
            assert str(error) == "it's"
            assert error.code == (code or "CASSETTE_RECORDED_ERROR")
            assert error_facts(error) == ErrorFacts(name or "RecordedError", "it's", code)

    @pytest.mark.parametrize(
        "name",
        ["StopIteration", "StopAsyncIteration", "KeyboardInterrupt", "SystemExit", "GeneratorExit", "ExceptionGroup", "print"],
    )
    def test_what_steers_python_is_never_raised_again_as_itself(self, name: str) -> None:
        assert type(recorded_error(ErrorFacts(name, "m"))) is RecordedError

    def test_one_type_for_one_name(self) -> None:
        assert type(recorded_error(ErrorFacts("ValueError", "a"))) is type(recorded_error(ErrorFacts("ValueError", "b")))
