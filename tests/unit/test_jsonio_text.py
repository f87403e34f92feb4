"""White space, lines, escapes for what cannot be seen, indented JSON."""

from __future__ import annotations

import itertools
import json
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.jsonio import CanonicalError, canonical, parse
from cassette_lab.jsonio.text import (
    _UNSEEN_CHARACTER,
    arrow_text,
    decode_utf8,
    is_blank,
    js_trim,
    pretty,
    pretty_chunks,
    show,
    split_lines,
)
from cassette_lab.jsonio.whitespace import JS_WHITESPACE

GOLDEN_CLI = Path(__file__).resolve().parents[2].parent / "shared" / "golden" / "cassette" / "cli"
needs_golden = pytest.mark.skipif(not GOLDEN_CLI.is_dir(), reason="the shared golden data is not beside this project")

UNSEEN_CATEGORIES = {"Cc", "Cf", "Zl", "Zp"}


ALL_CHARACTERS = "".join(map(chr, range(0x110000)))
ESCAPED = set(map(ord, _UNSEEN_CHARACTER.findall(ALL_CHARACTERS)))


def test_white_space_is_the_space_separators_and_what_ecmascript_names() -> None:
    separators = {chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Zs"}
    assert set(JS_WHITESPACE) == separators | set("\t\n\v\f\r\u2028\u2029\ufeff")
    assert len(JS_WHITESPACE) == 25


@needs_golden
def test_white_space_is_what_the_original_s_engine_has() -> None:
    golden = json.loads((GOLDEN_CLI / "js-whitespace.json").read_text())
    assert sorted(map(ord, JS_WHITESPACE)) == golden["trim"] == golden["regexSpace"]


def test_trim() -> None:
    assert js_trim("\ufeff\u00a0\n x y \u3000\u2029") == "x y"
    assert js_trim("\x85x\x1c\u200b") == "\x85x\x1c\u200b"
    assert is_blank("\ufeff \t")
    assert is_blank("")
    assert not is_blank("\x85")


def test_lines_end_at_line_feeds_and_carriage_returns_before_them_only() -> None:
    data = b"a\r\nb\rc\n\r\n\xe2\x80\xa8\x0c\x85d\r\r\n\ne"
    assert list(split_lines(data)) == [
        (1, b"a"), (2, b"b\rc"), (3, b""), (4, b"\xe2\x80\xa8\x0c\x85d\r"), (5, b""), (6, b"e"),
    ]  # fmt: skip
    assert list(split_lines(b"")) == [(1, b"")]
    assert list(split_lines(b"\n")) == [(1, b""), (2, b"")]
    assert list(split_lines(b"\r")) == [(1, b"\r")]


@settings(max_examples=120, deadline=None)
@given(st.text("ab\r\n", max_size=12).map(str.encode))
def test_lines_are_what_the_regular_expression_splits(data: bytes) -> None:
    assert [line for _, line in split_lines(data)] == re.split(rb"\r?\n", data)


def test_broken_utf_8_gives_one_replacement_for_each_broken_part() -> None:
    assert decode_utf8(b"\xef\xbb\xbfa\xe2\x82b\xf0\x9f\x98\xff\xed\xa0\x80\xf4\x90\x80\x80") == "\ufeffa\ufffdb" + "\ufffd" * 9


def test_what_is_escaped_follows_from_the_categories() -> None:
    categories = {code: unicodedata.category(char) for code, char in enumerate(ALL_CHARACTERS)}
    known = {code for code, category in categories.items() if category in UNSEEN_CATEGORIES | {"Cs"}}
    assert known <= ESCAPED
    # Format characters that this Python's Unicode does not know yet.
    assert all(categories[code] == "Cn" and 0x13439 <= code <= 0x1343F for code in ESCAPED - known)


@needs_golden
def test_what_is_escaped_is_what_the_original_escapes() -> None:
    golden = json.loads((GOLDEN_CLI / "escaped-codepoints.json").read_text())
    expected = set(itertools.chain.from_iterable(range(first, last + 1) for first, last in golden["ranges"]))
    assert ESCAPED - set(range(0xD800, 0xE000)) == expected


def test_show() -> None:
    assert (
        show("a\x1b[31m\u202eb\ud83d\ude00\ud800\U000e0041\n")
        == "a\\u{001b}[31m\\u{202e}b\U0001f600\\u{d800}\\u{e0041}\\u{000a}"
    )
    assert show("plain \u00e9") == "plain \u00e9"


def test_arrow_text_escapes_lone_surrogates_only() -> None:
    text = arrow_text("a\ud800\ud83d\ude00\udfffb\u202e\n")
    assert text == "a\\ud800\U0001f600\\udfffb\u202e\n"
    text.encode()
    assert arrow_text("abc") == "abc"


DOCUMENT: dict[str, Any] = {
    "none": [None, True, False, [], {}, [[]], [{}]],
    "text": 'q"\\/\t\x7f\u200b\u2028\U000e0041\ud800\u00e9\U0001f600',
    "numbers": [1.0, 1e21, 1e-7, 0.1, -0.0, 2**60, float("nan"), float("inf"), 10**400],
    "\u202e": {"deep": [[[[[{"x": [1, 2]}]]]]]},
    "tuple": (1, ("a",)),
    "wide": list(range(100)),
}

PRINTED = r"""{
  "none": [
    null,
    true,
    false,
    [],
    {},
    [
      []
    ],
    [
      {}
    ]
  ],
  "text": "q\"\\/\t\u007f\u200b\u2028\udb40\udc41\ud800é😀",
  "numbers": [
    1,
    1e+21,
    1e-7,
    0.1,
    0,
    1152921504606847000,
    null,
    null,
    null
  ],
  "\u202e": {
    "deep": [
      [
        [
          [
            [
              {
                "x": [
                  1,
                  2
                ]
              }
            ]
          ]
        ]
      ]
    ]
  },
  "tuple": [
    1,
    [
      "a"
    ]
  ],
  "wide": [
"""


def test_indented_json_is_what_json_stringify_gives() -> None:
    wide = ",\n".join(f"    {number}" for number in range(100))
    assert pretty(DOCUMENT) == PRINTED + wide + "\n  ]\n}"
    assert pretty({"a": [1]}, indent=4) == '{\n    "a": [\n        1\n    ]\n}'
    assert pretty("x") == '"x"'


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=3), children, max_size=4),
    max_leaves=25,
)


@settings(max_examples=120, deadline=None)
@given(JSON)
def test_indented_json_is_json_dumps_with_escapes(value: Any) -> None:
    text = pretty(value)
    assert canonical(parse(text)) == canonical(value)
    assert not any(ord(char) in ESCAPED for char in text if char != "\n")
    plain = json.dumps(value, ensure_ascii=False, indent=2)
    if not any(ord(char) in ESCAPED for char in plain if char != "\n"):
        assert text == plain


def test_chunks_stream() -> None:
    chunks = pretty_chunks({"all": itertools.count(), "never": 1})
    assert "".join(itertools.islice(chunks, 5)).startswith('{\n  "all": [\n    0,\n    1')
    assert pretty({"rows": ({"n": n} for n in range(2)), "none": iter(())}) == pretty(
        {"rows": [{"n": 0}, {"n": 1}], "none": []}
    )


def test_deep_json_is_printed() -> None:
    value: list[Any] = []
    for _ in range(2000):
        value = [value]
    assert pretty(value).splitlines()[2000] == " " * 4000 + "[]"


@pytest.mark.parametrize("value", [b"x", {1: 2}, [object()]])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(CanonicalError):
        pretty(value)
