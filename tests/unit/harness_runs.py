"""The real runtime for tests: it is there, or the reason why it is not. On CI its absence is a failure."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cassette_lab.errors import ConfigError
from cassette_lab.host.harness.process import launch_arguments
from cassette_lab.server.mock_model import Answer, ToolUse

KEY = "sk-harness-0123456789"
OPTIONS: dict[str, Any] = {
    "environment": {
        "DSH_PERMISSION_MODE": "danger-full-access",  # the runtime's own switch; tests work in folders of their own
        "HARNESS_TEST_KEY": KEY,
    },
    "api_key_env": "HARNESS_TEST_KEY",
}


@cache
def missing() -> str | None:
    """Why there is no runtime."""
    try:
        launch_arguments(None, "sdk", [])
    except ConfigError as error:
        return str(error)
    return None


def need_runtime() -> None:
    """Skip where the wheel has no build for this machine."""
    reason = missing()
    if reason is None:
        return
    if os.environ.get("CI"):
        pytest.fail(f"on CI the real runtime is tested: {reason}")
    pytest.skip(reason)


def bash(command: str, call_id: str) -> ToolUse:
    return ToolUse("bash", {"description": "work", "command": command}, call_id)


def child(number: int) -> ToolUse:
    return ToolUse(
        "subagent", {"description": f"part {number}", "prompt": f"PART-{number} of the SECRET plan"}, f"call_child_{number}"
    )


def script(folder: Path) -> dict[str, list[Answer]]:
    """A run with tools, two concurrent children, and what they tell back."""
    return {
        "PLAN": [
            Answer("I look around.", "SECRET thought", [bash("printf 'SECRET\\n' > notes.txt; ls", "call_1")]),
            Answer("I delegate.", tools=[child(1), child(2)]),
            Answer("I wait."),
            Answer("One is back."),
            Answer("Both are back: SECRET result."),
        ],
        "PART-1": [
            Answer(tools=[ToolUse("write", {"file_path": str(folder / "part-1.txt"), "content": "one"}, "call_w1")]),
            Answer("Part one is done."),
        ],
        "PART-2": [Answer(tools=[bash("sleep 1.4; printf two > part-2.txt", "call_w2")]), Answer("Part two is done.")],
    }
