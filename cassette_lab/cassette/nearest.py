"""Finds what a diagnosis says: the reason why a live call matches nothing, and the recorded calls that come nearest.

Source: cassette format, Matching and diagnosis.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter, ne
from typing import Any, Final, TypeAlias

from cassette_lab.cassette.diagnosis import (
    CANDIDATES_KEPT,
    CONTENT_FIELDS,
    METADATA_FIELDS,
    Candidate,
    Diagnosis,
    Reason,
)
from cassette_lab.cassette.identity import REQUEST_MEMBERS, metadata_facts
from cassette_lab.cassette.model import Interaction, RequestMetadata, metadata_of
from cassette_lab.cassette.topology import CallIdentity
from cassette_lab.jsonio import CanonicalError, JsonObject, JsonSyntaxError, canonical, parse


def diagnose(
    actual: CallIdentity,
    interactions: Sequence[Interaction],
    *,
    consumed: Collection[int],
    waiting: Sequence[Interaction] = (),
) -> Diagnosis:
    """Diagnose one live call against all recorded ones.

    ``consumed`` are sequences already used; ``waiting`` the unused calls of the exact group, the next one last.
    Linear in the recorded calls, with a few of them held at a time.
    """
    if waiting:
        return Diagnosis("match", actual, candidate=_candidate(waiting[-1], actual, consumed), total_candidates=1)
    reason = _reason(actual, interactions)
    near = _TESTS[reason](actual)
    total = sum(1 for interaction in interactions if near(interaction))
    kept: Iterable[Interaction] = (interaction for interaction in interactions if near(interaction))
    if total > CANDIDATES_KEPT:
        kept = heapq.nsmallest(CANDIDATES_KEPT, kept, key=_distance(actual, len(consumed) + 1))
    candidates = (_candidate(interaction, actual, consumed) for interaction in sorted(kept, key=attrgetter("sequence")))
    return Diagnosis("mismatch", actual, reason, candidates=tuple(candidates), total_candidates=total)


def _reason(actual: CallIdentity, interactions: Sequence[Interaction]) -> Reason:
    """The first reason that holds, in the format's order."""
    known = same_request = same_context = False
    for interaction in interactions:
        if interaction.parent_key != actual.parent_key:
            continue
        known = True
        request = interaction.request_fingerprint == actual.request.fingerprint
        context = interaction.parent_context_fingerprint == actual.parent_context_fingerprint
        if request and context:
            return "group-exhausted"
        same_request = same_request or request
        same_context = same_context or context
    if not known:
        return "parent-not-found"
    if same_request:
        return "parent-context-changed"
    return "request-changed" if same_context else "parent-and-request-changed"


_Test: TypeAlias = Callable[[Interaction], bool]

_TESTS: Final[dict[Reason, Callable[[CallIdentity], _Test]]] = {
    "group-exhausted": lambda actual: lambda call: call.group == actual.group,
    "parent-not-found": lambda _: lambda _: True,
    "parent-context-changed": lambda actual: (
        lambda call: call.parent_key == actual.parent_key and call.request_fingerprint == actual.request.fingerprint
    ),
    "request-changed": lambda actual: (
        lambda call: (
            call.parent_key == actual.parent_key and call.parent_context_fingerprint == actual.parent_context_fingerprint
        )
    ),
    "parent-and-request-changed": lambda actual: lambda call: call.parent_key == actual.parent_key,
}
"""Which recorded calls are candidates, for each reason."""

_LABEL: Final = METADATA_FIELDS.index("label")


def _distance(actual: CallIdentity, place: int) -> Callable[[Interaction], tuple[bool, int, int]]:
    """Sort key of nearness: another label, differing fields, distance of the sequence from ``place``."""
    live = actual.request.facts
    parent_key, context, fingerprint = actual.group

    def distance(call: Interaction) -> tuple[bool, int, int]:
        stored = _stored_facts(call)
        differing = sum(map(ne, stored, live))
        if differing == 0 and call.request_fingerprint != fingerprint:
            differing = 1
        differing += (call.parent_key != parent_key) + (call.parent_context_fingerprint != context)
        return stored[_LABEL] != live[_LABEL], differing, abs(call.sequence - place)

    return distance


def _candidate(call: Interaction, actual: CallIdentity, consumed: Collection[int]) -> Candidate:
    metadata = RequestMetadata(*_stored_facts(call))
    differing = tuple(_differing(call, metadata, actual))
    contents = metadata.label == actual.request.metadata.label and not set(CONTENT_FIELDS).isdisjoint(differing)
    live = _arguments(actual.request.value) if contents else None
    return Candidate(
        call.sequence,
        call.call_key,
        call.parent_key,
        call.parent_context_fingerprint,
        call.request_fingerprint,
        call.occurrence,
        metadata,
        call.sequence in consumed,
        differing,
        () if live is None else _differing_arguments(call, live),
        hidden=live is not None and call.request.value is None,
    )


def _stored_facts(call: Interaction) -> tuple[Any, ...]:
    stored = call.request
    return metadata_of(stored.metadata) if stored.metadata is not None else metadata_facts(stored.value or {})


def _differing(call: Interaction, metadata: RequestMetadata, actual: CallIdentity) -> list[str]:
    names = []
    if call.parent_key != actual.parent_key:
        names.append("parentKey")
    if call.parent_context_fingerprint != actual.parent_context_fingerprint:
        names.append("parentContext")
    if call.request_fingerprint == actual.request.fingerprint:
        return names
    live = actual.request.facts
    visible = [name for name, a, b in zip(METADATA_FIELDS, metadata_of(metadata), live, strict=True) if a != b]
    return names + (visible or _differing_members(call, actual) or ["request"])


def _differing_members(call: Interaction, actual: CallIdentity) -> list[str]:
    """The members of the request that differ, where the file holds the request as it was."""
    stored = call.request
    if stored.value is None or stored.redactions:
        return []
    live = actual.request.value
    return [
        name
        for name in REQUEST_MEMBERS
        if (name in live) != (name in stored.value) or (name in live and canonical(live[name]) != canonical(stored.value[name]))
    ]


def _arguments(request: Mapping[str, Any]) -> JsonObject | None:
    """The arguments of an ``@subagent``'s call: its prompt is one text, the canonical JSON of an object of them."""
    prompt = request.get("prompt")
    block = prompt[0] if isinstance(prompt, list) and len(prompt) == 1 else None
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
    if not isinstance(text, str) or not text.startswith("{"):
        return None
    try:
        value = parse(text)
        return value if isinstance(value, dict) and canonical(value).decode() == text else None
    except (JsonSyntaxError, CanonicalError):
        return None


def _differing_arguments(call: Interaction, live: JsonObject) -> tuple[str, ...]:
    """The names of the arguments that differ, where the file holds the request as it was."""
    stored = call.request
    recorded = None if stored.value is None or stored.redactions else _arguments(stored.value)
    if recorded is None:
        return ()
    return tuple(
        name
        for name in {**recorded, **live}
        if (name in live) != (name in recorded) or canonical(live[name]) != canonical(recorded[name])
    )
