"""The channel, the flights of a trace, and processes; without a runtime."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.host.harness.channel import TICK, Channel
from cassette_lab.host.harness.flights import flights_of
from cassette_lab.host.harness.process import LAUNCHER, PLUGIN, end_groups, family_of, write_patch
from cassette_lab.jsonio import JsonObject


class TestChannel:
    def test_it_answers_who_knows_the_word(self) -> None:
        heard: list[JsonObject] = []

        def handler(event: JsonObject) -> list[JsonObject]:
            if event == TICK:
                return []
            heard.append(event)
            return [{"stream": event["stream"], "text": "ü"}, {"stream": 0}]

        channel = Channel(handler)
        with socket.create_connection(("127.0.0.1", channel.port)) as plugin, plugin.makefile("rb") as answers:
            said = json.dumps({"token": channel.token}) + '\n{"stream": 1}\n{"stream": 2}\n{"half"'
            for start in range(0, len(said), 7):
                plugin.sendall(said[start : start + 7].encode())
            assert [json.loads(answers.readline()) for _ in range(4)] == [
                {"stream": 1, "text": "ü"},
                {"stream": 0},
                {"stream": 2, "text": "ü"},
                {"stream": 0},
            ]
        channel.close()
        assert heard == [{"stream": 1}, {"stream": 2}]

    @pytest.mark.parametrize(
        "word", [b'{"token": "guessed"}\n', b"GET / HTTP/1.1\r\n\r\n", b'{"token": 7}\n', b"[]\n", b"\xff\n"]
    )
    def test_others_are_not_heard(self, word: bytes) -> None:
        channel = Channel(lambda _: pytest.fail("it was heard"))
        with socket.create_connection(("127.0.0.1", channel.port)) as stranger:
            stranger.sendall(word + b'{"stream": 1}\n')
            stranger.settimeout(5)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(100) == b""
        channel.close()

    def test_it_ticks_while_nothing_comes(self) -> None:
        ticked = threading.Event()

        def handler(event: JsonObject) -> list[JsonObject]:
            if event == TICK:
                ticked.set()
            return []

        channel = Channel(handler)
        with socket.create_connection(("127.0.0.1", channel.port)) as plugin:
            plugin.sendall(json.dumps({"token": channel.token}).encode() + b"\n")
            assert ticked.wait(3)
        channel.close()

    def test_closing_waits_for_its_threads(self) -> None:
        before = threading.active_count()
        channel = Channel(lambda _: None)
        with socket.create_connection(("127.0.0.1", channel.port)):
            channel.close()
        assert threading.active_count() == before


REQUESTED: JsonObject = {"e": "request", "signal": "s1", "agent": "a", "session": "a", "turn": 1, "step": 1}
STREAMED: JsonObject = {"e": "stream", "stream": 1, "marked": True, "signal": "s1", "sessionId": "a", "initiator": "a"}


def flown(*events: JsonObject) -> Any:
    """The snapshot of a request at 100 ms of the runtime's clock, and of these events after it."""
    options = {
        "provider": "p",
        "model": "m",
        "system": 40,
        "maxTokens": 9,
        "messages": [{"role": "user", "source": {"kind": "user"}, "content": [{"type": "text", "text": 3}]}],
        "tools": [{"name": "look", "description": 5, "parameters": {"0": "", "1": {"0": ""}}}],
    }
    assembly = {"sections": [{"name": "persona", "text": 12}], "variables": ["v"]}
    begin: list[JsonObject] = [
        {"e": "assemble", "signal": "s1", "agent": "a", "assembly": assembly},
        REQUESTED,
        {**STREAMED, "t": 100.0, "at": 5000, "options": options},
    ]
    return asyncio.run(flights_of([*begin, *events]))


class TestFlights:
    def test_a_request_with_the_times_of_the_runtime(self) -> None:
        usage = {"type": "usage", "usage": {"inputTokens": 5, "outputTokens": 2}}
        snapshot = flown(
            {"e": "chunk", "stream": 1, "chunk": {"type": "block-start"}, "count": 1, "t": 130.5},
            {"e": "chunk", "stream": 1, "chunk": {"type": "text-delta"}, "count": 7, "t": 131.0},
            {"e": "chunk", "stream": 1, "chunk": usage, "count": 1, "t": 170.0},
            {"e": "chunk", "stream": 1, "chunk": {"type": "finish", "reason": {"kind": "stop"}}, "count": 1, "t": 180.25},
            {"e": "done", "stream": 1, "t": 200.0},
        )
        (record,) = snapshot.records
        told = record.to_json()
        assert told["startedAt"] == 5000
        assert told["outcome"] == {
            "kind": "finished",
            "finish": {"kind": "stop"},
            "firstChunkMs": 30.5,
            "totalMs": 80.25,
            "usage": {"inputTokens": 5, "outputTokens": 2},
        }
        assert told["request"]["systemCharacters"] == 40
        assert told["request"]["tools"] == [{"name": "look", "parameterNodes": 4}]
        assert told["promptAssembly"]["sections"] == [{"name": "persona", "characters": 12}]

    @pytest.mark.parametrize(
        ("event", "outcome"),
        [
            ({"e": "done"}, {"kind": "incomplete", "reason": "stream-ended-without-finish"}),
            ({"e": "return"}, {"kind": "incomplete", "reason": "consumer-returned"}),
            ({"e": "throw-in"}, {"kind": "incomplete", "reason": "consumer-threw"}),
            ({"e": "threw", "errorName": "TypeError"}, {"kind": "threw", "error": {"kind": "type-error"}}),
            ({"e": "threw", "errorName": None}, {"kind": "threw", "error": {"kind": "non-error-thrown"}}),
        ],
    )
    def test_other_ends(self, event: JsonObject, outcome: JsonObject) -> None:
        (record,) = flown({**event, "stream": 1, "t": 150.0}).records
        assert record.outcome.to_json() == {**outcome, "totalMs": 50.0}

    def test_a_failure_keeps_its_code(self) -> None:
        reason = {"kind": "error", "code": "RATE_LIMIT"}
        (record,) = flown({"e": "chunk", "stream": 1, "chunk": {"type": "finish", "reason": reason}, "t": 110.0}).records
        assert record.outcome.kind == "threw"
        assert record.extra.error_code == "RATE_LIMIT"

    def test_one_that_is_still_going(self) -> None:
        (record,) = flown().records
        assert record.outcome.kind == "running"

    def test_objects_that_a_schema_shares(self) -> None:
        shared = {"0": {"0": 1}, "1": {"$alias": ["0"]}, "2": [{"$alias": []}]}
        options = {"messages": [], "tools": [{"name": "f", "description": 0, "parameters": shared}]}
        newest = flown({**REQUESTED, "step": 2}, {**STREAMED, "stream": 2, "options": options}).records[0]
        assert newest.request.tools[0].parameter_nodes == 4
        assert newest.omissions.truncated_tool_schemas == 1

    def test_tools_that_are_the_same_are_told_once(self) -> None:
        again = {**STREAMED, "stream": 2, "t": 1.0, "at": 1, "options": {"messages": [], "sameTools": True}}
        newest, first = flown({**REQUESTED, "step": 2}, again).records
        assert newest.request.tools == first.request.tools


@pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX's")
class TestProcesses:
    def test_the_launcher_hands_the_key_over_in_a_group_of_its_own(self) -> None:
        show = (
            "import os; print(os.getpid() == os.getpgrp() == os.getsid(0),"
            " os.environ['DEEPSEEK_API_KEY'], os.environ.get('X_API_KEY'))"
        )
        environment = {**os.environ, "MY_KEY": "k-1", "X_API_KEY": "k-2"}

        def told(variable: str) -> str:
            command = [sys.executable, str(LAUNCHER), variable, sys.executable, "-c", show]
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()

        assert told("MY_KEY") == "True k-1 k-2"
        assert told("-") == "True none None", "a replay has no key at all"

    def test_a_family_ends_together(self) -> None:
        child = "[sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True"
        sleeper = f"import subprocess, sys, time; subprocess.Popen({child}); time.sleep(60)"
        with subprocess.Popen([sys.executable, "-c", sleeper], start_new_session=True) as parent:
            deadline = time.monotonic() + 10
            while len(groups := family_of(parent.pid)) < 2 and time.monotonic() < deadline:
                time.sleep(0.05)
            assert len(groups) == 2
            assert os.getpgrp() not in groups
            end_groups(groups)
            assert parent.wait(5) == -9
        while any(_exists(group) for group in groups) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(_exists(group) for group in groups)

    def test_the_token_is_for_its_user_only(self, tmp_path: Path) -> None:
        patch = write_patch(tmp_path / "patch.yml", {"token": "secret"})
        assert patch.stat().st_mode & 0o077 == 0
        ((insert,),) = [each["insert"] for each in json.loads(patch.read_text())]
        assert insert["name"] == str(PLUGIN)


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True


def test_the_plugin_imports_nothing_but_what_node_has() -> None:
    imports = [line for line in PLUGIN.read_text().splitlines() if line.startswith("import ")]
    assert imports
    assert all("from 'node:" in line for line in imports)
