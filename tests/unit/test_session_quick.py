"""The quick way of reading deltas and packed rows says what the exact way says, for whatever line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cassette_lab.session.chunks import RowError
from cassette_lab.session.quick import decode_delta, packed_run
from cassette_lab.session.rows import Rows, read_json
from tests.unit.session_samples import delta, line, packed

integers: Any = st.one_of(
    st.integers(0, 3), st.sampled_from([-1, 0.0, 1.0, 1.5, 2**53 - 1, 2**53, 2**63, 2**64, None, "1", True])
)
texts = st.one_of(st.text(max_size=3), st.sampled_from(["\ud83d", "\u0000", "type", None, 1]))


@st.composite
def lines(draw: Any) -> bytes:
    """Rows of deltas and packed rows, mostly sound, with members wrong, missing, added, doubled or in another order."""
    if draw(st.booleans()):
        value = delta(0, draw(texts), draw(st.sampled_from(["text-delta", "reasoning-delta", "tool-call-delta", "finish"])))
        inner = value["data"]["chunk"]
        if draw(st.booleans()):
            inner.update(id=draw(texts), argumentsDelta=inner.pop("text"))
            inner.update({"name": draw(texts)} if draw(st.booleans()) else {})
    else:
        value = packed(0, *(draw(st.lists(st.text(max_size=2), max_size=3))))
        value["type"] = draw(st.sampled_from(["text-chunks", "reasoning-chunks", "tool-call-chunks"]))
        inner = value["data"]
        if draw(st.booleans()):
            inner.update(id=draw(texts), args=inner.pop("texts"))
            inner.update({"name": draw(texts)} if draw(st.booleans()) else {})
    for members in (value, value["data"], inner):
        name = draw(st.sampled_from([*members, *[""] * 6]))
        if name and draw(st.booleans()):
            members[name] = draw(st.one_of(integers, texts, st.lists(integers, max_size=3)))
        elif name:
            members.pop(name)
        if not draw(st.integers(0, 9)):
            members["more"] = 1
    data = line(value) if draw(st.booleans()) else json.dumps(value).encode() + b"\n"
    if not draw(st.integers(0, 5)):
        at = draw(st.integers(0, len(data) - 1))
        data = (
            data[:at] + draw(st.sampled_from([b"", b"0", b'"', b"\xff", b'"type":"x",', b'"seq":0,', b"\r"])) + data[at + 1 :]
        )
    return data.rstrip(b"\n")


def both(data: bytes) -> tuple[Any, Any]:
    results: list[Any] = []
    for quick in (True, False):
        rows = Rows(0)
        try:
            rows.add_lines([data]) if quick else rows.add(read_json(data))
        except RowError:
            results.append("refused")
            continue
        rows.close()
        results.append((rows.take(), rows.position, rows.stored, rows.missing_seqs, rows.missing_times, rows.has_times))
    return results[0], results[1]


@given(lines())
@settings(max_examples=400)
@example(line(delta(0, "a"))[:-1])
@example(
    b'{"type":"assistant/chunk","seq":0,"seq":1,"time":1,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":""}}}'
)
@example(
    b'{"type":"assistant/chunk","seq":0,"time":1,"data":{"turn":1,"step":1,"chunk":{"type":"x","index":0,"text":"","type":"text-delta"}}}'
)
@example(
    b'{"type":"assistant/chunk","seq":-0,"time":-0,"data":{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":""}}}'
)
@example(
    b'{"type":"text-chunks","seq0":0,"time0":9007199254740990,"data":{"turn":1,"step":1,"index":0,"dt":[1,-5],"texts":["","",""]}}'
)
def test_the_quick_way_never_differs_from_the_exact_way(data: bytes) -> None:
    quick, exact = both(data)
    assert quick == exact
    if quick != "refused":
        assert [repr(row) for row in quick[0]] == [repr(row) for row in exact[0]]  # 1 and 1.0 are equal, too


def test_an_ordinary_line_does_take_the_quick_way() -> None:
    assert decode_delta(line(delta(3, "é\n"))).data.chunk.text == "é\n"
    run = packed_run(line(packed(3, "a", "b")))
    assert run is not None
    assert (run.seq0, list(run.texts)) == (3, ["a", "b"])
    assert packed_run(line(delta(3, "a"))) is None


@pytest.mark.parametrize("name", ["bash", None])
def test_tool_call_deltas_with_and_without_a_name_are_different_runs(name: str | None) -> None:
    members: dict[str, Any] = {"id": "c", "argumentsDelta": "x"} | ({} if name is None else {"name": name})
    rows = Rows(0)
    for seq in range(2):
        value = delta(seq, "", "tool-call-delta", **members)
        del value["data"]["chunk"]["text"]
        rows.add_lines([line(value)])
    rows.close()
    (run,) = rows.take()
    assert not isinstance(run, tuple)
    assert (run.name, run.members) == (name, 2)


_SAME: dict[str, Any] = {"turn": 1, "step": 1, "kind": "text-delta", "index": 0, "seq": 0, "id": "c", "name": "read"}


@pytest.mark.parametrize(
    "other",
    [{"turn": 2}, {"step": 2}, {"kind": "reasoning-delta"}, {"index": 1}, {"id": "d"}, {"name": None}, {"seq": 1}, {"seq": -1}],
    ids=str,
)
@pytest.mark.parametrize("kind", ["text-delta", "tool-call-delta"])
def test_a_run_ends_where_its_members_differ(kind: str, other: dict[str, Any]) -> None:
    texts = []
    for number in range(5):
        said = {**_SAME, "kind": kind, **(other if number == 2 else {})}
        members = {"id": said["id"], "name": said["name"]} if said["kind"] == "tool-call-delta" else {}
        value = delta(number + said["seq"], "x", said["kind"], **{name: each for name, each in members.items() if each})
        value["data"].update(turn=said["turn"], step=said["step"])
        chunk = value["data"]["chunk"]
        chunk["index"] = said["index"]
        if members:
            chunk["argumentsDelta"] = chunk.pop("text")
        texts.append(line(value)[:-1])
    results = []
    for quick in (True, False):
        rows = Rows(0)
        error = None
        try:
            if quick:
                rows.add_lines(texts)
            else:
                for text in texts:
                    rows.add(read_json(text))
        except RowError as refused:
            error = str(refused)
        rows.close()
        results.append((repr(rows.take()), rows.position, rows.stored, rows.has_times, error))
    assert results[0] == results[1]
    assert not ({"seq"} & other.keys()) or results[0][-1] is not None
