"""Subagent providers by name."""

from __future__ import annotations

from collections.abc import Callable

from cassette_lab.contracts import SubagentProvider
from cassette_lab.errors import ConfigError


class SubagentRegistry:
    """The providers of one host. ``get`` finds one, ``register`` adds one and returns the function that takes it out."""

    def __init__(self) -> None:
        self._providers: dict[str, SubagentProvider] = {}

    def __repr__(self) -> str:
        return f"<providers: {', '.join(self._providers) or 'none'}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The registered names, in order of registration."""
        return tuple(self._providers)

    def get(self, name: str) -> SubagentProvider | None:
        """The provider registered under ``name``, if any."""
        return self._providers.get(name)

    def register(self, provider: SubagentProvider) -> Callable[[], None]:
        """Register under ``provider.name``; ``ConfigError`` if the name is taken. The returned function is idempotent."""
        name = provider.name
        if self._providers.setdefault(name, provider) is not provider:
            raise ConfigError(f"a provider {name!r} is registered already; unregister it first, or take another name")

        def unregister() -> None:
            if self._providers.get(name) is provider:
                del self._providers[name]

        return unregister


REGISTRY = SubagentRegistry()
"""The providers of this process: where ``run_subagent``, ``record`` and ``replay`` look. ``@subagent`` is ``spawn``."""
