"""For processes that only read columns: a start without pandas.

Pyarrow looks for pandas at its first value, and importing it takes longer than verifying a common file. Only for
processes of our own: nothing in them can import pandas afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType


def do_without_pandas() -> None:
    """Keep pandas out of this process, where it is not in it already."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas())


class _NoPandas:
    """Answers the first search for pandas, and leaves word for the following ones."""

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> ModuleSpec | None:
        """Find nothing; what is not pandas may be found by others."""
        if name == "pandas":
            sys.meta_path.remove(self)
            sys.modules["pandas"] = None  # type: ignore[assignment]  # Python's own mark of a module that cannot be imported
            raise ModuleNotFoundError("this process does without pandas", name=name)
        return None
