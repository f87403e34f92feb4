"""What the worker does: a request's files become events, each as soon as it is known."""

from __future__ import annotations

from cassette_lab.server.jupyter.frames import Tell
from cassette_lab.server.jupyter.pages import Pages
from cassette_lab.server.jupyter.tasks import Task
from cassette_lab.server.jupyter.watching import Progress

_CASSETTE = ".cassette.jsonl"


def read(task: Task, tell: Tell) -> None:
    """Tell everything of a task's paths but ``begin`` and headers; the root is the working directory."""
    sources = [each.path for each in task.places]
    pages = Pages(
        tell, sources, tables=task.tables, bodies=task.bodies, max_rows=task.max_rows, max_bytes=task.max_reply_bytes
    )  # fmt: skip
    progress = Progress(tell)
    kinds = [None if each.folder else _kind(task, each.path) for each in task.places]
    if all(kind == "cassette" for kind in kinds):
        from cassette_lab.server.jupyter.cassette_files import tell_cassettes

        tell_cassettes(task, tell, pages, progress)
    else:
        from cassette_lab.server.jupyter.labs import tell_file, tell_lab

        if len(sources) == 1 and not task.places[0].folder:
            tell_file(task, kinds[0], tell, pages, progress)
        else:
            tell_lab(task, kinds, tell, pages, progress)
    tell({"event": "end", "rows": pages.rows, "left_out": pages.left_out, "complete": True}, b"")


def _kind(task: Task, source: str) -> str | None:
    """The name of a file's kind; those of cassettes say it, and need no other room."""
    if source.endswith(_CASSETTE):
        return "cassette"
    from cassette_lab.tables.kinds import KINDS, kind_of

    kind = kind_of(task.file(source))
    return next((name for name, each in KINDS.items() if each is kind), None)
