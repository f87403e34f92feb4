"""Custom patterns: how the redactor uses JavaScript's regular expressions (what they match: ``test_javascript``)."""

from __future__ import annotations

import sys
import threading

import pytest

from cassette_lab.cassette.redaction import Redactor
from cassette_lab.cassette.redaction.custom import CustomPattern
from cassette_lab.errors import ConfigError

X = "[REDACTED]"


@pytest.mark.parametrize(
    ("pattern", "text", "output", "count"),
    [
        ("customer-[0-9]+", "CUSTOMER-1 customer-22", f"{X} {X}", 2),
        ("", "ab", f"{X}a{X}b{X}", 3),
        ("\\ud83d", "\U0001f600", f"{X}\ude00", 1),
        ("\u00c9\U0001f600", "a\u00e9\U0001f600\U0001f600", f"a{X}\U0001f600", 1),
        ("k", "\u212a\U0001f600", "\u212a\U0001f600", 0),
    ],
)
def test_every_match_is_replaced_and_counted(pattern: str, text: str, output: str, count: int) -> None:
    assert CustomPattern(pattern).redact(text) == (output, count)


@pytest.mark.parametrize("pattern", ["[", "(?P<n>a)", "a" * 10_001])
def test_what_javascript_refuses_is_a_config_error(pattern: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Redactor(patterns=(pattern,))
    assert caught.value.code == "INVALID_CONFIG"


def test_the_error_shows_the_pattern_escaped() -> None:
    with pytest.raises(ConfigError, match=r"pattern \\u\{001b\}\[ is not a JavaScript regular expression"):
        CustomPattern("\x1b[")


def test_patterns_are_not_looked_at_when_disabled() -> None:
    assert Redactor(enabled=False, patterns=("[",)).text("Bearer abcdefgh") == ("Bearer abcdefgh", 0)


def test_each_pattern_sees_what_the_one_before_left() -> None:
    assert Redactor(patterns=("b", r"a\[REDACTED\]c")).text("abc") == (X, 2)
    assert Redactor(patterns=("redacted",)).text("token=abcd") == (f"token=[{X}]", 2)


def test_recording_without_patterns_loads_no_engine() -> None:
    import subprocess

    code = "import sys; from cassette_lab.cassette.redaction import Redactor; Redactor(); print('regress' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_threads_share_a_pattern() -> None:
    pattern = CustomPattern("[\u00e0-\u00ff]+")
    found: list[tuple[str, int]] = []
    threads = [threading.Thread(target=lambda: found.append(pattern.redact("a\u00c9\u00e9b" * 200))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [(f"a{X}b" * 200, 200)] * 4
