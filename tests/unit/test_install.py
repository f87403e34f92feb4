"""Setting a cassette up and taking it down: options, paths, write modes, names, what a failure leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.cassette.config import DEFAULT_FILE, CassetteConfig, resolve_file
from cassette_lab.cassette.install import install_cassette, open_cassette
from cassette_lab.cassette.lock import WriterLock
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.errors import ConfigError, FormatError, LockedError, NoUpstreamError
from cassette_lab.host.registry import SubagentRegistry
from tests.unit.upstreams import Upstream, ask, one_call, play, record_calls, recording, replaying, text_result


class TestConfig:
    def test_defaults_are_those_of_the_format(self) -> None:
        config = CassetteConfig()
        assert {field.name: getattr(config, field.name) for field in fields(config)} == {
            "mode": "record",
            "provider": "cassette",
            "upstream_provider": "spawn",
            "file": DEFAULT_FILE,
            "write_mode": "create",
            "request_storage": "metadata",
            "redact_secrets": True,
            "redaction_patterns": (),
            "timing": "instant",
            "speed": 1,
            "duplicate_policy": "reject",
            "allow_redacted_replay": False,
            "assert_consumed": True,
            "redact_labels": False,
            "nested": "strict",
            "fsync": "close",
        }

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("mode", "play"),
            ("mode", None),
            ("write_mode", "overwrite"),
            ("request_storage", "none"),
            ("duplicate_policy", ""),
            ("nested", True),
            ("fsync", "never"),
            ("timing", "Instant"),
            ("speed", 0.0009),
            ("speed", float("inf")),
            ("speed", "1"),
            ("provider", ""),
            ("provider", " x"),
            ("provider", "x\ufeff"),
            ("provider", 3),
            ("upstream_provider", "x\u00a0"),
            ("file", ""),
            ("file", "a "),
            ("file", 3),
            ("redact_secrets", 1),
            ("assert_consumed", "yes"),
            ("redaction_patterns", "abc"),
            ("redaction_patterns", (1,)),
        ],
    )
    def test_a_value_that_an_option_does_not_take_is_named(self, field: str, value: Any) -> None:
        with pytest.raises(ConfigError, match=field.removesuffix("_patterns").split("_")[0]) as refusal:
            CassetteConfig(**{field: value})
        assert refusal.value.field == field
        assert refusal.value.code == "INVALID_CONFIG"

    def test_a_cassette_cannot_record_itself(self) -> None:
        with pytest.raises(ConfigError, match="itself"):
            CassetteConfig(provider="spawn")

    def test_names_of_the_original_are_taken_and_unknown_ones_refused(self) -> None:
        config = CassetteConfig.from_json({"writeMode": "append", "allowRedactedReplay": True, "redactionPatterns": ["a"]})
        assert (config.write_mode, config.allow_redacted_replay, config.redaction_patterns) == ("append", True, ("a",))
        with pytest.raises(ConfigError, match="writemode"):
            CassetteConfig.from_json({"writemode": "append"})

    def test_white_space_is_javascripts(self) -> None:
        assert CassetteConfig(provider="x\u0085", upstream_provider="a b").provider == "x\u0085"


class TestPaths:
    def test_time_and_process_are_filled_in_from_the_working_directory(self, tmp_path: Path) -> None:
        path = resolve_file(DEFAULT_FILE, cwd=tmp_path, now="2026-08-18T03:04:05.678Z", pid=42)
        assert path == tmp_path / ".dsh-cassettes" / "subagents-20260818T030405678Z-42.cassette.jsonl"
        assert resolve_file("{pid}") == Path.cwd() / str(os.getpid())
        assert resolve_file("a/../b", cwd=tmp_path) == tmp_path / "b"
        assert resolve_file(tmp_path / "c", cwd="/elsewhere") == tmp_path / "c"
        assert resolve_file("{timestamp}").name.endswith("Z")

    def test_a_working_directory_that_is_gone_is_one_sentence(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        gone = tmp_path / "gone"
        gone.mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        with pytest.raises(ConfigError, match=r"^c: the working directory is gone; change to another one"):
            resolve_file("c")
        assert resolve_file(tmp_path / "c") == tmp_path / "c"


class TestWriteModes:
    def test_create_truncate_append_and_once(self, tmp_path: Path) -> None:
        path = tmp_path / "folder" / "c"
        play(record_calls(path, (ask("a"), text_result())))
        with pytest.raises(FormatError, match=r"append.*once"):
            recording(path, Upstream())
        first = read_cassette(path).header.cassette_id
        play(record_calls(path, (ask("b"), text_result()), write_mode="append"))
        assert (read_cassette(path).header.cassette_id, len(read_cassette(path).interactions)) == (first, 2)
        play(record_calls(path, (ask("c"), text_result()), write_mode="truncate"))
        assert [call.sequence for call in read_cassette(path).interactions] == [1]
        assert read_cassette(path).header.cassette_id != first

    def test_once_records_a_missing_file_and_replays_it_afterwards(self, tmp_path: Path) -> None:
        async def scenario() -> list[tuple[str, int, str]]:
            seen: list[tuple[str, int, str]] = []
            for _ in range(2):
                upstream = Upstream()
                upstream.answer = text_result("live")
                handle = recording(tmp_path / "c", upstream, write_mode="once")
                result = await one_call(handle, ask())
                await handle.dispose()
                seen.append((handle.mode, len(upstream.requests), result.output[0]["text"]))
            return seen

        assert play(scenario()) == [("record", 1, "live"), ("replay", 0, "live")]

    def test_once_does_not_replay_what_is_still_being_recorded(self, tmp_path: Path) -> None:
        play(record_calls(tmp_path / "c", (ask(), text_result())))
        lock = WriterLock(tmp_path / "c")
        with pytest.raises(LockedError, match=str(os.getpid())):
            recording(tmp_path / "c", Upstream(), write_mode="once")
        replaying(tmp_path / "c")
        lock.release()

    def test_append_wants_the_same_upstream(self, tmp_path: Path) -> None:
        play(record_calls(tmp_path / "c", (ask(), text_result())))
        with pytest.raises(FormatError, match="provider"):
            recording(tmp_path / "c", Upstream("other"), write_mode="append")


class TestFailures:
    def test_nothing_is_made_where_setting_up_fails(self, tmp_path: Path) -> None:
        providers = SubagentRegistry()
        for options, error in (
            ({}, NoUpstreamError),
            ({"upstream_provider": "real", "redaction_patterns": ["("]}, ConfigError),
            ({"upstream_provider": "real", "provider": "taken"}, ConfigError),
        ):
            with pytest.raises(error):
                open_cassette(CassetteConfig(file=tmp_path / "c", **options), providers)
            providers = SubagentRegistry()
            providers.register(Upstream())
            providers.register(Upstream("taken"))
        assert list(tmp_path.iterdir()) == []
        assert providers.names == ("real", "taken")

    def test_a_missing_or_broken_file_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "broken").write_text("{}\n")
        for name in ("missing", "broken"):
            with pytest.raises(FormatError, match=name):
                replaying(tmp_path / name)

    def test_an_unusable_pattern_does_not_matter_where_nothing_is_redacted(self, tmp_path: Path) -> None:
        play(record_calls(tmp_path / "c", redact_secrets=False, redaction_patterns=("(",)))
        assert read_cassette(tmp_path / "c").header.redaction_patterns == ("(",)

    def test_the_provider_is_there_until_it_is_disposed(self, tmp_path: Path) -> None:
        async def scenario() -> None:
            providers = SubagentRegistry()
            providers.register(Upstream())
            config = CassetteConfig(file="c", upstream_provider="real")
            handle = await install_cassette(config, providers, cwd=tmp_path)
            assert handle.path == tmp_path / "c"
            assert providers.get("cassette") is handle.provider
            await handle.dispose()
            assert providers.names == ("real",)

        play(scenario())


class TestProcesses:
    def test_two_processes_cannot_record_one_file_and_both_may_replay_another(self, tmp_path: Path) -> None:
        play(record_calls(tmp_path / "done", (ask(), text_result())))
        handle = recording(tmp_path / "c", Upstream())
        program = textwrap.dedent("""
            import sys
            import cassette_lab as cl
            for open_it in (lambda: cl.record(sys.argv[1]).open(), lambda: cl.replay(sys.argv[2]).open()):
                try:
                    open_it()
                    print("open")
                except cl.CassetteLabError as error:
                    print(type(error).__name__, error)
        """)
        done = subprocess.run(
            [sys.executable, "-c", program, tmp_path / "c", tmp_path / "done"],
            capture_output=True, text=True, timeout=30, check=True,
        )  # fmt: skip
        first, second = done.stdout.splitlines()
        assert first.startswith("LockedError")
        assert f"{os.getpid()}" in first
        assert second == "open"
        play(handle.dispose())

    def test_a_killed_recording_keeps_its_complete_lines(self, tmp_path: Path) -> None:
        program = textwrap.dedent("""
            import asyncio, os, signal, sys
            import cassette_lab as cl

            @cl.subagent
            async def step(number: int) -> int:
                if number == 4:
                    os.kill(os.getpid(), signal.SIGKILL)
                return number

            async def main():
                async with cl.record(sys.argv[1]):
                    for number in range(10):
                        await step(number)

            asyncio.run(main())
        """)
        done = subprocess.run([sys.executable, "-c", program, tmp_path / "c"], timeout=30, check=False)
        assert done.returncode < 0
        calls = read_cassette(tmp_path / "c").interactions
        assert [call.outcome.result and call.outcome.result["structured"] for call in calls] == [0, 1, 2, 3]
        with pytest.raises(LockedError, match="lock"):
            recording(tmp_path / "c", Upstream(), write_mode="append")

    def test_recording_and_replaying_need_no_table_library(self, tmp_path: Path) -> None:
        program = textwrap.dedent("""
            import asyncio, sys
            import cassette_lab as cl

            @cl.subagent
            async def step() -> int:
                return 1

            async def main():
                for _ in range(2):
                    async with cl.record(sys.argv[1], write_mode="once"):
                        assert await step() == 1

            asyncio.run(main())
            heavy = {"pyarrow", "numpy", "pandas", "duckdb", "altair", "IPython", "pydantic"} & sys.modules.keys()
            assert not heavy, heavy
        """)
        subprocess.run([sys.executable, "-c", program, tmp_path / "c"], timeout=30, check=True)
