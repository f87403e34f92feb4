"""The reading verbs of ``%cassette`` on session logs, and what ``load`` shows where something is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from cassette_lab.errors import FormatError
from cassette_lab.notebook import reports
from cassette_lab.notebook.options import parse
from cassette_lab.session.opening import open_session
from tests.unit.session_files import asked, log_file
from tests.unit.session_samples import header, text, turn, write


def test_a_session_log_is_verified_and_inspected(tmp_path: Path) -> None:
    log = log_file(tmp_path / "session.jsonl", *asked(1), id="root")
    verified = reports.verify(parse(f"verify '{log}'"))
    assert verified["whole"]
    assert repr(verified).startswith("✓ session log of format 0 · 10 events · it follows its format; there is no hash chain")
    inspected = reports.inspect(parse(f"inspect '{log}'"))
    assert (inspected["modelCalls"], inspected["end"]) == (1, "completed")
    assert "tokens       100 in, 10 out" in repr(inspected)


def test_a_torn_one_is_not_whole_and_can_be_rescued(tmp_path: Path) -> None:
    log = write(tmp_path / "session.jsonl", text(header(), *turn()) + b"\x1b[31m<b>")
    shown = reports.verify(parse(f"verify '{log}'"))
    assert "it is not whole" in repr(shown)
    assert "note  the last line is not whole" in repr(shown)
    line = reports.rescue(parse(f"rescue '{log}' -o '{tmp_path / 'new.jsonl'}'"))
    assert str(line).startswith("◐ 8 events of the session sample kept in ")
    assert open_session(tmp_path / "new.jsonl").problems == []


def test_load_shows_what_is_broken_beside_the_rest_unless_it_is_told_to_stop(tmp_path: Path) -> None:
    log_file(tmp_path / "a" / "session.jsonl", *asked(1), id="good")
    write(tmp_path / "b" / "session.jsonl", b"nothing\n")
    lab = reports.load(parse(f"load '{tmp_path}'"))
    assert (lab.sessions.num_rows, lab.problems.num_rows) == (1, 1)
    assert "is this a session log?" in repr(lab)
    with pytest.raises(FormatError, match="is this a session log"):
        reports.load(parse(f"load '{tmp_path}' --on-error raise"))
    with pytest.raises(FormatError, match="is this a session log"):
        reports.load(parse(f"load '{tmp_path / 'b'}'"))
