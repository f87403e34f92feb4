"""The two steps that let a cell under ``%%cassette`` stay an ordinary cell."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from cassette_lab.notebook.transform import BodyStep, CellStep, StopStep


@dataclass
class Habits:
    autoawait: bool = True
    ast_node_interactivity: str = "last_expr"


MARK = "get_ipython().run_cell_magic('cassette', {!r}, ...)"


def transformed(cell: str, habits: Habits | None = None) -> str:
    manager = TransformerManager()
    habits = habits or Habits()
    manager.cleanup_transforms += [CellStep(habits), StopStep(habits)]
    return manager.transform_cell(cell)


def in_a_loop(cell: str, habits: Habits | None = None) -> str:
    async def run() -> str:
        return transformed(cell, habits)

    return asyncio.run(run())


def module(cell: str, habits: Habits | None = None) -> ast.Module:
    return BodyStep(habits or Habits()).visit_Module(ast.parse(transformed(cell, habits)))


def test_the_magic_line_becomes_the_marker_and_every_other_line_stays() -> None:
    cell = "%%cassette record a.jsonl\nx = 1\n'''\n%%cassette\n'''\ny = await f()\n"
    assert transformed(cell).splitlines() == [MARK.format("record a.jsonl"), *cell.splitlines()[1:]]


@pytest.mark.parametrize(
    ("above", "row"), [("\n\n", 0), ("   \n", 0), ("# a remark\n", 1), ("# a remark\n\n# another\n", 3), ("\n# x\n", 1)]
)
def test_comments_and_blank_lines_may_stand_above(above: str, row: int) -> None:
    # IPython itself drops blank lines at the very top.
    lines = transformed(f"{above}%%cassette replay b.jsonl --speed 2\nraise ValueError\n").splitlines()
    assert lines[row:] == [MARK.format("replay b.jsonl --speed 2"), "raise ValueError"]
    assert lines[:row] == above.lstrip().splitlines()


@pytest.mark.parametrize(
    "cell",
    ["%%time\n%%cassette record a\nf()\n", "%%cassette record a\n%%time\nf()\n", "%%cassette record a\n# x\n%%time\nf()\n"],
)
def test_time_above_or_below_is_an_option(cell: str) -> None:
    lines = transformed(cell).splitlines()
    assert MARK.format("record a --time") in lines
    assert "%%time" not in lines
    assert len(lines) == len(cell.splitlines())
    assert lines[-1] == "f()"


def test_a_comment_between_the_magic_and_its_body_is_kept_in_place() -> None:
    assert transformed("%%cassette record a\n# remark\nf()\n").splitlines()[2] == "f()"


def test_another_cell_magic_below_is_a_call_in_the_body() -> None:
    lines = transformed("%%cassette record a\n%%capture out\nf()\ng()\n").splitlines()
    assert lines == [MARK.format("record a"), "get_ipython().run_cell_magic('capture', 'out', 'f()\\ng()\\n')"]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("from __future__ import annotations\n", "from __future__ import annotations; {}\n"),
        ("from __future__ import annotations  # why\n", "from __future__ import annotations; {}  # why\n"),
        ("from __future__ import (\n    annotations,\n)\n", "from __future__ import (\n    annotations,\n); {}\n"),
        ("from __future__ import annotations; x = 1\n", "from __future__ import annotations; {}; x = 1\n"),
        (
            "'''doc\nstring'''\nfrom __future__ import annotations\n",
            "'''doc\nstring'''\nfrom __future__ import annotations; {}\n",
        ),
        (
            "from __future__ import annotations\n# and\nfrom __future__ import generator_stop\n",
            "from __future__ import annotations\n# and\nfrom __future__ import generator_stop; {}\n",
        ),
    ],
    ids=["plain", "comment", "brackets", "semicolon", "docstring", "two"],
)
def test_future_imports_stay_first(head: str, expected: str) -> None:
    cell = f"%%cassette record a\n{head}y = 2\n"
    text = transformed(cell)
    # IPython drops the blank line where the magic stood only after the lines are counted: the first line stays.
    assert text == "\n" + expected.format(MARK.format("record a")) + "y = 2\n"
    compile(BodyStep(Habits()).visit_Module(ast.parse(text)), "<cell>", "exec")


@pytest.mark.parametrize(
    "body", ["!ls 'x\nfrom __future__ import annotations\n", "from x import y\n", "'just text'\n", "x = (\n"]
)
def test_other_beginnings_are_no_future_imports(body: str) -> None:
    assert transformed(f"%%cassette record a\n{body}").splitlines()[0] == MARK.format("record a")


@pytest.mark.parametrize(
    "cell",
    [
        "%%cassette record a\n",
        "%%cassette record a\n   \n\n",
        "%%cassette?\n",
        "%%cassette record?\n",
        "%%cassettes record a\nf()\n",
    ],
    ids=["no body", "blank body", "help", "help of a verb", "another magic"],
)
def test_cells_that_ipython_must_see_are_left_alone(cell: str) -> None:
    assert "..." not in transformed(cell)


@pytest.mark.parametrize("verb", ["verify", "stop", "recrd", ""])
def test_verbs_without_a_body_go_to_the_magic(verb: str) -> None:
    cell = f"# x\n%%cassette {verb} a\nf()\n".replace("  ", " ")
    assert transformed(cell) == f"get_ipython().run_cell_magic('cassette', {f'{verb} a'.strip()!r}, 'f()\\n')\n"


def test_the_marker_waits_where_a_loop_runs() -> None:
    assert in_a_loop("%%cassette record a\nf()\n").startswith("await get_ipython()")
    assert transformed("%%cassette record a\nf()\n").startswith("get_ipython()")
    assert in_a_loop("%%cassette record a\nf()\n", Habits(autoawait=False)).startswith("get_ipython()")


def test_somebody_who_still_types_the_body_gets_more_lines() -> None:
    manager = TransformerManager()
    manager.cleanup_transforms += [CellStep(Habits())]
    assert manager.check_complete("%%cassette record a\n")[0] == "incomplete"
    assert manager.check_complete("%%cassette record a\nf()\n")[0] == "incomplete"
    assert manager.check_complete("%%cassette record a\nf()\n\n")[0] == "complete"


def block(cell: str, habits: Habits | None = None) -> ast.With | ast.AsyncWith:
    last = module(cell, habits).body[-1]
    assert isinstance(last, ast.With | ast.AsyncWith)
    return last


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("f()", ast.With),
        ("await f()", ast.AsyncWith),
        ("x = [await f(i) for i in y]", ast.AsyncWith),
        ("async with a: pass", ast.AsyncWith),
        ("async for a in b: pass", ast.AsyncWith),
        ("[a async for a in b]", ast.AsyncWith),
        ("async def f():\n    await g()", ast.With),
        ("x = lambda: (yield)", ast.With),
    ],
)
def test_a_body_that_awaits_is_put_into_async_with(body: str, kind: type[ast.stmt]) -> None:
    assert type(block(f"%%cassette record a\n{body}")) is kind


def test_an_awaited_marker_makes_async_with() -> None:
    text = in_a_loop("%%cassette record a\nf()\n")
    assert isinstance(BodyStep(Habits()).visit_Module(ast.parse(text)).body[0], ast.AsyncWith)


@pytest.mark.parametrize(
    ("interactivity", "shown"),
    [("last_expr", ["c"]), ("last", ["c"]), ("all", ["a", "c"]), ("none", []), ("last_expr_or_assign", ["c"])],
)
def test_what_is_displayed_follows_the_shell(interactivity: str, shown: list[str]) -> None:
    statements = block("%%cassette record f\na\nb = 1\nc", Habits(ast_node_interactivity=interactivity)).body
    texts = [ast.unparse(one) for one in statements]
    assert [text.removeprefix("get_ipython().displayhook(").rstrip(")") for text in texts if "displayhook" in text] == shown


@pytest.mark.parametrize(
    ("last", "name"), [("b = 1", "b"), ("b += 1", "b"), ("b: int = 1", "b"), ("b.c = 1", None), ("a, b = 1, 2", None)]
)
def test_a_last_assignment_is_displayed_on_request(last: str, name: str | None) -> None:
    statements = block(f"%%cassette record f\n{last}", Habits(ast_node_interactivity="last_expr_or_assign")).body
    assert (ast.unparse(statements[-1]) == f"get_ipython().displayhook({name})") == (name is not None)


def test_positions_are_those_of_the_cell() -> None:
    statements = block("# one\n%%cassette record f\n\nx = 1\nboom()").body
    assert [one.lineno for one in statements] == [4, 5]


@pytest.mark.parametrize("cell", ["f()", "'doc'", "", "get_ipython().run_cell_magic('cassette', 'record', 'f()')", "f(...)"])
def test_other_cells_are_not_touched(cell: str) -> None:
    before = ast.parse(cell)
    assert ast.dump(BodyStep(Habits()).visit_Module(ast.parse(cell))) == ast.dump(before)


STOP = "await get_ipython().run_line_magic('cassette', 'stop{}')"


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%cassette stop\n", [STOP.format("")]),
        ("x = 1\n%cassette stop --max-wait 3\ny = 2\n", ["x = 1", STOP.format(" --max-wait 3"), "y = 2"]),
        ("x = '''\n%cassette stop\n'''\n", ["x = '''", "%cassette stop", "'''"]),
    ],
)
def test_stop_is_awaited_where_a_statement_begins(cell: str, expected: list[str]) -> None:
    assert transformed(cell).splitlines() == expected


@pytest.mark.parametrize("cell", ["if x:\n    %cassette stop\n", "%cassette status\n", "%%writefile a\n%cassette stop\n"])
def test_other_lines_are_not_awaited(cell: str) -> None:
    assert "await" not in transformed(cell)


def test_a_shell_without_autoawait_stops_at_once() -> None:
    assert "await" not in transformed("%cassette stop\n", Habits(autoawait=False))


@pytest.mark.parametrize("run", [transformed, in_a_loop])
def test_the_steps_are_pure(run: Callable[[str], str]) -> None:
    cell = "%%cassette record a\nawait f()\n"
    assert run(cell) == run(cell)
