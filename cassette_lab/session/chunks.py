"""Chunks of a model's answer in their packed forms: rows of formats 0 and 1, streams of formats 2 and later.

A packed row holds a run of deltas of one block; any other chunk stands alone. Runs stay packed here, and rows of single
deltas are folded into runs, so that a log needs no object for every delta. Source: session logs, Packed chunk rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from operator import sub
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

from cassette_lab.jsonio import MAX_SAFE_INTEGER, JsonObject, as_integer
from cassette_lab.session.model import ChunkRun, DeltaKind

KIND_OF_ROW: Final[dict[str, DeltaKind]] = {
    "text-chunks": "text-delta",
    "reasoning-chunks": "reasoning-delta",
    "tool-call-chunks": "tool-call-delta",
}
"""The packed rows' types and the deltas in them."""
ROW_OF_KIND: Final[dict[str, str]] = {kind: row for row, kind in KIND_OF_ROW.items()}
_MOST_MEMBERS: Final = 1 << 16


class RowError(ValueError):
    """A row that breaks a rule of the format; ``field`` is the dotted member name, where there is one."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Chunk(NamedTuple):
    """A chunk that stands alone. ``time`` is in epoch ms; ``chunk`` has a ``type``."""

    time: int | float
    chunk: JsonObject


StreamItem: TypeAlias = ChunkRun | Chunk


def is_packed_row(kind: Any) -> TypeGuard[str]:
    """Whether a row of this type is a packed run."""
    return type(kind) is str and kind in KIND_OF_ROW


def unpack_row(row: JsonObject, position: int) -> ChunkRun:
    """A packed row of format 0 or 1 as a run, checked in full; any other member than the format's is an error.

    Where seq0 or time0 is missing, ``position`` and 0 stand in. Raises ``RowError``.
    """
    if not row.keys() <= _ROW_KEYS:
        raise RowError("a packed row has exactly type, seq0, time0 and data")
    data = row.get("data")
    if type(data) is not dict:
        raise RowError("a packed row needs an object", "data")
    for name in ("turn", "step"):
        if not is_number(data.get(name)):
            raise RowError("a packed row needs a number", f"data.{name}")
    seq0 = _seq0(row, position)
    return _run(row["type"], data, _PLACE_KEYS, seq0, row.get("time0"), data["turn"], data["step"], "data.")


def read_stream(stream: Any, turn: Any = 0, step: Any = 0, seq: int = 0) -> Iterator[StreamItem]:
    """The items of an event's ``stream`` (formats 2 and later): packed runs and chunks that stand alone, in order.

    Raises ``RowError`` at the first item that breaks a rule.
    """
    if type(stream) is not list:
        raise RowError("a stream is an array", "data.stream")
    for number, item in enumerate(stream):
        field = f"data.stream.{number}"
        if type(item) is not dict:
            raise RowError("an item of a stream is an object", field)
        kind = item.get("type")
        if is_packed_row(kind):
            yield _run(kind, item, _STREAM_KEYS, seq, item.get("time0"), turn, step, f"{field}.")
        elif kind == "chunk":
            if item.keys() != _CHUNK_KEYS or not is_number(item["time"]):
                raise RowError("a chunk in a stream has exactly type, a time and a chunk", field)
            chunk = item["chunk"]
            if type(chunk) is not dict or type(chunk.get("type")) is not str:
                raise RowError("a chunk is an object with a type", f"{field}.chunk")
            yield Chunk(as_number(item["time"]), chunk)
        else:
            raise RowError("an item of a stream is a packed run or a chunk", f"{field}.type")


def stream_chunks(stream: Any) -> Iterator[Chunk]:
    """The chunks of an event's ``stream`` one by one, runs expanded. Raises ``RowError``."""
    for item in read_stream(stream):
        if isinstance(item, Chunk):
            yield item
        else:
            for time, chunk in item.chunks():
                yield Chunk(time, chunk)


def pack_row(run: ChunkRun) -> JsonObject:
    """The packed row of format 0 and 1 that says this run."""
    data: JsonObject = {"turn": run.turn, "step": run.step, "index": run.index}
    data.update(_tail_members(run))
    return {"type": ROW_OF_KIND[run.kind], "seq0": run.seq0, "time0": run.time0, "data": data}


def pack_stream_item(run: ChunkRun) -> JsonObject:
    """The item of a stream (formats 2 and later) that says this run."""
    return {"type": ROW_OF_KIND[run.kind], "time0": run.time0, "index": run.index, **_tail_members(run)}


class RunFolder:
    """Deltas that follow each other and are alike in kind, turn, step, index, id and name, being folded into a run.

    ``open`` begins a run: its members then go into ``texts`` and ``times``, together, as long as it ``is_full`` not.
    """

    __slots__ = ("_seq0", "key", "texts", "times")

    def __init__(self) -> None:
        self.key: tuple[Any, ...] | None = None
        """What the members of the open run have in common; None without one."""
        self._seq0 = 0
        self.texts: list[str] = []
        self.times: list[int] = []

    @property
    def is_full(self) -> bool:
        """No more members should come, so that no run grows without end."""
        return len(self.texts) >= _MOST_MEMBERS

    def open(self, key: tuple[Any, ...], seq0: int) -> None:
        """Begin a run, after ``close``."""
        self.key, self._seq0, self.texts, self.times = key, seq0, [], []

    def close(self) -> ChunkRun | None:
        """The open run, which is then no longer open."""
        if self.key is None:
            return None
        key, self.key = self.key, None
        return folded_run(key, self._seq0, self.times, self.texts)


def delta_key(data: Any) -> tuple[tuple[Any, ...], str] | None:
    """What a chunk event's data has in common with the other members of its run, and its own text.

    None for data that is no delta, or says more than a run can hold. Numbers of different types differ here.
    """
    if not isinstance(data, dict) or len(data) != 3:  # turn, step and chunk, as is seen below
        return None
    chunk = data.get("chunk")
    if not isinstance(chunk, dict):
        return None
    kind = chunk.get("type")
    turn, step, index = data.get("turn"), data.get("step"), chunk.get("index")
    if type(turn) is not int or type(step) is not int or type(index) is not int:
        return None
    if kind == "text-delta" or kind == "reasoning-delta":  # noqa: PLR1714 - a tuple or set would hash hostile values
        text = chunk.get("text")
        if len(chunk) != 3 or type(text) is not str:
            return None
        return (kind, turn, step, index, None, None), text
    if kind == "tool-call-delta":
        text, call_id, name = chunk.get("argumentsDelta"), chunk.get("id"), chunk.get("name")
        if type(text) is not str or type(call_id) is not str:
            return None
        if (
            len(chunk) != (4 if name is None else 5)
            or not (name is None or type(name) is str)
            or ("name" in chunk) != (name is not None)
        ):
            return None
        return (kind, turn, step, index, call_id, name), text
    return None


def folded_run(key: tuple[Any, ...], seq0: int, times: list[int], texts: list[str]) -> ChunkRun:
    """The run of deltas that have this key (``delta_key``) and follow each other from ``seq0`` on."""
    kind, turn, step, index, call_id, name = key
    gaps = array("q", map(sub, times[1:], times))
    return ChunkRun(kind, turn, step, index, seq0, times[0], gaps, texts, call_id, name, packed=False)


def is_number(value: Any) -> bool:
    """Whether a JSON value is a finite number."""
    kind = type(value)
    return kind is int or (kind is float and value - value == 0)


def as_number(value: Any) -> int | float:
    """A number, as an ``int`` where it is integral (``1.0`` and ``1e1`` count)."""
    integer = as_integer(value)
    return value if integer is None else integer


_ROW_KEYS: Final = frozenset({"type", "seq0", "time0", "data"})
_STREAM_KEYS: Final = frozenset({"type", "time0"})
_CHUNK_KEYS: Final = frozenset({"type", "time", "chunk"})
_TEXT_KEYS: Final = frozenset({"index", "dt", "texts"})
_TOOL_KEYS: Final = frozenset({"index", "dt", "id", "args"})
_PLACE_KEYS: Final = frozenset({"turn", "step"})
_WANTED: Final = {
    (is_tool, beside): own | beside
    for is_tool, own in ((False, _TEXT_KEYS), (True, _TOOL_KEYS))
    for beside in (_PLACE_KEYS, _STREAM_KEYS)
}
_STRINGS: Final = {str}
_INTEGERS: Final = {int}


def _run(
    row_type: str, data: JsonObject, beside: frozenset[str], seq0: int, time0: Any, turn: Any, step: Any, at: str
) -> ChunkRun:
    kind = KIND_OF_ROW[row_type]
    is_tool = kind == "tool-call-delta"
    keys = data.keys()
    wanted = _WANTED[is_tool, beside]
    if keys != wanted and not (is_tool and keys == wanted | {"name"}):
        raise RowError(f"a packed run of {row_type} has exactly the members {', '.join(sorted(wanted))}", at.rstrip("."))
    if not is_number(data["index"]):
        raise RowError("a packed run needs a number", f"{at}index")
    call_id, name = data.get("id"), data.get("name")
    if is_tool and type(call_id) is not str:
        raise RowError("a packed run of tool-call deltas needs a string", f"{at}id")
    if "name" in data and type(name) is not str:
        raise RowError("a name is a string", f"{at}name")
    texts = data["args" if is_tool else "texts"]
    if type(texts) is not list or set(map(type, texts)) != _STRINGS:
        raise RowError("a packed run needs strings, at least one", f"{at}{'args' if is_tool else 'texts'}")
    first, gaps = _times(time0, data["dt"], len(texts), at)
    return ChunkRun(kind, as_number(turn), as_number(step), as_number(data["index"]), seq0, first, gaps, texts, call_id, name)


def _times(time0: Any, dt: Any, members: int, at: str) -> tuple[int, array[int]]:
    first = 0 if time0 is None else as_integer(time0)
    if first is None:
        raise RowError("a packed run needs an integer", "time0" if at == "data." else f"{at}time0")
    if type(dt) is not list or len(dt) != members - 1:
        raise RowError("a packed run has one time difference less than members", f"{at}dt")
    if not dt:
        return first, array("q")
    if set(map(type, dt)) == _INTEGERS and abs(first) + len(dt) * max(map(abs, dt)) <= MAX_SAFE_INTEGER:
        return first, array("q", dt)
    gaps: array[int] = array("q")
    time = first
    for value in dt:  # some are large, or spelled 1.0, or no integers at all
        gap = as_integer(value)
        if gap is None:
            raise RowError("the time differences of a packed run are integers", f"{at}dt")
        time += gap
        if not -MAX_SAFE_INTEGER <= time <= MAX_SAFE_INTEGER:
            raise RowError("a time in a packed run is beyond 2^53 - 1", f"{at}dt")
        gaps.append(gap)
    return first, gaps


def _seq0(row: JsonObject, position: int) -> int:
    value = row.get("seq0")
    seq0 = position if value is None else as_integer(value)
    if seq0 is None or seq0 < 0:
        raise RowError("a packed row needs a whole number, 0 or more", "seq0")
    return seq0


def _tail_members(run: ChunkRun) -> JsonObject:
    if run.kind != "tool-call-delta":
        return {"dt": run.gaps.tolist(), "texts": list(run.texts)}
    members: JsonObject = {"dt": run.gaps.tolist(), "id": run.call_id}
    if run.name is not None:
        members["name"] = run.name
    members["args"] = list(run.texts)
    return members
