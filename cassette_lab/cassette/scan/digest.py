"""A file's digest, worked out by a thread of its own while a large file is scanned."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PIECE_BYTES: Final = 1 << 20


@contextmanager
def digesting(path: str | Path, size: int, *, wanted: bool) -> Iterator[Digest]:
    """The digest of a file of ``size`` bytes, if it is ``wanted``; its ``value`` is there when the block has been left."""
    digest = Digest(path)
    if not wanted or size <= _PIECE_BYTES:
        yield digest
        if wanted:
            digest.run()
        return
    digest.start()
    try:
        yield digest
    except BaseException:
        digest.given_up = True
        raise
    finally:
        digest.join()


class Digest(threading.Thread):
    """``value`` is ``sha256:`` and hex digits; empty where it is not known."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(name="cassette-lab-digest", daemon=True)
        self.path = path
        self.value = ""
        self.given_up = False

    def run(self) -> None:
        """Read the file to its end."""
        sha256, piece = hashlib.sha256(), memoryview(bytearray(_PIECE_BYTES))
        try:
            with open(self.path, "rb", buffering=0) as file:  # noqa: PTH123 - as the caller gave it
                while not self.given_up and (size := file.readinto(piece)):
                    sha256.update(piece[:size])
        except OSError:
            return
        self.value = "sha256:" + sha256.hexdigest()
