"""The lab: verified tables of what was loaded, SQL over them, and how they show themselves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from cassette_lab.errors import ConfigError
from cassette_lab.jsonio.text import show
from cassette_lab.tables.events import events
from cassette_lab.tables.flight_display import HEAD as FLIGHT_HEAD
from cassette_lab.tables.flight_display import flight_lines, flight_rows, flights_line
from cassette_lab.tables.session_display import HEAD, SHOWN_SESSIONS, session_lines, session_rows, sessions_line
from cassette_lab.tables.spending import time_spent
from cassette_lab.tables.sql import SqlResult, query
from cassette_lab.tables.tree import Tree, tree
from cassette_lab.words import UNKNOWN, plural

if TYPE_CHECKING:
    import pandas as pd

_NUMBER: Final = re.compile(rf"[\d,.]+|{UNKNOWN}")
_EVENTS: Final = re.compile(r"\bevents\b", re.IGNORECASE)

_ENDED: Final = {"error": "failed", "aborted": "aborted", "max-tokens": "cut at a limit", "refusal": "refused"}

SHOWN_PROBLEMS: Final = 10
SHOWN_CASSETTES: Final = 10
"""How many rows the lab shows of itself; its tables have all."""


class Lab:
    """What ``load`` gives: one Arrow table for each kind of row.

    ``root`` is the folder that ``source`` columns name files from. Columns explain themselves in the schema's field
    metadata (``doc``, ``unit``).
    """

    def __init__(
        self,
        root: Path,
        tables: Mapping[str, pa.Table],
        logs: Sequence[tuple[str, Path, str | None]] = (),
        *,
        bodies: bool = False,
    ) -> None:
        self.root = root
        self.tables: Mapping[str, pa.Table] = MappingProxyType(dict(tables))
        self._logs, self._bodies = tuple(logs), bodies
        self._events: pa.Table | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, also in another process, has the same tables."""
        return _copied, (self.root, dict(self.tables), self._logs, self._bodies)

    @property
    def cassettes(self) -> pa.Table:
        """One row per cassette."""
        return self.tables["cassettes"]

    @property
    def calls(self) -> pa.Table:
        """One row per recorded call, files in the order they were loaded, each in its physical order."""
        return self.tables["calls"]

    @property
    def sessions(self) -> pa.Table:
        """One row per session log."""
        return self.tables["sessions"]

    @property
    def turns(self) -> pa.Table:
        """One row per turn of a session; inherited ones are their parent's."""
        return self.tables["turns"]

    @property
    def steps(self) -> pa.Table:
        """One row per step of a turn."""
        return self.tables["steps"]

    @property
    def model_calls(self) -> pa.Table:
        """One row per model call or attempt."""
        return self.tables["model_calls"]

    @property
    def tool_calls(self) -> pa.Table:
        """One row per tool call, and per call made by code that a tool ran."""
        return self.tables["tool_calls"]

    @property
    def compactions(self) -> pa.Table:
        """One row per compaction: a model call beside those of ``model_calls``."""
        return self.tables["compactions"]

    @property
    def notes(self) -> pa.Table:
        """One row per thing about a session log that a reader should know: a torn end, unknown events."""
        return self.tables["notes"]

    @property
    def events(self) -> pa.Table:
        """One row per stored row of the session logs; they are read again when it is first asked for."""
        if self._events is None:
            self._events = self.build_events()
        return self._events

    def build_events(self, *, expand: bool = False) -> pa.Table:
        """``events`` made anew; with ``expand`` one row per event, deltas one by one."""
        loaded = Counter(self.sessions["source"].to_pylist())
        return events(self._logs, loaded, expand=expand, bodies=self._bodies)

    def tree(self, root: str | None = None) -> Tree:
        """The forest of the sessions: parents before children, own counts, and totals that include subagents, once.

        ``root`` (an id, or ``FOLDER#ID`` where several have it) gives that session and those below it. Raises
        ``ConfigError`` where it is not there.
        """
        return tree(self.sessions, root, self.root)

    def time_spent(self) -> SqlResult:
        """Where the time of each session went, each instant once: models, tools, subagents, back-off, or waiting for a message.

        The parts of a row add up to ``duration_ms``. Columns explain themselves in the schema (``.table.schema``).
        """
        return time_spent(self.tables)

    @property
    def flights(self) -> pa.Table:
        """One row per model request that a flight recorder saw; ``model_calls`` has the same session, turn, step and attempt.

        >>> lab.sql('''
        ...     select f.model, f.first_chunk_ms, m.finish_kind, m.output_tokens
        ...     from flights f join model_calls m using (session_id, turn, step, attempt) where not m.inherited
        ... ''')  # doctest: +SKIP
        """
        return self.tables["flights"]

    @property
    def flight_health(self) -> pa.Table:
        """One row per snapshot or log of a flight recorder: what it saw, and what it could not see."""
        return self.tables["flight_health"]

    @property
    def problems(self) -> pa.Table:
        """One row per file that was not loaded (``load(..., on_error="collect")``)."""
        return self.tables["problems"]

    def sql(self, text: str) -> SqlResult:
        """Ask DuckDB; the tables have their names. Only these tables can be read, and nothing can be written.

        ``events`` is built where the text names it.

        Raises ``ConfigError`` for SQL that cannot be run.

        >>> lab.sql("select stop_reason, count(*) from calls group by 1")  # doctest: +SKIP
        """
        tables = {**self.tables, "events": self.events} if _EVENTS.search(text) else self.tables
        return query(tables, text, bodies=self._bodies)

    def to_pandas(self, table: str | None = None) -> pd.DataFrame:
        """One table as a pandas data frame; without a name ``calls``, or what else was loaded: ``sessions``, ``flights``."""
        if table is None:
            table = next((name for name in ("calls", "sessions", "flights") if len(self.tables[name])), "calls")
        if table == "events":
            named: pd.DataFrame = self.events.to_pandas()
            return named
        if table not in self.tables:
            raise ConfigError(f"there is no table {show(str(table))}; there are {', '.join(self.tables)}")
        frame: pd.DataFrame = self.tables[table].to_pandas()
        return frame

    def __repr__(self) -> str:
        lines = [self._headline()]
        lines += [f"  {' · '.join(row)}" for row in self._cassette_rows()]
        if len(self.sessions):
            lines += [f"  {line}" for line in (sessions_line(self.sessions), *session_lines(self.sessions))]
        if len(self.flight_health):
            lines += [f"  {line}" for line in (flights_line(self.flights, self.flight_health), *flight_lines(self.flights))]
        lines += [f"  ✕ {place}: {message}" for place, message in self._problem_rows()]
        return "\n".join([*lines, *(f"  {note}" for note in self._notes()), *(f"  {step}" for step in self._next())])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        del include, exclude
        parts = [f"<div><b>{escape(self._headline())}</b></div>"]
        parts.append(_html_table(["cassette", "calls", "failed", "aborted"], self._cassette_rows(words=False)))
        if len(self.sessions):
            parts.append(f"<div>{escape(sessions_line(self.sessions))}</div>")
            parts.append(_html_table([*HEAD], session_rows(self.sessions)))
        if len(self.flight_health):
            parts.append(f"<div>{escape(flights_line(self.flights, self.flight_health))}</div>")
            parts.append(_html_table([*FLIGHT_HEAD], flight_rows(self.flights)))
        parts.append(_html_table(["not loaded", "why"], self._problem_rows()))
        parts += [f"<div>{escape(note)}</div>" for note in self._notes()]
        parts.append(f"<div>{''.join(f'<code>{escape(step)}</code> ' for step in self._next())}</div>")
        return {"text/plain": repr(self), "text/html": "".join(parts)}

    @property
    def _has_others(self) -> bool:
        """Whether there is anything else than cassettes."""
        return bool(len(self.sessions) or len(self.flight_health))

    def _headline(self) -> str:
        words = []
        if len(self.cassettes) or not self._has_others:
            words = [plural(len(self.cassettes), "cassette") + " verified", plural(len(self.calls), "call")]
        numbers = {name: pc.sum(self.cassettes[name]).as_py() for name in ("failed", "aborted")}
        words += [f"{number:,} {name}" for name, number in numbers.items() if number]
        if len(self.sessions):
            words.append(plural(len(self.sessions), "session"))
            sums = {name: pc.sum(self.sessions[name]).as_py() or 0 for name in ("turns", "model_calls", "tool_errors")}
            words += [plural(sums["turns"], "turn"), plural(sums["model_calls"], "model call")]
            words += [plural(sums["tool_errors"], "tool error")] * bool(sums["tool_errors"])
        if len(self.flight_health):
            words.append(plural(len(self.flights), "flight record"))
        kinds = (kind for kind in self.sessions["end_kind"].to_pylist() if kind not in (None, "completed"))
        ends = Counter(_ENDED.get(kind, "ended otherwise") for kind in kinds)
        words += [f"{plural(ends[end], 'session')} {end}" for end in sorted(ends)]
        if len(self.problems):
            words.append(f"{plural(len(self.problems), 'file')} not loaded")
        return f"{'✕' if len(self.problems) else '✓'} {' · '.join(words)}"

    def _cassette_rows(self, *, words: bool = True) -> list[list[str]]:
        """The first cassettes: name and counts, as words or as plain numbers."""
        rows = self.cassettes.select(["source", "interactions", "failed", "aborted"]).slice(0, SHOWN_CASSETTES).to_pylist()
        if not words:
            return [
                [show(row["source"]), *(f"{row[name]:,}" for name in ("interactions", "failed", "aborted"))] for row in rows
            ]
        return [
            [
                show(row["source"]),
                plural(row["interactions"], "call"),
                *(f"{row[name]:,} {name}" for name in ("failed", "aborted") if row[name]),
            ]
            for row in rows
        ]

    def _problem_rows(self) -> list[list[str]]:
        rows = self.problems.slice(0, SHOWN_PROBLEMS).to_pylist()
        return [
            [show(row["source"]) + ("" if row["line"] is None else f", line {row['line']}"), show(row["message"])]
            for row in rows
        ]

    def _notes(self) -> list[str]:
        """What is left out above, and what could not be known."""
        notes = []
        if len(self.cassettes) > SHOWN_CASSETTES:
            notes.append(f"… and {plural(len(self.cassettes) - SHOWN_CASSETTES, 'more cassette')}: lab.to_pandas('cassettes')")
        if len(self.sessions) > SHOWN_SESSIONS:
            notes.append(f"… and {plural(len(self.sessions) - SHOWN_SESSIONS, 'more session')}: lab.to_pandas('sessions')")
        if len(self.problems) > SHOWN_PROBLEMS:
            notes.append(
                f"… and {plural(len(self.problems) - SHOWN_PROBLEMS, 'more file')} not loaded: lab.to_pandas('problems')"
            )
        if not len(self.calls) and (len(self.cassettes) or not self._has_others):
            notes.append("no calls were recorded in what was loaded")
        return notes

    def _next(self) -> list[str]:
        steps = ["lab.problems.to_pylist()"] if len(self.problems) else []
        if len(self.calls):
            steps += ["lab.to_pandas()", 'lab.sql("select stop_reason, count(*) from calls group by 1")', "cl.timeline(lab)"]
        if len(self.sessions):
            steps += ["lab.tree()", "lab.time_spent()", "cl.waterfall(lab)"]
            calls = "(from model_calls union all by name from compactions)" if len(self.compactions) else "model_calls"
            steps.append(f'lab.sql("select model, sum(output_tokens) from {calls} where not inherited group by 1")')  # noqa: S608 - to be read
        if len(self.flights):
            steps.append('lab.sql("select model, median(first_chunk_ms), median(duration_ms) from flights group by 1")')
        return steps


def _html_table(head: list[str], rows: list[list[str]]) -> str:
    if not rows:
        return ""
    sides = ["right" if all(map(_NUMBER.fullmatch, column)) else "left" for column in zip(*rows, strict=True)]
    titles = "".join(f'<th style="text-align:{side}">{escape(title)}</th>' for side, title in zip(sides, head, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f'<td style="text-align:{side}"><bdi>{escape(cell)}</bdi></td>' for side, cell in zip(sides, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"


def _copied(root: Path, tables: Mapping[str, pa.Table], logs: Any, *options: bool) -> Lab:
    (bodies,) = options
    return Lab(root, tables, logs, bodies=bodies)
