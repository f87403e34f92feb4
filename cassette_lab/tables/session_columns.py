"""Columns of the tables that session logs give. None of them holds what was said, except where bodies are asked for."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from cassette_lab.cassette.columns import TIME, column

TERM: Final = pa.dictionary(pa.int32(), pa.string())
"""Type of words that repeat: kinds, codes, names of models and tools."""

TOKENS: Final = {
    "input_tokens": "tokens that came from no cache",
    "output_tokens": "tokens the model gave, its reasoning among them",
    "cache_read_tokens": "tokens read from a cache",
    "cache_write_tokens": "tokens written to a cache",
    "reasoning_tokens": "tokens of reasoning, part of the output",
}
"""What a model counts, of a call or of several."""
_TOKENS: Final = {**TOKENS, "total_tokens": "the provider's own sum of input, output and both caches"}
COMPACTION_TOKENS: Final = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
"""Counts that a session has of its compactions alone."""

_INHERITED: Final = column(
    "inherited", pa.bool_(), "whether it belongs to what a fork took over from its parent: not to be counted"
)
_SESSION: Final = column("session_id", pa.string(), "id of the session")
_TURN: Final = column("turn", pa.int64(), "number of the turn, going on in a fork")
_STEP: Final = column("step", pa.int64(), "number of the step in its turn")

SESSIONS: Final = [
    _SESSION,
    column("format", pa.int64(), "format of the log, 0 to 4"),
    column("created_at", TIME, "when the session was made", "ms"),
    column("cwd", pa.string(), "its working directory; null without one"),
    column("parent_session", pa.string(), "id of the session that started it; null for none"),
    column("origin", TERM, "subagent, or null"),
    column("delegation_depth", pa.int64(), "how many agents stand above it", "levels"),
    column("agent_preset", TERM, "preset of the agent; null without one"),
    column("mode", TERM, "how a subagent was started: one-shot or continuable; null where it does not say"),
    column("spawned_by", TERM, "what a subagent was started by: spawn or fork; null where it does not say"),
    column("started_at", TIME, "earliest own event", "ms"),
    column("ended_at", TIME, "latest own event", "ms"),
    column("duration_ms", pa.float64(), "from the earliest to the latest own event", "ms"),
    column(
        "active_ms",
        pa.float64(),
        "of these, time in own turns, of an open one to the latest own event; the rest it waited for a message",
        "ms",
    ),
    column("turns", pa.int64(), "own turns that began", "turns"),
    column("steps", pa.int64(), "own steps that began", "steps"),
    column("model_calls", pa.int64(), "own model calls and attempts", "calls"),
    column("tool_calls", pa.int64(), "own tool calls, without those made by code that a tool ran", "calls"),
    column("tool_errors", pa.int64(), "those of them whose result is an error", "calls"),
    column("retries", pa.int64(), "own model calls that failed and were to be made again", "retries"),
    column("retry_delay_ms", pa.float64(), "back-off planned before them; null without a known one", "ms"),
    column("compactions", pa.int64(), "own compactions", "compactions"),
    column("failed_compactions", pa.int64(), "those that ended with an error; what they cost no log says", "compactions"),
    column("compaction_ms", pa.float64(), "time in own compactions that ended; null without one", "ms"),
    column("compacted_tokens", pa.int64(), "tokens that own summaries stand in for; null where no log says", "tokens"),
    column("prunes", pa.int64(), "times that events were cut out of the model's sight without a summary", "prunes"),
    column("pruned_tokens", pa.int64(), "tokens that were cut out so; null where no log says", "tokens"),
    *(column(name, pa.int64(), f"{doc}: messages, failed calls and compactions", "tokens") for name, doc in _TOKENS.items()),
    *(
        column(f"compaction_{name}", pa.int64(), f"of these, what compactions took: {_TOKENS[name]}", "tokens")
        for name in COMPACTION_TOKENS
    ),
    column("end_kind", TERM, "how the last own turn ended (completed is the only success); null while one is open"),
    column("error_code", TERM, "why the last own turn failed; null otherwise"),
    column("open", pa.bool_(), "whether the last own turn that began did not end"),
    column("inherited_events", pa.int64(), "leading events that it took over from its parent", "events"),
    column("events", pa.int64(), "events, deltas counted one by one", "events"),
    column("rows", pa.int64(), "rows of the file that hold them", "rows"),
    column("encoding", TERM, "jsonl, zstd or sqlite"),
    column("bytes", pa.int64(), "size of the file", "bytes"),
    column("torn_bytes", pa.int64(), "bytes at the file's end that were not whole", "bytes"),
    column("notes", pa.int64(), "what a reader should know about the log: rows of the table notes", "notes"),
]
"""One row per session log."""

TURNS: Final = [
    _SESSION,
    _TURN,
    column("started_at", TIME, "when it began", "ms"),
    column("duration_ms", pa.float64(), "start to end; null while it is open", "ms"),
    column("queued_ms", pa.float64(), "how long the message that began it waited in the inbox", "ms"),
    column("end_kind", TERM, "how it ended (completed is the only success); null while it is open"),
    column("end_cause", TERM, "who aborted it; null otherwise"),
    column("error_code", TERM, "why it failed; null otherwise"),
    column("error_status", pa.int64(), "HTTP status of the failure; null without one"),
    _INHERITED,
]
"""One row per turn."""

STEPS: Final = [
    _SESSION,
    _TURN,
    _STEP,
    column("started_at", TIME, "when it began", "ms"),
    column("duration_ms", pa.float64(), "start to end; null while it is open", "ms"),
    column("queued_ms", pa.float64(), "how long the first message that joined it waited in the inbox; null without one", "ms"),
    _INHERITED,
]
"""One row per step."""

MODEL_CALLS: Final = [
    _SESSION,
    _TURN,
    _STEP,
    column("attempt", pa.int64(), "number of the call in its step, from 1"),
    column("provider", TERM, "model provider"),
    column("model", TERM, "model that was asked"),
    column("started_at", TIME, "estimate: the last event that comes before every request; null where there is none", "ms"),
    column("started_by", TERM, "type of that event"),
    column("first_chunk_ms", pa.float64(), "start to the first chunk", "ms"),
    column("duration_ms", pa.float64(), "start to the last chunk", "ms"),
    column("chunks", pa.int64(), "chunks that streamed", "chunks"),
    column("settled_as", TERM, "message, attempt, or none"),
    column("interrupted", pa.bool_(), "whether it was stopped while it spoke"),
    column("finish_kind", TERM, "why the stream ended; null where it was cut"),
    column("error_code", TERM, "code of the failure; null without one"),
    *(column(name, pa.int64(), doc, "tokens") for name, doc in _TOKENS.items()),
    column("tokens_per_second", pa.float64(), "output tokens between the first and the last delta", "tokens/s"),
    column("text_chars", pa.int64(), "text that streamed", "code points"),
    column("reasoning_chars", pa.int64(), "reasoning that streamed", "code points"),
    column("argument_chars", pa.int64(), "tool arguments that streamed", "code points"),
    _INHERITED,
]
"""One row per model call or attempt."""

TOOL_CALLS: Final = [
    _SESSION,
    _TURN,
    _STEP,
    column("call_id", pa.string(), "id the model gave the call"),
    column("parent_call_id", pa.string(), "call whose code made this one; null for the model's own"),
    column("name", TERM, "name of the tool"),
    column("started_at", TIME, "when it was called", "ms"),
    column("duration_ms", pa.float64(), "call to result; null without one", "ms"),
    column("job_ms", pa.float64(), "how long the work behind it took, also beyond the result (format 4); null otherwise", "ms"),
    column("is_error", pa.bool_(), "whether its result is an error; null without a result"),
    column("error_name", TERM, "name of the error; null without one"),
    column("error_code", TERM, "code of the error; null without one"),
    column("argument_bytes", pa.int64(), "its arguments", "bytes"),
    column("result_bytes", pa.int64(), "the text of its result; null without one", "bytes"),
    column("child_session_id", pa.string(), "subagent it started; null for none, and where nothing tells which it was"),
    column("child_source", TERM, "file that has this subagent's log, source of its rows; null where the lab has none"),
    column(
        "child_linked_by",
        TERM,
        "how that is known: result (its text names it: one in the background), label (only those two have it), interval "
        "(only this call ran when it was created)",
    ),
    _INHERITED,
]
"""One row per tool call, and per call made by code that a tool ran."""

COMPACTIONS: Final = [
    _SESSION,
    column("turn", pa.int64(), "number of the turn; null outside of turns"),
    column("compaction_id", pa.string(), "id the harness gave it"),
    column("started_at", TIME, "when it began", "ms"),
    column("duration_ms", pa.float64(), "start to end; null while it is open", "ms"),
    column("summarised", pa.bool_(), "whether there is a summary"),
    column("failed", pa.bool_(), "whether it ended with an error; what it cost no log says"),
    column("provider", TERM, "model provider; null without a summary"),
    column("model", TERM, "model that summed up; null without a summary"),
    column("compacted_tokens", pa.int64(), "tokens that the summary stands in for; null where the log does not say", "tokens"),
    *(column(name, pa.int64(), doc, "tokens") for name, doc in _TOKENS.items()),
    _INHERITED,
]
"""One row per compaction: a model call of its own, whose stream is not logged. No row of ``model_calls`` is one of them."""

NOTES: Final = [
    _SESSION,
    column("line", pa.int64(), "physical line of the log, from 1; null where it is no single line, and in SQLite"),
    column("frame", pa.int64(), "zstd frame, from 1; null elsewhere"),
    column("code", TERM, "TORN_TAIL, BROKEN_TAIL, OLDER_GENERATION, UNKNOWN_TYPE, OTHER_FORMAT or OPEN_PREFIX"),
    column("message", pa.string(), "what a reader should know, in a sentence"),
]
"""One row per thing about a log that a reader should know, and that did not stop the reading."""

EVENTS: Final = [
    _SESSION,
    column("seq", pa.int64(), "place of the event in its session, from 0; of a packed row that of its first member"),
    column("type", TERM, "type of the event, or of the packed row"),
    column("time", TIME, "when it happened; of a packed row its first member", "ms"),
    _TURN,
    _STEP,
    column("members", pa.int64(), "events that the row holds: 1 unless it is packed", "events"),
    _INHERITED,
]
"""One row per stored row of a log, or per event."""

SESSION_BODIES: Final = {
    "sessions": [
        column("label", pa.string(), "what its parent named a subagent"),
        column("title", pa.string(), "title of the session"),
        column("first_prompt", pa.string(), "text of the user's first message"),
        column("final_text", pa.string(), "text of the last message of the assistant"),
    ],
    "model_calls": [
        column("text", pa.string(), "the text that streamed"),
        column("reasoning", pa.string(), "the reasoning that streamed"),
    ],
    "tool_calls": [
        column("arguments", pa.string(), "the arguments, as the model wrote them"),
        column("result", pa.string(), "the text of the result"),
    ],
    "events": [column("data", pa.string(), "data of the row as canonical JSON")],
}
"""Columns that come on top with bodies."""
