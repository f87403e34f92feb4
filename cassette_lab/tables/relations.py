"""Which subagent a tool call started, where its own log does not say so: told by the logs of the children in the lab.

A log of format 3 and later has a catalog of its children. Before, only a child's own log says whose child it is and what it
was named; so what links need is gathered as rows of a table that no lab shows (labels are words of a person), and used up
when all logs are there. Source: session logs, Parents and children.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from cassette_lab.cassette.columns import column
from cassette_lab.session.facts import SessionFacts, ToolCall, own
from cassette_lab.session.links import Candidate, LinkedBy, delegations, started_by
from cassette_lab.session.members import known
from cassette_lab.tables.columns import array_of
from cassette_lab.tables.kinship import Kinship

COLUMNS: Final = [
    column("session_id", pa.string(), "id of the session"),
    column("place", pa.int64(), "place of a call among the session's rows of tool_calls; null for the session itself"),
    column("label", pa.string(), "what the call named its subagent, or what the session was named"),
    column("from_at", pa.float64(), "start of the call, or when the session was created", "ms"),
    column("to_at", pa.float64(), "end of the call; null without one", "ms"),
]
"""One row per call that started an unknown subagent, and one per subagent."""

Linked = tuple[str, LinkedBy]


def linked_children(facts: SessionFacts) -> dict[int, Linked]:
    """The subagents that a log itself tells of its calls, by the call's place in ``facts.tool_calls``."""
    if not any(call.delegates for call in facts.tool_calls):
        return {}
    named: dict[int, Linked] = {
        place: (call.child_session_id, "result")
        for place, call in enumerate(facts.tool_calls)
        if call.child_session_id is not None
    }
    calls = delegations(facts.tool_calls)
    catalog = [Candidate(child.session_id, child.label, child.created_at) for child in own(facts.children)]
    places = [*calls]
    found = started_by([*calls.values()], catalog)
    return named | {places[place]: (child, way) for child, (place, way) in found.items()}


def rows_of(facts: SessionFacts, linked: Mapping[int, Linked]) -> list[list[Any]] | None:
    """The rows of ``relations`` of a log, in columns; None where it has none."""
    rows: list[tuple[Any, ...]] = []
    header, descriptor = facts.header, facts.descriptor
    if header.parent_session is not None:
        rows.append((None, None if descriptor is None else descriptor.label, known(header.created_at or 0), None))
    rows += [
        (place, call.delegation_label, call.started_at, call.ended_at)
        for place, call in delegations(facts.tool_calls).items()
        if place not in linked
    ]
    return [[facts.id] * len(rows), *map(list, zip(*rows, strict=True))] if rows else None


def with_children(tables: Mapping[str, pa.Table], relations: pa.Table) -> pa.Table:
    """``tool_calls`` with the subagents that calls started as far as all logs of the lab together tell it, and their files."""
    tool_calls = tables["tool_calls"]
    if not len(relations) and tool_calls["child_session_id"].null_count == len(tool_calls):
        return tool_calls
    sessions = tables["sessions"].select(["source", "session_id", "parent_session"]).to_pylist()
    kin = Kinship([row["source"] for row in sessions], [row["session_id"] for row in sessions])
    found = {} if relations["place"].null_count in (0, len(relations)) else _found(sessions, kin, tool_calls, relations)
    columns = {name: tool_calls[name].to_pylist() for name in ("child_session_id", "child_source", "child_linked_by")}
    for row, linked in found.items():
        columns["child_session_id"][row], columns["child_linked_by"][row] = linked
    rows = {(row["source"], row["session_id"]): number for number, row in enumerate(sessions)}
    own_sources, own_ids = tool_calls["source"].to_pylist(), tool_calls["session_id"].to_pylist()
    for row, child in enumerate(columns["child_session_id"]):
        place = None if child is None else kin.find(child, rows[own_sources[row], own_ids[row]])
        if place is not None:
            columns["child_source"][row] = sessions[place]["source"]
    for name, values in columns.items():
        field = tool_calls.schema.field(name)
        tool_calls = tool_calls.set_column(tool_calls.schema.get_field_index(name), field, array_of(values, field.type))
    return tool_calls


def _found(sessions: Sequence[Mapping[str, Any]], kin: Kinship, tool_calls: pa.Table, relations: pa.Table) -> dict[int, Linked]:
    """The subagent of each row of ``tool_calls`` that is found."""
    rows = {(row["source"], row["session_id"]): number for number, row in enumerate(sessions)}
    parents, _ = kin.parents([row["parent_session"] for row in sessions])
    calls: dict[int, list[dict[str, Any]]] = defaultdict(list)
    children: dict[int, list[Candidate]] = defaultdict(list)
    for relation in relations.to_pylist():
        row = rows[relation["source"], relation["session_id"]]
        if relation["place"] is not None:
            calls[row].append(relation)
        elif row in parents:
            children[parents[row]].append(Candidate(relation["session_id"], relation["label"], relation["from_at"]))
    first, known = dict(_first_rows(tool_calls)), _known(tool_calls)
    found: dict[int, Linked] = {}
    for row, some in calls.items():
        session = sessions[row]["source"], sessions[row]["session_id"]
        waiting = [child for child in children.get(row, ()) if child.session_id not in known.get(session, ())]
        for child, (place, way) in started_by([_call(each) for each in some], waiting).items():
            found[first[session] + some[place]["place"]] = (child, way)
    return found


def _call(relation: Mapping[str, Any]) -> ToolCall:
    return ToolCall(
        None, None, None, None,
        started_at=relation["from_at"], ended_at=relation["to_at"], delegates=True, delegation_label=relation["label"],
    )  # fmt: skip


def _first_rows(tool_calls: pa.Table) -> Iterator[tuple[tuple[str, str], int]]:
    """Where the rows of each session begin; they stand together."""
    before = None
    for row, session in enumerate(zip(tool_calls["source"].to_pylist(), tool_calls["session_id"].to_pylist(), strict=True)):
        if session != before:
            before = session
            yield session, row


def _known(tool_calls: pa.Table) -> dict[tuple[str, str], set[str]]:
    """The subagents whose own call is known already."""
    known: dict[tuple[str, str], set[str]] = defaultdict(set)
    named = tool_calls.select(["source", "session_id", "child_session_id"]).filter(tool_calls["child_session_id"].is_valid())
    for row in named.to_pylist():
        known[row["source"], row["session_id"]].add(row["child_session_id"])
    return known
