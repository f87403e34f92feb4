"""The viewer's server half: how soon a large cassette shows itself, and how soon others are answered meanwhile."""

from __future__ import annotations

import statistics
import threading
import time

from tests.benchmarks.figures import Bench, figure
from tests.unit.viewer_server import STATUS, Viewer, jupyter_server

_CONTENTS = "/base/api/contents/"


@figure("viewer")
def viewer(bench: Bench) -> None:
    """A cassette of 400 MB, opened while another client asks for what JupyterLab asks for all the time."""
    path = bench.cassette(210_000)
    with jupyter_server(bench.folder, bench.folder / "home") as server:
        header, rows, total = _opened(server, path.name)
        size = f"{path.stat().st_size / 1e6:.0f} MB"
        bench.report(f"{size}, header, first time", header, limit=1, note="a process is started for it")
        bench.report(f"{size}, first rows, first time", rows, limit=1)
        server.ask("GET", STATUS)
        time.sleep(2)  # the spare process gets ready
        asking = _Asking(server)
        with asking:
            header, rows, total = _opened(server, path.name)
        bench.report(f"{size}, header", header, limit=1)
        bench.report(f"{size}, first rows", rows, limit=1)
        bench.report(f"{size}, verified, all rows sent", total)
        times_ms = sorted(1000 * each for each in asking.times_s)
        middle, slow = statistics.median(times_ms), times_ms[int(0.95 * len(times_ms))]
        bench.report("others meanwhile, median answer", middle, unit="ms", note=f"{len(times_ms)} answers")
        bench.report("others meanwhile, 95 of 100 within", slow, unit="ms", limit=100, note=f"most {times_ms[-1]:.0f} ms")


def _opened(server: Viewer, name: str) -> tuple[float, float, float]:
    """Seconds to the header, to the first rows, and to the end."""
    start = time.perf_counter()
    header = rows = 0.0
    with server.streamed(name) as frames:
        for event, _ in frames:
            if event["event"] == "header":
                header = header or time.perf_counter() - start
            if event["event"] == "page":
                rows = rows or time.perf_counter() - start
    return header, rows, time.perf_counter() - start


class _Asking(threading.Thread):
    """Another client; it asks for a folder's contents again and again."""

    def __init__(self, server: Viewer) -> None:
        super().__init__()
        self.times_s: list[float] = []
        self._server = server
        self._is_done = threading.Event()

    def run(self) -> None:
        with self._server.client() as client:
            while not self._is_done.wait(0.02):
                start = time.perf_counter()
                client.get(_CONTENTS).raise_for_status()
                self.times_s.append(time.perf_counter() - start)

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self.join()
