"""A real Jupyter server with our extension in a process of its own, and a client that reads its frames."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa

from cassette_lab.server.jupyter.frames import Event, read_frame

TOKEN = "viewer-token"  # noqa: S105 - of a server that ends with the test
LIMIT_S = 30.0
OPEN = "/base/cassette-lab/api/open"
STATUS = "/base/cassette-lab/api/status"
_MODULE = "cassette_lab.server.jupyter"


@dataclass
class Answer:
    """All frames of an answer, and when each came, in seconds from the request."""

    status: int
    headers: httpx2.Headers
    body: bytes
    times: list[float] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def frames(self) -> list[tuple[Event, bytes]]:
        assert (self.status, self.headers["content-type"]) == (200, "application/vnd.cassette-lab.frames"), self.body
        stream, frames = BytesIO(self.body), []
        while (found := read_frame(stream)) is not None:
            frames.append(found)
        assert stream.tell() == len(self.body)
        return frames

    def events(self, name: str) -> list[Event]:
        return [event for event, _ in self.frames if event["event"] == name]

    def last(self, name: str = "state") -> Event:
        return self.events(name)[-1]

    def table(self, name: str) -> pa.Table:
        """The pages of a table, put together as a client does."""
        return table_of([data for event, data in self.frames if event.get("table") == name])


def table_of(pages: Sequence[bytes]) -> pa.Table:
    with pa.ipc.open_stream(b"".join(pages)) as stream:
        return stream.read_all()


@dataclass
class Viewer:
    """The server's address and root folder; ``log`` is what it has written."""

    url: str
    root: Path
    log_file: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def client(self, *, token: str | None = TOKEN, **options: Any) -> httpx2.Client:
        headers = {} if token is None else {"Authorization": f"token {token}"}
        return httpx2.Client(base_url=self.url, headers=headers, timeout=LIMIT_S, trust_env=False, **options)

    def ask(self, method: str, path: str, *, token: str | None = TOKEN, **options: Any) -> Answer:
        with self.client(token=token) as client:
            response = client.request(method, path, **options)
            return Answer(response.status_code, response.headers, response.content)

    def open(self, *paths: str, **members: Any) -> Answer:
        return self.ask("POST", OPEN, json={"paths": list(paths), **members})

    @contextmanager
    def streamed(self, *paths: str, **members: Any) -> Iterator[Iterator[tuple[Event, bytes]]]:
        """Frames as they come; leaving the block closes the connection."""
        with self.client() as client, client.stream("POST", OPEN, json={"paths": list(paths), **members}) as response:
            assert response.status_code == 200
            yield _frames(response.iter_bytes())

    def workers(self) -> list[int]:
        """Processes that the server has started and that have not ended."""
        return [pid for pid in children(self.process.pid) if _MODULE in command_of(pid)]

    def wait_for_workers(self, count: int) -> list[int]:
        end = time.monotonic() + LIMIT_S
        while len(found := self.workers()) != count:
            assert time.monotonic() < end, (found, count)
            time.sleep(0.02)
        return found


def _frames(pieces: Iterator[bytes]) -> Iterator[tuple[Event, bytes]]:
    buffer = b""
    for piece in pieces:
        buffer += piece
        while True:
            stream = BytesIO(buffer)
            found = read_frame(stream)
            if found is None:
                break
            buffer = buffer[stream.tell() :]
            yield found


def children(pid: int) -> list[int]:
    """Child processes, by the system's own listing."""
    found = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, check=True, text=True).stdout
    pairs = [line.split() for line in found.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def command_of(pid: int) -> str:
    return subprocess.run(["ps", "-p", str(pid), "-o", "args="], capture_output=True, check=False, text=True).stdout


@contextmanager
def jupyter_server(root: Path, home: Path, *, extra: Sequence[str] = (), **settings: Any) -> Iterator[Viewer]:
    """A server on ``root``, which has ended at the end; ``settings`` are those of ``CassetteLab``."""
    home.mkdir(parents=True, exist_ok=True)
    folders = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    config = [f"--CassetteLab.{name}={value!r}" for name, value in settings.items()]
    command = [
        sys.executable, "-m", "jupyter_server", "--allow-root", "--no-browser", "--ip=127.0.0.1", f"--port={port}",
        "--ServerApp.port_retries=0", "--ServerApp.base_url=/base/", f"--IdentityProvider.token={TOKEN}",
        f"--ServerApp.root_dir={root}", f"--ServerApp.jpserver_extensions={{'{_MODULE}': True}}", "--debug", *config, *extra,
    ]  # fmt: skip
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    # Other extensions of this environment are none of this test's business.
    environment = {**folders, "PYTHONPATH": path, "HOME": str(home), "JUPYTER_NO_CONFIG": "1"}
    log_file = home / "server.log"
    with log_file.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=home, env={**os.environ, **environment})
    viewer = Viewer(f"http://127.0.0.1:{port}", root, log_file, process)
    try:
        _wait_until_up(viewer)
        yield viewer
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LIMIT_S)
        process.kill()
        process.wait()


def _wait_until_up(viewer: Viewer) -> None:
    end = time.monotonic() + LIMIT_S
    while True:
        assert viewer.process.poll() is None, viewer.log
        assert time.monotonic() < end, viewer.log
        with contextlib.suppress(httpx2.TransportError):
            if viewer.ask("GET", STATUS).status == 200:
                return
        time.sleep(0.05)
