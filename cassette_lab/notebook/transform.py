"""``%%cassette record FILE`` over a cell that may ``await``: the cell stays an ordinary cell.

A cell magic gets its body as text and runs synchronously, inside an event loop that is already running: a body with a
top-level ``await`` cannot run there. So the body never becomes text. Two pure steps instead:

1. ``CellStep`` (an input transformer) replaces the magic's line by a marker, one call on the same line, so that every
   other line keeps its number and IPython still sees an ordinary cell: ``!cmd``, ``%magic``, ``?`` and ``await`` work.
2. ``BodyStep`` (an AST transformer) puts the statements after the marker into ``with <marker's call>:``, or
   ``async with`` where something awaits, and shows the last expression as IPython would have.

The marker is ``get_ipython().run_cell_magic('cassette', '<line>', ...)``: the magic itself, told by ``...`` that the
body follows. No name of ours enters the user's namespace.
"""

from __future__ import annotations

import ast
import asyncio
import itertools
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

from IPython.core.inputtransformer2 import cell_magic
from IPython.core.interactiveshell import InteractiveShell

from cassette_lab.notebook.options import help_asked

NAME = "cassette"
BODY_VERBS = ("record", "replay")
TIMED = "--time"

_HEAD = re.compile(rf"%%{NAME}(?:[ \t]+(?P<line>.*?))?[ \t]*\Z")
_TIME = re.compile(r"%%time[ \t]*\Z")
_STOP = re.compile(rf"%{NAME}[ \t]+stop\b")


class Habits(Protocol):
    """What the steps ask of a shell."""

    @property
    def autoawait(self) -> bool:
        """Whether cells may await at the top level."""
        ...

    @property
    def ast_node_interactivity(self) -> str:
        """Which expressions of a cell are displayed: ``last_expr``, ``all`` and so on."""
        ...


class CellStep:
    """The input transformer: lines of a cell in, lines with the marker out.

    Left alone are cells that IPython itself must see as they are: help (``%%cassette?``, ``--help``: the magic prints it,
    and nothing else is run), an empty body (IPython says so), verbs that take no body (the magic says so).
    """

    # While somebody still types, IPython must see the magic, so that Enter starts a new line of the body.
    has_side_effects = True

    def __init__(self, shell: Habits) -> None:
        self.shell = shell

    def __call__(self, lines: list[str]) -> list[str]:
        """The cell with its magic line replaced, or as it was."""
        head = _find_head(lines)
        if head is None:
            return lines
        body = lines[head.body :]
        takes_body = head.line.split(None, 1)[:1] in [[verb] for verb in BODY_VERBS] and help_asked(head.line) is None
        if not takes_body or not "".join(body).strip():
            return lines[head.at :]
        call = f"get_ipython().run_cell_magic({NAME!r}, {head.line!r}, ...)"
        if self.shell.autoawait and loop_is_running() and not inside_a_cell():
            # The loop that will run this cell is running: the cell can wait for the calls it has started.
            call = f"await {call}"
        body = _inner_magic(body)
        before = ["\n" if line.startswith("%%") else line for line in lines[: head.body]]
        place = _end_of_future_imports(body)
        if place is None:
            before[head.at] = f"{call}\n"
        else:
            row, column = place
            body[row] = f"{body[row][:column]}; {call}{body[row][column:]}"
        return before + body


class StopStep:
    """The input transformer that waits for the end: ``%cassette stop`` at the top level is awaited.

    Otherwise a line magic could only promise to end the recording after the cell.
    """

    def __init__(self, shell: Habits) -> None:
        self.shell = shell

    def __call__(self, lines: list[str]) -> list[str]:
        """The cell with its top-level ``%cassette stop`` lines awaited."""
        if not self.shell.autoawait or not any(_STOP.match(line) for line in lines):
            return lines
        if loop_is_running() and inside_a_cell():
            return lines
        if lines[0].startswith("%%"):  # another magic's text
            return lines
        starts = _statement_rows(lines)
        return [
            f"await get_ipython().run_line_magic({NAME!r}, {line.strip().partition(' ')[2].strip()!r})\n"
            if row in starts and _STOP.match(line) and not line.rstrip().endswith("?")
            else line
            for row, line in enumerate(lines)
        ]


class BodyStep(ast.NodeTransformer):
    """The AST transformer: what follows a marker goes into a ``with`` of the marker's call."""

    def __init__(self, shell: Habits) -> None:
        self.shell = shell

    def visit_Module(self, module: ast.Module) -> ast.Module:
        """The cell's module, with a block where a marker stood."""
        head = list(itertools.takewhile(_may_come_first, module.body))
        if len(head) == len(module.body):
            return module
        marker, body = module.body[len(head)], module.body[len(head) + 1 :]
        call = _marked_call(marker)
        if call is None:
            return module
        waits = isinstance(marker, ast.Expr) and isinstance(marker.value, ast.Await)
        kind = ast.AsyncWith if waits or awaits(ast.Module(body, [])) else ast.With
        block = kind(items=[ast.withitem(context_expr=call)], body=self._shown(body) or [ast.Pass()])
        module.body = [*head, ast.copy_location(block, marker)]
        return ast.fix_missing_locations(module)

    def _shown(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The body with those expressions displayed that the shell's ``ast_node_interactivity`` asks for."""
        habit = self.shell.ast_node_interactivity
        if habit == "none" or not body:
            return body
        if habit == "all":
            return [_display(one) for one in body]
        last = body[-1]
        if habit == "last_expr_or_assign":
            target = _assigned_name(last)
            if target is not None:
                return [*body, _display(ast.copy_location(ast.Expr(ast.Name(target, ast.Load())), last))]
        return [*body[:-1], _display(last)]


def loop_is_running() -> bool:
    """Whether an event loop runs in this thread (in a kernel: always; in a terminal: only while a cell awaits)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def inside_a_cell() -> bool:
    """Whether the shell runs a cell further up this stack, synchronously: then the new one cannot use the loop."""
    running = (InteractiveShell.run_cell.__code__, InteractiveShell.run_code.__code__)
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to walk the stack
    while frame is not None:
        if frame.f_code in running:
            return True
        frame = frame.f_back
    return False


def awaits(source: str | ast.Module) -> bool:
    """Whether code awaits at the top level (compiled as IPython does; a mistake in it is IPython's to show)."""
    try:
        code = compile(source, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return bool(code.co_flags & 0x80)  # inspect.CO_COROUTINE


@dataclass(frozen=True, slots=True)
class _Head:
    """Where the magic stands (``at``), where the body begins (``body``), and the magic's arguments."""

    at: int
    body: int
    line: str


def _find_head(lines: list[str]) -> _Head | None:
    """The magic among the first lines: comments, blank lines and one ``%%time`` may stand above it or below it."""
    rows = iter(_meaningful_rows(lines))
    row = next(rows, None)
    timed = row is not None and _TIME.match(lines[row].rstrip("\r\n")) is not None
    if timed:
        row = next(rows, None)
    found = None if row is None else _HEAD.match(lines[row].rstrip("\r\n"))
    if row is None or found is None:
        return None
    body, line = row + 1, found["line"] or ""
    below = next(rows, None)
    if not timed and below is not None and _TIME.match(lines[below].rstrip("\r\n")):
        timed, body = True, below + 1
    if line.endswith("?"):
        return None
    return _Head(row, body, f"{line} {TIMED}" if timed else line)


def _meaningful_rows(lines: list[str]) -> Iterator[int]:
    for row, line in enumerate(lines):
        text = line.strip()
        if text and not text.startswith("#"):
            yield row


def _inner_magic(body: list[str]) -> list[str]:
    """A body that is itself another cell magic (``%%capture`` on the next line), as IPython writes it."""
    row = next(_meaningful_rows(body), None)
    if row is None or not body[row].startswith("%%"):
        return list(body)
    return ["\n"] * row + list(cell_magic(body[row:]))


def _end_of_future_imports(body: list[str]) -> tuple[int, int] | None:
    """Row and column just behind the leading ``from __future__`` imports; None without any.

    Nothing but a docstring may stand before them, so the marker has to come after.
    """
    place: tuple[int, int] | None = None
    statement: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(iter(body).__next__):
            if token.type in (tokenize.COMMENT, tokenize.NL, tokenize.ENCODING):
                continue
            if token.type != tokenize.NEWLINE and token.string != ";":
                statement.append(token)
                continue
            words = [one.string for one in statement[:3]]
            if words == ["from", "__future__", "import"]:
                row, column = statement[-1].end
                place = (row - 1, column)
            elif statement and (place is not None or any(one.type != tokenize.STRING for one in statement)):
                break
            statement = []
    except (tokenize.TokenError, SyntaxError):
        # What follows the imports need not be Python: it may be `!cmd` or `%magic`.
        pass
    return place


def _statement_rows(lines: list[str]) -> set[int]:
    """Rows on which a statement begins: not those inside a string or a bracket."""
    rows, fresh, depth = {0}, False, 0
    try:
        for token in tokenize.generate_tokens(iter(lines).__next__):
            if fresh and token.type not in (tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.NL):
                rows.add(token.start[0] - 1)
                fresh = False
            if token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
            if token.type == tokenize.NEWLINE or (token.type == tokenize.NL and depth <= 0):
                fresh = True
    except (tokenize.TokenError, SyntaxError):
        # IPython's syntax (or a mistake) stops the tokens here; what was found before it stands.
        pass
    return rows


def _marked_call(statement: ast.stmt) -> ast.Call | None:
    """The marker's call, if ``statement`` is a marker."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    call = value.value if isinstance(value, ast.Await) else value
    if (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "run_cell_magic"
        and len(call.args) == 3
        and all(isinstance(argument, ast.Constant) for argument in call.args)
        and [argument.value for argument in call.args if isinstance(argument, ast.Constant)][::2] == [NAME, ...]
    ):
        return call
    return None


def _may_come_first(statement: ast.stmt) -> bool:
    """Whether this may stand before the marker: a docstring, a ``from __future__`` import."""
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _display(statement: ast.stmt) -> ast.stmt:
    """An expression statement whose value goes to the shell's display hook; anything else as it is."""
    if not isinstance(statement, ast.Expr):
        return statement
    shell = ast.Call(ast.Name("get_ipython", ast.Load()), [], [])
    shown = ast.Expr(ast.Call(ast.Attribute(shell, "displayhook", ast.Load()), [statement.value], []))
    return ast.copy_location(shown, statement)


def _assigned_name(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target: ast.expr = statement.targets[0]
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
        target = statement.target
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None
