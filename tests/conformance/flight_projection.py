"""Vectors of ``projection/``: what is kept of a request and of an assembled prompt.

Values of the wrong type may be refused where the original makes something of them: a deviation, by the tags of such input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab.contracts import AbortSignal, ModelRequest
from cassette_lab.event_bus import Assembly
from cassette_lab.flight.model import NOTHING_OMITTED
from cassette_lab.flight.projection import Projector
from tests.conformance.case import Case
from tests.conformance.flight_files import document
from tests.conformance.identity import assert_equal

_WRONG_TYPES = frozenset({"throws", "odd-types", "coerce"})
_OPTIONS = ("maxTokens", "temperature", "stop", "reasoningEffort", "purpose")


def cases(folder: Path) -> Iterator[Case]:
    """One case for each request or assembly."""
    for vector in document(folder / "vectors.json").get("cases", ()):
        yield Case(vector["id"], partial(_check, vector))


def model_request(
    options: Mapping[str, Any], *, session_id: str | None = None, signal: AbortSignal | None = None
) -> ModelRequest:
    """The request that a call's options ask for; what is undefined is not there."""
    given = _defined({name: value for name, value in options.items() if name != "tools"})
    if not _is_undefined(options.get("tools")):
        given["tools"] = options.get("tools")
    return ModelRequest(
        given["messages"],
        [_tool(tool) for tool in given.get("tools") or ()],
        given.get("provider"),
        given.get("model"),
        {name: given[name] for name in _OPTIONS if name in given},
        session_id,
        signal,
        given.get("system"),
    )


def assembly(parts: Mapping[str, Any], *, agent: Any = None, signal: AbortSignal | None = None) -> Assembly:
    """The payload of an assembled prompt; its tools and variables are names here."""
    tools = parts["tools"]
    named: Any = tools if tools is None else [{"name": name} for name in tools]
    return Assembly(agent, signal, None, 1, 1, parts["sections"], parts["contexts"], named, parts["variables"])


def _check(vector: dict[str, Any]) -> str | None:
    request, parts, expected = vector["input"]["request"], vector["input"]["assembly"], vector["expected"]
    projector = Projector()
    found: dict[str, Any] = {}
    omitted = NOTHING_OMITTED
    try:
        if request is not None:
            projection, omissions = projector.request(model_request(request))
            found |= {"request": projection.to_json(), "requestOmissions": omissions.to_json()}
            omitted += omissions
        if parts is not None:
            prompt, omissions = projector.prompt(assembly(parts))
            found |= {"promptAssembly": prompt.to_json(), "promptOmissions": omissions.to_json()}
            omitted += omissions
    except (TypeError, KeyError, AttributeError):
        if expected.keys() & {"requestThrew", "promptThrew"}:
            return None
        if _WRONG_TYPES & set(vector["tags"]):
            return "input of the wrong type is refused"
        raise
    assert not expected.keys() & {"requestThrew", "promptThrew"}, "the original refuses it"
    found |= {"omissions": omitted.to_json(), "truncated": bool(omitted)}
    if found != {name: expected.get(name) for name in found} and _WRONG_TYPES & set(vector["tags"]):
        return "input of the wrong type is no value here"
    assert_equal(found, {name: value for name, value in expected.items() if name in found}, "projection")
    assert expected.keys() <= found.keys(), f"nothing was found for {expected.keys() - found.keys()}"
    return None


def _defined(value: Any) -> Any:
    """``value`` without the members that are undefined; such elements are None."""
    if isinstance(value, dict):
        return {name: _defined(each) for name, each in value.items() if not _is_undefined(each)}
    if isinstance(value, list):
        return [None if _is_undefined(each) else _defined(each) for each in value]
    return value


def _is_undefined(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"$undefined"}


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """A tool whose schema has its shared and cyclic objects, and None where something is undefined."""
    made = dict(tool)
    if "parameters" in made:
        made["parameters"] = _linked(made["parameters"])
    return made


def _linked(root: Any) -> Any:
    holder = [root]
    work: list[tuple[Any, Any]] = [(holder, 0)]
    aliases: list[tuple[Any, Any, list[Any]]] = []
    while work:
        into, key = work.pop()
        value = into[key]
        if _is_undefined(value):
            into[key] = None
        elif isinstance(value, dict) and value.keys() == {"$alias"}:
            aliases.append((into, key, value["$alias"]))
        elif isinstance(value, dict):
            work += [(value, name) for name in value]
        elif isinstance(value, list):
            work += [(value, index) for index in range(len(value))]
    for into, key, path in aliases:
        target: Any = holder[0]
        for name in path:
            target = target[int(name) if isinstance(target, list) else name]
        into[key] = target
    return holder[0]
