"""A live view in a page that is not ours: a frame without rights, its script and its data inside, under a strict policy."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

HEIGHTS: Final = {"topology": 420, "timeline": 460, "stop_reasons": 300, "diff": 480, "explorer": 720}
"""Pixels that a view takes; as in the front end."""

DRAWN: Final = "cassette-lab: drawn"
"""What a frame tells the page around it as soon as its view is there."""

_MARGIN: Final = 24
_SCRIPT: Final = Path(__file__).parent / "static" / "report.js"
_LOADER: Final = """
const bytes = Uint8Array.from(atob(document.getElementById("clab-script").textContent), (each) => each.charCodeAt(0));
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
new Response(stream).text().then((text) => {
  const script = document.createElement("script");
  script.textContent = text;
  document.body.append(script);
  const tell = () => {
    if (document.querySelector("[data-cassette-mounted=yes]") !== null) parent.postMessage("%s", "*");
    else setTimeout(tell, 50);
  };
  tell();
});
""".replace("%s", DRAWN)


def frame(kind: str, tables: Mapping[str, bytes], options: Mapping[str, Any], title: str) -> str:
    """An ``<iframe>`` that shows a view, from tables as ``sent`` packs them. It loads nothing, and may only save files."""
    height = HEIGHTS[kind] + _MARGIN
    return (
        f'<iframe sandbox="allow-scripts allow-downloads" width="100%" height="{height}" frameborder="0" '
        f'data-cassette-live="yes" title="{escape(title)}" srcdoc="{escape(_page(kind, tables, options, title))}"></iframe>'
    )


def frame_scripts() -> tuple[str, str]:
    """The scripts that run in a frame, by their hashes; a page around it that has a policy must allow them, too."""
    return script_hash(_LOADER), _script()[1]


def script_hash(source: str) -> str:
    """How a policy names a script or style that stands in its page."""
    return f"sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}"


def _page(kind: str, tables: Mapping[str, bytes], options: Mapping[str, Any], title: str) -> str:
    script, _ = _script()
    allowed = " ".join(f"'{each}'" for each in frame_scripts())
    policy = f"default-src 'none'; script-src {allowed}; img-src data: blob:; base-uri 'none'"
    blocks = "".join(
        f'<script type="application/vnd.apache.arrow.stream;base64" id="clab-{name}">{base64.b64encode(data).decode()}</script>'
        for name, data in tables.items()
    )
    names = " ".join(f"{name}=clab-{name}" for name in tables)
    told = json.dumps(dict(options), separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        f'<meta name="color-scheme" content="light dark"><title>{escape(title)}</title>'
        f'<div data-cassette-view="{kind}" data-cassette-tables="{names}" data-cassette-options="clab-options"></div>{blocks}'
        f'<script type="application/json" id="clab-options">{told}</script>'
        f'<script type="text/plain" id="clab-script">{script}</script><script>{_LOADER}</script></html>'
    )


@cache
def _script() -> tuple[str, str]:
    """The views' script, packed, and the hash by which the policy knows it."""
    source = _SCRIPT.read_text(encoding="utf-8")
    return base64.b64encode(gzip.compress(source.encode(), 9, mtime=0)).decode(), script_hash(source)
