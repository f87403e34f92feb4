"""The bar of long work: where a person sees it, after a while, and nowhere else."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import IPython
import pytest

from cassette_lab.progress import Bar, in_notebook
from cassette_lab.tables import load
from tests.unit.cassette_samples import siblings, write


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


def test_load_has_one_in_a_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.cassette.jsonl", siblings())
    stream = _Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("cassette_lab.progress.AFTER_S", -1.0)
    monkeypatch.setattr("cassette_lab.progress.in_notebook", lambda: True)
    load(tmp_path)
    assert "1/3" in stream.getvalue()
    stream.truncate(0)
    load(tmp_path, progress=lambda *_: None)
    assert not stream.getvalue().strip("\0")
