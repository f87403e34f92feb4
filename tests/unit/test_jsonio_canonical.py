"""Canonical JSON: spelling, order, errors, and that the quick way is the exact way."""

from __future__ import annotations

import enum
import math
import struct
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.jsonio import (
    CanonicalError,
    as_integer,
    canonical,
    detach,
    digest,
    digest_bytes,
    number_text,
    parse,
    utf16_key,
)
from cassette_lab.jsonio.canonical import _write, orjson_agrees
from cassette_lab.jsonio.numbers import NumberError


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("number", "spelling"),
    [
        (0, "0"), (0.0, "0"), (1.0, "1"), (-5, "-5"), (0.1, "0.1"), (1e-6, "0.000001"), (1.5e-7, "1.5e-7"), (1e-7, "1e-7"),
        (123456.789, "123456.789"), (1e15, "1000000000000000"), (1e16, "10000000000000000"), (1e20, "1" + "0" * 20),
        (1e21, "1e+21"), (1.2e21, "1.2e+21"), (-1.5e300, "-1.5e+300"), (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"), (2**53, "9007199254740992"), (2**53 + 1, "9007199254740992"),
        (2**64, "18446744073709552000"), (12345678901234567890, "12345678901234567000"), (-(10**21), "-1e+21"),
    ],
)  # fmt: skip
def test_numbers_are_spelled_as_ecmascript_spells_them(number: float, spelling: str) -> None:
    assert number_text(number) == spelling
    assert canonical([number]) == f"[{spelling}]".encode()


@pytest.mark.parametrize("number", [-0.0, math.nan, math.inf, -math.inf, 10**309, -(10**400)])
def test_numbers_without_a_lossless_form_are_refused(number: float) -> None:
    for value in (number, [number], {"a": {"b": number}}):
        with pytest.raises(CanonicalError):
            canonical(value)
        with pytest.raises(CanonicalError):
            detach(value)


def test_keys_are_ordered_by_utf_16_units() -> None:
    keys = ["\uffff", "\ue000", "\U0001f600", "\ud7ff", "b", "", "a\x00", "a", "aa", "10", "9", "\udc00", "\ud83d"]
    expected = ["", "10", "9", "a", "a\x00", "aa", "b", "\ud7ff", "\ud83d", "\U0001f600", "\udc00", "\ue000", "\uffff"]
    assert list(parse(canonical(dict.fromkeys(keys, 0)))) == expected
    assert sorted(keys, key=utf16_key) == expected


def test_strings_escape_what_json_stringify_escapes() -> None:
    text = "".join(map(chr, range(0x20))) + '"\\/\x7f\x80\u2028\u2029\ud800x\udfff\U0001f600\ufeff'
    expected = (
        '"\\u0000\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e\\u000f'
        "\\u0010\\u0011\\u0012\\u0013\\u0014\\u0015\\u0016\\u0017\\u0018\\u0019\\u001a\\u001b\\u001c\\u001d\\u001e\\u001f"
        '\\"\\\\/\x7f\x80\u2028\u2029\\ud800x\\udfff\U0001f600\ufeff"'
    )
    assert canonical(text).decode() == expected


def test_split_pairs_are_one_character() -> None:
    assert canonical("\ud83d\ude00").decode() == '"\U0001f600"'
    assert canonical({"\ud83d\ude00": "\ud83d\ude00\ude00"}).decode() == '{"\U0001f600":"\U0001f600\\ude00"}'
    with pytest.raises(CanonicalError, match="same name"):
        canonical({"\ud83d\ude00": 1, "\U0001f600": 2})


def test_a_container_that_contains_itself_is_refused() -> None:
    items: list[Any] = [[], "x"]
    items.append({"again": items})
    members: dict[str, Any] = {}
    members["self"] = [members, members]
    for value in (items, members):
        with pytest.raises(CanonicalError, match="contains itself"):
            canonical(value)
        with pytest.raises(CanonicalError, match="contains itself"):
            detach(value)


def test_a_value_used_twice_is_written_twice() -> None:
    shared = [1.0]
    assert canonical([shared, {"a": shared}]) == b'[[1],{"a":[1]}]'


@pytest.mark.parametrize(
    ("value", "text"),
    [((1, (2.5, "x")), b'[1,[2.5,"x"]]'), (Colour.RED, b'"red"'), ([Level.LOW], b"[1]"), ([np.float64(0.5)], b"[0.5]")],
)
def test_tuples_and_subclasses_count_as_their_value(value: Any, text: bytes) -> None:
    assert canonical(value) == text
    copy = detach(value)
    assert canonical(copy) == text
    assert type(copy) in (list, str)
    assert copy == parse(text)


@pytest.mark.parametrize("value", [b"x", {1, 2}, object(), 1j, {1: 2}, [{None: 1}], {"a": {True: 1}}])
def test_what_is_no_plain_json_is_refused(value: Any) -> None:
    with pytest.raises(CanonicalError):
        canonical(value)
    with pytest.raises(CanonicalError):
        detach(value)


def test_digest_is_sha_256_of_the_canonical_text() -> None:
    expected = "sha256:37257214f22b92121c5ff4d7e29ed2d31b3f1129ee698e96e581ec05cb2e3cf7"
    assert digest([None, True, False]) == digest_bytes(b"[null,true,false]") == expected


@pytest.mark.parametrize(
    ("value", "integer"),
    [
        (1, 1), (1.0, 1), (-0.0, 0), (2**53 - 1, 2**53 - 1), (2**53, None), (float(2**53), None), (1.5, None), (True, None),
        ("1", None), (math.inf, None), (math.nan, None), (None, None),
    ],
)  # fmt: skip
def test_integers_are_numbers_with_an_integral_value(value: Any, integer: int | None) -> None:
    assert as_integer(value) == integer
    assert type(as_integer(value)) is type(integer)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.integers(-5, 5).map(lambda number: float(number) + 0.0)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: not (number == 0 and math.copysign(1, number) < 0))
    | st.text()
    | st.text("a\ud800\udc00\U0001f600\ue000\n", max_size=5)
)
JSON = st.recursive(
    SCALARS,
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(st.text(max_size=3) | st.text("a\U0001f600\ue000\uffff", max_size=3), children, max_size=4)
    ),
    max_leaves=15,
)


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_the_quick_way_writes_what_the_exact_way_writes(value: Any) -> None:
    text = canonical(value)
    assert text == _write(value).encode()
    again = parse(text, duplicates=False)
    assert canonical(again) == text
    copy = detach(value)
    assert canonical(copy) == text


@settings(max_examples=500, deadline=None)
@given(
    st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0]).filter(math.isfinite)
    | st.integers(-(10**9), 10**9).map(lambda thousandths: thousandths / 1000)
)
def test_where_orjson_is_said_to_agree_it_does(number: float) -> None:
    if orjson_agrees(number, 0, 0):
        assert orjson.dumps(number).decode() == number_text(number)


def test_the_limits_of_orjson_s_agreement() -> None:
    for size in range(-4, 15):
        for number in (10.0**size, math.nextafter(10.0**size, 0), math.nextafter(10.0**size, math.inf), 1.5 * 10.0**size):
            for signed in (number, -number):
                if orjson_agrees(signed, 0, 0):
                    assert orjson.dumps(signed).decode() == number_text(signed)
    assert orjson_agrees(1e-4, 0, 0)
    assert orjson_agrees(999999999999999.8, 0, 0)
    assert not any(orjson_agrees(number, 0, 0) for number in (1.0, 1e-5, 5e-6, 1e16, 2**53, -0.0, math.inf, math.nan))
    assert not orjson_agrees([[0]], 1, 9)
    assert not orjson_agrees([0, 0], 1, 1)


def test_a_number_error_is_a_value_error() -> None:
    with pytest.raises(NumberError):
        number_text(-0.0)
    assert issubclass(NumberError, ValueError)
    assert issubclass(CanonicalError, ValueError)


def test_detach_shares_nothing() -> None:
    value: dict[str, Any] = {"a": [1, {"b": "x"}], "c": ()}
    copy = detach(value)
    assert copy == {"a": [1, {"b": "x"}], "c": []}
    copy["a"][1]["b"] = "y"
    assert value["a"][1]["b"] == "x"
    assert detach("\ud83d\ude00") == "\U0001f600"
