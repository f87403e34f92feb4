"""The message surface of a session: what its model sees, folded from the append-only event log.

Events append messages to the surface or replace a span of it (a summary takes the place of what it sums up). Cassettes
fingerprint the surface a child inherits from its parent; session logs fold the same one.
Source: cassette format, Identity, Surface.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from cassette_lab.errors import SurfaceError
from cassette_lab.jsonio import CanonicalError, as_integer, canonical

ELIGIBLE_TYPES: Final = frozenset({"user/message", "assistant/message", "tool/result"})


def inherited_prefix(events: Sequence[Any]) -> Sequence[Any]:
    """The events a child inherits: the first (seq of the last ``turn/end``) + 1 of them; none without a ``turn/end``.

    The length is taken as ECMAScript's ``slice`` takes it: a fraction is dropped, a negative number counts from the end,
    and what is no number counts as 0.
    """
    _check_sequence(events)
    for event in reversed(events):
        if isinstance(event, Mapping) and event.get("type") == "turn/end":
            return events[: _slice_end(event)]
    return events[:0]


def fold_surface(events: Sequence[Any]) -> list[Any]:
    """The messages on the surface of ``events``, in order; the caller's own objects, not copies.

    A ``user/message`` is its ``data``, the others their ``data.message`` (None where there is none); an assistant message
    with empty content is left out. Raises ``SurfaceError`` where an event breaks a rule of the surface.
    """
    return [message for seq in surface_seqs(events) for message in surface_messages(events[seq])]


def surface_messages(event: Mapping[str, Any]) -> list[Any]:
    """The message that an event on the surface stands for; none for an assistant message with empty content."""
    message = event.get("data")
    if event["type"] != "user/message":
        message = message.get("message") if isinstance(message, Mapping) else None
    if event["type"] == "assistant/message" and isinstance(message, Mapping) and message.get("content") in ([], ()):
        return []
    return [message]


def surface_seqs(events: Sequence[Any]) -> list[int]:
    """The seqs of the events that make up the surface, in order. Linear in the events and the seqs they cite."""
    _check_sequence(events)
    surface = Surface()
    for seq, event in enumerate(events):
        if not isinstance(event, Mapping):
            raise SurfaceError(f"event {seq} is not an object")
        if as_integer(event.get("seq")) != seq:
            raise SurfaceError(f"event {seq} does not carry its position as its seq", field="seq")
        surface.add(event, seq, events.__getitem__)
    return surface.seqs()


class Surface:
    """The seqs on the surface, event by event: a linked list, so that replacing costs no more than what is replaced."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}
        self._previous: dict[int, int] = {}
        self._last = _BEFORE

    def add(self, event: Mapping[str, Any], seq: int, earlier: Callable[[int], Mapping[str, Any]]) -> None:
        """The next event, whose place is ``seq``; ``earlier`` gives those that were added.

        Raises ``SurfaceError`` where it breaks a rule; the surface is then as before.
        """
        kind = event.get("type")
        if not isinstance(kind, str) or kind not in ELIGIBLE_TYPES:
            for name in ("surfaceOp", "sourceEventSeqs"):
                if name in event:
                    raise SurfaceError(f"event {seq} is no message and must not carry {name}", field=name)
            return
        sources = _sources(event, seq)
        operation = event.get("surfaceOp")
        if operation == "append" and isinstance(operation, str):
            self.append(seq)
            return
        shadowed = self.span(seq, *_replaced_span(operation, seq))
        missing = [node for node in shadowed if node not in sources]
        if missing:
            raise SurfaceError(
                f"event {seq} replaces event {missing[0]} without citing it in sourceEventSeqs", field="sourceEventSeqs"
            )
        if kind == "tool/result":
            _check_rewrite(event, seq, shadowed, earlier)
        self.replace(seq, shadowed)

    def append(self, seq: int) -> None:
        """Put ``seq`` behind the last one."""
        self._link(self._last, seq)
        self._last = seq

    def span(self, seq: int, start: int, end: int) -> list[int]:
        """The nodes from ``start`` to ``end``, which ``seq`` is to replace. Raises ``SurfaceError`` where there are none."""
        for bound in (start, end):
            if bound not in self._previous:
                raise SurfaceError(f"event {seq} replaces event {bound}, which is not on the surface", field="surfaceOp")
        shadowed = [start]
        while shadowed[-1] != end:
            if shadowed[-1] == self._last:
                raise SurfaceError(f"event {seq} replaces a span that starts behind its end", field="surfaceOp")
            shadowed.append(self._next[shadowed[-1]])
        return shadowed

    def replace(self, seq: int, shadowed: list[int]) -> None:
        """Put ``seq`` in place of the nodes that ``span`` gave."""
        end = shadowed[-1]
        self._link(self._previous[shadowed[0]], seq)
        if end == self._last:
            self._last = seq
        else:
            self._link(seq, self._next[end])
        for node in shadowed:
            del self._previous[node]

    def seqs(self) -> list[int]:
        """The events that make up the surface, in order."""
        found = []
        at = _BEFORE
        while at != self._last:
            at = self._next[at]
            found.append(at)
        return found

    def _link(self, before: int, after: int) -> None:
        self._next[before] = after
        self._previous[after] = before


_BEFORE: Final = -1


def _sources(event: Mapping[str, Any], seq: int) -> set[int]:
    """The earlier seqs an event cites; checked."""
    if "sourceEventSeqs" not in event:
        return set()
    cited = event["sourceEventSeqs"]
    if not isinstance(cited, (list, tuple)):
        raise SurfaceError(f"event {seq} has sourceEventSeqs that are no array", field="sourceEventSeqs")
    if not cited and event.get("type") != "assistant/message":
        raise SurfaceError(
            f"event {seq} has empty sourceEventSeqs, which only an assistant/message may", field="sourceEventSeqs"
        )
    sources: set[int] = set()
    for item in cited:
        source = as_integer(item)
        if source is None or not 0 <= source < seq:
            raise SurfaceError(f"event {seq} cites a source that is no earlier event", field="sourceEventSeqs")
        if source in sources:
            raise SurfaceError(f"event {seq} cites event {source} twice", field="sourceEventSeqs")
        sources.add(source)
    return sources


def _replaced_span(operation: Any, seq: int) -> tuple[int, int]:
    if not isinstance(operation, Mapping) or operation.keys() != {"op", "start", "end"} or operation["op"] != "replace":
        raise SurfaceError(
            f'event {seq} needs a surfaceOp (in Python: surface_op): "append", or exactly {{"op": "replace", "start", "end"}}',
            field="surfaceOp",
        )
    start, end = as_integer(operation["start"]), as_integer(operation["end"])
    if start is None or end is None:
        raise SurfaceError(f"event {seq} has a surfaceOp whose start or end is no seq", field="surfaceOp")
    return start, end


def _check_rewrite(
    event: Mapping[str, Any], seq: int, shadowed: list[int], earlier: Callable[[int], Mapping[str, Any]]
) -> None:
    """A tool result may only be rewritten by one that differs in its content."""
    before = earlier(shadowed[0])
    if len(shadowed) != 1 or before["type"] != "tool/result":
        raise SurfaceError(f"event {seq} is a tool/result and must replace exactly one tool/result", field="surfaceOp")
    try:
        same = _apart_from_content(event, seq) == _apart_from_content(before, shadowed[0])
    except CanonicalError as error:
        raise SurfaceError(f"event {seq} or the result it replaces is not plain JSON: {error}", field="data") from None
    if not same:
        raise SurfaceError(f"event {seq} rewrites more of a tool/result than message.content[0].content", field="data")


def _apart_from_content(event: Mapping[str, Any], seq: int) -> bytes:
    message = _message(event, seq)
    content = message.get("content")
    if not isinstance(content, (list, tuple)) or not content or not isinstance(content[0], Mapping):
        raise SurfaceError(f"event {seq} is a tool/result whose message has no content block", field="data")
    first = {name: value for name, value in content[0].items() if name != "content"}
    return canonical({**event["data"], "message": {**message, "content": [first, *content[1:]]}})


def _message(event: Mapping[str, Any], seq: int) -> Mapping[str, Any]:
    data = event.get("data")
    message = data.get("message") if isinstance(data, Mapping) else None
    if not isinstance(message, Mapping):
        raise SurfaceError(f"event {seq} has no message in its data", field="data")
    return message


def _slice_end(event: Mapping[str, Any]) -> int:
    """ECMAScript's ``seq + 1`` of an event, as ``slice`` takes it."""
    seq: Any = event.get("seq", math.nan)
    if isinstance(seq, str):  # there the sum is a text with a 1 at its end
        return int(f"{seq[:_MOST_DIGITS]}1") if seq.isascii() and seq.isdigit() else 0
    if seq is None:
        return 1
    if not isinstance(seq, (int, float)):
        return 0
    try:
        return int(seq + 1)
    except OverflowError:
        return 2**62 if seq > 0 else -(2**62)
    except ValueError:  # not a number
        return 0


_MOST_DIGITS: Final = 18


def _check_sequence(events: Any) -> None:
    if not isinstance(events, Sequence) or isinstance(events, (str, bytes)):
        raise SurfaceError(f"the events of a session must be an array, not {type(events).__name__}", field="events")
