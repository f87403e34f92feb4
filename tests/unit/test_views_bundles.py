"""The committed front end is what its sources build, byte for byte, small, and free of what a strict page forbids."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cassette_lab.views.embedding import HEIGHTS

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "cassette_lab" / "views" / "static"
EXTENSION = ROOT / "extension"
LABEXTENSION = ROOT / "cassette_lab" / "labextension"
BUNDLES = ("report.js", "widget.js")


def files_in(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not here to build the front end")
@pytest.mark.skipif(not (EXTENSION / "node_modules" / "esbuild").is_dir(), reason="extension/node_modules is not installed")
def test_the_committed_bundles_are_what_the_sources_build(tmp_path: Path) -> None:
    subprocess.run(["node", "build.mjs", "--out", str(tmp_path)], cwd=EXTENSION, check=True, timeout=120)
    for name in BUNDLES:
        built, committed = (tmp_path / name).read_bytes(), (STATIC / name).read_bytes()
        assert built == committed, f"{name} is not what extension/ builds; run `npm run build` there"
    assert files_in(tmp_path / "labextension") == files_in(LABEXTENSION), (
        "cassette_lab/labextension is not what extension/ builds; run `npm run build` there"
    )


def test_the_labextension_is_whole_and_asks_for_any_jupyterlab_from_4_4_on() -> None:
    manifest = json.loads((LABEXTENSION / "package.json").read_text())
    assert (LABEXTENSION / manifest["jupyterlab"]["_build"]["load"]).is_file()
    wanted = {name: facts["requiredVersion"] for name, facts in manifest["jupyterlab"]["sharedPackages"].items()}
    assert wanted["@jupyterlab/application"] == wanted["@jupyterlab/docregistry"] == "^4.4.0"
    assert not [path.name for path in LABEXTENSION.rglob("*.map")]
    for path in LABEXTENSION.rglob("*.js"):
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"sourceMappingURL|/work/|/home/|node_modules/", source), path.name
        assert not re.search(r"\beval\(|innerHTML|outerHTML|insertAdjacentHTML|document\.write", source), path.name


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
    # JupyterLab's own parts are taken from the page; nothing else goes into a bundle.
    bundled = {name: version for name, version in lock["packages"][""]["dependencies"].items() if name[:2] not in ("@j", "@l")}
    assert bundled == {"@uwdata/flechette": "2.6.0"}


def test_a_frame_is_as_high_as_the_view_that_the_front_end_puts_into_it() -> None:
    source = (EXTENSION / "src" / "mount.ts").read_text(encoding="utf-8")
    table = source.partition("const HEIGHTS")[2].partition("{")[2].partition("}")[0]
    told = {name: int(pixels) for name, pixels in re.findall(r"(\w+): (\d+)", table)}
    assert told.items() >= HEIGHTS.items()
    assert set(told) - set(HEIGHTS) == {"table"}, "a view of the viewer's alone"
