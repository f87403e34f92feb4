"""Why a live call matches nothing: the reason, the nearest recorded calls, and which of their fields differ.

A diagnosis holds metadata and fingerprints only, never prompts, results or error messages. It explains; it never
changes what matches.
Source: cassette format, Matching and diagnosis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from cassette_lab.cassette.model import RequestMetadata, metadata_of
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

CONTENT_FIELDS: Final = ("promptBlocks", "promptBytes", "prompt", "request")
"""Fields of identity that say less than the names of the arguments in the prompt do."""

_SHOWN_CANDIDATES: Final = 3
_SHOWN_TEXT: Final = 60


@dataclass(frozen=True)
class Candidate:
    """A recorded call beside the live one. ``differing`` names the fields of identity in which the two differ.

    Beside the metadata fields these are ``parentKey``, ``parentContext`` and, where the stored request shows it, the
    member (``prompt``, ``agentOptions``, …); ``request`` where the contents differ and the file cannot show in what.
    ``arguments`` names the arguments that differ, where both are calls of an ``@subagent`` of this label and the file
    shows them; ``hidden`` says that they differ but the file keeps metadata only.
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
    arguments: tuple[str, ...] = ()
    hidden: bool = False

    def difference(self) -> str:
        """What differs, in words: ``argument model differs``, ``same size, other content``; empty where nothing does."""
        named = self.named_arguments()
        known = [name for name in self.differing if not (named and name in CONTENT_FIELDS)]
        things = [*named, *(_WORDS.get(name, name) for name in known if name not in _UNSEEN_FIELDS)]
        one = len(things) == 1 and not things[0].startswith(("arguments ", "agent options"))
        parts = [f"{', '.join(things)} {'differs' if one else 'differ'}"] if things else []
        return "; ".join(parts if _UNSEEN_FIELDS.isdisjoint(known) else [*parts, _SAME_SIZE])

    def named_arguments(self) -> list[str]:
        """``arguments`` as one thing, in words; none for none."""
        names = ", ".join(map(show, self.arguments))
        return [f"{'arguments' if self.arguments[1:] else 'argument'} {names}"] if names else []

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
    the same label, then those with the fewest differing fields, then those recorded nearest to where the replay stands.
    """

    status: Literal["match", "mismatch"]
    actual: CallIdentity
    reason: Reason | None = None
    candidate: Candidate | None = None
    candidates: tuple[Candidate, ...] = ()
    total_candidates: int = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.sentence()}>"

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
        """``to_json`` and what it has no members for: ``totalCandidates``; ``differing``, ``arguments`` in candidates."""
        document = self.to_json()
        if self.candidate is None:
            document["totalCandidates"] = self.total_candidates
            for members, candidate in zip(document["candidates"], self.candidates, strict=True):
                members["differing"] = list(candidate.differing)
                if candidate.arguments:
                    members["arguments"] = list(candidate.arguments)
        return document

    def nearest(self) -> list[Candidate]:
        """The candidates of the same label, else all of them: the fewest differing fields first, used calls last."""
        label = self.actual.request.metadata.label
        same = [candidate for candidate in self.candidates if candidate.metadata.label == label]
        return sorted(same or self.candidates, key=_farness)

    def sentence(self) -> str:
        """The diagnosis in one sentence: the reason first, for where only a beginning is shown."""
        if self.reason is None:
            return f"{self._asked()} matches {self._named(self.candidate)}"
        nearest = None if self.reason == "group-exhausted" else next(iter(self.nearest()), None)
        if nearest is None:
            return f"{self._why()}: asked {self._asked()}"
        parts = [f"{self._why()}: {nearest.difference()}", f"asked {self._asked()}, nearest {self._named(nearest)}"]
        return "; ".join([*parts, *self._tip()])

    def explain(self) -> list[str]:
        """Lines for a person: what was asked, why nothing matches, the nearest recorded calls, the next step."""
        if self.reason is None:
            return [self.sentence()]
        lines = [f"asked: {self._asked()}, {_sizes(self.actual.request.metadata)}", f"why: {self._why()}"]
        nearest = self.nearest()[:_SHOWN_CANDIDATES]
        lines += [f"near: {self._beside(candidate)}" for candidate in nearest]
        if self.total_candidates > len(nearest):
            lines.append(f"near: {plural(self.total_candidates - len(nearest), 'other recorded call')}")
        lines.append(f"next: {_NEXT_STEPS[self.reason]}")
        return [*lines, *(f"tip: {tip}" for tip in self._tip())]

    def _why(self) -> str:
        if self.reason is None:
            return ""
        label = self.actual.request.metadata.label
        same = any(candidate.metadata.label == label for candidate in self.candidates)
        return _REASONS[self.reason] + (_SAME_LABEL if same else _OTHER_LABELS).get(self.reason, "")

    def _tip(self) -> list[str]:
        """How to see more, where the file does not show in what the nearest call differs."""
        nearest = self.nearest()[:1]
        if not nearest or not nearest[0].hidden:
            return []
        return ['record with request_storage="full" (--request-storage full) to see which argument differs']

    def _asked(self) -> str:
        label = self.actual.request.label
        what = "a call without a label" if label is ABSENT else f"the call {_shown(label)}"
        return f"{what} of {_shown(self.actual.parent_key, quoted=False)}"

    def _named(self, candidate: Candidate | None) -> str:
        return "" if candidate is None else f"#{candidate.sequence} {_shown(candidate.call_key, quoted=False)}"

    def _beside(self, candidate: Candidate) -> str:
        """One recorded call, with both values of each differing field that metadata shows."""
        live = dict(zip(METADATA_FIELDS, self.actual.request.facts, strict=True))
        recorded = dict(zip(METADATA_FIELDS, metadata_of(candidate.metadata), strict=True))
        parts = candidate.named_arguments()
        for name in candidate.differing:
            if name in live:
                parts.append(f"{_WORDS.get(name, name)} {_shown(recorded[name])} recorded, {_shown(live[name])} now")
            elif name == "parentKey":
                parts.append(f"parent {_shown(candidate.parent_key)} recorded")
            elif name not in _UNSEEN_FIELDS:
                parts.append(_WORDS.get(name, name))
            elif not candidate.arguments:
                parts.append(_SAME_SIZE)
        used = " (used already)" if candidate.consumed else ""
        return f"{self._named(candidate)}{used}: {'; '.join(parts) if parts else 'the same call'}"


_REASONS: Final[dict[Reason, str]] = {
    "group-exhausted": "this call is recorded, but every recorded occurrence is used up",
    "parent-not-found": "the cassette has no calls of this parent",
    "parent-context-changed": "the same request is recorded, but its parent is not what it was then",
    "request-changed": "nothing recorded for this request",
    "parent-and-request-changed": "nothing recorded for this request, nor for a parent like this one",
}

_SAME_LABEL: Final[dict[Reason, str]] = {
    "parent-not-found": "; a call with the same label was recorded elsewhere",
    "request-changed": "; a call with the same label was recorded",
    "parent-and-request-changed": "; a call with the same label was recorded",
}

_OTHER_LABELS: Final[dict[Reason, str]] = {
    "request-changed": "; calls with other labels were recorded",
    "parent-and-request-changed": "; calls with other labels were recorded",
}

_RECORD_AGAIN: Final = "record the run again (%%cassette record FILE --write-mode truncate, write_mode='truncate')"

_NEXT_STEPS: Final[dict[Reason, str]] = {
    "group-exhausted": f"make the call as often as it was recorded, or {_RECORD_AGAIN}",
    "parent-not-found": f"start the parent through the same cassette, or {_RECORD_AGAIN}",
    "parent-context-changed": f"give the parent the options, folder and history it had, or {_RECORD_AGAIN}",
    "request-changed": f"ask what was asked then, or {_RECORD_AGAIN}",
    "parent-and-request-changed": f"check that this cassette belongs to this program, or {_RECORD_AGAIN}",
}

_UNSEEN_FIELDS: Final = frozenset({"prompt", "request"})
"""Fields that differ in what a diagnosis does not show: sizes and the like are equal."""

_SAME_SIZE: Final = "same size, other content"

_WORDS: Final = {
    "parentContext": "the parent's options, session or history",
    "parentKey": "parent",
    "promptBytes": "prompt length",
    "promptBlocks": "number of prompt blocks",
    "agentOptions": "agent options",
    "childProvider": "provider",
    "childModel": "model",
    "hasOutputSchema": "output schema",
    "outputSchema": "output schema",
    "hasPersona": "persona",
    "maxDepth": "maximum depth",
    "toolFilter": "tool filter",
}


def _farness(candidate: Candidate) -> tuple[int, int, bool]:
    return len(candidate.differing), len(candidate.arguments), candidate.consumed


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
