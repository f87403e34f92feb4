"""``redact/vectors.json``: what redaction makes of a JSON value, and of a request or a result on its way into a cassette."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab import jsonio
from cassette_lab.cassette.config import CassetteConfig
from cassette_lab.cassette.install import install_cassette
from cassette_lab.cassette.model import Interaction
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.cassette.redaction import Redactor
from cassette_lab.cassette.runs import Run
from cassette_lab.contracts import Capabilities, SubagentRequest, SubagentResult
from cassette_lab.errors import CassetteLabError, ConfigError
from cassette_lab.host.registry import SubagentRegistry
from tests.conformance.case import Case
from tests.conformance.files import vectors

_STEP_S = 20.0
_PLAIN_REQUEST = {"label": "x", "prompt": [{"type": "text", "text": "q"}]}
_PLAIN_RESULT = {"output": [], "stopReason": "completed"}


def cases(folder: Path) -> Iterator[Case]:
    """One case for each vector."""
    for vector in vectors(folder / "vectors.json"):
        yield Case(vector["id"], partial(_check_json if vector["mode"] == "json" else _check_boundary, vector))


def _check_json(vector: dict[str, Any]) -> None:
    try:
        redactor = Redactor(vector["enabled"], vector["patterns"])
    except ConfigError:
        assert vector.get("error") == "INVALID_PATTERN", "a pattern is refused"
        return
    output, count = redactor.json(vector["input"])
    assert vector.get("error") is None, f"accepted, expected {vector['error']}"
    assert jsonio.canonical(output).decode() == vector["canonicalOutput"]
    assert (count, list(_names(output))) == (vector["count"], list(_names(vector["output"])))


def _names(value: Any) -> Iterator[str]:
    """The members' names in their order."""
    if isinstance(value, dict):
        for name, child in value.items():
            yield name
            yield from _names(child)
    elif isinstance(value, list):
        for child in value:
            yield from _names(child)


def _check_boundary(vector: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="cassette-redact-") as folder:
        file = Path(folder, "run.cassette.jsonl")
        started, code = asyncio.run(_record(vector, file))
        interactions = read_cassette(file).interactions
    assert code == vector.get("error"), f"the caller sees {code}, expected {vector['error']}"
    if started and code is not None:  # the original loses the call where it cannot store the error either; we keep it
        assert len(interactions) == 1, f"{len(interactions)} calls in the file"
        _check_stored_error(interactions[0], vector)
        return
    assert len(interactions) == vector["interactions"], f"{len(interactions)} calls in the file"
    if code is None:
        (interaction,) = interactions
        stored: Any = interaction.request if vector["mode"] == "boundary-request" else interaction.outcome
        value = stored.value if vector["mode"] == "boundary-request" else stored.result
        assert jsonio.canonical(value) == jsonio.canonical(vector["output"])
        assert stored.redactions == vector["count"]


def _check_stored_error(interaction: Interaction, vector: dict[str, Any]) -> None:
    error = interaction.outcome.error
    assert error is not None, "stored as a result"
    found = (interaction.outcome.kind, error.code, error.name)
    expected = (
        vector.get("storedOutcomeKind", "result-error"),
        vector.get("storedErrorCode", vector.get("error")),
        vector.get("storedErrorName", error.name),
    )
    assert found == expected, f"stored as {found}, expected {expected}"


async def _record(vector: dict[str, Any], file: Path) -> tuple[bool, str | None]:
    """Record the vector's request or result; whether the call was started, and the code of the error its caller got."""
    of_request = vector["mode"] == "boundary-request"
    upstream = _Upstream(_PLAIN_RESULT if of_request else vector["input"])
    providers = SubagentRegistry()
    providers.register(upstream)
    config = CassetteConfig(
        file=file,
        upstream_provider=upstream.name,
        request_storage="full",
        redact_secrets=vector["enabled"],
        redaction_patterns=tuple(vector["patterns"]),
    )
    async with asyncio.timeout(_STEP_S):
        handle = await install_cassette(config, providers)
        started = False
        code = None
        try:
            async with await handle.provider.start(
                SubagentRequest.from_json(vector["input"] if of_request else _PLAIN_REQUEST)
            ) as run:
                started = True
                await run.result()
        except CassetteLabError as error:
            code = error.code
        await handle.dispose()
    return started, code


class _Upstream:
    """A provider whose runs end at once with the given result."""

    name = "real"
    capabilities = Capabilities()
    inherits_parent_context = False

    def __init__(self, result: dict[str, Any]) -> None:
        self._result = result

    async def start(self, request: SubagentRequest) -> Run:
        assert isinstance(request, SubagentRequest)
        run = Run("upstream")
        run._settle(SubagentResult.from_json(self._result))
        return run
