"""A quick yes for calls that are as a recorder makes them: they may be recorded, and orjson spells them canonically.

It says yes only where ``check_interaction`` passes and ``canonical`` gives what orjson gives (but for lone surrogates,
for which orjson raises). Everything else goes the exact way, which alone may refuse. A test holds the two together.
"""

from __future__ import annotations

import re
from typing import Any, Final

from cassette_lab.cassette.model import Interaction, Outcome, RequestMetadata, RequestStorage, Timing
from cassette_lab.cassette.schema import SchemaError, check_result
from cassette_lab.jsonio import MAX_SAFE_INTEGER
from cassette_lab.jsonio.canonical import orjson_agrees

_DEPTH: Final = 50
_WIDTH: Final = 10_000

_is_digest = re.compile("sha256:[0-9a-f]{64}").fullmatch


def is_plainly_valid(call: Interaction, storage: RequestStorage) -> bool:
    """Whether ``call`` (hashes excepted) surely fits a cassette that stores requests as ``storage``. No is no verdict."""
    metadata, outcome = call.request.metadata, call.outcome
    return (
        storage == "metadata"
        and metadata is not None
        and _is_count(call.sequence, 1)
        and _is_count(call.occurrence, 1)
        and _is_text(call.call_key)
        and _is_text(call.parent_key)
        and _is_fingerprint(call.parent_context_fingerprint)
        and _is_fingerprint(call.request_fingerprint)
        and call.published is (outcome.kind != "start-error")
        and _is_flag(call.local)
        and (call.published or not call.local)
        and _metadata_is_plain(metadata)
        and _timing_is_plain(call.timing)
        and _outcome_is_plain(outcome)
    )


def _metadata_is_plain(metadata: RequestMetadata) -> bool:
    return (
        metadata.tool_filter is None
        and _is_count(metadata.prompt_blocks, 0)
        and _is_count(metadata.prompt_bytes, 0)
        and _is_flag(metadata.has_output_schema)
        and _is_flag(metadata.has_persona)
        and (metadata.max_depth is None or _is_count(metadata.max_depth, 0))
        and (metadata.label is None or type(metadata.label) is str)
        and (metadata.child_provider is None or type(metadata.child_provider) is str)
        and (metadata.child_model is None or type(metadata.child_model) is str)
    )


def _timing_is_plain(timing: Timing) -> bool:
    return (
        _is_text(timing.started_at)
        and _is_time(timing.start_latency_ms)
        and _is_time(timing.duration_ms)
        and timing.start_latency_ms <= timing.duration_ms
        and (timing.signal_aborted_at_ms is None or _is_time(timing.signal_aborted_at_ms))
        and (timing.dispose_called_at_ms is None or _is_time(timing.dispose_called_at_ms))
    )


def _outcome_is_plain(outcome: Outcome) -> bool:
    if outcome.kind == "result":
        if not _is_count(outcome.redactions, 0) or not orjson_agrees(outcome.result, _DEPTH, _WIDTH):
            return False
        try:
            check_result(outcome.result)
        except SchemaError:
            return False
        return True
    error = outcome.error
    return (
        outcome.kind in ("start-error", "result-error")
        and error is not None
        and _is_text(error.name)
        and type(error.message) is str
        and (error.code is None or type(error.code) is str)
    )


def _is_count(value: Any, least: int) -> bool:
    return type(value) is int and least <= value <= MAX_SAFE_INTEGER


def _is_flag(value: Any) -> bool:
    return value is True or value is False


def _is_text(value: Any) -> bool:
    return type(value) is str and value != ""


def _is_fingerprint(value: Any) -> bool:
    return type(value) is str and _is_digest(value) is not None


def _is_time(value: Any) -> bool:
    """A number of at least 0 that orjson spells as ECMAScript does."""
    if type(value) is float:
        return 1e-4 <= value < 1e15 and not value.is_integer()
    return type(value) is int and 0 <= value <= MAX_SAFE_INTEGER
