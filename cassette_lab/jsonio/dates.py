"""Dates as ECMAScript's ``Date.parse`` takes them, in milliseconds since 1970.

Source: ECMA-262, Date Time String Format (exact, with the usual leniency in fractions and ``±hhmm`` offsets); RFC 5322,
Date and Time Specification; for other texts the reading order that V8 documents for its fallback ("legacy dates").
Local times count as UTC.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cassette_lab.jsonio.whitespace import JS_WHITESPACE

LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, the last one that Python's dates and the tables know."""

_MAX_MS: Final = 8_640_000_000_000_000
_MS_PER_DAY: Final = 86_400_000

_ISO: Final = re.compile(
    r"(?!-000000)([+-][0-9]{6}|[0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?"
    r"(?:[Tt]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?(?:([Zz])|([+-])([0-9]{2}):?([0-9]{2}))?)?"
)

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ZONE_HOURS: Final = {
    "ut": 0, "utc": 0, "z": 0, "gmt": 0,
    "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7,
}  # fmt: skip


def date_parse_ms(text: str) -> int | None:
    """Milliseconds since 1970-01-01T00:00Z of the date that ``text`` names, or None where it names none."""
    if match := _ISO.fullmatch(text):
        return _iso(match)
    return _FreeForm().read(text)


def is_iso_or_rfc(text: str) -> bool:
    """Whether ``text`` has the form of an ECMAScript date-time string or of an RFC 5322 date-time, whatever its values."""
    return bool(_ISO.fullmatch(text) or _RFC_5322.fullmatch(_without_comments(text)))


_RFC_5322: Final = re.compile(
    r"\s*(?:(?:mon|tue|wed|thu|fri|sat|sun)\s*,\s*)?[0-9]{1,2}\s*(?:" + "|".join(_MONTHS) + r")\s*[0-9]{2,}"
    r"\s+[0-9]{2}\s*:\s*[0-9]{2}(?:\s*:\s*[0-9]{2})?\s*(?:[+-][0-9]{4}|ut|gmt|[ecmp][sd]t|[a-ik-z])\s*",
    re.IGNORECASE | re.ASCII,
)
_PARENTHESIS: Final = re.compile(r"[()]")


def _without_comments(text: str) -> str:
    pieces: list[str] = []
    at = 0
    while (begin := text.find("(", at)) >= 0:
        pieces += (text[at:begin], " ")
        at = _after_comment(text, begin)
    return "".join(pieces) + text[at:]


def _iso(match: re.Match[str]) -> int | None:
    year, month, day, hour, minute, second, fraction, _, sign, zone_hour, zone_minute = match.groups()
    clock = (int(hour or 0), int(minute or 0), int(second or 0), int(f"{fraction or 0:0<3}"[:3]))
    if clock[0] == 24 and fraction and fraction.strip("0"):
        return None
    offset = (int(f"{sign}1"), int(zone_hour), int(zone_minute)) if sign else None
    if offset and (offset[1] > 23 or offset[2] > 59):
        return None
    return _milliseconds((int(year), int(month or 1), int(day or 1)), clock, offset)


def _milliseconds(
    date: tuple[int, int, int], clock: tuple[int, int, int, int], offset: tuple[int, int, int] | None
) -> int | None:
    """The time value; None where a part is out of range. A day up to 31 rolls over into the next month."""
    year, month, day = date
    hour, minute, second, millisecond = clock
    if not (1 <= month <= 12 and 1 <= day <= 31 and abs(year) < 2**30):
        return None
    if not (hour < 24 and minute < 60 and second < 60 and millisecond < 1000) and clock != (24, 0, 0, 0):
        return None
    value = (_days_before(year, month) + day - 1) * _MS_PER_DAY + ((hour * 60 + minute) * 60 + second) * 1000 + millisecond
    if offset:
        sign, zone_hour, zone_minute = offset
        value -= sign * (zone_hour * 60 + zone_minute) * 60_000
    return value if abs(value) <= _MAX_MS else None


def _days_before(year: int, month: int) -> int:
    """Days from 1970-01-01 to the first of a month in the proleptic Gregorian calendar, any year."""
    months = year * 12 + month - 3  # years begin in March, so that the leap day comes last
    era_year, march_month = divmod(months, 12)
    return 365 * era_year + era_year // 4 - era_year // 100 + era_year // 400 + (153 * march_month + 2) // 5 - 719_468


# A word is any run of characters from "A" on that are no white space; parentheses are comments, also unclosed.
_TOKEN: Final = re.compile(
    rf"(?P<number>[0-9]+)|(?P<word>[^\x00-@{JS_WHITESPACE}]+)|(?P<sign>[+-])|(?P<space>[{JS_WHITESPACE}])|(?P<other>.)",
    re.DOTALL,
)


_END: Final = ("end", "")

# What has begun as an ISO date keeps its numbers: the day of "2026-08-18: 03:00" is no hour.
_ISO_DATE_BEGUN: Final = re.compile(
    r"([+-][0-9]{6}|[0-9]{4})(?![0-9])(?:-(?:(0[1-9]|1[0-2])(?![0-9])(?:-(?:(0[1-9]|[12][0-9]|3[01])(?![0-9]))?)?)?)?"
)


class _FreeForm:
    """Reads numbers, month names, zones and signs in the order they come.

    Words before the first number are skipped, so are parenthesised comments and unknown punctuation; a word after it
    that is no month, zone or AM/PM makes the text no date. ``n:`` begins or goes on with a clock time.
    """

    def __init__(self) -> None:
        self.tokens: Iterator[tuple[str, str]] = iter(())
        self.ahead = _END
        self.date: list[int] = []
        self.clock: list[int] = []
        self.month: int | None = None
        self.noon: int | None = None
        self.zone_sign: int | None = None
        self.zone_hour: int | None = None
        self.zone_minute: int | None = None
        self.seen_number = False

    def read(self, text: str) -> int | None:
        begin = 0
        if begun := _ISO_DATE_BEGUN.match(text):
            begin = begun.end(1)
            if begun[1] != "-000000":  # which is no year, and no number either
                self.date = [int(part) for part in begun.groups() if part]
                self.seen_number = True
                begin = begun.end()
        self.tokens = _tokens(text, begin)
        self.ahead = next(self.tokens, _END)
        while self.ahead is not _END:
            kind, part = self._next()
            if kind == "number":
                self.seen_number = True
                good = self._number(_small(part))
            elif kind == "word":
                good = self._word(part.lower())
            elif kind == "sign" and (self.clock or (self.zone_hour == 0 and self.zone_minute == 0)):
                self.seen_number = True
                good = self._offset(1 if part == "+" else -1)
            else:
                good = not (self.seen_number and (kind == "sign" or part == ")"))
            if not good:
                return None
        return self._value()

    def _next(self) -> tuple[str, str]:
        token, self.ahead = self.ahead, next(self.tokens, _END)
        return token

    def _skip(self, symbol: str) -> bool:
        if self.ahead[1] != symbol:
            return False
        self._next()
        return True

    def _number(self, number: int) -> bool:
        if self._skip(":"):
            if self._skip(":"):
                if self.clock:
                    return False
                self.clock = [number, 0]
                return True
            if len(self.clock) == 4:
                return False
            self.clock.append(number)
            self._skip(".")
            return True
        follows_dot = self._skip(".")
        if follows_dot and self._clock_expects(number):
            self.clock.append(number)
            kind, fraction = self._next()
            if kind != "number":
                return False
            self._end_clock(int(f"{fraction:0<3}"[:3]))
            return True
        if self.zone_hour is not None and self.zone_minute is None and number < 60:
            self.zone_minute = number
            return True
        if self._clock_expects(number):
            self._end_clock(number)
            kind, part = self.ahead
            return kind in ("end", "space", "sign") or part.lower() == "z"
        if len(self.date) == 3:
            return False
        self.date.append(number)
        self._skip("-")
        return True

    def _clock_expects(self, number: int) -> bool:
        return len(self.clock) in (1, 2, 3) and number < (60, 60, 1000)[len(self.clock) - 1]

    def _end_clock(self, number: int) -> None:
        self.clock = [*self.clock, number, 0, 0, 0][:4]

    def _word(self, word: str) -> bool:
        if word in ("am", "pm") and self.clock:
            self.noon = 12 if word == "pm" else 0
        elif word[:3] in _MONTHS:
            self.month = _MONTHS.index(word[:3]) + 1
            self._skip("-")
        elif word in _ZONE_HOURS and self.seen_number:
            hours = _ZONE_HOURS[word]
            self.zone_sign, self.zone_hour, self.zone_minute = (-1 if hours < 0 else 1), abs(hours), 0
        else:
            return not self.seen_number and self.ahead[0] != "number"
        return True

    def _offset(self, sign: int) -> bool:
        self.zone_sign = sign
        digits = self._next()[1] if self.ahead[0] == "number" else ""
        number = _small(digits or "0")
        if self.ahead[1] == ":":
            self.zone_hour, self.zone_minute = number, None
        elif len(digits) in (1, 2):
            self.zone_hour, self.zone_minute = number, 0
        elif len(digits) in (3, 4):
            self.zone_hour, self.zone_minute = divmod(number, 100)
        else:
            return False
        return True

    def _value(self) -> int | None:
        if not self.date:
            return None
        numbers = len(self.date)
        first, second, third = self.date + [1] * (3 - numbers)
        is_day = 1 <= first <= 31
        if self.month is None:
            year, month, day = (third, first, second) if is_day else (first, second, third)
        elif not is_day:
            year, month, day = first, self.month, second
        else:
            year, month, day = second, self.month, first
        if 0 <= year <= 99:
            year += 2000 if year <= 49 else 1900
        hour, minute, rest, millisecond = self.clock + [0] * (4 - len(self.clock))
        if self.noon is not None:
            if hour > 12:
                return None
            hour = hour % 12 + self.noon
        offset = None if self.zone_sign is None else (self.zone_sign, self.zone_hour or 0, self.zone_minute or 0)
        return _milliseconds((year, month, day), (hour, minute, rest, millisecond), offset)


def _tokens(text: str, at: int) -> Iterator[tuple[str, str]]:
    while match := _TOKEN.match(text, at):
        if match[0] == "(":
            at = _after_comment(text, at)
            yield "comment", ""
        else:
            at = match.end()
            yield str(match.lastgroup), match[0]


def _after_comment(text: str, at: int) -> int:
    depth = 0
    for match in _PARENTHESIS.finditer(text, at):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    return len(text)


def _small(digits: str) -> int:
    """A number's first nine significant digits: enough to see that more are out of range."""
    return int(digits.lstrip("0")[:9] or "0")
