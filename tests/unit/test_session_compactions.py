"""What shortened a conversation: compactions and what they cost, prunes, and how the table of sessions sums them up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cassette_lab as cl
from cassette_lab.session.facts import own
from tests.unit.session_samples import START_MS, header, text, write
from tests.unit.session_told import ev, tell

COLUMNS = [
    "compactions", "failed_compactions", "compaction_ms", "compacted_tokens", "prunes", "pruned_tokens", "retry_delay_ms",
    "input_tokens", "compaction_input_tokens", "compaction_output_tokens", "compaction_cache_read_tokens",
]  # fmt: skip


def _summed_up(at: int, name: str, **usage: int) -> list[dict[str, Any]]:
    summary = {"compactionId": name, "shadowedTokenCount": 700, "usage": usage, "provider": "p", "model": "m"}
    return [
        ev("compaction/start", {"compactionId": name, "turn": None}, at),
        ev("compaction/summary", summary, at + 8),
        ev("compaction/end", {"compactionId": name}, at + 10),
    ]


def _failed(at: int) -> list[dict[str, Any]]:
    return [
        ev("compaction/start", {"compactionId": "f", "turn": 1}, at),
        ev("compaction/end", {"compactionId": "f", "error": {"message": "no"}}, at + 5),
    ]


PRUNE = ev("compaction/prune", {"shadowedRange": {"start": 1, "end": 2}, "shadowedSeqs": [1, 2], "shadowedTokenCount": 40}, 90)


def test_a_prune_is_a_fact_of_its_own() -> None:
    facts = tell(PRUNE, ev("compact/prune", {"shadowedTokenCount": -1}, 95), PRUNE, seedLength=1)
    assert [(prune.seq, prune.shadowed_tokens, prune.inherited) for prune in facts.prunes] == [
        (0, 40, True),
        (1, None, False),
        (2, 40, False),
    ]
    assert facts.prunes[0].pruned_at == START_MS + 90
    assert len(own(facts.prunes)) == 2
    assert facts.compactions == ()


def test_sessions_have_their_sums(tmp_path: Path) -> None:
    retry = {"turn": 1, "step": 1, "retry": 1, "delayMs": 500.5}
    rows = [
        *_summed_up(10, "a", inputTokens=100, outputTokens=5),
        *_summed_up(30, "b", inputTokens=50, cacheReadTokens=20),
        *_failed(50),
        PRUNE,
        ev("compaction/prune", {}, 91),
        ev("llm/retry", retry, 92),
        ev("llm/retry", retry | {"retry": 2, "delayMs": 1000}, 93),
        ev("llm/retry", retry | {"retry": 3, "delayMs": None}, 94),
    ]
    for name, events in (("full", rows), ("plain", [])):
        numbered = [{**event, "seq": seq} for seq, event in enumerate(events)]
        write(tmp_path / name / "session.jsonl", text(header(id=name), *numbered))
    lab = cl.load(tmp_path)
    full, plain = (list(row.values()) for row in lab.sessions.select(COLUMNS).to_pylist())
    assert full == [3, 1, 25, 1400, 2, 40, 1500.5, 150, 150, 5, 20]
    assert plain == [0, 0, None, None, 0, None, None, None, None, None, None]
