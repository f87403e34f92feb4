"""Small cassettes made in place: calls as a recording would have left them, without a file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cassette_lab.cassette.identity import RequestIdentity
from cassette_lab.cassette.model import (
    Cassette,
    ErrorFacts,
    Header,
    Interaction,
    Outcome,
    ProviderFacts,
    StoredRequest,
    Timing,
)
from cassette_lab.cassette.topology import TopologyTracker
from cassette_lab.contracts import ParentAgent

ROOT = ParentAgent(id="the root")


def ask(label: str | None = "audit", text: str = "look at it", **members: Any) -> dict[str, Any]:
    """A request with one text block; further members by their JSON names."""
    request: dict[str, Any] = {"prompt": [{"type": "text", "text": text}], **members}
    return request if label is None else {"label": label, **request}


def result(text: str = "fine", *, stop_reason: str = "completed", redactions: int = 0) -> Outcome:
    """A result with one text block."""
    return Outcome("result", {"output": [{"type": "text", "text": text}], "stopReason": stop_reason}, redactions)


def failure(*, start: bool = False, code: str | None = None) -> Outcome:
    """An error of the run, or of its start."""
    return Outcome("start-error" if start else "result-error", error=ErrorFacts("Error", "it broke", code))


class Tape:
    """Makes interactions in admission order, as a recorder would number and place them."""

    def __init__(self, *, full: bool = False, inherits: bool = False) -> None:
        self.header = Header(
            "a-tape",
            "2026-01-02T03:04:05.678Z",
            ProviderFacts("cassette", "spawn", inherits_parent_context=inherits),
            request_storage="full" if full else "metadata",
        )
        self.topology = TopologyTracker(inherits)
        self.calls: list[Interaction] = []

    def add(
        self,
        request: dict[str, Any] | None = None,
        outcome: Outcome | None = None,
        *,
        parent: ParentAgent = ROOT,
        child: ParentAgent | None = None,
        started: float = 1.0,
        took: float = 2.5,
        redactions: int = 0,
    ) -> Interaction:
        """Record one call; ``child`` becomes the parent of the calls it makes."""
        identity = RequestIdentity(ask() if request is None else request)
        place = self.topology.reserve(identity, parent)
        if child is not None:
            self.topology.register_local_child(child, place.call_key)
        outcome = outcome or result()
        if self.header.request_storage == "full":
            stored = StoredRequest(value=identity.value, redactions=redactions)
        else:
            stored = StoredRequest(metadata=identity.metadata)
        self.calls.append(
            Interaction(
                len(self.calls) + 1,
                place.call_key,
                place.parent_key,
                place.parent_context_fingerprint,
                place.request_fingerprint,
                place.occurrence,
                stored,
                Timing("2026-01-02T03:04:06.000Z", started, took),
                published=outcome.kind != "start-error",
                local=False,
                outcome=outcome,
                line=len(self.calls) + 2,
            )
        )
        return self.calls[-1]

    def cassette(self, **header: Any) -> Cassette:
        """The calls as a cassette; members of the header may be replaced."""
        return Cassette(replace(self.header, **header), tuple(self.calls))
