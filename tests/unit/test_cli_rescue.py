"""After a crash: what ``rescue`` saves, and which locks it removes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cassette_lab.cassette.lock import WriterLock, lock_folder
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.cli import main
from cassette_lab.session.opening import open_session
from tests.benchmarks.generate import cassette_file
from tests.unit.session_samples import TURN_EVENTS, frames, header, text, turn, write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return cassette_file(tmp_path, 5, "plain")


def leave_lock(file: Path, **changes: object) -> Path:
    """The lock of a process on this machine that has ended without giving it back."""
    program = f"import os\nfrom cassette_lab.cassette.lock import WriterLock\nWriterLock({str(file)!r})\nos._exit(0)"
    subprocess.run([sys.executable, "-c", program], check=True)
    folder = Path(lock_folder(file))
    (marker,) = folder.iterdir()
    marker.write_text(json.dumps({**json.loads(marker.read_text()), **changes}))
    return folder


def test_the_whole_lines_of_a_torn_file_are_saved(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_bytes(file.read_bytes()[:-100])
    out = tmp_path / "saved.cassette.jsonl"
    assert main(["rescue", str(file), "-o", str(out)]) == 0
    shown = capsys.readouterr().out
    assert f"4 calls kept in {out}" in shown
    assert "line 6" in shown
    assert len(read_cassette(out).interactions) == 4


def test_nothing_is_written_over(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = file.read_bytes()
    assert main(["rescue", str(file), "-o", str(file)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert file.read_bytes() == before


def test_rescue_wants_something_to_do(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rescue", str(file)]) == 1
    assert "-o NEW" in capsys.readouterr().err


def test_a_leftover_lock_is_explained_and_removed_on_request(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = leave_lock(file)
    pid = json.loads(next(folder.iterdir()).read_text())["pid"]
    assert main(["rescue", str(file), "-o", str(tmp_path / "copy.jsonl")]) == 0
    assert f"process {pid} on " in capsys.readouterr().err
    assert folder.is_dir()
    assert main(["rescue", str(file), "--break-lock"]) == 0
    assert f"removed the lock of process {pid}" in capsys.readouterr().out
    assert not folder.exists()
    assert main(["rescue", "--break-lock", str(file)]) == 0
    assert "there is no lock" in capsys.readouterr().out


@pytest.mark.parametrize(
    "changes",
    [{"host": "another-host"}, {"pid": os.getppid(), "processStart": None}, {"pid": "7"}],
    ids=["another host's", "a living process's", "nobody's"],
)
def test_a_lock_that_may_be_in_use_stays(changes: dict[str, object], file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = leave_lock(file, **changes)
    assert main(["rescue", str(file), "--break-lock"]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert folder.is_dir()


def test_a_lock_that_is_in_use_stays(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = WriterLock(file)
    try:
        assert main(["rescue", str(file), "--break-lock"]) == 1
        assert str(os.getpid()) in capsys.readouterr().err
    finally:
        lock.release()


def test_of_a_damaged_session_log_the_longest_whole_part_is_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = text(header(), *turn())
    log = write(tmp_path / "session.jsonl", whole + b"oops\n" + text(*turn(TURN_EVENTS)))
    out = tmp_path / "saved.jsonl"
    assert main(["session", str(log)]) == 1
    assert main(["rescue", str(log), "-o", str(out)]) == 0
    shown = capsys.readouterr().out
    assert f"8 events of the session sample kept in {out}, 8 lines left out: line 9: the line is not JSON" in shown
    assert out.read_bytes() == whole
    assert main(["verify", str(out)]) == 0
    assert main(["rescue", str(log), "-o", str(out)]) == 1
    assert "never overwrites" in capsys.readouterr().err
    assert out.read_bytes() == whole


def test_of_a_zstd_log_whole_frames_are_saved_raw_or_as_zstd(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, first, second = frames([[header()], turn(), turn(TURN_EVENTS)])
    log = write(tmp_path / "s" / "session.jsonl.zstd", head + first + second[:20] + b"\0" * 40 + second)
    for name, start in (("a.jsonl", b"{"), ("a.jsonl.zstd", b"\x28\xb5\x2f\xfd")):
        assert main(["rescue", str(log.parent), "-o", str(tmp_path / name)]) == 0  # a session's folder names its log
        assert "left out: frame 3: " in capsys.readouterr().out
        assert (tmp_path / name).read_bytes().startswith(start)
        saved = open_session(tmp_path / name)
        assert (saved.event_count, saved.problems) == (TURN_EVENTS, [])


def test_of_a_frame_that_does_not_decode_nothing_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head, first, second = frames([[header()], turn(), turn(TURN_EVENTS)])
    changed = second[:-1] + bytes([second[-1] ^ 1])  # its checksum: the text decodes, and is not to be trusted
    for number, tail in enumerate((b"", frames([turn(2 * TURN_EVENTS)])[0])):
        log = write(tmp_path / "session.jsonl.zstd", head + first + changed + tail)
        out = tmp_path / f"{number}.jsonl"
        assert main(["rescue", str(log), "-o", str(out)]) == 0
        assert "8 events of the session sample kept" in capsys.readouterr().out
        assert (open_session(out).event_count, open_session(out).problems) == (TURN_EVENTS, [])
    log.write_bytes(head[:-1] + bytes([head[-1] ^ 1]) + first)
    assert main(["rescue", str(log), "-o", str(tmp_path / "none.jsonl")]) == 1
    assert "frame 1: " in capsys.readouterr().err
    assert not (tmp_path / "none.jsonl").exists()


def test_of_a_torn_log_all_but_its_end_is_saved_and_of_a_whole_one_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write(tmp_path / "torn.jsonl", text(header(), *turn()) + b'{"type"')
    assert main(["rescue", str(log), "-o", str(tmp_path / "one.jsonl")]) == 0
    assert "the rest left out: line 9: the last line is not whole (7 bytes)\n" in capsys.readouterr().out
    assert main(["rescue", str(tmp_path / "one.jsonl"), "-o", str(tmp_path / "two.jsonl")]) == 0
    assert "nothing left out" in capsys.readouterr().out
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("data", "words", "sentence"),
    [
        (b"", ["-o", "new.jsonl"], "the file is empty: the session has just begun"),
        (b'{"type":"session","version":9,"id":"a"}\n', ["-o", "new.jsonl"], "format 9 is newer than 4"),
        (text(header()), ["-o", "no/new.jsonl"], "the file cannot be made"),
        (text(header()), ["--break-lock"], "there is none to break"),
    ],
)
def test_what_cannot_be_saved_is_one_sentence_and_leaves_nothing(
    data: bytes,
    words: list[str],
    sentence: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "session.jsonl", data)
    assert main(["rescue", "session.jsonl", *words]) == 1
    told = capsys.readouterr()
    assert sentence in told.err
    assert told.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["session.jsonl"]
