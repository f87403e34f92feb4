"""From a request and its prompt to their shapes: counts, names and lengths, within fixed limits. No text gets through here.

Source: flight records, Limits and projection. What a value would have to be is checked, never guessed: anything else raises
``TypeError`` (or what the caller's own object raises), and nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from weakref import ref

from cassette_lab.contracts import FrozenTools, ModelRequest
from cassette_lab.event_bus import Assembly
from cassette_lab.flight.model import (
    NOTHING_OMITTED,
    MessageCounts,
    NamedSize,
    Omissions,
    PromptAssembly,
    RequestProjection,
    ToolShape,
)
from cassette_lab.jsonio.surrogates import join_pairs

NAME_CHARACTERS: Final = 256
TOOLS: Final = 128
PROMPT_PARTS: Final = 256
COUNTER_KEYS: Final = 64
SCHEMA_NODES: Final = 4096

_new: Final = tuple.__new__  # a named tuple's own takes twice as long
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_USUAL: Final = frozenset(
    {
        "system", "developer", "user", "assistant", "tool",
        "system-prompt", "runtime-context", "model",
        "text", "reasoning", "tool-call", "tool-result", "image",
    }
)  # fmt: skip
"""Keys that are known to be short plain strings."""


class Projector:
    """Projects requests and prompts. Of tools that are ``FrozenTools`` it remembers the shape as long as they live."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def request(self, request: ModelRequest) -> tuple[RequestProjection, Omissions]:
        """Shape of a request, and what the limits took from it."""
        messages, omitted = _messages(request.messages)
        tools = request.tools
        known = self._known.get(id(tools))
        if known is not None and known[0]() is tools:
            shapes, omissions = known.shapes, known.omissions
        elif tools:
            shapes, omissions = self._tools(tools)
        else:
            shapes, omissions = (), NOTHING_OMITTED
        effort = temperature = most = stop = None
        if options := request.options:
            effort = options.get("reasoningEffort")
            temperature = options.get("temperature")
            most = options.get("maxTokens")
            stop = options.get("stop")
        provider, model = request.provider or "", request.model or ""
        projection = _new(
            RequestProjection,
            (
                provider if type(provider) is str and provider.isascii() else _text(provider),
                model if type(model) is str and model.isascii() else _text(model),
                messages,
                0 if request.system is None else _units(request.system),
                shapes,
                None if effort is None else _text(effort),
                temperature if temperature is None or type(temperature) is int else _number(temperature),
                most if most is None or type(most) is int else _number(most),
                None if stop is None else _length(stop),
            ),
        )
        return projection, omissions if omitted is None else omissions + omitted

    def prompt(self, assembly: Assembly) -> tuple[PromptAssembly, Omissions]:
        """Shape of an assembled prompt, and what the limits took from it."""
        sections, no_sections, long_sections = _parts(assembly.sections)
        contexts, no_contexts, long_contexts = _parts(assembly.contexts)
        tools, no_tools, long_tools = self._tool_names(assembly.tools)
        variables, no_variables, long_variables = _names(assembly.variables, PROMPT_PARTS)
        prompt = PromptAssembly(sections, contexts, tools, variables)
        if not (no_sections or no_contexts or no_tools or no_variables):
            return prompt, NOTHING_OMITTED
        return prompt, Omissions(
            prompt_tools=no_tools,
            prompt_sections=no_sections,
            prompt_contexts=no_contexts,
            prompt_variables=no_variables,
            oversized_names=long_sections + long_contexts + long_tools + long_variables,
        )

    def _tool_names(self, tools: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], int, int]:
        if type(tools) is not FrozenTools:
            return _names((tool["name"] for tool in tools), TOOLS)
        known = self._known.get(id(tools))
        if known is None or known.tools() is not tools:
            self._tools(tools)
            known = self._known[id(tools)]
        return known.names, known.omissions.request_tools, known.omissions.oversized_names

    def _tools(self, tools: Sequence[Mapping[str, Any]]) -> tuple[tuple[ToolShape, ...], Omissions]:
        shapes, omissions = _tools(tools)
        if type(tools) is FrozenTools:
            key, known = id(tools), self._known  # not self: the reference lives as long as the tools do
            names = tuple(shape.name for shape in shapes)
            known[key] = _Known(ref(tools, lambda gone: _forget(known, key, gone)), shapes, names, omissions)
        return shapes, omissions


class _Known(NamedTuple):
    """What was computed of tools that do not change."""

    tools: ref[FrozenTools]
    shapes: tuple[ToolShape, ...]
    names: tuple[str, ...]
    omissions: Omissions


def _forget(known: dict[int, _Known], key: int, gone: object) -> None:
    entry = known.get(key)
    if entry is not None and entry.tools is gone:
        del known[key]


def _tools(tools: Iterable[Mapping[str, Any]]) -> tuple[tuple[ToolShape, ...], Omissions]:
    shapes: list[ToolShape] = []
    dropped = long = truncated = 0
    for tool in tools:
        name = _name(tool["name"])
        if name is None or len(shapes) == TOOLS:
            dropped += 1
            long += name is None
            continue
        nodes, whole = schema_nodes(tool.get("parameters"))
        if not whole:
            truncated += 1
        shapes.append(_new(ToolShape, (name, nodes)))
    if not dropped and not truncated:
        return tuple(shapes), NOTHING_OMITTED
    return tuple(shapes), Omissions(request_tools=dropped, oversized_names=long, truncated_tool_schemas=truncated)


def schema_nodes(schema: Any) -> tuple[int, bool]:
    """Of how many values a JSON schema consists (``SCHEMA_NODES`` at most), and whether that is all of them.

    An object or array that is met again, shared or cyclic, does not count, and the schema is then not whole.
    """
    if type(schema) is not dict:
        return _any_nodes(schema)
    # Most tools are a chain: every object has one object in it, and there may be one list of names. Nothing can be shared
    # in a chain that ends.
    nodes = 1
    names = None
    level: dict[str, Any] = schema
    while nodes <= SCHEMA_NODES:
        nodes += len(level)
        inner = None
        for child in level.values():
            kind = type(child)
            if kind is str:
                continue
            if kind is dict and inner is None:
                inner = child
            elif kind is list and names is None and all(type(name) is str for name in child):
                names = child
                nodes += len(child)
            elif kind not in _SCALARS:
                return _any_nodes(schema)
        if inner is None and nodes <= SCHEMA_NODES:
            return nodes, True
        level = inner or {}
    return _exact_nodes(schema)


def _any_nodes(schema: Any) -> tuple[int, bool]:
    """The same for any value. In any order: without a shared object and within the limit the order tells nothing."""
    if type(schema) in _SCALARS:
        return 1, True
    containers = [schema]
    nodes = 1
    for container in containers:
        if type(container) is dict:
            children: Iterable[Any] = container.values()
        elif type(container) is list:
            children = container
        else:
            return _exact_nodes(schema)
        nodes += len(container)
        if nodes > SCHEMA_NODES:
            return _exact_nodes(schema)
        containers += [child for child in children if type(child) not in _SCALARS]
    return (nodes, True) if len(set(map(id, containers))) == len(containers) else _exact_nodes(schema)


def _exact_nodes(schema: Any) -> tuple[int, bool]:
    """Pre-order with an explicit stack, as the rule has it."""
    pending: list[Any] = [schema]
    seen: set[int] = set()
    nodes = 0
    whole = True
    while pending:
        if nodes == SCHEMA_NODES:
            return nodes, False
        value = pending.pop()
        children = _children(value)
        if children is not None:
            if id(value) in seen:
                whole = False
                continue
            seen.add(id(value))
            pending.extend(reversed(children))
        nodes += 1
    return nodes, whole


def _children(value: Any) -> list[Any] | None:
    """The children of an object or array (of any make), as far as they can count; None for anything else."""
    if isinstance(value, Mapping):
        return list(islice(value.values(), SCHEMA_NODES + 1))
    if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, (Sequence, AbstractSet)):
        return None
    children = list(islice(value, SCHEMA_NODES + 1))
    return children or (None if isinstance(value, tuple) else [])  # all empty tuples are one object


def _messages(messages: Sequence[Mapping[str, Any]]) -> tuple[MessageCounts, Omissions | None]:
    """Counts where no limit is met; what is not as usual is counted again, by the letter."""
    roles: dict[str, int] = {}
    sources: dict[str, int] = {}
    blocks: dict[str, int] = {}
    for message in messages:
        key = message["role"]
        if key in roles:
            roles[key] += 1
        elif key in _USUAL or _is_usual(key):
            roles[key] = 1
        else:
            return _exact_messages(messages)
        source = message["source"]
        key = source["kind"]
        if key == "plugin":
            key = _plugin_key(source)
        if key in sources:
            sources[key] += 1
        elif key in _USUAL or _is_usual(key):
            sources[key] = 1
        else:
            return _exact_messages(messages)
        for block in message["content"]:
            key = block["type"]
            if key in blocks:
                blocks[key] += 1
            elif key in _USUAL or _is_usual(key):
                blocks[key] = 1
            else:
                return _exact_messages(messages)
    if len(roles) > COUNTER_KEYS or len(sources) > COUNTER_KEYS or len(blocks) > COUNTER_KEYS:
        return _exact_messages(messages)
    return _new(
        MessageCounts, (len(messages), MappingProxyType(roles), MappingProxyType(sources), MappingProxyType(blocks))
    ), None


def _is_usual(key: Any) -> bool:
    """Whether a key certainly is within the limit, and a plain string."""
    return type(key) is str and len(key) <= NAME_CHARACTERS and key.isascii()


def _plugin_key(source: Mapping[str, Any]) -> str:
    form = source.get("form")
    return "plugin:opaque" if form is None else f"plugin:{_text(form)}"


def _exact_messages(messages: Sequence[Mapping[str, Any]]) -> tuple[MessageCounts, Omissions]:
    sources = (message["source"] for message in messages)
    kinds = (_plugin_key(source) if source["kind"] == "plugin" else source["kind"] for source in sources)
    by_role, no_roles, long_roles = _counted(message["role"] for message in messages)
    by_source, no_sources, long_sources = _counted(kinds)
    by_type, no_types, long_types = _counted(block["type"] for message in messages for block in message["content"])
    return MessageCounts(len(messages), by_role, by_source, by_type), Omissions(
        message_roles=no_roles,
        message_sources=no_sources,
        message_block_types=no_types,
        oversized_names=long_roles + long_sources + long_types,
    )


def _counted(keys: Iterable[Any]) -> tuple[Mapping[str, int], int, int]:
    """How often each key is there; how many were dropped; how many of these because they are too long."""
    kept: dict[str, int] = {}
    dropped = long = 0
    for key in keys:
        name = _name(key)
        if name in kept:
            kept[name] += 1
        elif name is None or len(kept) == COUNTER_KEYS:
            dropped += 1
            long += name is None
        else:
            kept[name] = 1
    return MappingProxyType(kept), dropped, long


def _parts(parts: Iterable[Mapping[str, Any]]) -> tuple[tuple[NamedSize, ...], int, int]:
    kept: list[NamedSize] = []
    dropped = long = 0
    for part in parts:
        name, text = _name(part["name"]), part["text"]
        if name is None or len(kept) == PROMPT_PARTS:
            dropped += 1
            long += name is None
        else:
            kept.append(_new(NamedSize, (name, len(text) if type(text) is str and text.isascii() else _units(text))))
    return tuple(kept), dropped, long


def _names(names: Iterable[Any], most: int) -> tuple[tuple[str, ...], int, int]:
    kept: list[str] = []
    dropped = long = 0
    for each in names:
        name = _name(each)
        if name is None or len(kept) == most:
            dropped += 1
            long += name is None
        else:
            kept.append(name)
    return tuple(kept), dropped, long


def _text(value: Any) -> str:
    """A text as a plain string of our own; two halves of a character that stand side by side are one."""
    if type(value) is str:
        return value if value.isascii() else join_pairs(value)
    if isinstance(value, str):
        return join_pairs(str.__str__(value))
    raise TypeError(f"a name is a text, not {type(value).__name__}")


def _name(value: Any) -> str | None:
    """A name as a plain string of our own; None for one that is too long to be kept."""
    if type(value) is str and len(value) <= NAME_CHARACTERS and value.isascii():  # as _is_usual: a call costs as much
        return value
    name = _text(value)
    return None if len(name) > NAME_CHARACTERS or _units(name) > NAME_CHARACTERS else name


def _units(text: Any) -> int:
    """UTF-16 code units of a text."""
    if not isinstance(text, str):
        raise TypeError(f"a text is expected, not {type(text).__name__}")
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _length(stop: Any) -> int:
    if isinstance(stop, str) or not isinstance(stop, Sequence):
        raise TypeError("the stop sequences are a list")
    return len(stop)


def _number(value: Any) -> float | None:
    """A number as it is; None for what no JSON can hold."""
    if type(value) is float:
        return value if isfinite(value) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"a number is expected, not {type(value).__name__}")
    plain = int(value) if isinstance(value, int) else float(value)
    return plain if isfinite(plain) else None
