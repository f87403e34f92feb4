from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.errors import ConfigError, FormatError, MissingFileError
from cassette_lab.session.answers import derive_replay_script, derive_stream_script
from cassette_lab.session.collation import collation_key
from cassette_lab.session.entries import CallChunks, Chunks
from cassette_lab.session.fixtures import ScriptHeader, parse_session_header, parse_session_log, stored_rows
from cassette_lab.session.model import ChunkRun
from cassette_lab.session.reader import read_session
from cassette_lab.session.scripts import load_replay_script, load_session_scripts, script_of_log
from tests.unit.replay_samples import FINISH, answer, asked, call, log, settled, words
from tests.unit.session_samples import event, frames, header, packed, text, write
from tests.unit.test_session_sqlite import make_store, row

SHARED = Path(__file__).resolve().parents[3] / "shared" / "golden" / "session"


def code_of(error: pytest.ExceptionInfo[FormatError]) -> str:
    return error.value.code


class TestFixtures:
    def test_what_has_no_place_in_the_log_gets_one(self) -> None:
        row = packed(0, "a", "b")
        del row["seq0"], row["time0"]
        lines = text(header(), {"type": "x"}, row, {"type": "y", "seq": None}, {"type": "z", "seq": 9, "time": 3})
        events = parse_session_log(lines)
        assert [(event["seq"], event["time"]) for event in events] == [(0, 0), (1, 0), (2, 2), (None, 0), (9, 3)]

    def test_line_breaks_and_blank_lines(self) -> None:
        lines = b" \r\n\xc2\xa0\n" + b"\r\n\t\n".join(text(header(), event(0, "x"), event(1, "y")).split(b"\n"))
        assert [event["type"] for event in parse_session_log(lines)] == ["x", "y"]
        assert parse_session_log(lines) == parse_session_log(lines.decode())

    def test_the_first_line_is_not_looked_at_by_the_log(self) -> None:
        assert parse_session_log("{no json\n") == []

    def test_the_last_of_equal_members_counts(self) -> None:
        assert parse_session_log('{}\n{"type":"x","seq":1,"seq":2,"time":0}') == [{"type": "x", "seq": 2, "time": 0}]

    @pytest.mark.parametrize(
        ("line", "code"),
        [
            ('{"type":', "BAD_JSON_LINE"),
            ('{"type":NaN}', "BAD_JSON_LINE"),
            ("\ufeff{}", "BAD_JSON_LINE"),
            ("[1]", "LINE_NOT_OBJECT"),
            ("null", "LINE_NOT_OBJECT"),
            ('{"type":"text-chunks","seq0":null,"data":{}}', "MALFORMED_ROW"),
            ('{"type":"text-chunks","more":1,"data":{}}', "MALFORMED_ROW"),
            ('{"type":"text-chunks","data":{"turn":1,"step":1,"index":0,"dt":[true],"texts":["",""]}}', "MALFORMED_ROW"),
            ('{"type":"text-chunks","data":{"turn":1,"step":1,"index":0,"dt":[],"texts":[]}}', "MALFORMED_ROW"),
        ],
    )
    @pytest.mark.parametrize("as_bytes", [True, False])
    def test_a_bad_line_is_named(self, line: str, code: str, as_bytes: bool) -> None:
        source = f"{{}}\n\n{line}\n"
        with pytest.raises(FormatError) as error:
            parse_session_log(source.encode() if as_bytes else source, path="some.jsonl")
        assert (code_of(error), error.value.line, error.value.path) == (code, 3, "some.jsonl")

    def test_the_header_is_forgiving_about_types_only(self) -> None:
        assert parse_session_header('\n{"id":1,"createdAt":"5","seedLength":true}\n{') == ScriptHeader()
        assert parse_session_header('{"id":"s","createdAt":5.5,"seedLength":-2,"version":4}') == ScriptHeader("s", 5.5, -2, 4)
        assert parse_session_header("") == parse_session_header('"x"') == ScriptHeader()
        with pytest.raises(FormatError) as error:
            parse_session_header("null")
        assert code_of(error) == "TYPE_ERROR"
        with pytest.raises(FormatError) as error:
            parse_session_header("{oops")
        assert code_of(error) == "JSON_SYNTAX"

    def test_half_a_surrogate_pair_survives(self) -> None:
        (event,) = parse_session_log(b'{}\n{"type":"x","data":"\\ud83d"}')
        assert event["data"] == "\ud83d"


class TestDeriving:
    def test_every_finish_ends_a_call(self) -> None:
        noise = event(9, "session/title", {"title": "t"})
        entries = derive_replay_script([*call("one"), noise, *call("two"), *call("three", step=2)])
        assert words(entries) == ["one", "two", "three"]
        assert [entry.to_json()["chunks"] for entry in entries] == [answer("one"), answer("two"), answer("three")]

    @pytest.mark.parametrize("after", [[], call("next", step=2), [event(9, "compaction/summary", {"summary": []})]])
    def test_a_call_without_its_finish_is_refused(self, after: list[dict[str, Any]]) -> None:
        with pytest.raises(FormatError, match="turn/step 1/1 ended without a finish") as error:
            derive_replay_script([*call("cut", finished=False), *after])
        assert code_of(error) == "MISSING_FINISH"

    def test_turns_are_compared_as_javascript_writes_them(self) -> None:
        half = call("ab", finished=False)
        for turn, same in [(1.0, True), ("1", True), ([1], True), (True, False), (None, False)]:
            finish = {"type": "assistant/chunk", "data": {"turn": turn, "step": 1, "chunk": FINISH}}
            if same:
                assert words(derive_replay_script([*half, finish])) == ["ab"]
            else:
                with pytest.raises(FormatError):
                    derive_replay_script([*half, finish])

    def test_packed_and_single_rows_are_the_same_chunks(self) -> None:
        single = [
            event(seq, "assistant/chunk", {"turn": 1, "step": 1, "chunk": chunk}) for seq, chunk in enumerate(answer("x"))
        ]
        lines = text(header(), single[0], packed(1, "a", "b", "c"), single[2])
        unpacked = parse_session_log(lines)
        assert derive_replay_script(stored_rows(lines)) == derive_replay_script(unpacked)
        assert words(derive_replay_script(unpacked)) == ["abc"]

    def test_a_summary_by_a_local_call_counts_as_one(self) -> None:
        block = {"type": "text", "text": "S"}
        marked = {"llmStreamCall": True, "rawOutput": [block], "usage": {"outputTokens": 3}}
        summary = event(0, "compaction/summary", marked)
        (entry,) = derive_replay_script([summary])
        assert entry.to_json()["chunks"] == [
            {"type": "block-start", "index": 0, "blockType": "text"},
            {"type": "block-end", "index": 0, "block": block},
            {"type": "usage", "usage": {"outputTokens": 3}},
            FINISH,
        ]
        assert derive_stream_script([summary]) == [entry]
        others: list[dict[str, Any]] = [{"rawOutput": [block]}, {"llmStreamCall": False}, {"llmStreamCall": 1}]
        assert derive_replay_script(event(0, "compaction/summary", data) for data in others) == []
        assert derive_replay_script([event(0, "compact/summary", marked)]) == []

    @pytest.mark.parametrize(
        ("kind", "data", "code"),
        [
            ("compaction/summary", {"llmStreamCall": True}, "SUMMARY_WITHOUT_OUTPUT"),
            ("compaction/summary", {"llmStreamCall": True, "rawOutput": None}, "TYPE_ERROR"),
            ("compaction/summary", {"llmStreamCall": True, "rawOutput": [None]}, "TYPE_ERROR"),
            ("assistant/chunk", "text", "TYPE_ERROR"),
            ("assistant/chunk", {"turn": 1, "step": 1}, "TYPE_ERROR"),
            ("assistant/chunk", {"turn": 1, "step": 1, "chunk": None}, "TYPE_ERROR"),
        ],
    )
    def test_an_event_that_is_not_what_it_should_be(self, kind: str, data: Any, code: str) -> None:
        with pytest.raises(FormatError) as error:
            derive_replay_script([event(0, kind, data)])
        assert code_of(error) == code

    def test_streams_of_later_formats(self) -> None:
        empty = event(3, "assistant/attempt", {"turn": 1, "step": 1, "stream": []})
        rows = [settled(0, "one"), event(1, "turn/end"), settled(2, "two", "assistant/attempt"), empty]
        entries = derive_stream_script(rows)
        assert words(entries) == ["one", "two"]
        assert entries[0].to_json()["chunks"][1:3] == [{"type": "text-delta", "index": 0, "text": char} for char in "on"]
        with pytest.raises(FormatError) as error:
            derive_stream_script([settled(0, "cut", finished=False)])
        assert code_of(error) == "MISSING_FINISH"
        with pytest.raises(FormatError) as error:
            derive_stream_script([event(0, "assistant/message", {"stream": [{"type": "text-chunks"}]})])
        assert code_of(error) == "MALFORMED_ROW"


class TestLoading:
    def test_the_primary_is_whole_and_a_child_begins_behind_what_it_inherited(self, tmp_path: Path) -> None:
        calls = [*call("inherited"), *call("own", turn=2)]
        for seed, own in [
            (3, ["own"]),
            (3.9, ["own"]),
            (-3, ["own"]),
            (-3.5, ["own"]),
            (99, []),
            (0, ["inherited", "own"]),
            (-99, ["inherited", "own"]),
            (None, ["inherited", "own"]),
        ]:
            members = {} if seed is None else {"seedLength": seed}
            root = log(tmp_path / "root.jsonl", *calls, id="root", **members)
            child = log(tmp_path / "child.jsonl", *calls, id="child", **members)
            primary, second = load_session_scripts(root, [child])
            assert (primary.recorded_id, primary.primary, words(primary.entries)) == ("root", True, ["inherited", "own"])
            assert (second.recorded_id, second.primary, words(second.entries)) == ("child", False, own)

    def test_a_boundary_inside_a_packed_row(self, tmp_path: Path) -> None:
        finish = event(3, "assistant/chunk", {"turn": 1, "step": 1, "chunk": FINISH})
        child = log(tmp_path / "child.jsonl", packed(0, "a", "b", "c"), finish, seedLength=2)
        _, second = load_session_scripts(log(tmp_path / "root.jsonl"), [child])
        assert words(second.entries) == ["c"]

    def test_children_follow_by_creation_and_then_as_a_person_sorts(self, tmp_path: Path) -> None:
        made = [("late", 30), ("b", 20), ("C", 20), ("a", 20), ("early", 1)]
        children = [log(tmp_path / f"{name}.jsonl", id=name, createdAt=at) for name, at in made]
        scripts = load_session_scripts(log(tmp_path / "root.jsonl", id="root", createdAt=100), children)
        assert [script.recorded_id for script in scripts] == ["root", "early", "a", "b", "C", "late"]

    def test_missing_files(self, tmp_path: Path) -> None:
        root = log(tmp_path / "root.jsonl")
        with pytest.raises(MissingFileError) as error:
            load_session_scripts(tmp_path / "none.jsonl")
        assert (code_of(error), error.value.path) == ("FIXTURE_MISSING", str(tmp_path / "none.jsonl"))
        with pytest.raises(FileNotFoundError) as missing:
            load_session_scripts(root, [tmp_path / "none.jsonl"])
        assert isinstance(missing.value, MissingFileError)
        for name in ("nul\0", "x" * 5_000):
            with pytest.raises(MissingFileError):
                load_session_scripts(name, override_file=name)
        assert missing.value.code == "CHILD_MISSING"
        assert words(load_replay_script(root, tmp_path / "no-override.json")) == []
        with pytest.raises(FormatError, match="no session log in this folder"):
            load_session_scripts(write(tmp_path / "empty" / "x.txt", b"").parent)

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
    def test_a_pipe_that_nobody_writes_holds_nobody_up(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        for files in ([tmp_path / "pipe"], [log(tmp_path / "s.jsonl"), [], tmp_path / "pipe"]):
            with pytest.raises(FormatError, match="this is a device or pipe, not a file"):
                load_session_scripts(*files)

    def test_a_replacement_needs_no_readable_log(self, tmp_path: Path) -> None:
        override = write(tmp_path / "o.json", b'[{"kind":"hang"}]')
        broken = write(tmp_path / "broken.jsonl", text(header(id="b"), event(0, "user/message", asked("hi"))) + b"{")
        for file, name, first in [(broken, "b", ("hi",)), (tmp_path / "none.jsonl", "", None)]:
            (script,) = load_session_scripts(file, override_file=override)
            assert script.to_json() == {
                "recordedId": name,
                "createdAt": script.created_at,
                "entries": [{"kind": "hang"}],
                "primary": True,
            }
            assert script.first_message == first

    def test_a_line_that_cannot_be_read_is_told_before_a_call_without_end(self, tmp_path: Path) -> None:
        file = write(tmp_path / "s.jsonl", text(header(), *call("cut", finished=False), *call("x", step=2)) + b"{\n")
        with pytest.raises(FormatError) as error:
            load_session_scripts(file)
        assert (code_of(error), error.value.line) == ("BAD_JSON_LINE", 7)

    def test_the_version_of_the_header_chooses(self, tmp_path: Path) -> None:
        rows = [event(0, "user/message", asked("do it")), settled(1, "new")]
        file = write(tmp_path / "session.v4.jsonl", text(header(4), *rows))
        packed_file = write(tmp_path / "session.v4.jsonl.zstd", b"".join(frames([[header(4)], rows])))
        for path in (file, packed_file):
            (script,) = load_session_scripts(path)
            assert words(script.entries) == ["new"]
            assert (script.recorded_id, script.first_message) == ("sample", ("do it",))
        assert load_session_scripts(file, version=0)[0].entries == []  # chunk events are all that counts there
        old = write(tmp_path / "session.jsonl.zstd", b"".join(frames([[header()], call("old")])))
        assert words(load_session_scripts(old)[0].entries) == ["old"]

    def test_a_marker_ends_what_a_later_format_inherited(self, tmp_path: Path) -> None:
        rows = [
            event(0, "user/message", asked("parent's")),
            settled(1, "inherited"),
            event(2, "session/end-seed", {"inherited": True}),
            event(3, "user/message", asked("own task")),
            settled(4, "own"),
        ]
        file = write(tmp_path / "session.v4.jsonl", text(header(4, isSeeded=True), *rows))
        primary, child = load_session_scripts(file, [file])
        assert (words(primary.entries), primary.first_message) == (["inherited", "own"], ("parent's",))
        assert (words(child.entries), child.first_message) == (["own"], ("own task",))
        assert script_of_log(read_session(file), primary=True).to_json() == primary.to_json()


class TestUnfinishedCalls:
    def test_format_0_by_every_rule(self, tmp_path: Path) -> None:
        retry = {"type": "llm/retry", "data": {"turn": 1, "step": 1}}
        file = log(tmp_path / "s.jsonl", *call("cut", finished=False), retry, *call("done"), *call("last", 2, finished=False))
        with pytest.raises(FormatError, match=r"turn/step 2/1 .* option unfinished \(throw, hang or skip\)") as error:
            load_session_scripts(file)  # it takes the retry for the same call
        assert code_of(error) == "MISSING_FINISH"
        assert words(load_replay_script(file, unfinished="skip")) == ["done"]
        assert [entry.kind for entry in load_replay_script(file, unfinished="hang")] == ["hang", "chunks", "hang"]
        cut, done, last = load_replay_script(file, unfinished="throw")
        assert words([cut, done, last]) == ["cut", "done", "last"]
        assert last.to_json() == {
            "kind": "throw",
            "chunks": answer("last")[:-1],
            "message": "the recorded stream ended here, without a finish",
            "code": "STREAM_CLOSED",
        }
        patch = write(tmp_path / "o.json", b'{"patches":[{"at":0,"entry":{"kind":"hang"}}]}')
        assert [entry.kind for entry in load_replay_script(file, patch, unfinished="throw")] == ["hang", "chunks", "throw"]

    def test_later_formats(self, tmp_path: Path) -> None:
        rows = [settled(0, "cut", "assistant/attempt", finished=False), settled(1, "done")]
        path = write(tmp_path / "session.v4.jsonl", text(header(4), *rows))
        kinds = {
            rule: [entry.kind for entry in load_replay_script(path, unfinished=rule)] for rule in ("throw", "hang", "skip")
        }
        assert kinds == {"throw": ["throw", "chunks"], "hang": ["hang", "chunks"], "skip": ["chunks"]}
        assert words(script_of_log(read_session(path), unfinished="throw").entries) == ["cut", "done"]

    def test_a_torn_log_is_kept_up_to_its_last_whole_line(self, tmp_path: Path) -> None:
        path = write(tmp_path / "s.jsonl", text(header(), *call("done"), *call("cut", 2, finished=False)) + b'{"type":')
        with pytest.raises(FormatError, match=r"the last line may be torn: the option unfinished reads") as error:
            load_session_scripts(path, [path])
        assert code_of(error) == "BAD_JSON_LINE"
        primary, child = load_session_scripts(path, [path], unfinished="throw")
        assert words(primary.entries) == words(child.entries) == ["done", "cut"]

    def test_another_word_is_refused(self, tmp_path: Path) -> None:
        rule: Any = "ignore"
        with pytest.raises(ConfigError, match="one of raise, throw, hang, skip"):
            load_session_scripts(log(tmp_path / "s.jsonl"), unfinished=rule)


def test_logs_are_named_as_everywhere(tmp_path: Path) -> None:
    first = event(0, "assistant/chunk", {"turn": 1, "step": 1, "chunk": FINISH})
    second = ("two", 0, "assistant/chunk", 1, '{"turn":1,"step":1,"chunk":{"type":"finish"}}', None, None, None)
    store = make_store(tmp_path / "store.db", 17, [row(0, "turn/start", {}), second])
    folder = log(tmp_path / "--app--" / "s1" / "session.jsonl", first, id="s1").parent
    scripts = load_session_scripts(folder, [f"{store}#two", f"{folder}#s1"])
    assert [(script.recorded_id, len(script.entries)) for script in scripts] == [("s1", 1), ("two", 1), ("s1", 1)]
    with pytest.raises(FormatError, match="2 sessions: one, two; choose one"):
        load_session_scripts(store)
    with pytest.raises(FormatError, match="holds the session s1, not s2"):
        load_session_scripts(f"{folder}#s2")


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared golden data is not beside this project (../shared/golden/session)")
@pytest.mark.parametrize("name", ["fork-seeded", "subagents2", "retry-500", "unicode", "cancel-tool"])
def test_a_session_has_the_same_script_in_every_format(name: str) -> None:
    folder = SHARED / "migrated" / f"0.1.2rc1-{name}"

    def scripts(generation: str) -> dict[str, Any]:
        logs = [read_session(path) for path in sorted((folder / generation).rglob("session*.jsonl*"))]
        return {log.header.id: [script_of_log(log).to_json(), script_of_log(log).first_message] for log in logs}

    source = scripts("source")
    assert any(script["entries"] for script, _ in source.values())
    for generation in ("v1", "v2", "v3", "v4"):
        assert scripts(generation) == source


def members(chunk: Any) -> str:
    """A chunk as text, in which 1, 1.0 and True differ and the order of members does not count."""
    return repr(sorted(chunk.items()) if isinstance(chunk, dict) else chunk)


class TestChunks:
    DELTAS = st.one_of(
        st.fixed_dictionaries(
            {
                "type": st.sampled_from(["text-delta", "reasoning-delta"]),
                "index": st.sampled_from([0, 1, 1.0, True, 300]),
                "text": st.sampled_from(["", "a", 5, None]),
            },
            optional={"more": st.none()},
        ),
        st.fixed_dictionaries(
            {"type": st.just("tool-call-delta"), "index": st.just(0), "id": st.sampled_from(["x", "y", 1, True])},
            optional={"name": st.sampled_from(["n", None]), "argumentsDelta": st.text(max_size=2)},
        ),
        st.just(FINISH),
        st.sampled_from(["text", 5, {"type": {}}, {}]),
    )

    @settings(max_examples=150)
    @given(st.lists(DELTAS, max_size=12))
    def test_collected_chunks_come_back_as_they_were(self, given_chunks: list[Any]) -> None:
        call = CallChunks()
        ends = [call.add(chunk) for chunk in given_chunks]
        chunks = call.close()
        assert [members(chunk) for chunk in chunks] == [members(chunk) for chunk in given_chunks]
        assert len(chunks) == len(given_chunks)
        assert ends == [chunk == FINISH for chunk in given_chunks]
        assert not call

    @settings(max_examples=100)
    @given(st.lists(DELTAS, max_size=8))
    def test_the_quick_way_through_a_file_finds_the_same(self, given_chunks: list[Any]) -> None:
        chunks = [chunk for chunk in given_chunks if chunk != FINISH]
        data = [{"turn": 1, "step": 1, "chunk": chunk} for chunk in [*chunks, FINISH]]
        lines = text(header(), *(event(seq, "assistant/chunk", each) for seq, each in enumerate(data)))
        for rows in (stored_rows(lines), parse_session_log(lines)):
            (entry,) = derive_replay_script(rows)
            assert [members(chunk) for chunk in entry.to_json()["chunks"]] == [members(chunk) for chunk in [*chunks, FINISH]]

    @settings(max_examples=100)
    @given(
        st.lists(st.tuples(st.sampled_from([300, 300, 300.0, "300", 1, True]), st.sampled_from([500, 500, 501])), max_size=8)
    )
    def test_the_quick_way_through_a_file_ends_calls_at_the_same_places(self, places: list[tuple[Any, int]]) -> None:
        chunk = {"type": "text-delta", "index": 0, "text": "a"}
        data = [{"turn": turn, "step": step, "chunk": chunk} for turn, step in places]
        lines = text(header(), *(event(seq, "assistant/chunk", each) for seq, each in enumerate(data)))
        quick, exact = (
            derive_replay_script(rows, unfinished="throw") for rows in (stored_rows(lines), parse_session_log(lines))
        )
        assert [entry.to_json() for entry in quick] == [entry.to_json() for entry in exact]

    def test_they_are_a_sequence(self) -> None:
        (run,) = stored_rows(text(header(), packed(0, "a", "b")))
        assert isinstance(run, ChunkRun)
        chunks = Chunks([FINISH, run])
        assert chunks[-1] == {"type": "text-delta", "index": 0, "text": "b"}
        assert chunks[1:] == [{"type": "text-delta", "index": 0, "text": text} for text in "ab"]
        assert chunks == [*chunks]
        assert repr(chunks) == "<Chunks: 3>"
        with pytest.raises(IndexError):
            chunks[3]


@pytest.mark.parametrize(
    "ordered",
    [
        ["", "_", "-", ".", "0", "1", "10", "a", "á", "ab", "äbb", "b", "B", "C"],
        ["a b", "a_b", "a-b", "A-B", "a.b", "ab"],
        ["resume", "Resume", "résumé", "Résumé"],
        ["z", "Ω", "ж", "日"],
    ],
)
def test_ids_in_the_order_of_a_person(ordered: list[str]) -> None:
    shuffled = [*ordered[1::2], *ordered[::2]]
    assert sorted(shuffled, key=collation_key) == ordered
    assert collation_key("a\u00ad\x00") == collation_key("a")
