"""The process that reads files for the viewer: ``python -P -m cassette_lab.server.jupyter.worker``.

A task comes as one line of JSON on standard input, frames go to standard output; with the argument ``spare`` it imports
first what any task may need, and then waits for one. It ends when it is done, and at once when its standard input is closed,
and so when the server ends, however that happens. It says nothing anywhere else: what is wrong with a file is an event, and
an error of our own is told by its kind only, for its text might show what a file holds.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final

from cassette_lab.cassette.without_pandas import do_without_pandas
from cassette_lab.errors import CassetteLabError
from cassette_lab.server.jupyter.frames import Event, Tell, frame
from cassette_lab.server.jupyter.tasks import Task

SPARE: Final = "spare"

TOO_MUCH_MEMORY: Final = 3
"""Exit status of a worker that took more memory than it may."""

_LOOK_EVERY_S: Final = 0.05


def main() -> None:
    """Do the task on standard input."""
    output = os.fdopen(os.dup(1), "wb", buffering=0)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)  # whatever a library might print
    do_without_pandas()
    if SPARE in sys.argv:
        from cassette_lab.server.jupyter import cassette_files, labs  # noqa: F401 - so that they are there
    line = sys.stdin.buffer.readline()
    if not line:
        return
    task = Task.from_json(json.loads(line))
    threading.Thread(target=_end_with, args=(sys.stdin.buffer,), daemon=True).start()
    with contextlib.suppress(OSError, AttributeError):
        os.nice(5)  # the server's answers come first

    def tell(event: Event, data: bytes) -> None:
        _write(output, frame(event, data))

    threading.Thread(target=_watch_memory, args=(task.max_memory_bytes,), daemon=True).start()
    os.chdir(task.root)
    work(replace(task, root=Path.cwd()), tell)  # tables name files from the working directory, whose links are followed


def work(task: Task, tell: Tell) -> None:
    """Tell everything of a task, whatever goes wrong."""
    tell({"event": "begin", "version": 1, "paths": [each.path for each in task.places], "bodies": task.bodies}, b"")
    try:
        _tell_header(task, tell)
        from cassette_lab.server.jupyter.reading import read

        read(task, tell)
    except BrokenPipeError:  # the server is gone
        raise
    except CassetteLabError as error:
        _failed(tell, task, error.code, error.message)
    except Exception as error:  # noqa: BLE001 - told by its kind
        _failed(tell, task, "INTERNAL", f"reading failed ({type(error).__name__}); load the file in Python to see why")


def _tell_header(task: Task, tell: Tell) -> None:
    """The header of a cassette at once: the libraries that its rows need take longer to import than anybody waits for."""
    from cassette_lab.cassette.reader import read_header
    from cassette_lab.server.jupyter.telling import header_event

    for place in task.places:
        if place.path.endswith(".jsonl") and not place.folder:
            with contextlib.suppress(CassetteLabError, OSError):  # it is told with its rows
                path = task.file(place.path)
                tell(header_event(place.path, read_header(path), path.stat().st_size), b"")


def _failed(tell: Tell, task: Task, code: str, words: str) -> None:
    from cassette_lab.server.jupyter.telling import plain_problem, state

    source = task.places[0].path if len(task.places) == 1 else ""
    tell(state(source, None, "broken", "not read", problem=plain_problem(code, words, source)), b"")
    tell({"event": "end", "rows": {}, "left_out": {}, "complete": False}, b"")


def _write(output: BinaryIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[output.write(left) :]


def _end_with(stream: BinaryIO) -> None:
    stream.read()
    os._exit(1)


def _watch_memory(limit_bytes: int) -> None:
    """End the process when it takes more. A limit of the system would count what libraries only reserve, too."""
    while (size := _memory_bytes()) is not None:
        if size > limit_bytes:
            os._exit(TOO_MUCH_MEMORY)
        time.sleep(_LOOK_EVERY_S)


def _memory_bytes() -> int | None:
    """What the process takes now (where only that is told, the most it took); None where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        pass
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1_024)


if __name__ == "__main__":
    with contextlib.suppress(OSError):  # the server is gone
        main()
    os._exit(0)  # at once: nothing is left to be done
