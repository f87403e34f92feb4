import base64
import gzip
import hashlib
import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import cassette_lab as cl
from cassette_lab.cassette.columns import BODIES
from cassette_lab.errors import ConfigError
from cassette_lab.views import report, timing_deltas
from tests.unit.cassette_samples import siblings
from tests.unit.cassette_samples import write as write_cassette
from tests.unit.views_samples import NOON, audit, call, every_outcome, many, table

HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(1)>\u202e"


def problems(*rows: tuple[str, int | None, str, str]) -> pa.Table:
    names = ("source", "line", "code", "message")
    return pa.Table.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows],
        schema=pa.schema([("source", pa.string()), ("line", pa.int64()), ("code", pa.string()), ("message", pa.string())]),
    )


@dataclass
class Files:
    """What a lab gives a report."""

    calls: pa.Table = field(default_factory=audit)
    cassettes: pa.Table = field(
        default_factory=lambda: pa.table(
            {
                "source": ["runs/audit.cassette.jsonl"],
                "created_at": pa.array([NOON], pa.timestamp("ms", "UTC")),
                "interactions": [5],
                "completed": [4],
                "failed": [1],
                "aborted": [0],
                "request_storage": ["metadata"],
                "duration_ms": [1210.0],
                "bytes": [12_345],
            }
        )
    )
    problems: pa.Table = field(default_factory=problems)


class Page(HTMLParser):
    """The elements, attributes and visible text of a page; fails on a tag that closes what is not open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.headings: list[str] = []
        self.blocks: dict[str, str] = {}
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "img", "br", "hr", "link", "input"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.blocks[self.tags[-1][1].get("id") or "script"] = data
        elif self.open and self.open[-1] != "style":
            self.words.append(data)
            if self.open[-1] in {"h1", "h2", "h3"}:
                self.headings.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def rows(self, name: str) -> pa.Table:
        """The table in a data block."""
        with pa.ipc.open_stream(gzip.decompress(base64.b64decode(self.blocks[name]))) as stream:
            return stream.read_all()

    def options(self, view: str) -> dict[str, Any]:
        """What a live view is told."""
        options: dict[str, Any] = json.loads(self.blocks[f"clab-{view}-options"])
        return options

    @property
    def data(self) -> str:
        """Everything that is told to the live views, readable."""
        tables = [str(self.rows(name).to_pylist()) for name in self.blocks if not name.endswith(("options", "script"))]
        return " ".join([*tables, *(text for name, text in self.blocks.items() if name.endswith("options"))])


def write(tmp_path: Path, data: object, **options: object) -> tuple[str, Page]:
    html = report(data, tmp_path / "report.html", **options).read_text(encoding="utf-8")  # type: ignore[arg-type]
    page = Page(html)
    assert page.open == []
    return html, page


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Page]:
    """The report of one small file without problems."""
    return write(tmp_path_factory.mktemp("report"), Files())


def test_a_report_has_summary_charts_and_calls_under_headings(audited: tuple[str, Page]) -> None:
    _, page = audited
    assert page.headings == [
        "runs/audit.cassette.jsonl", "Summary", "Explorer", "When the calls ran", "How they ended", "Who called whom",
        "Statistics", "Calls",
    ]  # fmt: skip
    assert "5 calls · 1 did not complete" in page.text
    assert "every file verified" in page.text
    assert "2026-11-30 12:00 UTC" in page.text
    for text in ("audit-tests", "TimeoutError", "620 ms", "12,345"):
        assert text in page.words
    assert "No prompt, output or error message is included." in page.text


def test_a_report_loads_nothing_and_runs_its_own_script_alone(tmp_path: Path) -> None:
    html, page = write(tmp_path, Files(calls=every_outcome()), charts=[timing_deltas(audit(), audit())])
    assert not {tag for tag, _ in page.tags} & {"link", "iframe", "object", "embed", "base", "form", "img"}
    loads = [
        value for _, attributes in page.tags for name, value in attributes.items() if name in ("src", "href", "action", "data")
    ]
    assert loads
    assert all((value or "").startswith("#") for value in loads)
    assert not any(name.startswith("on") or name == "style" for _, attributes in page.tags for name in attributes)
    without_script = html.replace(page.blocks["script"], "")
    assert set(re.findall(r"https?://[^\"'\s<)]+", without_script)) == {
        "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink",
    }  # fmt: skip
    assert not re.search(r"@import|url\((?!#)", without_script)


def test_the_policy_knows_the_script_and_the_style_by_their_hashes(audited: tuple[str, Page]) -> None:
    html, page = audited
    (policy,) = [attributes["content"] or "" for _, attributes in page.tags if "http-equiv" in attributes]
    style = html[html.index("<style>") + 7 : html.index("</style>")]
    assert policy == (
        f"default-src 'none'; script-src '{_hash(page.blocks['script'])}'; style-src '{_hash(style)}'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert html.count("<style>") == 1
    assert [attributes for tag, attributes in page.tags if tag == "script" and "type" not in attributes] == [{}]


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def test_the_explorer_has_all_calls_with_their_whole_keys(audited: tuple[str, Page]) -> None:
    _, page = audited
    (view,) = [attributes for _, attributes in page.tags if "data-cassette-view" in attributes]
    assert view["data-cassette-view"] == "explorer"
    assert view["data-cassette-tables"] == "calls=clab-explorer-calls"
    rows = page.rows("clab-explorer-calls")
    assert rows["call_key"].to_pylist() == audit()["call_key"].to_pylist()
    assert set(rows.column_names) & set(BODIES.names) == set()
    options = page.options("explorer")
    assert options["title"] == "runs/audit.cassette.jsonl"
    assert options["trust"] == {"state": "verified", "words": "chain verified"}
    assert options["bodies"] is False
    assert options["downloads"] is True


def test_where_the_script_does_not_run_pictures_stand_for_the_views(audited: tuple[str, Page]) -> None:
    html, page = audited
    kinds = {attributes["id"]: attributes.get("class") for tag, attributes in page.tags if tag == "section"}
    still = dict.fromkeys(("timeline", "stop-reasons", "topology"), "still")
    assert kinds == {"summary": None, "explorer": "live", **still, "statistics": None, "calls": None}
    assert "html:not([data-cassette-live]) .live { display: none }" in html
    assert '@media screen { html[data-cassette-live="yes"] .still { display: none } }' in html


def test_a_comparison_stands_in_the_report_and_tells_the_other_runs_policy(tmp_path: Path) -> None:
    header, made = siblings()
    calls = list(made)
    last = max(each.sequence for each in calls)
    write_cassette(tmp_path / "before.cassette.jsonl", (header, calls))
    write_cassette(tmp_path / "after.cassette.jsonl", (header, [each for each in calls if each.sequence != last]))
    lab = cl.load(tmp_path / "after.cassette.jsonl")
    html, page = write(tmp_path, lab, compare=tmp_path / "before.cassette.jsonl")
    assert "Compared with another run" in page.headings
    before, after = (page.rows(f"clab-diff-{side}") for side in ("expected", "actual"))
    assert len(before) == len(after) + 1 == len(lab.calls) + 1
    options = page.options("diff")
    told = cl.diff(tmp_path / "before.cassette.jsonl", tmp_path / "after.cassette.jsonl")
    assert options["diff"]["verdict"] == told.verdict
    assert "equal calls with different outcomes" in told.verdict
    assert options["trust"]["words"] == "both chains verified"
    assert "before.cassette.jsonl" in options["title"]
    assert html.index('id="comparison"') < html.index('id="calls"')
    _, of_a_diff = write(tmp_path, told)
    assert of_a_diff.options("diff")["diff"] == options["diff"]
    assert of_a_diff.rows("clab-explorer-calls")["call_key"] == page.rows("clab-explorer-calls")["call_key"]


def test_of_several_runs_a_report_tells_how_sure_the_changes_are(tmp_path: Path) -> None:
    runs = [table(call(1, "a", 0, 100 + 10 * number), source=f"{number}.jsonl") for number in range(4)]
    _, page = write(tmp_path, pa.concat_tables(runs[:2]), compare=pa.concat_tables(runs[2:]))
    assert "How sure the changes are" in page.headings
    assert "Compared with another run" not in page.headings
    assert "2 runs before, 2 after" in page.text
    assert "Before: 2.jsonl, 3.jsonl. After: 0.jsonl, 1.jsonl." in page.text


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    files = Files(
        calls=table(call(1, HOSTILE, 0, 10, error_name=HOSTILE, outcome_kind="result-error"), source=HOSTILE),
        problems=problems((HOSTILE, 3, "CASSETTE_FORMAT", HOSTILE)),
    )
    html, page = write(tmp_path, files, title=HOSTILE, compare=files.calls)
    scripts = [attributes.get("type", "run") for tag, attributes in page.tags if tag == "script"]
    assert scripts.count("run") == 1
    assert {kind for kind in scripts if kind != "run"} == {
        "application/json", "application/vnd.apache.arrow.stream;base64",
    }  # fmt: skip
    assert "img" not in {tag for tag, _ in page.tags}
    assert "\u202e" not in html
    assert "\\u{202e}" in page.text
    assert page.text.count("<script>alert(1)</script>") >= 4


def test_problems_are_told_before_anything_else(tmp_path: Path) -> None:
    _, page = write(tmp_path, Files(problems=problems(("runs/torn.jsonl", 31, "CASSETTE_FORMAT", "the hash does not match"))))
    assert page.headings[:3] == ["runs/audit.cassette.jsonl", "Summary", "Problems"]
    assert "1 problem: what could not be verified is not in this report" in page.text
    assert "every file verified" not in page.text
    for text in ("runs/torn.jsonl", "31", "the hash does not match"):
        assert text in page.words


def test_the_same_data_give_the_same_file(tmp_path: Path, audited: tuple[str, Page]) -> None:
    again, _ = write(tmp_path, Files())
    assert again == audited[0]


def test_of_too_many_calls_the_telling_ones_are_listed(tmp_path: Path) -> None:
    calls = many(900)
    failed = sum(kind != "result" for kind in calls["outcome_kind"].to_pylist())
    html, page = write(tmp_path, calls, max_calls=100)
    assert failed < 100
    assert "100 of 900 calls: first those that did not complete, then the longest." in page.text
    rows = html[html.index('id="calls"') :].count("<tr>") - 1
    assert rows == 100
    assert html[html.index('id="calls"') :].count(">TimeoutError<") == failed
    assert len(page.rows("clab-explorer-calls")) == 900


def test_absolute_paths_do_not_leave_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    outside = table(call(1, "a", 0, 1), source="/home/someone/secret/run.jsonl")
    html, page = write(
        tmp_path, pa.concat_tables([outside, table(call(1, "b", 0, 1), source=str(tmp_path / "runs" / "b.jsonl"))])
    )
    assert "someone" not in html + page.data
    assert str(tmp_path) not in html + page.data
    assert {"run.jsonl", "runs/b.jsonl"} <= set(page.words)


def test_bodies_are_written_only_on_request(tmp_path: Path) -> None:
    said = table(call(1, "a", 0, 1))
    for name, text in zip(BODIES.names, ('[{"text":"the <b>prompt</b>"}]', "the output", None, "x" * 30_000), strict=True):
        said = said.append_column(name, pa.array([text], pa.string()))
    plain, without = write(tmp_path, said)
    assert "the output" not in without.text + without.data
    assert 'data-cassette-bodies="yes"' not in plain
    assert "metadata only: no prompt, no output, no error message" in without.text
    marked, page = write(tmp_path, said, bodies=True)
    assert '<html lang="en" data-cassette-bodies="yes">' in marked
    assert page.rows("clab-explorer-calls")["output"].to_pylist() == ["the output"]
    assert page.options("explorer")["bodies"] is True
    assert '[{"text":"the <b>prompt</b>"}]' in page.words
    assert "… 10,000 more characters" in page.words
    assert "are included" in page.text
    with pytest.raises(ConfigError, match="bodies=True"):
        report(audit(), tmp_path / "no.html", bodies=True)


def test_an_empty_recording_has_a_report(tmp_path: Path) -> None:
    _, page = write(tmp_path, table(source=None))
    assert "this recording has no calls" in page.text
    assert "0 calls" in page.text


def test_every_picture_has_a_name_and_a_table(audited: tuple[str, Page]) -> None:
    _, page = audited
    pictures = [attributes for tag, attributes in page.tags if tag == "svg" and "aria-hidden" not in attributes]
    assert len(pictures) == 4
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in pictures)
    assert sum(tag == "details" for tag, _ in page.tags) == 4
    assert sum(tag == "h1" for tag, _ in page.tags) == 1
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
