"""A real kernel and a real terminal to run cells in, and what came out of them."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pexpect
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_QUIET = ["--HistoryManager.enabled=False", "--no-banner"]


@dataclass
class Ran:
    """What one cell gave: its reply, and its messages in order."""

    reply: dict[str, Any] = field(default_factory=dict)
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return bool(self.reply.get("status") == "ok")

    @property
    def error(self) -> str:
        """The error's type and text; empty without one."""
        return "" if self.ok else f"{self.reply.get('ename')}: {self.reply.get('evalue')}"

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [message["content"] for message in self.messages if message["msg_type"] in kinds]

    @property
    def stdout(self) -> str:
        return "".join(content["text"] for content in self.of("stream") if content["name"] == "stdout")

    @property
    def stderr(self) -> str:
        return plain("".join(content["text"] for content in self.of("stream") if content["name"] == "stderr"))

    @property
    def result(self) -> str | None:
        """The text of the displayed last expression."""
        results = self.of("execute_result")
        return None if not results else str(results[-1]["data"]["text/plain"])

    @property
    def displays(self) -> list[dict[str, str]]:
        """The displays as they stand at the end: a later update replaces what it updates."""
        shown: dict[Any, dict[str, str]] = {}
        for number, content in enumerate(self.of("display_data", "update_display_data")):
            shown[content["transient"].get("display_id", number)] = content["data"]
        return list(shown.values())

    @property
    def lines(self) -> list[str]:
        """The texts of the displays."""
        return [data["text/plain"] for data in self.displays]

    @property
    def traceback(self) -> str:
        return plain("\n".join(line for content in self.of("error") for line in content["traceback"]))


def plain(text: str) -> str:
    return _ANSI.sub("", text)


class Kernel:
    """An IPython kernel in a process of its own, in a folder of its own, with the extension loaded."""

    def __init__(self, folder: Path, *, extension: bool = True) -> None:
        self.folder = folder
        self.strays = Ran()
        """Messages that belong to earlier cells: what their tasks say after the cell has ended."""
        self.manager = KernelManager()
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", _QUIET[0]]
        self.manager._kernel_spec = KernelSpec(argv=argv, display_name="test", language="python")
        self.manager.start_kernel(cwd=str(folder), env=environment(folder))
        self.client: BlockingKernelClient = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=30)
        if extension:
            assert self.run("%load_ext cassette_lab").ok

    def run(self, code: str, *, timeout: float = 30) -> Ran:
        """Run a cell to its end."""
        return self.wait(self.begin(code), timeout=timeout)

    def begin(self, code: str) -> str:
        """Send a cell; ``wait`` for it with what this returns."""
        return str(self.client.execute(code, allow_stdin=False))

    def wait(self, cell: str, *, timeout: float = 30, until: str | None = None) -> Ran:
        """What the cell gives until it is done, or until it has printed ``until``."""
        ran = Ran()
        end = time.monotonic() + timeout
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.1, end - time.monotonic()))
            if message["parent_header"].get("msg_id") != cell:
                self.strays.messages.append(message)
                continue
            ran.messages.append(message)
            if until is not None and message["msg_type"] == "stream" and until in message["content"]["text"]:
                return ran
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        while True:
            reply = self.client.get_shell_msg(timeout=max(0.1, end - time.monotonic()))
            if reply["parent_header"].get("msg_id") == cell:
                ran.reply = reply["content"]
                return ran

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def kill(self) -> None:
        """End it at once, without a chance to clean up."""
        self.manager.signal_kernel(9)

    def complete(self, code: str) -> list[str]:
        self.client.complete(code, len(code))
        reply = self.client.get_shell_msg(timeout=20)
        return [str(match) for match in reply["content"]["matches"]]

    def inspect(self, code: str) -> str:
        self.client.inspect(code, len(code))
        return plain(self.client.get_shell_msg(timeout=20)["content"]["data"]["text/plain"])

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.manager.cleanup_resources()


class Terminal:
    """IPython in a terminal. Cells are pasted, as people do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "IPython", *_QUIET, "--colors=NoColor", "--TerminalInteractiveShell.term_title=False"],
            cwd=str(folder),
            env=environment(folder) | {"TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
            encoding="utf-8",
            timeout=20,
            dimensions=(50, 200),
        )
        self.child.expect(r"In \[1\]:")
        self.count = 1

    def run(self, code: str, *, timeout: float = 20) -> str:
        """Run a cell; everything that was written until the next prompt."""
        self.begin(code)
        return self.wait(timeout=timeout)

    def begin(self, code: str) -> None:
        self.child.send(f"\x1b[200~{code}\x1b[201~")
        self.child.send("\x1b\r")

    def wait(self, *, timeout: float = 20) -> str:
        self.count += 1
        self.child.expect(rf"In \[{self.count}\]:", timeout=timeout)
        return plain(self.child.before or "").replace("\r", "")

    def close(self) -> None:
        self.child.close(force=True)


def environment(folder: Path) -> dict[str, str]:
    """The environment of a user with no settings of their own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "JPY_", "IPYTHON", "PYTEST"))}
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return kept | {
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }


@contextmanager
def kernel_in(folder: Path) -> Iterator[Kernel]:
    kernel = Kernel(folder)
    try:
        yield kernel
    finally:
        kernel.close()
