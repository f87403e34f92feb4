"""JSON text in: ECMAScript's grammar, numbers, duplicate names, any depth."""

from __future__ import annotations

import json
import math
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.jsonio import DuplicateMemberError, JsonSyntaxError, canonical, detach, parse

NOT_JSON = [
    "", " ", "NaN", "Infinity", "-Infinity", "undefined", "True", "nul", "01", "-01", "+1", ".5", "1.", "1e", "1e+", "-",
    "--1", "0x10", "1_000", "1n", "\uff11", "'a'", '"abc', '"\t"', '"\n"', '"\x00"', '"\\x41"', '"\\u12"', '"\\u 123"',
    '"\\u+123"', '"\\u{41}"', '"\\\'"', '"\\', "[", "]", "[1,]", "[,1]", "[1 2]", "[1}", "{", "}", "{a:1}", "{1:2}",
    '{"a"}', '{"a":}', '{"a":1,}', '{,"a":1}', '{"a" 1}', '{"a":1]', "1 2", "{}{}", "// c\n1", "/* */1", "\ufeff1",
    "\u00a01", "1\u00a0", "\u20281", "\v1", "\f1", "1\x00", "\x851",
]  # fmt: skip


@pytest.mark.parametrize("text", NOT_JSON)
def test_what_json_parse_refuses_is_refused(text: str) -> None:
    with pytest.raises(JsonSyntaxError):
        parse(text)


@pytest.mark.parametrize("text", NOT_JSON)
def test_deep_text_is_held_to_the_same_grammar(text: str) -> None:
    with pytest.raises(JsonSyntaxError):
        parse("[" * 3000 + text + "]" * 3000 if text not in ("", " ", "]", "[") else "[" * 3000 + text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("\t\r\n 1 ", 1),
        ("-0.0e-0", -0.0),
        ('"\\u0041\\/\\b\\f\\n\\r\\t\\"\\\\"', 'A/\b\f\n\r\t"\\'),
        ('"\\uD83D\\uDE00 \\ud800 \\udbff\\udbff\\udfff"', "\U0001f600 \ud800 \udbff\U0010ffff"),
        ('"\u2028\u2029\x7f"', "\u2028\u2029\x7f"),
        ('{"b":1,"a":[true,false,null],"":{}}', {"b": 1, "a": [True, False, None], "": {}}),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert parse(text) == value
    assert parse(f"{'[' * 3000}{text}{']' * 3000}") is not None


def test_numbers_are_doubles_and_safe_integers() -> None:
    found = parse("[0, -0, 1.0, 9007199254740991, 9007199254740992, -9007199254740993, 1e400, -1e400, 1e-400]")
    assert [type(number) for number in found] == [int, float, float, int, float, float, float, float, float]
    assert math.copysign(1, found[1]) == -1
    assert found[2:] == [1.0, 9007199254740991, 9007199254740992.0, -9007199254740992.0, math.inf, -math.inf, 0.0]


def test_integers_of_any_length() -> None:
    assert parse("7" * 5000) == math.inf
    assert parse("1" + "0" * 300) == 1e300
    assert parse("0." + "0" * 5000 + "1") == 0.0


def test_bytes_are_utf_8_with_one_replacement_for_each_broken_part() -> None:
    assert (
        parse(b'"\xe2\x82 \xff\xfe \xed\xa0\x80 \xf0\x9f\x98 \xc0\x80"')
        == "\ufffd \ufffd\ufffd \ufffd\ufffd\ufffd \ufffd \ufffd\ufffd"
    )
    with pytest.raises(JsonSyntaxError):
        parse(b"\xef\xbb\xbf1")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"a":1,"b":2,"a":3}', "a"),
        ('[{"x":{"":1,"":2}}]', ""),
        ('{"a":1,"\\u0061":2}', "a"),
        ('{"/":1,"\\/":2}', "/"),
        ('{"\U0001f600":1,"\\ud83d\\ude00":2}', "\U0001f600"),
        ('{"\U0001f600":1,"\ud83d\\ude00":2}', "\U0001f600"),
        ('{"\U0001f600":1,"\\ud83d\ude00":2}', "\U0001f600"),
        ('{"\ud83d\ude00":1,"\\uD83D\\uDE00":2}', "\U0001f600"),
        ('{"\\ud800":1,"\ud800":2}', "\ud800"),
        ('{"__proto__":1,"__proto__":2}', "__proto__"),
    ],
)
def test_duplicate_names_are_found_after_their_escapes_are_decoded(text: str, name: str) -> None:
    with pytest.raises(DuplicateMemberError) as caught:
        parse(text, duplicates=False)
    assert caught.value.name == name
    with pytest.raises(DuplicateMemberError):
        parse("[" * 3000 + text + "]" * 3000, duplicates=False)
    parse(text)


def test_the_last_of_two_members_counts_in_the_place_of_the_first() -> None:
    assert list(parse('{"z":1,"y":2,"z":3}').items()) == [("z", 3), ("y", 2)]


def test_text_that_is_no_json_is_told_before_a_duplicate_name() -> None:
    with pytest.raises(JsonSyntaxError):
        parse('[{"a":1,"a":2},', duplicates=False)


def test_different_names_are_no_duplicates() -> None:
    parse('{"\\ud83d":1,"\\ud83d\\ude00":2,"\\ude00":3,"a":4,"A":5,"\u00e9":6,"e\u0301":7}', duplicates=False)


@pytest.mark.parametrize(("before", "after", "levels"), [("[", "]", 100_000), ('{"a":', "}", 20_000), ('[{"k":', "}]", 10_000)])
def test_any_depth(before: str, after: str, levels: int) -> None:
    text = before * levels + "1" + after * levels
    value = parse(text, duplicates=False)
    assert canonical(detach(value)).decode() == text


def test_any_depth_in_a_thread() -> None:
    text = "[" * 20_000 + "]" * 20_000
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: canonical(detach(parse(text, duplicates=False)))).result().decode() == text


def test_containers_that_are_never_closed_cost_no_memory() -> None:
    text = "[" * 2_000_000
    tracemalloc.start()
    with pytest.raises(JsonSyntaxError):
        parse(text)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < len(text)


def test_from_a_deep_stack() -> None:
    text = "[" * 20_000 + "]" * 20_000

    def deeper(levels: int) -> bytes:
        return deeper(levels - 1) if levels else canonical(detach(parse(text, duplicates=False)))

    assert deeper(850).decode() == text


JSON_LIKE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=3), children, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None)
@given(JSON_LIKE)
def test_reads_what_json_writes(value: Any) -> None:
    text = json.dumps(value)
    assert parse(text) == value
    assert parse(f"{'[' * 1500}{text}{']' * 1500}", duplicates=False) is not None


@settings(max_examples=200, deadline=None)
@given(st.text('[]{},:"\\ \n\t0123456789.eE+-aubfnrtlsN\ud800\U0001f600', max_size=24))
def test_both_parsers_agree_on_any_text(text: str) -> None:
    try:
        shallow = parse(text)
    except JsonSyntaxError:
        shallow = JsonSyntaxError
    deep: Any
    try:
        deep = parse(f"{'[' * 1500}{text}\n{']' * 1500}")
    except JsonSyntaxError:
        deep = JsonSyntaxError
    if shallow is JsonSyntaxError:
        # "1,2" and "" are no values, but good contents of an array
        try:
            parse(f"[{text}]")
        except JsonSyntaxError:
            assert deep is JsonSyntaxError
        return
    for _ in range(1500):
        (deep,) = deep
    assert repr(deep) == repr(shallow)
