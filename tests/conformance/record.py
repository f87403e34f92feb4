"""Vectors of ``record/``: scripts for a recorder, with what its caller sees and what the file then holds."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

from cassette_lab import jsonio
from cassette_lab.cassette.config import CassetteConfig
from cassette_lab.cassette.install import install_cassette
from cassette_lab.cassette.model import Interaction
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.contracts import AbortController, Capabilities, ParentAgent, SubagentRequest, SubagentResult, SubagentRun
from cassette_lab.host.registry import SubagentRegistry
from tests.conformance.case import Case
from tests.conformance.files import vectors
from tests.conformance.identity import assert_equal, error_code, parent_agent

_ANYTHING = "<implementation-defined>"
_STEP_S = 20.0


def cases(folder: Path) -> Iterator[Case]:
    """One case for each script."""
    for script in vectors(folder / "scenarios.json"):
        yield Case(script["id"], partial(_check, script))


def _check(script: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="cassette-record-") as temporary:
        file = Path(temporary, "run.cassette.jsonl")
        close_error = asyncio.run(_play(script, file))
        assert_equal(close_error, script.get("closeError"), "closing")
        try:
            interactions = read_cassette(file).interactions
            load_error = None
        except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
            interactions, load_error = (), error_code(error)
        assert_equal(load_error, script.get("loadError"), "loading")
        found = [_facts(interaction) for interaction in interactions]
        expected = script["interactions"]
        assert_equal(len(found), len(expected), "number of calls in the file")
        for number, (one, other) in enumerate(zip(found, expected, strict=True)):
            wanted = other["outcome"].get("error") or {}
            if wanted.get("message") == _ANYTHING:
                wanted["message"] = one["outcome"].get("error", {}).get("message")
            assert_equal(one, other, f"call {number} of the file")


async def _play(script: dict[str, Any], file: Path) -> str | None:
    """Do the steps; returns the code of the error that closing raises."""
    policy = script["policy"]
    upstream = _Upstream(policy["inheritsParentContext"])
    providers = SubagentRegistry()
    providers.register(upstream)
    config = CassetteConfig(
        file=file,
        upstream_provider=upstream.name,
        request_storage=policy["requestStorage"],
        redact_secrets=policy["redactSecrets"],
        redaction_patterns=tuple(policy["redactionPatterns"]),
    )
    handle = await install_cassette(config, providers)
    calls: dict[str, _Call] = {}
    for number, step in enumerate(script["steps"]):
        call = calls.setdefault(step["id"], _Call())
        async with asyncio.timeout(_STEP_S):
            found = await _step(step, call, upstream, handle.provider)
        assert_equal(found, step["expect"], f"step {number}, {step['op']} {step['id']}")
    try:
        async with asyncio.timeout(_STEP_S):
            await handle.dispose()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return error_code(error)
    finally:
        for call in calls.values():
            if call.run is not None:
                await call.run.dispose()
    return None


@dataclass
class _Call:
    controller: AbortController = field(default_factory=AbortController)
    run: SubagentRun | None = None
    upstream_run: _UpstreamRun | None = None


async def _step(step: dict[str, Any], call: _Call, upstream: _Upstream, provider: Any) -> dict[str, Any]:
    operation = step["op"]
    if operation == "start":
        return await _start(step, call, upstream, provider)
    if operation == "abort":
        call.controller.abort()
        return {}
    assert call.run is not None, f"{step['id']} was not started"
    assert call.upstream_run is not None
    if operation == "dispose":
        try:
            await call.run.dispose()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
            return {"error": _name(error)}
        return {"disposed": True}
    if operation == "resolve":
        call.upstream_run.outcome.set_result(SubagentResult.from_json(step["result"]))
    elif operation == "reject":
        call.upstream_run.outcome.set_exception(_ThrownError(step["error"]))
    else:
        raise AssertionError(f"unknown operation {operation}")
    try:
        result = await call.run.result()
    except Exception as error:  # noqa: BLE001 - as above
        return {"error": _name(error)}
    return {"result": result.to_json()}


async def _start(step: dict[str, Any], call: _Call, upstream: _Upstream, provider: Any) -> dict[str, Any]:
    if step.get("aborted"):
        call.controller.abort()
    upstream.called = False
    upstream.next_error = _ThrownError(step["startError"]) if "startError" in step else None
    upstream.next_run = call.upstream_run = _UpstreamRun(parent_agent(step["localAgent"]) if "localAgent" in step else None)
    request = SubagentRequest.from_json(step["request"], parent=parent_agent(step["parent"]), signal=call.controller.signal)
    try:
        call.run = await provider.start(request)
    except Exception as error:  # noqa: BLE001 - as above
        return {"started": False, "error": _name(error), "upstreamCalled": upstream.called}
    assert upstream.called, "a run without a call of the upstream"
    assert call.run is not None
    return {"started": True, "local": call.run.local_agent is not None}


class _ThrownError(Exception):
    """What the upstream throws: an error with the given facts, or a JavaScript value that is no error (``thrown``)."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.is_value = "thrown" in facts
        value = facts.get("thrown")
        super().__init__(_as_text(value) if self.is_value else facts["message"])
        self.recorded_name = "Error" if self.is_value else facts.get("name", "Error")
        self.code = value.get("code") if isinstance(value, dict) else facts.get("code")


def _as_text(value: Any) -> str:
    """``String(value)`` of JavaScript, for JSON values."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "[object Object]"
    if isinstance(value, list):
        return ",".join("" if item is None else _as_text(item) for item in value)
    return jsonio.canonical(value).decode()


def _name(error: Exception) -> str:
    """The word the scripts have for an error."""
    if isinstance(error, _ThrownError):
        return "thrown-value" if error.is_value else str(error.recorded_name)
    return error_code(error)


class _Upstream:
    """A provider that does what the script's next step says."""

    def __init__(self, inherits_parent_context: bool) -> None:
        self.name = "real"
        self.capabilities = Capabilities()
        self.inherits_parent_context: bool = inherits_parent_context
        self.called = False
        self.next_error: Exception | None = None
        self.next_run: _UpstreamRun

    async def start(self, request: SubagentRequest) -> SubagentRun:
        assert isinstance(request, SubagentRequest)
        self.called = True
        if self.next_error is not None:
            raise self.next_error
        return self.next_run


class _UpstreamRun:
    """A run whose outcome the script sets; disposed before, it ends as aborted."""

    def __init__(self, local_agent: ParentAgent | None) -> None:
        self.id = "upstream"
        self.local_agent = local_agent
        self.outcome: asyncio.Future[SubagentResult] = asyncio.get_running_loop().create_future()

    async def result(self) -> SubagentResult:
        return await asyncio.shield(self.outcome)

    async def dispose(self) -> None:
        if not self.outcome.done():
            self.outcome.set_result(SubagentResult(output=[], stop_reason="aborted"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.dispose()


def _facts(interaction: Interaction) -> dict[str, Any]:
    """An interaction without hashes and times, as the scripts have it."""
    members = interaction.to_json()
    del members["hash"], members["previousHash"]
    members["timingKeys"] = sorted(members.pop("timing"))
    return members
