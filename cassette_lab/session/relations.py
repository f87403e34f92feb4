"""What a log itself says of its subagents and of being one: the catalog, settlements, its own descriptor.

Source: session logs, Parents and children.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from cassette_lab.session.facts import Child, Descriptor, Settlement
from cassette_lab.session.members import inner, number, text, time_of
from cassette_lab.session.model import Event


class RelationsTracker:
    """Reads relations off the events of one log; ``cut`` ends what a fork inherited."""

    def __init__(self) -> None:
        self.children: list[Child] = []
        self.settlements: list[Settlement] = []
        self.descriptor: Descriptor | None = None

    def handlers(self) -> Mapping[str, Callable[[Event], None]]:
        """What to call for which type of event."""
        return {
            "subagent/catalog": self._catalog,
            "subagent/descriptor": self._descriptor,
            "user/message": self._message,
        }

    def cut(self) -> None:
        """Everything so far is inherited; the parent's own descriptor does not describe the fork."""
        self.children = [replace(child, inherited=True) for child in self.children]
        self.settlements = [replace(settlement, inherited=True) for settlement in self.settlements]
        self.descriptor = None

    def _catalog(self, event: Event) -> None:
        data = event.data
        session_id = text(data, "childId")
        if session_id is not None:
            created_at = number(data, "childCreatedAt")
            self.children.append(Child(session_id, created_at, text(data, "mode"), text(data, "label"), time_of(event)))

    def _descriptor(self, event: Event) -> None:
        data = event.data
        self.descriptor = Descriptor(
            mode=text(data, "mode"),
            provider=text(data, "provider"),
            label=text(data, "label"),
            agent_provider=text(data, "agentProvider"),
            agent_model=text(data, "agentModel"),
        )

    def _message(self, event: Event) -> None:
        source = inner(event.data, "source")
        sender = text(source, "senderSessionId")
        if sender is not None and source.get("kind") == "subagent-settled":
            self.settlements.append(Settlement(sender, time_of(event)))
