"""Vectors of the session layout's ``replay/``: parsing and deriving scripts, overrides, placeholders, whole replays."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, chdir
from functools import partial
from pathlib import Path
from typing import Any

from cassette_lab import jsonio
from cassette_lab.contracts import AbortController, ModelRequest
from cassette_lab.errors import AbortError, CassetteLabError, MismatchError, RecordedError
from cassette_lab.jsonio.text import pretty
from cassette_lab.session.answers import derive_replay_script
from cassette_lab.session.entries import ChunksEntry, HangEntry, ReplayEntry, ThrowEntry
from cassette_lab.session.fixtures import parse_session_header, parse_session_log
from cassette_lab.session.placeholders import resolve_entry
from cassette_lab.session.replay_model import ReplayModel
from cassette_lab.session.scripts import load_replay_script, load_session_scripts
from tests.conformance.case import Case
from tests.conformance.files import file_bytes
from tests.conformance.identity import assert_equal

_SECONDS = 20
_FORMAT = 0  # all vectors are of the function for format 0, whatever a header says


def cases(folder: Path) -> Iterator[Case]:
    """One case for each vector of ``vectors.json``."""
    document = jsonio.parse(file_bytes(folder / "vectors.json"))
    for vector in document["vectors"]:
        yield Case(vector["id"], partial(_check, vector, folder.resolve().parent))


def _check(vector: dict[str, Any], root: Path) -> None:
    found = _OPERATIONS[vector["op"]](vector["input"], root)
    expected = vector["expect"]
    named = {step["call"].get("sessionId") for step in vector["input"].get("steps", ()) if "call" in step}
    for step in expected.get("steps", ()):
        for who in step.get("partial", ()):
            who[0] = who[0] if who[0] in named else None  # whatever they call the session without an id
    assert_equal(_plain(found), _plain(expected), vector["op"])


def _plain(value: Any) -> Any:
    """``value`` as ``JSON.stringify`` would tell it: ``-0`` is 0 there."""
    return jsonio.parse(pretty(value))


def _label(error: CassetteLabError) -> str:
    """The vectors' word for an error."""
    if isinstance(error, MismatchError):
        return str(error.diagnostic["reason"])
    return error.code.lower().replace("_", "-")


def _ok(compute: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"ok": compute()}
    except CassetteLabError as error:
        return {"error": _label(error)}


def _content(file: Any, root: Path) -> bytes:
    """The bytes of a file that a vector gives as its text, or by a reference."""
    if isinstance(file, str):
        return file.encode("utf-8", "surrogatepass")
    return file_bytes(root / file["ref"])


def _entries(entries: Any) -> list[Any]:
    return [entry.to_json() for entry in entries]


def _header(text: str | bytes) -> dict[str, Any]:
    header = parse_session_header(text)
    return {"id": header.id, "createdAt": header.created_at, "seedLength": header.seed_length}


def _digest(content: bytes) -> dict[str, Any]:
    events = parse_session_log(content)
    first, last = (events[0], events[-1]) if events else (None, None)
    by_type = Counter(event["type"] for event in events)
    return {"count": len(events), "byType": by_type, "first": first, "last": last, "header": _header(content)}


def _entry(value: Mapping[str, Any]) -> ReplayEntry:
    if value["kind"] == "hang":
        return HangEntry(value.get("readyFile"))
    if value["kind"] == "throw":
        return ThrowEntry(value["chunks"], value["message"], value["code"])
    return ChunksEntry(value["chunks"])


def _in_folder(given: dict[str, Any], root: Path, act: Callable[[dict[str, Any]], Any]) -> Any:
    """``act`` in a new folder with the vector's files, on its config with absolute paths."""
    with tempfile.TemporaryDirectory(prefix="session-replay-") as temporary, chdir(temporary):
        folder = Path(temporary)
        for name, content in given["files"].items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_content(content, root))
        config = given["config"]
        files: dict[str, Any] = {"file": folder / config["file"], "version": _FORMAT}
        files["child_files"] = [folder / name for name in config.get("childFiles", ())]
        if "overrideFile" in config:
            files["override_file"] = folder / config["overrideFile"]
        return act(files)


def _load_scripts(given: dict[str, Any], root: Path) -> dict[str, Any]:
    def load(files: dict[str, Any]) -> dict[str, Any]:
        return _ok(lambda: [script.to_json() for script in load_session_scripts(**files)])

    return _in_folder(given, root, load)  # type: ignore[no-any-return]


def _load_script(given: dict[str, Any], root: Path) -> dict[str, Any]:
    def load(files: dict[str, Any]) -> dict[str, Any]:
        del files["child_files"]
        return _ok(lambda: _entries(load_replay_script(**files)))

    return _in_folder(given, root, load)  # type: ignore[no-any-return]


def _run(given: dict[str, Any], root: Path) -> dict[str, Any]:
    def play(files: dict[str, Any]) -> dict[str, Any]:
        try:
            model = ReplayModel.from_files(**files, pace_ms=given["config"].get("paceMs", 0))
        except CassetteLabError as error:
            return {"install": _label(error)}
        return {"steps": asyncio.run(_steps(model, given["steps"]))}

    return _in_folder(given, root, play)  # type: ignore[no-any-return]


async def _steps(model: ReplayModel, steps: list[dict[str, Any]]) -> list[Any]:
    done: list[Any] = []
    for step in steps:
        if "call" in step:
            async with asyncio.timeout(_SECONDS):
                done.append(await _call(model, step["call"]))
        else:
            assert step.keys() == {"assert"}, f"unknown step {step}"
            done.append(_consumed(model))
    return done


async def _call(model: ReplayModel, call: dict[str, Any]) -> dict[str, Any]:
    controller = AbortController()
    abort_after = call.get("abortAfter")
    if abort_after == 0:
        controller.abort()
    request = ModelRequest(call["messages"], session_id=call.get("sessionId"), signal=controller.signal)
    chunks: list[Any] = []
    end: Any = "end"
    try:
        async with aclosing(model.stream(request)) as stream:
            async for chunk in stream:
                chunks.append(chunk)
                if len(chunks) == abort_after:
                    controller.abort()
    except AbortError:
        end = "aborted"
    except RecordedError as error:
        end = {"error": "llm-error", "code": error.code, "message": error.message}
    except CassetteLabError as error:
        end = _label(error)
    return {"chunks": chunks, "end": end}


def _consumed(model: ReplayModel) -> dict[str, Any]:
    try:
        model.assert_consumed()
    except MismatchError as error:
        diagnostic = error.diagnostic
        partial = [[item["sessionId"], item["calls"], item["recorded"]] for item in diagnostic["partial"]]
        return {"error": _label(error), "unbound": diagnostic["unbound"], "partial": partial}
    return {"ok": True}


_OPERATIONS: dict[str, Callable[[dict[str, Any], Path], dict[str, Any]]] = {
    "parseSessionLog": lambda given, _: _ok(lambda: parse_session_log(given["text"])),
    "parseSessionHeader": lambda given, _: _ok(lambda: _header(given["text"])),
    "parseSessionLogDigest": lambda given, root: _ok(lambda: _digest(_content(given["file"], root))),
    "deriveFile": lambda given, root: _ok(
        lambda: _entries(derive_replay_script(parse_session_log(_content(given["file"], root))))
    ),
    "deriveReplayScript": lambda given, _: _ok(lambda: _entries(derive_replay_script(given["events"]))),
    "resolveScriptedEntry": lambda given, _: _ok(lambda: resolve_entry(_entry(given["entry"]), given["messages"]).to_json()),
    "loadSessionScripts": _load_scripts,
    "loadReplayScript": _load_script,
    "run": _run,
}
