"""Recording at the provider's boundary: what the caller gets, what the file gets, and when."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.cassette.model import Interaction
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.cassette.redaction import Redactor
from cassette_lab.cassette.writer import CassetteWriter
from cassette_lab.contracts import ABSENT, AbortController, ParentAgent, SubagentResult
from cassette_lab.errors import (
    AmbiguityError,
    ClosedError,
    ConfigError,
    FormatError,
    IdentityError,
    NoUpstreamError,
    RecordedError,
)
from tests.unit.upstreams import CHILD_HEADER, Upstream, ask, one_call, play, record_calls, recording, text_result


def calls_of(path: Path) -> list[Interaction]:
    """The interactions by sequence; reading verifies them."""
    return sorted(read_cassette(path).interactions, key=lambda call: call.sequence)


class TestOrder:
    def test_sequence_is_admission_and_the_line_is_the_end(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            runs = [await handle.provider.start(ask(text)) for text in ("a", "b", "c")]
            for index in (2, 0, 1):
                upstream.runs[index].outcome.set_result(text_result(str(index)))
                assert (await runs[index].result()).output[0]["text"] == str(index)
            for run in runs:
                await run.dispose()
            await handle.dispose()

        play(scenario())
        assert [call.sequence for call in read_cassette(tmp_path / "c").interactions] == [3, 1, 2]

    def test_equal_calls_get_their_occurrences_at_admission(self, tmp_path: Path) -> None:
        play(record_calls(tmp_path / "c", (ask(), text_result("1")), (ask(), text_result("2"))))
        assert [call.occurrence for call in calls_of(tmp_path / "c")] == [1, 2]
        assert [call.call_key[-2:] for call in calls_of(tmp_path / "c")] == ["~1", "~2"]

    @pytest.mark.parametrize(
        ("request_members", "kind", "field"),
        [
            ({"max_depth": -1}, IdentityError, "maxDepth"),
            ({"max_depth": True}, IdentityError, "maxDepth"),
            ({"max_depth": 1.5}, IdentityError, "maxDepth"),
            ({"tool_filter": {"allow": "all"}}, IdentityError, "toolFilter.allow"),
            ({"agent_options": {"seed": float("nan")}}, IdentityError, "agentOptions.seed"),
            ({"label": 5}, IdentityError, "label"),
            ({"extra": {"label": None}, "label": None}, IdentityError, "label"),
            ({"parent": ParentAgent("child", header=CHILD_HEADER)}, AmbiguityError, None),
            ({"parent": ParentAgent("p", composed_preset=3)}, IdentityError, "composition.agentPreset"),
        ],
    )
    def test_what_cannot_be_recorded_is_refused_before_the_upstream_and_leaves_no_gap(
        self, tmp_path: Path, request_members: dict[str, Any], kind: type[Exception], field: str | None
    ) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            upstream.answer = text_result()
            handle = recording(tmp_path / "c", upstream)
            with pytest.raises(kind) as refusal:
                await handle.provider.start(ask("bad", **request_members))
            assert upstream.requests == []
            if field is not None:
                assert getattr(refusal.value, "field", None) == field
            await one_call(handle, ask("good"))
            assert handle.stats.started == 1
            await handle.dispose()

        play(scenario())
        assert [(call.sequence, call.parent_key) for call in calls_of(tmp_path / "c")] == [(1, "root")]

    @pytest.mark.parametrize(
        ("members", "field"),
        [
            ({"persona": 3}, "persona"),
            ({"agent_options": []}, "agentOptions"),
            ({"output_schema": "any"}, "outputSchema"),
            ({"prompt": [{"type": "text"}]}, "prompt[0].text"),
        ],
    )
    def test_full_storage_refuses_what_the_format_cannot_hold(
        self, tmp_path: Path, members: dict[str, Any], field: str
    ) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream, request_storage="full")
            request = ask("bad")
            with pytest.raises(IdentityError, match="cannot be recorded") as refusal:
                await handle.provider.start(type(request)(**{"prompt": request.prompt, "label": "bad", **members}))
            assert refusal.value.field == field
            assert upstream.requests == []
            await handle.dispose()

        play(scenario())
        assert calls_of(tmp_path / "c") == []

    def test_a_protected_type_that_a_pattern_hits_is_refused_before_the_upstream(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream, request_storage="full", redaction_patterns=("^zz$",))
            with pytest.raises(ConfigError):
                await handle.provider.start(type(ask())(prompt=[{"type": "zz"}]))
            assert upstream.requests == []
            await handle.dispose()

        play(scenario())

    def test_an_upstream_that_is_gone_is_named(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            handle.provider._providers._providers.clear()  # type: ignore[union-attr]
            with pytest.raises(NoUpstreamError, match="'real'"):
                await handle.provider.start(ask())
            await handle.dispose()

        play(scenario())
        assert calls_of(tmp_path / "c") == []

    def test_the_upstream_gets_the_original_request(self, tmp_path: Path) -> None:
        request = ask("password=hunter22", agent_options={"apiKey": "k"})

        async def scenario() -> list[Any]:
            upstream = Upstream()
            upstream.answer = text_result()
            handle = recording(tmp_path / "c", upstream, request_storage="full")
            await one_call(handle, request)
            await handle.dispose()
            return list(upstream.requests)

        assert play(scenario())[0] is request
        (call,) = calls_of(tmp_path / "c")
        assert call.request.value is not None
        assert call.request.value["agentOptions"] == {"apiKey": "[REDACTED]"}
        assert call.request.redactions > 0


class TestResults:
    def test_the_caller_gets_the_original_and_the_file_the_redacted_one(self, tmp_path: Path) -> None:
        original = SubagentResult(
            output=[{"type": "text", "text": "token=abcdefgh"}],
            stop_reason="completed",
            structured={"password": "x", "n": 1},
            extra={"usage": {"a": 1}},
        )

        async def scenario() -> SubagentResult:
            upstream = Upstream()
            upstream.answer = original
            handle = recording(tmp_path / "c", upstream)
            result = await one_call(handle, ask())
            await handle.dispose()
            return result

        result = play(scenario())
        assert result == original
        assert result.output is not original.output
        assert result.structured is not original.structured
        (call,) = calls_of(tmp_path / "c")
        assert call.outcome.result == {
            "output": [{"type": "text", "text": "token=[REDACTED]"}],
            "stopReason": "completed",
            "structured": {"password": "[REDACTED]", "n": 1},
            "usage": {"a": 1},
        }
        assert call.outcome.redactions == 2

    def test_what_the_upstream_changes_later_is_not_seen(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            upstream.answer = text_result("before")
            handle = recording(tmp_path / "c", upstream)
            result = await one_call(handle, ask())
            upstream.answer.output[0]["text"] = "after"
            assert result.output == [{"type": "text", "text": "before"}]
            await handle.dispose()

        play(scenario())

    @pytest.mark.parametrize(
        "malformed",
        [
            SubagentResult(output=[{"type": "text"}], stop_reason="completed"),
            SubagentResult.from_json({"output": []}),
            SubagentResult(output=[], stop_reason="completed", structured=float("nan")),
            SubagentResult(output=[], stop_reason="completed", structured={1: "a"}),
            SubagentResult(output=[], stop_reason="completed", structured=object()),
            SubagentResult(output="text", stop_reason="completed"),  # type: ignore[arg-type]
            "not a result",
            None,
        ],
    )
    def test_a_malformed_result_becomes_an_error_and_later_calls_go_on(self, tmp_path: Path, malformed: Any) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            bad, good = await handle.provider.start(ask("bad")), await handle.provider.start(ask("good"))
            upstream.runs[0].outcome.set_result(malformed)
            with pytest.raises(FormatError, match="cannot be stored"):
                await bad.result()
            await bad.dispose()
            upstream.runs[1].outcome.set_result(text_result("fine"))
            assert (await good.result()).output[0]["text"] == "fine"
            await good.dispose()
            upstream.answer = text_result("later")
            await one_call(handle, ask("later"))
            assert (handle.stats.completed, handle.stats.failed) == (2, 1)
            await handle.dispose()

        play(scenario())
        outcomes = [call.outcome for call in calls_of(tmp_path / "c")]
        assert [outcome.kind for outcome in outcomes] == ["result-error", "result", "result"]
        assert outcomes[0].error is not None
        assert outcomes[0].error.code == "CASSETTE_FORMAT"

    def test_a_pattern_that_hits_a_protected_member_of_a_result_is_an_error_of_that_call(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream, redaction_patterns=("^zz$",))
            upstream.answer = SubagentResult(output=[{"type": "zz"}], stop_reason="completed")
            with pytest.raises(ConfigError):
                await one_call(handle, ask("bad"))
            upstream.answer = text_result()
            await one_call(handle, ask("good"))
            await handle.dispose()

        play(scenario())
        assert [call.outcome.kind for call in calls_of(tmp_path / "c")] == ["result-error", "result"]

    def test_a_redaction_that_breaks_down_is_an_error_of_that_call(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            upstream.answer = text_result()
            handle = recording(tmp_path / "c", upstream)
            with monkeypatch.context() as patch:
                patch.setattr(Redactor, "result", lambda *_: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    await one_call(handle, ask("bad"))
            await one_call(handle, ask("good"))
            await handle.dispose()

        play(scenario())
        assert [call.outcome.kind for call in calls_of(tmp_path / "c")] == ["result-error", "result"]

    def test_twenty_thousand_levels_are_recorded(self, tmp_path: Path) -> None:
        deep: Any = "token=abcdefgh"
        for _ in range(20_000):
            deep = [deep]

        async def scenario() -> SubagentResult:
            upstream = Upstream()
            upstream.answer = SubagentResult(output=[], stop_reason="completed", structured=deep)
            handle = recording(tmp_path / "c", upstream)
            result = await one_call(handle, ask())
            await handle.dispose()
            return result

        result = play(scenario()).structured
        (call,) = calls_of(tmp_path / "c")
        assert call.outcome.result is not None
        stored = call.outcome.result["structured"]
        for _ in range(20_000):
            stored, result = stored[0], result[0]
        assert (stored, result) == ("token=[REDACTED]", "token=abcdefgh")


class _TransportError(Exception):
    def __init__(self, message: str, code: object) -> None:
        super().__init__(message)
        self.code = code


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "name", "message", "code"),
        [
            (ValueError("no"), "ValueError", "no", None),
            (_TransportError("lost", "TRANSPORT"), "_TransportError", "lost", "TRANSPORT"),
            (_TransportError("lost", 5), "_TransportError", "lost", None),
            (OSError(errno.ENOENT, "gone", "f"), "FileNotFoundError", "[Errno 2] gone: 'f'", None),
            (RecordedError("again", recorded_name="LinkError", code="L"), "LinkError", "again", "L"),
            (RecordedError("again", recorded_name="LinkError"), "LinkError", "again", None),
            (ValueError("Bearer abcdefghij"), "ValueError", "[REDACTED]", None),
            (type("", (Exception,), {})("x"), "Error", "x", None),
        ],
    )
    @pytest.mark.parametrize("where", ["start", "result"])
    def test_name_message_and_string_code_are_recorded_and_the_original_is_raised(
        self, tmp_path: Path, error: Exception, name: str, message: str, code: str | None, where: str
    ) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            if where == "start":
                upstream.error = error
                with pytest.raises(Exception) as raised:  # noqa: PT011 - which one is asserted below
                    await handle.provider.start(ask())
            else:
                run = await handle.provider.start(ask())
                upstream.runs[0].outcome.set_exception(error)
                with pytest.raises(Exception) as raised:  # noqa: PT011 - as above
                    await run.result()
                await run.dispose()
            assert raised.value is error
            await handle.dispose()

        play(scenario())
        (call,) = calls_of(tmp_path / "c")
        assert call.outcome.kind == f"{where}-error"
        assert call.published is (where == "result")
        assert call.outcome.error is not None
        assert (call.outcome.error.name, call.outcome.error.message, call.outcome.error.code) == (name, message, code)

    def test_an_exception_that_cannot_say_itself_is_recorded_all_the_same(self, tmp_path: Path) -> None:
        class BrokenError(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            upstream.error = BrokenError()
            with pytest.raises(BrokenError):
                await handle.provider.start(ask())
            await handle.dispose()

        play(scenario())
        (call,) = calls_of(tmp_path / "c")
        assert call.outcome.error is not None
        assert (call.outcome.error.name, call.outcome.error.message) == ("BrokenError", "")


class TestLifecycle:
    def test_times_are_those_seen_before_the_outcome(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            controllers = {name: AbortController() for name in ("early", "during", "after", "disposed")}
            controllers["early"].abort()
            runs = {name: await handle.provider.start(ask(name, signal=c.signal)) for name, c in controllers.items()}
            await asyncio.sleep(0.002)
            controllers["during"].abort()
            await runs["disposed"].dispose()
            for upstream_run in upstream.runs:
                if not upstream_run.outcome.done():
                    upstream_run.outcome.set_result(text_result())
            for run in runs.values():
                await run.result()
            controllers["after"].abort()
            for run in runs.values():
                await run.dispose()
            await handle.dispose()

        play(scenario())
        timings = {call.request.to_json()["metadata"]["label"]: call.timing for call in calls_of(tmp_path / "c")}
        for timing in timings.values():
            assert 0 <= timing.start_latency_ms <= timing.duration_ms
            assert round(timing.duration_ms, 3) == timing.duration_ms
            assert len(timing.started_at) == len("2026-01-31T12:00:00.000Z")
            assert timing.started_at.endswith("Z")
        assert timings["early"].signal_aborted_at_ms is not None
        assert timings["early"].signal_aborted_at_ms < 1
        assert (timings["during"].signal_aborted_at_ms or 0) >= 2
        assert timings["after"].signal_aborted_at_ms is None
        assert (timings["disposed"].dispose_called_at_ms or 0) >= 2
        assert [name for name, timing in timings.items() if timing.dispose_called_at_ms is not None] == ["disposed"]

    def test_disposal_waits_for_the_upstream_and_the_record_and_is_shared(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            run = await handle.provider.start(ask())
            upstream.runs[0].release_disposal = asyncio.Event()
            disposals = [asyncio.create_task(run.dispose()) for _ in range(3)]
            await asyncio.sleep(0.01)
            assert not any(task.done() for task in disposals)
            upstream.runs[0].release_disposal.set()
            await asyncio.gather(*disposals)
            assert upstream.runs[0].disposals == 1
            assert calls_of(tmp_path / "c")[0].outcome.result == {"output": [], "stopReason": "aborted"}
            await run.dispose()
            assert upstream.runs[0].disposals == 1
            await handle.dispose()

        play(scenario())

    def test_a_disposer_that_is_cancelled_does_not_take_the_others_along(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            run = await handle.provider.start(ask())
            upstream.runs[0].release_disposal = asyncio.Event()
            first, second = asyncio.create_task(run.dispose()), asyncio.create_task(run.dispose())
            await asyncio.sleep(0.01)
            first.cancel()
            await asyncio.sleep(0.01)
            assert first.cancelled()
            assert not second.done()
            upstream.runs[0].release_disposal.set()
            await second
            await handle.dispose()

        play(scenario())
        assert len(calls_of(tmp_path / "c")) == 1

    def test_many_wait_for_a_result_and_cancelling_one_stops_nothing(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            run = await handle.provider.start(ask())
            waiters = [asyncio.create_task(run.result()) for _ in range(4)]
            await asyncio.sleep(0.01)
            waiters[0].cancel()  # the one that watches the upstream
            waiters[2].cancel()
            await asyncio.sleep(0.01)
            upstream.runs[0].outcome.set_result(text_result())
            one, other = await asyncio.gather(waiters[1], waiters[3])
            assert one == other == text_result()
            await run.dispose()
            await handle.dispose()

        play(scenario())
        assert calls_of(tmp_path / "c")[0].outcome.kind == "result"

    def test_a_result_nobody_asks_for_is_recorded(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            run = await handle.provider.start(ask())
            upstream.runs[0].outcome.set_result(text_result())
            await handle.dispose()
            assert (await run.result()) == text_result()
            await run.dispose()

        play(scenario())
        assert len(calls_of(tmp_path / "c")) == 1

    def test_a_run_that_is_dropped_gives_a_resource_warning_and_a_disposed_one_none(self, tmp_path: Path) -> None:
        async def scenario() -> list[str]:
            upstream = Upstream()
            upstream.answer = text_result()
            handle = recording(tmp_path / "c", upstream)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                await one_call(handle, ask("kept"))
                run = await handle.provider.start(ask("dropped"))
                await run.result()
                run_id = run.id
                del run
                await asyncio.sleep(0)
                gc.collect()
                await handle.dispose()
            assert [run_id in str(warning.message) for warning in caught] == [True]
            return [warning.category.__name__ for warning in caught]

        assert play(scenario()) == ["ResourceWarning"]

    def test_disposing_the_provider_refuses_new_calls_and_waits_for_the_others(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            upstream.gate = asyncio.Event()
            handle = recording(tmp_path / "c", upstream)
            starting = asyncio.create_task(handle.provider.start(ask("starting")))
            await asyncio.sleep(0.01)
            disposal = asyncio.create_task(handle.dispose())
            await asyncio.sleep(0.01)
            with pytest.raises(ClosedError):
                await handle.provider.start(ask("late"))
            upstream.gate.set()
            run = await starting
            await asyncio.sleep(0.01)
            assert not disposal.done()
            upstream.runs[0].outcome.set_result(text_result())
            await disposal
            await run.dispose()
            await handle.dispose()

        play(scenario())
        assert [call.outcome.kind for call in calls_of(tmp_path / "c")] == ["result"]


class TestCancellation:
    @pytest.mark.parametrize("deaf", [False, True])
    def test_a_start_that_is_cancelled_is_recorded_and_its_late_run_disposed(self, tmp_path: Path, deaf: bool) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            upstream.gate = asyncio.Event()
            upstream.deaf = deaf
            handle = recording(tmp_path / "c", upstream)
            starting = asyncio.create_task(handle.provider.start(ask()))
            await asyncio.sleep(0.01)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            assert [run.disposals for run in upstream.runs] == [1] * deaf
            await handle.dispose()

        play(scenario())
        (call,) = calls_of(tmp_path / "c")
        assert call.outcome.kind == "start-error"
        assert call.outcome.error is not None
        assert (call.outcome.error.name, call.outcome.error.code) == ("AbortError", "ABORTED")

    def test_an_upstream_that_cancels_itself_is_recorded_as_aborted(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            run = await handle.provider.start(ask())
            upstream.runs[0].outcome.cancel()
            assert (await run.result()).stop_reason == "aborted"
            await run.dispose()
            await handle.dispose()

        play(scenario())
        assert calls_of(tmp_path / "c")[0].outcome.kind == "result"

    def test_aborting_records_what_does_not_end_in_time(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            polite = await handle.provider.start(ask("polite"))
            upstream.stubborn = True
            stubborn = await handle.provider.start(ask("stubborn"))
            upstream.gate = asyncio.Event()
            starting = asyncio.create_task(handle.provider.start(ask("starting")))
            await asyncio.sleep(0.01)
            await handle.provider.abort(0.05)  # type: ignore[union-attr]
            assert (await polite.result()).stop_reason == (await stubborn.result()).stop_reason == "aborted"
            await handle.dispose()
            upstream.gate.set()
            with pytest.raises(Exception, match="closed while"):
                await starting
            assert upstream.runs[2].disposals == 1
            upstream.runs[1].outcome.set_result(text_result())
            await stubborn.dispose()

        play(scenario())
        assert [call.outcome.kind for call in calls_of(tmp_path / "c")] == ["result", "result", "start-error"]


class TestTopology:
    def test_calls_of_a_local_child_stand_below_its_call(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            child = ParentAgent("child", header=CHILD_HEADER)
            upstream.local_agent = child
            outer = await handle.provider.start(ask("outer"))
            assert outer.local_agent is child
            upstream.local_agent = None
            inner = await handle.provider.start(ask("inner", parent=child))
            for upstream_run in upstream.runs:
                upstream_run.outcome.set_result(text_result())
            for run in (inner, outer):
                await run.dispose()
            await handle.dispose()

        play(scenario())
        outer, inner = calls_of(tmp_path / "c")
        assert (outer.local, inner.local) == (True, False)
        assert inner.parent_key == outer.call_key

    def test_a_child_of_two_calls_is_refused_recorded_and_disposed(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream)
            upstream.local_agent = ParentAgent("child", header=CHILD_HEADER)
            one = await handle.provider.start(ask("one"))
            with pytest.raises(AmbiguityError):
                await handle.provider.start(ask("two"))
            assert upstream.runs[1].disposals == 1
            await one.dispose()
            await handle.dispose()

        play(scenario())
        assert [call.outcome.kind for call in calls_of(tmp_path / "c")] == ["result", "start-error"]

    def test_recording_goes_on_where_an_earlier_one_ended(self, tmp_path: Path) -> None:
        path = tmp_path / "c"
        play(record_calls(path, (ask("a"), text_result("1"))))
        play(record_calls(path, (ask("a"), text_result("2")), (ask("b"), text_result("3")), write_mode="append"))
        assert [(call.sequence, call.occurrence) for call in calls_of(path)] == [(1, 1), (2, 2), (3, 1)]


class TestRedactedLabels:
    def test_labels_and_names_stay_by_default_and_go_on_request(self, tmp_path: Path) -> None:
        request = ask(
            "token=abcdefgh",
            agent_options={"provider": "sk-abcdefghijklmn", "model": "m"},
            tool_filter={"allow": ["sk-abcdefghijklmn", "read"]},
        )
        for path, option in ((tmp_path / "open", False), (tmp_path / "closed", True)):
            play(record_calls(path, (request, text_result()), redact_labels=option))
        (plain,), (redacted,) = calls_of(tmp_path / "open"), calls_of(tmp_path / "closed")
        assert "abcdefgh" in plain.call_key
        metadata = redacted.request.metadata
        assert metadata is not None
        assert (metadata.label, metadata.child_provider, metadata.child_model) == ("token=[REDACTED]", "[REDACTED]", "m")
        assert metadata.tool_filter == {"allow": ["[REDACTED]", "read"]}
        assert redacted.call_key.startswith("root/token-redacted-")
        assert redacted.group == plain.group

    def test_nested_calls_stand_below_the_redacted_key(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            handle = recording(tmp_path / "c", upstream, redact_labels=True)
            upstream.local_agent = child = ParentAgent("child", header=CHILD_HEADER)
            outer = await handle.provider.start(ask("token=abcdefgh"))
            upstream.local_agent = None
            inner = await handle.provider.start(ask("inner", parent=child))
            await inner.dispose()
            await outer.dispose()
            await handle.dispose()

        play(scenario())
        assert b"abcdefgh" not in (tmp_path / "c").read_bytes()


class TestPersistence:
    def test_a_full_disk_shows_on_the_result_and_the_file_stays_whole(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write = os.write
        full = False

        def no_space(descriptor: int, data: bytes) -> int:
            if full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(descriptor, data)

        monkeypatch.setattr(os, "write", no_space)

        async def scenario() -> None:
            nonlocal full
            upstream = Upstream()
            upstream.answer = text_result()
            handle = recording(tmp_path / "c", upstream)
            await one_call(handle, ask("before"))
            full = True
            with pytest.raises(FormatError, match="No space left on device"):
                await one_call(handle, ask("during"))
            upstream.error = ValueError("down")
            with pytest.raises(FormatError, match="No space left on device") as failure:
                await one_call(handle, ask("start"))
            assert isinstance(failure.value.__cause__, ValueError)
            full, upstream.error = False, None
            await one_call(handle, ask("after"))
            await handle.dispose()

        play(scenario())
        assert [call.outcome.kind for call in calls_of(tmp_path / "c")] == ["result", "result-error", "start-error", "result"]

    def test_a_file_that_lacks_a_call_at_the_end_says_so(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        async def scenario() -> None:
            upstream = Upstream()
            upstream.answer = text_result()
            handle = recording(tmp_path / "c", upstream)

            def fail(*_: object) -> None:
                raise FormatError("the call could not be written")

            monkeypatch.setattr(CassetteWriter, "write", fail)
            with pytest.raises(FormatError, match="could not be written"):
                await one_call(handle, ask())
            with pytest.raises(FormatError, match="could not be written"):
                await handle.dispose()

        play(scenario())
        assert not (tmp_path / "c.writer.lock").exists()

    def test_every_record_can_be_synced(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        syncs = 0
        sync = os.fsync

        def counted(descriptor: int) -> None:
            nonlocal syncs
            syncs += 1
            sync(descriptor)

        monkeypatch.setattr(os, "fsync", counted)
        play(record_calls(tmp_path / "a", (ask("a"), text_result()), (ask("b"), text_result())))
        at_close, syncs = syncs, 0
        play(record_calls(tmp_path / "b", (ask("a"), text_result()), (ask("b"), text_result()), fsync="each"))
        assert syncs >= at_close + 2


def test_a_recording_verifies_and_absent_members_are_absent(tmp_path: Path) -> None:
    play(record_calls(tmp_path / "c", (ask(), SubagentResult(output=[], stop_reason="", structured=ABSENT))))
    (call,) = calls_of(tmp_path / "c")
    assert call.outcome.result == {"output": [], "stopReason": ""}
    assert b"null" not in (tmp_path / "c").read_bytes()
