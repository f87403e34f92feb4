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
from tests.benchmarks.generate import cassette_file


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
