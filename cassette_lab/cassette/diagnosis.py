"""Why a live call matches nothing: the reason, the nearest recorded calls, and which of their fields differ.

A diagnosis holds metadata and fingerprints only, never prompts, results or error messages. It explains; it never
changes what matches.
Source: cassette format, Matching and diagnosis.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter, ne
from typing import Any, Final, Literal, TypeAlias

from cassette_lab.cassette.identity import REQUEST_MEMBERS, metadata_facts
from cassette_lab.cassette.model import Interaction, RequestMetadata
from cassette_lab.cassette.topology import CallIdentity
from cassette_lab.contracts import ABSENT
from cassette_lab.jsonio import JsonObject, canonical
from cassette_lab.jsonio.text import show
from cassette_lab.words import plural

Reason: TypeAlias = Literal[
    "group-exhausted", "parent-not-found", "parent-context-changed", "request-changed", "parent-and-request-changed"
]

CANDIDATES_KEPT: Final = 20
"""A diagnosis names at most this many recorded calls."""

METADATA_FIELDS: Final = (
    "promptBlocks", "promptBytes", "hasOutputSchema", "hasPersona", "label", "childProvider", "childModel", "maxDepth",
    "toolFilter",
)  # fmt: skip
"""What ``RequestMetadata`` holds, in field order, by the names in the file."""

_FACTS: Final[Callable[[RequestMetadata], tuple[Any, ...]]] = attrgetter(*(field.name for field in fields(RequestMetadata)))
_LABEL: Final = METADATA_FIELDS.index("label")
_SHOWN_CANDIDATES: Final = 3
_SHOWN_TEXT: Final = 60


@dataclass(frozen=True)
class Candidate:
    """A recorded call beside the live one. ``differing`` names the fields of identity in which the two differ.

    Beside the metadata fields these are ``parentKey``, ``parentContext`` and, where the stored request shows it, the
    member (``prompt``, ``agentOptions``, …); ``request`` where the contents differ and the file cannot show in what.
    """

    sequence: int
    call_key: str
    parent_key: str
    parent_context_fingerprint: str
    request_fingerprint: str
    occurrence: int
    metadata: RequestMetadata
    consumed: bool
    differing: tuple[str, ...] = ()

    def to_json(self) -> JsonObject:
        """The original's members."""
        return {
            "sequence": self.sequence,
            "callKey": self.call_key,
            "parentKey": self.parent_key,
            "parentContextFingerprint": self.parent_context_fingerprint,
            "occurrence": self.occurrence,
            "requestFingerprint": self.request_fingerprint,
            "requestMetadata": self.metadata.to_json(),
            "consumed": self.consumed,
        }


@dataclass(frozen=True)
class Diagnosis:
    """What was asked, and what the cassette has for it.

    ``status`` is ``match`` (then ``candidate`` is the call) or ``mismatch`` (then ``reason`` says why). ``candidates``
    are the recorded calls that come near, by sequence; at most ``CANDIDATES_KEPT`` of ``total_candidates``: those with
    the fewest differing fields, then those with the same label, then those recorded nearest to where the replay stands.
    """

    status: Literal["match", "mismatch"]
    actual: CallIdentity
    reason: Reason | None = None
    candidate: Candidate | None = None
    candidates: tuple[Candidate, ...] = ()
    total_candidates: int = 0

    def to_json(self) -> JsonObject:
        """The original's document."""
        document: JsonObject = {"status": self.status}
        if self.reason is not None:
            document["reason"] = self.reason
        document["actual"] = {
            "parentKey": self.actual.parent_key,
            "parentContextFingerprint": self.actual.parent_context_fingerprint,
            "requestFingerprint": self.actual.request.fingerprint,
            "requestMetadata": self.actual.request.metadata_json(),
        }
        if self.candidate is not None:
            document["candidate"] = self.candidate.to_json()
        else:
            document["candidates"] = [candidate.to_json() for candidate in self.candidates]
        return document

    def to_dict(self) -> JsonObject:
        """``to_json`` and what it has no members for: ``totalCandidates``, and ``differing`` in each candidate."""
        document = self.to_json()
        if self.candidate is None:
            document["totalCandidates"] = self.total_candidates
            for members, candidate in zip(document["candidates"], self.candidates, strict=True):
                members["differing"] = list(candidate.differing)
        return document

    def nearest(self) -> list[Candidate]:
        """The candidates with the fewest differing fields first, calls not yet used before used ones."""
        label = self.actual.request.metadata.label
        return sorted(
            self.candidates,
            key=lambda candidate: (len(candidate.differing), candidate.metadata.label != label, candidate.consumed),
        )

    def sentence(self) -> str:
        """The diagnosis in one sentence."""
        if self.reason is None:
            return f"{self._asked()} matches {self._named(self.candidate)}"
        sentence = f"no recorded call answers {self._asked()}: {_REASONS[self.reason]}"
        nearest = self.nearest()[:1]
        if nearest and self.reason != "group-exhausted":
            sentence += f"; nearest is {self._named(nearest[0])}, which differs in {', '.join(nearest[0].differing)}"
        return sentence

    def explain(self) -> list[str]:
        """Lines for a person: what was asked, why nothing matches, the nearest recorded calls, the next step."""
        if self.reason is None:
            return [self.sentence()]
        lines = [f"asked: {self._asked()}, {_sizes(self.actual.request.metadata)}", f"why: {_REASONS[self.reason]}"]
        nearest = self.nearest()[:_SHOWN_CANDIDATES]
        lines += [f"near: {self._beside(candidate)}" for candidate in nearest]
        if self.total_candidates > len(nearest):
            lines.append(f"near: {plural(self.total_candidates - len(nearest), 'more recorded call')}")
        lines.append(f"next: {_NEXT_STEPS[self.reason]}")
        return lines

    def _asked(self) -> str:
        label = self.actual.request.label
        what = "a call without a label" if label is ABSENT else f"the call {_shown(label)}"
        return f"{what} of {_shown(self.actual.parent_key, quoted=False)}"

    def _named(self, candidate: Candidate | None) -> str:
        return "" if candidate is None else f"#{candidate.sequence} {_shown(candidate.call_key, quoted=False)}"

    def _beside(self, candidate: Candidate) -> str:
        """One recorded call, with both values of each differing field that metadata shows."""
        live = dict(zip(METADATA_FIELDS, self.actual.request.facts, strict=True))
        recorded = dict(zip(METADATA_FIELDS, _FACTS(candidate.metadata), strict=True))
        parts = []
        for name in candidate.differing:
            if name in live:
                parts.append(f"{name} {_shown(recorded[name])} recorded, {_shown(live[name])} now")
            elif name == "parentKey":
                parts.append(f"parentKey {_shown(candidate.parent_key)} recorded")
            else:
                parts.append(_BLIND_DIFFERENCES.get(name, name))
        used = " (used already)" if candidate.consumed else ""
        return f"{self._named(candidate)}{used}: {'; '.join(parts) if parts else 'the same call'}"


_REASONS: Final[dict[Reason, str]] = {
    "group-exhausted": "it is recorded, but every recorded occurrence is used up",
    "parent-not-found": "the cassette has no calls of this parent",
    "parent-context-changed": "the same request is recorded, but its parent is not what it was then",
    "request-changed": "calls of this parent are recorded, but not this request",
    "parent-and-request-changed": "calls of this parent key are recorded, but neither this request nor a parent like this one",
}

_RECORD_AGAIN: Final = "record the run again (%%cassette record FILE --write-mode truncate, write_mode='truncate')"

_NEXT_STEPS: Final[dict[Reason, str]] = {
    "group-exhausted": f"make the call as often as it was recorded, or {_RECORD_AGAIN}",
    "parent-not-found": f"start the parent through the same cassette, or {_RECORD_AGAIN}",
    "parent-context-changed": f"give the parent the options, folder and history it had, or {_RECORD_AGAIN}",
    "request-changed": f"ask what was asked then, or {_RECORD_AGAIN}",
    "parent-and-request-changed": f"check that this cassette belongs to this program, or {_RECORD_AGAIN}",
}

_BLIND_DIFFERENCES: Final = {
    "parentContext": "the parent's options, session or history",
    "request": "contents of the request (same sizes; the cassette does not keep them)",
}


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


def _distance(actual: CallIdentity, place: int) -> Callable[[Interaction], tuple[int, bool, int]]:
    """Sort key of nearness: differing fields, another label, distance of the sequence from ``place``."""
    live = actual.request.facts
    parent_key, context, fingerprint = actual.group

    def distance(call: Interaction) -> tuple[int, bool, int]:
        stored = _stored_facts(call)
        differing = sum(map(ne, stored, live))
        if differing == 0 and call.request_fingerprint != fingerprint:
            differing = 1
        differing += (call.parent_key != parent_key) + (call.parent_context_fingerprint != context)
        return differing, stored[_LABEL] != live[_LABEL], abs(call.sequence - place)

    return distance


def _candidate(call: Interaction, actual: CallIdentity, consumed: Collection[int]) -> Candidate:
    metadata = RequestMetadata(*_stored_facts(call))
    return Candidate(
        call.sequence,
        call.call_key,
        call.parent_key,
        call.parent_context_fingerprint,
        call.request_fingerprint,
        call.occurrence,
        metadata,
        call.sequence in consumed,
        tuple(_differing(call, metadata, actual)),
    )


def _stored_facts(call: Interaction) -> tuple[Any, ...]:
    stored = call.request
    return _FACTS(stored.metadata) if stored.metadata is not None else metadata_facts(stored.value or {})


def _differing(call: Interaction, metadata: RequestMetadata, actual: CallIdentity) -> list[str]:
    names = []
    if call.parent_key != actual.parent_key:
        names.append("parentKey")
    if call.parent_context_fingerprint != actual.parent_context_fingerprint:
        names.append("parentContext")
    if call.request_fingerprint == actual.request.fingerprint:
        return names
    live = actual.request.facts
    visible = [name for name, a, b in zip(METADATA_FIELDS, _FACTS(metadata), live, strict=True) if a != b]
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


def _sizes(metadata: RequestMetadata) -> str:
    return f"{plural(metadata.prompt_blocks, 'prompt block')} of {plural(metadata.prompt_bytes, 'byte')}"


def _shown(value: Any, *, quoted: bool = True) -> str:
    """A recorded or live value for a line: escaped, and cut when it is long."""
    if value is None:
        return "none"
    text = show(value if isinstance(value, str) else canonical(value).decode())
    if len(text) > _SHOWN_TEXT:
        text = text[: _SHOWN_TEXT - 1] + "…"
    return f'"{text}"' if quoted and isinstance(value, str) else text
