"""Options of the real runtime, and what is told of one that does not start; without a runtime."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

import cassette_lab as cl
from cassette_lab.host.harness import runtime
from cassette_lab.host.harness.recording import HarnessRecording
from cassette_lab.host.harness.runtime import telling_part

STACK = """DeepSeek Harness runtime stdout closed
exit code: 1
stderr tail:
dsh: warning: 2 entries did not activate
Error: dsh: profile "nope" does not exist
    at loadProfile (file:///snapshot/lib/index.js:1069:34)
    at async file:///snapshot/runtime-bootstrap.mjs:100:3"""


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DEEPSEEK_API_KEY", "DEEPSEEK_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_key_no_runtime_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime.Harness, "_start", lambda *_: pytest.fail("it starts"))

    async def run() -> None:
        harness = cl.Harness()
        for _ in range(2):  # it stays as it is: with a key it could start
            with pytest.raises(cl.ModelFailure, match="DEEPSEEK_API_KEY") as caught:
                await harness.run("work")
            assert caught.value.code == "MISSING_CREDENTIAL"
        assert repr(harness) == "<harness deepseek-v4-flash, not started>"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("options", "is_missing"),
    [
        ({}, True),
        ({"api_key_env": None}, False),
        ({"api_key_env": "NOT_SET_ANYWHERE"}, True),
        ({"api_key_env": "OWN_KEY", "environment": {"OWN_KEY": "sk-0123456789"}}, False),
        ({"base_url": "http://127.0.0.1:8000/v1"}, False),
        ({"environment": {"DEEPSEEK_BASE_URL": "http://127.0.0.1:8000/v1"}}, False),
        ({"base_url": "https://models.example/v1"}, True),
        ({"provider": "another"}, False),
    ],
)
def test_a_key_is_missing_where_the_endpoint_asks_for_one(options: dict[str, Any], is_missing: bool) -> None:
    assert (cl.HarnessOptions(**options).key_failure() is not None) == is_missing


@pytest.mark.parametrize("address", ["nonsense", "", "ftp://a/v1", "http://user:pass@a/v1"])
def test_an_address_that_cannot_be_is_one_sentence(address: str, tmp_path: Path) -> None:
    for make in (cl.Harness, cl.HarnessProvider):
        with pytest.raises(cl.ConfigError, match="base_url is an http or https address"):
            make(base_url=address)
    with pytest.raises(cl.ConfigError, match="base_url is an http or https address"):
        HarnessRecording(tmp_path / "run", base_url=address)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("provider", ["deepseek-official", "another"])
def test_a_key_in_place_of_its_name_is_refused_and_not_shown(provider: str) -> None:
    with pytest.raises(cl.ConfigError, match="api_key_env names a variable, it is not the key") as caught:
        cl.Harness(provider=provider, api_key_env="sk-0123456789")
    assert "0123456789" not in str(caught.value)


def test_a_name_that_is_nearly_one_is_told() -> None:
    with pytest.raises(cl.ConfigError, match=r"no option bas_url; did you mean base_url\?"):
        cl.Harness(bas_url="http://127.0.0.1:1")
    with pytest.raises(cl.ConfigError, match=r"no option zzz; there are model, provider, base_url, "):
        cl.HarnessProvider(zzz=1)


def test_help_names_the_options() -> None:
    for function in (cl.Harness, cl.record_harness, cl.replay_harness, cl.HarnessProvider):
        names = inspect.signature(function).parameters
        assert {"model", "base_url", "api_key_env", "cwd", "start_timeout_s"} <= names.keys()
        assert "options" not in names
    assert cl.Timeouts(connect_s=1.0).connect_s == 1.0


def test_of_the_runtimes_own_words_the_telling_line_is_shown() -> None:
    assert (
        telling_part(STACK) == 'DeepSeek Harness runtime stdout closed; exit code: 1: Error: dsh: profile "nope" does not exist'
    )
    assert telling_part("Invalid URL\nstderr tail:\nllm: TypeError: Invalid URL\n    at new URL (x)") == (
        "llm: TypeError: Invalid URL"
    )
    assert telling_part("closed\nstderr tail:\nfirst\nlast words") == "closed: last words"
    assert telling_part("closed") == "closed"
    assert len(telling_part("x" * 9000)) == 400
