"""The parts of an interaction as its line spells them: names of members, and which are left out.

The model's ``to_json`` and the recorder, which has no use for the objects in between, share them.
"""

from __future__ import annotations

from typing import Any, Final

from cassette_lab.jsonio import JsonObject

INTERACTION_KIND: Final = "cassette/interaction"


def metadata_members(facts: tuple[Any, ...]) -> JsonObject:
    """``RequestMetadata`` as a record writes it, from its values in field order; absent ones left out."""
    blocks, size, schema, persona, label, provider, model, depth, tools = facts
    members: JsonObject = {} if label is None else {"label": label}
    members["promptBlocks"] = blocks
    members["promptBytes"] = size
    members["hasOutputSchema"] = schema
    if depth is not None:
        members["maxDepth"] = depth
    if provider is not None:
        members["childProvider"] = provider
    if model is not None:
        members["childModel"] = model
    if tools is not None:
        members["toolFilter"] = tools
    members["hasPersona"] = persona
    return members


def timing_members(
    started_at: str,
    start_latency_ms: float,
    duration_ms: float,
    signal_aborted_at_ms: float | None,
    dispose_called_at_ms: float | None,
) -> JsonObject:
    """``Timing`` as a record writes it; absent times left out."""
    members: JsonObject = {"startedAt": started_at, "startLatencyMs": start_latency_ms, "durationMs": duration_ms}
    if signal_aborted_at_ms is not None:
        members["signalAbortedAtMs"] = signal_aborted_at_ms
    if dispose_called_at_ms is not None:
        members["disposeCalledAtMs"] = dispose_called_at_ms
    return members


def result_members(result: JsonObject | None, redactions: int) -> JsonObject:
    """``Outcome`` of a result as a record writes it."""
    return {"kind": "result", "result": result, "redactions": redactions}


def error_members(kind: str, error: JsonObject | None) -> JsonObject:
    """``Outcome`` of an error as a record writes it."""
    return {"kind": kind, "error": error}


def interaction_members(
    sequence: int,
    call_key: str,
    group: tuple[str, str, str],
    occurrence: int,
    request: JsonObject,
    timing: JsonObject,
    published: bool,  # noqa: FBT001 - a fact of the record
    local: bool,  # noqa: FBT001 - as above
    outcome: JsonObject,
) -> JsonObject:
    """``Interaction`` as a record writes it, but for the hashes; its parts are JSON already."""
    return {
        "kind": INTERACTION_KIND,
        "sequence": sequence,
        "callKey": call_key,
        "parentKey": group[0],
        "parentContextFingerprint": group[1],
        "requestFingerprint": group[2],
        "occurrence": occurrence,
        "request": request,
        "timing": timing,
        "published": published,
        "local": local,
        "outcome": outcome,
    }
