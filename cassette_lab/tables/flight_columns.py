"""Columns of the tables that flight records give. A recorder keeps no text of a request, so there are none with bodies."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from cassette_lab.cassette.columns import TIME, column
from cassette_lab.flight.model import ERROR_KINDS, INCOMPLETE_REASONS, MISS_REASONS, OUTCOME_KINDS
from cassette_lab.tables.session_columns import TERM, TOKENS

COUNTS: Final = pa.map_(pa.string(), pa.int64())
"""How many of each, by name."""

FLIGHTS: Final = [
    column("record_id", pa.string(), "id of the record"),
    column("session_id", pa.string(), "id of the session that made the request, as in sessions"),
    column("turn", pa.int64(), "number of the turn; null for an auxiliary call"),
    column("step", pa.int64(), "number of the step in its turn; null for an auxiliary call"),
    column("attempt", pa.int64(), "number of the request in its step, from 1; null for an auxiliary call"),
    column("started_at", TIME, "when the request was made", "ms"),
    column("auxiliary", pa.bool_(), "whether it is no step of an agent loop (a title, a compaction)"),
    column("provider", TERM, "model provider"),
    column("model", TERM, "model that was asked"),
    column("reasoning_effort", TERM, "how much reasoning was asked for; null where that was not set"),
    column("temperature", pa.float64(), "temperature; null where it was not set"),
    column("max_tokens", pa.int64(), "most tokens of an answer; null where that was not set", "tokens"),
    column("stop_sequences", pa.int64(), "texts that end an answer; null where none were set", "sequences"),
    column("messages", pa.int64(), "messages that were sent", "messages"),
    column("messages_by_role", COUNTS, "of these, how many of each role", "messages"),
    column("messages_by_source", COUNTS, "of these, how many from each source", "messages"),
    column("blocks_by_type", COUNTS, "blocks of their content, how many of each type", "blocks"),
    column("system_characters", pa.int64(), "length of the system text", "UTF-16 units"),
    column("tools", pa.int64(), "tools that were offered and are in the record", "tools"),
    column("schema_nodes", pa.int64(), "values that the schemas of these tools consist of", "values"),
    column("prompt_sections", pa.int64(), "sections of the system prompt; null where its assembly was not seen", "sections"),
    column("prompt_contexts", pa.int64(), "contexts in it; null where its assembly was not seen", "contexts"),
    column("prompt_variables", pa.int64(), "variables in it; null where its assembly was not seen", "variables"),
    column("prompt_characters", pa.int64(), "sections and contexts together; null as before", "UTF-16 units"),
    column("prompt_kept", pa.bool_(), "whether these four are those of the step's first attempt (a retry does not assemble)"),
    column("outcome_kind", TERM, f"one of {', '.join(OUTCOME_KINDS)}"),
    column("finish_kind", TERM, "why the stream ended; null unless it finished"),
    column("error_kind", TERM, f"what it failed with: {', '.join(ERROR_KINDS)}; null unless it threw"),
    column("incomplete_reason", TERM, f"{', '.join(INCOMPLETE_REASONS)}; null unless it is incomplete"),
    column("error_code", TERM, "code of the failure, OTHER for one that is not kept; null without one"),
    column("error_status", pa.int64(), "HTTP status of the failure; null without one"),
    column("aborted_by", TERM, "user, timeout or dispose; null where nobody stopped it"),
    column("ended_by", TERM, "run-end where its run ended before it; null otherwise"),
    column("first_chunk_ms", pa.float64(), "request to the first chunk; null without one", "ms"),
    column("duration_ms", pa.float64(), "request to the end of the stream; null while it runs", "ms"),
    *(column(name, pa.int64(), f"{doc}; null where the model did not say", "tokens") for name, doc in TOKENS.items()),
    column("request_omissions", pa.int64(), "what limits left out of the record, of the request", "omissions"),
    column("prompt_omissions", pa.int64(), "the same of the prompt's assembly", "omissions"),
]
"""One row per model request that a flight recorder saw."""

MISSES: Final = {reason: f"{reason.replace('-', '_')}_misses" for reason in MISS_REASONS}
"""Columns of the counts of requests that could not be told whose they are, by reason."""

_UNKNOWN: Final = "null for a log"

FLIGHT_HEALTH: Final = [
    column("kind", TERM, "snapshot, or log"),
    column("records", pa.int64(), "records in the file", "records"),
    column("auxiliary_records", pa.int64(), "records of auxiliary calls in it, not among the others", "records"),
    column("revision", pa.int64(), f"changes of the recorder when it was saved; {_UNKNOWN}", "changes"),
    column("captured", pa.int64(), f"requests that were seen; {_UNKNOWN}", "requests"),
    column("completed", pa.int64(), f"those of them that were over; {_UNKNOWN}", "requests"),
    column("active", pa.int64(), f"those that were not; {_UNKNOWN}", "requests"),
    column("retained", pa.int64(), f"records that were kept; {_UNKNOWN}", "records"),
    column("evicted", pa.int64(), f"records that had to make room; {_UNKNOWN}", "records"),
    column("truncated_records", pa.int64(), f"records from which limits left something out; {_UNKNOWN}", "records"),
    column("correlation_misses", pa.int64(), f"requests that could not be told whose they are; {_UNKNOWN}", "requests"),
    *(column(name, pa.int64(), f"of these, for {reason}; {_UNKNOWN}", "requests") for reason, name in MISSES.items()),
    column("projection_failures", pa.int64(), f"requests and prompts that could not be projected; {_UNKNOWN}", "failures"),
    column("subscriber_failures", pa.int64(), f"failures of subscribers; {_UNKNOWN}", "failures"),
    column("bytes", pa.int64(), "size of the file, of a log with its full files", "bytes"),
    column("torn_bytes", pa.int64(), "bytes at a log's end that are no whole line", "bytes"),
]
"""One row per snapshot or log of a flight recorder."""
