"""Where a session's log lies: ``<root>/<project>/<session>/<file>``, the names made safe for any file system.

A project's name is readable and lossy (the header has the working directory itself), a session's is exact.
Source: session logs, Files and bytes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal, TypeAlias

LogEncoding: TypeAlias = Literal["zstd", "jsonl"]
FILE_NAMES: Final[dict[LogEncoding, str]] = {"zstd": "session.jsonl.zstd", "jsonl": "session.jsonl"}
"""What a log of format 0 is called."""

NO_CWD: Final = "_no-cwd"
_SLUG_CHARACTERS: Final = 251
_SEPARATORS: Final = re.compile(r"[/\\:]+")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


def path_segment(text: str) -> str:
    """Any non-empty text as the name of one file or folder, each as another: unsafe UTF-16 units become ``~XXXX``."""
    if not text:
        raise ValueError("an empty text is no name of a file")
    if text in (".", ".."):
        return text.replace(".", "~002E")
    return _UNSAFE.sub(_escaped, text)


def project_folder(cwd: str | None) -> str:
    """The name of the folder for the sessions of one working directory."""
    if cwd is None:
        return NO_CWD
    slug = _UNSAFE.sub(_escaped, _SEPARATORS.sub("-", cwd)).lstrip("-") or "root"
    return f"--{slug[:_SLUG_CHARACTERS]}--"


def log_path(root: Path, cwd: str | None, session_id: str, encoding: LogEncoding) -> Path:
    """The file of a session's log."""
    return root / project_folder(cwd) / path_segment(session_id) / FILE_NAMES[encoding]


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"~{int.from_bytes(units[at : at + 2]):04X}" for at in range(0, len(units), 2))
