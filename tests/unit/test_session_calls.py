"""Model calls: what streamed, how it ended, when it was asked for, what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cassette_lab import jsonio
from cassette_lab.session.derive import derive
from cassette_lab.session.facts import own
from cassette_lab.session.reader import read_session
from tests.unit.session_samples import START_MS
from tests.unit.session_told import AT, chunk, ev, finish, message, run, tell

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden" / "session"


def _usage(**counts: Any) -> dict[str, Any]:
    return chunk("usage", 45, usage=counts)


def test_a_call_is_its_chunks_up_to_the_finish_and_the_message_that_follows() -> None:
    facts = tell(
        ev("step/start", AT, 0),
        ev("request/context", {"provider": "p", "model": "m"}, 3),
        chunk("block-start", 10, index=0, blockType="reasoning"),
        run("Let", " me", row="reasoning-chunks", at=11),
        run("He", "l", "lo", at=25, gap=5),
        run('{"a":', "1}", at=40, gap=1, row="tool-call-chunks"),
        _usage(inputTokens=100, outputTokens=13),
        finish("tool-calls", 50),
        message("Hello", at=52, usage={"inputTokens": 100, "outputTokens": 15}),
        bodies=True,
    )
    (call,) = facts.model_calls
    assert (call.settled_as, call.finish_kind, call.attempt, call.provider, call.model) == (
        "message",
        "tool-calls",
        1,
        "p",
        "m",
    )
    assert (call.chunks, call.deltas) == (10, 7)
    assert (call.text_chars, call.reasoning_chars, call.argument_chars) == (5, 6, 7)
    assert (call.text, call.reasoning) == ("Hello", "Let me")
    assert (call.requested_by, call.first_chunk_ms, call.duration_ms) == ("request/context", 7, 47)
    assert call.usage is not None
    assert call.usage.output_tokens == 15
    assert call.tokens_per_second == pytest.approx(15 * 1000 / 30)
    assert call.settled_at == START_MS + 52
    assert facts.final_text == "Hello"


def test_texts_are_left_out_unless_asked_for() -> None:
    (call,) = tell(run("a", "b"), finish()).model_calls
    assert (call.text, call.reasoning, call.text_chars) == (None, None, 2)


def _same_call(version: int) -> Any:
    if version < 2:
        rows = [chunk("block-start", 10, index=0), run("a", "b", at=12), finish("stop", 30), message("ab", at=31)]
    else:
        stream = [
            {"type": "chunk", "time": START_MS + 10, "chunk": {"type": "block-start", "index": 0}},
            {"type": "text-chunks", "time0": START_MS + 12, "index": 0, "dt": [10], "texts": ["a", "b"]},
            {"type": "chunk", "time": START_MS + 30, "chunk": {"type": "finish", "reason": {"kind": "stop"}}},
        ]
        rows = [message("ab", at=31, stream=stream)]
    return tell(ev("step/start", AT, 5), *rows, version=version).model_calls


def test_every_format_tells_the_same_of_the_same_call() -> None:
    assert _same_call(0) == _same_call(1) == _same_call(2) == _same_call(3) == _same_call(4)
    assert _same_call(4)[0].duration_ms == 25


def test_retries_are_attempts_of_one_step_each_from_its_own_start() -> None:
    failure = {"message": "slow down", "code": "RATE_LIMIT", "status": 429}
    facts = tell(
        ev("step/start", AT, 0),
        finish("error", 20, failure=failure),
        ev("llm/retry", {**AT, "retryId": "r", "retry": 1, "maxRetries": 5, "delayMs": 500.5, "failure": failure}, 21),
        ev("llm/retry-started", {**AT, "retryId": "r", "retry": 1}, 522),
        run("ok", at=530),
        finish("stop", 540),
        message("ok", at=541),
    )
    first, second = facts.model_calls
    assert (first.attempt, first.settled_as, first.error_code, first.first_chunk_ms) == (1, "none", "RATE_LIMIT", 20)
    assert (second.attempt, second.settled_as, second.requested_by, second.first_chunk_ms) == (
        2,
        "message",
        "llm/retry-started",
        8,
    )
    (retry,) = facts.retries
    assert (retry.retry, retry.delay_ms, retry.error_code, retry.error_status) == (1, 500.5, "RATE_LIMIT", 429)
    assert (retry.failed_at, retry.started_at) == (START_MS + 21, START_MS + 522)


def test_a_second_call_that_nothing_announced_has_no_known_start() -> None:
    facts = tell(ev("step/start", AT, 0), finish("error", 20), run("x", at=900), finish("stop", 910))
    assert [call.requested_by for call in facts.model_calls] == ["step/start", None]
    assert facts.model_calls[1].duration_ms is None


def test_what_is_logged_after_the_request_went_out_is_no_start() -> None:
    stream = [{"type": "chunk", "time": START_MS + 20, "chunk": {"type": "finish", "reason": {"kind": "stop"}}}]
    facts = tell(
        ev("step/start", AT, 0),
        ev("session/title", {"title": "t"}, 5),
        ev("session-log-deepseek/delivery-accepted", {}, 10),
        ev("user/message", {"content": []}, 25, surfaceOp="append"),
        message("ok", at=30, stream=stream),
        version=4,
    )
    assert (facts.model_calls[0].requested_by, facts.model_calls[0].first_chunk_ms) == ("step/start", 20)


def test_a_call_keeps_the_model_it_was_made_with() -> None:
    rows = []
    for model, row in (("one", finish("error")), ("two", finish())):
        rows += [ev("request/header", {"header": {"config": {"provider": "p", "model": model}}}), run("x"), row]
    assert [call.model for call in tell(*rows).model_calls] == ["one", "two"]


def test_a_message_does_not_settle_the_call_that_was_to_be_made_again() -> None:
    (call,) = tell(run("x"), finish("error"), ev("llm/retry", AT), message("from nowhere")).model_calls
    assert call.settled_as == "none"


def test_an_attempt_without_a_chunk_has_no_first_chunk() -> None:
    facts = tell(ev("step/start", AT, 0), ev("assistant/attempt", {**AT, "stream": []}, 70), version=3)
    (call,) = facts.model_calls
    assert (call.settled_as, call.chunks, call.first_chunk_ms, call.duration_ms, call.finish) == ("attempt", 0, None, 70, None)


@pytest.mark.parametrize(
    "closer",
    [
        ev("turn/end", {"turn": 1, "reason": {"kind": "aborted"}}, 40),
        ev("step/end", AT, 40),
        run("other step", at=40, step=2),
    ],
)
def test_chunks_without_a_finish_are_a_call_that_was_cut(closer: dict[str, Any]) -> None:
    call = tell(run("a", "b", at=10), closer).model_calls[0]
    assert (call.finish, call.settled_as, call.chunks) == (None, "none", 2)


def test_an_interrupted_message_settles_the_call_it_cut() -> None:
    facts = tell(run("par", "tial", at=10), message("partial", at=40, interrupted=True))
    (call,) = facts.model_calls
    assert (call.settled_as, call.interrupted, call.finish) == ("message", True, None)


def test_a_log_that_ends_while_a_model_speaks_keeps_what_came() -> None:
    (call,) = tell(run("a", "b", "c", at=10)).model_calls
    assert (call.chunks, call.settled_as) == (3, "none")


@pytest.mark.parametrize("count", [-1, 1.5, "7", True, None, 1e300])
def test_a_count_that_no_count_can_be_is_unknown(count: object) -> None:
    facts = tell(run("a"), finish(), message("a", usage={"inputTokens": count, "outputTokens": 3, "totalTokens": 4.0}))
    assert facts.message_usage.to_json() == {"outputTokens": 3, "totalTokens": 4}


def test_usage_of_failed_calls_and_of_compactions_stands_beside_that_of_messages() -> None:
    facts = tell(
        run("a"),
        _usage(inputTokens=5, outputTokens=1),
        finish("error", failure={"code": "CONTENT_FILTER"}),
        run("a"),
        finish(),
        message("a", usage={"inputTokens": 100}),
        ev("compaction/start", {"compactionId": "c", "turn": 1}, 60),
        ev("compaction/summary", {"compactionId": "c", "usage": {"inputTokens": 1000}, "model": "m"}, 80),
        ev("compaction/end", {"compactionId": "c"}, 81),
        ev("compact/start", {}, 90),
        ev("compact/end", {"error": "too long"}, 99),
    )
    assert facts.message_usage.to_json() == {"inputTokens": 100}
    assert facts.failed_usage.to_json() == {"inputTokens": 5, "outputTokens": 1}
    assert facts.compaction_usage.to_json() == {"inputTokens": 1000}
    assert facts.usage.input_tokens == 1105
    told = [(each.summarised, each.failed, each.duration_ms, each.usage is None) for each in facts.compactions]
    assert told == [(True, False, 21, False), (False, True, 9, True)]


def test_code_points_are_counted_also_where_one_is_cut_in_two() -> None:
    (call,) = tell(run("a\ud83d", "\udc4b", at=1), run("\ud83d\udc4b", "é", at=9), finish()).model_calls
    assert call.text_chars == 4


def test_an_inherited_call_is_shown_and_not_counted() -> None:
    rows = (run("a", "b", "c", at=1), finish(at=30), message("abc", usage={"outputTokens": 9}))
    for inherited in range(1, 5):  # the boundary may fall inside a packed row
        facts = tell(*rows, seedLength=inherited)
        counted = [call.chunks for call in own(facts.model_calls)]
        assert counted == [4 - inherited] * (inherited < 4)
        assert sum(call.chunks for call in facts.model_calls) == 4
    facts = tell(*rows, seedLength=5)
    assert (own(facts.model_calls), facts.message_usage.output_tokens, facts.final_text) == ([], None, None)


def test_estimates_agree_with_the_clock_of_a_recorder_in_the_same_process() -> None:
    """Real runs: the estimate is never late, and early by no more than the preparation of a request takes."""
    snapshots = sorted(GOLDEN.glob("flight/*/snapshot.json"))
    if not snapshots:
        pytest.skip("shared data not present")
    seen = 0
    for path in snapshots:
        logs = [derive(read_session(each)) for each in path.parent.rglob("session.v4.jsonl.zstd")]
        calls = {
            (log.id, call.turn, call.step, call.attempt): call.requested_at for log in logs for call in own(log.model_calls)
        }
        for record in jsonio.parse(path.read_bytes())["records"]:
            at = calls.get((record["sessionId"], record["turn"], record["step"], record["attempt"]))
            if at is not None:
                assert -1 <= record["startedAt"] - at <= 30
                seen += 1
    assert seen
