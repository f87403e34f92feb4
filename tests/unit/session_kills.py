"""A program that has writers of one session killed again and again, and looks at what they left.

``python -m tests.unit.session_kills STORE FOLDER ROUNDS SEED`` ends with 0 and prints what happened, as JSON. Each writer is a
process of its own that goes on with the session, with batches of all sizes, until it is killed at any moment. Files also get
the torn start of a batch, which a kill alone hardly ever leaves, and somebody follows them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

from cassette_lab.errors import MissingFileError
from cassette_lab.session.follow import Follower, follow
from cassette_lab.session.frames import compress_frame
from cassette_lab.session.model import SessionLog
from cassette_lab.session.opening import open_session
from cassette_lab.session.packing import encode_json
from cassette_lab.session.persistence import StoredSession
from tests.unit.session_stores import delta, new_session, open_store

LONGEST_S: Final = 0.02
DICE: Final = random.Random()  # noqa: S311 - no secret
COUNT: Final = struct.Struct("<q")


def text(seq: int) -> str:
    """What an event says depends on its place, so that it can be checked."""
    return f"{seq}:" + "x\u00e9\ud800"[seq % 3] * (seq * 7_919 % (3_000 if seq % 10 == 0 else 30))


def write_until_killed(kind: str, folder: Path, told: int) -> None:
    """Go on with the session; after each flush tell how many events there are."""
    store = open_store(kind, folder)
    try:
        keeper = StoredSession.resume(store, "root")
    except MissingFileError:
        keeper = StoredSession.create(store, new_session("root"))
    keeper.append("turn/start", {"turn": 1})
    while True:
        for _ in range(DICE.randrange(1, 60)):
            seq = len(keeper.session.events)
            if DICE.random() < 0.9:
                keeper.append("assistant/chunk", delta(text(seq)))
            else:
                keeper.append("todo/write", {"text": text(seq)})
        keeper.flush()
        os.write(told, COUNT.pack(len(keeper.session.events)))


def killed_writer(kind: str, folder: Path, *, early: bool) -> list[int]:
    """What a writer told until it was killed: at any moment, or (not ``early``) after its first flush."""
    reading, writing = os.pipe()
    seed = DICE.random()
    child = os.fork()
    if not child:
        try:
            DICE.seed(seed)
            write_until_killed(kind, folder, writing)
        finally:
            os._exit(1)
    os.close(writing)
    data = b"" if early else os.read(reading, COUNT.size)
    time.sleep(DICE.random() * LONGEST_S)
    os.kill(child, signal.SIGKILL)
    while block := os.read(reading, 1 << 16):
        data += block
    os.close(reading)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "the writer failed by itself"
    return [count for (count,) in COUNT.iter_unpack(data)]


def check(log: SessionLog, flushed: int) -> None:
    """Everything that was flushed is there, and as it was logged."""
    assert log.event_count >= flushed, f"{flushed} events were flushed, {log.event_count} are there"
    for event in log.events():
        said = {"assistant/chunk": delta(text(event.seq)), "todo/write": {"text": text(event.seq)}}.get(event.type)
        assert said is None or event.data == said, f"event {event.seq} says something else"


def tear(path: Path, seq: int) -> None:
    """Put the start of a batch behind the log, as a loss of power leaves it."""
    rows = [{"type": "todo/write", "seq": each, "time": 1, "data": {"text": text(each)}} for each in range(seq, seq + 20)]
    lines = b"".join(encode_json(row) + b"\n" for row in rows)
    batch = compress_frame(lines) if path.suffix == ".zstd" else lines
    with path.open("ab") as file:
        file.write(batch[: DICE.randrange(1, len(batch) + 1)])


def main(kind: str, folder: Path, rounds: int) -> Counter[str]:
    happened: Counter[str] = Counter()
    follower: Follower | None = None
    flushed = 0
    for number in range(rounds):
        counts = killed_writer(kind, folder, early=number % 2 == 0)
        flushed = counts[-1] if counts else flushed
        happened["flushes"] += len(counts)
        found = sorted(folder.rglob("session.jsonl*" if kind != "sqlite" else "sessions.db"))
        paths = [path for path in found if not path.name.startswith(".")]
        if not flushed and not paths:
            continue
        try:
            log = open_store(kind, folder).load("root")
        except MissingFileError:
            assert not flushed
            continue
        check(log, flushed)
        assert {problem.code for problem in log.problems} <= {"TORN_TAIL"}
        assert open_session(paths[0], "root").event_count == log.event_count
        follower = follower or follow(paths[0])
        follower.read()
        if kind == "sqlite":
            assert list(follower.log().events()) == list(log.events())
        elif log.torn_bytes:
            happened["torn for longer"] += 1
        else:
            assert list(follower.log().events()) == list(log.events())
            tear(paths[0], log.event_count)
            happened["torn"] += 1
            if DICE.random() < 0.7:
                follower.read()
    with open_store(kind, folder) as store:
        resumed = store.resume("root")
        resumed.writer.close()
        log = store.load("root")
        check(log, flushed)
        assert (log.problems, log.torn_bytes) == ([], 0)
        happened["events"] = log.event_count
    left = [path.name for path in folder.rglob("*.tmp")]
    assert not left, left
    return happened


if __name__ == "__main__":
    DICE.seed(int(sys.argv[4]))
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))))
