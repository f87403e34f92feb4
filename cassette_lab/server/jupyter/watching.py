"""How far reading is, and whether files stay what they are while they are read."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cassette_lab.jsonio.text import show
from cassette_lab.server.jupyter.frames import Tell
from cassette_lab.tables.telling import InBytes

_TELL_EVERY_S: Final = 0.1


class Progress(InBytes):
    """Tells how far it is, but not at every call."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._told_at = 0.0

    def __call__(self, done_bytes: int, total_bytes: int, words: str = "") -> None:
        """So many bytes of all are done."""
        now = time.monotonic()
        if now - self._told_at >= _TELL_EVERY_S or done_bytes >= total_bytes:
            self._told_at = now
            self._tell({"event": "progress", "done": done_bytes, "total": total_bytes, "words": show(words)}, b"")


class Facts:
    """What files are before they are read, to see afterwards whether they still are."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._before = {path: _facts(path) for path in paths}

    @property
    def have_changed(self) -> bool:
        """Whether one is another file now, or was written to."""
        return any(_facts(path) != before for path, before in self._before.items())


def _facts(path: Path) -> tuple[int, ...] | None:
    try:
        facts = path.stat()
    except (OSError, ValueError):
        return None
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns
