"""Session logs shared with a second process: the same tables and refusals, nothing hangs or is left, and no need for it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.errors import FormatError
from cassette_lab.session import helper, sharing
from cassette_lab.session.finding import find_logs
from cassette_lab.session.helper import Helper
from cassette_lab.session.listing import _told_there, told_of
from cassette_lab.session.persistence import StoredSession
from cassette_lab.session.sharing import Task, in_order, runs_of
from cassette_lab.session.store_sqlite import SqliteSessionStore
from cassette_lab.tables import Lab, parts, sessions
from cassette_lab.tables import load as load_tables
from cassette_lab.tables.parts import part_of_logs
from tests.unit.cassette_samples import siblings
from tests.unit.cassette_samples import write as write_cassette
from tests.unit.session_files import ASKED_EVENTS, asked, log_file
from tests.unit.session_samples import header, text, write
from tests.unit.session_stores import log_turn, new_session
from tests.unit.session_told import ev


@pytest.fixture(autouse=True, scope="module")
def no_process_afterwards() -> Iterator[None]:
    yield
    Helper.end_current()


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sharing pays at once, two files are a task, and the process has begun."""
    begin()
    monkeypatch.setattr(sharing, "_PAYS_COLD", 0)
    monkeypatch.setattr(sharing, "_PAYS_WARM", 0)
    monkeypatch.setattr(sharing, "_RUN_FILES", 2)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the tasks that the second process was given."""
    numbers: list[int] = []
    give = Helper.give

    def noted(self: Helper, number: int, *task: Any) -> None:
        numbers.append(number)
        give(self, number, *task)

    monkeypatch.setattr(Helper, "give", noted)
    return numbers


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Logs of every kind: good and bad ones, torn ones, a fork, other formats, a store, and a cassette between them."""
    folder = tmp_path / "runs"
    home = folder / ".sessions" / "--p--"
    for number in range(6):
        name = f"plain-{number}"
        ending = ".zstd" if number % 2 else ""
        log_file(home / name / f"session.jsonl{ending}", *asked(1), *asked(2, at=100), id=name)
    log_file(
        home / "fork" / "session.jsonl",
        *asked(1),
        *asked(2, at=200),
        id="fork",
        parentSession="plain-0",
        seedLength=ASKED_EVENTS,
    )
    log_file(home / "new" / "session.v4.jsonl.zstd", ev("turn/start", {"turn": 1}), version=4, id="new")
    torn = log_file(home / "torn" / "session.jsonl.zstd", *asked(1), id="torn")
    torn.write_bytes(torn.read_bytes()[:-5])
    cut = log_file(home / "cut" / "session.jsonl", *asked(1), id="cut \ud83d")
    cut.write_bytes(cut.read_bytes()[:-3])
    write(home / "empty" / "session.jsonl", b"")
    write(home / "noise" / "session.jsonl.zstd", b"noise")
    broken = log_file(home / "broken" / "session.jsonl", *asked(1), *asked(2), id="broken")
    broken.write_bytes(broken.read_bytes().replace(b'"seq":4,', b'"seq":5,', 1))
    write(home / "zeroth" / "session.jsonl", text(header(id="zeroth"), {"type": 3}, ev("turn/end", {"turn": 1}, seq=1)))
    log_file(folder / "--flat--" / "old.jsonl", *asked(1), id="old")
    write_cassette(folder / "a.cassette.jsonl", siblings())
    write(folder / "b.cassette.jsonl", b"{}\n")
    with SqliteSessionStore(folder / "store" / "sessions.db") as store:
        for name in ("one", "two"):
            session = new_session(name)
            log_turn(session)
            with StoredSession.create(store, session):
                pass
    monkeypatch.chdir(tmp_path)
    return folder


def begin(*functions: Callable[..., Any]) -> None:
    """Wait for a process that is ready for tasks of these functions."""
    process = Helper.current()
    assert process is not None
    for function in functions or (part_of_logs, _told_there):
        while not process.is_ready_for(function):
            assert not list(process.take(print, 10))


def told(lab: Lab) -> dict[str, list[dict[str, Any]]]:
    return {name: table.to_pylist() for name, table in [*lab.tables.items(), ("events", lab.events)]}


def refusal(load: Callable[[], object]) -> str:
    with pytest.raises(FormatError) as error:
        load()
    return f"{error.value} {error.value.code} {error.value.field} {error.value.frame}"


@pytest.mark.parametrize("bodies", [False, True])
@pytest.mark.usefixtures("runs")
def test_two_processes_give_what_one_gives(given: list[int], *, bodies: bool) -> None:
    expected = told(load_tables("runs", on_error="collect", bodies=bodies))
    assert len(expected["sessions"]) == 13
    assert len(expected["problems"]) == 5
    for _ in range(2):
        assert told(load_tables("runs", on_error="collect", bodies=bodies, workers=2)) == expected
    assert len(given) >= 4


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize("enough", [1, 3])
def test_rows_are_the_same_however_many_make_a_batch(enough: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = told(load_tables("runs", on_error="collect"))
    for module in (parts, sessions):
        monkeypatch.setattr(module, "ENOUGH_ROWS", enough)
    lab = load_tables("runs", on_error="collect")
    assert lab.turns["turn"].num_chunks > 5
    assert told(lab) == expected


@pytest.mark.usefixtures("runs")
def test_the_list_of_sessions_is_the_same_from_two_processes(given: list[int], tmp_path: Path) -> None:
    found = list(find_logs("runs"))
    expected = list(told_of(found, workers=1))
    assert [kind for _, kind, _ in expected].count("session") == 13
    assert {number for number, _, _ in expected} == set(range(len(found)))
    assert not given
    for _ in range(2):
        assert list(told_of(found, workers=2)) == expected
    assert given
    with contextlib.closing(told_of(found, workers=2)) as some:
        assert next(some) == expected[0]
    assert [kind for _, kind, _ in told_of([*find_logs(tmp_path / "nothing")], workers=2)] == ["problem"]


def test_the_first_refusal_is_raised_wherever_it_stands(tmp_path: Path, given: list[int]) -> None:
    for place in ((0,), (5,), (11,), (3, 9), (4, 5)):
        folder = tmp_path / "-".join(map(str, place))
        for number in range(12):
            path = folder / f"{number:02}" / "session.jsonl"
            if number in place:
                write(path, f"no log, but number {number}\n".encode())
            else:
                log_file(path, *asked(1), id=str(number))
        expected = refusal(lambda folder=folder: load_tables(folder))  # type: ignore[misc]
        assert f"{place[0]:02}" in expected
        assert refusal(lambda folder=folder: load_tables(folder, workers=2)) == expected  # type: ignore[misc]
    assert given


def test_of_200_sessions_one_is_bad(tmp_path: Path, given: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_RUN_FILES", 16)
    for number in range(200):
        log_file(tmp_path / f"{number:03}" / "session.jsonl.zstd", *asked(1), id=f"s{number}")
    (tmp_path / "123" / "session.jsonl.zstd").write_bytes(b"no frame")
    done: list[tuple[int, int, str]] = []
    lab = load_tables(tmp_path, on_error="collect", workers=2, progress=lambda *each: done.append(each))
    assert lab.sessions["session_id"].to_pylist() == [f"s{number}" for number in range(200) if number != 123]
    assert [Path(source).parts[-2] for source in lab.problems["source"].to_pylist()] == ["123"]
    assert [each[:2] for each in done] == [(number, 200) for number in range(1, 201)]
    assert len({source for _, _, source in done}) == 200
    assert given


def test_an_empty_folder_and_a_single_file_need_no_process(tmp_path: Path, given: list[int]) -> None:
    Helper.end_current()
    with pytest.raises(FormatError, match="there is no cassette or session log"):
        load_tables(tmp_path, workers=2)
    path = log_file(tmp_path / "session.jsonl", *asked(1))
    assert load_tables(path, workers=2).sessions.num_rows == 1
    assert not given
    assert not Helper.is_there()


def test_little_work_starts_no_process(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Helper.end_current()
    monkeypatch.undo()
    load_tables(runs, on_error="collect", workers=2)
    assert not Helper.is_there()


def test_the_bar_goes_on_while_the_other_process_reads(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr("cassette_lab.tables.telling.Bar.__call__", lambda _self, *each: seen.append(each))
    load_tables(runs, on_error="collect", workers=2, progress=True)
    assert all(before[0] <= after[0] for before, after in zip(seen[-5:], seen[-4:], strict=False))
    assert max(done for done, _ in seen) == seen[-1][0] == seen[-1][1]


@pytest.mark.usefixtures("runs")
def test_names_are_from_where_this_process_is_now(tmp_path: Path) -> None:
    load_tables("runs", on_error="collect", workers=2)
    (tmp_path / "elsewhere").mkdir()
    os.chdir(tmp_path / "elsewhere")
    expected = refusal(lambda: load_tables("../runs"))
    assert expected.startswith("../runs")
    assert refusal(lambda: load_tables("../runs", workers=2)) == expected


def kill(process: Helper) -> None:
    assert process.process is not None
    process.process.kill()


def stop(process: Helper) -> None:
    assert process.process is not None
    os.kill(process.process.pid, signal.SIGSTOP)


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(("harm", "after_tasks"), [(kill, 0), (kill, 1), (stop, 1)])
def test_a_process_that_is_killed_or_hangs_is_done_without(
    monkeypatch: pytest.MonkeyPatch, harm: Callable[[Helper], None], after_tasks: int
) -> None:
    monkeypatch.setattr(helper, "PATIENCE_S", 0.3 if harm is stop else 60)
    give = Helper.give
    count = 0

    def harmed(self: Helper, *task: Any) -> None:
        nonlocal count
        if count == after_tasks:
            harm(self)
        count += 1
        give(self, *task)

    monkeypatch.setattr(Helper, "give", harmed)
    expected = told(load_tables("runs", on_error="collect"))
    assert told(load_tables("runs", on_error="collect", workers=2)) == expected
    assert count > after_tasks


def test_a_process_that_cannot_be_started_is_done_without(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Helper.end_current()
    monkeypatch.setattr(sys, "executable", str(runs / "missing"))
    assert load_tables(runs, on_error="collect", workers=2).sessions.num_rows == 13


def test_an_interrupt_ends_the_process_and_the_next_load_is_whole(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = told(load_tables(runs, on_error="collect"))
    with monkeypatch.context() as patch:
        processes = []

        def interrupted(*_: object, **__: object) -> None:
            processes.append(Helper._current.process if Helper._current else None)
            raise KeyboardInterrupt

        patch.setattr(parts, "_rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load_tables(runs, on_error="collect", workers=2)
    assert processes[0] is not None
    assert processes[0].poll() is not None
    assert told(load_tables(runs, on_error="collect", workers=2)) == expected


def test_what_a_progress_function_raises_comes_out(runs: Path) -> None:
    def tired(*_: object) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        load_tables(runs, on_error="collect", workers=2, progress=tired)
    assert load_tables(runs, on_error="collect", workers=2).sessions.num_rows == 13


def test_another_thread_does_not_wait(runs: Path, given: list[int]) -> None:
    found: list[Lab] = []
    with Helper.lock:
        thread = threading.Thread(target=lambda: found.append(load_tables(runs, on_error="collect", workers=2)))
        thread.start()
        thread.join(30)
    assert found[0].sessions.num_rows == 13
    assert not given


def test_results_come_in_order_and_what_the_process_cannot_do_is_done_here() -> None:
    def tasks(function: Callable[..., int]) -> list[Task[int]]:
        def here(number: int) -> Callable[[object], int]:
            return lambda _: -number

        return [Task(1, here(number), function, (number,)) for number in range(20)]

    def results(function: Callable[..., int]) -> list[int]:
        return list(in_order(tasks(function), workers=2, tell=print))

    begin(max_of, failing)
    both = results(max_of)
    assert [abs(each) for each in both] == list(range(20))
    assert both[-1] == 19
    assert results(failing) == [-number for number in range(20)]
    with_end = in_order(tasks(max_of), workers=2, tell=print)
    assert next(with_end) == 0
    with_end.close()
    assert not Helper.lock.locked()
    assert [abs(each) for each in results(max_of)] == list(range(20))


def max_of(number: int, _tell: object) -> int:
    return number


def failing(_number: int, _tell: object) -> int:
    raise ValueError


def test_files_are_cut_into_runs_by_cost_and_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_RUN_COST", 10)
    assert list(runs_of([])) == []
    assert list(runs_of([1] * 5)) == [(0, 2), (2, 4), (4, 5)]
    assert list(runs_of([1, 50, 1, 9, 1])) == [(0, 1), (1, 2), (2, 4), (4, 5)]


def test_two_large_logs_are_read_at_once(given: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "_RUN_COST", 1)
    for name in "ab":
        log_file(tmp_path / name / "session.jsonl", *asked(1), id=name)
    assert load_tables(tmp_path, workers=2).sessions["session_id"].to_pylist() == ["a", "b"]
    assert given == [1]


def test_the_last_log_is_given_away_while_this_process_is_busy(given: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    begin(max_of)
    ready = Helper.is_ready_for
    asked: list[object] = []

    def starting(self: Helper, function: Callable[..., object]) -> bool:
        asked.append(function)
        return len(asked) > 2 and ready(self, function)

    monkeypatch.setattr(Helper, "is_ready_for", starting)

    def here(tell: Callable[..., object]) -> int:
        for _ in range(4):
            tell()
        return 0

    assert list(in_order([Task(9, here, max_of, (0,)), Task(9, here, max_of, (7,))], workers=2, tell=lambda: None)) == [0, 7]
    assert given == [1]


PROGRAM = """
import sys
sys.path.pop(0)
from cassette_lab.cassette.without_pandas import do_without_pandas
do_without_pandas()
from cassette_lab.session import sharing
from cassette_lab.session.helper import Helper
from cassette_lab.tables import load
sharing._PAYS_COLD = sharing._PAYS_WARM = 0
sharing._RUN_FILES = 2
from cassette_lab.tables.parts import part_of_logs
while not Helper.current().is_ready_for(part_of_logs):
    list(Helper.current().take(print, 10))
count = lambda: load(sys.argv[1], on_error="collect", workers=2).sessions.num_rows
"""


def program(folder: Path, code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM + code)
    command = [sys.executable, "-W", "ignore", "program.py", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)


def test_nothing_of_the_users_program_runs_twice_and_nothing_is_left(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "orjson.py").write_text("raise SystemExit('a file of the user was imported')")
    done = program(tmp_path, "print(count())\nprint(Helper._current.process.pid)\n", runs)
    rows, process = done.stdout.split()
    assert (int(rows), done.stderr) == (13, "")
    assert not is_running(int(process))


def test_the_second_process_ends_when_the_first_is_killed(runs: Path, tmp_path: Path) -> None:
    code = "import os\ncount()\nprint(Helper._current.process.pid, flush=True)\nos.kill(os.getpid(), 9)\n"
    done = program(tmp_path, code, runs)
    deadline = time.monotonic() + 30
    while is_running(int(done.stdout)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(int(done.stdout))


def test_a_forked_process_leaves_the_second_process_to_its_parent(runs: Path, tmp_path: Path) -> None:
    code = "import os\ncount()\nchild = os.fork()\nif not child:\n    os._exit(count() != 13)\n"
    done = program(tmp_path, f"{code}print(os.waitpid(child, 0)[1], count())\n", runs)
    assert (done.stdout.split(), done.stderr) == (["0", "13"], "")


def is_running(process: int) -> bool:
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
