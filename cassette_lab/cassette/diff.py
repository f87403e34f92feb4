"""What changed from one cassette to another: calls, outcomes, boundaries, policy; and, only told, the timing.

Calls are aligned by identity (``alignment``), never by line, sequence or key text. A report holds metadata and
fingerprints, never prompts or results. It stays in columns; rows become text one slice at a time.
Source: cassette format, Diff.
"""

from __future__ import annotations

import html
import importlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cassette_lab.cassette.alignment import Alignment, align
from cassette_lab.cassette.columns import Projection
from cassette_lab.cassette.exact import Rows, exact_rows, json_number
from cassette_lab.cassette.model import Cassette, Header
from cassette_lab.cassette.summary import ambiguous_groups, as_projection
from cassette_lab.jsonio import JsonObject, canonical
from cassette_lab.jsonio.text import pretty_chunks, show
from cassette_lab.words import delta_text, plural

if TYPE_CHECKING:
    from collections.abc import Callable

Comparable: TypeAlias = "str | Path | Projection | Cassette"

SCHEMA_VERSION: Final = 1
_SHOWN_CHANGES: Final = 5
_CALL_COLUMNS: Final = (
    "parent_key", "parent_context_fingerprint", "request_fingerprint", "occurrence", "call_key", "outcome_kind",
    "stop_reason", "outcome_fingerprint", "published", "local", "duration_ms",
)  # fmt: skip
_TIMED_COLUMNS: Final = ("call_key", "start_latency_ms", "duration_ms")

_POLICY: Final[dict[str, Callable[[Header], Any]]] = {
    "provider.cassette": lambda header: header.provider.cassette,
    "provider.upstream": lambda header: header.provider.upstream,
    "provider.capabilities": lambda header: header.provider.capabilities.to_json(),
    "provider.inheritsParentContext": lambda header: header.provider.inherits_parent_context,
    "requestStorage": lambda header: header.request_storage,
    "redactSecrets": lambda header: header.redact_secrets,
    "redactionPatterns": lambda header: list(header.redaction_patterns),
}
"""What of a header counts as policy, in the order of the report."""

_ISSUES: Final = {
    "expected-ambiguous-duplicate-groups": "the expected cassette has equal calls with different outcomes",
    "actual-ambiguous-duplicate-groups": "the actual cassette has equal calls with different outcomes",
    "parent-context-semantics-changed": "one provider inherits its parent's history and the other does not",
}


_COUNTED: Final[dict[str, Callable[[int], str]]] = {
    "added": lambda count: f"{count:,} added",
    "removed": lambda count: f"{count:,} removed",
    "outcomeChanged": lambda count: f"{plural(count, 'outcome')} changed",
    "boundaryChanged": lambda count: f"{plural(count, 'boundary', 'boundaries')} changed",
    "policy": lambda count: plural(count, "policy change"),
}


def diff(expected: Comparable, actual: Comparable) -> CassetteDiff:
    """Compare two cassettes, given as paths, projections or cassettes that are already read.

    Raises ``FormatError`` for a file that does not verify.
    """
    return CassetteDiff(_projection(expected), _projection(actual))


class CassetteDiff:
    """The comparison of an ``expected`` and an ``actual`` cassette.

    ``comparable`` is False where the parent fingerprints mean different things, or where a side has ambiguous groups;
    ``issues`` says which. ``equivalent``: comparable, and no difference in policy, calls, outcomes and boundaries.
    Timing is observed and never counts. ``policy_changes`` names the header's members that differ.
    """

    def __init__(self, expected: Projection, actual: Projection) -> None:
        self.expected = expected
        self.actual = actual
        self.policy_changes: list[str] = [
            name for name, member in _POLICY.items() if canonical(member(expected.header)) != canonical(member(actual.header))
        ]
        self.expected_ambiguous_groups = ambiguous_groups(expected)
        self.actual_ambiguous_groups = ambiguous_groups(actual)
        found = (
            self.expected_ambiguous_groups > 0,
            self.actual_ambiguous_groups > 0,
            "provider.inheritsParentContext" in self.policy_changes,
        )
        self.issues: list[str] = [issue for issue, holds in zip(_ISSUES, found, strict=True) if holds]

    @property
    def comparable(self) -> bool:
        """Whether the alignment means anything."""
        return not self.issues

    @property
    def equivalent(self) -> bool:
        """Whether both cassettes record the same thing, whatever the time it took."""
        return self.comparable and not self.policy_changes and not any(self.counts.values())

    @property
    def verdict(self) -> str:
        """One line: ``equivalent: …``, ``different: …`` with what and how many, or ``not comparable: …`` with the reasons."""
        if self.issues:
            return f"not comparable: {'; '.join(self.issue_sentences)}"
        if self.equivalent:
            return f"equivalent: {plural(self.actual.calls.num_rows, 'call')}, same outcomes"
        counts = {**self.counts, "policy": len(self.policy_changes)}
        return f"different: {', '.join(_COUNTED[name](count) for name, count in counts.items() if count)}"

    @property
    def issue_sentences(self) -> list[str]:
        """What ``issues`` mean, in words."""
        return [_ISSUES[issue] for issue in self.issues]

    @property
    def counts(self) -> dict[str, int]:
        """How many calls are ``added``, ``removed``, have ``outcomeChanged``, ``boundaryChanged``."""
        return {
            "added": len(self.alignment.added),
            "removed": len(self.alignment.removed),
            "outcomeChanged": len(self._outcome_changed),
            "boundaryChanged": len(self._boundary_changed),
        }

    @cached_property
    def alignment(self) -> Alignment:
        """Which rows of the two tables are the same call."""
        return align(self.expected, self.actual)

    def view(self) -> Any:
        """Both runs side by side (``cl.side_by_side``)."""
        # A room of a lower floor: the views are looked up when somebody wants to look.
        return importlib.import_module("cassette_lab").side_by_side(self)

    def to_dict(self) -> JsonObject:
        """The original's document, whole. For large cassettes ``json_chunks`` does not hold it all."""
        return {name: list(value) if isinstance(value, Iterator) else value for name, value in self._document().items()}

    def json_chunks(self) -> Iterator[str]:
        """The document as indented JSON text in pieces, as ``cassette-lab diff --json`` prints it; no final newline."""
        return pretty_chunks(self._document())

    def timing_table(self) -> pa.Table:
        """One row per call that both cassettes have, in the order of the report; milliseconds, deltas actual - expected.

        Columns: ``call_key``, ``parent_key``, ``label``, ``stop_reason`` and ``outcome_kind`` (of the actual call),
        ``occurrence``, ``outcome_changed``, then ``expected_``, ``actual_`` and delta of start latency and duration.
        """
        expected = self.expected.calls.select(["start_latency_ms", "duration_ms"]).take(pa.array(self.alignment.expected))
        columns = ["call_key", "parent_key", "label", "stop_reason", "outcome_kind", "occurrence", *expected.column_names]
        actual = self.actual.calls.select(columns).take(pa.array(self.alignment.actual))
        changed = np.zeros(len(self.alignment.actual), bool)
        changed[self._outcome_changed] = True
        table = actual.select(columns[:6]).append_column("outcome_changed", pa.array(changed))
        for name in expected.column_names:
            stem = name.removesuffix("_ms")
            table = table.append_column(f"expected_{name}", expected[name])
            table = table.append_column(f"actual_{name}", actual[name])
            table = table.append_column(f"{stem}_delta_ms", pc.subtract(actual[name], expected[name]))
        return table

    def human(self) -> list[str]:
        """Lines for a person: the verdict, what changed with the first calls concerned, the timing; all escaped."""
        lines = [self.verdict]
        lines += [f"issue: {sentence}" for sentence in self.issue_sentences]
        lines += [f"policy: {name} differs" for name in self.policy_changes]
        lines += _first_calls("added", self.actual, self.alignment.added)
        lines += _first_calls("removed", self.expected, self.alignment.removed)
        lines += self._changes("outcome changed", self._outcome_changed, _outcome)
        lines += self._changes("boundary changed", self._boundary_changed, _boundary)
        return [*lines, *self._timing_lines()]

    def __repr__(self) -> str:
        return f"<CassetteDiff: {self.verdict}>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(chr(10).join(self.human()))}</pre>"

    @cached_property
    def _outcome_changed(self) -> Rows:
        """Places in the alignment where the outcomes differ."""
        return self._differing("outcome_fingerprint")

    @cached_property
    def _boundary_changed(self) -> Rows:
        return np.union1d(self._differing("published"), self._differing("local"))

    def _differing(self, name: str) -> Rows:
        """Places in the alignment where a column differs."""
        expected = self.expected.calls[name].combine_chunks().take(pa.array(self.alignment.expected))
        actual = self.actual.calls[name].combine_chunks().take(pa.array(self.alignment.actual))
        return np.flatnonzero(pc.not_equal(expected, actual).to_numpy(zero_copy_only=False))

    def _document(self) -> JsonObject:
        """The report with its lists still to be produced."""
        return {
            "schemaVersion": SCHEMA_VERSION,
            "comparable": self.comparable,
            "equivalent": self.equivalent,
            "expectedInteractions": self.expected.calls.num_rows,
            "actualInteractions": self.actual.calls.num_rows,
            "policyChanges": self.policy_changes,
            "issues": self.issues,
            "expectedAmbiguousGroups": self.expected_ambiguous_groups,
            "actualAmbiguousGroups": self.actual_ambiguous_groups,
            "added": _calls(self.actual, self.alignment.added),
            "removed": _calls(self.expected, self.alignment.removed),
            "outcomeChanged": self._pairs(self._outcome_changed),
            "boundaryChanged": self._boundaries(),
            "timing": self._timings(),
        }

    def _pairs(self, places: Rows) -> Iterator[JsonObject]:
        expected = _calls(self.expected, self.alignment.expected[places])
        actual = _calls(self.actual, self.alignment.actual[places])
        for before, after in zip(expected, actual, strict=True):
            yield {"expected": before, "actual": after}

    def _boundaries(self) -> Iterator[JsonObject]:
        for pair in self._pairs(self._boundary_changed):
            fields = [name for name in ("published", "local") if pair["expected"][name] != pair["actual"][name]]
            yield {**pair, "fields": fields}

    def _timings(self) -> Iterator[JsonObject]:
        expected = exact_rows(self.expected, (*_CALL_COLUMNS[:4], *_TIMED_COLUMNS), self.alignment.expected)
        actual = exact_rows(self.actual, _TIMED_COLUMNS, self.alignment.actual)
        for (parent_key, context, request, occurrence, old_key, old_latency, old_duration), (
            new_key,
            new_latency,
            new_duration,
        ) in zip(expected, actual, strict=True):
            yield {
                "parentKey": parent_key,
                "parentContextFingerprint": context,
                "requestFingerprint": request,
                "occurrence": occurrence,
                "expectedCallKey": old_key,
                "actualCallKey": new_key,
                "expectedStartLatencyMs": json_number(old_latency),
                "actualStartLatencyMs": json_number(new_latency),
                "startLatencyDeltaMs": json_number(new_latency - old_latency),
                "expectedDurationMs": json_number(old_duration),
                "actualDurationMs": json_number(new_duration),
                "deltaMs": json_number(new_duration - old_duration),
            }

    def _changes(self, what: str, places: Rows, tell: Callable[[JsonObject], str]) -> list[str]:
        """The first calls that changed, by sequence: what ``tell`` says of them before and after."""
        first = places[_by_sequence(self.actual, self.alignment.actual[places])[:_SHOWN_CHANGES]]
        lines = []
        for pair in self._pairs(first):
            before, after = tell(pair["expected"]), tell(pair["actual"])
            change = f"{before} → {after}" if before != after else f"{after}, other contents"
            lines.append(f"{what}: {show(pair['actual']['callKey'])}: {change}")
        return _with_rest(lines, what, len(places))

    def _timing_lines(self) -> list[str]:
        places = len(self.alignment.actual)
        if not places:
            return []
        table = self.timing_table()
        deltas = table["duration_delta_ms"].to_numpy()
        most = int(np.argmax(np.abs(deltas)))
        slower, quicker = int((deltas > 0).sum()), int((deltas < 0).sum())
        both = f"{plural(places, 'call')} in both, {slower:,} slower, {quicker:,} quicker"
        lines = [f"timing: {both}, median {delta_text(float(np.median(deltas)))}"]
        if deltas[most]:
            key = show(
                self.actual.raw_texts.get("call_key", {}).get(int(self.alignment.actual[most]), table["call_key"][most].as_py())
            )
            lines.append(f"timing: largest {delta_text(float(deltas[most]))}, {key}")
        return lines


def _calls(side: Projection, rows: Rows) -> Iterator[JsonObject]:
    """Calls of one side as the report shows them."""
    for (
        parent_key, context, request, occurrence, call_key, outcome_kind, stop_reason, outcome, published, local, duration_ms
    ) in exact_rows(side, _CALL_COLUMNS, rows):  # fmt: skip
        call: JsonObject = {
            "parentKey": parent_key,
            "parentContextFingerprint": context,
            "requestFingerprint": request,
            "occurrence": occurrence,
            "callKey": call_key,
            "outcomeKind": outcome_kind,
        }
        if stop_reason is not None:
            call["stopReason"] = stop_reason
        call["outcomeFingerprint"] = outcome
        call["published"] = published
        call["local"] = local
        call["durationMs"] = json_number(duration_ms)
        yield call


def _first_calls(what: str, side: Projection, rows: Rows) -> list[str]:
    """The first of some calls by sequence, and how many more there are."""
    first = rows[_by_sequence(side, rows)[:_SHOWN_CHANGES]]
    lines = [f"{what}: {show(call['callKey'])}: {_outcome(call)}" for call in _calls(side, first)]
    return _with_rest(lines, what, len(rows))


def _with_rest(lines: list[str], what: str, total: int) -> list[str]:
    return [*lines, f"{what}: {total - len(lines):,} more"] if total > len(lines) else lines


def _by_sequence(side: Projection, rows: Rows) -> Rows:
    """The places of ``rows`` in the order of their sequences."""
    order: Rows = np.argsort(side.calls["sequence"].to_numpy()[rows], kind="stable")
    return order


def _outcome(call: JsonObject) -> str:
    outcome: str = call["stopReason"] if "stopReason" in call else call["outcomeKind"]
    return outcome


def _boundary(call: JsonObject) -> str:
    return f"{'published' if call['published'] else 'not published'}, {'local' if call['local'] else 'not local'}"


def _projection(cassette: Comparable) -> Projection:
    if isinstance(cassette, (Projection, Cassette)):
        return as_projection(cassette)
    from cassette_lab.cassette.scan import project

    return project(cassette)
