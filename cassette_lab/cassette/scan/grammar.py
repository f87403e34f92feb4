"""The one canonical spelling of a recorded call, walked through by all lines of a block at once.

A line that comes to the end of the walk has exactly the closed members of an interaction, each once, sorted and spelled
canonically, and its values are where the spans say. What is in numbers, digests and times, and whatever depends on more
than spelling, is judged later (``proof``). Values that the format leaves open are cut out here and judged one by one
(``open_values``): content blocks of rarer kinds, a result's extra members, a tool filter, a stored request.

Source: cassette format 1, Canonical JSON and Interaction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from cassette_lab.cassette.model import OUTCOME_KINDS, RequestStorage
from cassette_lab.cassette.scan import open_values
from cassette_lab.cassette.scan.blocks import Block, Mask, Positions
from cassette_lab.cassette.scan.cursor import NONE, NOWHERE, Cursor, Rows, Span, some
from cassette_lab.jsonio import JsonObject

MOST_BLOCKS: Final = 64
"""Content blocks of a result that the walk follows; a longer result is judged as an open value."""


@dataclass
class Walk:
    """What the walk found, by the names of the table's columns where there are such.

    Arrays have one element a line; spans and dicts say which lines they speak of.
    """

    good: Mask
    outcome_kind: Positions
    output_blocks: Positions
    hash_member: Positions
    outcome_start: Positions
    outcome_stop: Positions
    output: Span
    stop_reason: Span
    digests: dict[str, Positions] = field(default_factory=dict)
    flags: dict[str, Mask] = field(default_factory=dict)
    texts: dict[str, Span] = field(default_factory=dict)
    integers: dict[str, Span] = field(default_factory=dict)
    decimals: dict[str, Span] = field(default_factory=dict)
    extra: dict[int, JsonObject] = field(default_factory=dict)
    tool_filters: dict[int, JsonObject] = field(default_factory=dict)
    requests: dict[int, open_values.FullRequest] = field(default_factory=dict)


def walk(block: Block, storage: RequestStorage) -> Walk:
    """Walk every line of the block; ``good`` tells which ones came through."""
    return _Walker(block, storage).found


class _Walker:
    def __init__(self, block: Block, storage: RequestStorage) -> None:
        self.cursor = cursor = Cursor(block)
        count = len(cursor.at)
        self.found = found = Walk(
            good=cursor.good,
            outcome_kind=np.zeros(count, np.int64),
            output_blocks=np.zeros(count, np.int64),
            hash_member=NONE,
            outcome_start=NONE,
            outcome_stop=NONE,
            output=NOWHERE,
            stop_reason=NOWHERE,
        )
        cursor.literal(b'{"callKey":"')
        found.texts["call_key"] = cursor.string(least=1)
        found.hash_member = cursor.at + 1
        cursor.literal(b'","hash":"')
        found.digests["hash"] = cursor.digest()
        cursor.literal(b'","kind":"cassette/interaction","local":')
        found.flags["local"] = cursor.flag()
        cursor.literal(b',"occurrence":')
        found.integers["occurrence"] = cursor.number()
        cursor.literal(b',"outcome":')
        found.outcome_start = cursor.at.copy()
        results, errors = cursor.optional(b'{"kind":"result","redactions":')
        self.result(results)
        self.error(errors)
        found.outcome_stop = cursor.at.copy()
        cursor.literal(b',"parentContextFingerprint":"')
        found.digests["parent_context_fingerprint"] = cursor.digest()
        cursor.literal(b'","parentKey":"')
        found.texts["parent_key"] = cursor.string(least=1)
        cursor.literal(b'","previousHash":"')
        found.digests["previous_hash"] = cursor.digest()
        cursor.literal(b'","published":')
        found.flags["published"] = cursor.flag()
        cursor.literal(b',"request":')
        if storage == "metadata":
            self.metadata()
        else:
            self.full_request()
        cursor.literal(b',"requestFingerprint":"')
        found.digests["request_fingerprint"] = cursor.digest()
        cursor.literal(b'","sequence":')
        found.integers["sequence"] = cursor.number()
        cursor.literal(b',"timing":{')
        self.timing()
        cursor.good &= cursor.at == block.stops

    def result(self, rows: Rows) -> None:
        """Behind ``"redactions":`` of a result, to the end of the outcome."""
        if not some(rows):
            return
        cursor, found = self.cursor, self.found
        found.integers["redactions"] = cursor.number(rows)
        cursor.literal(b',"result":{"output":', rows)
        self.output(rows)
        cursor.literal(b',"stopReason":"', rows)
        found.stop_reason = cursor.string(rows)
        cursor.literal(b'"', rows)
        _, extended = cursor.optional(b"}}", rows)
        if some(extended):
            found.extra = open_values.further_members(cursor, extended)

    def output(self, rows: Rows) -> None:
        """The array of content blocks. Lines with blocks that the walk does not know are judged one by one."""
        cursor, found = self.cursor, self.found
        start = cursor.at[rows].copy()
        was_good = cursor.good[rows].copy()
        cursor.literal(b"[", rows)
        _, unfinished = cursor.optional(b"]", rows)
        for _ in range(MOST_BLOCKS):
            if not some(unfinished):
                break
            texts, others = cursor.optional(b'{"text":"', unfinished)
            self.text_block(texts)
            self.tool_call(others)
            unfinished = cursor.still_good(unfinished)
            found.output_blocks[unfinished] += 1
            unfinished, closing = cursor.optional(b",", unfinished)
            cursor.literal(b"]", closing)
        cursor.good[unfinished] = False
        unknown = was_good & ~cursor.good[rows]
        if unknown.any():
            judged = np.arange(len(cursor.at))[rows][unknown]
            for row, output in open_values.output(cursor, judged, start[unknown]).items():
                found.output_blocks[row] = len(output)
        found.output = Span(rows, start, cursor.at[rows].copy())

    def text_block(self, rows: Rows) -> None:
        if some(rows):
            cursor = self.cursor
            cursor.string(rows)
            cursor.literal(b'","type":"', rows)
            _, others = cursor.optional(b'text"}', rows)
            cursor.literal(b'reasoning"}', others)

    def tool_call(self, rows: Rows) -> None:
        if some(rows):
            cursor = self.cursor
            for before in (b'{"arguments":"', b'","id":"', b'","name":"'):
                cursor.literal(before, rows)
                cursor.string(rows)
            cursor.literal(b'","type":"tool-call"}', rows)

    def error(self, rows: Rows) -> None:
        """An outcome that is no result, whole."""
        if not some(rows):
            return
        cursor, found = self.cursor, self.found
        cursor.literal(b'{"error":{', rows)
        coded, _ = cursor.optional(b'"code":"', rows)
        found.texts["error_code"] = cursor.string(coded)
        cursor.literal(b'",', coded)
        cursor.literal(b'"message":"', rows)
        found.texts["error_message"] = cursor.string(rows)
        cursor.literal(b'","name":"', rows)
        found.texts["error_name"] = cursor.string(rows, least=1)
        cursor.literal(b'"},"kind":"', rows)
        start_errors, result_errors = cursor.optional(b'start-error"}', rows)
        cursor.literal(b'result-error"}', result_errors)
        found.outcome_kind[start_errors] = OUTCOME_KINDS.index("start-error")
        found.outcome_kind[result_errors] = OUTCOME_KINDS.index("result-error")

    def metadata(self) -> None:
        """A request of which only metadata is stored."""
        cursor, found = self.cursor, self.found
        cursor.literal(b'{"metadata":{')
        for name, member in (("child_model", b'"childModel":"'), ("child_provider", b'"childProvider":"')):
            present, _ = cursor.optional(member)
            found.texts[name] = cursor.string(present)
            cursor.literal(b'",', present)
        cursor.literal(b'"hasOutputSchema":')
        found.flags["has_output_schema"] = cursor.flag()
        cursor.literal(b',"hasPersona":')
        found.flags["has_persona"] = cursor.flag()
        labelled, _ = cursor.optional(b',"label":"')
        found.texts["label"] = cursor.string(labelled)
        cursor.literal(b'"', labelled)
        limited, _ = cursor.optional(b',"maxDepth":')
        found.integers["max_depth"] = cursor.number(limited)
        cursor.literal(b',"promptBlocks":')
        found.integers["prompt_blocks"] = cursor.number()
        cursor.literal(b',"promptBytes":')
        found.integers["prompt_bytes"] = cursor.number()
        filtered, _ = cursor.optional(b',"toolFilter":')
        if some(filtered):
            found.tool_filters = open_values.tool_filters(cursor, filtered)
        cursor.literal(b'},"storage":"metadata"}')

    def full_request(self) -> None:
        """A request that is stored whole."""
        cursor, found = self.cursor, self.found
        cursor.literal(b'{"redactions":')
        found.integers["request_redactions"] = cursor.number()
        cursor.literal(b',"storage":"full","value":')
        found.requests = open_values.full_requests(cursor)
        cursor.literal(b"}")

    def timing(self) -> None:
        """Behind the brace of ``timing``, to the end of the line."""
        cursor, found = self.cursor, self.found
        disposed, _ = cursor.optional(b'"disposeCalledAtMs":')
        found.decimals["dispose_called_at_ms"] = cursor.number(disposed)
        cursor.literal(b",", disposed)
        cursor.literal(b'"durationMs":')
        found.decimals["duration_ms"] = cursor.number()
        aborted, _ = cursor.optional(b',"signalAbortedAtMs":')
        found.decimals["signal_aborted_at_ms"] = cursor.number(aborted)
        cursor.literal(b',"startLatencyMs":')
        found.decimals["start_latency_ms"] = cursor.number()
        cursor.literal(b',"startedAt":"')
        found.texts["started_at"] = cursor.string(least=1)
        cursor.literal(b'"}}')
