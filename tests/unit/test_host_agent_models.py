"""Agents on models behind an address: both wire formats, with tools, retries and children."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cassette_lab.errors import ConfigError
from cassette_lab.host.agent import Agent
from cassette_lab.host.answer import failure_json
from cassette_lab.host.context import Context
from cassette_lab.host.models.deepseek_messages import DeepSeekMessages
from cassette_lab.host.models.failures import ModelFailure
from cassette_lab.host.models.openai_chat import OpenAIChat
from cassette_lab.server.mock_model import Answer, MockModel, Reply, ToolUse
from cassette_lab.session.replay_model import ReplayModel
from tests.unit.host_samples import facts_of, logged, patient, replaying, without_ids
from tests.unit.upstreams import play


def test_a_refused_connection_is_tried_once_and_a_busy_endpoint_often(tmp_path: Path) -> None:
    noted: list[float] = []
    with MockModel([Reply([b'{"error": {"message": "full"}}'], 503, {"content-type": "application/json"})] * 6) as server:
        busy = Agent(OpenAIChat("m", base_url=server.base_url), retry=patient(noted), sessions=tmp_path, context=Context())
        with pytest.raises(ModelFailure, match=r"given up after 6 attempts in \d+\.\d s; the endpoint says: full$") as caught:
            play(busy.run("?"))
        assert (caught.value.attempts, len(noted)) == (6, 5)
        url = server.base_url
    model = OpenAIChat("m", base_url=url)
    with pytest.raises(ModelFailure, match=r"no connection to .+ \(connection refused") as refused:
        play(Agent(model, retry=patient(noted), sessions=tmp_path, session_id="gone", context=Context()).run("?"))
    assert (refused.value.attempts, len(noted)) == (1, 5)
    again = ReplayModel.from_files(f"{tmp_path}#gone")
    with pytest.raises(ModelFailure, match="connection refused"):  # as often as it was tried
        play(Agent(again, retry=patient(noted), context=Context()).run("?"))


def test_what_looks_like_a_key_is_not_logged() -> None:
    logged_failure = failure_json(ConfigError("no variable sk-0123456789abcdefghij is set"))
    assert logged_failure["message"] == "CassetteError: no variable [REDACTED] is set"


BUSY = Reply([b'{"error": {"type": "rate_limit_error"}}'], 429, {"content-type": "application/json", "retry-after": "2"})


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def _turn(server: MockModel, kind: Any, folder: Path, noted: list[float]) -> Agent:
    model = kind("m", base_url=server.base_url, api_key_env=None)
    work = Agent(
        model,
        tools=[add],
        instructions="Be brief.",
        subagents="spawn",
        sessions=folder,
        retry=patient(noted),
        max_tokens=99,
        context=Context(),
    )
    async with work:
        result = await work.run("Question: what is it?")
        assert (result.stop_reason, result.text) == ("completed", "It is 3, and helped.")
    return work


@pytest.mark.parametrize("kind", [OpenAIChat, DeepSeekMessages])
def test_an_agent_works_on_an_endpoint(tmp_path: Path, kind: Any) -> None:
    task = {"description": "help", "prompt": "Task: help out"}
    script: Any = {
        "Question": [
            BUSY,
            Answer("Let me see.", "Hm.", (ToolUse("add", {"a": 1, "b": 2}, "c1"), ToolUse("subagent", task, "c2"))),
            Answer("It is 3, and helped."),
        ],
        "Task": [Answer("helped")],
    }
    noted: list[float] = []
    with MockModel(script) as server:
        work = play(_turn(server, kind, tmp_path, noted))
        requests = server.requests
    assert noted == [2.0]
    assert len(requests) == 4
    said = requests[0].document.get("system") or requests[0].document["messages"][0]["content"]
    assert said == "Be brief."
    facts = facts_of(tmp_path, work.session_id)
    assert facts.problems == ()
    assert [(call.attempt, call.finish_kind, call.error_code) for call in facts.model_calls] == [
        (1, "error", "RATE_LIMIT"),
        (2, "tool-calls", None),
        (1, "stop", None),
    ]
    assert {(call.provider, call.model) for call in facts.model_calls} == {(kind.__name__, "m")}
    assert [(call.name, call.is_error) for call in facts.tool_calls] == [("add", False), ("subagent", False)]
    assert facts.usage.output_tokens
    sources = [message["source"] for message in work.session.messages() if message["role"] == "assistant"]
    assert [("replayState" in source) for source in sources] == [kind is DeepSeekMessages] * 2


def test_a_run_on_an_endpoint_replays_without_it(tmp_path: Path) -> None:
    script = [Answer("", "Hm.", (ToolUse("add", {"a": 1, "b": 2}, "c1"),)), Answer("It is 3, and helped.")]
    noted: list[float] = []
    with MockModel(script) as server:
        work = play(_turn(server, DeepSeekMessages, tmp_path, noted))

    async def again() -> Agent:
        model = replaying(logged(tmp_path, work.session_id))
        other = Agent(model, provider="DeepSeekMessages", model_name="m", tools=[add], context=Context())
        async with other:
            await other.run("Question: what is it?")
        return other

    assert without_ids(play(again()).session.messages()) == without_ids(work.session.messages())


def test_no_key_reaches_a_log_or_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-very-secret")
    refusal = Reply(
        [b'{"error": {"message": "Incorrect API key provided: sk-very-secret"}}'], 401, {"content-type": "application/json"}
    )

    async def run(server: MockModel) -> Agent:
        model = OpenAIChat("m", base_url=server.base_url, api_key_env="TEST_KEY")
        async with Agent(model, sessions=tmp_path, context=Context()) as work:
            with pytest.raises(ModelFailure) as raised:
                await work.run("hello")
            assert "secret" not in f"{raised.value} {raised.value!r} {model!r} {work!r}"
        return work

    with MockModel([refusal]) as server:
        work = play(run(server))
        assert server.requests[0].headers["authorization"] == "Bearer sk-very-secret"
    told = [str(event.data) for event in logged(tmp_path, work.session_id).events()]
    assert "AUTH" in " ".join(told)
    assert "secret" not in " ".join(told)


def test_a_provider_without_a_model_is_told_by_name() -> None:
    async def scenario() -> None:
        async with Agent(OpenAIChat("m", base_url="http://127.0.0.1:9/v1", api_key_env=None), context=Context()) as work:
            with pytest.raises(ConfigError, match="no model answers for the provider 'other'; there is OpenAIChat"):
                await work.delegate("go", agent_options={"provider": "other"})

    play(scenario())
