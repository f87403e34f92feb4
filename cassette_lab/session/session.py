"""A session as it happens: the append-only log of one agent, in memory, in format 0.

Events get the seqs 0, 1, 2, … and are frozen. What they do to the message surface is checked before they count, so that
the log can always be read back. Where a session began (anew, as a child, in a fork, from a store) is in its header and its
seed. A store writes it down: ``persistence``. Source: session logs, Header line, Event envelope, Surface.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Self, TypeAlias, overload

from cassette_lab.errors import FormatError, SurfaceError
from cassette_lab.jsonio import MAX_SAFE_INTEGER, CanonicalError, JsonObject
from cassette_lab.jsonio.text import is_whole, show
from cassette_lab.session.chunks import is_packed_row
from cassette_lab.session.frozen import freeze, freeze_delta
from cassette_lab.session.model import CHUNK_TYPE, Event, SessionHeader
from cassette_lab.session.packing import Batch, Packer, Packing, delta_of
from cassette_lab.surface import ELIGIBLE_TYPES, Surface, surface_messages
from cassette_lab.words import plural

WRITTEN_FORMAT: Final = 0
_SHOWN_CHARACTERS: Final = 80
END_SEED: Final = "session/end-seed"
"""The event behind a seed: from here on the events are this process's."""

Clock: TypeAlias = Callable[[], int]


def now_ms() -> int:
    """The present in epoch ms."""
    return time.time_ns() // 1_000_000


def new_header(
    *,
    session_id: str | None = None,
    cwd: str | None = None,
    parent_session: str | None = None,
    origin: str | None = None,
    delegation_depth: int = 0,
    agent_preset: str | None = None,
    seed_length: int | None = None,
    created_at: int | None = None,
) -> SessionHeader:
    """A header of the format that is written, checked; a new UUID and the present time where none are given.

    ``seed_length`` says how many leading events a fork took over; it is never guessed from a seed. Raises ``FormatError``.
    """
    header = SessionHeader(
        version=WRITTEN_FORMAT,
        id=str(uuid.uuid4()) if session_id is None else session_id,
        created_at=now_ms() if created_at is None else created_at,
        delegation_depth=delegation_depth,
        cwd=cwd,
        parent_session=parent_session,
        origin=origin,
        agent_preset=agent_preset,
        seed_length=seed_length,
    )
    check_header(header)
    return header


def check_header(header: SessionHeader) -> None:
    """Whether a log with this header can be written. Raises ``FormatError`` with the member."""
    if header.version != WRITTEN_FORMAT:
        sentence = f"the session has format {header.version}; only format {WRITTEN_FORMAT} is written and continued"
        raise FormatError(sentence, field="version")
    for field, value in (("id", header.id), ("cwd", header.cwd), ("parentSession", header.parent_session)):
        if value is None and field != "id":
            continue
        if type(value) is not str or not value:
            raise FormatError(f"{field} of a session's header is a string, and not an empty one", field=field)
    if header.origin not in (None, "subagent"):
        raise FormatError('origin of a session\'s header is "subagent", or absent', field="origin")
    if header.agent_preset is not None and type(header.agent_preset) is not str:
        raise FormatError("agentPreset of a session's header is a string", field="agentPreset")
    if header.is_seeded is not None:
        raise FormatError("isSeeded belongs to later formats; format 0 has seedLength", field="isSeeded")
    for field, number in (("createdAt", header.created_at), ("delegationDepth", header.delegation_depth)):
        _check_count(number, field)
    if header.seed_length is not None:
        _check_count(header.seed_length, "seedLength")


class Events(Sequence[Event]):
    """The events of a session, read-only; it grows with the session."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...
    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        return self._events[index]

    def __len__(self) -> int:
        return len(self._events)


class Session:
    """One agent's log. ``header`` says who it is; ``events`` are all of them, in order.

    A ``seed`` of events that were logged before is taken over with seqs and times, and ``session/end-seed`` follows it at
    the present time. How many of them a fork inherited is the header's ``seed_length`` alone: a session that goes on seeds
    its whole log, and hands the number back. Methods may be called from any thread. Raises ``FormatError`` (and
    ``SurfaceError`` for events that do not fold).
    """

    def __init__(self, header: SessionHeader, *, seed: Iterable[Event] = (), clock: Clock = now_ms) -> None:
        check_header(header)
        self.header = header
        self._clock = clock
        self._mutex = threading.Lock()
        self._events: list[Event] = []
        self._surface = Surface()
        self._packing: Packing | None = None
        for event in seed:
            self._adopt(event)
        if len(self._events) < (header.seed_length or 0):
            raise FormatError(
                f"the header says that {header.seed_length:,} events are inherited, and the seed has {len(self._events):,}",
                field="seedLength",
            )
        if self._events:
            self.append(END_SEED, {})

    @classmethod
    def spawn(
        cls,
        parent: Session,
        *,
        session_id: str | None = None,
        cwd: str | None = None,
        agent_preset: str | None = None,
        clock: Clock = now_ms,
    ) -> Self:
        """A child that begins with an empty log. It inherits nothing, so its header has no ``seed_length``."""
        header = _child_header(parent, session_id, cwd, agent_preset, clock)
        return cls(header, clock=clock)

    @classmethod
    def fork(
        cls,
        parent: Session,
        *,
        session_id: str | None = None,
        cwd: str | None = None,
        agent_preset: str | None = None,
        clock: Clock = now_ms,
    ) -> Self:
        """A child that begins with its parent's log up to the last turn that ended, and says so (``seed_length``).

        Before a turn of the parent has ended there is nothing to inherit, and the child is not seeded at all.
        """
        inherited = parent.completed()
        header = _child_header(parent, session_id, cwd, agent_preset, clock)
        return cls(replace(header, seed_length=len(inherited) or None), seed=inherited, clock=clock)

    @property
    def events(self) -> Sequence[Event]:
        """All events so far, read-only."""
        return Events(self._events)

    def __repr__(self) -> str:
        """A line, without anything that was said."""
        return show(f"<Session {self.header.id[:_SHOWN_CHARACTERS]}: {plural(len(self._events), 'event')}>")

    def append(
        self,
        kind: str,
        data: Mapping[str, Any],
        *,
        surface_op: Any = None,
        source_event_seqs: Sequence[int] | None = None,
        ignorable: bool = False,
        time_ms: int | None = None,
    ) -> Event:
        """Log one event, at the present time unless one is given; returns it, frozen, with its seq.

        Types and their data are the caller's: the format is open to new ones, and only what a message does to the surface is
        checked. The harness refuses a log with a type that it does not know unless the event is ``ignorable``.

        Messages (``user/message``, ``assistant/message``, ``tool/result``) need a ``surface_op``: ``"append"``, or ``{"op":
        "replace", "start", "end"}`` with every event they replace in ``source_event_seqs``. Raises ``FormatError`` and
        ``SurfaceError``; the session is then as before.
        """
        if not isinstance(data, dict):
            if not isinstance(data, Mapping):
                raise FormatError(f"the data of an event is an object, not {type(data).__name__}", field="data")
            data = dict(data)
        sources = None if source_event_seqs is None else list(source_event_seqs)
        with self._mutex:
            time = self._clock() if time_ms is None else time_ms
            return self._add(Event(kind, len(self._events), time, data, ignorable, sources, surface_op))

    def pack(self, packer: Packer | None, start: int = 0) -> None:
        """Make rows of what is logged from seq ``start`` on, at once; then a ``batch`` has little left to do.

        An event that is too large for a store is then refused when it is logged. Without a packer no more rows are made.
        """
        with self._mutex:
            self._packing = None if packer is None else Packing(packer, start, self._events[start:])

    def batch(self, packer: Packer, start: int) -> Batch:
        """The events from seq ``start`` on, to be stored. The next batch is expected to begin at this one's end.

        Raises ``FormatError`` for an event that is too large for a store.
        """
        with self._mutex:
            events = self._events[start:]
            packing, self._packing = self._packing, None  # an interrupt leaves none
            if packing is None or packing.start != start or packing.packer is not packer:
                packing = Packing(packer, start, events)
            batch = Batch(events, packing)
            self._packing = Packing(packer, start + len(events))
            return batch

    def completed(self) -> list[Event]:
        """The events up to the last turn that ended; none before one has."""
        events = self._events[:]
        while events and events[-1].type != "turn/end":
            events.pop()
        return events

    def messages(self) -> list[JsonObject]:
        """What the agent's model sees: the messages on the surface, in order, frozen."""
        with self._mutex:
            seqs = self._surface.seqs()
        return [message for seq in seqs for message in surface_messages(self._events[seq].to_json())]

    def _adopt(self, event: Event) -> None:
        """An event of a log that was read. Its sources lose their ranges: format 0 as it is written here has none."""
        if event.seq != len(self._events):
            raise FormatError(f"the seed has event {event.seq} where {len(self._events)} follows", field="seq")
        if event.source_event_seqs is not None:
            try:
                event = event._replace(source_event_seqs=event.sources())
            except ValueError as error:
                raise FormatError(str(error), field="sourceEventSeqs") from None
        self._add(event)

    def _add(self, event: Event) -> Event:
        delta = delta_of(event)
        data = None if delta is None else freeze_delta(*delta)
        if data is None:
            event = _checked(event)
            delta = None if delta is None else delta_of(event)
        else:  # most events are deltas: a shorter way to the same
            _check_count(event.time, "time")
            event = Event(CHUNK_TYPE, event.seq, event.time, data)
        packing = self._packing
        row = None if packing is None else packing.encode(event, delta)
        try:
            if event.type in ELIGIBLE_TYPES or event.surface_op is not None or event.source_event_seqs is not None:
                self._surface.add(event.to_json(), event.seq, self._earlier)
            self._events.append(event)
            if packing is not None:
                packing.add(event, delta, row)
        except SurfaceError:
            raise
        except BaseException:  # an interrupt: whatever it hit is made anew of the events
            self._packing, self._surface = None, Surface()
            for each in self._events:
                self._surface.add(each.to_json(), each.seq, self._earlier)
            raise
        return event

    def _earlier(self, seq: int) -> JsonObject:
        return self._events[seq].to_json()


def _checked(event: Event) -> Event:
    """The event, frozen. Raises ``FormatError`` for what no log can hold."""
    kind, seq, time, data, ignorable, sources, operation = event
    if type(kind) is not str or not kind or is_packed_row(kind) or kind == "session":
        raise FormatError("the type of an event is a name such as turn/start, and none of the format's own rows", field="type")
    if not is_whole(kind):
        raise FormatError("the type of an event is whole Unicode text", field="type")
    _check_count(time, "time")
    if type(ignorable) is not bool:
        raise FormatError("ignorable is true or false", field="ignorable")
    field = "data"
    try:
        data = freeze(data)
        field = "surfaceOp"
        operation = freeze(operation)
        field = "sourceEventSeqs"
        sources = freeze(sources)
    except CanonicalError as error:
        raise FormatError(f"{field} of a {show(kind)} event cannot be logged: {error}", field=field) from None
    return Event(kind, seq, time, data, ignorable, sources, operation)


def _child_header(
    parent: Session, session_id: str | None, cwd: str | None, agent_preset: str | None, clock: Clock
) -> SessionHeader:
    return new_header(
        session_id=session_id,
        cwd=parent.header.cwd if cwd is None else cwd,
        parent_session=parent.header.id,
        origin="subagent",
        delegation_depth=(parent.header.delegation_depth or 0) + 1,
        agent_preset=agent_preset,
        created_at=clock(),
    )


def _check_count(value: Any, field: str) -> None:
    if type(value) is not int or not 0 <= value <= MAX_SAFE_INTEGER:
        raise FormatError(f"{field} is a whole number from 0 to 2^53 - 1", field=field)
