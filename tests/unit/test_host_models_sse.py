from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cassette_lab.host.models.sse import EventParser, EventTooLargeError, ServerEvent


def events(*pieces: bytes, max_event_bytes: int = 1 << 20) -> list[ServerEvent]:
    parser = EventParser(max_event_bytes=max_event_bytes)
    return [event for piece in pieces for event in parser.feed(piece)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_the_three_line_ends(end: bytes) -> None:
    stream = end.join([b"event: tick", b"data: one", b"data: two", b"", b": comment", b"data:three", b"", b""])
    assert events(stream) == [ServerEvent("tick", "one\ntwo"), ServerEvent("message", "three")]


def test_what_is_no_event() -> None:
    assert events(b"event: lonely\n\n: only a comment\n\nid: 7\nretry: 10\n\n\n\n") == []
    assert events(b"data: half") == []
    assert events(b"data: half\n") == []


def test_a_byte_order_mark_at_the_start_only() -> None:
    assert events(b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\ndata: c\n\n") == [
        ServerEvent("message", "a"),
        ServerEvent("message", "c"),
    ]


def test_one_space_after_the_colon_is_no_part_of_the_value() -> None:
    assert events(b"data:  x\n\ndata\n\ndata:\ndata:\n\n") == [
        ServerEvent("message", " x"),
        ServerEvent("message", ""),
        ServerEvent("message", "\n"),
    ]


def test_a_name_belongs_to_its_own_event() -> None:
    assert [event.name for event in events(b"event: a\ndata: 1\n\ndata: 2\n\n")] == ["a", "message"]


@given(
    st.lists(
        st.sampled_from([b"data: x", b"data: \xc3\xa9", b"\r", b"\n", b"\r\n", b": c", b"event: e", b"\xef\xbb\xbf", b""])
    ),
    st.data(),
)
def test_where_the_pieces_are_cut_does_not_matter(parts: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert events(*pieces) == events(stream)
    assert events(*(bytes([byte]) for byte in stream)) == events(stream)


@given(st.binary(max_size=200))
def test_any_bytes_are_read(stream: bytes) -> None:
    assert all(isinstance(event.data, str) for event in events(stream))


def test_an_event_has_a_largest_size() -> None:
    assert len(events(b"data: " + b"x" * 90 + b"\n\n", max_event_bytes=100)) == 1
    with pytest.raises(EventTooLargeError):
        events(b"data: ", b"x" * 50, b"x" * 50, max_event_bytes=100)
    with pytest.raises(EventTooLargeError):
        events(*[b"data: x\n"] * 100, max_event_bytes=100)
    assert len(events(*[b"data: x\n\n"] * 100, max_event_bytes=100)) == 100
