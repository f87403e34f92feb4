"""Compactions: a span of the conversation is summed up by a model call of its own, whose stream is not logged; and prunes.

Old logs spell the events ``compact/…``. A failed one leaves a start and an end with an error: what it cost is not known.
Source: session logs, Event types; usage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from cassette_lab.session.facts import Compaction, Prune
from cassette_lab.session.members import text, time_of, whole
from cassette_lab.session.model import Event
from cassette_lab.session.usage import read_usage


class CompactionsTracker:
    """Reads compactions off the events of one log; ``cut`` ends what a fork inherited."""

    def __init__(self) -> None:
        self.compactions: list[Compaction] = []
        self.prunes: list[Prune] = []
        self._open: dict[str | None, int] = {}

    def handlers(self) -> Mapping[str, Callable[[Event], None]]:
        """What to call for which type of event."""
        named = {"start": self._start, "summary": self._summary, "end": self._end, "prune": self._prune}
        return {f"{family}/{name}": call for family in ("compaction", "compact") for name, call in named.items()}

    def cut(self) -> None:
        """Everything so far is inherited, and nothing of it goes on."""
        self.compactions = [replace(compaction, inherited=True) for compaction in self.compactions]
        self.prunes = [replace(prune, inherited=True) for prune in self.prunes]
        self._open = {}

    def _start(self, event: Event) -> None:
        compaction_id = text(event.data, "compactionId")
        self._open[compaction_id] = len(self.compactions)
        self.compactions.append(
            Compaction(compaction_id, turn=whole(event.data, "turn"), start_seq=event.seq, started_at=time_of(event))
        )

    def _summary(self, event: Event) -> None:
        data = event.data
        place = self._place(event)
        self.compactions[place] = replace(
            self.compactions[place],
            summarised=True,
            provider=text(data, "provider"),
            model=text(data, "model"),
            shadowed_tokens=whole(data, "shadowedTokenCount"),
            usage=read_usage(data.get("usage")),
        )

    def _end(self, event: Event) -> None:
        place = self._place(event)
        self._open.pop(text(event.data, "compactionId"), None)
        failed = event.data.get("error") is not None
        self.compactions[place] = replace(self.compactions[place], ended_at=time_of(event), failed=failed)

    def _prune(self, event: Event) -> None:
        self.prunes.append(Prune(event.seq, time_of(event), whole(event.data, "shadowedTokenCount")))

    def _place(self, event: Event) -> int:
        """Where the compaction of this event is; a new one where its start is not in the log."""
        compaction_id = text(event.data, "compactionId")
        if compaction_id not in self._open:
            self._open[compaction_id] = len(self.compactions)
            self.compactions.append(Compaction(compaction_id, turn=whole(event.data, "turn")))
        return self._open[compaction_id]
