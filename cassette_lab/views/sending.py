"""What a front end gets of a lab: the columns that views draw, as packed Arrow streams, and what it says above them.

Everything that leaves a kernel for a widget, a saved notebook or a report goes through here, so that it is decided once what
that is: metadata only (unless bodies are asked for), files named without the folders of this machine, and, where a place has
limits, only so many rows.
"""

from __future__ import annotations

import gzip
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.errors import ConfigError
from cassette_lab.views.bounding import ROW, bounded
from cassette_lab.views.compacting import rounded, shortened
from cassette_lab.views.rows import loaded, source_text, sources_of
from cassette_lab.views.trusting import trust_of
from cassette_lab.words import plural

if TYPE_CHECKING:
    import pyarrow as pa

_CALLS: Final = (
    "source", "sequence", "call_key", "parent_key", "label", "occurrence", "started_at", "start_latency_ms", "duration_ms",
    "signal_aborted_at_ms", "dispose_called_at_ms", "outcome_kind", "stop_reason", "error_code", "error_name", "redactions",
    "child_model",
)  # fmt: skip
_SIDE: Final = (*_CALLS, "parent_context_fingerprint", "request_fingerprint", "outcome_fingerprint", "published", "local")
DRAWN: Final[Mapping[str, tuple[str, ...]]] = {
    "calls": _CALLS,
    "sessions": ("source", "session_id", "parent_session", "started_at", "duration_ms", "end_kind", "open"),
    "turns": ("source", "session_id", "turn", "started_at", "duration_ms", "end_kind", "error_code", "inherited"),
    "steps": ("source", "session_id", "turn", "step", "started_at", "duration_ms", "end_kind", "error_code", "inherited"),
    "model_calls": (
        "source", "session_id", "turn", "step", "attempt", "model", "started_at", "first_chunk_ms", "duration_ms",
        "finish_kind", "interrupted", "error_code", "inherited",
    ),
    "tool_calls": (
        "source", "session_id", "turn", "step", "call_id", "parent_call_id", "name", "started_at", "duration_ms", "is_error",
        "child_session_id", "error_code", "inherited",
    ),
    "compactions": ("source", "session_id", "turn", "model", "started_at", "duration_ms", "failed", "inherited"),
    "flights": (
        "source", "record_id", "turn", "step", "attempt", "model", "started_at", "first_chunk_ms", "duration_ms",
        "outcome_kind", "finish_kind", "error_kind", "error_code", "aborted_by",
    ),
    "expected": _SIDE,
    "actual": _SIDE,
}  # fmt: skip
"""The columns that views draw, by table; ``expected`` and ``actual`` are the two sides of a diff."""

_SAID: Final = ("prompt", "output", "structured", "error_message")
BODIES: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys(("calls", "expected", "actual"), _SAID)
"""What was said; sent only where it was asked for twice: ``load(…, bodies=True)`` and ``bodies=True`` of the view."""


@dataclass(frozen=True)
class Sent:
    """What a front end gets.

    ``tables``: Arrow IPC streams packed with gzip, by table name. ``options``: what ``mount`` takes (``title``, ``trust``,
    ``bodies``, ``diff``, …). ``note``: a sentence on what was left out, empty where that is nothing. ``rows`` and ``total``
    count by table what is here and what there was.
    """

    tables: Mapping[str, bytes]
    options: Mapping[str, Any]
    note: str = ""
    rows: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    total: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def nbytes(self) -> int:
        """Size of all tables, packed."""
        return sum(map(len, self.tables.values()))


def sent(
    data: Any,
    *,
    names: Collection[str] | None = None,
    max_rows: int | None = None,
    bodies: bool = False,
    short_keys: bool = True,
    round_times: bool = False,
) -> Sent:
    """What a front end gets of ``data``: a lab, its ``calls`` table, tables by name, a cassette diff, or paths to load.

    ``names`` are the tables that are wanted, all that have rows without. Of more than ``max_rows`` rows in all the telling
    ones are taken: what failed and what took long, with everything above it; a column ``row`` then says which row of the
    whole table each was. ``short_keys`` gives calls shorter keys, still one for each; ``round_times`` makes times from
    100 ms on whole milliseconds: both only pack better. Raises ``ConfigError`` for bodies that are not there.
    """
    lab = data if isinstance(data, Mapping) or is_diff(data) else loaded(data)
    tables = {name: table for name, table in tables_of(lab).items() if names is None or name in names}
    if bodies and not any(set(BODIES[name]) <= set(tables[name].column_names) for name in tables.keys() & BODIES.keys()):
        raise ConfigError("a view with bodies needs data that have them: load(..., bodies=True)")
    total = {name: len(table) for name, table in tables.items()}
    chosen = {name: _drawn(name, table, bodies=bodies) for name, table in tables.items()}
    if max_rows is not None and sum(total.values()) > max_rows:
        chosen = bounded(chosen, max_rows)
    if short_keys:
        chosen = shortened(chosen)
    if round_times:
        chosen = {name: rounded(table) for name, table in chosen.items()}
    rows = {name: len(table) for name, table in chosen.items()}
    options = {"title": title_text(lab), "bodies": bodies, **trust_of(lab), **_diff_facts(lab)}
    return Sent({name: packed(table) for name, table in chosen.items()}, options, left_out(rows, total), rows, total)


def is_diff(data: Any) -> bool:
    """Whether it is a comparison of two recordings."""
    return hasattr(data, "expected") and hasattr(data, "actual")


def tables_of(lab: Any) -> dict[str, pa.Table]:
    """The tables of a lab that views draw, as they are; those without rows only where there would be none."""
    if is_diff(lab):
        return {"expected": lab.expected.calls, "actual": lab.actual.calls}
    if isinstance(lab, Mapping):
        return {name: lab[name] for name in DRAWN if name in lab}
    given: Mapping[str, pa.Table] = getattr(lab, "tables", None) or {"calls": getattr(lab, "calls", lab)}
    return {name: given[name] for name in DRAWN if name in given and len(given[name])} or {"calls": given["calls"]}


def title_text(lab: Any) -> str:
    """The name of the only file, or how many there are."""
    if is_diff(lab):
        return " → ".join(source_text(str(side.path)) if getattr(side, "path", None) else "a recording" for side in _sides(lab))
    files = dict.fromkeys(source for table in tables_of(lab).values() for source in sources_of(table) if source)
    return plural(len(files), "file") if len(files) > 1 else source_text(next(iter(files), "")) or "recorded calls"


def packed(table: pa.Table) -> bytes:
    """The table as an Arrow IPC stream in one batch, packed with gzip; the same table always gives the same bytes."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    plain = table.unify_dictionaries().combine_chunks()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    return gzip.compress(sink.getvalue(), 6, mtime=0)


def left_out(rows: Mapping[str, int], total: Mapping[str, int]) -> str:
    """``1,500 of 20,000 calls are here``, of every table that is not whole; nothing where all are."""
    parts = [f"{rows[name]:,} of {total[name]:,} {name.replace('_', ' ')}" for name in total if rows[name] < total[name]]
    return f"{', '.join(parts)} are here: what failed and what took long, with everything above it" if parts else ""


def _drawn(name: str, table: pa.Table, *, bodies: bool) -> pa.Table:
    wanted = (*DRAWN[name], *(BODIES.get(name, ()) if bodies else ()), ROW)
    table = table.select([column for column in wanted if column in table.column_names])
    return _with_plain_sources(table) if "source" in table.column_names else table


def _with_plain_sources(table: pa.Table) -> pa.Table:
    """Files named without the folders of this machine; names that would be the same then are told apart."""
    import pyarrow as pa

    encoded = table["source"].cast(pa.string()).combine_chunks().dictionary_encode()
    names = [source_text(name) for name in encoded.dictionary.to_pylist()]
    plain = [f"{name} ({names[:place].count(name) + 1})" if names.count(name) > 1 else name for place, name in enumerate(names)]
    at = table.column_names.index("source")
    told = pa.DictionaryArray.from_arrays(encoded.indices.cast(pa.int32()), pa.array(plain, pa.string()))
    return table.set_column(at, pa.field("source", told.type, metadata=table.field(at).metadata), told)


def _sides(diff: Any) -> tuple[Any, Any]:
    return diff.expected, diff.actual


def _diff_facts(lab: Any) -> dict[str, Any]:
    """What a comparison says as a whole, where it is one that knows."""
    if not hasattr(lab, "policy_changes"):
        return {}
    facts = {"verdict": lab.verdict, "comparable": lab.comparable, "issues": lab.issue_sentences}
    return {"diff": {**facts, "policy_changes": list(lab.policy_changes)}}
