"""The runtime's process: how it is started, and how it ends with all that it started."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from cassette_lab.errors import ConfigError

PLUGIN = Path(__file__).with_name("plugin.mjs")
LAUNCHER = Path(__file__).with_name("launcher.py")


def launch_arguments(key_variable: str | None, profile: str, patches: Sequence[Path]) -> tuple[str, ...]:
    """The command of the runtime. Raises ``ConfigError`` where the extra ``harness`` is not installed, or has no build."""
    mounted = [argument for patch in patches for argument in ("--patch", str(patch))]
    return (sys.executable, str(LAUNCHER), key_variable or "-", *need_runtime(), "--profile", profile, *mounted)


def need_runtime() -> Sequence[str]:
    """The runtime's own command. Raises ``ConfigError`` where there is none."""
    import_sdk()
    from deepseek_harness_runtime import resolve_bundled_launch_args

    try:
        command: Sequence[str] = resolve_bundled_launch_args()
    except (OSError, ValueError) as error:
        raise ConfigError(f"there is no DeepSeek Harness runtime for this machine ({error})", code="EXTRA_MISSING") from None
    return command


def import_sdk() -> Any:
    """The SDK's module. Raises ``ConfigError`` where it is not installed."""
    try:
        import deepseek_harness
        import deepseek_harness_runtime
    except ModuleNotFoundError:
        raise ConfigError(
            "the real harness needs its SDK: install cassette-lab with its extra `harness`, "
            "or run `pip install deepseek-harness-sdk==0.2.1rc2`",
            code="EXTRA_MISSING",
        ) from None
    del deepseek_harness_runtime
    return deepseek_harness


def write_patch(path: Path, config: dict[str, Any]) -> Path:
    """The patch file that mounts the plugin with this configuration; only the user may read it: the token is in it."""
    patch = [{"insert": [{"id": "cassette-lab", "name": str(PLUGIN), "config": config}]}]
    path.touch(mode=0o600)
    path.write_text(json.dumps(patch), encoding="utf-8")  # JSON is YAML
    return path


def family_of(pid: int) -> set[int]:
    """The process groups of this process and of all that it started, also of what has left it for a session of its own."""
    processes = _processes()
    own = processes.get(os.getpid(), (0, 0, 0))[2]
    members, sessions, before = {pid}, {pid}, -1
    while len(members) != before:
        before = len(members)
        for each, (parent, _, session) in processes.items():
            if parent in members or session in sessions:
                members.add(each)
                sessions |= {session} - {own}
    groups = {processes[member][1] for member in members if member in processes}
    return groups - {os.getpgrp()} if os.name == "posix" else set()


def _processes() -> dict[int, tuple[int, int, int]]:
    """Parent, group and session of every process: from ``/proc``, else from ``ps``, else of none."""
    found: dict[int, tuple[int, int, int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            _, parent, group, session = entry.read_text("utf-8", "replace").rpartition(")")[2].split()[:4]
            found[int(entry.parent.name)] = (int(parent), int(group), int(session))
    if not found and os.name == "posix":
        with suppress(OSError, subprocess.SubprocessError):
            told = subprocess.run(["/bin/ps", "-axo", "pid=,ppid=,pgid="], capture_output=True, check=True, timeout=5).stdout
            for line in told.decode("ascii", "replace").splitlines():
                with suppress(ValueError):
                    each, parent_id, group_id = map(int, line.split())
                    found[each] = (parent_id, group_id, group_id)
    return found


def end_groups(groups: set[int], *, patience_s: float = 0.0) -> None:
    """End these process groups: asked first, if there is patience, and then killed."""
    if os.name != "posix":
        return
    if patience_s:
        _send(groups, signal.SIGTERM)
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline and any(_is_alive(group) for group in groups):
            time.sleep(0.02)
    _send(groups, signal.SIGKILL)


def _send(groups: set[int], number: int) -> None:
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def _is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    return True
