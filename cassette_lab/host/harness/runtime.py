"""``Harness``: prompts for the real DeepSeek Harness runtime, from Python that awaits.

The SDK is synchronous; its calls run in threads, and what the runtime tells arrives on the loop. One runtime serves all
prompts of a ``Harness``; it starts with the first one. It writes into its home, and ends with everything it started.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from cassette_lab.errors import CassetteLabError, ClosedError, ConfigError
from cassette_lab.host.harness.activity import Activity
from cassette_lab.host.harness.channel import Channel, Handler
from cassette_lab.host.harness.options import harness_options, with_option_names
from cassette_lab.host.harness.process import end_groups, family_of, import_sdk, launch_arguments, write_patch
from cassette_lab.jsonio import JsonObject
from cassette_lab.jsonio.text import show


class HarnessError(CassetteLabError):
    """The runtime did not start, or did not last."""

    code = "HARNESS"


@dataclass(frozen=True, slots=True)
class HarnessRun:
    """How a prompt ended: the session it went to, the last answer's text, and the kind of end of the last turn
    (``completed``, ``error``, ``aborted``, ``max-tokens``, …). ``children`` are the sessions of its subagents. Of an error
    there are its code (``AUTH``, ``RATE_LIMIT``, …) and the HTTP status, where there was one."""  # noqa: D205, D209

    session_id: str
    text: str
    end_kind: str | None
    children: tuple[str, ...] = ()
    error_code: str | None = None
    error_status: int | None = None


class Harness:
    """Runs prompts in the real runtime. ``async with`` closes it at the end; so does a cancelled ``run``.

    ``home`` is the runtime's own folder, with ``sessions`` in it; without one it is a temporary folder that goes with the
    runtime. Options are those of ``HarnessOptions``. ``plugin`` gets what our plugin tells (see ``trace``); what it returns
    answers the call, if ``replay`` is set.

    Raises ``ConfigError`` for options that cannot be and where the extra ``harness`` is missing, ``ModelFailure`` where there
    is no key, ``HarnessError`` for a runtime that ends by itself. A start takes one to three seconds.
    """

    @with_option_names
    def __init__(
        self, home: str | Path | None = None, *, plugin: Handler | None = None, replay: bool = False, **options: Any
    ) -> None:
        self.options = harness_options(options)
        self._given_home = None if home is None else Path(home).resolve()
        self._plugin = plugin
        self._replay = replay
        self._home: Path | None = self._given_home
        self._scratch: Path | None = None
        self._client: Any = None
        self._process: Any = None
        self._channel: Channel | None = None
        self._pump: threading.Thread | None = None
        self._activity = Activity()
        self._seen: set[str] = set()
        self._live: set[str] = set()
        self._starting = asyncio.Lock()
        self._ending = threading.Lock()
        self._closed = self._is_starting = False

    def __repr__(self) -> str:
        started = "running" if self._client is not None else "not started"
        state = "closed" if self._closed else "starting" if self.is_starting else started
        return f"<harness {self.options.model}, {state}>"

    @property
    def home(self) -> Path | None:
        """The runtime's folder; None before a temporary one is made."""
        return self._home

    @property
    def is_starting(self) -> bool:
        """Whether the runtime is being started."""
        return self._is_starting

    async def start(self) -> Self:
        """Start the runtime; ``run`` does so by itself. A start that fails, or is cancelled, closes the harness.

        Without a key there is no start, and the harness stays as it is.
        """
        self._check_key()
        async with self._starting:
            if self._closed:
                raise ClosedError("this harness is closed; make another one")
            if self._client is not None:
                return self
            self._is_starting = True
            try:
                await _to_thread(self._start, asyncio.get_running_loop())
            except BaseException:
                self._closed = True
                await _shielded(self._end_all(patience_s=0.0))
                raise
            finally:
                self._is_starting = False
        return self

    async def run(self, prompt: str | Sequence[JsonObject], *, session_id: str | None = None) -> HarnessRun:
        """Give a prompt to a session, and wait until it and all its subagents have nothing more to do.

        A session that is in the home goes on; without an id it is a new one (``session-1``, ``session-2``, …). Cancelled,
        it closes the runtime and ends all its processes.
        """
        self._check_key()
        if session_id is None:
            session_id = f"session-{len(self._seen) + 1}"
        self._seen.add(session_id)
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else list(prompt)
        try:
            await self.start()
            await _to_thread(self._resume, session_id)
            watch = self._activity.begin(session_id)
            watch.message_id = await _to_thread(self._client.session_prompt, session_id, blocks)
            await watch.settled()
        except asyncio.CancelledError:
            await _shielded(self._close(patience_s=0.0))
            raise
        except CassetteLabError:
            raise
        except Exception as error:  # noqa: BLE001 - the SDK has no common base of errors
            failure = HarnessError(f"the DeepSeek Harness runtime failed: {self._told(error)}")
            await self.close()
            raise failure from None
        children = tuple(self._activity.descendants(session_id))
        return HarnessRun(session_id, watch.text, watch.end_kind, children, watch.error_code, watch.error_status)

    async def close(self) -> None:
        """End the runtime, and what it started. Idempotent."""
        await _shielded(self._close(patience_s=2.0))

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _check_key(self) -> None:
        """Raise before a runtime starts that would ask in vain, again and again."""
        failure = None if self._closed or self._client is not None else self.options.key_failure()
        if failure is not None:
            raise failure

    # In threads

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        sdk = import_sdk()
        options = self.options
        atexit.register(self._left_open)
        home = self._home or Path(tempfile.mkdtemp(prefix="cassette-lab-harness-"))
        home.mkdir(parents=True, exist_ok=True)
        self._home = home
        self._scratch = Path(tempfile.mkdtemp(prefix="cassette-lab-tmp-")).resolve()
        cwd = working_folder(options.cwd)
        if not cwd.is_dir():
            raise ConfigError(f"the working directory of the harness is no folder: {show(str(cwd))}")
        patches = [Path(patch).resolve() for patch in options.patches]
        if self._plugin is not None:
            self._channel = Channel(self._plugin)
            places = [[str(cwd), "<cwd>"], [str(home), "<home>"], [str(self._scratch), "<tmp>"]]
            config = {"port": self._channel.port, "token": self._channel.token, "replay": self._replay, "places": places}
            patches.append(write_patch(home / "cassette-lab.patch.yml", config))
        scratch = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(self._scratch))  # what else it writes goes with it
        environment = {**scratch, **options.environment, "DSH_HOME": str(home)}
        if options.base_url is not None:
            environment["DEEPSEEK_BASE_URL"] = options.base_url
        arguments = launch_arguments(options.api_key_env, options.profile, patches)
        client = sdk.HarnessClient(
            sdk.HarnessConfig(dsh_home=str(home), cwd=str(cwd), env=environment, shutdown_timeout_seconds=2.0),
            _launch_args=arguments,
        )
        client.config.initialize_timeout_seconds = options.start_timeout_s
        try:
            client.start()
            self._client, self._process = client, client._proc  # noqa: SLF001 - it forgets it when it closes
            if self._closed:  # cancelled before there was a process to end
                raise ClosedError("the harness was closed while it started")  # noqa: TRY301 - it ends as any failure does
            client.initialize(
                cwd=str(cwd),
                provider=options.provider,
                model=options.model,
                reasoning_effort=options.reasoning_effort,
                max_tokens=options.max_tokens,
            )
        except Exception as error:  # noqa: BLE001 - as in run
            told = self._told(error)
            self._end(patience_s=0.0)
            if self._closed:
                self._remove_own_folders()
            raise HarnessError(f"the DeepSeek Harness runtime did not start: {told}") from None
        self._pump = threading.Thread(target=self._listen, args=(client, loop), name="cassette_lab harness", daemon=True)
        self._pump.start()

    def _listen(self, client: Any, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            try:
                notification = client.next_notification()
            except Exception as error:  # noqa: BLE001 - whatever ends the connection ends what waits for it
                told = self._told(error)
                _on_loop(loop, self._activity.end, HarnessError(f"the DeepSeek Harness runtime ended: {told}"))
                return
            _on_loop(loop, self._activity.hear, notification.method, notification.payload)

    def _resume(self, session_id: str) -> None:
        """A session of the home that this runtime has not met has to be read first."""
        if session_id in self._live or self._home is None:
            return
        self._live.add(session_id)
        if any(self._home.glob(f"sessions/*/{session_id}/session*")):
            self._client.resume_session(session_id)

    def _end(self, *, patience_s: float) -> None:
        with self._ending:
            client, self._client = self._client, None
            process, self._process = self._process, None
        if client is not None:
            groups = set() if process is None else family_of(process.pid)
            if not patience_s:
                end_groups(groups)
            client.close()
            end_groups(groups)
            for stream in (getattr(process, name, None) for name in ("stdin", "stdout", "stderr")):
                if stream is not None:
                    stream.close()
        if self._pump is not None:
            self._pump.join()
        if self._channel is not None:
            self._channel.drain()
            self._channel.close()

    async def _close(self, *, patience_s: float) -> None:
        async with self._starting:
            if self._closed:
                return
            self._closed = True
            self._activity.end(ClosedError("the harness was closed while it worked"))
            await self._end_all(patience_s=patience_s)

    async def _end_all(self, *, patience_s: float) -> None:
        await _to_thread(lambda: self._end(patience_s=patience_s))
        atexit.unregister(self._left_open)
        await _to_thread(self._remove_own_folders)

    def _left_open(self) -> None:
        """Python ends, and nobody has closed this harness."""
        if self._process is not None:
            end_groups(family_of(self._process.pid))
        self._remove_own_folders()

    def _remove_own_folders(self) -> None:
        for folder in (self._scratch, self._home if self._given_home is None else None):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)

    def _told(self, error: BaseException) -> str:
        """What the SDK says, which may end with the runtime's own words, so that the key is taken out."""
        text = str(error) or type(error).__name__
        key = os.environ.get(self.options.api_key_env or "", "")
        return show(telling_part(text.replace(key, "…") if key else text))


def telling_part(text: str) -> str:
    """What an error of the SDK says in one line: of the runtime's own words behind it the one that names an error."""
    head, _, tail = text.partition(_TAIL)
    said = "; ".join(line.strip() for line in head.splitlines() if line.strip())
    own = [line.strip() for line in tail.splitlines() if line.strip() and not _FRAME.match(line)]
    named = next((line for line in own if _NAMES_ERROR.search(line)), own[-1] if own else "")
    told = named if said and said in named else ": ".join(filter(None, (said, named)))
    return told if len(told) <= _LONGEST_TOLD else f"{told[: _LONGEST_TOLD - 1]}…"


_TAIL: Final = "stderr tail:"
_FRAME: Final = re.compile(r"\s*at\s")
_NAMES_ERROR: Final = re.compile(r"error\b", re.IGNORECASE)
_LONGEST_TOLD: Final = 400


def working_folder(cwd: str | Path | None) -> Path:
    """Where the tools of a harness work: ``cwd``, else where this process is."""
    return Path(cwd or Path.cwd()).resolve()


async def _to_thread(work: Any, *arguments: Any) -> Any:
    """Run in a thread of its own, since the pool's threads may be taken by others who wait for us."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(value)
        else:
            done.set_exception(error)

    def run() -> None:
        try:
            value, error = work(*arguments), None
        except BaseException as raised:  # noqa: BLE001 - it goes to whoever waits
            value, error = None, raised
        _on_loop(loop, settle, value, error)

    threading.Thread(target=run, name="cassette_lab harness call", daemon=True).start()
    return await done


def _on_loop(loop: asyncio.AbstractEventLoop, function: Any, *arguments: Any) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, *arguments)


async def _shielded(work: Any) -> None:
    """Finish this, even if cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
