"""JavaScript's regular expressions without the u flag, over UTF-16 units; modifiers and repeated names are ES2025."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.javascript import Match, Pattern, PatternSyntaxError, replaced
from cassette_lab.javascript.translation import translate

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
def test_matches_with_the_flags_g_and_i(pattern: str, text: str, output: str) -> None:
    spans = Pattern(pattern, ignore_case=True).spans(text)
    assert replaced(text, spans, X) == joined(output)
    assert len(spans) == output.count(X)


@pytest.mark.parametrize(
    ("pattern", "text", "output"),
    [
        ("a|É|[k]", "aA éÉ kK", f"{X}A é{X} {X}K"),
        ("[\u212a-\u212b]s", "Ks \u212as \u212bS", f"Ks {X} \u212bS"),
        ("(?i:a)b", "AB aB Ab", f"AB aB {X}"),
        ("(?i:[k])s", "Ks KS \u212as", f"{X} KS \u212as"),
        ("(a)\\1", "aA aa", f"aA {X}"),
        # classes whose ranges go over surrogates, by units
        ("[!-\\ud800]", "~\ud7ff\ud800\ud801", f"{X}{X}{X}\ud801"),
        ("[\\udfff-\\uffff]", "\U0001f680\udfff\ufeff", f"\U0001f680{X}{X}"),
        ("[^\\ud800-\\udfff]", "\ud83da\U0001f680\ufb00", f"\ud83d{X}\U0001f680{X}"),
        ("[z-\U0001f680]", "~\U0001f680\ude81", f"{X}{X}{X}\ude81"),
        ("[\\u0000-\\ud83d]\\ude80", "\U0001f680 \U0001f30d", f"{X} \U0001f30d"),
        ("[^\\W\U0001f680]+", "ab\U0001f680c", f"{X}\U0001f680{X}"),
        ("\U0001f680+", "\U0001f680\ude80\U0001f680", f"{X}{X}"),
        # what looks like a name and is none
        ("(><)\\k<n>", "><k<n>", X),
        ("(a<b>)\\k", "a<b>k", X),
        ("[(?<n>]\\k", "nk (k", f"{X} {X}"),
        ("\\(?<n>\\k", "(<n>k <n>k", f"{X} {X}"),
    ],
)
def test_matches_with_the_flag_g_alone(pattern: str, text: str, output: str) -> None:
    assert replaced(text, Pattern(pattern).spans(text), X) == joined(output)


@pytest.mark.parametrize(
    "pattern",
    [
        "[", "(", ")", "*", "+a", "?", "a{2,1}", "\\", "a**", "a++", "(?<1>a)", "[b-a]", "[\U0001f600-\U0001f602]", "(?#c)",
        "(?>a)", "(?<n>a)\\k<m>", "(?<n>a)\\k", "(?<n>a)[\\k]", "(?<n>a)(?<n>b)", "{1}", "(?<=a)*", "\\b+", "\\B{2}", "^*",
        "a|*", "(?:a", "(?(1)a|b)", "(?P<n>a)", "(?-:a)", "(?ii:a)", "(?i-i:a)", "(?m)", "(?<n", "[\\", "a" * 10_001,
    ],
)  # fmt: skip
def test_refuses_what_javascript_refuses(pattern: str) -> None:
    for ignore_case in (False, True):
        with pytest.raises(PatternSyntaxError):
            Pattern(pattern, ignore_case=ignore_case)


def test_the_last_match_and_its_first_group() -> None:
    assert Pattern("goal-(\\w+)").last_match("goal-1 é goal-2") == Match("goal-2", "2")
    assert Pattern("(a)|b").last_match("a\U0001f680b") == Match("b", None)
    assert Pattern(".").last_match("\U0001f680") == Match("\ude80", None)
    assert Pattern("..").last_match("a\U0001f680") == Match("a\ud83d", None)
    assert Pattern("É(.*)", ignore_case=True).last_match("éß\U0001f680") == Match("éß\U0001f680", "ß\U0001f680")
    assert Pattern("a(x?)").last_match("a") == Match("a", "")
    assert Pattern("c").last_match("ab") is None


def test_a_pattern_too_long_for_the_engine_is_refused() -> None:
    assert Pattern("a|" * 5_000).spans("b") == [(0, 0), (1, 1)]
    with pytest.raises(PatternSyntaxError, match="1,000,000 characters are too long, 10,000 are allowed"):
        Pattern("a|" * 500_000)  # a million would end the process


def test_the_engine_is_loaded_with_the_first_pattern() -> None:
    code = "import sys; from cassette_lab.javascript import Pattern; before = 'regress' in sys.modules; Pattern('a')"
    code += "; print(before, 'regress' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False True\n"


def joined(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


PATTERN_TEXT = st.text("ab\\[](){}|*+?^$.-,:<=!kucxdw019\ud83d\ude00\U0001f600\u00e9", max_size=12)


@settings(max_examples=250, deadline=None)
@given(PATTERN_TEXT, st.text("abkK01-\\\n\U0001f600\ud83d\u00e9", max_size=12), st.booleans())
def test_any_pattern_is_used_or_refused(source: str, text: str, ignore_case: bool) -> None:
    try:
        pattern = Pattern(source, ignore_case=ignore_case)
    except PatternSyntaxError:
        return
    text = joined(text)
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2
    spans = pattern.spans(text)
    assert spans == sorted(spans)
    assert all(0 <= start <= end <= units for start, end in spans)
    last = pattern.last_match(text)
    assert (None if last is None else len(last.text.encode("utf-16-le", "surrogatepass")) // 2) == (
        spans[-1][1] - spans[-1][0] if spans else None
    )


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=10), st.booleans())
def test_literal_patterns_match_themselves(text: str, ignore_case: bool) -> None:
    escaped = "".join(f"\\u{code:04x}" for code in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"))
    if text:
        assert replaced(text, Pattern(escaped, ignore_case=ignore_case).spans(text), X) == X
    assert translate(escaped, ignore_case=ignore_case).folds is ignore_case
