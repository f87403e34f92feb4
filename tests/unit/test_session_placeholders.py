from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.errors import CassetteLabError, ConfigError, MismatchError
from cassette_lab.session.entries import Chunks, ChunksEntry, HangEntry, ThrowEntry
from cassette_lab.session.placeholders import resolve_entry
from tests.unit.replay_samples import FINISH, asked


def filled(text: str, *messages: Any) -> Any:
    entry = resolve_entry(ChunksEntry([{"type": "text-delta", "index": 0, "text": text}]), messages)
    assert isinstance(entry, ChunksEntry)
    return entry.chunks[0]["text"]


def found(pattern: str, *messages: Any) -> Any:
    """What a pattern finds; None for nothing, "invalid" for a pattern that is none."""
    try:
        return filled(f"{{{{fromRequest:{pattern}}}}}", *messages)
    except MismatchError as error:
        return None if error.diagnostic == {"reason": "placeholder-no-match", "pattern": pattern} else error
    except ConfigError as error:
        return "invalid" if error.code == "PLACEHOLDER_INVALID_PATTERN" else error


def test_the_last_match_counts_and_of_it_the_first_group() -> None:
    assert found(r"goal-(\w+)", "goal-1", "goal-2 goal-3") == "3"
    assert found(r"goal-\w+", "goal-1", "goal-2 goal-3") == "goal-3"
    assert found(r"(a)|b", "a b") == "b"  # the group took no part in the last match
    assert found(r"a(x?)", "a") == ""


def test_all_texts_of_the_messages_are_searched_in_order() -> None:
    message = {"content": [{"text": "x=1"}, {"deep": {"text": "x=2"}}], "source": {"k": "x=3"}, "x=9": 4}
    assert found(r"x=(\d)", message) == "3"
    assert found(r"b\nc", "b", "c") == "b\nc"
    assert found(r"^c", "b", "c") is None
    assert found(".*", *[]) == ""
    assert found(r"\d", {"10": "1", "b": "2", "9": "3", "01": "4"}) == "4"
    assert found(r"\d", {"b": "2", "10": "1", "9": "3"}) == "2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{fromRequest:[0-9a-f]{4}}} tail", "12ab tail"),
        ("{{fromRequest:a}}{{fromRequest:b}}-", "ab-"),
        ("{{fromRequest:1}}b}}", "1b}}"),
        ("[{{fromRequest:}}]", "[]"),
        ("{{{fromRequest:b}}", "{b"),
        ("{fromRequest:a}}", "{fromRequest:a}}"),
        ("{{fromrequest:a}}", "{{fromrequest:a}}"),
    ],
)
def test_where_a_placeholder_ends(text: str, expected: str) -> None:
    assert filled(text, asked("12ab")) == expected


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"🚀.", "é 🚀z", "🚀z"),
        (r"[🚀]", "🚀", "\ude80"),  # a class of two halves
        (r".", "🚀", "\ude80"),
        (r"\ud83d", "🚀", "\ud83d"),
        (r"\uD83D\uDE80", "🚀", "🚀"),
        (r"\\ud83d", "\\ud83d", "\\ud83d"),
        (r"[\ud800-\udfff]", "a\ud83d", "\ud83d"),
        (r"[z-🚀]+", "a~🚀\ude81", "~🚀"),  # a range up to the first half, and the second
        (r"[!-\udfff]+", "é🚀", "é🚀"),
        (r"[^\ud800-\udbff]+", "🚀z", "\ude80z"),
        (r"\p{L}", "p{L} x", "p{L}"),
        (r"(?<n>q)\d", "q7", "q"),
        (r"(?<=id=)\w+", "id=q7", "q7"),
        (r"(\w)\1", "abb cc", "c"),
        (r"(?i:ABC)", "abc", "abc"),
        (r"ABC", "abc", None),
        (r"\d", "٣", None),
        (r"a\sb", "a\xa0b", "a\xa0b"),
        (r"a.b", "a\nb", None),
        (r"c$", "c\n", None),
        (r"a{", "a{", "a{"),
        (r"(", "x", "invalid"),
        (r"[b-a]", "x", "invalid"),
        (r"x**", "x", "invalid"),
        (r"\$&x", "$&x", "$&x"),
    ],
)
def test_patterns_are_javascript(pattern: str, text: str, expected: str | None) -> None:
    assert found(pattern, text) == expected


def test_every_text_of_an_entry_and_no_name() -> None:
    mark = "{{fromRequest:a}}"
    chunk = {"type": "finish", mark: [mark, {"deep": f"<{mark}>"}, 5, None, -0.0]}
    filled_chunk = {"type": "finish", mark: ["a", {"deep": "<a>"}, 5, None, -0.0]}
    entry = ThrowEntry([chunk], f"m {mark}", mark)
    assert resolve_entry(entry, [asked("a")]) == ThrowEntry([filled_chunk], "m a", "a")
    assert chunk[mark] == [mark, {"deep": f"<{mark}>"}, 5, None, -0.0]
    assert resolve_entry(HangEntry(f"ready/{mark}"), [asked("a")]) == HangEntry("ready/a")


def test_an_entry_without_placeholders_is_given_as_it_is() -> None:
    for entry in (ChunksEntry(Chunks([FINISH])), ThrowEntry([], "m", "C"), HangEntry(), HangEntry("ready")):
        assert resolve_entry(entry, []) is entry


def test_a_placeholder_without_its_closing() -> None:
    with pytest.raises(ConfigError, match="no closing") as error:
        filled("{{fromRequest:a}", asked("a"))
    assert error.value.code == "PLACEHOLDER_UNTERMINATED"


def test_any_depth() -> None:
    deep: Any = "{{fromRequest:a}}"
    for _ in range(5000):
        deep = [deep]
    value = filled(deep, deep, asked("a"))
    for _ in range(5000):
        (value,) = value
    assert value == "a"


@settings(max_examples=150)
@given(st.text("{}fromRequest:(a)\\.🚀", max_size=12), st.text(max_size=8))
def test_any_text_is_filled_in_or_refused(text: str, corpus: str) -> None:
    with suppress(CassetteLabError):
        assert isinstance(filled("{{fromRequest:" + text, corpus), str)
