"""The line, the picture and the comparison under a cell."""

from __future__ import annotations

import base64
import re
import xml.etree.ElementTree as ET

import pytest

from cassette_lab.cassette.matching import Matcher
from cassette_lab.cassette.model import Cassette, ErrorFacts, Header, Interaction, Outcome, ProviderFacts, StoredRequest, Timing
from cassette_lab.cassette.topology import TopologyTracker
from cassette_lab.contracts import ParentAgent
from cassette_lab.errors import FormatError, MismatchError
from cassette_lab.notebook.display import Facts, QuietLine, explanation, sentence
from cassette_lab.notebook.strip import MOST_BARS, Bar, bars_of, in_words, picture
from cassette_lab.views.theme import CATEGORIES

Json = dict[str, object]


def request(text: str, label: str = "audit", **members: object) -> Json:
    return {"prompt": [{"type": "text", "text": text}], "label": label, **members}


def call(sequence: int, asked: Json, outcome: Outcome, started_at: str = "2026-01-02T03:04:05.000Z") -> Interaction:
    place = TopologyTracker(inherits_parent_context=False).reserve(asked, ParentAgent())
    return Interaction(
        sequence,
        place.call_key,
        place.parent_key,
        place.parent_context_fingerprint,
        place.request_fingerprint,
        1,
        StoredRequest(value=asked),
        Timing(started_at, 20.0, 100.0),
        outcome.kind != "start-error",
        local=False,
        outcome=outcome,
    )


COMPLETED = Outcome("result", {"output": [], "stopReason": "completed"})
FAILED = Outcome("result-error", error=ErrorFacts("ValueError", "no"))


def matcher(*calls: Interaction) -> Matcher:
    return Matcher(Cassette(Header("id", "2026-01-02", ProviderFacts("cassette", "spawn"), "full"), calls, path="run.jsonl"))


def mismatch(matcher: Matcher, asked: Json) -> MismatchError:
    with pytest.raises(MismatchError) as caught:
        matcher.match(asked, ParentAgent())
    return caught.value


def test_a_quiet_line_is_one_line_and_escapes_what_it_names() -> None:
    line = QuietLine("▶", ["replayed 2 of 2 calls", "evil \x1b[31m\n<b>"], "a<img src=x>\u202e.jsonl", '<img alt="x">')
    bundle = line.bundle()
    assert bundle["text/plain"] == "▶ replayed 2 of 2 calls · evil \\u{001b}[31m\\u{000a}<b> · a<img src=x>\\u{202e}.jsonl"
    assert "<img src" not in bundle["text/html"]
    assert "&lt;b&gt;" in bundle["text/html"]
    assert bundle["text/html"].count('<img alt="x">') == 1


def test_facts_are_a_mapping_that_shows_itself() -> None:
    facts = Facts(QuietLine("✓", ["verified"], "f"), {"interactions": 3}, [("calls", "3"), ("provider", "<i>\n")])
    assert facts["interactions"] == 3
    assert dict(facts) == {"interactions": 3}
    assert repr(facts) == "✓ verified · f\n  calls     3\n  provider  <i>\\u{000a}"
    assert "<i>" not in facts._repr_mimebundle_()["text/html"]


def test_bars_start_at_the_first_call_and_take_odd_dates() -> None:
    bars = bars_of(
        [
            call(1, request("a"), COMPLETED, "2026-01-02T03:04:05.500Z"),
            call(2, request("b"), FAILED, "2026-01-02T03:04:05.000Z"),
            call(3, request("c"), Outcome("result", {"output": [], "stopReason": "tea"}), "soon"),
        ]
    )
    assert [(bar.at_ms, bar.latency_ms, bar.duration_ms, bar.category.name) for bar in bars] == [
        (500, 20, 100, "completed"),
        (0, 20, 100, "result-error"),
        (0, 20, 100, "other"),
    ]


def drawn(bars: list[Bar]) -> ET.Element:
    found = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', picture(bars))
    assert found is not None
    return ET.fromstring(base64.b64decode(found[1]))  # noqa: S314 - our own picture


@pytest.mark.parametrize("count", [1, 8, 60, MOST_BARS, MOST_BARS + 1, 5_000])
def test_the_picture_is_small_well_formed_and_said_in_words(count: int) -> None:
    categories = list(CATEGORIES.values())
    bars = [Bar(10 * i, 2, 50, categories[i % len(categories)]) for i in range(count)]
    root = drawn(bars)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert height < 80
    for rect in root.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(rect.get("x", 0)) + float(rect.attrib["width"]) <= width
        assert float(rect.get("y", 0)) + float(rect.attrib["height"]) <= height
    assert len(picture(bars)) < 150_000
    assert in_words(bars) in picture(bars)


def test_no_calls_no_picture() -> None:
    assert picture([]) == ""


def test_words_count_every_outcome() -> None:
    bars = [
        Bar(0, 0, 840, CATEGORIES["completed"]),
        Bar(0, 0, 10, CATEGORIES["aborted"]),
        Bar(900, 0, 100, CATEGORIES["completed"]),
    ]
    assert in_words(bars) == "3 calls over 1.0 s: 2 completed, 1 aborted"


def test_a_mismatch_shows_the_nearest_calls_and_marks_what_differs() -> None:
    player = matcher(call(1, request("one <b>"), COMPLETED), call(2, request("two", "docs"), COMPLETED))
    error = mismatch(player, request("one <b>!"))
    bundle, nearest = explanation(error), error.diagnostic.nearest()[0]
    assert bundle is not None
    rows = re.findall(r"<tr>(.*?)</tr>", bundle["text/html"])
    assert "asked" in rows[1]
    assert "#1" in rows[2]
    assert "prompt length" in rows[2]
    assert re.findall("≠ ([^<]+)", rows[2]) == [f"{nearest.metadata.prompt_bytes} bytes"]
    assert len(rows) == 3  # calls of other labels are not shown beside one of the same
    assert "and 1 other recorded call" in bundle["text/html"]
    assert [text for text in ("label", "prompt", "model", "other members") if f">{text}</th>" in rows[0]] == ["label", "prompt"]
    assert "why: nothing recorded for this request; a call with the same label was recorded" in bundle["text/plain"]
    assert "next: " in bundle["text/plain"]


def test_labels_of_a_mismatch_are_escaped() -> None:
    player = matcher(call(1, request("one", "<script>alert(1)</script>\u202e"), COMPLETED))
    bundle = explanation(mismatch(player, request("one", "\x1b]0;x\x07<img src=x>")))
    assert bundle is not None
    assert "<script" not in bundle["text/html"]
    assert "<img" not in bundle["text/html"]
    assert "\x1b" not in bundle["text/plain"] + bundle["text/html"]
    assert "\u202e" not in bundle["text/plain"] + bundle["text/html"]


def test_missing_calls_are_named() -> None:
    player = matcher(call(1, request("one"), COMPLETED), call(2, request("two", "docs"), COMPLETED))
    player.match(request("one"), ParentAgent())
    with pytest.raises(MismatchError) as caught:
        player.assert_consumed()
    bundle = explanation(caught.value)
    assert bundle is not None
    assert bundle["text/plain"].startswith("1 of 2 recorded calls was never asked for\n  #2 root/docs-")


def test_an_error_is_one_line_with_its_place(tmp_path: object) -> None:
    error = FormatError("the hash is wrong\nor so", path=f"{tmp_path}/a\tb.jsonl", line=3)
    assert sentence(error) == f"{tmp_path}/a\\u{{0009}}b.jsonl, line 3: the hash is wrong\\u{{000a}}or so"
