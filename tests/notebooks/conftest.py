from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from tests.notebooks.kernels import Kernel, Terminal

AGENTS = """
import asyncio, threading, time
import cassette_lab as cl

calls = []

@cl.subagent("audit")
async def audit(prompt: str, *, delay: float = 0.0) -> str:
    calls.append(prompt)
    await asyncio.sleep(delay)
    if prompt == "bad":
        raise ValueError("nope")
    return f"audited {prompt}"

@cl.subagent("busy")
async def busy(seconds: float) -> str:
    time.sleep(seconds)
    return "done"
"""
"""Two agents, and a list of the calls that were really made."""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for the tests of a module; each takes a file of its own."""
    kernel = Kernel(tmp_path_factory.mktemp("kernel"))
    try:
        assert kernel.run(AGENTS).ok
        yield kernel
    finally:
        kernel.close()


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path_factory.mktemp("terminal"))
    try:
        terminal.run("%load_ext cassette_lab")
        terminal.run(AGENTS)
        yield terminal
    finally:
        terminal.close()


@pytest.fixture
def file(request: pytest.FixtureRequest) -> str:
    """The name of a file that no other test uses."""
    return f"{re.sub('[^a-z0-9]+', '-', request.node.name.removeprefix('test_'))[:40]}{next(_numbers)}.jsonl"


_numbers = itertools.count(1)
