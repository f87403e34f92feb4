"""Proven lines of a block as a record batch of the calls table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cassette_lab.cassette.columns import call_depth, calls_schema, word_array
from cassette_lab.cassette.model import OUTCOME_KINDS, STOP_REASON_CATEGORIES
from cassette_lab.cassette.scan.blocks import Block, Mask, Positions
from cassette_lab.cassette.scan.cursor import Rows
from cassette_lab.cassette.scan.grammar import Walk
from cassette_lab.cassette.scan.numbers import times
from cassette_lab.cassette.scan.proof import Proof
from cassette_lab.cassette.scan.texts import digest_texts, equal_length, strings, unescaped
from cassette_lab.jsonio import canonical


def proven_batch(block: Block, walk: Walk, proof: Proof, first_line: int, *, bodies: bool) -> pa.RecordBatch:
    """Rows of ``calls_schema(bodies=bodies)``; ``first_line`` is the number of the block's first line."""
    columns = _Columns(block, walk, proof)
    parent_key = columns.text("parent_key")
    started = walk.texts["started_at"]
    arrays: dict[str, pa.Array] = {
        "line": pa.array(block.lines[proof.rows] + (first_line - 1)),
        "call_key": columns.text("call_key"),
        "parent_key": parent_key,
        "depth": call_depth(parent_key),
        "parent_context_fingerprint": columns.digest("parent_context_fingerprint"),
        "request_fingerprint": columns.digest("request_fingerprint"),
        "started_at": times(block, started.start[proof.rows], started.stop[proof.rows]),
        "published": pa.array(walk.flags["published"][proof.rows]),
        "local": pa.array(walk.flags["local"][proof.rows]),
        "outcome_kind": word_array(walk.outcome_kind[proof.rows], OUTCOME_KINDS),
        "stop_reason": columns.stop_reason(),
        "outcome_fingerprint": digest_texts(proof.outcome_hashes),
        "error_name": columns.text("error_name"),
        "error_code": columns.text("error_code"),
        "output_blocks": columns.of_results(walk.output_blocks),
        "output_bytes": columns.of_results(columns.scattered(walk.output.rows, walk.output.stop - walk.output.start)),
    }
    for name in ("sequence", "occurrence", "redactions"):
        arrays[name] = columns.number(walk.integers, proof.integers, name)
    for name in ("start_latency_ms", "duration_ms", "signal_aborted_at_ms", "dispose_called_at_ms"):
        arrays[name] = columns.number(walk.decimals, proof.decimals, name)
    arrays |= columns.of_full_requests() if walk.requests else columns.of_metadata()
    if bodies:
        arrays |= columns.bodies()
    schema = calls_schema(bodies=bodies)
    return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


class _Columns:
    """Columns of the proven lines. A line of which a span or a dict does not speak has null."""

    def __init__(self, block: Block, walk: Walk, proof: Proof) -> None:
        self.block = block
        self.walk = walk
        self.proof = proof
        self.rows = proof.rows

    def text(self, name: str) -> pa.Array:
        span = self.walk.texts.get(name)
        if span is None or not len(span.start):
            return pa.nulls(len(self.rows), pa.string())
        return self.slices(span.rows, span.start, span.stop, escapes=True)

    def slices(self, rows: Rows, start: Positions, stop: Positions, *, escapes: bool) -> pa.Array:
        """The bytes of a span; ``escapes`` tells whether they are the inside of a JSON string."""
        present = None
        if not isinstance(rows, slice):
            # A line without the value has an empty one where the line begins.
            every_start, every_stop = self.block.starts.copy(), self.block.starts.copy()
            every_start[rows], every_stop[rows] = start, stop
            start, stop, present = every_start, every_stop, self.speaks(rows)
        texts = strings(self.block, start[self.rows], stop[self.rows], present)
        return unescaped(texts) if escapes and self.block.has_escapes else texts

    def digest(self, name: str) -> pa.Array:
        texts = self.block.fixed(71)[self.walk.digests[name][self.rows]]
        return equal_length(texts.view(np.uint8).reshape(-1, 71))

    def number(self, spans: dict[str, Any], values: dict[str, npt.NDArray[Any]], name: str) -> pa.Array:
        if name not in spans:
            return pa.nulls(len(self.rows), calls_schema().field(name).type)
        return pa.array(values[name][self.rows], mask=self.unspoken(spans[name].rows))

    def stop_reason(self) -> pa.Array:
        span = self.walk.stop_reason
        category = np.full(len(span.start), STOP_REASON_CATEGORIES.index("other"), np.int8)
        for index, word in enumerate(STOP_REASON_CATEGORIES[:-1]):
            category[self.block.equal(f'{word}"'.encode(), span.start)] = index
        return word_array(self.scattered(span.rows, category)[self.rows], STOP_REASON_CATEGORIES, self.unspoken(span.rows))

    def of_results(self, values: npt.NDArray[Any]) -> pa.Array:
        return pa.array(values[self.rows], mask=self.unspoken(self.walk.output.rows))

    def of_metadata(self) -> dict[str, pa.Array]:
        """Columns that say something about the request, where its metadata is stored."""
        filters = [self.walk.tool_filters.get(row, _NO_FILTER) for row in self.rows.tolist()] if self.walk.tool_filters else []
        arrays = {name: self.text(name) for name in ("label", "child_provider", "child_model")}
        for name in ("prompt_blocks", "prompt_bytes", "max_depth"):
            arrays[name] = self.number(self.walk.integers, self.proof.integers, name)
        for name in ("has_output_schema", "has_persona"):
            arrays[name] = pa.array(self.walk.flags[name][self.rows])
        return arrays | self.tools(filters)

    def of_full_requests(self) -> dict[str, pa.Array]:
        """The same, where the request itself is stored."""
        metadata = [self.walk.requests[row].metadata for row in self.rows.tolist()]
        schema = calls_schema()
        arrays = {
            name: pa.array([getattr(each, name) for each in metadata], schema.field(name).type)
            for name in (
                "label", "child_provider", "child_model", "prompt_blocks", "prompt_bytes", "max_depth", "has_output_schema",
                "has_persona",
            )
        }  # fmt: skip
        return arrays | self.tools([each.tool_filter or _NO_FILTER for each in metadata])

    def tools(self, filters: list[dict[str, Any]]) -> dict[str, pa.Array]:
        kind = pa.list_(pa.string())
        if not any(filters):
            return {name: pa.nulls(len(self.rows), kind) for name in ("tools_allow", "tools_deny")}
        return {f"tools_{name}": pa.array([each.get(name) for each in filters], kind) for name in ("allow", "deny")}

    def bodies(self) -> dict[str, pa.Array]:
        """Columns of ``BODIES``. What is canonical already is taken as it is."""
        numbers, walk = self.rows.tolist(), self.walk
        structured = [
            canonical(walk.extra[row]["structured"]).decode() if "structured" in walk.extra.get(row, ()) else None
            for row in numbers
        ]
        prompts = [canonical(walk.requests[row].prompt).decode() if row in walk.requests else None for row in numbers]
        output = walk.output
        return {
            "prompt": pa.array(prompts, pa.string()),
            "output": self.slices(output.rows, output.start, output.stop, escapes=False),
            "structured": pa.array(structured, pa.string()),
            "error_message": self.text("error_message"),
        }

    def scattered(self, rows: Rows, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values of some lines as an array with one element a line."""
        every = np.zeros(len(self.block.starts), values.dtype)
        every[rows] = values
        return every

    def speaks(self, rows: Rows) -> Mask:
        """Which proven lines are among ``rows``."""
        present = np.zeros(len(self.block.starts), np.bool_)
        present[rows] = True
        return present[self.rows]

    def unspoken(self, rows: Rows) -> Mask | None:
        """Which proven lines are not; None for none of them."""
        return None if isinstance(rows, slice) else ~self.speaks(rows)


_NO_FILTER: dict[str, Any] = {}
