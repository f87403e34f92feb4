"""The server half of the viewer, against a real Jupyter server: what it gives, to whom, and that nothing is left behind."""

from __future__ import annotations

import base64
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.manager import ContentsManager

from cassette_lab.flight.reader import save_snapshot
from cassette_lab.flight.recorder import FlightRecorder
from cassette_lab.jsonio import parse
from cassette_lab.server.jupyter.process import Worker
from cassette_lab.server.jupyter.tasks import Named, Task
from cassette_lab.server.jupyter.wishes import TABLES
from cassette_lab.tables import load, schemas
from tests.benchmarks.generate import cassette_file
from tests.unit.session_samples import event, frames, text, turn, write
from tests.unit.session_samples import header as session_header
from tests.unit.test_scan import changed, sample, save
from tests.unit.test_viewer_canary import CANARY, places_of, with_canary
from tests.unit.viewer_server import OPEN, STATUS, TOKEN, Viewer, children, jupyter_server, table_of

HIDDEN = ".hidden.cassette.jsonl"


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    home = tmp_path_factory.mktemp("viewer")
    root = home / "root"
    fill(root)
    save(home / "outside.cassette.jsonl", sample(3))
    with jupyter_server(root, home / "home", spare_seconds=0.0, max_bytes=40_000_000) as server:
        yield server


def fill(root: Path) -> None:
    runs = root / "runs"
    runs.mkdir(parents=True)
    save(runs / "a.cassette.jsonl", sample(40, "plain"))
    other = changed(sample(40, "plain"), {7: lambda call: call["timing"].update(durationMs=99.0)})
    save(runs / "b.cassette.jsonl", other[:-1])
    (runs / "session.jsonl").write_bytes(text(session_header(), *turn()))
    (root / "packed").mkdir()
    (root / "packed" / "session.jsonl.zstd").write_bytes(b"".join(frames([[session_header()], turn()])))
    save_snapshot(FlightRecorder().snapshot(), runs / "x.flight.json")
    for folder in (root, runs):
        save(folder / HIDDEN, sample(2))
        for hidden in (".dsh", ".secret"):
            (folder / hidden).mkdir()
            save(folder / hidden / "h.cassette.jsonl", sample(2))
    broken = sample(40)
    broken[30] = broken[30].replace(b'"local":', b'"lokal":')
    save(root / "broken.cassette.jsonl", broken)
    save(root / "torn.cassette.jsonl", [*sample(20)[:-1], sample(20)[-1][:50]])
    (root / "binary.bin").write_bytes(bytes(range(256)) * 20)
    (root / "notes.txt").write_text("just words\n")
    (root / "empty.jsonl").write_bytes(b"")
    (root / "empty").mkdir()
    (root / "page.cassette.jsonl").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(2_000))
    with (root / "huge.cassette.jsonl").open("wb") as file:
        file.truncate(50_000_000)


def test_a_cassette_comes_as_header_pages_and_a_verdict(viewer: Viewer) -> None:
    answer = viewer.open("runs/a.cassette.jsonl")
    lab = load(viewer.root / "runs" / "a.cassette.jsonl")
    names = [event["event"] for event, _ in answer.frames]
    assert names[:3] == ["begin", "header", "state"]
    assert names[-2:] == ["state", "end"]
    facts = answer.last("header")
    assert (facts["source"], facts["bytes"]) == ("runs/a.cassette.jsonl", lab.cassettes["bytes"][0].as_py())
    calls = answer.table("calls")
    assert calls.drop(["source"]).equals(lab.calls.drop(["source"]))
    assert calls.schema.equals(lab.calls.schema, check_metadata=True)
    assert set(calls["source"].to_pylist()) == {"runs/a.cassette.jsonl"}
    assert answer.table("cassettes")["interactions"].to_pylist() == [40]
    verdict = answer.last()
    assert (verdict["state"], verdict["words"], verdict["rows"], verdict["line"]) == ("verified", "chain verified", 40, 41)
    assert answer.last("end") == {
        "event": "end", "rows": {"calls": 40, "cassettes": 1}, "left_out": {}, "complete": True,
    }  # fmt: skip
    assert answer.headers["cache-control"] == "no-store"


def test_pages_of_a_large_file_are_one_stream_at_every_moment(viewer: Viewer) -> None:
    large = cassette_file(viewer.root, 8_000)
    answer = viewer.open(large.name)
    pages = [data for event, data in answer.frames if event["event"] == "page" and event["table"] == "calls"]
    assert len(pages) > 3
    counts = [table_of(pages[: number + 1]).num_rows for number in range(len(pages))]
    assert counts == [event["total_rows"] for event in answer.events("page") if event["table"] == "calls"]
    assert counts[-1] == 8_000
    assert table_of(pages).drop(["source"]).equals(load(large).calls.drop(["source"]))
    done = [event["done"] for event in answer.events("progress")]
    assert done == sorted(done)
    assert done[-1] == answer.last("progress")["total"] == large.stat().st_size


@pytest.mark.parametrize(
    ("name", "kind", "table"),
    [
        ("runs/session.jsonl", "session", "turns"),
        ("packed/session.jsonl.zstd", "session", "turns"),
        ("runs/x.flight.json", "flight", "flight_health"),
    ],
)
def test_logs_and_flight_records(viewer: Viewer, name: str, kind: str, table: str) -> None:
    answer = viewer.open(name)
    lab = load(viewer.root / name)
    assert (answer.last()["kind"], answer.last()["state"]) == (kind, "verified")
    assert answer.table(table).drop(["source"]).to_pylist() == lab.tables[table].drop(["source"]).to_pylist()
    assert answer.table(table)["source"].to_pylist() == [name]


def test_a_large_log_says_how_far_it_is(viewer: Viewer) -> None:
    rows = [event(seq, "turn/start", {"turn": 1, "more": "x" * 500}) for seq in range(20_000)]
    log = viewer.root / "large" / "session.jsonl"
    write(log, text(session_header(), *rows))
    told = viewer.open("large/session.jsonl").events("progress")
    done = [each["done"] for each in told]
    assert done == sorted(done)
    assert (done[-1], {each["total"] for each in told}) == (log.stat().st_size, {log.stat().st_size})


def test_a_folder_is_a_lab_without_what_is_hidden(viewer: Viewer) -> None:
    runs = viewer.open("runs")
    assert runs.last() == {
        "event": "state", "source": "runs", "kind": "folder", "state": "verified", "words": "4 files read", "rows": None,
        "line": None, "changed": False, "problem": None,
    }  # fmt: skip
    assert set(runs.table("calls")["source"].to_pylist()) == {"runs/a.cassette.jsonl", "runs/b.cassette.jsonl"}
    assert runs.last("end")["rows"]["calls"] == 79
    assert viewer.open("").last()["problem"]["code"] == "TOO_LARGE"
    assert viewer.open("empty").last()["problem"]["code"] == "EMPTY"


def test_two_files_are_compared(viewer: Viewer) -> None:
    answer = viewer.open("runs/a.cassette.jsonl", "runs/b.cassette.jsonl", compare=True)
    told = answer.last("diff")
    assert (told["expected"], told["actual"]) == ("runs/a.cassette.jsonl", "runs/b.cassette.jsonl")
    assert (told["comparable"], told["equivalent"], told["verdict"]) == (True, False, "different: 1 removed")
    calls = answer.table("calls")
    assert [calls["source"].to_pylist().count(told[side]) for side in ("expected", "actual")] == [40, 39]
    assert len(calls["source"].unify_dictionaries().chunk(0).dictionary) == 2
    assert [event["state"] for event in answer.events("state")].count("verified") == 2


def test_a_broken_file_says_where_and_gives_what_stands_before(viewer: Viewer) -> None:
    answer = viewer.open("broken.cassette.jsonl")
    told = answer.last()
    assert (told["state"], told["rows"], told["line"]) == ("partial", 29, 30)
    assert told["words"].startswith("verified up to line 30, not verified: line 31")
    problem = told["problem"]
    assert (problem["code"], problem["file"], problem["line"]) == ("CASSETTE_FORMAT", "broken.cassette.jsonl", 31)
    assert problem["field"]
    assert answer.table("calls")["line"].to_pylist() == list(range(2, 31))
    (row,) = answer.table("problems").to_pylist()
    assert (row["source"], row["line"], row["message"]) == ("broken.cassette.jsonl", 31, problem["message"])
    torn = viewer.open("torn.cassette.jsonl").last()
    assert (torn["rows"], torn["problem"]["line"]) == (19, 21)
    assert "cut off" in torn["problem"]["message"]


def test_a_broken_file_does_not_hide_the_other_one(viewer: Viewer) -> None:
    answer = viewer.open("broken.cassette.jsonl", "runs/a.cassette.jsonl", compare=True)
    assert [event["state"] for event in answer.events("state")] == ["verifying", "partial", "verifying", "verified"]
    assert (answer.events("diff"), answer.last("end")["rows"]["calls"]) == ([], 69)
    several = viewer.open("torn.cassette.jsonl", "runs/session.jsonl", "runs")
    assert (several.last()["state"], several.last()["words"]) == ("partial", "5 files, 1 problem")
    assert several.table("problems")["source"].to_pylist() == ["torn.cassette.jsonl"]


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("binary.bin", "BINARY", "the file is binary"),
        ("notes.txt", "UNKNOWN", "this is no cassette, session log or flight record"),
        ("empty.jsonl", "EMPTY", "the file is empty"),
        ("page.cassette.jsonl", "CASSETTE_FORMAT", "the line"),
    ],
)
def test_other_files_are_told_in_one_sentence(viewer: Viewer, name: str, code: str, words: str) -> None:
    answer = viewer.open(name)
    told = answer.last()
    assert (told["state"], told["problem"]["code"]) == ("broken", code)
    assert told["problem"]["message"].startswith(words)
    assert "\n" not in told["problem"]["message"]
    assert answer.last("end")["rows"].keys() <= {"problems"}


def test_a_large_file_is_refused(viewer: Viewer) -> None:
    answer = viewer.open("huge.cassette.jsonl")
    assert (answer.status, answer.json["code"]) == (413, "TOO_LARGE")
    assert "40,000,000 bytes" in answer.json["message"]


PATHS = [
    "../outside.cassette.jsonl", "runs/../../outside.cassette.jsonl", "runs/../runs/a.cassette.jsonl", "..", ".", "./runs",
    "%2e%2e/outside.cassette.jsonl", "..%2foutside.cassette.jsonl", "runs%2fa.cassette.jsonl", "/etc/passwd", "//etc/passwd",
    "~/x", "~root/.bashrc", "C:/x", "runs\\a.cassette.jsonl", "runs//a.cassette.jsonl", "a\0b", "\ud800", "nope", HIDDEN,
    ".secret/h.cassette.jsonl", ".secret", ".dsh", ".dsh/h.cassette.jsonl", "runs/*.cassette.jsonl", "file:///etc/passwd",
    "\uff41\uff0fb", "x" * 5_000,
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_to_what_is_not_shown(viewer: Viewer, path: str) -> None:
    answer = viewer.ask("POST", OPEN, content=json.dumps({"paths": [path]}))
    assert answer.status == 404, answer.body
    assert answer.json == {"code": "NOT_FOUND", "message": "there is no such file or folder, or it is not shown"}


def test_absolute_paths_and_pipes_lead_nowhere(viewer: Viewer) -> None:
    outside = viewer.root.parent / "outside.cassette.jsonl"
    for path in (outside, viewer.root / "runs" / "a.cassette.jsonl"):
        assert viewer.open(str(path)).status == 404
    pipe = viewer.root / "pipe.cassette.jsonl"
    os.mkfifo(pipe)
    try:
        assert viewer.open(pipe.name).status == 404
    finally:
        pipe.unlink()
    for name in ("open/../../../../etc/passwd", "open/%2e%2e/status/x", "open/x"):
        assert viewer.ask("POST", f"/base/cassette-lab/api/{name}", json={"paths": [""]}).status in (404, 405)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400), (b"[]", 400), (b"{", 400), (b"[" * 60_000, 400), (b"\xff", 400), (b" " * 70_000, 413),
        ({"paths": []}, 400), ({"paths": "runs"}, 400), ({"paths": [1]}, 400), ({"paths": ["runs"] * 101}, 400),
        ({"paths": ["runs"], "other": 1}, 400), ({"paths": ["runs"], "bodies": 1}, 400),
        ({"paths": ["runs"], "tables": ["secrets"]}, 400), ({"paths": ["runs"], "compare": True}, 400),
        ({"paths": ["runs", "runs"], "compare": True}, 400), ({"paths": ["runs/a.cassette.jsonl"], "bodies": True}, 403),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for(viewer: Viewer, body: Any, status: int) -> None:
    answer = viewer.ask("POST", OPEN, content=body if isinstance(body, bytes) else json.dumps(body).encode())
    assert (answer.status, sorted(answer.json)) == (status, ["code", "message"])


def test_nobody_asks_without_a_token_or_from_another_page(viewer: Viewer) -> None:
    wish = {"paths": ["runs/a.cassette.jsonl"]}
    assert viewer.ask("GET", STATUS, token=None).status == 403
    assert viewer.ask("POST", OPEN, token=None, json=wish).status == 403
    assert viewer.ask("POST", OPEN, token="wrong", json=wish).status == 403  # noqa: S106 - no password
    with viewer.client(token=None, follow_redirects=True) as browser:
        browser.get("/base/login", params={"token": TOKEN})
        assert browser.post(OPEN, json=wish).status_code == 403
        xsrf = browser.cookies["_xsrf"]
        assert browser.post(OPEN, json=wish, headers={"X-XSRFToken": "2|other"}).status_code == 403
        assert browser.post(OPEN, json=wish, headers={"X-XSRFToken": xsrf}).status_code == 200
        elsewhere = {"X-XSRFToken": xsrf, "Origin": "http://evil.example"}
        assert browser.post(OPEN, json=wish, headers=elsewhere).status_code == 404
    assert viewer.ask("GET", OPEN).status == 405


def test_the_process_is_killed_when_the_client_goes_away(viewer: Viewer) -> None:
    large = cassette_file(viewer.root, 6_000, "spaced")
    with viewer.streamed(large.name) as told:
        assert next(told)[0]["event"] == "begin"
        assert len(viewer.wait_for_workers(1)) == 1
    viewer.wait_for_workers(0)


def test_a_killed_process_is_told(viewer: Viewer) -> None:
    large = cassette_file(viewer.root, 6_000, "spaced")
    with viewer.streamed(large.name) as told:
        next(told)
        (worker,) = viewer.wait_for_workers(1)
        os.kill(worker, signal.SIGKILL)
        *_, state, end = [event for event, _ in told]
    assert (state["state"], state["problem"]["code"], end["complete"]) == ("broken", "ENDED", False)
    viewer.wait_for_workers(0)


def test_a_file_that_changes_while_it_is_read_is_told(viewer: Viewer) -> None:
    large = cassette_file(viewer.root, 6_001, "spaced")
    with viewer.streamed(large.name) as told:
        events = [next(told)[0] for _ in range(4)]
        with large.open("ab") as file:
            file.write(b"\n")
        events += [event for event, _ in told]
    last = [event for event in events if event["event"] == "state"][-1]
    assert last["changed"] is True
    assert (last["state"], last["problem"]["code"]) == ("unverified", "CHANGED")


def test_no_secret_is_in_replies_or_in_the_servers_log(viewer: Viewer) -> None:
    folder = viewer.root / "canary"
    folder.mkdir()
    whole = lines = sample(12)
    for number, line in enumerate(lines):
        for place in places_of(parse(line)):
            if place[-1] in ("message", "text", "why"):
                whole = with_canary(whole, number, place)
    save(folder / "a.cassette.jsonl", whole)
    save(folder / "b.cassette.jsonl", [*whole[:5], CANARY.encode(), *whole[5:]])
    (folder / "c.txt").write_text(CANARY)
    for name in ("canary/a.cassette.jsonl", "canary/b.cassette.jsonl", "canary/c.txt", "canary"):
        assert CANARY.encode() not in viewer.open(name).body
    assert CANARY.encode() not in viewer.open("canary/a.cassette.jsonl", "canary/b.cassette.jsonl", compare=True).body
    assert CANARY.encode() not in viewer.ask("POST", OPEN, json={CANARY: 1}).body
    assert CANARY not in viewer.log


def test_others_are_answered_and_many_readings_wait_for_each_other(viewer: Viewer) -> None:
    large = cassette_file(viewer.root, 8_000)
    with viewer.client() as client:
        answers = []
        for _ in range(2):
            with client.stream("POST", OPEN, json={"paths": [large.name]}) as response:
                start = time.monotonic()
                assert viewer.ask("GET", STATUS).status == 200
                assert time.monotonic() - start < 5
                answers.append(response.read())
    assert len(answers[0]) > 1_000_000


def test_more_readings_than_there_may_be_wait_and_a_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    large = cassette_file(tmp_path / "root", 6_000, "spaced")
    save(tmp_path / "root" / "b.cassette.jsonl", sample(3))
    (tmp_path / "link").symlink_to(tmp_path / "root")
    with jupyter_server(tmp_path / "link", tmp_path / "home", max_readings=1, spare_seconds=0.0) as server:
        with server.streamed(large.name) as told, server.streamed("b.cassette.jsonl") as waiting:
            next(told)
            assert next(waiting)[0] == {"event": "progress", "done": 0, "total": 0, "words": "waiting for other files"}
            rest = [event for event, _ in told]
            assert (rest[-1]["event"], rest[-1]["complete"]) == ("end", True)
            assert [event for event, _ in waiting][-2]["words"] == "chain verified"
        folder = server.open("")
        assert set(folder.table("calls")["source"].to_pylist()) == {large.name, "b.cassette.jsonl"}
        with server.streamed(large.name) as told:
            next(told)
            (worker,) = server.wait_for_workers(1)
            server.process.kill()
            server.process.wait()
            deadline = time.monotonic() + 10
            while _is_there(worker):
                assert time.monotonic() < deadline
                time.sleep(0.05)


def test_the_names_of_tables_are_those_of_a_lab() -> None:
    assert TABLES == schemas.TABLES


def test_what_an_installation_enables() -> None:
    project = Path(__file__).parents[2]
    config = json.loads((project / "jupyter-config" / "jupyter_server_config.d" / "cassette_lab.json").read_text())
    assert config == {"ServerApp": {"jpserver_extensions": {"cassette_lab.server.jupyter": True}}}


def test_limits_bodies_and_the_spare_process(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    save(root / "a.cassette.jsonl", sample(300, "full"))
    cassette_file(root, 8_000)
    with jupyter_server(root, tmp_path / "home", allow_bodies=True, max_rows=5_000, max_reply_bytes=1_200_000) as server:
        assert server.ask("GET", STATUS).json["bodies"] is True
        (spare,) = server.wait_for_workers(1)
        answer = server.open("a.cassette.jsonl", bodies=True)
        assert (
            answer.table("calls")["prompt"].to_pylist()
            == load(root / "a.cassette.jsonl", bodies=True).calls["prompt"].to_pylist()
        )
        assert "prompt" not in server.open("a.cassette.jsonl").table("calls").column_names
        end = server.open("plain-8000.cassette.jsonl").last("end")
        assert end["rows"]["calls"] + end["left_out"]["calls"] == 8_000
        assert 0 < end["rows"]["calls"] < 5_000
        assert spare not in server.wait_for_workers(1)
        left = children(server.process.pid)
    deadline = time.monotonic() + 10
    while [pid for pid in left if _is_there(pid)]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_reading_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    large = cassette_file(tmp_path, 6_000, "spaced")
    with jupyter_server(tmp_path, tmp_path / "home", max_seconds=0.5, spare_seconds=0.0) as server:
        answer = server.open(large.name)
        assert "too long" in answer.last()["problem"]["message"]
        assert answer.last("end")["complete"] is False
        server.wait_for_workers(0)


def test_a_reading_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    large = cassette_file(tmp_path, 6_000, "spaced")
    places = (Named(large.name, folder=False),)
    task = Task(
        tmp_path, places, TABLES, compare=False, bodies=False, hidden=False, max_rows=10_000, max_reply_bytes=1 << 30,
        max_bytes=1 << 30, max_memory_bytes=50_000_000,
    )  # fmt: skip
    worker = Worker()
    try:
        worker.give(task)
        events = [event["event"] for event, _ in iter(worker.next, None)]
    finally:
        worker.close()
    assert worker.took_too_much_memory
    assert "end" not in events


class Elsewhere(ContentsManager):
    """Keeps two files in no folder."""

    def is_hidden(self, path: str) -> bool:
        return path.startswith(".")

    def dir_exists(self, path: str) -> bool:
        return path in ("", "folder")

    def file_exists(self, path: str = "") -> bool:
        return path in FILES

    def get(self, path: str, content: bool = True, type: Any = None, format: Any = None, require_hash: bool = False) -> Any:  # noqa: A002, ARG002
        data = FILES[path]
        model = {"name": path, "path": path, "type": "file", "size": None if "unknown" in path else len(data)}
        return model | ({"content": base64.b64encode(data).decode(), "format": "base64"} if content else {})


FILES = {
    "folder/a.cassette.jsonl": b"".join(sample(5)),
    ".hidden.cassette.jsonl": b"".join(sample(5)),
    "large.cassette.jsonl": bytes(1_000),
    "unknown-size.cassette.jsonl": bytes(1_000_000),
}


def test_other_contents_managers_are_asked_for_the_content(tmp_path: Path) -> None:
    extra = [f"--ServerApp.contents_manager_class={Elsewhere.__module__}.Elsewhere"]
    with jupyter_server(tmp_path, tmp_path / "home", extra=extra, max_content_bytes=100_000, spare_seconds=0.0) as server:
        answer = server.open("folder/a.cassette.jsonl")
        assert answer.last()["words"] == "chain verified"
        assert set(answer.table("calls")["source"].to_pylist()) == {"folder/a.cassette.jsonl"}
        assert server.open(".hidden.cassette.jsonl").status == 404
        assert server.open("unknown-size.cassette.jsonl").json["code"] == "TOO_LARGE"
        assert server.open("folder").json["code"] == "NOT_LOCAL"
        assert server.open("large.cassette.jsonl").last()["state"] == "broken"
        assert not list(Path(tempfile.gettempdir()).glob("cassette-lab-viewer-*"))


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path(f"/proc/{pid}").exists() else True
