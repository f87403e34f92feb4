"""The kinds of artefact a lab can hold, by name: how to tell one in a folder, and who turns it into rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from cassette_lab.tables import cassettes, flights, sessions

Rows: TypeAlias = Iterator[tuple[str, pa.RecordBatch]]
"""Record batches, each with the name of its table; without the ``source`` column."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of artefact.

    ``found_in_folder(path)`` tells whether a file that nobody has named is one. ``build(path, bodies=, workers=, collect=,
    progress=)`` reads a file and yields its rows; it raises ``CassetteLabError`` for a file it does not accept. With
    ``collect`` a part of a file that cannot be accepted alone is a row of ``problems``. ``progress(done, total)`` may be
    called with bytes of the file.
    """

    found_in_folder: Callable[[Path], bool]
    build: Callable[..., Rows]


KINDS: Final = {
    "cassette": Kind(cassettes.found_in_folder, cassettes.build),
    "flight": Kind(flights.found_in_folder, flights.build),
    "session": Kind(sessions.found_in_folder, sessions.build),
}


def kind_of(path: Path) -> Kind | None:
    """The kind of a file in a folder; None for a file that is none of ours."""
    return next((kind for kind in KINDS.values() if kind.found_in_folder(path)), None)
