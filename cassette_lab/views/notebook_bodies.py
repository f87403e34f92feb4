"""Outputs of a notebook that were made with bodies (``bodies_shown``), cut out of the file's text.

The rest of the file stays byte for byte as it is, however it was written: no other output moves, and no diff has more in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cassette_lab.errors import FormatError
from cassette_lab.views.bodies_shown import asks_for_bodies, has_bodies, widget_has_bodies

WIDGET_STATE: Final = "application/vnd.jupyter.widget-state+json"
WIDGET_VIEW: Final = "application/vnd.jupyter.widget-view+json"

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()


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
        notebook = json.loads(text, object_pairs_hook=_members_once)
    except (ValueError, RecursionError):
        notebook = None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("cells"), list):
        raise FormatError("this is not a notebook of format 4: a JSON object with cells")
    cuts: list[tuple[int, int]] = []
    top = {member.key: member for member in _members(text, _after_space(text, 0))}
    models: set[str] = set()
    outputs = 0
    careful = asks_for_bodies(notebook)
    for cell, place in zip(notebook["cells"], _members(text, top["cells"].value), strict=True):
        outputs_here = cell.get("outputs") if isinstance(cell, dict) else None
        given = outputs_here if isinstance(outputs_here, list) else []
        dropped = [has_bodies(output, careful=careful) for output in given]
        if not any(dropped):
            continue
        (array,) = (member for member in _members(text, place.value) if member.key == "outputs")
        models.update(_models(output) for output, is_dropped in zip(given, dropped, strict=True) if is_dropped)
        outputs += sum(dropped)
        cuts += _cuts(text, array.value, dropped)
    of_widgets, widgets = _widget_cuts(text, notebook, top, models, careful=careful)
    for start, end in sorted([*cuts, *of_widgets], reverse=True):
        text = text[:start] + text[end:]
    return Stripped(text, outputs, widgets)


def _members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of the notebook; one that names a member twice would be read in two ways."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise FormatError("this notebook has an object that names a member twice; save it anew in JupyterLab")
    return members


def _models(output: Any) -> str:
    shown = output["data"].get(WIDGET_VIEW) if isinstance(output.get("data"), dict) else None
    name = shown.get("model_id") if isinstance(shown, dict) else None
    return name if isinstance(name, str) else ""


def _widget_cuts(
    text: str, notebook: Any, top: dict[str, _Member], models: set[str], *, careful: bool
) -> tuple[list[tuple[int, int]], int]:
    """What to cut of the saved state: widgets of outputs that go, and those that hold bodies themselves."""
    value, at = notebook, _Member("", 0, _after_space(text, 0), len(text))
    for name in ("metadata", "widgets", WIDGET_STATE, "state"):
        value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            return [], 0
        at = top[name] if name == "metadata" else next(each for each in _members(text, at.value) if each.key == name)
    if not isinstance(value, dict):
        return [], 0
    dropped = [name in models or widget_has_bodies(state, careful=careful) for name, state in value.items()]
    return _cuts(text, at.value, dropped) if any(dropped) else [], sum(dropped)


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
