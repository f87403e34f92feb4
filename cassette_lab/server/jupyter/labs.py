"""Everything but cassettes as events: session logs, flight records, folders, several files; loaded as a lab, then told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from jupyter_core.paths import is_hidden

from cassette_lab.errors import CassetteLabError
from cassette_lab.jsonio.text import show
from cassette_lab.looking import size_of
from cassette_lab.server.jupyter.frames import Tell
from cassette_lab.server.jupyter.pages import Pages
from cassette_lab.server.jupyter.tasks import Task
from cassette_lab.server.jupyter.telling import CHANGED, broken_words, plain_problem, problem, state
from cassette_lab.server.jupyter.watching import Facts, Progress
from cassette_lab.session.frames import is_zstd
from cassette_lab.tables.finding import find, name_from
from cassette_lab.tables.lab import Lab
from cassette_lab.tables.load import load
from cassette_lab.tables.schemas import table_schema
from cassette_lab.words import plural

_HEAD_BYTES: Final = 4_096


def tell_file(task: Task, kind: str | None, tell: Tell, pages: Pages, progress: Progress) -> None:
    """A session log, a flight record, or a file that is none of ours."""
    source = task.places[0].path
    path = task.file(source)
    facts = Facts([path])
    if kind is None:
        code, words = _unknown(path)
        tell(state(source, None, "broken", "not an artefact", problem=plain_problem(code, words, source)), b"")
        return
    tell(state(source, kind, "verifying", "reading"), b"")
    try:
        lab = load(path, bodies=task.bodies, progress=progress)
    except CassetteLabError as error:
        tell(
            state(source, kind, "broken", broken_words(error), changed=facts.have_changed, problem=problem(error, source)), b""
        )
        pages.add_problem(0, error)
        return
    _put(task, pages, lab)
    torn = sum(each or 0 for name in ("sessions", "flight_health") for each in lab.tables[name]["torn_bytes"].to_pylist())
    words = "read to its end" if not torn else f"read up to its torn end: {torn:,} bytes are not whole"
    changed = facts.have_changed
    words = f"{words}; {CHANGED}" if changed else words
    tell(state(source, kind, "partial" if torn or changed else "verified", words, changed=changed), b"")


def tell_lab(task: Task, kinds: Sequence[str | None], tell: Tell, pages: Pages, progress: Progress) -> None:
    """A folder, or several files of any kind."""
    source = task.places[0].path if len(task.places) == 1 else ""
    kind = "folder" if any(each.folder for each in task.places) else kinds[0]
    tell(state(source, kind, "verifying", "reading"), b"")
    files, problems = _shown(task)
    if not files and not problems:
        words = "there is no cassette, session log or flight record in this folder or below it"
        tell(state(source, kind, "broken", "nothing to show", problem=plain_problem("EMPTY", words, source)), b"")
        return
    if sum(map(size_of, files)) > task.max_bytes:
        words = f"these are more than the {task.max_bytes:,} bytes that the viewer opens; load them in Python: cl.load(…)"
        tell(state(source, kind, "broken", "too large", problem=plain_problem("TOO_LARGE", words, source)), b"")
        return
    facts = Facts(files)
    if files:
        lab = load(files, on_error="collect", bodies=task.bodies, progress=progress)
        problems = pa.concat_tables([lab.problems, problems])
        _put(task, pages, lab)
    pages.put("problems", problems)
    _tell_lab(tell, source, kind, total=len(files), failed=len(problems), changed=facts.have_changed)


def _tell_lab(tell: Tell, source: str, kind: str | None, *, total: int, failed: int, changed: bool) -> None:
    words = f"{plural(total, 'file')} read" if not failed else f"{plural(total, 'file')}, {plural(failed, 'problem')}"
    words = f"{words}; a file changed while it was read" if changed else words
    word = "verified" if not failed and not changed else "partial" if total > failed else "broken"
    tell(state(source, kind, word, words, changed=changed), b"")


def _put(task: Task, pages: Pages, lab: Lab) -> None:
    """Everything of a lab but its problems."""
    for name, table in lab.tables.items():
        if name != "problems":
            pages.put(name, table, root=task.root)


def _shown(task: Task) -> tuple[list[Path], pa.Table]:
    """The files of a task that the contents manager would show, and what is wrong with others."""
    found, _ = find([str(task.file(each.path)) for each in task.places])
    shown = [each for each in found if task.hidden or not is_hidden(str(each.path), str(task.root))]
    named = {task.file(each.path) for each in task.places if each.folder}
    refused = [(each.path, each.problem) for each in shown if each.problem is not None and each.path not in named]
    rows = [
        {"source": name_from(path, task.root), "line": error.line, "code": error.code, "message": show(error.message)}
        for path, error in refused
    ]  # fmt: skip
    return [each.path for each in shown if each.problem is None], pa.Table.from_pylist(rows, schema=table_schema("problems"))


def _unknown(path: Path) -> tuple[str, str]:
    """What a file is that is no artefact: a code and a sentence."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return "UNREADABLE", "the file cannot be read; check its permissions"
    if not head:
        return "EMPTY", "the file is empty"
    if b"\0" in head or is_zstd(head):
        return "BINARY", "the file is binary, and no session log; the viewer opens cassettes, session logs and flight records"
    return "UNKNOWN", "this is no cassette, session log or flight record; open it with the text editor"
