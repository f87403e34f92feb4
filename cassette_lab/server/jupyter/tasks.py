"""What the server hands to a worker, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Named:
    """A file or folder, by its path from the root."""

    path: str
    folder: bool


@dataclass(frozen=True, slots=True)
class Task:
    """What to read, and the limits. ``hidden``: also hidden files of folders."""

    root: Path
    places: tuple[Named, ...]
    tables: tuple[str, ...]
    compare: bool
    bodies: bool
    hidden: bool
    max_rows: int
    max_reply_bytes: int
    max_bytes: int
    max_memory_bytes: int

    def file(self, path: str) -> Path:
        """Where a path from the root leads."""
        return self.root / path

    def to_json(self) -> dict[str, Any]:
        """As ``from_json`` takes it."""
        return asdict(self) | {"root": str(self.root)}

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """From what ``to_json`` gave."""
        places = tuple(Named(**each) for each in members["places"])
        return cls(**{**members, "root": Path(members["root"]), "places": places, "tables": tuple(members["tables"])})
