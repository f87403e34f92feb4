"""Numbers and times in bytes: many at once, each proven to be spelled as ECMAScript would spell it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cassette_lab.cassette.columns import TIME, time_ms
from cassette_lab.cassette.scan.blocks import Block, Mask, Positions
from cassette_lab.cassette.scan.texts import strings, unescaped
from cassette_lab.jsonio import MAX_SAFE_INTEGER

Integers = npt.NDArray[np.int64]
Decimals = npt.NDArray[np.float64]


def integers(block: Block, start: Positions, stop: Positions) -> tuple[Integers, Mask]:
    """Whole numbers from 0 to 2**53 - 1, and which of them are: digits only, no leading zero."""
    length = stop - start
    value, good = _eight_digits(_words(block)[stop - 8], np.minimum(length, 8))
    good &= (length > 0) & (length <= 16) & ((length == 1) | (block.bytes[start] != _ZERO))
    if (length > 8).any():
        upper, upper_good = _eight_digits(_words(block)[stop - 16], np.clip(length - 8, 0, 8))
        value += 100_000_000 * upper
        good &= upper_good & (value <= MAX_SAFE_INTEGER)
    return value, good


def decimals(block: Block, start: Positions, stop: Positions) -> tuple[Decimals, Mask]:
    """Numbers of at least 0, and which of them are proven to be canonical."""
    # As recorders round: whole, or up to three decimals. A quotient of exact numbers is rounded as the number is read,
    # and up to 15 digits are the shortest spelling of what they are read as.
    places = np.zeros(len(start), np.int64)
    for number in (1, 2, 3):
        places[block.bytes[stop - number - 1] == _POINT] = number
    whole, good = integers(block, start, stop - places - (places > 0))
    fraction, digits = _eight_digits(_words(block)[stop - 8], places)
    scale = _POWERS_OF_TEN[places]
    good &= digits & (whole < 1_000_000_000_000) & ((places == 0) | (block.bytes[stop - 1] != _ZERO))
    values: Decimals = (whole * scale + fraction) / scale
    if not good.all():
        rest = np.flatnonzero(~good)
        values[rest], good[rest] = _spelled_alike(strings(block, start[rest], stop[rest]))
    return values, good


def times(block: Block, start: Positions, stop: Positions) -> pa.Array:
    """Recorded times as timestamps; null where the text is no date."""
    # As recorders write them: 2026-01-31T12:00:00.000Z, three words long.
    ordinary: Mask = stop - start == 24
    pairs = []
    for number, (marks, overflow) in enumerate(_TIME_WORDS):
        digits = _words(block)[start + 8 * number] ^ marks
        ordinary &= ((digits | (digits + overflow)) & _HIGH_BITS) == 0
        pairs.append(digits * _TEN + (digits >> _EIGHT))
    century, year, month = (_byte(pairs[0], at) for at in (0, 2, 5))
    day, hour, minute = (_byte(pairs[1], at) for at in (0, 3, 6))
    second, milliseconds = _byte(pairs[2], 1), _byte(pairs[2], 4) * 10 + _byte(digits, 6)
    ordinary &= (hour < 24) & (minute < 60) & (second < 60)
    # Calendars are the business of one place; few dates stand in one block.
    dates, which = np.unique(((century * 100 + year) * 100 + month) * 100 + day, return_inverse=True)
    midnights = [time_ms(f"{each // 10_000:04}-{each // 100 % 100:02}-{each % 100:02}") for each in dates.tolist()]
    ordinary &= np.array([midnight is not None for midnight in midnights], np.bool_)[which]
    values = np.array([midnight or 0 for midnight in midnights], np.int64)[which]
    values += ((hour * 60 + minute) * 60 + second) * 1000 + milliseconds
    unknown = np.zeros(len(start), np.bool_)
    if not ordinary.all():
        others = np.flatnonzero(~ordinary)
        texts = unescaped(strings(block, start[others], stop[others])).to_pylist()
        for row, value in zip(others.tolist(), map(time_ms, texts), strict=True):
            values[row], unknown[row] = value or 0, value is None
    return pa.array(values, TIME, mask=unknown)


def _spelled_alike(texts: pa.Array) -> tuple[Decimals, Mask]:
    """Numbers of at least 0 that Arrow spells again in the same way, where it spells as ECMAScript does."""
    good = np.ones(len(texts), np.bool_)
    try:
        numbers = texts.cast(pa.float64())
    except pa.ArrowInvalid:
        good = _mask(pc.match_substring_regex(texts, "^[0-9]+([.][0-9]+)?$"))
        numbers = pc.if_else(pa.array(good), texts, "0").cast(pa.float64())
    good &= _mask(pc.equal(numbers.cast(pa.string()), texts))
    values: Decimals = numbers.to_numpy()
    # Below 1e-6 both write exponents, from 1e10 on Arrow does. -0 and what is not finite has no place at all.
    good &= (values == 0) | ((values >= 1e-6) & (values < 1e10))
    good &= ~np.signbit(values)
    return values, good


def _words(block: Block) -> npt.NDArray[np.uint64]:
    """Every eight bytes of the buffer as a word, by their start."""
    return np.ndarray((len(block.buffer) - 7,), "<u8", block.buffer, 0, (1,))


def _byte(words: npt.NDArray[np.uint64], at: int) -> Integers:
    """One byte of each word; the first is the lowest."""
    return ((words >> np.uint64(8 * at)) & _LOW_BYTE).astype(np.int64)


def _eight_digits(word: npt.NDArray[np.uint64], length: Positions) -> tuple[Integers, Mask]:
    """The last ``length`` of eight characters as a number, and whether they are digits. The first is the lowest byte."""
    unused = _ONES >> (length.astype(np.uint64) * _EIGHT)
    digits = (word ^ _ZEROS) & ~unused
    good: Mask = ((digits | (digits + _TEN_TO_HIGH_BIT)) & _HIGH_BITS) == 0
    pairs = digits * _TEN + (digits >> _EIGHT)
    value = (pairs & _PAIRS) * _LEFT_PAIRS + ((pairs >> _SIXTEEN) & _PAIRS) * _RIGHT_PAIRS
    return (value >> _THIRTY_TWO).astype(np.int64), good


_ZERO, _POINT = ord("0"), ord(".")
_POWERS_OF_TEN = 10 ** np.arange(4)
_LOW_BYTE = np.uint64(0xFF)
_ONES, _ZEROS, _HIGH_BITS = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0x3030303030303030), np.uint64(0x8080808080808080)
_TEN_TO_HIGH_BIT = np.uint64(0x7676767676767676)
_EIGHT, _TEN, _SIXTEEN, _THIRTY_TWO = np.uint64(8), np.uint64(10), np.uint64(16), np.uint64(32)
_PAIRS = np.uint64(0x000000FF000000FF)
_LEFT_PAIRS, _RIGHT_PAIRS = np.uint64(100 + (1_000_000 << 32)), np.uint64(1 + (10_000 << 32))
_TIME_WORDS = [
    (
        np.frombuffer(form, "<u8")[0],
        np.frombuffer(bytes(0x76 if character == _ZERO else 0x7F for character in form), "<u8")[0],
    )
    for form in (b"0000-00-", b"00T00:00", b":00.000Z")
]
"""What is left of each character by exclusive or is at most 9 for a digit and 0 for a mark; one more reaches the high bit."""


def _mask(array: pa.Array) -> Mask:
    mask: Mask = array.to_numpy(zero_copy_only=False)
    return mask.copy()
