"""One writer at a time: taking, giving back, judging and breaking a lock, also between real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.cassette.lock import WriterLock, break_lock, explain, lock_folder, owner_is_dead, read_owner
from cassette_lab.cassette.reader import CassetteReader, read_cassette
from cassette_lab.cassette.rescue import rescue
from cassette_lab.cassette.writer import CassetteWriter, OpenMode
from cassette_lab.errors import FormatError, LockedError
from tests.unit.cassette_samples import header, interaction


def process(source: str, *arguments: str) -> subprocess.Popen[str]:
    """Python source in a process of its own, with pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def gone() -> int:
    """The pid of a process that has ended."""
    with subprocess.Popen(["true"]) as done:
        done.wait(30)
        return done.pid


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until the test is over."""
    with subprocess.Popen(["sleep", "60"]) as alive:
        yield alive
        alive.kill()


def marked(target: Path, *owners: Any) -> Path:
    """A lock folder beside ``target`` with a marker for each owner (text as it stands, anything else as JSON)."""
    folder = lock_folder(target)
    folder.mkdir()
    for number, owner in enumerate(owners):
        (folder / f"{number}.json").write_text(owner if isinstance(owner, str) else json.dumps(owner))
    return folder


def owner_here(**changes: Any) -> dict[str, Any]:
    return {
        "ownerToken": "t",
        "pid": os.getpid(),
        "acquiredAt": "2026-11-30T10:00:00.000Z",
        "host": socket.gethostname(),
    } | changes


class TestHolding:
    def test_the_owner_is_written_down(self, tmp_path: Path) -> None:
        target = tmp_path / "x"
        assert read_owner(target) is None
        lock = WriterLock(target)
        assert lock.folder == tmp_path.resolve() / "x.writer.lock"
        owner = read_owner(target)
        assert owner == lock.owner
        assert owner["pid"] == os.getpid()
        assert owner["host"] == socket.gethostname()
        assert owner_is_dead(owner) is False
        lock.release()
        assert read_owner(target) is None
        assert list(tmp_path.iterdir()) == []
        lock.release()

    def test_nobody_else_gets_it_meanwhile(self, tmp_path: Path) -> None:
        target = tmp_path / "x"
        lock = WriterLock(target)
        with pytest.raises(LockedError, match=r"a recording in this very process \(\d+\) holds this file since 0 seconds"):
            WriterLock(target)
        lock.release()
        WriterLock(target).release()

    def test_only_the_own_marker_is_taken_away(self, tmp_path: Path) -> None:
        target = tmp_path / "x"
        lock = WriterLock(target)
        (lock.folder / "foreign").write_text("stays")
        lock.release()
        assert [entry.name for entry in lock.folder.iterdir()] == ["foreign"]

    def test_a_folder_that_is_someone_elses_by_now_stays(self, tmp_path: Path) -> None:
        target = tmp_path / "x"
        lock = WriterLock(target)
        for entry in lock.folder.iterdir():
            entry.unlink()  # broken by someone, and taken anew: no marker in it yet
        lock.release()
        assert lock.folder.is_dir()

    def test_the_real_path_counts(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        assert lock_folder(tmp_path / "link" / "x") == tmp_path.resolve() / "real" / "x.writer.lock"
        (tmp_path / "real" / "x").write_bytes(b"")
        (tmp_path / "y").symlink_to("link/x")
        assert lock_folder(tmp_path / "y") == tmp_path.resolve() / "real" / "x.writer.lock"

    def test_a_relative_name_is_locked_in_the_working_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        assert lock_folder("x") == tmp_path.resolve() / "x.writer.lock"

    def test_where_no_lock_can_be(self, tmp_path: Path) -> None:
        with pytest.raises(FormatError, match="the folder of this file cannot be reached"):
            WriterLock(tmp_path / "none" / "x")
        name = "n" * 250
        with pytest.raises(FormatError, match="the lock beside the file cannot be made"):
            WriterLock(tmp_path / name)
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(FormatError, match="the folder of this file cannot be reached"):
            WriterLock(tmp_path / "a" / "x")

    def test_a_marker_that_cannot_be_written_leaves_no_lock(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(FormatError, match=r"the lock cannot be written \(No space left on device\)"):
            WriterLock(tmp_path / "x")
        assert list(tmp_path.iterdir()) == []


class TestJudging:
    def test_a_process_that_is_gone(self, gone: int) -> None:
        assert owner_is_dead(owner_here(pid=gone)) is True

    def test_a_process_that_runs(self, sleeper: subprocess.Popen[bytes]) -> None:
        assert owner_is_dead(owner_here(pid=sleeper.pid)) is False

    def test_a_pid_that_another_process_has_by_now(self, sleeper: subprocess.Popen[bytes]) -> None:
        system_tells = Path("/proc/self/stat").exists()
        assert owner_is_dead(owner_here(pid=sleeper.pid, processStart=1)) is system_tells

    def test_a_process_that_nobody_has_buried(self) -> None:
        with process("") as zombie:
            assert zombie.stdout is not None
            zombie.stdout.read()  # ends with the process
            deadline = time.monotonic() + 10
            while not owner_is_dead(owner_here(pid=zombie.pid)):
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def test_a_boot_ago(self) -> None:
        system_tells = Path("/proc/sys/kernel/random/boot_id").exists()
        assert owner_is_dead(owner_here(bootId="00000000-0000-0000-0000-000000000000")) is system_tells

    @pytest.mark.parametrize(
        "changes",
        [
            {"host": "elsewhere.example"},
            {"host": None},
            {"pid": "12"},
            {"pid": True},
            {"pid": 0},
            {"pid": -1},
            {"pid": None},
        ],
    )
    def test_what_cannot_be_judged_from_here(self, changes: dict[str, Any]) -> None:
        assert owner_is_dead(owner_here(**changes)) is None

    def test_another_pid_namespace_on_the_same_host(self, gone: int) -> None:
        expected = None if Path("/proc/self/ns").exists() else True
        assert owner_is_dead(owner_here(pid=gone, pidNamespace="pid:[1]")) is expected

    def test_a_marker_without_host_is_not_judged(self, gone: int) -> None:
        assert owner_is_dead({"ownerToken": "t", "pid": gone, "acquiredAt": "2026-11-30T10:00:00.000Z"}) is None

    def test_a_pid_beyond_all_pids(self) -> None:
        assert owner_is_dead(owner_here(pid=2**70)) is True


class TestExplaining:
    def test_a_living_owner(self, tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
        sentence = explain(tmp_path / "x", owner_here(pid=sleeper.pid, acquiredAt="2020-01-01"))
        assert sentence.startswith(f"process {sleeper.pid} on {socket.gethostname()} is recording into this file since ")
        assert sentence.endswith(" days; wait for it, or name another file")

    def test_a_dead_owner(self, tmp_path: Path, gone: int) -> None:
        sentence = explain(tmp_path / "x", owner_here(pid=gone))
        assert f"the lock of process {gone} on {socket.gethostname()}" in sentence
        assert sentence.endswith("was left behind, that process is gone; `cassette-lab rescue FILE --break-lock` removes it")

    def test_an_owner_elsewhere(self, tmp_path: Path) -> None:
        sentence = explain(tmp_path / "x", owner_here(host="elsewhere.example", acquiredAt="never"))
        assert sentence.startswith(f"process {os.getpid()} on elsewhere.example holds the lock of this file, and whether it")
        assert sentence.endswith(f"remove the folder {tmp_path.resolve() / 'x.writer.lock'}")

    def test_no_owner(self, tmp_path: Path) -> None:
        assert explain(tmp_path / "x", {}).startswith("a lock without a readable owner lies on this file")

    @pytest.mark.parametrize(
        ("ago_s", "age"), [(0, "0 seconds"), (100, "100 seconds"), (180, "3 minutes"), (7200, "2 hours"), (-60, "0 seconds")]
    )
    def test_the_age(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ago_s: int, age: str) -> None:
        monkeypatch.setattr(time, "time", lambda: 1_800_000_000.0 + ago_s)
        assert f" since {age}" in explain(tmp_path / "x", owner_here(acquiredAt="2027-01-15T08:00:00.000Z"))

    def test_a_hostile_marker_is_escaped_and_cut(self, tmp_path: Path) -> None:
        sentence = explain(tmp_path / "x", {"pid": "\x1b[31m", "host": "\u202e" + "h" * 500, "acquiredAt": []})
        assert sentence.isprintable()
        assert "\\u{001b}[31m" in sentence
        assert len(sentence) < 400


class TestBreaking:
    def test_nothing_to_break(self, tmp_path: Path) -> None:
        assert break_lock(tmp_path / "x") is None

    def test_a_dead_owners_lock_goes(self, tmp_path: Path, gone: int) -> None:
        folder = marked(tmp_path / "x", owner_here(pid=gone))
        broken = break_lock(tmp_path / "x")
        assert broken is not None
        assert broken["pid"] == gone
        assert not folder.exists()

    def test_a_living_owners_lock_stays(self, tmp_path: Path, sleeper: subprocess.Popen[bytes]) -> None:
        folder = marked(tmp_path / "x", owner_here(pid=sleeper.pid))
        with pytest.raises(LockedError, match="is recording into this file") as caught:
            break_lock(tmp_path / "x")
        assert caught.value.owner is not None
        assert caught.value.owner["pid"] == sleeper.pid
        assert folder.is_dir()

    @pytest.mark.parametrize(
        "owners",
        [
            [],
            ['{"pid": 12, "ho'],
            ["[]"],
            [""],
            [{"pid": 1}],
            ["9" * 100_000],
            [owner_here(pid=2**70), owner_here(pid=2**70)],
            [owner_here(pid=2**70, host="elsewhere.example")],
        ],
        ids=["empty", "half-written", "array", "no-bytes", "no-host", "huge", "two", "elsewhere"],
    )
    def test_what_proves_nothing_stays(self, tmp_path: Path, owners: list[Any]) -> None:
        folder = marked(tmp_path / "x", *owners)
        with pytest.raises(LockedError):
            break_lock(tmp_path / "x")
        assert len(list(folder.iterdir())) == len(owners)
        with pytest.raises(LockedError):
            CassetteWriter.open(tmp_path / "x", header())

    def test_a_foreign_file_in_the_folder_stays(self, tmp_path: Path, gone: int) -> None:
        folder = marked(tmp_path / "x", owner_here(pid=gone))
        (folder / "notes.txt").write_text("mine")
        with pytest.raises(LockedError, match="the lock's folder holds more than its marker"):
            break_lock(tmp_path / "x")
        assert len(list(folder.iterdir())) == 2

    def test_a_file_where_the_folder_should_be(self, tmp_path: Path) -> None:
        (tmp_path / "x.writer.lock").write_text("")
        with pytest.raises(LockedError, match="a lock without a readable owner"):
            CassetteWriter.open(tmp_path / "x", header())
        with pytest.raises(LockedError):
            break_lock(tmp_path / "x")

    def test_a_pipe_for_a_marker_does_not_hang(self, tmp_path: Path) -> None:
        folder = marked(tmp_path / "x")
        os.mkfifo(folder / "0.json")
        assert read_owner(tmp_path / "x") == {}


class TestProcesses:
    def test_two_processes_cannot_record_into_one_file(self, tmp_path: Path) -> None:
        target = tmp_path / "x"
        with process(
            """
            import sys
            from tests.unit.cassette_samples import header, interaction
            from cassette_lab.cassette.writer import CassetteWriter
            writer = CassetteWriter.open(sys.argv[1], header())
            print("recording", flush=True)
            input()
            writer.append(interaction(1))
            writer.close()
            """,
            str(target),
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "recording\n"
            modes: tuple[OpenMode, ...] = ("create", "truncate", "append")
            for mode in modes:
                with pytest.raises(LockedError, match=rf"process {other.pid} on .* is recording into this file"):
                    CassetteWriter.open(target, header(), mode=mode)
            other.communicate("\n", timeout=30)
        with CassetteWriter.open(target, header(), mode="append") as writer:
            writer.append(interaction(2))
        assert len(read_cassette(target).interactions) == 2

    def test_killed_in_the_middle(self, tmp_path: Path) -> None:
        target = tmp_path / "x"
        with process(
            """
            import itertools, sys
            from tests.unit.cassette_samples import header, interaction
            from cassette_lab.cassette.writer import CassetteWriter
            writer = CassetteWriter.open(sys.argv[1], header())
            for number in itertools.count(1):
                writer.append(interaction(number))
                if number == 50:
                    print("going", flush=True)
            """,
            str(target),
        ) as recorder:
            assert recorder.stdout is not None
            assert recorder.stdout.readline() == "going\n"
            recorder.send_signal(signal.SIGKILL)
            recorder.wait(30)
        lines = target.read_bytes().splitlines(keepends=True)
        whole = sum(line.endswith(b"\n") for line in lines) - 1
        assert whole >= 50
        with CassetteReader(b"".join(lines[: whole + 1])) as reader:
            assert sum(1 for _ in reader) == whole
        report = rescue(target, tmp_path / "rescued")
        assert report.kept == whole
        with pytest.raises(LockedError, match=f"the lock of process {recorder.pid} .* was left behind, that process is gone"):
            CassetteWriter.open(tmp_path / "x", header(), mode="append")
        owner = break_lock(target)
        assert owner is not None
        assert owner["pid"] == recorder.pid
        with CassetteWriter.open(tmp_path / "rescued", header(), mode="append") as writer:
            writer.append(interaction(writer.next_sequence))
        with CassetteWriter.open(target, header(), mode="truncate"):
            pass

    def test_many_takers_hold_it_one_at_a_time(self, tmp_path: Path) -> None:
        takers = [
            process(
                """
                import os, sys, time
                from pathlib import Path
                from cassette_lab.cassette.lock import WriterLock
                from cassette_lab.errors import LockedError
                target, inside = Path(sys.argv[1]), Path(sys.argv[1] + ".inside")
                taken = 0
                deadline = time.monotonic() + 20
                while taken < 12 and time.monotonic() < deadline:
                    try:
                        lock = WriterLock(target)
                    except LockedError:
                        time.sleep(0.0005)
                        continue
                    os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
                    taken += 1
                    inside.unlink()
                    lock.release()
                print(taken)
                """,
                str(tmp_path / "x"),
            )
            for _ in range(3)
        ]
        try:
            assert [taker.communicate(timeout=60)[0] for taker in takers] == ["12\n"] * 3
        finally:
            for taker in takers:
                taker.kill()
                taker.wait()
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["file/x", "missing/x", "/"])
def test_what_can_be_no_file_has_no_lock(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    for look in (read_owner, break_lock, WriterLock):
        with pytest.raises(FormatError) as caught:
            look(tmp_path / name)
        assert not isinstance(caught.value, LockedError)


@pytest.mark.parametrize("name", ["nul\0", "\ud800"])
def test_a_name_that_no_file_can_have_has_a_free_lock_that_nobody_can_take(tmp_path: Path, name: str) -> None:
    assert read_owner(tmp_path / name) is None
    assert break_lock(tmp_path / name) is None
    with pytest.raises(FormatError, match="lock beside the file cannot be made"):
        WriterLock(tmp_path / name)
