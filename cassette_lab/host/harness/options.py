"""What a runtime is started with: ``HarnessOptions``, and its names as keywords of whatever starts one."""

from __future__ import annotations

import difflib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeVar

from cassette_lab.errors import ConfigError
from cassette_lab.host.models.deepseek_messages import DEEPSEEK_BASE_URL, DeepSeekMessages
from cassette_lab.host.models.failures import ModelFailure

DEFAULT_MODEL: Final = "deepseek-v4-flash"
OFFICIAL_PROVIDER: Final = "deepseek-official"

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class HarnessOptions:
    """What a runtime is started with.

    ``base_url`` is a Messages endpoint (None: DeepSeek's), ``api_key_env`` the environment variable with its key (None: no
    key). ``cwd`` is where its tools work, ``environment`` what is added to its environment: ``DSH_PERMISSION_MODE`` says
    what tools may do. ``patches`` are further patch files of its profile.

    Raises ``ConfigError`` for a ``base_url`` that cannot be, and for a name that names no variable.
    """

    model: str = DEFAULT_MODEL
    provider: str = OFFICIAL_PROVIDER
    base_url: str | None = None
    api_key_env: str | None = "DEEPSEEK_API_KEY"
    cwd: str | Path | None = None
    profile: str = "sdk"
    environment: Mapping[str, str] = field(default_factory=dict)
    patches: Sequence[str | Path] = ()
    reasoning_effort: str | None = None
    max_tokens: int | None = None
    start_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        DeepSeekMessages(
            base_url=DEEPSEEK_BASE_URL if self.base_url is None else self.base_url, api_key_env=self.api_key_env
        )  # it checks both

    def key_failure(self) -> ModelFailure | None:
        """Why no request of the runtime can show a key, known without asking; the same as ``DeepSeekMessages`` says.

        What asks another provider than DeepSeek's own has its key from elsewhere.
        """
        name = self.api_key_env
        if name is None or self.provider != OFFICIAL_PROVIDER or self.environment.get(name):
            return None
        named = {**os.environ, **self.environment}.get("DEEPSEEK_BASE_URL")
        asked = DeepSeekMessages(base_url=self.base_url or named or DEEPSEEK_BASE_URL, api_key_env=name)
        return asked.key_failure()


_NAMES: Final = tuple(each.name for each in fields(HarnessOptions))


def harness_options(given: Mapping[str, Any]) -> HarnessOptions:
    """The options that were given as keywords. Raises ``ConfigError`` for a name that is none of theirs."""
    for name in given:
        if name not in _NAMES:
            near = difflib.get_close_matches(name, _NAMES, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_NAMES)}"
            raise ConfigError(f"the harness has no option {name}; {hint}", field=name)
    return HarnessOptions(**given)


def with_option_names(function: F) -> F:
    """Let help and completion see the names of the options in place of ``**options``."""
    told = inspect.signature(function)
    kept = [each for each in told.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    options = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in _signature().parameters.values()]
    function.__signature__ = told.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]
    return function


def _signature() -> inspect.Signature:
    return inspect.signature(HarnessOptions)
