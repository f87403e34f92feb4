"""``nbhtml`` and ``strip``: notebooks as pages that load nothing, and without what was said in them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from cassette_lab.cli.grammar import Call, Command, Option, UsageError
from cassette_lab.cli.output import complain, say
from cassette_lab.errors import FormatError
from cassette_lab.looking import write_whole
from cassette_lab.words import plural


def nbhtml(call: Call) -> int:
    """A notebook as one HTML page beside it, or where ``-o`` says."""
    from cassette_lab.views.notebook_page import notebook_page

    source = Path(call.operands[0])
    target = Path(call.options.get("out") or source.with_suffix(".html"))
    if target.resolve() == source.resolve():
        raise UsageError("nbhtml would write over the notebook; name another file with -o")
    page = notebook_page(source)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, page.html.encode("utf-8", "backslashreplace"))
    if page.with_bodies:
        were, first = ("was", "it") if page.with_bodies == 1 else ("were", "them")
        complain(
            f"{source}: {plural(page.with_bodies, 'output')} {were} made with bodies, and the page has {first}; "
            f"`cassette-lab strip {source}` takes {first} out"
        )
    if not page.has_run:
        complain(f"{source}: no cell has an output; run the notebook and save it, then the page shows them")
    say(f"{target}: {target.stat().st_size:,} bytes, nothing is loaded from elsewhere")
    return 0


def strip(call: Call) -> int:
    """Take outputs that were made with bodies out of a notebook: in place, or into the file that ``-o`` names."""
    from cassette_lab.views.notebook_bodies import without_bodies

    source = Path(call.operands[0])
    out = call.options.get("out")
    try:
        text = source.read_bytes().decode("utf-8")
        stripped = without_bodies(text.removeprefix("\ufeff"))
    except UnicodeDecodeError:
        raise FormatError("this is not a notebook: its bytes are no UTF-8", path=str(source)) from None
    except FormatError as error:
        raise FormatError(error.message, path=str(source)) from None
    whole = text[: len(text) - len(text.removeprefix("\ufeff"))] + stripped.text
    if out is not None or whole != text:
        target = source if out is None else Path(out)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, whole.encode())
    removed = plural(stripped.outputs, "output") + " made with bodies"
    states = f" and {plural(stripped.widgets, 'widget state')}" if stripped.widgets else ""
    found = bool(stripped.outputs or stripped.widgets)
    say(f"{out or source}: removed {removed}{states}" if found else f"{out or source}: no output was made with bodies")
    return 0


NBHTML: Final = Command(
    "nbhtml",
    "NOTEBOOK",
    (1, 1),
    "write a notebook as one HTML page that loads nothing, with its views alive",
    nbhtml,
    (Option("-o", "out", "the file to write; default NOTEBOOK with .html", "FILE"),),
)
STRIP: Final = Command(
    "strip",
    "NOTEBOOK",
    (1, 1),
    "take the outputs that were made with bodies out of a notebook, in place",
    strip,
    (Option("-o", "out", "write here, and leave the notebook as it is", "FILE"),),
)
