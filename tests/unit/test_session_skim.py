"""A log that is skimmed tells what the exact way tells, whatever is odd in it; and an ordinary log is skimmed as a whole."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.errors import FormatError
from cassette_lab.session import skimming
from cassette_lab.session.derive import Derivation, derive
from cassette_lab.session.facts import SessionFacts
from cassette_lab.session.opening import session_facts
from cassette_lab.session.reader import SessionReader, read_session
from cassette_lab.session.rows import Rows
from tests.benchmarks.session_logs import log_file
from tests.unit.session_samples import START_MS, header, line

_STEP = {"turn": 1, "step": 1}
_USAGE = {"inputTokens": 3, "outputTokens": 5, "cacheReadTokens": 0, "totalTokens": 8}
_TEXT = {"type": "text", "text": "Hé🙂\n"}
_CALL = {"type": "tool-call", "id": "c", "name": "read", "arguments": "{}"}
_RESULT = {"type": "tool-result", "toolCallId": "c", "isError": False, "content": [_TEXT]}


def _chunk(kind: str, **members: Any) -> dict[str, Any]:
    return {"type": "assistant/chunk", "data": {**_STEP, "chunk": {"type": kind, **members}}}


def _event(kind: str, data: Any, **members: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, **members}


_ROWS: list[dict[str, Any]] = [
    _event("turn/start", {"turn": 1}),
    _event("step/start", _STEP),
    _event("user/message", {"role": "user", "content": [_TEXT], "source": {"kind": "user"}}, surfaceOp="append"),
    _event("user/message", {"source": {"kind": "subagent-settled", "senderSessionId": "s"}}, surfaceOp="append"),
    _event("request/header", {"header": {"config": {"provider": "p", "model": "m", "maxTokens": 5}}, "reason": "initial"}),
    _event("request/context", {"provider": "p", "model": "n", "contextWindow": 1_000}),
    _chunk("block-start", index=0, blockType="text"),
    _chunk("text-delta", index=0, text="Hé"),
    _chunk("text-delta", index=0, text="🙂\n"),
    _chunk("reasoning-delta", index=1, text="why"),
    _chunk("tool-call-delta", index=2, id="c", argumentsDelta="{"),
    _chunk("tool-call-delta", index=2, id="c", name="read", argumentsDelta="}"),
    _chunk("block-end", index=0, block=_TEXT),
    _chunk("usage", usage=_USAGE),
    _chunk("finish", reason={"kind": "stop"}),
    _chunk("finish", reason={"kind": "error", "failure": {"code": "SERVER", "status": 500}}),
    {"type": "text-chunks", "data": {**_STEP, "index": 0, "dt": [5, -7], "texts": ["a", "", "🙂"]}},
    {"type": "tool-call-chunks", "data": {**_STEP, "index": 2, "dt": [0], "id": "c", "args": ["{", "}"]}},
    _event(
        "assistant/message",
        {**_STEP, "message": {"role": "assistant", "content": [_TEXT, _CALL]}, "usage": _USAGE},
        surfaceOp="append",
        sourceEventSeqs=[0, [1, 2]],
    ),
    _event("assistant/message", {**_STEP, "message": {"content": [_TEXT]}, "interrupted": True, "stream": []}),
    _event("tool/call", {**_STEP, "callId": "c", "name": "subagent", "arguments": '{"description":"d"}'}),
    _event("tool/result", {**_STEP, "message": {"role": "user", "content": [_RESULT]}}, surfaceOp="append"),
    _event("tool/result", {**_STEP, "message": {**_RESULT, "role": "tool"}, "error": {"code": "X", "name": "N"}}),
    _event("tool/result", {"callId": "c", "content": [_TEXT], "isError": True}),
    _event("tool/result", {"message": {}, "toolCallId": "c"}, surfaceOp={"op": "replace", "start": 0, "end": 0}),
    _event("llm/retry", {**_STEP, "retryId": "r", "retry": 1, "delayMs": 0.5, "failure": {"code": "SERVER"}}),
    _event("step/end", _STEP),
    _event("turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
    _event("turn/end", {"turn": 1, "reason": {"kind": "error", "error": {"message": "m"}, "code": "OUTER"}}),
    _event("turn/end", {"turn": 1, "reason": "disposed"}),
    _event("session/end-seed", {"inherited": True}),
    _event("plugin-made/this", {"any": 1}),
]

_ODD: Any = st.one_of(
    st.sampled_from([None, True, False, 0, -1, 1.0, 1.5, -0.0, 2**53, 2**64, -(2**64), 1e300, "", "text", "tool", "append"]),
    st.sampled_from(["\ud83d", "\ude42", "user", [], [1], {}, {"kind": "x"}, {"type": "text", "text": 1}, [_TEXT, None]]),
    st.text(max_size=2),
)
_NAMES = [
    "type",
    "seq",
    "time",
    "data",
    "ignorable",
    "surfaceOp",
    "sourceEventSeqs",
    "turn",
    "kind",
    "content",
    "role",
    "toolCallId",
    "text",
    "code",
    "more",
]


def _objects(value: Any) -> list[dict[str, Any]]:
    found = [value] if isinstance(value, dict) else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return found + [each for member in inner for each in _objects(member)]


@st.composite
def _logs(draw: Any) -> bytes:
    """Logs of ordinary rows, some of which have a member changed, added, removed, moved, or bytes that do not belong."""
    version = draw(st.sampled_from([0, 0, 0, 1, 2, 3, 4]))
    members: dict[str, Any] = {"isSeeded": draw(st.booleans())} if version >= 2 else {}
    if version < 2 and draw(st.booleans()):
        members["seedLength"] = draw(st.integers(0, 9))
    lines, seq = [line(header(version, **members))], 0
    for row in draw(st.lists(st.sampled_from(_ROWS), max_size=14)):
        packed = row["type"].endswith("-chunks")
        names = ("seq0", "time0") if packed else ("seq", "time")
        value = {"type": row["type"], names[0]: seq, names[1]: START_MS + 7 * seq, **copy.deepcopy(row)}
        seq += len(row["data"]["dt"]) + 1 if packed else 1
        if draw(st.booleans()):
            target = draw(st.sampled_from(_objects(value)))
            name = draw(st.sampled_from([*target, *_NAMES]))
            match draw(st.integers(0, 3)):
                case 0:
                    target.pop(name, None)
                case 1:  # to the end
                    target[name] = target.pop(name, 1)
                case _:
                    target[name] = draw(_ODD)
        text = line(value) if draw(st.booleans()) else json.dumps(value).encode() + b"\n"
        if not draw(st.integers(0, 9)):
            at = draw(st.integers(0, len(text) - 1))
            odd = draw(
                st.sampled_from([b"", b"0", b'"', b"\xff", b"\xe2", b"\\", b'"type":"turn/end",', b"\n", b" \n{", b"\r"])
            )
            text = text[:at] + odd + text[at + draw(st.integers(0, 1)) :]
        lines.append(text)
    return b"".join(lines)[: draw(st.sampled_from([None, None, None, -1, -9]))]


def _told(data: bytes, read: Callable[[bytes], SessionFacts] = session_facts) -> str:
    try:
        facts = read(data)
    except FormatError as error:
        return repr((error.message, error.line, error.field, error.frame))
    try:
        return repr(facts)
    except RecursionError:  # the finish of a call is kept as it is, and may be deep
        return f"{facts.row_count} rows, {len(facts.model_calls)} calls"


def _told_exactly(data: bytes) -> str:
    """What is told of a log no row of which is read another way than the exact one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rows, "_decoder", lambda _: None)
        return _told(data, lambda data: derive(read_session(data)))


@given(_logs())
@settings(max_examples=500, deadline=None)
def test_a_skimmed_log_tells_what_the_exact_way_tells(data: bytes) -> None:
    assert _told(data) == _told_exactly(data)


def _log(*rows: dict[str, Any], **members: Any) -> bytes:
    """A log of these rows with seqs and times, unless they have their own."""
    lines, seq = [line(header(**members))], 0
    for row in rows:
        is_packed = row["type"].endswith("-chunks")
        names = ("seq0", "time0") if is_packed else ("seq", "time")
        lines.append(line({"type": row["type"], names[0]: seq, names[1]: START_MS + 7 * seq, **row}))
        seq += len(row["data"]["dt"]) + 1 if is_packed else 1
    return b"".join(lines)


_CALLED = _event("tool/call", {**_STEP, "callId": "c", "name": "read", "arguments": "{}"})
_REPLACED = {"op": "replace", "start": 0, "end": 0}
_DELTA, _FINISHED = (
    _chunk("text-delta", index=0, text="a"),
    _chunk("finish", reason={"kind": "error", "failure": {"code": "X"}}),
)


@pytest.mark.parametrize(
    "rows",
    [
        [_CALLED, _event("tool/result", {"message": {}, "callId": "c", "content": [_TEXT]})],
        [_CALLED, _event("tool/result", {"message": {"more": 1}, "callId": "c", "content": [_TEXT]})],
        [_CALLED, _event("tool/result", {"message": {"content": [{**_RESULT, "content": [_TEXT, None]}]}})],
        [_event("turn/end", {"turn": 1, "reason": {"kind": "error", "error": {"code": "X", "status": 500}}})],
        [_event("turn/end", {"turn": 1, "reason": {"kind": "error", "error": {"more": 1}, "code": "X"}})],
        [_event("turn/end", {"turn": 1, "reason": {"kind": "aborted", "reason": {"kind": "user"}}})],
        [_DELTA, _FINISHED, _DELTA, _FINISHED, _DELTA],
        [_DELTA, _chunk("finish", reason={}), _DELTA],
        [_DELTA, _DELTA, {**_DELTA, "seq": 3}, _DELTA],
        [_DELTA, _DELTA, {**_DELTA, "seq": 0}, _DELTA],
        [_DELTA, {**_DELTA, "time": 5.0}, {**_DELTA, "time": 0}, {**_DELTA, "time": 2**53}, _DELTA],
        [_ROWS[2], _event("user/message", {}, surfaceOp=_REPLACED, sourceEventSeqs=[0])],
        [_ROWS[2], _event("user/message", {}, surfaceOp=_REPLACED, sourceEventSeqs=[])],
        [_ROWS[2], _event("user/message", {}, surfaceOp="other", sourceEventSeqs=[7])],
        [_ROWS[0], _event("step/start", _STEP, sourceEventSeqs=1)],
        [_DELTA, {**_ROWS[16], "data": {**_STEP, "index": 0, "dt": [5], "texts": ["a"]}}],
        [_DELTA, {**_ROWS[16], "time0": 2**53 - 1}],
        [_DELTA, {**_ROWS[16], "seq0": -1}],
        [_chunk("usage", usage={"inputTokens": -1, "outputTokens": 2.0}), _chunk("usage", usage=None), _FINISHED],
    ],
)
def test_odd_rows_of_a_skimmed_log_tell_what_the_exact_way_tells(rows: list[dict[str, Any]]) -> None:
    assert _told(_log(*rows)) == _told_exactly(_log(*rows))


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row["type"])
@pytest.mark.parametrize(
    "odd",
    [b'"\xff"', b'"\\ud83d"', b"[" * 2_000 + b"]" * 2_000, b"1e999", b"-0", b'{"type":1}'],
    ids=["bytes", "surrogate", "deep", "large", "zero", "object"],
)
def test_what_is_passed_over_may_be_anything_that_is_json(row: dict[str, Any], odd: bytes) -> None:
    names = ("seq0", "time0") if row["type"].endswith("-chunks") else ("seq", "time")
    value = {"type": row["type"], names[0]: 0, names[1]: START_MS, **row}
    for target in range(len(_objects(value))):
        changed = copy.deepcopy(value)
        _objects(changed)[target]["more"] = "@"
        data = line(header()) + line(changed).replace(b'"@"', odd)
        assert _told(data) == _told_exactly(data)


def _watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The types of the rows that take the exact way from now on."""
    exact: list[str] = []
    add = Rows.add

    def watch(self: Rows, value: Any) -> None:
        exact.append(value["type"])
        add(self, value)

    monkeypatch.setattr(Rows, "add", watch)
    return exact


def test_rows_of_an_ordinary_log_all_take_the_quick_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = log_file(tmp_path, 1, "jsonl")
    exact = _watched(monkeypatch)
    facts = session_facts(path)
    assert facts.row_count > 300
    assert exact == []
    assert sum(call.deltas for call in facts.model_calls) > 500


def test_only_messages_with_streams_take_the_exact_way_in_later_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [_ROWS[number] for number in (0, 1, 2, 4, 5, 19, 20, 22, 26, 27)]
    lines = [line({**row, "seq": seq, "time": START_MS}) for seq, row in enumerate(rows)]
    exact = _watched(monkeypatch)
    assert session_facts(line(header(4)) + b"".join(lines)).row_count == len(rows)
    assert exact == ["assistant/message"]


def test_a_fork_that_begins_within_single_deltas_counts_only_its_own() -> None:
    deltas = [{"seq": seq, "time": START_MS + seq, **_ROWS[7]} for seq in range(6)]
    for inherited in range(7):
        data = line(header(seedLength=inherited)) + b"".join(map(line, deltas))
        own = [call for call in session_facts(data).model_calls if not call.inherited]
        assert sum(call.deltas for call in own) == 6 - inherited


_CALL_CHUNKS: list[dict[str, Any]] = [
    _ROWS[6],
    _ROWS[7],
    _chunk("text-delta", index=0, text="\ud83d"),
    _chunk("text-delta", index=1, text="\ude42"),
    _ROWS[8],
    _ROWS[12],
    _ROWS[13],
    _ROWS[9],
    _ROWS[16],
    _ROWS[10],
    _ROWS[17],
    _chunk("usage", usage={**_USAGE, "outputTokens": 6}),
    _ROWS[14],
]


@pytest.mark.parametrize("inherited", range(17))
def test_a_fork_may_begin_anywhere_within_the_chunks_of_a_call(inherited: int) -> None:
    data = _log(_ROWS[0], *_CALL_CHUNKS, seedLength=inherited)
    assert _told(data) == _told_exactly(data)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([*_CALL_CHUNKS, *_CALL_CHUNKS, _ROWS[18], _ROWS[15]]),
            st.sampled_from([1, 1, 1, 2]),
            st.sampled_from([START_MS, START_MS, START_MS + 9, 0, 3, -4, 2**53 - 1]),
        ),
        max_size=20,
    ),
    st.integers(0, 24),
)
@settings(max_examples=300, deadline=None)
def test_chunks_in_any_order_and_with_any_times_tell_what_the_exact_way_tells(
    rows: list[tuple[dict[str, Any], int, int]], inherited: int
) -> None:
    chunks = [
        {**row, "data": {**row["data"], "step": step}, "time0" if row["type"].endswith("-chunks") else "time": time}
        for row, step, time in rows
    ]
    data = _log(*chunks, seedLength=inherited)
    assert _told(data) == _told_exactly(data)


@pytest.mark.parametrize("most", [1, 3, 10])
def test_a_call_of_more_chunks_than_a_stretch_holds_is_one_call(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    data = _log(*_CALL_CHUNKS[:-1] * 5, _CALL_CHUNKS[-1], seedLength=20)
    exactly = _told_exactly(data)
    monkeypatch.setattr(skimming, "_MOST_CHUNKS", most)
    assert _told(data) == exactly


def test_the_texts_of_a_skimmed_log_are_not_kept(tmp_path: Path) -> None:
    path = log_file(tmp_path, 1, "zstd")
    with SessionReader(path, skim=True) as reader:
        derivation = Derivation(reader.header)
        for batch in reader.batches():
            derivation.add_all(batch)
        facts = derivation.facts(reader.log([]))
    assert {call.text for call in facts.model_calls} == {None}
    with_bodies = session_facts(path, bodies=True)
    assert [call.text_chars for call in facts.model_calls] == [len(call.text or "") for call in with_bodies.model_calls]
    assert orjson.dumps(facts.final_text) == orjson.dumps(with_bodies.final_text)
