"""Reads a session log once and tells everything about it: the derivation, fed row by row or with a whole log.

A fork's log begins with events of its parent. Formats 0 and 1 say how many; later ones mark their end, and the last mark
counts. At the boundary everything that was found becomes inherited and the count starts anew, so that nothing of the
parent's is counted twice and nothing of the parent's is answered by the child. Source: session logs, Header line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from cassette_lab.jsonio import MAX_SAFE_INTEGER
from cassette_lab.session.calls import CallsTracker
from cassette_lab.session.compactions import CompactionsTracker
from cassette_lab.session.facts import SessionFacts
from cassette_lab.session.members import inner, text, text_blocks
from cassette_lab.session.model import CHUNK_TYPE, ChunkRun, Event, Row, SessionHeader, SessionLog
from cassette_lab.session.nodes import SurfaceTracker
from cassette_lab.session.relations import RelationsTracker
from cassette_lab.session.skim import SkimmedRow
from cassette_lab.session.spans import Time
from cassette_lab.session.stretches import Stretch
from cassette_lab.session.tools import ToolsTracker
from cassette_lab.session.turns import TurnsTracker

_FIRST_WITH_MARKERS: Final = 2


def derive(log: SessionLog, *, bodies: bool = False) -> SessionFacts:
    """Everything a log tells. ``bodies`` keeps what was said: texts, arguments, results, title and first prompt."""
    derivation = Derivation(log.header, bodies=bodies)
    derivation.add_all(log.rows)
    return derivation.facts(log)


class Derivation:
    """The facts of one log whose rows come in order, so that they need not all be in memory.

    ``facts`` takes what only the end of the file tells (``SessionReader.log([])`` gives it).
    """

    def __init__(self, header: SessionHeader, *, bodies: bool = False) -> None:
        self._header = header
        self._bodies = bodies
        self._turns = TurnsTracker()
        self._calls = CallsTracker(header.version, bodies=bodies)
        self._tools = ToolsTracker(bodies=bodies)
        self._compactions = CompactionsTracker()
        self._relations = RelationsTracker()
        self._surface = SurfaceTracker(header.version)
        self._types: Counter[str] = Counter()
        self._first_at: Time = MAX_SAFE_INTEGER
        self._last_at: Time = 0
        self._title: str | None = None
        self._first_prompt: str | None = None
        self._handlers: dict[str, list[Callable[[Event], None]]] = {}
        for tracker in (self._turns, self._calls, self._tools, self._compactions, self._relations, self._surface):
            self._listen(tracker.handlers().items())
        if bodies:
            self._listen([("session/title", self._note_title), ("user/message", self._note_prompt)])
        counted = header.version < _FIRST_WITH_MARKERS
        self._boundary = (header.seed_length or None) if counted else None
        self._awaits_marker = not counted and header.is_seeded is True

    def add_all(self, rows: Iterable[Row | SkimmedRow]) -> None:
        """The next rows, in order."""
        for row in rows:
            if type(row) is Stretch:
                self._add_stretch(row)
            elif type(row) is ChunkRun:
                self._add_run(row)
            else:
                self._add_event(row)

    def add(self, row: Row | SkimmedRow) -> None:
        """The next row."""
        self.add_all((row,))

    def facts(self, log: SessionLog) -> SessionFacts:
        """Everything, once all rows were added; of ``log`` only what is not in its rows."""
        if self._boundary is not None or (self._awaits_marker and log.boundary == log.event_count):
            self._cut()
        self._calls.close()
        return SessionFacts(
            header=log.header,
            path=log.path,
            physical=log.physical,
            row_count=log.row_count,
            event_count=log.event_count,
            inherited_events=log.boundary,
            torn_bytes=log.torn_bytes,
            problems=tuple(log.problems),
            has_times=log.has_times,
            missing_times=log.missing_times,
            event_types=dict(self._types),
            first_at=self._first_at if self._last_at else None,
            last_at=self._last_at or None,
            turns=tuple(self._turns.turns),
            steps=tuple(self._turns.steps),
            model_calls=tuple(self._calls.calls),
            retries=tuple(self._calls.retries),
            tool_calls=tuple(self._tools.calls),
            dispatches=tuple(self._tools.dispatches),
            jobs=tuple(self._tools.jobs),
            compactions=tuple(self._compactions.compactions),
            prunes=tuple(self._compactions.prunes),
            surface=self._surface.surface(),
            children=tuple(self._relations.children),
            settlements=tuple(self._relations.settlements),
            descriptor=self._relations.descriptor,
            message_usage=self._calls.message_usage,
            final_text=self._calls.final_text,
            title=self._title,
            first_prompt=self._first_prompt,
        )

    def _listen(self, handlers: Iterable[tuple[str, Callable[[Event], None]]]) -> None:
        for kind, handler in handlers:
            self._handlers.setdefault(kind, []).append(handler)

    def _add_event(self, event: Any) -> None:
        kind, time = event.type, event.time
        if (self._awaits_marker or self._boundary is not None) and self._ends_prefix(event):
            self._cut()
        self._types[kind] += 1
        self._see(time, time)
        for handler in self._handlers.get(kind, ()):
            handler(event)

    def _ends_prefix(self, event: Event) -> bool:
        if self._boundary is not None:
            return event.seq >= self._boundary
        return self._awaits_marker and event.type == "session/end-seed" and event.data.get("inherited") is True

    def _add_stretch(self, stretch: Stretch) -> None:
        if self._boundary is not None and stretch.seq0 >= self._boundary:
            self._cut()
        self._types[CHUNK_TYPE] += stretch.chunks
        self._see(stretch.earliest, stretch.latest)
        self._calls.add_stretch(stretch)

    def _add_run(self, run: ChunkRun) -> None:
        if self._boundary is not None and run.next_seq > self._boundary:
            inherited = self._boundary - run.seq0
            if inherited > 0:
                self._add_run(run.first_members(inherited))
            self._cut()
            run = run.from_member(inherited)
        self._types[CHUNK_TYPE] += run.members
        self._see(*run.extent)
        self._calls.add_run(run)

    def _see(self, earliest: Time, latest: Time) -> None:
        if earliest > 0 and latest <= MAX_SAFE_INTEGER:
            if earliest < self._first_at:  # noqa: PLR1730 - min and max take several times as long
                self._first_at = earliest
            if latest > self._last_at:  # noqa: PLR1730
                self._last_at = latest

    def _cut(self) -> None:
        self._boundary = None
        for tracker in (self._turns, self._calls, self._tools, self._compactions, self._relations):
            tracker.cut()
        self._types.clear()
        self._first_at, self._last_at = MAX_SAFE_INTEGER, 0
        self._title = self._first_prompt = None

    def _note_title(self, event: Event) -> None:
        self._title = text(event.data, "title") or self._title

    def _note_prompt(self, event: Event) -> None:
        kind = inner(event.data, "source").get("kind")
        if self._first_prompt is None and (kind is None or kind == "user"):
            self._first_prompt = "\n".join(text_blocks(event.data.get("content"))) or None
