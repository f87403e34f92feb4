"""The /flight command: its words in two languages, and names that want to do harm."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import Any

import pytest

from cassette_lab.flight.command import COMMAND_ERRORS, command_input, run_command
from cassette_lab.flight.insight import FACT_KINDS
from cassette_lab.flight.messages import MESSAGES, Locale
from cassette_lab.flight.model import (
    ABORT_CAUSES,
    HEALTH_NAMES,
    MISS_REASONS,
    OUTCOME_KINDS,
    Health,
    NamedSize,
    Omissions,
    Outcome,
    PromptAssembly,
    RecordExtra,
    Snapshot,
    ToolShape,
    Usage,
)
from cassette_lab.flight.wording import MOST_CHARACTERS
from cassette_lab.jsonio.text import show
from cassette_lab.words import MINUS, UNKNOWN, delta_text, duration_text
from tests.unit.flight_samples import record, shape

LOCALES: tuple[Locale, ...] = ("en", "zh")
HOSTILE = "\x1b[31m\u202eevil\ud800\n"
PROMPT = PromptAssembly((NamedSize("sec-tion", 41),), (NamedSize("con-text", 43),), ("tool-name",), ("vari-able",))
RECORDS = (
    record(
        "bbbb2222-x", turn=31, step=32, attempt=33, prompt_assembly=PROMPT,
        request=shape("m-2")._replace(tools=(ToolShape("t-one", 37), ToolShape(HOSTILE, 38)), system_characters=39),
        outcome=Outcome("threw", error="type-error", total_ms=3_456, first_chunk_ms=1_234.5, usage=Usage(51, 52, 53, 54, 55)),
        omissions=Omissions(request_tools=17, prompt_tools=19),
        extra=RecordExtra(error_code="RATE_LIMIT", aborted="timeout", ended_by="run-end", http_status=429),
    ),
    record(
        "aaaa1111-x", request=shape("m-1"), extra=RecordExtra(PROMPT),
        outcome=Outcome("finished", finish="max-tokens", total_ms=456, first_chunk_ms=234, usage=Usage(5, 6)),
    ),
    record("cccc3333-x", session_id="other"),
)  # fmt: skip
HEALTH = Health(101, 102, 103, 104, 105, 106, 107, dict(zip(MISS_REASONS, (108, 109, 110, 111), strict=True)), 112, 113)
SNAPSHOT = Snapshot(7, HEALTH, RECORDS)
VIEWS = ("latest", "show bbbb", "show aaaa", "list", "explain bbbb", "diff", "diff bbbb aaaa", "health", "stats")


def ask(words: str, locale: Locale = "en", snapshot: Snapshot = SNAPSHOT) -> Any:
    return run_command(words, snapshot, "s", locale=locale)


def test_both_languages_have_the_same_keys_and_the_same_places() -> None:
    english, chinese = MESSAGES["en"], MESSAGES["zh"]
    assert english.keys() == chinese.keys()

    def places(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    assert {key: places(text) for key, text in english.items()} == {key: places(text) for key, text in chinese.items()}


def test_every_word_of_a_closed_list_has_one_in_both_languages() -> None:
    wanted = [f"error.{name}" for name in COMMAND_ERRORS] + [f"outcome.{name}" for name in OUTCOME_KINDS]
    wanted += [f"fact.{name}" for name in FACT_KINDS] + [f"health.{name}" for name in MISS_REASONS]
    wanted += [f"health.{name}" for name in HEALTH_NAMES if name != "correlationMissesByReason"]
    wanted += [f"aborted.{name}" for name in ABORT_CAUSES] + [f"change.{name}" for name in ("added", "removed", "changed")]
    assert set(wanted) <= MESSAGES["zh"].keys()


@pytest.mark.parametrize("locale", LOCALES)
@pytest.mark.parametrize("words", VIEWS)
def test_each_text_shows_every_fact(words: str, locale: Locale) -> None:
    result = ask(words, locale)
    for fact in (*facts(result.facts), *facts(result.extended)):
        assert any(form in result.text for form in forms(*fact, locale)), fact


def facts(value: Any, name: str = "", kind: str = "") -> Iterator[tuple[str, Any, str]]:
    """Every leaf: the name of its member, its value, and the field that a change is of."""
    if isinstance(value, dict):
        kind = str(value.get("field", value.get("kind", kind)))
        for member, each in value.items():
            yield from facts(each, member, kind)
    elif isinstance(value, list):
        for each in value:
            yield from facts(each, name, kind)
    else:
        yield name, value, kind


def forms(name: str, value: Any, kind: str, locale: Locale) -> list[str]:
    """How a fact may be told."""
    messages = MESSAGES[locale]
    if name in {"field", "key"} and value is None:
        return [""]
    if name == "kind" and f"fact.{value}" in messages:
        keys = [f"fact.{value}", *(["more.promptAssembly"] if value == "missing-prompt-assembly" else [])]
        return [re.split(r"[{]", messages[key])[0] for key in keys]
    if name in {"kind", "changed", "auxiliary"} or (name == "successRatio"):
        return [""]
    if value is None:
        return [UNKNOWN]
    if isinstance(value, str):
        groups = (name, "change", "outcome", "detail", "aborted")
        named = [messages[key] for group in groups if (key := f"{group}.{value}") in messages]
        return [show(value), *named]
    timing = name in {"firstChunkMs", "totalMs", "median", "p95", "milliseconds"} or kind.startswith("timing.")
    if timing:
        return [delta_text(value) if name == "delta" else duration_text(value)]
    return [(f"{value:g}" if isinstance(value, float) else str(value)).replace("-", MINUS)]


@pytest.mark.parametrize("locale", LOCALES)
def test_hostile_names_are_shown_escaped_and_never_run(locale: Locale) -> None:
    for words in ("latest", "diff", "show \u202ex", "explain \x1b[31m"):
        text = ask(words, locale).text
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202e\ud800-\udfff]", text), words
    assert "\\u{202e}evil" in ask("latest", locale).text
    assert ask("show {prefix.__class__}", locale).error == "not-found"
    assert "{prefix.__class__}" in ask("show {prefix.__class__}", locale).text


@pytest.mark.parametrize("locale", LOCALES)
def test_a_long_text_is_cut_and_errors_are_not(locale: Locale) -> None:
    long = record("long", request=shape("\U0001f600" * 3_000))
    result = ask("latest", locale, Snapshot(records=(long,)))
    assert result.truncated
    assert MOST_CHARACTERS - 1 <= len(result.text.encode("utf-16-le")) // 2 <= MOST_CHARACTERS
    assert result.text.endswith(MESSAGES[locale]["cut"])
    refused = ask(f"show {'x' * 5_000}", locale)
    assert (refused.error, refused.truncated) == ("not-found", False)
    assert "x" * 5_000 in refused.text


def test_the_session_is_ones_own_and_the_health_everybodys() -> None:
    assert ask("list").ids == ("bbbb2222-x", "aaaa1111-x")
    assert ask("show cccc").error == "not-found"
    assert ask("health").facts == HEALTH.to_json()
    assert run_command("", SNAPSHOT, "nobody").error == "no-records"


def test_what_is_a_command() -> None:
    assert [command_input(line) for line in ("/flight", "/flight list", "/flight\r\n")] == ["", " list", "\r\n"]
    assert [command_input(line) for line in ("/flightx", "/FLIGHT", " /flight", "")] == [None] * 4


@pytest.mark.parametrize("limit", ["20", "2.", ".5e1", "0x14", "0b1", "+3", "1e1", "0000000007"])
def test_limits_as_javascript_reads_them(limit: str) -> None:
    assert ask(f"list {limit}").error is None


@pytest.mark.parametrize("limit", ["21", "-0", "1.5", "1e999", "0x", "+0x5", "1_0", "\uff15", "NaN", "Infinity"])
def test_what_is_no_limit(limit: str) -> None:
    assert ask(f"list {limit}").error == "usage"


def test_a_limit_of_any_length_is_read_at_once() -> None:
    assert ask(f"list {'0' * 200_000}7").error is None
    for long in ("1" * 200_000 + "x", "0x" + "f" * 200_000, "." * 200_000):
        assert ask(f"list {long}").error == "usage"


def test_beyond_the_original_there_is_more_to_tell() -> None:
    shown = ask("latest").text
    for part in ("RATE_LIMIT", "a time limit", "the end of its run", "53", "54", "55"):
        assert part in shown
    assert "sec-tion" in ask("show aaaa").text
    assert f"tokens read from caches: {UNKNOWN} → 53" in ask("diff").text
    assert ask("diff").facts["changes"] == [each for each in ask("diff").facts["changes"] if "cache" not in each["field"]]


def test_a_failure_says_its_status_and_its_code() -> None:
    assert "Outcome: failed with a type error, HTTP 429 (RATE_LIMIT)" in ask("show bbbb").text
    assert "- It failed with a type error, HTTP 429 (RATE_LIMIT)." in ask("explain bbbb").text
    bare = record("r", outcome=Outcome("threw", error="error", total_ms=1), extra=RecordExtra(error_code="SERVER"))
    assert "Outcome: failed with an error (SERVER)" in ask("latest", snapshot=Snapshot(records=(bare,))).text


def test_what_a_retry_was_made_of_is_no_oddity_where_it_is_known() -> None:
    text = ask("explain aaaa").text
    assert text.splitlines()[1] == "- Nothing."
    assert "The prompt of the step's first attempt: sections sec-tion; contexts con-text; variables vari-able" in text
    unseen = ask("explain r1", snapshot=Snapshot(records=(record("r1"),))).text
    assert "- Of what its prompt was made was not seen." in unseen


def test_a_diff_is_in_words() -> None:
    text = ask("diff bbbb aaaa").text
    assert "outcome: failed → finished" in text
    assert f"characters of system text: 39 → 10 ({MINUS}29)" in text
    assert f"tool t-one: removed (37 → {UNKNOWN})" in text


def test_health_begins_with_a_sentence() -> None:
    def first(health: Health) -> str:
        return str(ask("health", snapshot=Snapshot(health=health)).text.splitlines()[0])

    assert first(Health()) == "No request of this process so far."
    assert first(Health(captured=3, completed=3)).startswith("All is well:")
    assert first(Health(captured=3, projection_failures=1)).startswith("Not every request")


def test_all_sessions_can_be_listed() -> None:
    result = run_command("list", SNAPSHOT, None)
    assert result.ids == ("bbbb2222-x", "aaaa1111-x", "cccc3333-x")
    assert result.text.splitlines()[-1].endswith("running  session other")


def test_nothing_yet_and_nothing_of_the_kind_are_two_things() -> None:
    assert ask("list", snapshot=Snapshot()).text == "No request of this session yet."
    none_such = ask("list slow", snapshot=Snapshot(records=(record("r"),)))
    assert (none_such.error, none_such.text) == ("no-records", "No request that is kept of this session is so.")
