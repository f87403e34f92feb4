"""The bar of long work: where a person sees it, after a while, and nowhere else."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import IPython
import pytest

from cassette_lab.errors import FormatError
from cassette_lab.progress import Bar, in_notebook
from cassette_lab.tables import load
from tests.unit.cassette_samples import siblings, write
from tests.unit.session_samples import delta, event, header, text
from tests.unit.session_samples import write as write_log


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, terminal: bool = True, after_s: float = -1) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    with Bar("loading", terminal=terminal, after_s=after_s) as bar:
        for number in range(1, 11):
            bar(number, 10, "\x1b[31mname")
        return stream.getvalue()


def test_a_terminal_shows_it_and_is_clean_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = _Terminal()
    shown = _shown(monkeypatch, stream)
    assert "loading:" in shown
    assert "1/10" in shown
    assert "name" not in shown
    assert stream.getvalue().endswith("\r")
    assert stream.getvalue().split("\r")[-2].strip() == ""


def test_short_work_pipes_and_terminals_that_were_not_asked_for_show_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _shown(monkeypatch, _Terminal(), after_s=60) == ""
    assert _shown(monkeypatch, io.StringIO()) == ""
    assert _shown(monkeypatch, _Terminal(), terminal=False) == ""


def test_a_kernel_is_told_from_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not in_notebook()
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(kernel=object()))
    assert in_notebook()
    assert Bar("loading")._is_wanted
    monkeypatch.setattr(IPython, "get_ipython", SimpleNamespace)
    assert not Bar("loading")._is_wanted


def test_nothing_is_imported_for_short_work() -> None:
    program = (
        "import sys; from cassette_lab.progress import Bar\nwith Bar('x', terminal=True) as bar: bar(1, 2)\n"
        "assert 'tqdm' not in sys.modules and 'IPython' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def _bars(monkeypatch: pytest.MonkeyPatch, *, notebook: bool) -> _Terminal:
    """From now on every load takes long enough for a bar; where it goes."""
    stream = _Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("cassette_lab.progress.AFTER_S", -1.0)
    monkeypatch.setattr("cassette_lab.progress.in_notebook", lambda: notebook)
    return stream


def test_load_has_one_in_a_notebook_and_in_a_terminal_that_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(write(tmp_path / f"{name}.cassette.jsonl", siblings()).stat().st_size for name in ("a", "b", "c"))
    stream = _bars(monkeypatch, notebook=True)
    load(tmp_path)
    assert f"/{size / 1000:.1f}k" in stream.getvalue()
    for notebook, progress in ((True, False), (True, lambda *_: None), (False, None)):
        silent = _bars(monkeypatch, notebook=notebook)
        load(tmp_path, progress=progress)
        assert silent.getvalue() == ""
    stream = _bars(monkeypatch, notebook=False)
    load(tmp_path, progress=True)
    assert "loading:" in stream.getvalue()


def test_it_goes_on_within_a_large_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [delta(seq, f"word {seq}") if seq % 2 else delta(seq, "x", "reasoning-delta") for seq in range(5_000)]
    rows[::500] = [event(seq, "step/start", {"turn": 1, "step": 1}) for seq in range(0, 5_000, 500)]  # a call alone is one row
    log = write_log(tmp_path / "session.jsonl", text(header(), *rows))
    done: list[tuple[int, ...]] = []
    _bars(monkeypatch, notebook=True)
    monkeypatch.setattr(Bar, "__call__", lambda _, *now: done.append(now))
    load(log)
    assert len(done) > 2
    assert done == sorted(done)
    assert done[-1] == (log.stat().st_size, log.stat().st_size)


def test_the_bar_goes_away_when_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.cassette.jsonl", siblings())
    write(tmp_path / "b.cassette.jsonl", siblings()).write_bytes(b"oops\n" * 1_000)
    stream = _bars(monkeypatch, notebook=True)
    with pytest.raises(FormatError):
        load(tmp_path)
    assert "loading:" in stream.getvalue()
    assert stream.getvalue().split("\r")[-2].strip() == ""
