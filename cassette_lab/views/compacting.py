"""The same tables with less in them that does not pack: shorter keys and digests, still one for each, and rounder times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import pyarrow as pa

_ABOVE: Final = r"^.*[^/]/+([^/]*)$"
_HASH: Final = r"-([0-9a-f]{4})[0-9a-f]{8}(~\d+)$"
_DIGEST: Final = r"^(?:sha256:)?([0-9a-f]{10})[0-9a-f]{54}$"
_DIGESTS: Final = ("parent_context_fingerprint", "request_fingerprint", "outcome_fingerprint")
_ROUND_FROM_MS: Final = 100.0
_WHOLE_FROM_MS: Final = 2.0**53


def shortened(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Keys of calls without the calls above and most of their digest, digests by their first digits.

    What was different stays different, and what was equal stays equal, over all tables: where the short form would be the
    same for two, those two stay longer.
    """
    made = dict(tables)
    _replace(made, ("call_key", "parent_key"), _short_keys)
    _replace(made, _DIGESTS, _short_digests)
    return made


def rounded(table: pa.Table) -> pa.Table:
    """Times of 100 ms and more as whole milliseconds, shorter ones with one digit after the point."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(table.schema):
        if field.name.endswith("_ms") and pa.types.is_floating(field.type):
            exact = table.column(place)
            small = pc.if_else(pc.less(exact, _WHOLE_FROM_MS), exact, 0.0)  # larger ones are whole, and rounding overflows
            round_times = pc.if_else(pc.less(exact, _ROUND_FROM_MS), pc.round(small, 1), pc.round(small))
            table = table.set_column(place, field, pc.if_else(pc.less(exact, _WHOLE_FROM_MS), round_times, exact))
    return table


def _replace(tables: dict[str, pa.Table], names: tuple[str, ...], shorten: Callable[[Any], Any]) -> None:
    """Every different text of these columns, shortened once, and put into their places."""
    import pyarrow as pa
    import pyarrow.compute as pc

    there = [(name, column) for name, table in tables.items() for column in names if column in table.column_names]
    if not there:
        return
    whole = pa.chunked_array(
        [chunk for name, column in there for chunk in tables[name][column].cast(pa.string()).chunks], pa.string()
    )
    full = whole.unique().drop_null()
    short = shorten(full)
    for name, column in there:
        table = tables[name]
        at = table.column_names.index(column)
        places = pc.index_in(table[column].cast(pa.string()), value_set=full)
        field = pa.field(column, pa.string(), metadata=table.field(at).metadata)
        tables[name] = table.set_column(at, field, pc.take(short, places))


def _short_keys(full: Any) -> Any:
    import pyarrow.compute as pc

    last = pc.replace_substring_regex(full, _ABOVE, r"…/\1")
    last = pc.if_else(_is_top(full), full, last)
    return _one_for_each(full, last, pc.replace_substring_regex(last, _HASH, r"-\1…\2"))


def _is_top(full: Any) -> Any:
    import pyarrow.compute as pc

    return pc.match_substring_regex(full, r"^root(?:/[^/]*)?$")


def _short_digests(full: Any) -> Any:
    import pyarrow.compute as pc

    return _one_for_each(full, full, pc.replace_substring_regex(full, _DIGEST, r"\1"))


def _one_for_each(full: Any, *forms: Any) -> Any:
    """The last of the forms that is this text's alone, else the text itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    chosen = full
    for form in forms:
        counted = form.value_counts()
        alone = counted.field("values").filter(pc.equal(counted.field("counts"), 1))
        chosen = pc.if_else(pc.is_in(form, value_set=alone), form, chosen)
    if len(chosen.unique()) == len(full):
        return chosen
    return full if not isinstance(full, pa.ChunkedArray) else full.combine_chunks()
