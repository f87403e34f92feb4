"""From the tables of sessions to what a waterfall shows: a session's turns, model calls, tools and subagents, in order.

Everything that comes out is safe to show. Times are in ms from the earliest event of the sessions that are shown; unknown
stays unknown: what has no known start has no place on an axis.
"""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from cassette_lab.errors import ConfigError
from cassette_lab.session.kinds import DELEGATING
from cassette_lab.views.rows import shown

if TYPE_CHECKING:
    from cassette_lab.tables import Lab

Kind: TypeAlias = Literal["model", "tool", "subagent", "compaction"]
Outcome: TypeAlias = Literal["completed", "max-tokens", "aborted", "error", "open"]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SHORT: Final = 8
_UUID: Final = 36
_RETRIED: Final = "llm/retry-started"
_COLUMNS: Final = {
    "turns": ("turn", "end_kind", "error_code"),
    "model_calls": (
        "turn", "step", "started_by", "first_chunk_ms", "interrupted", "finish_kind", "error_code", "provider", "model",
    ),
    "tool_calls": ("parent_call_id", "name", "is_error", "error_code", "child_source", "child_session_id"),
    "compactions": ("failed",),
}  # fmt: skip
_ENDS: Final[dict[str, Outcome]] = {
    "completed": "completed",
    "forked": "completed",
    "max-tokens": "max-tokens",
    "aborted": "aborted",
    "interrupted": "aborted",
}


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt at something: when, until when, when the first chunk came, how it ended, and the word for that."""

    start: float
    end: float
    first: float
    outcome: Outcome = "completed"
    word: str = ""
    about: str = ""


@dataclass(slots=True)
class Call:
    """A row: one model call with its retries, one tool call, one subagent, one compaction."""

    kind: Kind
    name: str
    tries: list[Try] = field(default_factory=list)
    child: int | None = None
    """The subagent, as a row of ``sessions``."""

    @property
    def start(self) -> float:
        """When it began."""
        return self.tries[0].start

    @property
    def end(self) -> float:
        """When it ended."""
        return self.tries[-1].end


@dataclass(slots=True)
class Shown:
    """A session: its own turns, the rows below it, and how many of its calls have no known start."""

    row: int
    depth: int
    session_id: str
    source: str
    turns: list[Try]
    calls: list[Call]
    unplaced: int
    zero_ms: float = 0.0


def session_name(session_id: str) -> str:
    """An id as a label: of a UUID its first characters."""
    text = shown(session_id)
    return f"{text[:_SHORT]}…" if len(text) == _UUID and text.count("-") == 4 else text


def names_in(lab: Lab) -> dict[tuple[str, str], str]:
    """The names of the sessions in their lab, by file and id: with a folder where several have that id."""
    from cassette_lab.tables.session_names import session_names

    sources, ids = lab.sessions["source"].to_pylist(), lab.sessions["session_id"].to_pylist()
    return dict(zip(zip(sources, ids, strict=True), session_names(sources, ids), strict=True))


def end_word(kind: str, error_code: str | None) -> str:
    """How a turn ended, beside a bar."""
    return "limit" if kind == "max-tokens" else shown(error_code or kind)


def chosen_root(lab: Lab, session_id: str | None) -> tuple[str | None, int]:
    """The session to begin with (``SOURCE#ID``) and how many other roots there are; None where there is no session.

    Without an id that is the root whose family was longest in turns. Raises ``ConfigError`` for an id that is not there.
    """
    if session_id is not None:
        return session_id, 0
    sessions = {(row["source"], row["session_id"]): row["active_ms"] or 0.0 for row in lab.sessions.to_pylist()}
    best: str | None = None
    at: tuple[str | None, float] = (None, 0.0)
    longest, roots = -1.0, 0
    for row in lab.tree().to_pylist():
        active = sessions[row["source"], row["session_id"]]
        if row["depth"] == 0:
            roots += 1
            at = (f"{row['source']}#{row['session_id']}", active)
        else:
            at = (at[0], at[1] + active)
        if at[1] > longest:
            best, longest = at
    return best, max(0, roots - 1)


def family(lab: Lab, root: str) -> list[Shown]:
    """That session and those below it, parents first, each with its calls. Raises ``ConfigError`` where it is not there."""
    tree = lab.tree(root).to_pylist()
    if not tree:  # pragma: no cover - a root is in its own tree
        raise ConfigError(f"there is no session {root}")
    sessions = lab.sessions.to_pylist()
    places = {(row["source"], row["session_id"]): number for number, row in enumerate(sessions)}
    wanted = {(row["source"], row["session_id"]): row["depth"] for row in tree}
    own = _Own(lab, wanted)
    told = []
    for key, depth in wanted.items():
        place = places[key]
        calls = [*own.model_calls(key), *own.compactions(key)]
        for call, child in own.tools(key):
            call.child = places.get(child)
            if call.child is not None:
                _note_child(call, sessions[call.child])
            calls.append(call)
        calls.sort(key=lambda call: call.start)
        turns = own.turns(key, sessions[place])
        told.append(Shown(place, depth - tree[0]["depth"], key[1], key[0], turns, calls, own.unplaced[key]))
    _from_zero(told)
    return told


def _note_child(call: Call, child: Mapping[str, Any]) -> None:
    """A call that started a subagent is called after it, and ended as that did, where it waited for its end."""
    call.name = f"{call.name} → {session_name(child['session_id'])}"
    (tried,) = call.tries
    word = "open" if child["open"] else child["end_kind"] or ""
    if tried.outcome == "completed" and word not in ("", "completed"):
        outcome = "open" if child["open"] else _ENDS.get(word, "error")
        call.tries = [Try(tried.start, tried.end, tried.first, outcome, end_word(word, child["error_code"]))]


def _from_zero(told: Sequence[Shown]) -> None:
    tries = [tried for each in told for tried in (*each.turns, *(tried for call in each.calls for tried in call.tries))]
    zero = min((tried.start for tried in tries), default=0.0)
    for each in told:
        each.zero_ms = zero
        each.turns = [_moved(tried, zero) for tried in each.turns]
        for call in each.calls:
            call.tries = [_moved(tried, zero) for tried in call.tries]


def _moved(tried: Try, zero: float) -> Try:
    return Try(tried.start - zero, tried.end - zero, tried.first - zero, tried.outcome, tried.word, tried.about)


class _Own:
    """The own rows of some sessions, by session; ``unplaced`` counts calls without a known start."""

    def __init__(self, lab: Lab, wanted: Mapping[tuple[str, str], int]) -> None:
        self.unplaced: dict[tuple[str, str], int] = defaultdict(int)
        self._rows: dict[str, dict[tuple[str, str], list[dict[str, Any]]]] = {}
        for name, columns in _COLUMNS.items():
            grouped: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
            for row in _of(lab.tables[name], columns, wanted):
                grouped[row["source"], row["session_id"]].append(row)
            self._rows[name] = grouped

    def turns(self, key: tuple[str, str], session: Mapping[str, Any]) -> list[Try]:
        told = []
        for row in self._rows["turns"][key]:
            start = row["started_at"]
            if start is None:
                continue
            is_open = row["end_kind"] is None
            last = _ms(session["ended_at"]) if is_open and row["duration_ms"] is None else None
            end = start + (row["duration_ms"] or 0.0) if last is None else max(start, last)
            outcome: Outcome = "open" if is_open else _ENDS.get(row["end_kind"], "error")
            word = "open" if is_open else "" if outcome == "completed" else end_word(row["end_kind"], row["error_code"])
            told.append(Try(start, end, start, outcome, word, f"turn {row['turn']}"))
        return told

    def model_calls(self, key: tuple[str, str]) -> Iterator[Call]:
        """A row for each step; what was tried again is on the row of the first attempt."""
        call, place = None, None
        for row in self._rows["model_calls"][key]:
            tried = self._try(key, row)
            if tried is None:
                continue
            again = (row["turn"], row["step"]) == place and row["started_by"] == _RETRIED
            if call is None or not again:
                if call is not None:
                    yield call
                call, place = Call("model", f"model {_number(row['turn'])}.{_number(row['step'])}"), (row["turn"], row["step"])
            call.tries.append(tried)
        if call is not None:
            yield call

    def _try(self, key: tuple[str, str], row: Mapping[str, Any]) -> Try | None:
        start, duration = row["started_at"], row["duration_ms"]
        if start is None or duration is None:
            self.unplaced[key] += 1
            return None
        outcome: Outcome = "completed"
        word = ""
        if row["interrupted"] or row["finish_kind"] == "aborted":
            outcome, word = "aborted", "aborted"
        elif row["finish_kind"] == "max-tokens":
            outcome, word = "max-tokens", "limit"
        elif row["finish_kind"] == "error":
            outcome, word = "error", shown(row["error_code"] or "error")
        elif row["finish_kind"] is None:
            outcome, word = "open", "cut off"
        first = duration if row["first_chunk_ms"] is None else min(row["first_chunk_ms"], duration)
        about = " ".join(shown(part) for part in (row["provider"], row["model"]) if part)
        return Try(start, start + duration, start + first, outcome, word, about)

    def tools(self, key: tuple[str, str]) -> Iterator[tuple[Call, tuple[str, str]]]:
        """Calls, and the file and id of the subagent that they started."""
        for row in self._rows["tool_calls"][key]:
            start = row["started_at"]
            if start is None or row["parent_call_id"] is not None:  # what code called stands in for nothing that waited
                self.unplaced[key] += start is None and row["parent_call_id"] is None
                continue
            end = start + (row["duration_ms"] or 0.0)
            outcome: Outcome = "completed"
            word = ""
            if row["is_error"]:
                outcome, word = ("aborted" if row["error_code"] == "ABORTED" else "error"), shown(row["error_code"] or "error")
            elif row["is_error"] is None:
                outcome, word = "open", "no result"
            delegates = row["child_session_id"] is not None or row["name"] in DELEGATING
            tried = Try(start, end, start, outcome, word)
            yield (
                Call("subagent" if delegates else "tool", shown(row["name"] or "tool"), [tried]),
                (row["child_source"], row["child_session_id"]),
            )

    def compactions(self, key: tuple[str, str]) -> Iterator[Call]:
        for row in self._rows["compactions"][key]:
            start = row["started_at"]
            if start is None or row["duration_ms"] is None:
                self.unplaced[key] += 1
                continue
            end = start + row["duration_ms"]
            outcome: Outcome = "error" if row["failed"] else "completed"
            yield Call("compaction", "compaction", [Try(start, end, end, outcome, "failed" if row["failed"] else "")])


def _of(table: Any, columns: Sequence[str], wanted: Mapping[tuple[str, str], int]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.compute as pc

    ids = pa.array(list({session_id for _, session_id in wanted}), pa.string())
    rows = table.filter(pc.and_(pc.is_in(table["session_id"], value_set=ids), pc.invert(table["inherited"])))
    rows = rows.select(["source", "session_id", "started_at", "duration_ms", *columns])
    rows = rows.set_column(2, "started_at", rows["started_at"].cast(pa.int64()))  # dates are slow to make
    for row in rows.to_pylist():
        if (row["source"], row["session_id"]) in wanted:
            yield row


def _ms(time: Any) -> float | None:
    return None if time is None else (time - _EPOCH) / dt.timedelta(milliseconds=1)


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)
