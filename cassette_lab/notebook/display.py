r"""What a cell shows: one quiet line, facts about files, why a call matched nothing. Each also as plain text.

Every text that comes from a file or a call is escaped: unseen characters as ``\u{…}``, markup as entities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final

from IPython.display import display

from cassette_lab.cassette.diagnosis import Candidate, Diagnosis
from cassette_lab.cassette.model import RequestMetadata
from cassette_lab.errors import CassetteLabError, MismatchError
from cassette_lab.jsonio.text import show
from cassette_lab.words import plural

Bundle = dict[str, str]
"""A display by MIME type."""

INK: Final = "var(--jp-content-font-color1, inherit)"
MUTED: Final = "var(--jp-content-font-color2, #59636e)"
GRID: Final = "var(--jp-border-color2, #8c959f66)"
RED: Final = "var(--jp-error-color1, #c62828)"
GREEN: Final = "#009e73"
_FONT: Final = (
    "font-family:var(--jp-ui-font-family, system-ui, sans-serif);font-size:13px;line-height:1.5;"
    "font-variant-numeric:tabular-nums"
)
_NEAREST: Final = 5
_CLIP: Final = 80
_NONE: Final = "none"


@dataclass(frozen=True, slots=True, repr=False)
class QuietLine:
    """``▶ replayed 42 of 42 calls · 2 recorded errors raised · run.jsonl``: a mark, words, perhaps a file and a picture.

    ``muted`` words are greyed; ``colour`` is the mark's.
    """

    mark: str
    words: Sequence[str]
    file: str = ""
    picture: str = ""
    colour: str = MUTED
    muted: bool = False

    def __str__(self) -> str:
        return f"{self.mark} {' · '.join([*(show(word) for word in self.words), *([show(self.file)] if self.file else [])])}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Bundle:
        del include, exclude
        return self.bundle()

    def bundle(self) -> Bundle:
        """The line for a display."""
        words = [f"<span>{escape(show(word))}</span>" for word in self.words]
        if self.file:
            words.append(f'<span style="color:{MUTED}"><bdi>{escape(show(self.file))}</bdi></span>')
        dot = f' <span style="color:{MUTED}">·</span> '
        style = f"{_FONT};color:{MUTED if self.muted else INK}"
        return {
            "text/plain": str(self),
            "text/html": (
                f'<div class="cassette-line" style="{style}">'
                f'<span style="color:{self.colour}">{escape(self.mark)}</span> {dot.join(words)}{self.picture}</div>'
            ),
        }


class Facts(Mapping[str, Any]):
    """A report's document, a mapping; it shows itself as ``title``, a few rows of names and values, and ``lines``.

    ``html`` stands for the lines where markup is shown.
    """

    def __init__(
        self,
        title: QuietLine,
        document: Mapping[str, Any],
        rows: Sequence[tuple[str, str]],
        lines: Sequence[str] = (),
        html: str = "",
    ) -> None:
        self._title = title
        self._document = document
        self._rows = rows
        self._lines = lines
        self._html = html

    def __getitem__(self, name: str) -> Any:
        return self._document[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def __repr__(self) -> str:
        width = max((len(name) for name, _ in self._rows), default=0)
        rows = [f"  {name:<{width}}  {show(value)}" for name, value in self._rows]
        return "\n".join([str(self._title), *rows, *self._lines])

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Bundle:
        del include, exclude
        rows = [[escape(name), f"<bdi>{escape(show(value))}</bdi>"] for name, value in self._rows]
        facts = table([], rows) if rows else ""
        return {"text/plain": repr(self), "text/html": self._title.bundle()["text/html"] + facts + self._html}


def publish(bundle: Bundle, *, display_id: str | None = None, update: bool = False) -> None:
    """Show a bundle under the running cell; under the ``display_id`` of an earlier one, in its place (``update``)."""
    options: dict[str, Any] = {} if display_id is None else {"display_id": display_id, "update": update}
    display(bundle, raw=True, **options)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table of cells that are already escaped."""
    cell = f"padding:2px 14px 2px 0;text-align:left;vertical-align:top;background:transparent;border-bottom:1px solid {GRID}"
    titles = "".join(f'<th scope="col" style="{cell};font-weight:normal;color:{MUTED}">{title}</th>' for title in head)
    body = "".join("<tr>" + "".join(f'<td style="{cell}">{text}</td>' for text in row) + "</tr>" for row in rows)
    style = f"{_FONT};border-collapse:collapse;margin:4px 0;color:{INK}"
    return f'<table style="{style}">{f"<thead><tr>{titles}</tr></thead>" if head else ""}<tbody>{body}</tbody></table>'


def sentence(error: CassetteLabError) -> str:
    """An error of this package in one line, its file named as people name it."""
    place = "" if error.path is None else short_path(error.path)
    if error.line is not None:
        place += f", line {error.line}"
    if not place:
        return show(error.message)
    return show(f"{error.message} (in {place})" if isinstance(error, MismatchError) else f"{place}: {error.message}")


def short_path(path: str | Path) -> str:
    """``path`` from the working directory where it is below it."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def explanation(error: MismatchError) -> Bundle | None:
    """Why a replay does not fit its recording; None where the error brings no diagnosis."""
    diagnosis = error.diagnostic
    explain = getattr(diagnosis, "explain", None)
    if explain is None:
        return None
    lines = [show(line) for line in explain()]
    html = _comparison(diagnosis) if isinstance(diagnosis, Diagnosis) and diagnosis.reason is not None else _plain(lines)
    return {"text/plain": "\n".join(lines), "text/html": html}


def _plain(lines: Sequence[str]) -> str:
    return f'<div style="{_FONT};color:{INK}">{"<br>".join(escape(line) for line in lines)}</div>'


def _comparison(diagnosis: Diagnosis) -> str:
    """The live call and its nearest recorded ones, one row each, with marks where they differ."""
    asked = diagnosis.actual.request.metadata
    nearest = diagnosis.nearest()[:_NEAREST]
    rows = [["", "label", "parent", *_MEMBERS, "difference"]]
    rows.append(["<b>asked</b>", _text(asked.label), _text(diagnosis.actual.parent_key), *_members(asked), ""])
    rows += [_row(candidate) for candidate in nearest]
    columns = [column for column in zip(*rows, strict=True) if set(column[1:]) != {_NONE}]
    head, *body = zip(*columns, strict=True)
    told = {name: line for name, _, line in (each.partition(": ") for each in diagnosis.explain())}
    more = diagnosis.total_candidates - len(nearest)
    note = f'<div style="color:{MUTED}">and {plural(more, "other recorded call")}</div>' if more > 0 else ""
    why = f"<b>No recorded call answers this one</b>: {escape(show(told.get('why', '')))}"
    following = "<br>".join(
        f'<span style="color:{MUTED}">{name}:</span> {escape(show(told[name]))}' for name in ("next", "tip") if name in told
    )
    return f'<div style="{_FONT};color:{INK}">{why}{table(head, body)}{note}{following}</div>'


_MEMBERS: Final = ("prompt", "model", "other members")


def _members(metadata: RequestMetadata) -> list[str]:
    others = [
        *(["output schema"] if metadata.has_output_schema else []),
        *(["persona"] if metadata.has_persona else []),
        *([f"max depth {metadata.max_depth}"] if metadata.max_depth is not None else []),
        *(["tool filter"] if metadata.tool_filter is not None else []),
    ]
    model = " / ".join(part for part in (metadata.child_provider, metadata.child_model) if part is not None)
    prompt = f"{metadata.prompt_bytes:,} bytes" + (
        f" in {metadata.prompt_blocks:,} blocks" if metadata.prompt_blocks != 1 else ""
    )
    return [prompt, _text(model or None), _text(", ".join(others) or None)]


_COLUMNS: Final = {
    "label": 1, "parentKey": 2, "parentContext": 2, "promptBytes": 3, "promptBlocks": 3, "prompt": 3, "request": 3,
    "childProvider": 4, "childModel": 4, "agentOptions": 4, "hasOutputSchema": 5, "outputSchema": 5, "hasPersona": 5,
    "persona": 5, "maxDepth": 5, "toolFilter": 5,
}  # fmt: skip
"""Which column of the comparison shows a field of identity."""


def _row(candidate: Candidate) -> list[str]:
    used = f' <span style="color:{MUTED}">(used)</span>' if candidate.consumed else ""
    metadata = candidate.metadata
    cells = [f"#{candidate.sequence}{used}", _text(metadata.label), _text(candidate.parent_key), *_members(metadata)]
    for column in {_COLUMNS[name] for name in candidate.differing if name in _COLUMNS}:
        cells[column] = f'<b style="color:{RED}">≠ {cells[column]}</b>'
    return [*cells, escape(show(candidate.difference())) or "nothing"]


def _text(text: str | None) -> str:
    if text is None:
        return _NONE
    shown = show(text)
    return f"<bdi>{escape(shown if len(shown) <= _CLIP else shown[: _CLIP - 1] + '…')}</bdi>"
