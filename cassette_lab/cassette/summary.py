"""What a cassette holds, in a few numbers; and its calls one by one, without their contents.

``summary`` and ``inspect`` give the documents of the original, member for member. Everything works on the columns of a
projection, so that large cassettes never become objects.
Source: cassette format, Summary, inspect, diff.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cassette_lab.cassette.columns import Projection, project_cassette
from cassette_lab.cassette.exact import exact_rows, exact_texts, json_number
from cassette_lab.cassette.model import Cassette
from cassette_lab.jsonio import JsonObject

_CALL_COLUMNS = (
    "sequence", "call_key", "parent_context_fingerprint", "request_fingerprint", "outcome_kind", "stop_reason",
    "duration_ms",
)  # fmt: skip


def summary(cassette: Projection | Cassette) -> JsonObject:
    """Identity, provider and counts of a cassette.

    ``completed`` and ``aborted`` go by stop reason, ``failed`` is every other outcome. ``durationMs`` is the longest
    call, 0 without calls. ``redactedResults`` are results in which something was redacted.
    """
    projection = as_projection(cassette)
    calls = projection.calls
    completed = _count(pc.equal(calls["stop_reason"], "completed"))
    aborted = _count(pc.equal(calls["stop_reason"], "aborted"))
    return {
        "cassetteId": projection.header.cassette_id,
        "provider": projection.header.provider.to_json(),
        "interactions": calls.num_rows,
        "completed": completed,
        "failed": calls.num_rows - completed - aborted,
        "aborted": aborted,
        "ambiguousGroups": ambiguous_groups(projection),
        "redactedResults": _count(pc.greater(calls["redactions"], 0)),
        "durationMs": json_number(pc.max(calls["duration_ms"]).as_py() or 0.0),
    }


def inspect(cassette: Projection | Cassette, *, show_calls: bool = False) -> JsonObject:
    """The summary and, with ``show_calls``, the member ``calls`` with every call by sequence."""
    projection = as_projection(cassette)
    document = summary(projection)
    if show_calls:
        document["calls"] = list(call_documents(projection))
    return document


def call_documents(cassette: Projection | Cassette) -> Iterator[JsonObject]:
    """The calls by sequence, as ``inspect`` shows them: keys, fingerprints, outcome, stop-reason category, duration."""
    projection = as_projection(cassette)
    order = np.argsort(projection.calls["sequence"].to_numpy(), kind="stable")
    for sequence, call_key, context, request, outcome, stop_reason, duration_ms in exact_rows(projection, _CALL_COLUMNS, order):
        document: JsonObject = {
            "sequence": sequence,
            "callKey": call_key,
            "parentContextFingerprint": context,
            "requestFingerprint": request,
            "outcome": outcome,
        }
        if stop_reason is not None:
            document["stopReason"] = stop_reason
        document["durationMs"] = json_number(duration_ms)
        yield document


def ambiguous_groups(cassette: Projection | Cassette) -> int:
    """How many groups of equal calls (parent, parent context, request) have more than one distinct outcome."""
    projection = as_projection(cassette)
    calls = projection.calls
    if not _count(pc.equal(calls["occurrence"], 2)):  # occurrences count from 1 without gaps
        return 0
    groups = pa.table(
        {
            "parent": exact_texts(projection, "parent_key"),
            "context": calls["parent_context_fingerprint"],
            "request": calls["request_fingerprint"],
            "outcome": calls["outcome_fingerprint"],
        }
    )
    distinct = groups.group_by(["parent", "context", "request"]).aggregate([("outcome", "count_distinct")])
    return _count(pc.greater(distinct["outcome_count_distinct"], 1))


def as_projection(cassette: Projection | Cassette) -> Projection:
    """The columns of a cassette, made from its objects if they have to be."""
    return project_cassette(cassette) if isinstance(cassette, Cassette) else cassette


def _count(mask: Any) -> int:
    return pc.sum(mask).as_py() or 0
