"""What a cassette says, as frozen facts. The JSON names and their mapping are here and nowhere else.

``from_json`` takes members that the schema has passed; there an integer may be spelled ``1.0``, which ``int`` settles.

Source: cassette format 1, Header and Interaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import lru_cache
from html import escape
from operator import attrgetter
from typing import Any, Final, Literal, Self, TypeAlias

from cassette_lab.cassette.members import error_members, interaction_members, metadata_members, result_members, timing_members
from cassette_lab.contracts import Capabilities
from cassette_lab.jsonio import JsonObject
from cassette_lab.jsonio.text import show
from cassette_lab.words import plural

FORMAT: Final = "dsh-subagent-cassette"
VERSION: Final = 1
TARGET: Final = {"dshSubagent": "0.1.0-rc.7"}
HEADER_KIND: Final = "cassette/header"
REDACTED: Final = "[REDACTED]"

RequestStorage: TypeAlias = Literal["metadata", "full"]
OutcomeKind: TypeAlias = Literal["result", "start-error", "result-error"]
StopReasonCategory: TypeAlias = Literal["completed", "aborted", "error", "max-tokens", "refusal", "other"]

REQUEST_STORAGES: Final[tuple[RequestStorage, ...]] = ("metadata", "full")
OUTCOME_KINDS: Final[tuple[OutcomeKind, ...]] = ("result", "start-error", "result-error")
STOP_REASON_CATEGORIES: Final[tuple[StopReasonCategory, ...]] = (
    "completed", "aborted", "error", "max-tokens", "refusal", "other",
)  # fmt: skip


def stop_reason_category(stop_reason: str) -> StopReasonCategory:
    """The public category of a raw stop reason; an unknown one is ``other`` (raw ones are never shown)."""
    return stop_reason if stop_reason in STOP_REASON_CATEGORIES else "other"


def iso_now() -> str:
    """Now, as a cassette writes times: ISO-8601 UTC with milliseconds and ``Z``."""
    second, millisecond = divmod(time.time_ns() // 1_000_000, 1000)
    return f"{_second_text(second)}.{millisecond:03}Z"


@lru_cache(maxsize=4)
def _second_text(second: int) -> str:
    """A second since 1970 as ISO-8601 UTC; one text serves the many calls of that second."""
    return datetime.fromtimestamp(second, UTC).isoformat()[:-6]


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """Who recorded and from whom: the cassette provider's name, the upstream's, and what the upstream can do."""

    cassette: str
    upstream: str
    capabilities: Capabilities = Capabilities()
    inherits_parent_context: bool = False

    def to_json(self) -> JsonObject:
        """As the header writes them."""
        return {
            "cassette": self.cassette,
            "upstream": self.upstream,
            "capabilities": self.capabilities.to_json(),
            "inheritsParentContext": self.inherits_parent_context,
        }

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """From a checked header's members."""
        return cls(
            members["cassette"],
            members["upstream"],
            Capabilities.from_json(members["capabilities"]),
            members["inheritsParentContext"],
        )


@dataclass(frozen=True, slots=True)
class Header:
    """First record of a cassette."""

    cassette_id: str
    created_at: str
    provider: ProviderFacts
    request_storage: RequestStorage = "metadata"
    redact_secrets: bool = True
    redaction_patterns: tuple[str, ...] = ()
    hash: str = ""

    def to_json(self) -> JsonObject:
        """All members; ``hash`` only when it is set."""
        members: JsonObject = {
            "kind": HEADER_KIND,
            "format": FORMAT,
            "version": VERSION,
            "cassetteId": self.cassette_id,
            "createdAt": self.created_at,
            "target": dict(TARGET),
            "provider": self.provider.to_json(),
            "requestStorage": self.request_storage,
            "redactSecrets": self.redact_secrets,
            "redactionPatterns": list(self.redaction_patterns),
        }
        if self.hash:
            members["hash"] = self.hash
        return members

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """From members that ``schema.check_header`` has passed."""
        return cls(
            members["cassetteId"],
            members["createdAt"],
            ProviderFacts.from_json(members["provider"]),
            members["requestStorage"],
            members["redactSecrets"],
            tuple(members["redactionPatterns"]),
            members["hash"],
        )


@dataclass(frozen=True, slots=True)
class RequestMetadata:
    """What may be said of a request without its contents. Sizes in content blocks and UTF-8 bytes."""

    prompt_blocks: int
    prompt_bytes: int
    has_output_schema: bool
    has_persona: bool
    label: str | None = None
    child_provider: str | None = None
    child_model: str | None = None
    max_depth: int | None = None
    tool_filter: JsonObject | None = None

    def to_json(self) -> JsonObject:
        """Members in the order of the original's diagnostics; absent ones left out."""
        return metadata_members(metadata_of(self))

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """From checked members."""
        return cls(
            int(members["promptBlocks"]),
            int(members["promptBytes"]),
            members["hasOutputSchema"],
            members["hasPersona"],
            members.get("label"),
            members.get("childProvider"),
            members.get("childModel"),
            int(members["maxDepth"]) if "maxDepth" in members else None,
            members.get("toolFilter"),
        )


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """The request as the file keeps it: ``metadata`` only, or the (redacted) full ``value``."""

    metadata: RequestMetadata | None = None
    value: JsonObject | None = None
    redactions: int = 0

    @property
    def storage(self) -> RequestStorage:
        """Which arm this is."""
        return "metadata" if self.metadata is not None else "full"

    def to_json(self) -> JsonObject:
        """The arm as the record writes it."""
        if self.metadata is not None:
            return {"storage": "metadata", "metadata": self.metadata.to_json()}
        return {"storage": "full", "value": self.value, "redactions": self.redactions}

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """From checked members."""
        if members["storage"] == "metadata":
            return cls(metadata=RequestMetadata.from_json(members["metadata"]))
        return cls(value=members["value"], redactions=int(members["redactions"]))


@dataclass(frozen=True, slots=True)
class Timing:
    """When a call was admitted and, in milliseconds from there, when what happened."""

    started_at: str
    start_latency_ms: float
    duration_ms: float
    signal_aborted_at_ms: float | None = None
    dispose_called_at_ms: float | None = None

    def to_json(self) -> JsonObject:
        """As the record writes it; absent times left out."""
        return timing_members(
            self.started_at, self.start_latency_ms, self.duration_ms, self.signal_aborted_at_ms, self.dispose_called_at_ms
        )

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """From checked members."""
        return cls(
            members["startedAt"],
            members["startLatencyMs"],
            members["durationMs"],
            members.get("signalAbortedAtMs"),
            members.get("disposeCalledAtMs"),
        )


@dataclass(frozen=True, slots=True)
class ErrorFacts:
    """A recorded error: name, message and (where it was a string) code."""

    name: str
    message: str
    code: str | None = None

    def to_json(self) -> JsonObject:
        """As the record writes them; an absent code left out."""
        members: JsonObject = {"name": self.name, "message": self.message}
        if self.code is not None:
            members["code"] = self.code
        return members

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """From checked members."""
        return cls(members["name"], members["message"], members.get("code"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended: a ``result`` (open object) or an ``error``."""

    kind: OutcomeKind
    result: JsonObject | None = None
    redactions: int = 0
    error: ErrorFacts | None = None

    def to_json(self) -> JsonObject:
        """The arm as the record writes it."""
        return (
            result_members(self.result, self.redactions)
            if self.kind == "result"
            else error_members(self.kind, None if self.error is None else self.error.to_json())
        )

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """From checked members."""
        if members["kind"] == "result":
            return cls("result", members["result"], int(members["redactions"]))
        return cls(members["kind"], error=ErrorFacts.from_json(members["error"]))


@dataclass(frozen=True, slots=True)
class Interaction:
    """One recorded call. ``line`` is the 1-based physical line it was read from (not part of the record)."""

    sequence: int
    call_key: str
    parent_key: str
    parent_context_fingerprint: str
    request_fingerprint: str
    occurrence: int
    request: StoredRequest
    timing: Timing
    published: bool
    local: bool
    outcome: Outcome
    previous_hash: str = ""
    hash: str = ""
    line: int | None = field(default=None, compare=False)

    @property
    def group(self) -> tuple[str, str, str]:
        """The strict replay identity: parent key, parent-context fingerprint, request fingerprint."""
        return (self.parent_key, self.parent_context_fingerprint, self.request_fingerprint)

    def to_json(self) -> JsonObject:
        """All members; ``hash`` only when it is set."""
        members = interaction_members(
            self.sequence,
            self.call_key,
            self.group,
            self.occurrence,
            self.request.to_json(),
            self.timing.to_json(),
            self.published,
            self.local,
            self.outcome.to_json(),
        )
        members["previousHash"] = self.previous_hash
        if self.hash:
            members["hash"] = self.hash
        return members

    @classmethod
    def from_json(cls, members: Mapping[str, Any], *, line: int | None = None) -> Self:
        """From members that ``schema.check_interaction`` has passed."""
        return cls(
            int(members["sequence"]),
            members["callKey"],
            members["parentKey"],
            members["parentContextFingerprint"],
            members["requestFingerprint"],
            int(members["occurrence"]),
            StoredRequest.from_json(members["request"]),
            Timing.from_json(members["timing"]),
            members["published"],
            members["local"],
            Outcome.from_json(members["outcome"]),
            members["previousHash"],
            members["hash"],
            line,
        )


metadata_of: Final[Callable[[RequestMetadata], tuple[Any, ...]]] = attrgetter(
    *(field.name for field in fields(RequestMetadata))
)
"""The values of a request's metadata, in the order of its fields."""


@dataclass(frozen=True, slots=True)
class Cassette:
    """A verified cassette: header and interactions in physical order. ``path`` is where it was read from."""

    header: Header
    interactions: tuple[Interaction, ...]
    path: str | None = None
    size_bytes: int = 0
    file_sha256: str = ""

    def __repr__(self) -> str:
        return f"<cassette: {', '.join(self._facts().values())}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th scope="row" style="text-align:left;font-weight:normal">{name}</th>'
            f'<td style="text-align:left"><bdi>{escape(text)}</bdi></td></tr>'
            for name, text in self._facts().items()
        )
        return f"<table><tbody>{rows}</tbody></table>"

    def _facts(self) -> dict[str, str]:
        """What a person wants to know first; escaped for a line."""
        return {
            "file": show(self.path) if self.path is not None else "no file",
            "calls": plural(len(self.interactions), "call"),
            "id": show(self.header.cassette_id),
            "recorded": show(self.header.created_at),
        }
