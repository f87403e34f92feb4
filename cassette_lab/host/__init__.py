"""Agents inside this process: providers by name, ``@subagent`` functions, and the cassette that is active."""

from cassette_lab.host.active import ActiveCassette
from cassette_lab.host.contexts import record, replay
from cassette_lab.host.current import current_cassette
from cassette_lab.host.function import registered_names, run_subagent, subagent
from cassette_lab.host.registry import REGISTRY, SubagentRegistry
from cassette_lab.host.status import CassetteStatus

__all__ = [
    "REGISTRY",
    "ActiveCassette",
    "CassetteStatus",
    "SubagentRegistry",
    "current_cassette",
    "record",
    "registered_names",
    "replay",
    "run_subagent",
    "subagent",
]
