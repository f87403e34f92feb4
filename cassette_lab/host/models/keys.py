"""Keys are in environment variables; what is given is the name of one."""

from __future__ import annotations

import os
import re
from typing import Final

from cassette_lab.errors import ConfigError


def check_key_name(api_key_env: str | None) -> None:
    """Raise ``ConfigError`` unless this can name an environment variable. It may be the key itself, so it is not shown."""
    if api_key_env is not None and not _VARIABLE.fullmatch(str(api_key_env)):
        raise ConfigError(
            "api_key_env names a variable, it is not the key: put the key into an environment variable "
            "(letters, digits and _), and give its name",
            field="api_key_env",
        )


def key_state(name: str) -> str:
    """Whether the key in this variable is ``usable``, ``unusable`` or ``missing``."""
    key = os.environ.get(name, "").strip()
    if not key:
        return "missing"
    return "usable" if key.isascii() and key.isprintable() and " " not in key else "unusable"


_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
