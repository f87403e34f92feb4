"""Differences and figures of records, beyond the original's."""

from __future__ import annotations

from cassette_lab.flight.diff import diff_records
from cassette_lab.flight.insight import explain, filtered, stats
from cassette_lab.flight.model import NamedSize, Omissions, Outcome, PromptAssembly, RecordExtra, Usage
from cassette_lab.flight.recorder import FlightConfig
from tests.unit.flight_samples import PROMPT, record, shape

THREW = Outcome("threw", error="error", total_ms=20)


def finished(total_ms: float, usage: Usage | None = None) -> Outcome:
    return Outcome("finished", finish="stop", total_ms=total_ms, first_chunk_ms=total_ms / 2, usage=usage)


class TestDiff:
    def test_the_original_is_the_beginning_of_the_extended_one(self) -> None:
        before = record("a", outcome=finished(1, Usage(1, 2, 3, 4, 5)))
        after = record("b", outcome=finished(2, Usage(1, 2, 30, 4)), extra=RecordExtra(error_code="TIMEOUT", aborted="user"))
        plain, extended = diff_records(before, after), diff_records(before, after, extended=True)
        assert extended.changes[: len(plain.changes)] == plain.changes
        assert [(each.field, each.to_json()["before"], each.to_json()["after"]) for each in extended.changes[2:]] == [
            ("usage.cacheReadTokens", 3, 30),
            ("usage.reasoningTokens", 5, None),
            ("extra.errorCode", None, "TIMEOUT"),
            ("extra.aborted", None, "user"),
        ]

    def test_a_retry_has_the_prompt_of_its_step(self) -> None:
        first = record("a", prompt_assembly=PROMPT)
        retry = record("b", attempt=2, extra=RecordExtra(PROMPT))
        assert [change.to_json()["change"] for change in diff_records(first, retry).changes] == ["removed"] * 3
        assert not diff_records(first, retry, extended=True).changed

    def test_names_are_ordered_by_utf16_units(self) -> None:
        names = ["\ufb01", "\U0001f600", "a"]
        prompt = PromptAssembly(tuple(NamedSize(name, 1) for name in names))
        changes = diff_records(record("a"), record("b", prompt_assembly=prompt)).changes
        assert [change.to_json()["name"] for change in changes] == ["a", "\U0001f600", "\ufb01"]


class TestStats:
    def test_all_tokens_and_every_model(self) -> None:
        records = [
            record("a", outcome=finished(10, Usage(1, 2, cache_read_tokens=5))),
            record("b", outcome=finished(30, Usage(10, 20, reasoning_tokens=7)), request=shape("m-2")),
            record(
                "c", attempt=2, outcome=Outcome("threw", error="error", total_ms=20), extra=RecordExtra(error_code="SERVER")
            ),
            record("d", extra=RecordExtra(aborted="timeout", ended_by="run-end")),
        ]
        figures = stats(records)
        extended = figures.extended
        assert (figures.input_tokens, figures.output_tokens, figures.success_percent) == (11, 22, 66.7)
        assert extended.tokens.to_json() == {
            "inputTokens": 11, "outputTokens": 22, "cacheReadTokens": 5, "cacheWriteTokens": None, "reasoningTokens": 7,
        }  # fmt: skip
        assert [(each.model, each.retained, each.success_ratio, each.total.median) for each in extended.models] == [
            ("m-1", 3, 0.5, 15), ("m-2", 1, 1, 30),
        ]  # fmt: skip
        assert (extended.error_codes, extended.aborted) == ({"SERVER": 1}, {"timeout": 1})
        assert (extended.ended_by_run, extended.retries) == (1, 1)

    def test_the_original_is_what_is_told_without_asking(self) -> None:
        figures = stats([record()])
        told = figures.to_json(extended=True)
        told.pop("extended")
        assert told == figures.to_json()


def test_thresholds_are_options() -> None:
    slow = record(outcome=finished(50))
    assert filtered([slow], "slow") == ()
    assert filtered([slow], "slow", FlightConfig(slow_first_chunk_ms=25)) == (slow,)
    told = explain(slow, FlightConfig(slow_first_chunk_ms=25, slow_total_ms=50))
    assert [fact.kind for fact in told] == ["slow-first-chunk", "slow-total", "missing-prompt-assembly"]


def test_explanations_count_what_is_missing() -> None:
    odd = record(prompt_assembly=PROMPT, omissions=Omissions(1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
    assert [fact.to_json() for fact in explain(odd)] == [
        {"kind": "running"},
        {"kind": "request-truncated", "count": 1 + 6 + 7 + 8 + 9 + 10},
        {"kind": "prompt-truncated", "count": 2 + 3 + 4 + 5},
    ]
    assert [fact.kind for fact in explain(record(prompt_assembly=PROMPT, outcome=finished(1)))] == ["no-anomaly"]
