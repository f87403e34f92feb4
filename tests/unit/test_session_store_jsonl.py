"""Sessions in files: names, frames, failed writes, torn ends and what a root may hold."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cassette_lab.errors import ConfigError, ExistingFileError, FormatError, MissingFileError
from cassette_lab.jsonio import JsonObject
from cassette_lab.session.frames import compress_frame
from cassette_lab.session.lines import LogFile, LogLines
from cassette_lab.session.model import ChunkRun
from cassette_lab.session.packing import encode_json, encode_lines
from cassette_lab.session.paths import log_path, path_segment, project_folder
from cassette_lab.session.persistence import StoredSession
from cassette_lab.session.reader import read_session
from cassette_lab.session.repair import closing_events
from cassette_lab.session.session import Session, new_header
from cassette_lab.session.store_jsonl import JsonlStore
from tests.unit.session_stores import NOW, clock, delta, log_turn, new_session

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden" / "session" / "sessions"


def lines_of(path: Path) -> list[tuple[int | None, JsonObject]]:
    """The frame and the JSON of every line."""
    lines = LogLines(LogFile(path))
    return [(lines.frame, orjson.loads(line)) for line in lines]


def stored(store: JsonlStore, session: Session) -> Path:
    with StoredSession.create(store, session):
        pass
    return store.locate(session.header)


class TestNames:
    @pytest.mark.parametrize(
        ("cwd", "folder"),
        [
            (None, "_no-cwd"),
            ("/home/me/my project", "--home-me-my~0020project--"),
            ("C:\\work\\x", "--C-work-x--"),
            ("///a//b:/c", "--a-b-c--"),
            ("/--x/-y", "--x--y--"),
            ("/", "--root--"),
            ("/é~😀", "--~00E9~007E~D83D~DE00--"),
            ("/" + "a" * 300, "--" + "a" * 251 + "--"),
        ],
    )
    def test_a_projects_folder(self, cwd: str | None, folder: str) -> None:
        assert project_folder(cwd) == folder

    @pytest.mark.parametrize(
        ("session_id", "segment"),
        [
            ("0b5c-a_.Z9", "0b5c-a_.Z9"),
            (".", "~002E"),
            ("..", "~002E~002E"),
            ("...", "..."),
            ("a/../b\0", "a~002F..~002Fb~0000"),
            ("~😀\ud800", "~007E~D83D~DE00~D800"),
        ],
    )
    def test_a_sessions_folder(self, session_id: str, segment: str) -> None:
        assert path_segment(session_id) == segment

    @given(st.text(st.characters(), min_size=1), st.text(st.characters(), min_size=1))
    def test_two_sessions_never_share_a_folder(self, one: str, other: str) -> None:
        assert (path_segment(one) == path_segment(other)) == (one == other)

    def test_the_real_harness_has_the_same_names(self) -> None:
        if not GOLDEN.is_dir():
            pytest.skip("shared data not present")
        seen = 0
        for path in GOLDEN.glob("v0-runtime-*/*/sessions/*/*/session.jsonl*"):
            header = read_session(path).header
            assert log_path(path.parents[2], header.cwd, header.id, "zstd") == path
            seen += 1
        assert seen


class TestFile:
    def test_frame_1_is_the_header_alone_and_every_batch_has_one_of_its_own(self, tmp_path: Path) -> None:
        session = new_session()
        store = JsonlStore(tmp_path)
        with StoredSession.create(store, session) as keeper:
            for number in (1, 2):
                log_turn(session, number)
                keeper.flush()
        lines = lines_of(tmp_path / "--w-project--" / "root" / "session.jsonl.zstd")
        assert lines[0] == (1, session.header.to_json())
        assert [frame for frame, _ in lines[1:]] == [2] * 7 + [3] * 7
        assert lines[4][1] == {
            "type": "text-chunks",
            "seq0": 3,
            "time0": NOW + 3,
            "data": {"turn": 1, "step": 1, "index": 0, "dt": [1, 1, 1], "texts": ["One", " two", "", " three"]},
        }
        for offset in range(0, 40, 8):  # a checksum in every frame: a changed byte is noticed
            data = bytearray(store.locate(session.header).read_bytes())
            data[-1 - offset] ^= 1
            with contextlib.suppress(FormatError):
                assert read_session(bytes(data)).problems

    def test_every_real_log_of_format_0_is_written_as_it_is_there(self) -> None:
        if not GOLDEN.is_dir():
            pytest.skip("shared data not present")
        seen = 0
        for path in GOLDEN.glob("v0-runtime-*/*/sessions/*/*/session.jsonl*"):
            log = read_session(path)
            if log.torn_bytes:
                continue
            lines = LogLines(LogFile(path))
            batches: dict[int | None, list[bytes]] = {}
            for line in lines:
                batches.setdefault(lines.frame, []).append(line)
            header, *rest = batches.values()
            assert [encode_json(log.header.to_json())] == header
            events = log.events()
            for batch in rest:
                count = sum(len(orjson.loads(line)["data"]["dt"]) + 1 if b'"seq0"' in line else 1 for line in batch)
                assert encode_lines([next(events) for _ in range(count)]).splitlines() == batch
            seen += 1
        assert seen > 30

    def test_short_runs_and_odd_deltas_stay_events(self, tmp_path: Path) -> None:
        session = new_session()
        for kind in ("a", "b", "b", "c", "c", "c"):
            session.append("assistant/chunk", delta("x", ord(kind)))
        for _ in range(3):
            session.append("assistant/chunk", {**delta("x"), "more": 1})
        for _ in range(3):
            session.append("assistant/chunk", delta("x"), ignorable=True)
        kinds = [line["type"] for _, line in lines_of(stored(JsonlStore(tmp_path), session))]
        assert kinds == ["session", *["assistant/chunk"] * 3, "text-chunks", *["assistant/chunk"] * 6]

    def test_great_runs_are_cut(self, tmp_path: Path) -> None:
        session = new_session()
        for _ in range(1_024 + 1_024 + 2):
            session.append("assistant/chunk", delta("x"))
        for _ in range(5):
            session.append("assistant/chunk", delta("é" * 150_000, 1))
        store = JsonlStore(tmp_path, encoding="jsonl")
        lines = [line for _, line in lines_of(stored(store, session))][1:]
        sizes = [len(line["data"]["texts"]) if line["type"] == "text-chunks" else 0 for line in lines]
        assert sizes == [1_024, 1_024, 0, 0, 0, 0, 3]
        assert max(len(encode_json(line["data"])) for line in lines) <= 1 << 20
        assert list(store.load("root").events()) == list(session.events)

    def test_the_lock_stays_behind_and_is_empty(self, tmp_path: Path) -> None:
        folder = stored_one(tmp_path)
        assert sorted(path.name for path in folder.iterdir()) == ["session.jsonl.zstd", "session.lock"]
        assert (folder / "session.lock").stat().st_size == 0


def stored_one(root: Path, session_id: str = "root", turns: int = 1) -> Path:
    session = new_session(session_id)
    store = JsonlStore(root)
    with StoredSession.create(store, session) as keeper:
        for number in range(turns):
            log_turn(session, number + 1)
            keeper.flush()
    return store.locate(session.header).parent


class TestFailures:
    @pytest.mark.parametrize("failing", ["write", "fsync"])
    @pytest.mark.parametrize("encoding", ["zstd", "jsonl"])
    def test_a_failed_write_is_taken_back_and_can_be_repeated(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, encoding: Any
    ) -> None:
        session = new_session()
        store = JsonlStore(tmp_path, encoding=encoding)
        keeper = StoredSession.create(store, session)
        log_turn(session, 1)
        keeper.flush()
        before = store.locate(session.header).read_bytes()
        log_turn(session, 2)
        with monkeypatch.context() as patched:
            patched.setattr(os, failing, failing_once(failing))
            with pytest.raises(FormatError, match=r"No space left on device\); the log ends with the batch before"):
                keeper.flush()
        assert store.locate(session.header).read_bytes() == before
        keeper.close()
        assert list(store.load("root").events()) == list(session.events)

    @pytest.mark.parametrize("failing", ["write", "fsync", "link"])
    def test_a_failed_first_batch_leaves_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
        session = new_session()
        store = JsonlStore(tmp_path / "root")
        keeper = StoredSession.create(store, session)
        log_turn(session)
        with monkeypatch.context() as patched:
            patched.setattr(os, failing, failing_once(failing))
            with pytest.raises(FormatError, match=r"the log could not be made \(No space left on device\)"):
                keeper.flush()
        assert list(tmp_path.iterdir()) == []
        keeper.close()
        assert list(store.load("root").events()) == list(session.events)

    def test_what_cannot_be_taken_back_stops_the_writer_and_the_next_one_repairs_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = new_session()
        store = JsonlStore(tmp_path)
        writer = store.create(session.header)
        log_turn(session)
        writer.append(session.events[:8])
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", failing_once("write"))
            patched.setattr(os, "ftruncate", failing_once("ftruncate"))
            with pytest.raises(FormatError, match="could not be taken back"):
                writer.append(session.events[8:])
        with pytest.raises(FormatError, match="nothing more is written"):
            writer.append(session.events[8:])
        writer.close()
        resumed = store.resume("root")
        resumed.writer.close()
        assert list(resumed.log.events())[:8] == list(session.events[:8])
        assert store.load("root").problems == []

    def test_a_log_never_appears_over_another_one(self, tmp_path: Path) -> None:
        session = new_session()
        log_turn(session)
        store = JsonlStore(tmp_path)
        writer = store.create(session.header)
        path = store.locate(session.header)
        path.parent.mkdir(parents=True)
        path.write_bytes(b"someone else's")
        with pytest.raises(ExistingFileError):
            writer.append(session.events)
        assert path.read_bytes() == b"someone else's"
        assert {each.name for each in path.parent.iterdir()} == {path.name, "session.lock"}

    def test_whoever_writes_without_the_lock_is_noticed(self, tmp_path: Path) -> None:
        session = new_session()
        store = JsonlStore(tmp_path, encoding="jsonl")
        keeper = StoredSession.create(store, session)
        log_turn(session, 1)
        keeper.flush()
        path = store.locate(session.header)
        with path.open("ab") as file:
            file.write(b'{"type":"todo/write","seq":10,"time":1,"data":{}}\n')
        log_turn(session, 2)
        with pytest.raises(FormatError, match="something else wrote into the log"):
            keeper.flush()
        shutil.copy(path, tmp_path / "copy")
        path.unlink()
        with pytest.raises(FormatError, match="removed or replaced"):
            keeper.close()
        assert read_session(tmp_path / "copy").event_count == 11

    def test_a_log_that_was_replaced_is_noticed(self, tmp_path: Path) -> None:
        path = stored_one(tmp_path) / "session.jsonl.zstd"
        os.link(path, tmp_path / "backup")
        writer = JsonlStore(tmp_path).resume("root").writer
        (tmp_path / "backup").unlink()
        writer.append([event_at(10)])
        os.link(path, tmp_path / "backup")
        writer.append([event_at(11)])
        shutil.copy(path, tmp_path / "copy")
        (tmp_path / "copy").replace(path)
        (tmp_path / "backup").unlink()
        with pytest.raises(FormatError, match="removed or replaced"):
            writer.append([event_at(12)])
        writer.close()
        assert read_session(path).event_count == 12

    def test_a_second_name_that_a_killed_process_left_is_removed_with_the_next_resume(self, tmp_path: Path) -> None:
        folder = stored_one(tmp_path)
        os.link(folder / "session.jsonl.zstd", folder / ".session.jsonl.zstd.0123.tmp")
        JsonlStore(tmp_path).resume("root").writer.close()
        assert sorted(path.name for path in folder.iterdir()) == ["session.jsonl.zstd", "session.lock"]


def failing_once(name: str) -> Any:
    """The function of ``os`` that first does half of its work, and says that the disk is full."""
    real: Any = getattr(os, name)
    calls = iter([True])

    def function(*arguments: Any) -> Any:
        is_folder = name == "fsync" and stat.S_ISDIR(os.fstat(arguments[0]).st_mode)
        if not is_folder and next(calls, False):
            if name == "write":
                real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments)

    return function


class TestTornEnds:
    @pytest.mark.parametrize("encoding", ["zstd", "jsonl"])
    def test_a_log_cut_at_any_byte_goes_on_behind_what_was_whole(self, tmp_path: Path, encoding: Any) -> None:
        session = new_session()
        store = JsonlStore(tmp_path, encoding=encoding)
        ends: list[tuple[int, int]] = []
        path = store.locate(session.header)
        with StoredSession.create(store, session) as keeper:
            for number in (1, 2):
                log_turn(session, number)
                keeper.flush()
                ends.append((path.stat().st_size, len(session.events)))
            session.append("turn/start", {"turn": 3})
            session.append("step/start", {"turn": 3, "step": 1})
        whole, events = path.read_bytes(), list(session.events)
        first_end = ends[0][0]
        for size in range(first_end, len(whole) + 1, 1 if encoding == "zstd" else 7):
            path.write_bytes(whole[:size])
            flushed = max(count for end, count in ends if end <= size)
            resumed = store.resume("root")
            kept = resumed.log.event_count
            assert kept >= flushed
            closing = closing_events(events[:kept])
            assert list(resumed.closing) == closing
            resumed.writer.append([event_at(kept + len(closing))])
            resumed.writer.close()
            log = store.load("root")
            assert list(log.events()) == [*events[:kept], *closing, event_at(kept + len(closing))]
            assert (log.problems, log.torn_bytes) == ([], 0)
            assert not list(path.parent.glob(".*"))

    def test_a_row_that_does_not_follow_is_cut_off_with_what_is_behind_it(self, tmp_path: Path) -> None:
        folder = stored_one(tmp_path)
        path = folder / "session.jsonl.zstd"
        rows: list[JsonObject] = [{"type": "todo/write", "seq": seq, "time": 1, "data": {}} for seq in (10, 11, 10)]
        with path.open("ab") as file:
            file.write(compress_frame(b"".join(orjson.dumps(row) + b"\n" for row in rows)))
        resumed = JsonlStore(tmp_path).resume("root")
        resumed.writer.close()
        assert (resumed.log.event_count, resumed.writer.next_seq) == (12, 12)
        log = JsonlStore(tmp_path).load("root")
        assert (log.event_count, log.problems) == (12, [])

    def test_damage_is_refused_and_left_as_it_is(self, tmp_path: Path) -> None:
        path = stored_one(tmp_path, turns=3) / "session.jsonl.zstd"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF
        path.write_bytes(data)
        with pytest.raises(FormatError, match="the file is damaged"):
            JsonlStore(tmp_path).resume("root")
        assert path.read_bytes() == data

    def test_what_a_killed_process_left_beside_is_removed_with_the_next_try(self, tmp_path: Path) -> None:
        session = new_session()
        log_turn(session)
        store = JsonlStore(tmp_path)
        folder = store.locate(session.header).parent
        folder.mkdir(parents=True)
        (folder / ".session.jsonl.zstd.0123.tmp").write_bytes(b"half")
        stored(store, session)
        assert sorted(path.name for path in folder.iterdir()) == ["session.jsonl.zstd", "session.lock"]


class TestIds:
    @pytest.mark.parametrize(
        "session_id", ["..", "../../up", "a/b", "a\0b", "a\nb", "a\u202eb", "\ud800", "~", " ", "CON", "x" * 255, "é" * 51]
    )
    def test_any_id_stays_within_its_root(self, tmp_path: Path, session_id: str) -> None:
        session = new_session(session_id)
        log_turn(session)
        store = JsonlStore(tmp_path / "root")
        path = stored(store, session)
        assert list(tmp_path.rglob("session.jsonl.zstd")) == [path]
        assert path.relative_to(tmp_path / "root" / "--w-project--").name == "session.jsonl.zstd"
        assert list(store.load(session_id).events()) == list(session.events)
        assert [header.id for header in store.headers()] == [session_id]

    @pytest.mark.parametrize("session_id", ["x" * 256, "é" * 52])
    def test_an_id_that_is_too_long_for_a_folder_is_refused_at_once(self, tmp_path: Path, session_id: str) -> None:
        stored_one(tmp_path)
        store = JsonlStore(tmp_path)
        with pytest.raises(FormatError, match="too long for the name of a folder, 255 bytes; take another") as caught:
            store.create(new_session(session_id).header)
        assert caught.value.field == "id"
        with pytest.raises(MissingFileError, match="there is no session"):
            store.resume(session_id)

    def test_a_great_id_makes_no_great_sentence(self, tmp_path: Path) -> None:
        with pytest.raises(MissingFileError) as caught:
            JsonlStore(tmp_path).load("x" * 10_000_000)
        assert len(caught.value.message) < 200


class TestRoots:
    @pytest.mark.parametrize("asked", ["iterdir", "stat"])
    def test_a_project_that_may_not_be_read_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
        project = stored_one(tmp_path).parent
        store = JsonlStore(tmp_path)
        real: Any = getattr(Path, asked)

        def refused(path: Path, *more: Any, **options: Any) -> Any:
            if path == (project if asked == "iterdir" else project / "root"):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return real(path, *more, **options)

        monkeypatch.setattr(Path, asked, refused)
        ways: list[Any] = [lambda: JsonlStore(tmp_path), store.headers]
        for way in [*ways, lambda: store.load("root"), lambda: store.resume("root")] if asked == "stat" else ways:
            with pytest.raises(FormatError, match=r"no folder to keep sessions in .* change its permissions") as caught:
                way()
            assert caught.value.path == str(project)

    def test_a_root_has_one_encoding(self, tmp_path: Path) -> None:
        stored_one(tmp_path)
        with pytest.raises(FormatError, match="another encoding than jsonl"):
            JsonlStore(tmp_path, encoding="jsonl")
        with pytest.raises(ConfigError, match="encoding must be zstd or jsonl"):
            JsonlStore(tmp_path, encoding="gzip")  # type: ignore[arg-type]

    def test_the_old_flat_layout_is_refused(self, tmp_path: Path) -> None:
        folder = stored_one(tmp_path)
        (folder / "session.jsonl.zstd").rename(folder.parent / "root.jsonl.zstd")
        with pytest.raises(FormatError, match="lies flat"):
            JsonlStore(tmp_path)

    def test_a_session_that_a_newer_harness_took_over_is_only_read(self, tmp_path: Path) -> None:
        folder = stored_one(tmp_path)
        newer = b'{"type":"session","version":4,"id":"root","createdAt":1,"delegationDepth":0,"isSeeded":false}\n'
        (folder / "session.v4.jsonl.zstd").write_bytes(compress_frame(newer))
        store = JsonlStore(tmp_path)
        with pytest.raises(FormatError, match="a newer harness went on with this session"):
            store.resume("root")
        with pytest.raises(ExistingFileError):
            store.create(new_session().header)
        assert store.load("root").header.version == 4

    def test_a_session_that_is_there_twice_is_refused(self, tmp_path: Path) -> None:
        folder = stored_one(tmp_path)
        shutil.copytree(folder, tmp_path / "_no-cwd" / "root")
        with pytest.raises(FormatError, match="is there twice"):
            JsonlStore(tmp_path).load("root")

    def test_a_log_in_another_projects_folder_is_not_gone_on_with(self, tmp_path: Path) -> None:
        folder = stored_one(tmp_path)
        folder.parent.rename(tmp_path / "_no-cwd")
        with pytest.raises(FormatError, match="belongs to another folder") as caught:
            JsonlStore(tmp_path).resume("root")
        assert caught.value.field == "cwd"

    def test_a_log_of_another_session_is_not_gone_on_with(self, tmp_path: Path) -> None:
        folder = stored_one(tmp_path)
        folder.rename(folder.with_name("other"))
        with pytest.raises(FormatError, match="says that it is session 'root', not 'other'"):
            JsonlStore(tmp_path).resume("other")

    def test_fixtures_without_times_are_not_gone_on_with(self, tmp_path: Path) -> None:
        folder = tmp_path / "_no-cwd" / "x"
        folder.mkdir(parents=True)
        header = new_header(session_id="x", created_at=1)
        (folder / "session.jsonl").write_bytes(orjson.dumps(header.to_json()) + b'\n{"type":"turn/start","data":{"turn":1}}\n')
        with pytest.raises(FormatError, match="can only be read"):
            JsonlStore(tmp_path, encoding="jsonl").resume("x")

    def test_a_file_without_a_header_hides_no_other_session(self, tmp_path: Path) -> None:
        stored_one(tmp_path, "one")
        (stored_one(tmp_path, "two") / "session.jsonl.zstd").write_bytes(b"")
        assert [header.id for header in JsonlStore(tmp_path).headers()] == ["one"]

    def test_a_root_that_is_a_file_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        with pytest.raises(FormatError, match="no folder to keep sessions in"):
            JsonlStore(tmp_path / "file")


def event_at(seq: int) -> Any:
    session = Session(new_header(), clock=clock())
    return session.append("todo/write", {})._replace(seq=seq)


def test_packed_runs_stay_packed_in_memory(tmp_path: Path) -> None:
    session = new_session()
    log_turn(session)
    store = JsonlStore(tmp_path)
    stored(store, session)
    runs = [row for row in store.load("root").rows if isinstance(row, ChunkRun)]
    assert [(run.members, run.packed) for run in runs] == [(4, True)]
