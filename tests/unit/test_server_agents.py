"""Agents of ours on a replay server: each session gets its own recorded answers, and a refusal says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from cassette_lab.host.agent import Agent
from cassette_lab.host.context import Context
from cassette_lab.host.models.failures import ModelFailure
from cassette_lab.host.models.openai_chat import OpenAIChat
from cassette_lab.host.models.scripted import Call, ScriptedModel
from cassette_lab.session.binding import BindingStrategy
from cassette_lab.session.replay_model import ReplayModel
from tests.unit.server_client import serving
from tests.unit.upstreams import play

TASKS = [Call("subagent", description=name, prompt=f"{name}: help") for name in ("ada", "bob")]


async def _record(folder: Path) -> None:
    model = ScriptedModel({"ask": [TASKS, "done"], "ada": ["I am Ada."], "bob": ["I am Bob."]})
    async with Agent(model, sessions=folder, subagents="spawn", session_id="parent", context=Context()) as work:
        await work.run("ask")


@pytest.mark.parametrize("binding", ["first-call", "content"])
def test_children_get_their_own_answers(tmp_path: Path, binding: BindingStrategy) -> None:
    play(_record(tmp_path))
    model = ReplayModel.from_folder(f"{tmp_path}#parent", binding=binding)

    async def again(url: str) -> Agent:
        work = Agent(OpenAIChat("m", base_url=f"{url}/v1", api_key_env=None), subagents="spawn", context=Context())
        async with work:
            assert (await work.run("ask")).text == "done"
            with pytest.raises(ModelFailure, match=r"the endpoint says: session .+ makes model call 3, but only 2 of it are"):
                await work.run("more")
        return work

    with serving(model) as server:
        work = play(again(f"http://127.0.0.1:{server.port}"))
    results = [message["content"][0] for message in work.session.messages() if "toolCallId" in str(message)]
    told = [name for result in results[-2:] for name in ("Ada", "Bob") if f"I am {name}." in str(result)]
    assert (told if binding == "content" else sorted(told)) == ["Ada", "Bob"]  # siblings take turns as they come
    model.assert_consumed()
