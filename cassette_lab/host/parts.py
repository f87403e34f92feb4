"""What an agent is made of, and what of it a child gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cassette_lab.contracts import SubagentRequest
from cassette_lab.errors import ConfigError
from cassette_lab.host.llm import Llm
from cassette_lab.host.loop import LoopConfig
from cassette_lab.host.structured import Output
from cassette_lab.host.tools import Toolbox
from cassette_lab.session.persistence import SessionStore


@dataclass(frozen=True, slots=True)
class AgentParts:
    """What an agent is made of, and hands on to its children. ``tools`` do not hold the one for structured answers."""

    llm: Llm
    config: LoopConfig
    tools: Toolbox
    output: Output | None
    max_depth: int
    store: SessionStore | None


def child_parts(parts: AgentParts, request: SubagentRequest) -> AgentParts:
    """The parts of a child: its parent's, but for what the request says. Raises ``ConfigError`` (``SUBAGENT_REFUSED``)."""
    _check(request)
    options = dict(request.agent_options or {})
    config = parts.config
    provider = options.pop("provider", config.provider)
    if provider not in parts.llm.providers:
        known = ", ".join(parts.llm.providers)
        raise ConfigError(
            f"no model answers for the provider {provider!r}; there is {known}", field="agentOptions", code="SUBAGENT_REFUSED"
        )
    sections = [(name, text) for name, text in config.sections if name != "persona" or request.persona is None]
    if request.persona is not None:
        sections.insert(0, ("persona", request.persona))
    config = replace(
        config,
        provider=provider,
        model=options.pop("model", config.model if provider == config.provider else provider),
        options={**config.options, **options},
        sections=sections,
    )
    return replace(
        parts,
        config=config,
        tools=parts.tools.filtered(request.tool_filter),
        output=None if request.output_schema is None else Output(request.output_schema),
        max_depth=parts.max_depth if request.max_depth is None else request.max_depth,
    )


def _check(request: SubagentRequest) -> None:
    depth = request.max_depth
    for name, value, is_good, kind in (
        ("label", request.label, isinstance(request.label, str), "a text"),
        ("persona", request.persona, isinstance(request.persona, str), "a text"),
        ("agentOptions", request.agent_options, isinstance(request.agent_options, Mapping), "an object"),
        ("maxDepth", depth, type(depth) is int and depth >= 0, "a whole number, 0 or more"),
    ):
        if value is not None and not is_good:
            raise ConfigError(f"{name} is {kind}, not {value!r}", field=name, code="SUBAGENT_REFUSED")
