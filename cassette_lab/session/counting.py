"""How much one session did: counts and sums of its own part, never of what a fork took over from its parent."""

from __future__ import annotations

from typing import NamedTuple

from cassette_lab.session.facts import SessionFacts, own
from cassette_lab.session.spans import known_sum


class Counts(NamedTuple):
    """Turns and steps are those that began, ``tool_calls`` those of the model; sums are None where nothing is known.

    ``retry_delay_ms`` was planned; ``compacted_tokens`` and ``pruned_tokens`` are what the model no longer sees.
    """

    turns: int
    steps: int
    model_calls: int
    tool_calls: int
    tool_errors: int
    retries: int
    retry_delay_ms: float | None
    compactions: int
    failed_compactions: int
    compaction_ms: float | None
    compacted_tokens: float | None
    prunes: int
    pruned_tokens: float | None


def counts_of(facts: SessionFacts) -> Counts:
    """The counts of a session."""
    tools, retries = own(facts.tool_calls), own(facts.retries)
    compactions, prunes = own(facts.compactions), own(facts.prunes)
    return Counts(
        turns=sum(turn.start_seq is not None for turn in own(facts.turns)),
        steps=sum(step.start_seq is not None for step in own(facts.steps)),
        model_calls=len(own(facts.model_calls)),
        tool_calls=len(tools),
        tool_errors=sum(call.is_error is True for call in tools),
        retries=len(retries),
        retry_delay_ms=known_sum(retry.delay_ms for retry in retries),
        compactions=len(compactions),
        failed_compactions=sum(each.failed for each in compactions),
        compaction_ms=known_sum(each.duration_ms for each in compactions),
        compacted_tokens=known_sum(each.shadowed_tokens for each in compactions),
        prunes=len(prunes),
        pruned_tokens=known_sum(each.shadowed_tokens for each in prunes),
    )
