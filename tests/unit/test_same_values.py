"""What a caller gets while recording is what a replay gives: members in one order, numbers, types, texts."""

from __future__ import annotations

import asyncio
import enum
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cassette_lab as cl
from cassette_lab.contracts import SubagentRequest, SubagentResult
from cassette_lab.host.typed import to_plain

returned: list[Any] = []


class Text(str):
    __slots__ = ()


class Grade(enum.IntEnum):
    GOOD = 1


@cl.subagent
async def give() -> Any:
    return returned[-1]


@cl.subagent
async def ask(prompt: str) -> str:
    return f"{len(prompt)} characters"


@cl.subagent
async def whole(request: SubagentRequest) -> SubagentResult:
    assert request.label == "whole"
    return SubagentResult(
        output=[{"type": "text", "text": "a"}],
        stop_reason="completed",
        structured={"b": 1.0, "a": (2,)},
        extra={"z": 1, "y": 2},
    )


def both_ways(file: Path, value: Any) -> tuple[Any, Any]:
    """What ``give`` returns while recording, and in replay."""
    returned.append(value)

    async def run() -> tuple[Any, Any]:
        async with cl.record(file, write_mode="truncate"):
            recorded = await give()
        async with cl.replay(file):
            return recorded, await give()

    return asyncio.run(run())


def spelled(value: Any) -> str:
    """``value`` with everything that equality overlooks: types, order of members."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{spelled(name)}: {spelled(item)}' for name, item in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(spelled, value))}]"
    return f"{type(value).__name__} {value!r}"


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
        ([{"z": {"y": 1, "x": 2}}], [{"z": {"x": 2, "y": 1}}]),
        ({"\ufb01": 1, "\U0001f600": 2}, {"\U0001f600": 2, "\ufb01": 1}),  # by UTF-16 code units
        (1.0, 1),
        ([1.0, 2.5, 1e16, 1e300], [1, 2.5, 1e16, 1e300]),
        ((1, (2,)), [1, [2]]),
        (Text("text"), "text"),
        (Grade.GOOD, 1),
        ("\ud83d\ude00 and \ud83d", "\U0001f600 and \ud83d"),
        ({3, 1.5, 2}, [1.5, 2, 3]),
        (None, None),
        ("", ""),
    ],
    ids=repr,
)
def test_a_recording_returns_what_its_replay_returns(tmp_path: Path, value: Any, seen: Any) -> None:
    recorded, replayed = both_ways(tmp_path / "c", value)
    assert spelled(recorded) == spelled(replayed) == spelled(seen)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: str(number) != "-0.0")
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@given(value=JSON)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_the_same_in_both(tmp_path: Path, value: Any) -> None:
    recorded, replayed = both_ways(tmp_path / "c", value)
    assert spelled(recorded) == spelled(replayed)


def test_an_answer_in_the_next_prompt_is_replayed(tmp_path: Path) -> None:
    returned.append({"severity": "high", "file": "a.py", "score": 1.0})

    async def chain() -> str:
        return await ask(f"Mend {await give()} {json.dumps(await give())}")

    async def run() -> tuple[str, str]:
        async with cl.record(tmp_path / "c"):
            recorded = await chain()
        async with cl.replay(tmp_path / "c"):
            return recorded, await chain()

    recorded, replayed = asyncio.run(run())
    assert recorded == replayed


def test_whole_requests_too(tmp_path: Path) -> None:
    request = SubagentRequest(prompt=[{"type": "text", "text": "q"}], label="whole")

    async def run() -> list[SubagentResult]:
        async with cl.record(tmp_path / "c"):
            recorded = await cl.run_subagent(request)
        async with cl.replay(tmp_path / "c"):
            return [recorded, await cl.run_subagent(request)]

    recorded, replayed = asyncio.run(run())
    assert spelled(recorded.to_json()) == spelled(replayed.to_json())
    assert list(recorded.structured) == ["a", "b"]


def test_what_is_redacted_in_the_file_stays_as_it_was_for_the_caller(tmp_path: Path) -> None:
    returned.append({"password": "hunter22", "a": 1})

    async def run() -> tuple[Any, Any]:
        async with cl.record(tmp_path / "c"):
            recorded = await give()
        async with cl.replay(tmp_path / "c", allow_redacted_replay=True):
            return recorded, await give()

    recorded, replayed = asyncio.run(run())
    assert recorded == {"a": 1, "password": "hunter22"}
    assert replayed == {"a": 1, "password": "[REDACTED]"}
    assert list(recorded) == list(replayed)


def test_equal_sets_have_one_order() -> None:
    assert to_plain({3.0, 1}, "x") == to_plain({3, 1}, "x") == [1, 3]
    names = {f"name {number}" for number in range(9)} | {("b", 1), ("a", 2)}
    program = (
        "from cassette_lab.host.typed import to_plain; names = {f'name {n}' for n in range(9)} | {('b', 1), ('a', 2)}; "
        "print(to_plain(names, 'x'))"
    )
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(to_plain(names, "x"))
