"""Dates as ECMAScript takes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.jsonio.dates import date_parse_ms, is_iso_or_rfc

AUGUST_18 = 1_787_011_200_000  # 2026-08-18T00:00Z
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00.000Z", 0),
        ("2026-08-18", AUGUST_18),
        ("2026-08", AUGUST_18 - 17 * 24 * HOUR),
        ("2026", 1_767_225_600_000),
        ("2026-08-18T03:00Z", AUGUST_18 + 3 * HOUR),
        ("2026-08-18T03:00", AUGUST_18 + 3 * HOUR),
        ("2026-08-18T03:00:00.1Z", AUGUST_18 + 3 * HOUR + 100),
        ("2026-08-18T03:00:00.123456Z", AUGUST_18 + 3 * HOUR + 123),
        ("2026-08-18t03:00:00z", AUGUST_18 + 3 * HOUR),
        ("2026-08-18T03:00:00+02:00", AUGUST_18 + HOUR),
        ("2026-08-18T03:00:00-0230", AUGUST_18 + 5 * HOUR + HOUR // 2),
        ("2026-08-17T24:00:00.000Z", AUGUST_18),
        ("2026-02-30", 1_772_409_600_000),  # 2 March
        ("2023-02-29T00:00:00Z", 1_677_628_800_000),  # 1 March
        ("+002026-08-18T00:00:00Z", AUGUST_18),
        ("-000001-01-01T00:00:00Z", -62_198_755_200_000),
        ("0000-01-01T00:00:00Z", -62_167_219_200_000),
        ("+275760-09-13T00:00:00.000Z", 8_640_000_000_000_000),
        ("-271821-04-20T00:00:00.000Z", -8_640_000_000_000_000),
        ("Tue, 18 Aug 2026 03:00:00 GMT", AUGUST_18 + 3 * HOUR),
        ("18 Aug 2026 03:00 +0200", AUGUST_18 + HOUR),
        ("18 Aug 26 03:00:00 EST", AUGUST_18 + 8 * HOUR),
        ("Tue, 18 (a (nested) comment) Aug 2026 03:00:00 -0000 (UTC)", AUGUST_18 + 3 * HOUR),
        ("Tue Aug 18 2026 03:00:00 GMT+0200 (CEST)", AUGUST_18 + HOUR),
        ("Aug 18, 2026", AUGUST_18),
        ("August 18, 2026 12:30 AM", AUGUST_18 + HOUR // 2),
        ("8/18/2026 1:00 PM", AUGUST_18 + 13 * HOUR),
        ("2026/08/18 03:00", AUGUST_18 + 3 * HOUR),
        ("2026-08-18 03:00:00.5", AUGUST_18 + 3 * HOUR + 500),
        (" 2026-08-18\n", AUGUST_18),
        ("99", 915_148_800_000),
    ],
)
def test_dates(text: str, ms: int) -> None:
    assert date_parse_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "T", "now", "not-a-date", "2026-13-01", "2026-00-10", "2026-08-32", "2026-08-00", "2026-08-18T25:00:00Z",
        "2026-08-18T24:00:01Z", "2026-08-18T24:00:00.001Z", "2026-08-18T24:00:00.0000000001Z",
        "2026-08-18T03:60Z", "2026-08-18T03:00:60Z", "2026-08-18T",
        "2026-08-18T3:00:00Z", "2026-08-18T03Z", "2026-08-18T03:00:00 Z", "2026-08-18T03:00:00,000Z", "2026-08-18T03:00+24:00",
        "2026-08-18T03:00+02:60", "2026-08-18T03:00:00\u221202:00", "+275760-09-13T00:00:00.001Z",
        "-271821-04-19T23:59:59.999Z", "20260818", "18/8/2026", "12:00", "1e3", "2026 foo", "Tue, 32 Aug 2026 03:00:00 GMT",
        "Tue, 18 Aug 2026 25:00:00 GMT", "Tue, 18 Aug 2026 03:00:00 A", "2026-230", "-000000", "1234567",
    ],
)  # fmt: skip
def test_what_names_no_date(text: str) -> None:
    assert date_parse_ms(text) is None


@pytest.mark.parametrize(
    ("text", "either"),
    [
        ("2026-08-18", True), ("2026-13-01T99:99Z", True), ("+002026-08", True), ("2026-08-18T03:00:00.000+02:00", True),
        ("Tue, 18 Aug 2026 03:00:00 GMT", True), ("18 aug 26 03:00 +0000", True), ("18 Aug 2026 (x) 03:00:00 Z", True),
        ("-000000-01-01", False), ("2026-8-1", False), ("2026-08-18 03:00", False), ("Aug 18, 2026", False),
        ("18 Aug 2026", False), ("Tue Aug 18 2026 03:00:00 GMT", False), ("99", False), ("\uff12\uff10\uff12\uff16", False),
        ("2026-08-18\n", False), ("2026-08-18T03:00:00Z\x00", False),
    ],
)  # fmt: skip
def test_the_forms_that_must_agree(text: str, either: bool) -> None:
    assert is_iso_or_rfc(text) is either


MOMENTS = st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001


@settings(max_examples=200, deadline=None)
@given(MOMENTS)
def test_agrees_with_datetime(moment: datetime) -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    ms = (moment - epoch) // timedelta(milliseconds=1)
    assert date_parse_ms(moment.isoformat(timespec="milliseconds")) == ms
    if moment.year >= 100:  # below, two digits mean another century
        assert date_parse_ms(format_datetime(moment)) == ms // 1000 * 1000


@settings(max_examples=250, deadline=None)
@given(st.text("0123456789-+:.TZ /,()AugPMGT\u00e9\ud800\x00", max_size=30) | st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    ms = date_parse_ms(text)
    assert ms is None or abs(ms) <= 8_640_000_000_000_000
    is_iso_or_rfc(text)


@pytest.mark.parametrize("text", ["(" * 50_000, "()" * 50_000, "1:" * 50_000, "x " * 50_000, "9" * 100_000, "-" * 100_000])
def test_long_texts_end(text: str) -> None:
    assert date_parse_ms(text) is None
    assert not is_iso_or_rfc(text)
