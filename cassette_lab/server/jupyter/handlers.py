"""The handlers: who may ask, and the stream of an answer. The API is described in the package."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.http1connection import HTTP1Connection
from tornado.iostream import StreamClosedError

from cassette_lab.server.jupyter.frames import Event, frame
from cassette_lab.server.jupyter.places import Place, find_places, on_disk, shows_hidden
from cassette_lab.server.jupyter.process import Worker, Workers
from cassette_lab.server.jupyter.settings import CassetteLab
from cassette_lab.server.jupyter.tasks import Named, Task
from cassette_lab.server.jupyter.wishes import TABLES, RefusalError, Wish, read_wish

VERSION = 1


def add_handlers(app: web.Application, settings: CassetteLab) -> None:
    """Add the API to a server's application."""
    base = url_path_join(app.settings["base_url"], "cassette-lab", "api")
    viewer = {"viewer": Viewer(settings)}
    status, opening = url_path_join(base, "status"), url_path_join(base, "open")
    app.add_handlers(".*$", [(status, StatusHandler, viewer), (opening, OpenHandler, viewer)])


class Viewer:
    """The settings, and what goes on at once: so many workers, with a thread for each that waits for its frames."""

    def __init__(self, settings: CassetteLab) -> None:
        self.settings = settings
        self.slots = asyncio.Semaphore(settings.max_readings)
        self.threads = ThreadPoolExecutor(2 * settings.max_readings, thread_name_prefix="cassette-lab")
        self.workers = Workers(self.threads, spare_seconds=settings.spare_seconds)


class _Handler(APIHandler):
    auth_resource = "contents"

    def initialize(self, viewer: Viewer) -> None:
        self.viewer = viewer

    def refuse(self, refusal: RefusalError) -> None:
        """Answer that it cannot be done."""
        self.set_status(refusal.status)
        self.finish({"code": refusal.code, "message": refusal.message})


class StatusHandler(_Handler):
    """``GET status``."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """That the server half is there, and what it does."""
        viewer = self.viewer.settings
        limits = {"max_bytes": viewer.max_bytes, "max_content_bytes": viewer.max_content_bytes}
        self.finish({"version": VERSION, "bodies": viewer.allow_bodies, **limits, "tables": list(TABLES)})
        await self.viewer.workers.keep_spare()  # whoever asks this opens something soon


class OpenHandler(_Handler):
    """``POST open``."""

    _worker: Worker | None = None
    _is_gone = False

    def on_connection_close(self) -> None:
        """The client has gone: nobody waits for the rest."""
        self._is_gone = True
        if self._worker is not None:
            self._worker.kill()
        super().on_connection_close()

    @web.authenticated
    @authorized(action="read")  # type: ignore[untyped-decorator]
    async def post(self) -> None:
        """Read files, and answer while they are read."""
        try:
            wish = read_wish(self.request.body, allow_bodies=self.viewer.settings.allow_bodies)
            places = await find_places(self.contents_manager, wish, self.viewer.settings)
            await self._answer(wish, places)
        except RefusalError as refusal:
            self.refuse(refusal)
        except StreamClosedError:
            return
        except Exception as error:  # noqa: BLE001 - a trace might show what a file holds
            self.log.error("cassette_lab: the viewer's request failed (%s)", type(error).__name__)  # noqa: TRY400 - without its text
            if self._headers_written:
                self._cut_off()
            else:
                self.refuse(RefusalError(500, "INTERNAL", f"the request failed ({type(error).__name__})"))

    async def _answer(self, wish: Wish, places: Sequence[Place]) -> None:
        self.set_header("Content-Type", "application/vnd.cassette-lab.frames")
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("X-Accel-Buffering", "no")  # a proxy in front hands it on at once
        if self.viewer.slots.locked():
            await self._write(frame({"event": "progress", "done": 0, "total": 0, "words": "waiting for other files"}))
        async with self.viewer.slots, on_disk(self.contents_manager, places) as root:
            if self._is_gone:
                return
            task = self._task(wish, places, root)
            async with self.viewer.workers.working(task) as worker:
                self._worker = worker
                if self._is_gone:
                    return
                reason = await self._hand_on(worker)
        if reason is not None and not self._is_gone:
            source = places[0].path if len(places) == 1 else ""
            await self._write(frame(_ended(source, reason)))
            await self._write(frame({"event": "end", "rows": {}, "left_out": {}, "complete": False}))
        if not self._is_gone:
            await self.finish(set_content_type="application/vnd.cassette-lab.frames")
            await self.viewer.workers.keep_spare()

    def _task(self, wish: Wish, places: Sequence[Place], root: str) -> Task:
        viewer = self.viewer.settings
        return Task(
            root=Path(root),
            places=tuple(Named(each.path, each.is_folder) for each in places),
            tables=wish.tables,
            compare=wish.compare,
            bodies=wish.bodies,
            hidden=shows_hidden(self.contents_manager),
            max_rows=viewer.max_rows,
            max_reply_bytes=viewer.max_reply_bytes,
            max_bytes=viewer.max_bytes,
            max_memory_bytes=viewer.max_memory_bytes,
        )

    async def _hand_on(self, worker: Worker) -> str | None:
        """Give the worker's frames to the client. Returns why it ended too early, if it did."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.viewer.settings.max_seconds):
                while True:
                    found = await asyncio.wait_for(
                        loop.run_in_executor(self.viewer.threads, worker.next), self.viewer.settings.max_silent_seconds
                    )
                    if found is None and worker.took_too_much_memory:
                        limit = f"{self.viewer.settings.max_memory_bytes:,} bytes"
                        return f"reading takes more memory than the viewer may use ({limit}, c.CassetteLab.max_memory_bytes)"
                    if found is None:
                        return "the process that read it was ended; open it again"
                    event, data = found
                    await self._write(data)
                    if event["event"] == "end":
                        return None
        except TimeoutError:
            return "reading took too long and was given up; load the file in Python: cl.load(…)"

    async def _write(self, data: bytes) -> None:
        """Raises ``StreamClosedError`` where the client has gone, or takes nothing."""
        self.write(data)
        try:
            await asyncio.wait_for(self.flush(), self.viewer.settings.max_silent_seconds)
        except TimeoutError:
            self._cut_off()
            raise StreamClosedError from None

    def _cut_off(self) -> None:
        """End the connection, so that nobody takes what was sent for the whole answer."""
        connection = self.request.connection
        if isinstance(connection, HTTP1Connection):
            connection.stream.close()


def _ended(source: str, reason: str) -> Event:
    problem = {"code": "ENDED", "message": reason, "file": source, "line": None, "field": None}
    facts = {"source": source, "kind": None, "rows": None, "line": None, "changed": False}
    return {"event": "state", **facts, "state": "broken", "words": "not read to its end", "problem": problem}
