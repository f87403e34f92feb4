"""Custom patterns: ECMAScript regular expressions without the u flag, over UTF-16 units."""

from __future__ import annotations

import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.cassette.redaction import Redactor
from cassette_lab.cassette.redaction.custom import CustomPattern
from cassette_lab.cassette.redaction.javascript import translate
from cassette_lab.errors import ConfigError

X = "[REDACTED]"


@pytest.mark.parametrize(
    ("pattern", "text", "output"),
    [
        # flags g and i
        ("customer-[0-9]+", "CUSTOMER-1 customer-22", f"{X} {X}"),
        ("^a$", "a\na", "a\na"),
        ("a.b", "a\nb a\u2028b a\x85b", f"a\nb a\u2028b {X}"),
        # empty matches advance by one unit
        ("", "ab", f"{X}a{X}b{X}"),
        ("x*", "axb", f"{X}a{X}{X}b{X}"),
        ("", "\U0001f600", f"{X}\ud83d{X}\ude00{X}"),
        ("(?=b)", "ab\u00e9b", f"a{X}b\u00e9{X}b"),
        # UTF-16 units
        ("\\ud83d", "\U0001f600", f"{X}\ude00"),
        ("\ud83d", "\U0001f600", f"{X}\ude00"),
        ("\\ude00", "x\U0001f600y", f"x\ud83d{X}y"),
        ("\\ud83d\\ude00", "\U0001f600", X),
        ("\U0001f600", "a\U0001f600", f"a{X}"),
        ("\U0001f600{2}", "\U0001f600\U0001f600 \U0001f600\ude00", f"\U0001f600\U0001f600 {X}"),
        ("[\U0001f600]", "\U0001f600", f"{X}{X}"),
        ("a.b", "a\U0001f600b a\ud800b", f"a\U0001f600b {X}"),
        ("a..b", "a\U0001f600b", X),
        ("[^a]", "\U0001f601\u00e9", f"{X}{X}{X}"),
        ("[\\u0080-\\uffff]", "a\u00e9\U0001f600", f"a{X}{X}{X}"),
        ("[\\ud800-\\udbff][\\udc00-\\udfff]", "a\U0001f600\ud800", f"a{X}\ud800"),
        ("\\ud800", "\ud800\ud83d", f"{X}\ud83d"),
        ("\\W\\D\\S", "\U0001f600\ud800", X),
        ("(.)\\1", "\U0001f600 \ud83d\ud83d", f"\U0001f600 {X}"),
        # i without u: one upper-case letter, never across U+007F
        ("k", "kK\u212a", f"{X}{X}\u212a"),
        ("\u212a", "kK\u212a", f"kK{X}"),
        ("[s]", "sS\u017f", f"{X}{X}\u017f"),
        ("i", "iI\u0130\u0131", f"{X}{X}\u0130\u0131"),
        ("\u00df", "\u00df\u1e9ess", f"{X}\u1e9ess"),
        ("\u03c3", "\u03c3\u03c2\u03a3", X * 3),
        ("[\u01c4]", "\u01c4\u01c5\u01c6", X * 3),
        ("\u00e5", "\u00e5\u00c5\u212b", f"{X}{X}\u212b"),
        ("\u1fb3", "\u1fb3\u1fbc", f"{X}\u1fbc"),
        ("[Z-a]", "_z`AbB", f"{X}{X}{X}{X}bB"),
        ("[^a-z]", "aZ\u017f\u212a0", f"aZ{X}{X}{X}"),
        ("\\w", "\u00e9e_\u017f\u212a", f"\u00e9{X}{X}\u017f\u212a"),
        ("(k)\\1", "kK k\u212a", f"{X} k\u212a"),
        # modifiers
        ("(?-i:a)b", "AB aB ab", f"AB {X} {X}"),
        ("(?-i:a)[k]s", "aKS aks AKs a\u212as", f"{X} {X} AKs a\u212as"),
        ("(?-i:(a))\\1", "aA AA", f"{X} AA"),
        ("(?-i:a(?i:b))c", "aBC aBc AbC", f"{X} {X} AbC"),
        ("(?s:.)", "\n", X),
        ("(?m:^b)", "a\nb", f"a\n{X}"),
        # escapes of Annex B
        ("\\u{3}", "uuu u{3}", f"{X} u{{3}}"),
        ("\\u12", "u12", X),
        ("\\x4b\\x4", "Kx4", X),
        ("\\cA\\c\\c1", "\x01\\c\\c1", X),
        ("[\\cA\\c_][\\c]", "\x01\\ \x1fc", f"{X} {X}"),
        ("\\0\\07\\101", "\x00\x07a", X),
        ("\\1(a)", "aa", X + X),
        ("(a)\\2\\8", "a\x028", X),
        ("\\k<n>", "k<n>", X),
        ("(?<n>a)\\k<n>", "aA", X),
        ("(?:(?<n>a)|(?<n>b))\\k<n>", "aa bb ab", f"{X} {X} ab"),
        ("(?<\\u{1d4d0}>a)\\k<\U0001d4d0>", "aa", X),
        ("[\\b\\B]", "\bb", X + X),
        ("[\\w-:]", "a-:b", X * 4),
        ("a{,2}|b{|]|}", "a{,2} b{ ] }", f"{X} {X} {X} {X}"),
        ("\\p{2}\\q\\-", "ppq-", X),
        ("[]|a[^]", "ab", X),
        ("[[:alpha:]]", "a] :]", f"{X} {X}"),
        ("(?<=a?b)\\d(?!2)", "ab1 b12", f"ab{X} b12"),
    ],
)
def test_matches_as_javascript_does(pattern: str, text: str, output: str) -> None:
    joined = output.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert CustomPattern(pattern).redact(text) == (joined, output.count(X))


@pytest.mark.parametrize(
    "pattern",
    [
        "[", "(", ")", "*", "+a", "?", "a{2,1}", "\\", "a**", "a++", "(?<1>a)", "[b-a]", "[\U0001f600-\U0001f602]", "(?#c)",
        "(?>a)", "(?<n>a)\\k<m>", "(?<n>a)\\k", "(?<n>a)[\\k]", "(?<n>a)(?<n>b)", "{1}", "(?<=a)*", "\\b+", "\\B{2}", "^*",
        "a|*", "(?:a", "(?(1)a|b)", "(?P<n>a)", "(?-:a)", "(?ii:a)", "(?i-i:a)", "(?m)", "(?<n", "[\\", "a" * 10_001,
    ],
)  # fmt: skip
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


PATTERN_TEXT = st.text("ab\\[](){}|*+?^$.-,:<=!kucxdw019\ud83d\ude00\U0001f600\u00e9", max_size=12)


@settings(max_examples=250, deadline=None)
@given(PATTERN_TEXT, st.text("abkK01-\\\n\U0001f600\ud83d\u00e9", max_size=12))
def test_any_pattern_is_used_or_refused(pattern: str, text: str) -> None:
    try:
        compiled = CustomPattern(pattern)
    except ConfigError:
        return
    output, count = compiled.redact(text)
    assert output.count(X) == count
    assert count or output == text


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=10))
def test_literal_patterns_match_themselves(text: str) -> None:
    escaped = "".join(f"\\u{code:04x}" for code in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"))
    if text:
        assert CustomPattern(escaped).redact(text) == (X, 1)
    assert translate(escaped).folds
