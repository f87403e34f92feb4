"""What one session comes to, as a document without anything that was said: who, when, how much, how it ended, what is wrong.

Counts are of the session's own part, never of what a fork took over from its parent. Unknown is null. Dates are ISO 8601 in
UTC, durations are in ms, token counts are those of ``Usage``.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable
from statistics import median
from typing import Final

from cassette_lab.jsonio import JsonObject
from cassette_lab.jsonio.dates import LAST_MS
from cassette_lab.session.counting import counts_of
from cassette_lab.session.facts import ModelCall, SessionFacts, ToolCall, Turn, own
from cassette_lab.session.kinds import is_known
from cassette_lab.session.reader import ENDS
from cassette_lab.session.spans import Time, span_ms

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
OPEN: Final = "open"
_SUMMED: Final = ("turns", "modelCalls", "toolCalls", "toolErrors")


def row(facts: SessionFacts) -> JsonObject:
    """The session in short, as a list of sessions has it. ``end`` of one whose last turn did not end is ``open``.

    ``endCode`` is the error code of a last turn that failed, ``turnMs`` how long turns were running: the rest of
    ``durationMs`` nobody asked for anything.
    """
    counts = counts_of(facts)
    return {
        "id": facts.id,
        "parent": facts.header.parent_session,
        "file": facts.path,
        "startedAt": date_text(facts.first_at),
        "endedAt": date_text(facts.last_at),
        "durationMs": span_ms(facts.first_at, facts.last_at),
        "turnMs": facts.active_ms,
        "turns": counts.turns,
        "modelCalls": counts.model_calls,
        "toolCalls": counts.tool_calls,
        "toolErrors": counts.tool_errors,
        "tokens": facts.usage.to_json(),
        "end": OPEN if facts.is_open else facts.end_kind,
        "endCode": facts.end_code,
        "notes": len(facts.problems),
    }


def summary(facts: SessionFacts) -> JsonObject:
    """Everything a person asks about one session; ``notes`` are told one by one."""
    header, descriptor, counts = facts.header, facts.descriptor, counts_of(facts)
    return {
        **row(facts),
        "format": header.version,
        "createdAt": date_text(header.created_at),
        "cwd": header.cwd,
        "origin": header.origin,
        "delegationDepth": header.delegation_depth,
        "agentPreset": header.agent_preset,
        "mode": None if descriptor is None else descriptor.mode,
        "spawnedBy": None if descriptor is None else descriptor.provider,
        "encoding": facts.physical.encoding,
        "bytes": facts.physical.size_bytes,
        "tornBytes": facts.torn_bytes,
        "events": facts.event_count,
        "rows": facts.row_count,
        "inheritedEvents": facts.inherited_events,
        "steps": counts.steps,
        "turnEnds": dict(Counter(turn.end_kind or OPEN for turn in own(facts.turns)).most_common()),
        "turnErrorCodes": _codes(own(facts.turns)),
        "retries": counts.retries,
        "retryDelayMs": counts.retry_delay_ms,
        "compactions": counts.compactions,
        "failedCompactions": counts.failed_compactions,
        "compactionMs": counts.compaction_ms,
        "compactionTokens": facts.compaction_usage.to_json(),
        "prunes": counts.prunes,
        "models": _models(own(facts.model_calls)),
        "tools": _tools(own(facts.tool_calls)),
        "children": _children(facts),
        "notes": _notes(facts),
    }


def verified(facts: SessionFacts) -> JsonObject:
    """What was checked of a log that could be read, and what is wrong with it.

    ``whole`` is false where an end was left out, where inherited events do not end in what is there, and where the messages
    do not fold (``surfaceProblem``). ``frames`` counts the zstd frames, whose checksums were compared; text and stores have
    none, and no log has a hash chain: a letter that was changed is not noticed.
    """
    broken = facts.surface.problem is not None or any(each.code in (*ENDS, "OPEN_PREFIX") for each in facts.problems)
    return {
        "file": facts.path,
        "kind": "session-log",
        "id": facts.id,
        "format": facts.header.version,
        "encoding": facts.physical.encoding,
        "events": facts.event_count,
        "rows": facts.row_count,
        "frames": facts.physical.frames,
        "whole": not broken,
        "surfaceProblem": facts.surface.problem,
        "notes": _notes(facts),
    }


def totals(before: JsonObject, more: JsonObject | None) -> JsonObject:
    """The sums over several rows: those of ``before`` (empty at the start) and one more."""
    sums: JsonObject = {name: before.get(name, 0) + (more[name] if more else 0) for name in _SUMMED}
    tokens = dict(before.get("tokens", {}))
    for name, count in (more or {}).get("tokens", {}).items():
        tokens[name] = tokens.get(name, 0) + count
    dates = [each for each in (before, more or {}) if each.get("startedAt") is not None]
    return {
        "sessions": before.get("sessions", 0) + (more is not None),
        "startedAt": min((each["startedAt"] for each in dates), default=None),
        "endedAt": max((each["endedAt"] for each in dates), default=None),
        **sums,
        "tokens": tokens,
    }


def date_text(time: Time | None) -> str | None:
    """A time of a log in ISO 8601; None for what is no date of the years 1970 to 9999."""
    if time is None or not 0 < time <= LAST_MS:
        return None
    return (_EPOCH + dt.timedelta(milliseconds=int(time))).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _children(facts: SessionFacts) -> list[str] | None:
    """The subagents that the log names; None where it has no catalog of them and names none: only theirs tell of them."""
    named = [child.session_id for child in own(facts.children)]
    named += [call.child_session_id for call in own(facts.tool_calls) if call.child_session_id is not None]
    has_catalog = is_known("subagent/catalog", facts.header.version)
    return list(dict.fromkeys(named)) if named or has_catalog else None


def _models(calls: Iterable[ModelCall]) -> list[JsonObject]:
    """The calls by model: how many, how many failed (gave no message) and why, their median waiting time and speed."""
    groups: dict[tuple[str | None, str | None], list[ModelCall]] = {}
    for call in calls:
        groups.setdefault((call.provider, call.model), []).append(call)
    return [
        {
            "provider": provider,
            "model": model,
            "calls": len(group),
            "failed": sum(call.settled_as != "message" for call in group),
            "errorCodes": _codes(group),
            "firstChunkMs": _middle(call.first_chunk_ms for call in group),
            "tokensPerSecond": _middle(call.tokens_per_second for call in group),
        }
        for (provider, model), group in groups.items()
    ]


def _tools(calls: Iterable[ToolCall]) -> list[JsonObject]:
    """The calls by tool: how many, how many errors and which, how many without a result, their median duration.

    ``background`` calls only started a subagent: their durations are not those of its work.
    """
    groups: dict[str | None, list[ToolCall]] = {}
    for call in calls:
        groups.setdefault(call.name, []).append(call)
    return [
        {
            "name": name,
            "calls": len(group),
            "errors": sum(call.is_error is True for call in group),
            "errorCodes": _codes(group),
            "unanswered": sum(not call.has_result for call in group),
            "background": sum(call.child_session_id is not None for call in group),
            "durationMs": _middle(call.duration_ms for call in group),
        }
        for name, group in groups.items()
    ]


def _notes(facts: SessionFacts) -> list[JsonObject]:
    return [{"code": each.code, "message": each.message, "line": each.line, "frame": each.frame} for each in facts.problems]


def _codes(facts: Iterable[ModelCall | ToolCall | Turn]) -> dict[str, int]:
    """How often each error code occurs, the most frequent first; failures without one are not among them."""
    return dict(Counter(each.error_code for each in facts if each.error_code is not None).most_common())


def _middle(values: Iterable[float | None]) -> float | None:
    """The median of what is known."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    middle = median(known) if known else None
    return middle if middle is not None and math.isfinite(middle) else None
