"""Where paths of the contents API lead, as far as the contents manager shows it: to files of this machine, or to contents.

Everything is asked of the contents manager, so that its root, its rule for hidden files and its way to store them apply.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_server.services.contents.fileio import FileManagerMixin
from jupyter_server.utils import ensure_async
from tornado import web

from cassette_lab.server.jupyter.settings import CassetteLab
from cassette_lab.server.jupyter.wishes import RefusalError, Wish, clean_path, not_there


@dataclass(frozen=True, slots=True)
class Place:
    """A file or folder, named from the root."""

    path: str
    is_folder: bool
    content: bytes | None = None
    """What is in a file that is not in a folder of this machine."""


async def find_places(manager: Any, wish: Wish, settings: CassetteLab) -> list[Place]:
    """The places of a wish. Raises ``RefusalError``."""
    places = [await _place(manager, clean_path(path), settings) for path in wish.paths]
    if wish.compare and any(place.is_folder for place in places):
        raise RefusalError(400, "BAD_REQUEST", "to compare, name two files; one of these is a folder")
    return places


@asynccontextmanager
async def on_disk(manager: Any, places: Sequence[Place]) -> AsyncIterator[str]:
    """The folder from which the places' paths lead to them, while the block runs."""
    if is_local(manager):
        yield _root(manager)
        return
    folder = await asyncio.to_thread(_kept, places)
    try:
        yield folder.name
    finally:
        await asyncio.to_thread(folder.cleanup)


def _root(manager: Any) -> str:
    return os.path.abspath(str(manager.root_dir))  # noqa: PTH100 - links keep their names, as in the contents manager


def _kept(places: Sequence[Place]) -> tempfile.TemporaryDirectory[str]:
    """A folder for this user only, with the contents."""
    folder = tempfile.TemporaryDirectory(prefix="cassette-lab-viewer-")
    try:
        for place in places:
            file = Path(folder.name, place.path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(place.content or b"")
    except BaseException:
        folder.cleanup()
        raise
    return folder


def is_local(manager: Any) -> bool:
    """Whether a contents manager keeps its files in folders of this machine."""
    return isinstance(manager, FileManagerMixin) and hasattr(manager, "root_dir")


def shows_hidden(manager: Any) -> bool:
    """Whether a contents manager shows hidden files."""
    return bool(getattr(manager, "allow_hidden", False))


async def _place(manager: Any, path: str, settings: CassetteLab) -> Place:
    try:
        if not shows_hidden(manager) and path and (_looks_hidden(path) or await ensure_async(manager.is_hidden(path))):
            raise not_there()
        if await ensure_async(manager.dir_exists(path)):
            return _folder(manager, path)
        if not await ensure_async(manager.file_exists(path)):
            raise not_there()
        model = await ensure_async(manager.get(path, content=False))
        return await _file(manager, path, model.get("size"), settings)
    except web.HTTPError as error:
        if error.status_code == 403:
            raise RefusalError(403, "FORBIDDEN", "the file may not be read") from None
        raise not_there() from None
    except (OSError, ValueError):
        raise not_there() from None


def _folder(manager: Any, path: str) -> Place:
    if not is_local(manager):
        sentence = "a folder is opened as a lab where its files are on this machine; here, open its files one by one"
        raise RefusalError(400, "NOT_LOCAL", sentence)
    return Place(path, is_folder=True)


async def _file(manager: Any, path: str, size: int | None, settings: CassetteLab) -> Place:
    local = is_local(manager)
    limit = settings.max_bytes if local else settings.max_content_bytes
    if size is not None and size > limit:
        raise _too_large(limit)
    if local:
        return Place(path, is_folder=False)
    model = await ensure_async(manager.get(path, content=True, type="file", format="base64"))
    try:
        content = base64.b64decode(model["content"])
    except (binascii.Error, TypeError, KeyError):
        raise RefusalError(422, "UNREADABLE", "the contents manager does not give this file as bytes") from None
    if len(content) > limit:
        raise _too_large(limit)
    return Place(path, is_folder=False, content=content)


def _too_large(limit: int) -> RefusalError:
    words = f"the file is larger than the {limit:,} bytes that the viewer opens; load it in Python: cl.load(…)"
    return RefusalError(413, "TOO_LARGE", words)


def _looks_hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))
