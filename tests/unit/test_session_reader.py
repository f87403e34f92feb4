"""A log in any form: what is kept, what is left out and told, and what is refused."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.errors import CassetteLabError, FormatError
from cassette_lab.session.frames import compress_frame
from cassette_lab.session.model import ChunkRun, Event
from cassette_lab.session.reader import SessionReader, read_header, read_session
from tests.unit.session_samples import TURN_EVENTS, delta, event, frames, header, line, packed, text, turn, write


def problem_codes(data: bytes) -> list[str]:
    return [problem.code for problem in read_session(data).problems]


def test_header_rows_and_events_of_a_raw_log(tmp_path: Path) -> None:
    path = write(tmp_path / "session.jsonl", text(header(cwd="/w", origin="subagent", parentSession="p"), *turn()))
    log = read_session(path)
    assert (log.header.id, log.header.cwd, log.header.parent_session, log.header.origin) == ("sample", "/w", "p", "subagent")
    assert (log.row_count, log.event_count, log.boundary, log.torn_bytes) == (7, TURN_EVENTS, 0, 0)
    assert [each.seq for each in log.events()] == list(range(TURN_EVENTS))
    assert log.problems == []
    assert log.physical.size_bytes == log.physical.text_bytes == path.stat().st_size
    assert read_header(path) == log.header


def test_every_frame_is_read_and_the_form_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    parts = frames([[header()], turn()[:3], turn()[3:]])
    log = read_session(write(tmp_path / "session.jsonl", b"".join(parts)))
    assert list(log.events()) == list(read_session(text(header(), *turn())).events())
    assert (log.physical.encoding, log.physical.frames, log.physical.torn_frame_bytes) == ("zstd", 3, 0)


def test_single_deltas_are_folded_into_runs_and_come_back_as_they_were() -> None:
    rows = [delta(0, "a"), delta(1, "b"), delta(2, "c", "reasoning-delta"), event(3, "turn/end"), delta(4, "d")]
    log = read_session(text(header(), *rows))
    assert [type(row) for row in log.rows] == [ChunkRun, ChunkRun, Event, ChunkRun]
    assert [each.to_json() for each in log.events()] == rows
    assert log.row_count == log.event_count == 5
    assert [row.stored_rows for row in log.rows if isinstance(row, ChunkRun)] == [2, 1, 1]


def test_duplicate_members_count_last_and_lone_surrogates_broken_utf8_and_depth_are_read() -> None:
    deep = b'{"type":"todo/write","seq":2,"time":3,"data":{"x":' + b"[" * 3000 + b"]" * 3000 + b"}}\n"
    data = text(header()) + b'{"type":"x","type":"turn/start","seq":9,"seq":0,"time":1,"data":{"t":"\\ud83d"}}\n'
    data += b'{"type":"turn/start","seq":1,"time":1,"data":{"t":"\xff"}}\r\n\n \t\n' + deep
    events = list(read_session(data).events())
    assert [each.data.get("t") for each in events] == ["\ud83d", "\ufffd", None]
    assert [each.seq for each in events] == [0, 1, 2]


def test_missing_seqs_and_times_are_put_in_by_position_and_zero() -> None:
    rows = [{"type": "turn/start", "data": {"turn": 1}}, packed(1, "a", "b"), {"type": "turn/end", "seq": 3, "data": {}}]
    del rows[1]["seq0"], rows[1]["time0"]
    log = read_session(text({"type": "session", "id": "fixture"}, *rows))
    assert [(each.seq, each.time) for each in log.events()] == [(0, 0), (1, 0), (2, 2), (3, 0)]
    assert (log.missing_seqs, log.missing_times, log.has_times) == (2, 3, False)
    assert (log.header.version, log.header.created_at, log.header.delegation_depth) == (0, None, None)


def test_tolerant_numbers_and_what_is_none() -> None:
    log = read_session(text(header(createdAt=5.0), event(0.0, "turn/start", time=1e1), event(1, "step/start", time=0.5)))  # type: ignore[arg-type]
    assert [(each.seq, each.time) for each in log.events()] == [(0, 10), (1, 0.5)]
    assert log.header.created_at == 5
    for seq in ("1", 0.5, True, -1, [1]):
        assert problem_codes(text(header(), {**event(0, "turn/start"), "seq": seq})) == ["BROKEN_TAIL"]


# Torn ends


@given(st.integers(0, 10_000))
@settings(max_examples=60)
def test_a_raw_log_cut_anywhere_keeps_its_whole_lines(cut: int) -> None:
    data = text(header(), *turn(), *turn(TURN_EVENTS))
    first = data.index(b"\n") + 1
    cut = first + cut % (len(data) - first)
    log = read_session(data[:cut])
    kept = data[: data.rindex(b"\n", 0, cut) + 1]
    assert log.row_count == kept.count(b"\n") - 1
    assert log.torn_bytes == log.physical.torn_line_bytes == cut - len(kept)
    assert [problem.code for problem in log.problems] == (["TORN_TAIL"] if cut > len(kept) else [])


@given(st.integers(0, 10_000))
@settings(max_examples=60)
def test_a_zstd_log_cut_anywhere_keeps_its_whole_frames_and_never_more_than_was_there(cut: int) -> None:
    parts = frames([[header()], turn(), turn(TURN_EVENTS), turn(2 * TURN_EVENTS)])
    data = b"".join(parts)
    cut = len(parts[0]) + cut % (len(data) - len(parts[0]))
    log = read_session(data[:cut])
    whole = sum(1 for count in range(1, len(parts) + 1) if len(b"".join(parts[:count])) <= cut)
    assert log.physical.frames == whole
    assert log.torn_bytes == log.physical.torn_frame_bytes == cut - len(b"".join(parts[:whole]))
    assert log.event_count >= (whole - 1) * TURN_EVENTS
    assert list(log.events()) == list(read_session(data).events())[: log.event_count]


@pytest.mark.parametrize("missing", [1, 2, 4])
def test_a_checksum_cut_off_loses_nothing(missing: int) -> None:
    data = b"".join(frames([[header()], turn()]))
    log = read_session(data[:-missing])
    assert log.event_count == TURN_EVENTS
    assert [(problem.code, problem.frame) for problem in log.problems] == [("TORN_TAIL", 2)]


def test_a_large_torn_frame_yields_the_blocks_that_are_whole() -> None:
    rows = [event(seq, "todo/write", {"text": str(seq * 7919) * 40}) for seq in range(4_000)]
    data = b"".join(frames([[header()], rows]))
    log = read_session(data[: len(data) - len(data) // 4])
    assert 500 < log.event_count < 4_000
    assert log.problems[0].code == "TORN_TAIL"


def test_blank_lines_behind_the_last_row_are_nothing_torn() -> None:
    raw, packed_log = text(header(), *turn()), b"".join(frames([[header()], turn()]))
    for data in (raw + b"\n \r\n", packed_log + compress_frame(b"\n\n"), compress_frame(raw + b"\n")):
        log = read_session(data)
        assert (log.torn_bytes, log.problems, log.event_count) == (0, [], TURN_EVENTS)
    torn = read_session(raw + b"\n{")
    assert (torn.torn_bytes, [problem.code for problem in torn.problems]) == (2, ["TORN_TAIL"])


# Broken rows and gaps


BROKEN = [
    b'{"type":"todo/write","seq":8,\n',
    b"\x00\x00\x00\n",
    b"null\n",
    line(event(9, "todo/write")),
    line(event(3, "todo/write")),
    line({**event(8, "todo/write"), "data": [1]}),
    line({**event(8, "todo/write"), "type": 5}),
    line(packed(8, "a", "b", dt=[1, 2])),
    line(packed(9, "a", "b")),
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_row_or_gap_at_the_end_is_left_out_and_told(broken: bytes) -> None:
    start = text(header(), *turn())
    log = read_session(start + broken + line(event(9, "step/start")))
    assert (log.event_count, log.row_count) == (TURN_EVENTS, 7)
    assert [(problem.code, problem.line) for problem in log.problems] == [("BROKEN_TAIL", 9)]
    assert log.torn_bytes == len(broken) + len(line(event(9, "step/start")))


@pytest.mark.parametrize("broken", BROKEN)
def test_the_same_before_the_end_of_a_turn_is_damage_with_file_and_line(broken: bytes, tmp_path: Path) -> None:
    path = write(tmp_path / "session.jsonl", text(header(), *turn()) + broken + text(event(40, "x"), event(41, "turn/end")))
    with pytest.raises(FormatError, match="damaged") as caught:
        read_session(path)
    assert (caught.value.line, caught.value.path, caught.value.frame) == (9, str(path), None)


def test_damage_in_a_zstd_log_names_line_and_frame() -> None:
    rows = [event(0, "turn/start"), event(2, "step/start"), event(3, "turn/end")]
    with pytest.raises(FormatError, match=r"frame 2: seq 1 is missing: the row has seq 2") as caught:
        read_session(b"".join(frames([[header()], rows[:2], rows[2:]])), path="a.zstd")
    assert (caught.value.line, caught.value.frame, caught.value.field) == (3, 2, "seq")


@pytest.mark.parametrize("kind", ["step/start", "turn/end"])
def test_two_writers_that_appended_the_same_seqs_are_damage_where_a_turn_ended(kind: str) -> None:
    data = text(header(), *turn(), event(TURN_EVENTS - 1, kind))
    if kind == "turn/end":
        with pytest.raises(FormatError, match="two writers") as caught:
            read_session(data)
        assert caught.value.line == 9
    else:
        assert problem_codes(data) == ["BROKEN_TAIL"]


def flipped_end(frame: bytes) -> bytes:
    return frame[:-1] + bytes([frame[-1] ^ 0x40])


def test_a_frame_with_a_wrong_checksum_is_damage_where_a_turn_ended_behind_it_else_an_end() -> None:
    head, first, second = frames([[header()], [event(0, "turn/start")], [event(1, "turn/end")]])
    with pytest.raises(FormatError, match=r"frame 2: .*checksum") as caught:
        read_session(head + flipped_end(first) + second)
    assert caught.value.frame == 2
    log = read_session(head + first + flipped_end(second))
    assert log.event_count == 1
    assert [(problem.code, problem.frame) for problem in log.problems] == [("TORN_TAIL", 3)]


def test_a_frame_cut_in_the_middle_of_a_file_is_damage() -> None:
    head, first, second = frames([[header()], turn(), [event(TURN_EVENTS, "turn/end")]])
    with pytest.raises(FormatError, match="frame 2"):
        read_session(head + first[:-9] + second)


def test_a_skippable_frame_is_passed_by() -> None:
    skippable = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    head, body = frames([[header()], turn()])
    assert read_session(skippable + head + skippable + body).event_count == TURN_EVENTS


# No log at all


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (line(header())[:-1], "first line"),
        (b"\n\n \n", "first line"),
        (b"hello\n", "not JSON"),
        (text(event(0, "turn/start")), "no session header"),
        (b"".join(frames([turn()])), "no session header"),
        (frames([[header()]])[0][:-12], "first line"),
        (b"\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "zstd|first line"),
    ],
)
def test_without_a_whole_header_nothing_is_kept(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_session(data, path="x")


@pytest.mark.parametrize(
    ("members", "field"),
    [
        (header(5), "version"),
        (header(-1), "version"),
        ({**header(), "version": 0.5}, "version"),
        (header(0, id=7), "id"),
        (header(0, id=""), "id"),
        (header(0, createdAt="5"), "createdAt"),
        (header(0, seedLength=-2), "seedLength"),
        (header(0, seedLength=1.5), "seedLength"),
        (header(0, cwd=3), "cwd"),
        (header(0, sandboxMode="x"), "sandboxMode"),
        (header(4, approvalPolicy="x"), "approvalPolicy"),
        (header(2, seedLength=3), "seedLength"),
        (header(3, isSeeded=None), "isSeeded"),
        (header(4, more=1), "more"),
        ({name: value for name, value in header(4).items() if name != "delegationDepth"}, "delegationDepth"),
    ],
)
def test_a_header_that_breaks_its_format_is_refused_by_member(members: dict[str, Any], field: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_session(text(members), path="x")
    assert (caught.value.field, caught.value.line) == (field, 1)


def test_missing_files_folders_and_pipes_are_one_sentence(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path, Path("/dev/null"), tmp_path / ("x" * 300)):
        with pytest.raises(FormatError):
            read_session(path)


# Unknown types, versions


def test_unknown_types_are_kept_and_told_unless_they_are_ignorable() -> None:
    rows = [event(0, "plugin/one"), event(1, "plugin/one"), event(2, "plugin/two", ignorable=True), event(3, "approval/asked")]
    log = read_session(text(header(), *rows))
    assert log.event_count == 4
    assert log.unknown_types == {"plugin/one": 2}
    assert [problem.code for problem in log.problems] == ["UNKNOWN_TYPE"]
    assert next(log.events(2)).ignorable


def test_a_type_is_known_by_its_format() -> None:
    assert problem_codes(text(header(2), event(0, "system/message"))) == ["UNKNOWN_TYPE"]
    assert problem_codes(text(header(3), event(0, "system/message"))) == []
    assert problem_codes(text(header(2), delta(0, "a"))) == ["UNKNOWN_TYPE"]


def test_from_format_2_on_packed_rows_stand_in_streams_which_are_checked() -> None:
    assert problem_codes(text(header(2), packed(0, "a"))) == ["BROKEN_TAIL"]
    stream = [{"type": "text-chunks", "time0": 1, "index": 0, "dt": [], "texts": ["a"]}]
    good, bad = ({"turn": 1, "step": 1, "stream": each} for each in (stream, [{"type": "text-chunks"}]))
    log = read_session(text(header(2), event(0, "assistant/attempt", good), event(1, "assistant/message", bad)))
    assert (log.event_count, [problem.code for problem in log.problems]) == (1, ["BROKEN_TAIL"])


def test_a_name_that_says_another_format_is_told(tmp_path: Path) -> None:
    log = read_session(write(tmp_path / "session.v3.jsonl", text(header(4))))
    assert [problem.code for problem in log.problems] == ["OTHER_FORMAT"]
    assert log.header.version == 4


# The boundary of a fork


@pytest.mark.parametrize(("length", "boundary"), [(None, 0), (0, 0), (4, 4), (TURN_EVENTS, TURN_EVENTS)])
def test_seed_length_counts_events_and_may_cut_a_packed_row(length: int | None, boundary: int) -> None:
    members = {} if length is None else {"seedLength": length}
    log = read_session(text(header(**members), *turn()))
    assert log.boundary == boundary
    assert [each.seq for each in log.own_events()] == list(range(boundary, TURN_EVENTS))
    first = next(log.own_rows(), None)
    if length == 4:
        assert isinstance(first, ChunkRun)
        assert (first.seq0, list(first.texts)) == (4, ["lo"])


def test_a_seed_longer_than_what_is_there_is_told() -> None:
    log = read_session(text(header(seedLength=99), *turn()))
    assert (log.boundary, [problem.code for problem in log.problems]) == (TURN_EVENTS, ["OPEN_PREFIX"])


def marked(seeded: bool, *kinds: Any) -> Any:
    rows = [
        event(seq, "session/end-seed" if isinstance(kind, dict) else kind, kind if isinstance(kind, dict) else None)
        for seq, kind in enumerate(kinds)
    ]
    return read_session(text(header(4, isSeeded=seeded), *rows))


def test_the_last_inherited_marker_is_the_boundary_and_is_the_childs_own() -> None:
    inherited = {"inherited": True}
    log = marked(True, "turn/start", inherited, "turn/start", inherited, "turn/start", {}, "turn/start")
    assert (log.boundary, next(log.own_events()).type) == (3, "session/end-seed")
    assert marked(False, "turn/start", inherited).boundary == 0
    assert marked(True, "turn/start", {"inherited": 1}).boundary == 2
    assert marked(True, "turn/start").problems[0].code == "OPEN_PREFIX"


# Large and hostile


def test_a_long_log_stays_packed(tmp_path: Path) -> None:
    rows = [event(0, "turn/start"), *(delta(seq, "x") for seq in range(1, 15_000)), event(15_000, "turn/end")]
    log = read_session(write(tmp_path / "session.jsonl", text(header(), *rows)))
    assert (log.row_count, log.event_count, len(log.rows)) == (15_001, 15_001, 3)
    assert sum(1 for _ in log.events()) == 15_001


def test_rows_can_be_read_in_batches(tmp_path: Path) -> None:
    rows = [event(seq, "todo/write", {"items": "x" * 1_000}) for seq in range(3_000)]
    with SessionReader(write(tmp_path / "session.jsonl", text(header(), *rows))) as reader:
        batches = list(reader.batches())
    assert max(map(len, batches)) < 2_100  # a megabyte or two
    assert [row.seq for batch in batches for row in batch if isinstance(row, Event)] == list(range(3_000))


def test_a_file_that_expands_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cassette_lab.session.lines._SMALLEST_BOMB_BYTES", 1 << 20)
    bomb = b"".join(frames([[header()]])) + frames([[" " * 30_000_000]])[0]
    with pytest.raises(FormatError, match="expands"):
        read_session(bomb, path="x")


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("cassette_lab.session.lines.LINE_LIMIT_BYTES", 1 << 21)
    with pytest.raises(FormatError, match="longer than") as caught:
        read_session(write(tmp_path / "session.jsonl", text(header()) + b"x" * (1 << 22)))
    assert caught.value.line == 2


def test_a_file_full_of_blank_lines_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cassette_lab.session.lines._MOST_BLANK_LINES", 100)
    assert read_session(text(header()) + b" \n" * 100 + text(*turn())).event_count == TURN_EVENTS
    with pytest.raises(FormatError, match="blank lines"):
        read_session(text(header()) + b" \n" * 101, path="x")


@given(st.binary(max_size=200), st.booleans())
@settings(max_examples=150)
def test_random_bytes_give_a_log_or_our_error(data: bytes, behind_header: bool) -> None:
    for start in (text(header()), frames([[header()]])[0]) if behind_header else (b"",):
        with contextlib.suppress(CassetteLabError):
            assert read_session(start + data, path="x").header.version in range(5)
