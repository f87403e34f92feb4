"""load(): which files it takes, in which order, and what becomes of those it cannot take."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import cassette_lab as cl
from cassette_lab.errors import CassetteLabError, ConfigError, FormatError
from cassette_lab.tables import load
from tests.unit.cassette_samples import full, siblings, write


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of runs: two cassettes, one below, one by another name, and files that are none."""
    folder = tmp_path / "runs"
    (folder / "deep" / "er").mkdir(parents=True)
    write(folder / "b.cassette.jsonl", siblings())
    write(folder / "a.cassette.jsonl", full())
    write(folder / "deep" / "er" / "c.cassette.jsonl", siblings())
    write(folder / "deep" / "other-name.jsonl", full())
    (folder / "notes.md").write_text("no cassette")
    (folder / "log.jsonl").write_text('{"kind":"something else"}\n')
    (folder / "empty.jsonl").touch()
    monkeypatch.chdir(tmp_path)
    return folder


def sources(lab: cl.Lab) -> list[str]:
    return [str(source) for source in lab.cassettes["source"].to_pylist()]


ALL = ["runs/a.cassette.jsonl", "runs/b.cassette.jsonl", "runs/deep/er/c.cassette.jsonl", "runs/deep/other-name.jsonl"]


def test_a_folder_is_looked_into_and_gives_its_cassettes_by_name(runs: Path) -> None:
    for given in (runs, "runs", "runs/", "./runs"):
        lab = load(given)
        assert sources(lab) == ALL
        assert lab.problems.num_rows == 0
    assert lab.calls.num_rows == 2 * 8 + 2 * 2
    assert lab.calls["source"].unique().to_pylist() == ALL


def test_names_begin_at_the_root(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(runs).root == runs.parent
    monkeypatch.chdir(runs / "deep")
    lab = load(runs)
    assert lab.root == runs
    assert sources(lab)[0] == "a.cassette.jsonl"
    assert sources(load(runs / "b.cassette.jsonl")) == ["b.cassette.jsonl"]
    assert sources(load(runs / "deep" / "er", runs / "a.cassette.jsonl")) == ["deep/er/c.cassette.jsonl", "a.cassette.jsonl"]


def test_paths_lists_and_patterns_in_the_order_they_are_given(runs: Path) -> None:
    assert sources(load([runs / "b.cassette.jsonl", "runs/a.cassette.jsonl"])) == [ALL[1], ALL[0]]
    assert sources(load("runs/*.cassette.jsonl")) == ALL[:2]
    assert sources(load("runs/**/*.cassette.jsonl")) == ALL[:3]
    assert sources(load("runs/d*", "runs/a.cassette.jsonl")) == [*ALL[2:], ALL[0]]


def test_a_file_counts_once(runs: Path) -> None:
    (runs / "z-link.cassette.jsonl").symlink_to(runs / "a.cassette.jsonl")
    (runs / "deep" / "up").symlink_to(runs)
    os.link(runs / "b.cassette.jsonl", runs / "y-same.cassette.jsonl")
    assert sources(load("runs", runs, "runs/**", "runs/b.cassette.jsonl")) == ALL


def test_a_name_with_pattern_characters_is_a_name_where_there_is_such_a_file(runs: Path) -> None:
    write(runs / "what[1]?.cassette.jsonl", siblings())
    assert sources(load("runs/what[1]?.cassette.jsonl")) == ["runs/what[1]?.cassette.jsonl"]


def test_hidden_folders_are_passed_by_except_the_recorders_own(runs: Path) -> None:
    for name in (".git", ".venv", "node_modules", ".dsh-cassettes"):
        (runs / name).mkdir()
        write(runs / name / "x.cassette.jsonl", siblings())
    assert sources(load("runs")) == ["runs/.dsh-cassettes/x.cassette.jsonl", *ALL]
    assert sources(load("runs/.git")) == ["runs/.git/x.cassette.jsonl"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("runs/missing.cassette.jsonl", "runs/missing.cassette.jsonl: there is no such file"),
        ("runs/*.none", "runs/*.none: no file matches this pattern"),
        ("nowhere/**", "nowhere/**: no file matches this pattern"),
        ("bare", "bare: there is no cassette or session log in this folder"),
        ("runs/notes.md", "runs/notes.md, line 1: the line is not JSON"),
        ("runs/pipe.jsonl", "runs/pipe.jsonl: this is a device or pipe"),
    ],
)
def test_a_path_that_gives_nothing_is_an_error(runs: Path, given: str, sentence: str) -> None:
    (runs.parent / "bare").mkdir()
    os.mkfifo(runs / "pipe.jsonl")
    with pytest.raises(FormatError) as caught:
        load("runs/a.cassette.jsonl", given)
    assert str(caught.value).startswith(sentence)
    lab = load("runs/a.cassette.jsonl", given, on_error="collect")
    assert sources(lab) == ALL[:1]
    assert lab.problems["source"].to_pylist() == [given]
    assert lab.problems["code"].to_pylist() == ["CASSETTE_FORMAT"]


@pytest.mark.usefixtures("runs")
def test_a_folder_that_may_not_be_read_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def refusing(path: str) -> object:
        if Path(path).name == "deep":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(FormatError, match=r"runs/deep: the folder cannot be read \(Permission denied\)"):
        load("runs")
    lab = load("runs", on_error="collect")
    assert (sources(lab), lab.problems["source"].to_pylist()) == (ALL[:2], ["runs/deep"])


def test_a_pattern_passes_by_what_a_folder_passes_by(runs: Path) -> None:
    (runs / ".git").mkdir()
    write(runs / ".git" / "x.cassette.jsonl", siblings())
    assert sources(load("runs/**/*.cassette.jsonl", "runs/*")) == ALL
    with pytest.raises(FormatError, match=r"empty\.jsonl: the file holds no record"):
        load("runs/*.jsonl")
    with pytest.raises(CassetteLabError, match="pattern"):  # which of two sentences depends on Python's version
        load("runs/***a/b")


def test_hundreds_of_files_with_a_bad_one(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", siblings()).read_bytes()
    for number in range(300):
        (tmp_path / f"{number:04}.cassette.jsonl").write_bytes(whole if number != 150 else whole[:-200])
    with pytest.raises(FormatError, match=r"0150\.cassette\.jsonl, line 9: "):
        load(tmp_path)
    done: list[tuple[int, int, str]] = []
    lab = load(tmp_path, on_error="collect", progress=lambda *each: done.append(each))
    assert (lab.cassettes.num_rows, lab.calls.num_rows, lab.problems.num_rows) == (299, 299 * 8, 1)
    problem = lab.problems.to_pylist()[0]
    assert (problem["source"], problem["line"], problem["code"]) == ("0150.cassette.jsonl", 9, "CASSETTE_FORMAT")
    assert done[0] == (1, 300, "0000.cassette.jsonl")
    assert len(done) == 300


def test_bodies_only_when_they_are_asked_for(runs: Path) -> None:
    assert not {"prompt", "output", "structured", "error_message"} & set(load(runs).calls.column_names)
    calls = load(runs / "b.cassette.jsonl", bodies=True).calls
    assert calls["error_message"].to_pylist()[3:5] == ["the model is down", ""]
    assert calls["structured"].to_pylist()[2] == '{"a":[1.5,null],"z":1}'


def test_two_processes_give_the_same_lab(runs: Path) -> None:
    ones, others = load(runs, bodies=True), load(runs, bodies=True, workers=2)
    assert all(ones.tables[name].equals(others.tables[name]) for name in ones.tables)


def test_options_that_cannot_be_used(runs: Path) -> None:
    with pytest.raises(ConfigError, match="needs a path"):
        load()
    with pytest.raises(ConfigError, match="needs a path"):
        load("")
    with pytest.raises(ConfigError, match="raise or collect, not ignore"):
        load(runs, on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="workers must be 1"):
        load(runs, workers=0)


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    write(tmp_path / os.fsdecode(b"a\xff.cassette.jsonl"), siblings())
    assert sources(load(tmp_path)) == ["a\\udcff.cassette.jsonl"]
