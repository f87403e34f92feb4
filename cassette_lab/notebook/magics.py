"""``%cassette`` and ``%%cassette``: what each verb does. ``options`` knows the words, ``block`` runs a cell's body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from types import EllipsisType
from typing import Any, Final

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, needs_local_scope, no_var_expand

from cassette_lab.errors import CassetteLabError, ConfigError
from cassette_lab.host.active import ActiveCassette
from cassette_lab.host.current import current_cassette
from cassette_lab.host.harness.current import current_harness
from cassette_lab.notebook import reports
from cassette_lab.notebook.binding import CellBinding
from cassette_lab.notebook.block import Block, closed, finish_now
from cassette_lab.notebook.cassette_cell import CassetteBlock, CassetteTaping, opened
from cassette_lab.notebook.display import QuietLine, publish, sentence, short_path
from cassette_lab.notebook.lines import MARKS
from cassette_lab.notebook.options import TIME, Command, UsageError, help_asked, help_text, parse
from cassette_lab.notebook.transform import BODY_VERBS, NAME, awaits, loop_is_running


@magics_class
class CassetteMagics(Magics):
    """The magics of one shell, and the cassette that its line forms hold open."""

    shell: InteractiveShell

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self.line_cassette: ActiveCassette | None = None
        self.binding = CellBinding()
        self._last: ActiveCassette | None = None

    @needs_local_scope
    @no_var_expand
    @line_cell_magic
    def cassette(self, line: str, cell: str | EllipsisType | None = None, local_ns: Mapping[str, Any] | None = None) -> Any:
        """Replaced by the help of the option table, below."""
        asked = help_asked(line)
        if asked is not None:
            print(asked)  # noqa: T201 - an answer for a person
            return None
        command = parse(line, {**self.shell.user_ns, **(local_ns or {})})
        if command.verb in BODY_VERBS:
            self._refuse_a_second()
        if cell is ...:
            if command.given.get("harness"):
                from cassette_lab.notebook.harness_cell import opened_harness

                return Block(command, self.shell, lambda: opened_harness(command))
            return CassetteBlock(command, self.shell, self._opened)
        if cell is None:
            return self._line_form(command)
        if command.verb in BODY_VERBS:
            return self._run_text(line, str(cell))
        raise UsageError(f"%%{NAME} {command.verb} takes no body; write %{NAME} {command.verb} on a line of its own")

    cassette.__doc__ = help_text()

    def _refuse_a_second(self) -> None:
        taped = current_harness()
        if taped is not None:
            raise ConfigError(
                f"the {taped.mode} of the harness in {short_path(taped.path)} is active, and there is one at a time; {_ENDS}"
            )
        active = current_cassette()
        if active is not None:
            ends = f"%{NAME} stop ends it" if active is self.line_cassette else _ENDS
            raise ConfigError(f"the {active.mode} of {short_path(active.path)} is active, and there is one at a time; {ends}")

    def _line_form(self, command: Command) -> Any:
        if command.timed:
            raise UsageError(f"{TIME.flag} is for a cell: %%{NAME} {command.verb}")
        if command.given.get("harness"):
            raise UsageError(f"--harness is for a cell: %%{NAME} {command.verb} {command.files[0]} --harness")
        if command.verb in BODY_VERBS:
            return self._begin(command)
        if command.verb == "stop":
            return self._stop(command)
        taped = current_harness()
        if command.verb == "status" and taped is not None:
            from cassette_lab.notebook.harness_cell import live_harness_line

            return live_harness_line(taped)
        if command.verb == "status":
            return reports.status(current_cassette(), self._last)
        return _READING[command.verb](command)

    def _opened(self, cassette: ActiveCassette) -> None:
        self._last = cassette

    def _begin(self, command: Command) -> None:
        cassette = opened(command)
        self._opened(cassette)
        self.line_cassette = cassette
        self.binding.keep_to(cassette)
        mark, colour = MARKS[cassette.mode]
        doing = {"record": "recording", "replay": "replaying"}[cassette.mode]
        line = QuietLine(mark, [f"{doing} until %{NAME} stop"], short_path(cassette.path), colour=colour, muted=True)
        publish(line.bundle())

    def _stop(self, command: Command) -> Ending | None:
        cassette = self.line_cassette
        if cassette is None or cassette.closed:
            for open_one in (current_cassette(), current_harness()):
                if open_one is not None:
                    place = short_path(open_one.path)
                    raise UsageError(f"the {open_one.mode} of {place} was not begun by a line: {_ENDS}")
            raise UsageError(f"there is nothing to stop; %{NAME} record FILE begins a recording")
        cassette.release()
        ending = self._end(cassette, command.given.get("max_wait_s"))
        if loop_is_running():
            return Ending(asyncio.create_task(ending))
        finish_now(ending)
        return None

    async def _end(self, cassette: ActiveCassette, max_wait_s: float | None) -> None:
        timer = None if max_wait_s is None else asyncio.get_running_loop().call_later(max_wait_s, cassette.interrupt)
        try:
            await closed(CassetteTaping(cassette), None, self.shell)
        finally:
            self.line_cassette = None
            if timer is not None:
                timer.cancel()

    def _run_text(self, line: str, cell: str) -> None:
        """A body that came as text, through ``run_cell_magic``: run as a cell of its own, which cannot wait for this one."""
        if loop_is_running() and awaits(self.shell.transform_cell(cell)):
            raise UsageError(
                f"a body that awaits cannot be run through run_cell_magic here; write %%{NAME} on the first line of a cell"
            )
        ran = self.shell.run_cell(f"%%{NAME} {line}\n{cell}")
        if not ran.success:
            raise UsageError(f"the cell under %%{NAME} {line} has failed, as shown above")


class Ending:
    """The end of a line form, under way. Await it to wait; its failure is shown when nobody does."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task
        self._awaited = False
        task.add_done_callback(self._done)

    def __await__(self) -> Generator[Any, None, None]:
        self._awaited = True
        return asyncio.shield(self._task).__await__()

    def _ipython_display_(self) -> None:
        """Nothing to show: the task shows its line."""

    def _done(self, task: asyncio.Task[None]) -> None:
        failure = None if task.cancelled() else task.exception()
        if failure is not None and not self._awaited:
            text = sentence(failure) if isinstance(failure, CassetteLabError) else str(failure)
            publish(QuietLine("✕", [text]).bundle())


_ENDS: Final = "it ends with its block"
_READING: Final[dict[str, Callable[[Command], Any]]] = {
    "verify": reports.verify,
    "inspect": reports.inspect,
    "diff": reports.diff,
    "load": reports.load,
    "rescue": reports.rescue,
}
