"""Runs a committed notebook in a kernel without a network, and finds what its cells gave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

TIMEOUT_S = 120

# Runs in the kernel first: a connection to anything but this machine is an error there.
_OFFLINE = """
import socket
_connect = socket.socket.connect
def _only_here(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"the notebook wanted to talk to {address}")
    return _connect(self, address)
socket.socket.connect = _only_here
"""


def executed(path: Path, folder: Path, *, times: int = 1) -> Any:
    """The notebook after it ran in ``folder``, cell by cell, without an error and without a word on standard error.

    With ``times=2`` the same kernel has run it once before, so that every cell meets what the first run left.
    """
    notebook = nbformat.read(path, as_version=4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    before = [nbformat.v4.new_code_cell(source) for source in [_OFFLINE, *code * (times - 1)]]
    notebook.cells = [*before, *notebook.cells]
    NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            assert output["output_type"] != "error"
            assert output.get("name") != "stderr", output["text"]
    return notebook


def outputs(notebook: Any, cell_id: str) -> Iterator[dict[str, Any]]:
    """The outputs of one cell: mime bundles, a stream as ``text/plain``."""
    (cell,) = [cell for cell in notebook.cells if cell.get("id") == cell_id]
    for output in cell.outputs:
        yield {"text/plain": output["text"]} if output["output_type"] == "stream" else dict(output["data"])


def text(notebook: Any, cell_id: str) -> str:
    """What one cell gave, as text."""
    return "\n".join(str(output.get("text/plain", "")) for output in outputs(notebook, cell_id))
