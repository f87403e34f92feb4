"""Session logs beside the least that reading and writing them could take: tables, memory, replay scripts, stores."""

from __future__ import annotations

import importlib
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from os import fsync
from pathlib import Path
from typing import Any, Final

import orjson

from cassette_lab.session.frames import FrameWriter
from cassette_lab.session.model import Event
from cassette_lab.session.packing import encode_lines
from cassette_lab.session.paths import LogEncoding
from cassette_lab.session.persistence import StoredSession
from cassette_lab.session.session import Session, new_header
from cassette_lab.session.store_jsonl import JsonlStore
from tests.benchmarks.figures import Bench, figure, fresh_process
from tests.benchmarks.session_logs import log_file, small_logs

SIZE_BYTES: Final = 200_000_000
QUICK_BYTES: Final = 2_000_000
SESSIONS, QUICK_SESSIONS = 1_000, 40
BATCHES, QUICK_BATCHES, BATCH_EVENTS = 400, 20, 50
ENCODINGS: Final[tuple[LogEncoding, ...]] = ("jsonl", "zstd")


@figure("session")
def session_figures(bench: Bench) -> None:
    """One large log in both of its forms, many small ones, and a log that is written."""
    for encoding in ENCODINGS:
        large_log(bench, encoding)
    many_logs(bench)
    for encoding in ENCODINGS:
        appending(bench, encoding)


def parse_lines(path: Path) -> None:
    """The floor: each line is read, out of its frames if need be, and parsed; nothing is checked or kept."""
    with _opened(path) as file:
        for line in file:
            orjson.loads(line)


def large_log(bench: Bench, encoding: LogEncoding) -> None:
    """Tables without bodies, replay scripts, and the memory that both need."""
    from cassette_lab.session.scripts import load_session_scripts
    from cassette_lab.tables import load

    size = QUICK_BYTES if bench.quick else SIZE_BYTES
    path = log_file(bench.folder, size, encoding)
    times = bench.compare(
        {"floor": lambda: parse_lines(path), "load": lambda: load(path), "scripts": lambda: load_session_scripts(path)}, 3
    )
    lab = load(path)
    calls, rows = lab.model_calls.num_rows, lab.sessions["rows"][0].as_py()
    scripted = len(load_session_scripts(path)[0].entries)
    assert scripted == calls, f"{calls} model calls, but {scripted} entries to replay"
    what = f"session {size / 1e6:.0f} MB {encoding}"
    floor = times["floor"]
    bench.report(f"{what}, tables", times["load"], floor=floor, limit=1.5, note=f"{rows:,} rows, {calls:,} calls")
    bench.report(f"{what}, scripts", times["scripts"], floor=floor, limit=3.0)
    code = "import sys\nimport cassette_lab as cl\ncl.load(sys.argv[1])"
    bench.report(f"{what}, peak memory", fresh_process(code, str(path))[1], unit="MiB", limit=300)
    code = "import sys\nfrom cassette_lab.session.scripts import load_session_scripts as load\nload(sys.argv[1])"
    bench.report(f"{what}, peak memory of the scripts", fresh_process(code, str(path))[1], unit="MiB")


def many_logs(bench: Bench) -> None:
    """A store of small sessions, to tables."""
    from cassette_lab.tables import load

    sessions = QUICK_SESSIONS if bench.quick else SESSIONS
    root = small_logs(bench.folder, sessions, "zstd")
    paths = sorted(root.rglob("*.zstd"))

    def parse_all() -> None:
        for path in paths:
            parse_lines(path)

    times = bench.compare({"floor": parse_all, "one": lambda: load(root), "two": lambda: load(root, workers=2)})
    assert load(root).sessions.num_rows == sessions
    note = f"one process {times['one']:.2f} s, parsing alone {times['floor']:.2f} s"
    bench.report(f"{sessions:,} small sessions, two processes", times["two"], limit=1.5, note=note)


def appending(bench: Bench, encoding: LogEncoding) -> None:
    """Batches that are logged and stored, beside writing and syncing the same bytes; the two take turns."""
    batches = QUICK_BATCHES if bench.quick else BATCHES
    session_id = f"append-{encoding}-{time.time_ns()}"
    header = new_header(session_id=session_id, cwd="/srv")
    store_root = bench.folder / f"append-{encoding}"
    frames = FrameWriter() if encoding == "zstd" else None
    seconds: dict[str, list[float]] = {"floor": [], "store": [], "all": []}
    with (
        JsonlStore(store_root, encoding=encoding) as store,
        StoredSession.create(store, Session(header)) as stored,
        (bench.folder / f"{session_id}.floor").open("wb", buffering=0) as floor,
    ):
        for number, batch in enumerate(itertools.islice(_batches(), batches + 1)):
            events = _events(batch, len(stored.session.events))
            text = encode_lines(events)
            data = text if frames is None else frames.frame(text)
            measured: dict[str, float] = {}

            def write(data: bytes = data, measured: dict[str, float] = measured) -> None:
                start = time.perf_counter()
                floor.write(data)
                fsync(floor.fileno())
                measured["floor"] = time.perf_counter() - start

            def append(batch: Sequence[dict[str, Any]] = batch, measured: dict[str, float] = measured) -> None:
                start = time.perf_counter()
                for event in batch:
                    stored.append(event["type"], event["data"], time_ms=event["time"])
                logged = time.perf_counter()
                stored.flush()
                end = time.perf_counter()
                measured["store"], measured["all"] = end - logged, end - start

            ways: list[Callable[[], None]] = [write, append] if number % 2 else [append, write]
            for way in ways:
                way()
            if number:  # the first batch also makes the file
                for name, value in measured.items():
                    seconds[name].append(value * 1e3)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    what = f"{BATCH_EVENTS} events, {encoding}"
    floor_ms = medians["floor"]
    bench.report(f"append {what}", medians["store"], unit="ms", floor=floor_ms, limit=1.3)
    bench.report(f"log and append {what}", medians["all"], unit="ms", floor=floor_ms)


def _batches() -> Iterator[list[dict[str, Any]]]:
    """Batches of events as they come in while a model speaks."""
    for number in itertools.count():
        now = 1_793_600_000_000 + number * 1_000
        place = {"turn": 1, "step": 1}
        texts = [f" word{each}" for each in range(BATCH_EVENTS - 1)]
        chunks: list[dict[str, Any]] = [{"type": "text-delta", "index": 0, "text": text} for text in texts]
        chunks.append({"type": "block-start", "index": 0, "blockType": "text"})
        yield [
            {"type": "assistant/chunk", "time": now + 20 * each, "data": {**place, "chunk": chunk}}
            for each, chunk in enumerate(chunks)
        ]


def _events(batch: Sequence[dict[str, Any]], seq: int) -> list[Event]:
    return [Event(each["type"], number, each["time"], each["data"]) for number, each in enumerate(batch, seq)]


def _opened(path: Path) -> Any:
    if path.suffix != ".zstd":
        return path.open("rb")
    return importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd").open(path)
