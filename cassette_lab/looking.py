"""Whether a name leads to a file or folder. A name that no file can have (too long, with a NUL) leads to none."""

# ruff: noqa: PTH110, PTH111, PTH112, PTH113 - these never raise; the methods of Path do for names that no file can have

from __future__ import annotations

import os
from pathlib import Path


def exists(path: str | Path) -> bool:
    """Whether there is anything of this name; a link that leads nowhere is nothing."""
    return os.path.exists(path)


def is_file(path: str | Path) -> bool:
    """Whether it is a regular file, or a link to one."""
    return os.path.isfile(path)


def is_folder(path: str | Path) -> bool:
    """Whether it is a folder, or a link to one."""
    return os.path.isdir(path)


def from_home(path: str | Path) -> Path:
    """The path with ``~`` as the home folder; one of somebody unknown stays as it is."""
    return Path(os.path.expanduser(path))
