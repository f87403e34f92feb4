"""Outputs of a notebook that were made with bodies: found by their marks, and cut out of the file's text.

The rest of the file stays byte for byte as it is, however it was written: no other output moves, and no diff has more in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cassette_lab.errors import FormatError

WIDGET_STATE: Final = "application/vnd.jupyter.widget-state+json"
WIDGET_VIEW: Final = "application/vnd.jupyter.widget-view+json"

_MARK: Final = re.compile(r"""data-cassette-bodies=(?:["']|&quot;|&#34;)?yes""")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()

_HEADER: Final = re.compile(r"<th[^>]*>(?:<bdi>)?([^<]*)")
_COLUMN: Final = re.compile(r"^([a-z_]+): ", re.MULTILINE)
_MEMBER: Final = re.compile(r"'([a-z_]+)': ")
_SAID: Final = {
    "call_key": {"prompt", "output", "structured", "error_message"},
    "session_id": {"title", "first_prompt", "final_text", "text", "reasoning", "arguments", "result", "data"},
}
"""Columns that hold what was said, by a column that the same table of a lab has: how a data frame of ours is told."""


@dataclass(frozen=True)
class Stripped:
    """A notebook's text without these outputs: how many they were, and how many states of widgets went with them."""

    text: str
    outputs: int
    widgets: int


@dataclass(frozen=True)
class _Member:
    """An element of an array, or a member of an object, in the text: from its key or value to the end of its value."""

    key: str
    start: int
    value: int
    end: int


def without_bodies(text: str) -> Stripped:
    """The notebook without outputs that were made with bodies. Raises ``FormatError`` for a text that is no notebook."""
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        notebook = None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise FormatError("this is not a notebook of format 4: a JSON object with cells")
    cuts: list[tuple[int, int]] = []
    top = {member.key: member for member in _members(text, _after_space(text, 0))}
    models: set[str] = set()
    outputs = 0
    for cell, place in zip(notebook["cells"], _members(text, top["cells"].value), strict=True):
        given = cell.get("outputs") if isinstance(cell, dict) else None
        if not isinstance(given, list) or not any(map(_has_bodies, given)):
            continue
        (array,) = (member for member in _members(text, place.value) if member.key == "outputs")
        dropped = [_has_bodies(output) for output in given]
        models.update(_models(output) for output, is_dropped in zip(given, dropped, strict=True) if is_dropped)
        outputs += sum(dropped)
        cuts += _cuts(text, array.value, dropped)
    of_widgets, widgets = _widget_cuts(text, notebook, top, models)
    for start, end in sorted([*cuts, *of_widgets], reverse=True):
        text = text[:start] + text[end:]
    return Stripped(text, outputs, widgets)


def _has_bodies(output: Any) -> bool:
    """Whether an output says, or shows, that it was made with bodies."""
    if not isinstance(output, dict):
        return False
    about = output.get("metadata")
    ours = about.get("cassette_lab") if isinstance(about, dict) else None
    if isinstance(ours, dict) and ours.get("bodies") is True:
        return True
    data = output.get("data")
    texts = {kind: _joined(value) for kind, value in data.items()} if isinstance(data, dict) else {}
    texts["text/plain"] = texts.get("text/plain", "") + _joined(output.get("text"))
    return any(map(_MARK.search, texts.values())) or _is_table(texts)


def _is_table(texts: dict[str, str]) -> bool:
    """Whether it is a table of a lab, shown by pandas, pyarrow or as a list of dicts, with a column of what was said."""
    names = {name.strip() for name in _HEADER.findall(texts.get("text/html", ""))}
    names.update(_COLUMN.findall(texts["text/plain"]), _MEMBER.findall(texts["text/plain"]))
    return any(key in names and names & said for key, said in _SAID.items())


def _joined(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _models(output: Any) -> str:
    shown = output["data"].get(WIDGET_VIEW) if isinstance(output.get("data"), dict) else None
    name = shown.get("model_id") if isinstance(shown, dict) else None
    return name if isinstance(name, str) else ""


def _widget_cuts(text: str, notebook: Any, top: dict[str, _Member], models: set[str]) -> tuple[list[tuple[int, int]], int]:
    """What to cut of the saved state: widgets of outputs that go, and views with bodies that stand in other widgets."""
    value, at = notebook, _Member("", 0, _after_space(text, 0), len(text))
    for name in ("metadata", "widgets", WIDGET_STATE, "state"):
        value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            return [], 0
        at = top[name] if name == "metadata" else next(each for each in _members(text, at.value) if each.key == name)
    if not isinstance(value, dict):
        return [], 0
    dropped = [name in models or _is_view_with_bodies(state) for name, state in value.items()]
    return _cuts(text, at.value, dropped) if any(dropped) else [], sum(dropped)


def _is_view_with_bodies(model: Any) -> bool:
    state = model.get("state") if isinstance(model, dict) else None
    options = state.get("options") if isinstance(state, dict) else None
    return isinstance(options, dict) and options.get("bodies") is True


def _cuts(text: str, at: int, dropped: Sequence[bool]) -> list[tuple[int, int]]:
    """The stretches to take out, so that what is left of the array or object at ``at`` is well formed."""
    members = list(_members(text, at))
    if all(dropped):
        return [(at + 1, _after_space(text, members[-1].end))]
    cuts = []
    kept_end: int | None = None
    run_start: int | None = None
    for member, is_dropped in zip(members, dropped, strict=True):
        if is_dropped:
            run_start = member.start if run_start is None else run_start
            continue
        if run_start is not None:
            cuts.append((run_start, member.start))
            run_start = None
        kept_end = member.end
    if run_start is not None and kept_end is not None:
        cuts.append((kept_end, members[-1].end))
    return cuts


def _members(text: str, at: int) -> Iterator[_Member]:
    """Where the members of the object, or the elements of the array, at ``at`` stand in a text that is JSON."""
    is_object = text[at] == "{"
    at = _after_space(text, at + 1)
    while text[at] not in "]}":
        start, key = at, ""
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _after_space(text, _after_space(text, at) + 1)
        _, end = _DECODER.raw_decode(text, at)
        yield _Member(key, start, at, end)
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
