from __future__ import annotations

import math

import pytest

from cassette_lab.words import delta_text, duration_text, plural, was


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (0.04, "< 0.1 ms"),
        (0.4, "0.4 ms"),
        (9.96, "10 ms"),
        (840, "840 ms"),
        (999.4, "999 ms"),
        (999.6, "1.0 s"),
        (12_400, "12.4 s"),
        (59_960, "1 min 00 s"),
        (185_000, "3 min 05 s"),
        (3_599_600, "1 h 00 min"),
        (7_620_000, "2 h 07 min"),
        (86_399_999, "1 d 00 h"),
        (273_600_000, "3 d 04 h"),
        (1.7e308, "2.0e+300 d"),
        (-40, "\N{MINUS SIGN}40 ms"),
        (None, "\N{EN DASH}"),
        (math.nan, "\N{EN DASH}"),
    ],
)
def test_durations_read_as_people_write_them(duration_ms: float | None, text: str) -> None:
    assert duration_text(duration_ms) == text


def test_differences_have_a_sign_that_can_be_seen() -> None:
    assert delta_text(120) == "+120 ms"
    assert delta_text(-1234) == "\N{MINUS SIGN}1.2 s"
    assert delta_text(0.01) == delta_text(-0.01) == "±0 ms"


def test_counts_have_their_noun() -> None:
    assert [plural(count, "call") for count in (0, 1, 5000)] == ["0 calls", "1 call", "5,000 calls"]
    assert [was(count) for count in (0, 1, 2)] == ["were", "was", "were"]
