"""The flight recorder: the last requests, what there was to see and what was missed, and who wants to know of changes.

Records, counters, revision and listeners are one state: each change is one step, and a snapshot shows one moment, whatever
thread makes it. A recorder knows nothing of hosts; ``observer.attach`` lets it see one. Source: flight records, State.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from cassette_lab.errors import ConfigError
from cassette_lab.flight.diff import RecordDiff, diff_records
from cassette_lab.flight.model import (
    MISS_REASONS,
    NO_EXTRA,
    FlightRecord,
    Health,
    MissReason,
    Outcome,
    OutcomeKind,
    RecordExtra,
    Snapshot,
)
from cassette_lab.flight.persist import FlightWriter
from cassette_lab.flight.subscriptions import Later, Listener, Subscriptions
from cassette_lab.jsonio import MAX_SAFE_INTEGER, JsonObject, as_integer

DEFAULT_CAPACITY: Final = 128
DEFAULT_SLOW_FIRST_CHUNK_MS: Final = 1000
DEFAULT_SLOW_TOTAL_MS: Final = 2000


@dataclass(frozen=True, slots=True)
class FlightConfig:
    """How much is kept, and from when on a request is slow. ``extra`` keeps options that nobody here knows."""

    capacity: int = DEFAULT_CAPACITY
    slow_first_chunk_ms: int = DEFAULT_SLOW_FIRST_CHUNK_MS
    slow_total_ms: int = DEFAULT_SLOW_TOTAL_MS
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in _CONFIG_NAMES.values():
            object.__setattr__(self, name, _whole(name, getattr(self, name)))

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> FlightConfig:
        """From a plugin's options; null is the default. ``ConfigError`` for what is no whole number from 1 to 2**53 - 1."""
        known = {_CONFIG_NAMES[name]: value for name, value in members.items() if name in _CONFIG_NAMES and value is not None}
        return cls(**known, extra={name: value for name, value in members.items() if name not in _CONFIG_NAMES})

    def to_json(self) -> JsonObject:
        """All options, with their defaults."""
        return {**{name: getattr(self, attribute) for name, attribute in _CONFIG_NAMES.items()}, **self.extra}


_CONFIG_NAMES: Final = {
    "capacity": "capacity",
    "slowFirstChunkMs": "slow_first_chunk_ms",
    "slowTotalMs": "slow_total_ms",
}


@dataclass(frozen=True, slots=True)
class DiffResult:
    """What ``FlightRecorder.diff`` found: a difference, or that records are ``missing`` (their ids, in the order asked)."""

    kind: Literal["ok", "missing"]
    diff: RecordDiff | None = None
    ids: tuple[str, ...] = ()


class FlightRecorder:
    """Keeps the last ``capacity`` requests, and as many auxiliary ones in a ring of their own.

    Reading never changes anything. A record that left the ring can still be settled: that counts, and it does not return.
    ``dispose`` empties it for good. ``later`` says how a listener's call is put off; the default is its event loop's next turn.
    Raises ``ConfigError`` (code ``OUT_OF_RANGE``) for a capacity that is no whole number from 1 to 2**53 - 1.
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY, *, later: Later | None = None) -> None:
        self.capacity = _whole("capacity", capacity)
        self._records: dict[str, FlightRecord] = {}  # the oldest first
        self._active: set[str] = set()
        self._auxiliary: dict[str, FlightRecord] = {}
        self._captured = self._completed = self._evicted = self._truncated = self._failures = 0
        self._misses: dict[MissReason, int] = dict.fromkeys(MISS_REASONS, 0)
        self._revision = 0
        self._subscriptions = Subscriptions(lambda: self._revision, later)
        self._writer: FlightWriter | None = None
        self._disposed = False
        self._step = threading.RLock()

    def __repr__(self) -> str:
        return f"<flight recorder, {len(self._records)} of {self.capacity} records{', disposed' if self._disposed else ''}>"

    @property
    def disposed(self) -> bool:
        """Whether ``dispose`` was called: nothing is recorded any more."""
        return self._disposed

    @property
    def revision(self) -> int:
        """Counts changes, up to 2**53 - 1."""
        return self._revision

    # What happens

    def insert(self, record: FlightRecord) -> None:
        """Keep a new record, the oldest leaves where there is no room. ``ConfigError`` where its id is there already."""
        with self._step:
            if self._disposed:
                return
            records = self._records
            if record.id in records:
                raise ConfigError(
                    f"there is a record {record.id!r} already; every request has an id of its own", code="DUPLICATE_ID"
                )
            records[record.id] = record
            self._active.add(record.id)
            self._captured += 1
            if record.omissions:
                self._truncated += 1
            if len(records) > self.capacity:
                del records[next(iter(records))]
                self._evicted += 1
            self._changed()
            if self._writer is not None:
                self._writer.add(record)

    def settle(self, record_id: str, outcome: Outcome, extra: RecordExtra | None = None) -> bool:
        """Give a running record its end; ``extra`` replaces what it had. False where there is no such record, or no more."""
        with self._step:
            if record_id not in self._active:
                return False
            self._active.discard(record_id)
            self._completed += 1
            record = self._records.get(record_id)
            if record is not None:
                record = record.settled(outcome, record.extra if extra is None else extra)
                self._records[record_id] = record
                if self._writer is not None:
                    self._writer.add(record)
            elif self._writer is not None:
                self._writer.settle(record_id, outcome, extra or NO_EXTRA)
            self._changed()
            return True

    def miss(self, reason: MissReason) -> None:
        """Count a request that could not be told whose it is."""
        with self._step:
            if not self._disposed:
                self._misses[reason] += 1
                self._changed()

    def projection_failed(self) -> None:
        """Count a request or prompt that is not what it would have to be."""
        with self._step:
            if not self._disposed:
                self._failures += 1
                self._changed()

    def insert_auxiliary(self, record: FlightRecord) -> None:
        """Keep a call that is no step of an agent loop, beside the others.

        It counts nowhere, changes no revision and so tells no listener: whoever shows it does so at the next change.
        """
        with self._step:
            if self._disposed:
                return
            self._auxiliary[record.id] = record
            if len(self._auxiliary) > self.capacity:
                del self._auxiliary[next(iter(self._auxiliary))]
            if self._writer is not None:
                self._writer.add(record)

    def settle_auxiliary(self, record_id: str, outcome: Outcome, extra: RecordExtra) -> bool:
        """Give an auxiliary record its end. False where it is not there any more."""
        with self._step:
            record = self._auxiliary.get(record_id)
            if record is None:
                return False
            self._auxiliary[record_id] = record = record.settled(outcome, extra)
            if self._writer is not None:
                self._writer.add(record)
            return True

    def dispose(self) -> None:
        """Forget everything, and everyone who listens. Twice is once."""
        with self._step:
            self._disposed = True
            self._records, self._auxiliary, self._active = {}, {}, set()
            self._captured = self._completed = self._evicted = self._truncated = self._failures = self._revision = 0
            self._misses = dict.fromkeys(MISS_REASONS, 0)
            self._subscriptions.dispose()
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    # What one sees

    def snapshot(self) -> Snapshot:
        """Everything at this moment."""
        with self._step:
            return Snapshot(self._revision, self.health(), tuple(self._newest()), tuple(reversed(self._auxiliary.values())))

    def health(self) -> Health:
        """The counters at this moment."""
        with self._step:
            return Health(
                self._captured,
                self._completed,
                len(self._active),
                len(self._records),
                self._evicted,
                self._truncated,
                sum(self._misses.values()),
                MappingProxyType(dict(self._misses)),
                self._failures,
                self._subscriptions.failures,
            )

    def query(
        self,
        *,
        session_id: str | None = None,
        turn: int | None = None,
        step: int | None = None,
        provider: str | None = None,
        model: str | None = None,
        outcome: OutcomeKind | None = None,
        limit: int | None = None,
    ) -> tuple[FlightRecord, ...]:
        """The newest ``limit`` records that are all of what is given, the newest first. ``ConfigError`` for a bad limit."""
        most = None if limit is None else _whole("limit", limit)
        found: list[FlightRecord] = []
        for record in self._newest():
            if (
                (session_id is None or record.session_id == session_id)
                and (turn is None or record.turn == turn)
                and (step is None or record.step == step)
                and (provider is None or record.request.provider == provider)
                and (model is None or record.request.model == model)
                and (outcome is None or record.outcome.kind == outcome)
            ):
                found.append(record)
                if len(found) == most:
                    break
        return tuple(found)

    def latest(self, session_id: str | None = None) -> FlightRecord | None:
        """The newest record, of one session or of all."""
        return next((record for record in self._newest() if session_id in (None, record.session_id)), None)

    def get(self, record_id: str) -> FlightRecord | None:
        """The record of that id, while it is kept."""
        return self._records.get(record_id)

    def diff(self, from_id: str | None = None, to_id: str | None = None, *, extended: bool = False) -> DiffResult:
        """How one record differs from another; see ``diff_records``.

        ``to_id`` is by default the newest, ``from_id`` the one before that of the same session. ``ConfigError`` (code
        ``NO_RECORDS``) where there is no such record to take.
        """
        with self._step:
            kept = tuple(self._newest())
            if to_id is None:
                to_id = self._named(kept[:1])
            if from_id is None:
                from_id = self._named(_before(kept, to_id))
            before, after = self._records.get(from_id), self._records.get(to_id)
        if before is None or after is None:
            return DiffResult(
                "missing", ids=tuple(name for name, found in ((from_id, before), (to_id, after)) if found is None)
            )
        return DiffResult("ok", diff_records(before, after, extended=extended))

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call ``listener({"revision": …})`` after changes, never within one; returns what ends that, harmless when repeated.

        Changes before the call, and while the listener (which may be async) is still at it, fold into one. What it raises is
        counted. It is called on the event loop that runs now; without one ``RuntimeError``, unless there is a ``later``.
        ``ConfigError`` for what cannot be called.
        """
        if not callable(listener):
            raise ConfigError(f"a listener is a function, not {type(listener).__name__}", field="listener")
        return (lambda: None) if self._disposed else self._subscriptions.add(listener)

    # Files

    def persist(self, path: str | Path, **options: Any) -> FlightWriter:
        """Write every record from now on into ``path``, too; see ``FlightWriter`` for the options. ``dispose`` closes it.

        Raises ``ConfigError`` where the recorder is disposed or writes a file already, and what ``FlightWriter`` raises.
        """
        if self._disposed:
            raise ConfigError("the flight recorder is disposed; make a new one")
        if self._writer is not None and not self._writer.closed:
            raise ConfigError("the flight recorder writes a file already; close that first", path=self._writer.path)
        writer = FlightWriter(path, **options)
        with self._step:
            self._writer = writer
            for record in self._records.values():
                writer.add(record)
        return writer

    def _named(self, records: tuple[FlightRecord, ...]) -> str:
        if not records:
            raise ConfigError(
                "a diff needs two records of a session; make another request, or give the ids of two", code="NO_RECORDS"
            )
        return records[0].id

    def _newest(self) -> Iterator[FlightRecord]:
        with self._step:
            return reversed(tuple(self._records.values()))

    def _changed(self) -> None:
        if self._revision < MAX_SAFE_INTEGER:
            self._revision += 1
        self._subscriptions.mark()


def _before(newest_first: tuple[FlightRecord, ...], record_id: str) -> tuple[FlightRecord, ...]:
    """The records of the same session that are older than that of the id, the newest first."""
    for place, record in enumerate(newest_first):
        if record.id == record_id:
            return tuple(other for other in newest_first[place + 1 :] if other.session_id == record.session_id)
    return ()


def _whole(name: str, value: Any) -> int:
    """A whole number from 1 on."""
    whole = None if isinstance(value, bool) else as_integer(value)
    if whole is None or whole < 1:
        raise ConfigError(f"{name} is a whole number from 1 to 2**53 - 1, not {value!r}", code="OUT_OF_RANGE", field=name)
    return whole
