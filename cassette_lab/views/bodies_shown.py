"""How an output of a notebook is known to show what was said: by our mark, or by the columns of a lab's table in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_MARK: Final = re.compile(r"""data-cassette-bodies=(?:["']|&quot;|&#34;)?yes""")
_ASKED: Final = re.compile(r"bodies\s*=\s*True|--bodies")

_HEADER: Final = re.compile(r"<th\b[^<>]*>(?:<bdi>)?([^<]*)")
_COLUMN: Final = re.compile(r"^([a-z_]+): ", re.MULTILINE)
_MEMBER: Final = re.compile(r"'([a-z_]+)': ")
_JSON: Final = re.compile(r'"([a-z_]+)"\s*:')
_VALUE: Final = re.compile(r"^([a-z_]+)(?: {2,}|\t)\S", re.MULTILINE)
_SERIES: Final = re.compile(r"^Name: ([a-z_]+), (?:Length|dtype)", re.MULTILINE)
_FRAME: Final = re.compile(r"\A\s+([a-z_]+(?: +[a-z_]+)*) *\\?$", re.MULTILINE)
_ARROW: Final = re.compile(r"<pyarrow\.lib\.(?:ChunkedArray|\w*StringArray|\w*StringScalar)")
_SAID: Final = {
    "call_key": {"prompt", "output", "structured", "error_message"},
    "session_id": {"title", "first_prompt", "final_text", "text", "reasoning", "arguments", "result", "data"},
}
"""Columns that hold what was said, by a column that the same table of a lab has."""

_ALL_SAID: Final = frozenset().union(*_SAID.values())
_SAID_ONLY: Final = _SAID["call_key"] | {"first_prompt", "final_text", "reasoning"}
"""Those of them that are no words of other JSON, of a chart's grammar for example."""


def asks_for_bodies(notebook: Mapping[str, Any]) -> bool:
    """Whether a cell of a notebook loads or shows bodies: then parts of a lab's tables, too, are taken to have them."""
    cells = [cell for cell in notebook["cells"] if isinstance(cell, dict) and cell.get("cell_type") == "code"]
    return any(_ASKED.search(joined(cell.get("source"))) for cell in cells)


def has_bodies(output: Any, *, careful: bool) -> bool:
    """Whether an output says, or shows, that it was made with bodies.

    ``careful``: a single column of a lab's table is enough, whatever stands beside it.
    """
    if not isinstance(output, dict):
        return False
    about = output.get("metadata")
    ours = about.get("cassette_lab") if isinstance(about, dict) else None
    if isinstance(ours, dict) and ours.get("bodies") is True:
        return True
    data = output.get("data")
    texts = {kind: _written(value) for kind, value in data.items()} if isinstance(data, dict) else {}
    plain = texts.get("text/plain", "") + joined(output.get("text"))
    if any(map(_MARK.search, [*texts.values(), plain])) or _is_table(texts.get("text/html", ""), plain, careful=careful):
        return True
    return any(_has_rows(text, careful=careful) for text in texts.values())


def widget_has_bodies(model: Any, *, careful: bool) -> bool:
    """Whether the saved state of a widget is a view with bodies, or holds outputs or HTML with them."""
    state = model.get("state") if isinstance(model, dict) else None
    if not isinstance(state, dict):
        return False
    options, outputs = state.get("options"), state.get("outputs")
    if isinstance(options, dict) and options.get("bodies") is True:
        return True
    if isinstance(outputs, list) and any(has_bodies(output, careful=careful) for output in outputs):
        return True
    if any(_MARK.search(text) or _is_table(text, "", careful=careful) for text in _strings(state)):
        return True
    return _has_rows(_written(state), careful=careful)


def joined(value: Any) -> str:
    """A text of a notebook, which may be a list of its lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _written(value: Any) -> str:
    """A text, or JSON as a text: charts and the like carry the rows that they draw."""
    return json.dumps(value) if isinstance(value, dict) or (isinstance(value, list) and not joined(value)) else joined(value)


def _has_rows(text: str, *, careful: bool) -> bool:
    """Whether rows of a lab's table, as JSON, stand in a text."""
    names = set(_JSON.findall(text))
    return bool(careful and names & _SAID_ONLY) or any(key in names and names & said for key, said in _SAID.items())


def _is_table(html: str, plain: str, *, careful: bool) -> bool:
    """Whether it is a table of a lab, or one row, shown by pandas, pyarrow or as dicts, with a column of what was said."""
    names = {name.strip() for name in _HEADER.findall(html)}
    for pattern in (_COLUMN, _MEMBER, _VALUE):
        names.update(pattern.findall(plain))
    if any(key in names and names & said for key, said in _SAID.items()):
        return True
    if not careful:
        return False
    names.update(_SERIES.findall(plain))
    for columns in _FRAME.findall(plain):
        names.update(columns.split())
    return bool(names & _ALL_SAID or _ARROW.search(plain))


def _strings(value: Any) -> Iterator[str]:
    """All texts in a JSON value."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, (list, dict)):
            waiting += each.values() if isinstance(each, dict) else each
