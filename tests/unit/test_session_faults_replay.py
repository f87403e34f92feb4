"""Replay under strain: siblings that start at once, calls that are aborted or never read, and a server that is sent garbage,
half requests and clients that leave, while agents go on."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cassette_lab.contracts import AbortController, ModelRequest
from cassette_lab.errors import AbortError, MismatchError
from cassette_lab.session.binding import BindingStrategy
from cassette_lab.session.replay_model import ReplayModel
from tests.unit.replay_samples import script
from tests.unit.server_client import CHAT, LIMIT_S, Client, serving

AGENTS, CALLS = 8, 4


def recorded(binding: BindingStrategy, **options: Any) -> ReplayModel:
    """A model of several sessions; agent 3's second call says ``3.1``."""
    scripts = [
        script(str(agent), *(f"{agent}.{call}" for call in range(CALLS)), first=(f"task {agent}",)) for agent in range(AGENTS)
    ]
    return ReplayModel(scripts, binding=binding, **options)


def request(agent: int, signal: AbortController | None = None) -> ModelRequest:
    message = {"role": "user", "content": [{"type": "text", "text": f"task {agent}"}]}
    return ModelRequest([message], session_id=f"live {agent}", signal=None if signal is None else signal.signal)


async def say(model: ReplayModel, agent: int, signal: AbortController | None = None) -> str:
    texts = [str(chunk["text"]) async for chunk in model.stream(request(agent, signal)) if chunk["type"] == "text-delta"]
    return "".join(texts)


def test_siblings_that_start_at_once_have_their_own_scripts_by_content_in_any_order() -> None:
    async def live(model: ReplayModel, agent: int) -> list[str]:
        return [await say(model, agent) for _ in range(CALLS)]

    async def use() -> None:
        for seed in range(5):
            order = random.Random(seed).sample(range(AGENTS), AGENTS)  # noqa: S311 - the same every time
            model = recorded("content", pace_ms=1)
            told = await asyncio.gather(*(live(model, agent) for agent in order))
            assert told == [[f"{agent}.{call}" for call in range(CALLS)] for agent in order]
            model.assert_consumed()

    asyncio.run(use())


def test_by_first_call_the_order_of_calls_counts_not_that_of_reading() -> None:
    async def use() -> None:
        model = recorded("first-call")
        streams = [model.stream(request(agent)) for agent in (5, 2, 7)]
        told = [[chunk async for chunk in stream if chunk["type"] == "text-delta"] for stream in reversed(streams)]
        assert [chunks[0]["text"] for chunks in told] == ["2.0", "1.0", "0.0"]

    asyncio.run(use())


def test_an_abort_in_one_stream_disturbs_no_sibling_and_its_call_is_spent() -> None:
    async def use() -> None:
        model, aborted = recorded("content", pace_ms=5), AbortController()
        siblings = [asyncio.ensure_future(say(model, agent, aborted if agent == 3 else None)) for agent in range(AGENTS)]
        await asyncio.sleep(0.008)
        aborted.abort("enough")
        told = await asyncio.gather(*siblings, return_exceptions=True)
        assert [each for agent, each in enumerate(told) if agent != 3] == [
            f"{agent}.0" for agent in range(AGENTS) if agent != 3
        ]
        assert isinstance(told[3], AbortError)
        assert await say(model, 3) == "3.1"
        model.stream(request(3))  # made and never read
        assert await say(model, 3) == "3.3"
        with pytest.raises(MismatchError, match="makes model call 5, but only 4"):
            await say(model, 3)
        with pytest.raises(MismatchError, match="the recording was not used up") as caught:
            model.assert_consumed()
        partial = caught.value.diagnostic["partial"]
        assert [(each["recordedId"], each["calls"]) for each in partial] == [(str(n), 1) for n in range(AGENTS) if n != 3]

    asyncio.run(use())


GARBAGE = [
    b"GET / HTTP/9.9\r\n\r\n",
    b"\x16\x03\x01\x00\xff",
    f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
    f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{{".encode(),
    f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n".encode(),
    f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{{}}".encode(),
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /%00%ff/../x HTTP/1.1\r\nHost: localhost\r\nX: \xff\xfe\r\n\r\n",
]
BODIES = [
    b"",
    b"{",
    b"null",
    b'{"messages":{}}',
    b'{"messages":[{}],"stream":5,"stream_options":[],"model":{},"tools":[5]}',
    b'{"messages":[{"role":["user"],"content":{"type":[1]}}]}',
    b'{"messages":[{"role":"user","content":"a"}],"n":NaN}',
    b'{"messages":[{"role":"user","content":"\\ud800"}],"user":"\\ud800\\u0000"}',
    b'{"messages":[{"role":"user","content":' + b"[" * 5_000 + b"]" * 5_000 + b"}]}",
]


def disturb(client: Client, stop: threading.Event) -> list[int]:
    """Send everything that is none until told to stop; the statuses of the answers."""
    statuses, turns = [], 0
    while not stop.is_set():
        turns += 1
        statuses.append(client.ask("POST", CHAT, BODIES[turns % len(BODIES)]).status)
        with socket.create_connection(("127.0.0.1", client.port), timeout=LIMIT_S) as connection:
            connection.sendall(GARBAGE[turns % len(GARBAGE)])
            if turns % 2:  # away at once, else politely
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return statuses


def test_a_server_that_is_sent_garbage_goes_on_answering_its_agents() -> None:
    model = recorded("content", pace_ms=1)

    def live(agent: int) -> list[str]:
        def ask(call: int) -> str:
            reply = client.chat(f"task {agent}", session=f"live {agent}", stream=call % 2 == 0)
            said: str = reply.said if call % 2 == 0 else reply.json["choices"][0]["message"]["content"]
            return said

        return [ask(call) for call in range(CALLS)]

    stop = threading.Event()
    with serving(model) as client, ThreadPoolExecutor(AGENTS + 2) as pool:
        noise = [pool.submit(disturb, client, stop) for _ in range(2)]
        try:
            told = list(pool.map(live, range(AGENTS)))
        finally:
            stop.set()
        statuses = {status for each in noise for status in each.result()}
        again = [client.chat(f"task {agent}", session=f"live {agent}").error[:2] for agent in range(AGENTS)]
    assert told == [[f"{agent}.{call}" for call in range(CALLS)] for agent in range(AGENTS)]
    assert statuses <= {400, 409}
    assert set(again) == {(409, "script-exhausted")}
