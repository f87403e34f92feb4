"""``%flight`` in a real kernel: it watches the agents of the kernel, answers in place, and leaves nothing behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.flight.reader import read_snapshot
from cassette_lab.tables import load
from tests.notebooks.kernels import Kernel, Ran, Terminal, kernel_in

AGENTS = """
import asyncio, os, re
import cassette_lab as cl
from cassette_lab.host.context import HOST

def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

async def ask(session, answers=("Done.",), **options):
    async with cl.Agent(cl.ScriptedModel(*answers), tools=[add], session_id=session, **options) as agent:
        return (await agent.run("Secret words.")).text

EVENTS = "system-prompt/assemble", "agent/request", "llm/stream", "agent/run-end"
listening = lambda: [HOST.listeners(name) for name in EVENTS]
"""


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with kernel_in(tmp_path_factory.mktemp("flights")) as kernel:
        assert kernel.run(AGENTS).ok
        yield kernel


def text(ran: Ran) -> str:
    assert ran.ok, ran.traceback
    return str(ran.result)


def html(ran: Ran) -> str:
    return str(ran.of("execute_result")[-1]["data"]["text/html"])


def test_the_first_question_begins_to_watch(flights: Kernel) -> None:
    assert flights.run("listening()").result == "[0, 0, 0, 0]"
    shown = text(flights.run("%flight"))
    assert shown == "○ no request yet; agents are watched from now on"
    assert flights.run("listening()").result == "[1, 1, 1, 1]"
    assert flights.run("cl.flight_recorder().health().captured").result == "0"


def test_every_view_of_the_command(flights: Kernel) -> None:
    assert flights.run("await ask('one', [cl.Call('add', a=1, b=2), 'It is 3.'])").result == "'It is 3.'"
    ran = flights.run("%flight")
    assert "turn 1, step 2, attempt 1" in text(ran)
    assert "<svg" in html(ran)
    assert "Secret" not in text(ran) + html(ran)
    listed = text(flights.run("%flight list"))
    assert listed.startswith("Requests, the newest first: 2")
    newest = listed.splitlines()[1].split()[0]
    assert f"Request {newest}" in text(flights.run(f"%flight show {newest[:6]}"))
    assert text(flights.run(f"%flight explain {newest}")).startswith("What is worth a look:")
    assert text(flights.run("%flight explain")).startswith("What is worth a look:")
    assert f"Request {newest}" in text(flights.run("%flight show"))
    assert "messages: 1 → 3 (+2)" in text(flights.run("%flight diff"))
    assert "Requests that are kept: 2" in text(flights.run("%flight stats"))
    assert "2 captured" in text(flights.run("%flight health"))
    assert text(flights.run("%flight list 1")).startswith("Requests, the newest first: 1")
    assert text(flights.run("%flight list failed")).startswith("○ No request that is kept")
    assert flights.run(f"answer = %flight show {newest}\nanswer.records[0].step").result == "2"


def test_the_newest_session_or_the_one_that_is_named(flights: Kernel) -> None:
    flights.run("await ask('two'); await ask('twelve')")
    assert flights.run("a = %flight list\na.session_id").result == "'twelve'"
    assert flights.run("a = %flight --session two\na.session_id").result == "'two'"
    assert flights.run("a = %flight --session twe\na.session_id").result == "'twelve'"
    every = text(flights.run("%flight list --session all"))
    assert "session two" in every
    assert "session twelve" in every


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("%flight lst", "%flight does not know 'lst'; did you mean list?"),
        ("%flight list 99", "There is no such command. There are: latest, list "),
        ("%flight show zzz", "No record of this session begins with zzz"),
        ("%flight --session zzz", "no session with a record begins with 'zzz'; there are "),
        ("%flight --session tw", "more than one session begins with 'tw'"),
        ("%flight stop", "nothing is shown live"),
        ("%flight save x.jsonl", "x.jsonl: a snapshot is named *.flight.json"),
        ("%flight save no/such/folder.flight.json", "no/such/folder.flight.json: the snapshot cannot be written"),
    ],
)
def test_a_mistake_is_one_sentence(flights: Kernel, line: str, sentence: str) -> None:
    flights.run("await ask('two'); await ask('twelve')")
    ran = flights.run(line)
    assert not ran.ok
    assert ran.traceback.startswith(f"UsageError: {sentence}")
    assert len(ran.traceback.splitlines()) == 1


def test_a_diff_needs_two(flights: Kernel) -> None:
    flights.run("await ask('alone')")
    assert flights.run("%flight diff").traceback.startswith("UsageError: A diff needs two records of this session")


def test_the_language_is_read_at_each_command(flights: Kernel) -> None:
    flights.run("await ask('words')")
    flights.run("before = os.environ.get('LC_ALL'); os.environ['LC_ALL'] = 'zh_CN.UTF-8'")
    assert text(flights.run("%flight stats")).startswith("保留的请求")
    assert text(flights.run("%flight stats --locale en")).startswith("Requests that are kept")
    flights.run("os.environ['LC_ALL'] = 'en_GB.UTF-8'")
    assert text(flights.run("%flight stats")).startswith("Requests that are kept")
    flights.run("os.environ.pop('LC_ALL'); before and os.environ.update(LC_ALL=before)")


def test_thresholds_and_capacity(flights: Kernel) -> None:
    assert "slow from 1 ms to the first chunk, 2,000 ms in all" in text(flights.run("%flight on --slow-first-chunk 1"))
    flights.run("await ask('slow', [cl.Say('Late.', delay_s=0.05)])")
    assert "The first chunk took" in text(
        flights.run("a = %flight\nget_ipython().run_line_magic('flight', 'explain ' + a.records[0].id)")
    )
    assert "slow from 1,000 ms" in text(flights.run("%flight on --slow-first-chunk 1000"))
    assert "keeps 128 records; turn it off before it keeps another number" in flights.run("%flight on --capacity 2").error
    assert "capacity is a whole number from 1" in flights.run("%flight off\n%flight on --capacity 0").error
    assert "slow_total_ms is a whole number" in flights.run("%flight on --slow-total 0").error


def test_off_and_on(flights: Kernel) -> None:
    flights.run("%flight on")
    flights.run("await ask('seen')")
    assert text(flights.run("%flight off")).startswith("○ not watching any more: ")
    assert flights.run("listening()").result == "[0, 0, 0, 0]"
    flights.run("await ask('unseen')")
    ran = flights.run("a = %flight\na")
    assert "nobody is watched now; %flight on goes on" in text(ran)
    assert flights.run("a.session_id").result == "'seen'"
    assert "are not watched" in text(flights.run("%flight off"))
    assert "keeps 128 requests" in text(flights.run("%flight on"))
    assert flights.run("listening()").result == "[1, 1, 1, 1]"


def test_a_snapshot_is_saved_whole_and_never_over_another(flights: Kernel) -> None:
    flights.run("await ask('saved')")
    assert "✓ saved " in text(flights.run("%flight save now"))
    path = flights.folder / "now.flight.json"
    assert read_snapshot(path).records[0].session_id == "saved"
    assert "Secret" not in path.read_text()
    ran = flights.run("%flight save now.flight.json")
    assert ran.traceback.startswith("UsageError: now.flight.json is there already; name another file, or replace it with")
    flights.run("await ask('later')")
    assert flights.run("%flight save now.flight.json --overwrite").ok
    assert [each.name for each in flights.folder.glob("*now*")] == ["now.flight.json"]
    assert load(path).flights["session_id"].to_pylist()[-1] == "later"


def _updates(kernel: Kernel, ran: Ran) -> list[dict[str, Any]]:
    """The states of the live display that ``ran`` began."""
    (display,) = ran.of("display_data")
    name = display["transient"]["display_id"]
    later = [*ran.messages, *kernel.strays.messages]
    updates = [message["content"] for message in later if message["msg_type"] == "update_display_data"]
    return [display["data"], *(each["data"] for each in updates if each["transient"]["display_id"] == name)]


def _all_updates(kernel: Kernel, began: Ran, *more: Ran) -> list[str]:
    states = _updates(kernel, Ran(messages=[message for ran in (began, *more) for message in ran.messages]))
    return [state["text/plain"] for state in states]


def test_live_goes_on_in_its_place_and_stops(flights: Kernel) -> None:
    flights.run("await ask('before')")
    began = flights.run("%flight list --live")
    assert began.ok
    assert began.result is None
    ran = flights.run("await ask('live', ['One.']); await asyncio.sleep(0.4); await ask('live2'); await asyncio.sleep(0.4)")
    assert ran.ok
    stopped = flights.run("%flight stop")
    assert stopped.ok
    states = _all_updates(flights, began, ran, stopped)
    assert len(states) >= 3
    assert "before" not in states[0]
    flights.run("await ask('after'); await asyncio.sleep(0.4)")
    assert _all_updates(flights, began, ran, stopped) == states
    assert flights.run("%flight stop").traceback.startswith("UsageError: nothing is shown live")
    pictures = _updates(flights, Ran(messages=[*began.messages, *ran.messages, *stopped.messages]))
    assert "<svg" in pictures[-1]["text/html"]


def test_tab(flights: Kernel) -> None:
    flights.run("await ask('tab')")
    short = str(flights.run("cl.flight_recorder().latest().id[:8]").result).strip("'")
    assert sorted(flights.complete("%flight st")) == ["stats", "stop"]
    assert flights.complete("a = %flight list tr") == ["truncated"]
    assert short in flights.complete("%flight show ")
    assert "tab" in flights.complete("%flight --session ")
    assert flights.complete("%fligh") == ["%flight"]
    assert "%flight save FILE" in flights.inspect("%flight")
    assert "--overwrite" in flights.run("%flight save --help").stdout


def test_unload_and_reload(flights: Kernel) -> None:
    flights.run("%flight on")
    flights.run("await ask('kept')")
    flights.run("%flight --live")
    assert flights.run("%unload_ext cassette_lab").ok
    assert "not found" in flights.run("%flight").error
    assert flights.run("listening()").result == "[0, 0, 0, 0]"
    assert flights.complete("%flight expl") == []
    for _ in range(2):
        assert flights.run("%load_ext cassette_lab").ok
    assert flights.run("%reload_ext cassette_lab").ok
    assert flights.run("listening()").result == "[1, 1, 1, 1]"
    assert flights.run("a = %flight\na.session_id").result == "'kept'"
    assert flights.run("%flight off").ok
    assert flights.run("%reload_ext cassette_lab").ok
    assert flights.run("listening()").result == "[0, 0, 0, 0]"
    flights.run("recorder = cl.flight_recorder()")
    assert flights.run("%reload_ext cassette_lab\nlistening()").result == "[1, 1, 1, 1]"


def test_in_a_terminal_it_is_plain_text(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    try:
        terminal.run("%load_ext cassette_lab")
        terminal.run(AGENTS)
        terminal.run("%flight on")
        terminal.run("await ask('plain')")
        out = terminal.run("%flight list --live")
        assert "Requests, the newest first: 1" in out
        assert "1.1.1 · " in out
        assert "--live goes on in a notebook only; here it is shown once" in out
        assert "<div" not in out
        assert "✓ saved 1 request · t.flight.json" in terminal.run("%flight save t.flight.json")
        assert json.loads((tmp_path / "t.flight.json").read_text())["health"]["captured"] == 1
    finally:
        terminal.close()
