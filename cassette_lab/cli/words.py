"""What a person reads: a few lines for each document. Escaping is left to whoever prints them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from cassette_lab.words import duration_text, plural

if TYPE_CHECKING:
    from cassette_lab.cassette.model import Header
    from cassette_lab.jsonio import JsonObject

SHOWN_PROBLEMS: Final = 10


def verified(document: JsonObject) -> list[str]:
    """The summary of a file that has passed every check."""
    return [f"{document['file']}: verified", f"  {counts(document)}"]


def inspected(document: JsonObject, header: Header) -> list[str]:
    """The summary, the provider's facts and the recording policy."""
    provider = document["provider"]
    able = [name for name, yes in provider["capabilities"].items() if yes]
    storage = "whole requests" if header.request_storage == "full" else "request metadata only"
    patterns = len(header.redaction_patterns)
    secrets = "secrets redacted" if header.redact_secrets else "secrets not redacted"
    if header.redact_secrets and patterns:
        secrets += f", {plural(patterns, 'pattern')} of its own"
    facts = {
        "cassette": document["cassetteId"],
        "recorded": header.created_at,
        "provider": f"{provider['cassette']}, recorded from {provider['upstream']}",
        "capabilities": ", ".join(able) or "none",
        "parent context": "inherited" if provider["inheritsParentContext"] else "not inherited",
        "keeps": f"{storage}, {secrets}",
        "calls": counts(document),
        "ambiguous groups": str(document["ambiguousGroups"]),
        "redacted results": str(document["redactedResults"]),
    }
    return [str(document["file"]), *(f"  {name:<18}{value}" for name, value in facts.items())]


def counts(document: JsonObject) -> str:
    """``3 calls: 2 completed, 1 failed, 0 aborted; the longest took 8.0 ms``."""
    outcomes = ", ".join(f"{document[name]:,} {name}" for name in ("completed", "failed", "aborted"))
    calls = plural(document["interactions"], "call")
    if not document["interactions"]:
        return calls
    return f"{calls}: {outcomes}; the longest took {duration_text(document['durationMs'])}"


def calls(documents: Iterable[JsonObject]) -> Iterator[str]:
    """One line a call: sequence, outcome, duration, key."""
    for call in documents:
        outcome = call.get("stopReason") or call["outcome"]
        yield f"  {call['sequence']:>6}  {outcome:<14}  {duration_text(call['durationMs']):>11}  {call['callKey']}"


def not_loaded(problems: Sequence[JsonObject]) -> list[str]:
    """Files that were left out, a line each; of many, the first."""
    lines = [f"not loaded: {problem['source']}, {_place(problem)}{problem['message']}" for problem in problems[:SHOWN_PROBLEMS]]
    more = len(problems) - len(lines)
    return [*lines, f"not loaded: {more:,} more; the table of problems lists them"] if more else lines


def _place(problem: JsonObject) -> str:
    return "" if problem["line"] is None else f"line {problem['line']}: "
