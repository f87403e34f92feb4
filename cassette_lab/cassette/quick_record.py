"""A quick yes for records that are as a recorder makes them: they are valid, and orjson spells them canonically.

It says yes only where ``check_interaction`` passes and ``canonical`` gives what orjson gives (but for lone surrogates,
for which orjson raises). Everything else goes the exact way, which alone may refuse. A test holds the two together.
"""

from __future__ import annotations

import re
from typing import Any, Final

from cassette_lab.cassette.members import INTERACTION_KIND
from cassette_lab.cassette.model import RequestStorage
from cassette_lab.cassette.schema import SchemaError, check_result
from cassette_lab.jsonio import MAX_SAFE_INTEGER, JsonObject
from cassette_lab.jsonio.canonical import orjson_agrees

_DEPTH: Final = 50
_WIDTH: Final = 10_000
_MEMBERS: Final = 13  # of a record without its hash
_is_digest = re.compile("sha256:[0-9a-f]{64}").fullmatch


def is_plainly_valid(record: JsonObject, storage: RequestStorage) -> bool:
    """Whether ``record`` (its own hash excepted) surely fits a cassette that stores requests so. No is no verdict.

    The types are looked at one by one, without a helper for each: this runs once for every recorded call.
    """
    try:
        sequence, occurrence = record["sequence"], record["occurrence"]
        call_key, parent_key = record["callKey"], record["parentKey"]
        published, local = record["published"], record["local"]
        request = record["request"]
        outcome = record["outcome"]
        return (
            storage == "metadata"
            and len(record) - ("hash" in record) == _MEMBERS
            and record["kind"] == INTERACTION_KIND
            and type(sequence) is int
            and 1 <= sequence <= MAX_SAFE_INTEGER
            and type(occurrence) is int
            and 1 <= occurrence <= MAX_SAFE_INTEGER
            and type(call_key) is str
            and type(parent_key) is str
            and call_key != ""
            and parent_key != ""
            and _is_digest(record["parentContextFingerprint"]) is not None
            and _is_digest(record["requestFingerprint"]) is not None
            and _is_digest(record["previousHash"]) is not None
            and (published is True or published is False)
            and (local is False or (local is True and published))
            and len(request) == 2
            and request["storage"] == "metadata"
            and _metadata_is_plain(request["metadata"])
            and _timing_is_plain(record["timing"])
            and _outcome_is_plain(outcome)
            and published is (outcome["kind"] != "start-error")
        )
    except (KeyError, TypeError, AttributeError):  # something is missing, or is no object, text or number
        return False


def _metadata_is_plain(metadata: Any) -> bool:
    blocks, size = metadata["promptBlocks"], metadata["promptBytes"]
    schema, persona = metadata["hasOutputSchema"], metadata["hasPersona"]
    known = 4
    for name in ("label", "childProvider", "childModel"):
        text = metadata.get(name, _ABSENT)
        if text is not _ABSENT:
            if type(text) is not str:
                return False
            known += 1
    if "maxDepth" in metadata:
        depth = metadata["maxDepth"]
        if type(depth) is not int or not 0 <= depth <= MAX_SAFE_INTEGER:
            return False
        known += 1
    return (
        type(metadata) is dict
        and len(metadata) == known
        and type(blocks) is int
        and 0 <= blocks <= MAX_SAFE_INTEGER
        and type(size) is int
        and 0 <= size <= MAX_SAFE_INTEGER
        and (schema is True or schema is False)
        and (persona is True or persona is False)
    )


def _timing_is_plain(timing: Any) -> bool:
    started_at, latency, duration = timing["startedAt"], timing["startLatencyMs"], timing["durationMs"]
    known = 3
    for name in ("signalAbortedAtMs", "disposeCalledAtMs"):
        if name in timing:
            if not _is_time(timing[name]):
                return False
            known += 1
    return (
        type(timing) is dict
        and len(timing) == known
        and type(started_at) is str
        and started_at != ""
        and _is_time(latency)
        and _is_time(duration)
        and latency <= duration
    )


def _outcome_is_plain(outcome: Any) -> bool:
    if outcome["kind"] == "result":
        redactions, result = outcome["redactions"], outcome["result"]
        if type(outcome) is not dict or len(outcome) != 3 or type(redactions) is not int:
            return False
        if not 0 <= redactions <= MAX_SAFE_INTEGER or not orjson_agrees(result, _DEPTH, _WIDTH):
            return False
        try:
            check_result(result)
        except SchemaError:
            return False
        return True
    error = outcome["error"]
    name, message, code = error["name"], error["message"], error.get("code", "")
    return (
        outcome["kind"] in ("start-error", "result-error")
        and type(outcome) is dict
        and len(outcome) == 2
        and type(error) is dict
        and len(error) == 2 + ("code" in error)
        and type(name) is str
        and name != ""
        and type(message) is str
        and type(code) is str
    )


def _is_time(value: Any) -> bool:
    """A number of at least 0 that orjson spells as ECMAScript does."""
    if type(value) is float:
        return 1e-4 <= value < 1e15 and not value.is_integer()
    return type(value) is int and 0 <= value <= MAX_SAFE_INTEGER


_ABSENT: Final = object()
