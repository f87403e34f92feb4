"""The seams: abort signals, and the JSON names of requests, results and capabilities."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from cassette_lab.contracts import (
    ABSENT,
    AbortController,
    Capabilities,
    ParentAgent,
    SubagentProvider,
    SubagentRequest,
    SubagentResult,
    SubagentRun,
)
from cassette_lab.errors import ConfigError
from cassette_lab.host.registry import SubagentRegistry
from cassette_lab.jsonio import JsonObject
from tests.unit.upstreams import Upstream, UpstreamRun, play


class TestAbortSignal:
    def test_aborts_once_and_tells_every_listener(self) -> None:
        controller = AbortController()
        told: list[str] = []

        def fails() -> None:
            told.append("fails")
            raise ValueError("listener")

        controller.signal.on_abort(fails)
        controller.signal.on_abort(lambda: told.append("other"))
        removed = controller.signal.on_abort(lambda: told.append("removed"))
        removed()
        removed()
        assert not controller.signal.aborted
        with pytest.raises(ValueError, match="listener"):
            controller.abort("why")
        controller.abort("again")
        assert told == ["fails", "other"]
        assert (controller.signal.aborted, controller.signal.reason) == (True, "why")

    def test_one_listener_may_be_given_twice(self) -> None:
        controller = AbortController()
        told: list[int] = []

        def listen() -> None:
            told.append(1)

        controller.signal.on_abort(listen)
        controller.signal.on_abort(listen)()
        controller.abort()
        assert told == [1]

    def test_a_late_listener_is_called_at_once(self) -> None:
        controller = AbortController()
        controller.abort()
        told: list[int] = []
        controller.signal.on_abort(lambda: told.append(1))()
        assert told == [1]

    def test_waiting_ends_with_the_abort(self) -> None:
        async def scenario() -> None:
            controller = AbortController()
            waiting = asyncio.create_task(controller.signal.wait())
            given_up = asyncio.create_task(controller.signal.wait())
            await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.sleep(0)
            assert not waiting.done()
            controller.abort()
            await waiting
            await controller.signal.wait()

        play(scenario())

    def test_a_signal_can_be_referenced_weakly(self) -> None:
        controller = AbortController()
        reference = weakref.ref(controller.signal)
        del controller
        gc.collect()
        assert reference() is None


class TestJson:
    def test_a_request_keeps_what_it_was_given(self) -> None:
        members = {
            "prompt": [{"type": "text", "text": "a"}],
            "label": "l",
            "agentOptions": {"model": "m"},
            "outputSchema": {},
            "maxDepth": 0,
            "toolFilter": {"allow": []},
            "persona": "",
            "other": 1,
        }
        request = SubagentRequest.from_json(members, parent=ParentAgent("p"))
        assert request.to_json() == members
        assert (request.max_depth, request.persona, request.extra) == (0, "", {"other": 1})

    def test_null_members_and_a_missing_prompt_survive_for_identity_to_judge(self) -> None:
        request = SubagentRequest.from_json({"label": None})
        assert request.to_json() == {"label": None, "prompt": None}

    def test_a_result_keeps_other_members_and_tells_null_from_absent(self) -> None:
        members: JsonObject = {"output": [], "stopReason": "completed", "structured": None, "usage": {"a": 1}}
        assert SubagentResult.from_json(members).to_json() == members
        assert SubagentResult.from_json({"output": [], "stopReason": "x"}).structured is ABSENT
        assert SubagentResult.from_json({}).to_json() == {"output": None, "stopReason": None}

    def test_absent_is_false_and_says_so(self) -> None:
        assert not ABSENT
        assert repr(ABSENT) == "ABSENT"

    def test_capabilities(self) -> None:
        capabilities = Capabilities(persona=False)
        assert Capabilities.from_json(capabilities.to_json()) == capabilities


class TestProtocols:
    def test_an_ordinary_class_is_a_provider_and_a_run(self) -> None:
        async def scenario() -> None:
            assert isinstance(Upstream(), SubagentProvider)
            assert isinstance(UpstreamRun(), SubagentRun)

        play(scenario())


class TestRegistry:
    def test_a_name_is_registered_once_and_taken_out_by_its_own_function(self) -> None:
        registry = SubagentRegistry()
        one = Upstream("a")
        remove = registry.register(one)
        registry.register(Upstream("b"))
        with pytest.raises(ConfigError, match="'a'"):
            registry.register(Upstream("a"))
        assert registry.names == ("a", "b")
        assert registry.get("a") is one
        remove()
        other = Upstream("a")
        registry.register(other)
        remove()
        assert registry.get("a") is other
        assert registry.get("c") is None
