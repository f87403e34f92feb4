"""The widget that a view is in a live notebook. Importing this imports ipywidgets, so only a kernel does."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import anywidget
import traitlets

STATIC: Final = Path(__file__).parent / "static"

_UNPACK: Final = """const bytes = Uint8Array.from(atob("%s"), (each) => each.charCodeAt(0));
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
const address = URL.createObjectURL(new Blob([await new Response(stream).arrayBuffer()], { type: "text/javascript" }));
const { default: widget } = await import(address);
URL.revokeObjectURL(address);
export default widget;
"""


def packed_module(path: Path) -> str:
    """A module that unpacks another one: every saved view has it inside, and packed it is less than half as large."""
    return _UNPACK % base64.b64encode(gzip.compress(path.read_bytes(), 9, mtime=0)).decode()


class ViewWidget(anywidget.AnyWidget):
    """What is synced, and saved with a notebook: the view's name, bounded tables, options, and the selection.

    The front end asks for the whole tables once it is drawn (``{"want": "tables"}``) and gets them in a message, which is in
    no saved state.
    """

    _esm = packed_module(STATIC / "widget.js")
    view = traitlets.Unicode().tag(sync=True)
    tables = traitlets.Dict().tag(sync=True)
    options = traitlets.Dict().tag(sync=True)
    selected = traitlets.Dict().tag(sync=True)

    def __init__(self, whole: Callable[[], tuple[Mapping[str, bytes], Mapping[str, Any]]], **state: Any) -> None:
        super().__init__(**state)
        self._whole = whole
        self.on_msg(self._asked)

    def _asked(self, _widget: Any, content: Any, _buffers: Any) -> None:
        if isinstance(content, dict) and content.get("want") == "tables":
            tables, options = self._whole()
            self.send({"tables": list(tables), "options": dict(options)}, buffers=list(tables.values()))

    def close(self) -> None:
        """Close it and the layout it came with, which ipywidgets would keep."""
        layout = self.layout if self.comm is not None else None
        super().close()
        if layout is not None:
            layout.close()
