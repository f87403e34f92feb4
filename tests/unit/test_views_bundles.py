"""The committed front end is what its sources build, byte for byte, small, and free of what a strict page forbids."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "cassette_lab" / "views" / "static"
EXTENSION = ROOT / "extension"
BUNDLES = ("report.js", "widget.js")


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not here to build the front end")
@pytest.mark.skipif(not (EXTENSION / "node_modules" / "esbuild").is_dir(), reason="extension/node_modules is not installed")
def test_the_committed_bundles_are_what_the_sources_build(tmp_path: Path) -> None:
    subprocess.run(["node", "build.mjs", "--out", str(tmp_path)], cwd=EXTENSION, check=True, timeout=120)
    for name in BUNDLES:
        built, committed = (tmp_path / name).read_bytes(), (STATIC / name).read_bytes()
        assert built == committed, f"{name} is not what extension/ builds; run `npm run build` there"


def test_the_widget_is_small() -> None:
    assert (STATIC / "widget.js").stat().st_size < 120_000


@pytest.mark.parametrize("name", BUNDLES)
def test_bundles_ask_nothing_of_a_page_that_a_strict_policy_refuses(name: str) -> None:
    source = (STATIC / name).read_text(encoding="ascii")
    assert not re.search(r"\beval\(|new Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write", source)
    assert not re.search(r"https?://(?!www\.w3\.org)", source)
    assert "</script" not in source.lower()


def test_the_lock_names_no_place_to_download_from() -> None:
    lock = json.loads((EXTENSION / "package-lock.json").read_text())
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]
    assert lock["packages"][""]["dependencies"] == {"@uwdata/flechette": "2.6.0"}
