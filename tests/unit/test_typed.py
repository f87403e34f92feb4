"""Python values as plain JSON and back by their annotations."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import pathlib
import uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import numpy as np
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.errors import CassetteLabError, IdentityError
from cassette_lab.host.typed import from_plain, to_plain
from cassette_lab.jsonio import canonical, parse

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Word(str):
    __slots__ = ()


class Point(NamedTuple):
    x: int
    colour: Colour


class Options(TypedDict, total=False):
    colour: Colour
    n: int


@dataclass(frozen=True)
class Finding:
    text: str
    colour: Colour = Colour.RED
    children: list[Finding] = field(default_factory=list)


@dataclass
class Report:
    score: float
    findings: dict[str, Finding]
    when: dt.datetime
    best: Finding | None = None
    total: int = field(init=False, default=0)


@dataclass
class Box(Generic[T]):
    content: T


@dataclass
class Shelf(Generic[T]):
    boxes: list[Box[T]]
    best: T | None = None


class Model(pydantic.BaseModel):
    name: str
    sizes: list[int] = []
    inner: Model | None = None


UserId = NewType("UserId", int)
WHEN = dt.datetime(2026, 1, 31, 12, 0, tzinfo=dt.UTC)
FINDING = Finding("a", Colour.BLUE, [Finding("b")])


def through_a_file(value: Any) -> Any:
    return parse(canonical(to_plain(value, "v")))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, "text"),
        (int, 3),
        (float, 3.0),
        (bool, True),
        (None, None),
        (Any, {"a": [1, None]}),
        (list[int], [1, 2]),
        (tuple[int, ...], (1, 2)),
        (tuple[int, Colour], (1, Colour.RED)),
        (tuple, (1,)),
        (set[Colour], {Colour.RED, Colour.BLUE}),
        (frozenset[str], frozenset({"a", "b"})),
        (dict[str, Finding], {"a": FINDING}),
        (dict[Colour, int], {Colour.RED: 1}),
        (Colour, Colour.RED),
        (Level, Level.LOW),
        (Literal["a", 1], 1),
        (Literal[Colour.RED], Colour.RED),
        (Finding, FINDING),
        (list[Finding], [FINDING, FINDING]),
        (Report, Report(1.0, {"a": FINDING}, WHEN, FINDING)),
        (Finding | None, None),
        (Finding | None, FINDING),
        (str | Finding, "text"),
        (str | Finding, FINDING),
        (int | Colour, Colour.BLUE),
        (Finding | Model, Model(name="m", inner=Model(name="n", sizes=[1]))),
        (Annotated[Finding, "doc"], FINDING),
        (UserId, 7),
        (Options, {"colour": Colour.RED, "n": 1}),
        (Point, Point(1, Colour.RED)),
        (Box[int], Box(1)),
        (Box[Finding], Box(FINDING)),
        (Box[list[Finding]], Box([FINDING])),
        (Shelf[Finding], Shelf([Box(FINDING)], FINDING)),
        (Model, Model(name="m", sizes=[1])),
        (list[Model], [Model(name="m")]),
        (dt.date, WHEN.date()),
        (dt.time, WHEN.time()),
        (dt.datetime, WHEN),
        (pathlib.PurePosixPath, pathlib.PurePosixPath("a/b")),
        (uuid.UUID, uuid.UUID(int=5)),
        (decimal.Decimal, decimal.Decimal("1.50")),
    ],
    ids=str,
)
def test_an_annotated_value_comes_back_equal_and_of_its_type(annotation: Any, value: Any) -> None:
    back = from_plain(annotation, through_a_file(value), "v")
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Word("w"), "w"),
        ((1, [2]), [1, [2]]),
        ({"b", "a"}, ["a", "b"]),
        (collections.OrderedDict(a=1), {"a": 1}),
        (np.int64(3), 3),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        (np.array([[1, 2]]), [[1, 2]]),
        (pathlib.PureWindowsPath("a\\b"), "a/b"),
        (Level.LOW, 1),
        ([FINDING], [{"text": "a", "colour": "blue", "children": [{"text": "b", "colour": "red", "children": []}]}]),
    ],
)
def test_values_as_plain_json(value: Any, plain: Any) -> None:
    assert to_plain(value, "v") == plain
    assert canonical(to_plain(value, "v")) == canonical(plain)


@pytest.mark.parametrize(
    ("value", "place", "reason"),
    [
        (object(), "v", "object"),
        ({"a": [1, {2}, b"x"]}, "v.a[2]", "a bytes, which is not plain JSON"),
        ({"a": float("inf")}, "v.a", "inf"),
        ([-0.0], "v[0]", "-0.0"),
        (2**60 + 1, "v", "too large"),
        ({1: 2}, "v", "the key 1"),
        (Box(content=lambda: 1), "v.content", "a function"),
        (Finding, "v", "a type"),
    ],
)
def test_anything_else_is_named_with_its_place(value: Any, place: str, reason: str) -> None:
    with pytest.raises(IdentityError) as refusal:
        to_plain(value, "v")
    assert refusal.value.field == place
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append([loop, loop])
    with pytest.raises(IdentityError, match="contains itself"):
        to_plain(loop, "v")


def test_plain_json_may_be_deep_and_other_values_say_so() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    copy = to_plain(deep, "v")
    assert canonical(copy) == canonical(deep)
    with pytest.raises(IdentityError, match="too deeply"):
        to_plain([deep, object()], "v")


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(str, None), (int, "text"), (list[int], {"a": 1}), ("Unknown", 3), (collections.Counter, {"a": 1}), (Literal["a"], "b")],
)
def test_an_annotation_that_says_other_than_what_is_there_gives_the_json(annotation: Any, value: Any) -> None:
    assert from_plain(annotation, value, "v") == value


@pytest.mark.parametrize(
    ("annotation", "value", "reason"),
    [
        (Finding, {"text": "a", "gone": 1}, "no field 'gone'"),
        (Finding, {}, "text"),
        (Finding, "a", "a str is no Finding"),
        (Colour, "green", "green"),
        (Model, {"name": 3}, "Model"),
        (list[Model], [{"name": 3}], "Model"),
        (tuple[int, int], [1], "1 items, not 2"),
        (Point, [1], "1 items, not 2"),
        (dt.datetime, "yesterday", "yesterday"),
    ],
)
def test_a_value_that_its_type_cannot_be_made_of_is_one_sentence(annotation: Any, value: Any, reason: str) -> None:
    with pytest.raises(CassetteLabError, match="the result") as refusal:
        from_plain(annotation, value, "the result")
    assert refusal.value.code == "RESULT_TYPE"
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=12,
    )
)
@settings(max_examples=60)
def test_plain_json_is_its_own_plain_json(value: Any) -> None:
    assert to_plain(value, "v") == value
    assert from_plain(Any, value, "v") is value
