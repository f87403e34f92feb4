"""Names of files in a report, where those of the lab would tell this machine's folders."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

_KEPT_PARTS: Final = 2


def without_folders(lab: Any) -> Any:
    """The lab itself, or, where its names begin at the disk's root or above the homes, one with shorter names.

    That is so when files of far apart folders are loaded together. A name is then that from the working directory, or the
    last two parts.
    """
    from cassette_lab.tables import Lab

    if not isinstance(lab, Lab) or not _is_above_homes(lab.root):
        return lab
    sources = dict.fromkeys(
        source
        for table in lab.tables.values()
        if "source" in table.column_names
        for source in table["source"].unique().to_pylist()
    )
    names: dict[str, str] = {}
    for source in sources:
        name = _short(lab.root / source)
        same = sum(each == name or each.startswith(f"{name} (") for each in names.values())
        names[source] = f"{name} ({same + 1})" if same else name
    bodies = any("output" in table.column_names for table in lab.tables.values())
    return Lab(Path.cwd(), {name: _renamed(table, names) for name, table in lab.tables.items()}, bodies=bodies)


def _is_above_homes(root: Path) -> bool:
    root = root.resolve()
    return root == Path(root.anchor) or root in Path.home().resolve().parents


def _short(path: Path) -> str:
    here = Path.cwd()
    if path.is_relative_to(here):
        return path.relative_to(here).as_posix()
    return PurePath(*path.parts[1:][-_KEPT_PARTS:]).as_posix()


def _renamed(table: pa.Table, names: dict[str, str]) -> pa.Table:
    import pyarrow as pa

    if "source" not in table.column_names:
        return table
    at = table.column_names.index("source")
    column = pa.array([None if source is None else names[source] for source in table["source"].to_pylist()], pa.string())
    field = table.schema.field(at)
    return table.set_column(at, field, column.cast(field.type) if field.type != pa.string() else column)
