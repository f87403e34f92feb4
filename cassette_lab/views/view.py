"""A view of recorded calls or session logs: live in a notebook, a picture and a table everywhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from os.path import relpath
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from cassette_lab.views import live
from cassette_lab.views.aggregates import label_outcomes
from cassette_lab.views.drawing import TEXT_COLUMNS, Cells, Drawing
from cassette_lab.views.naming import kernel_shell, name_of
from cassette_lab.views.notebook_bodies import WIDGET_VIEW
from cassette_lab.views.selecting import Selection, chosen, heard, taken, told_table
from cassette_lab.views.sending import Sent, is_diff, sent, tables_of, title_text
from cassette_lab.views.still import view_html
from cassette_lab.views.trusting import trust_of

if TYPE_CHECKING:
    import altair as alt
    import pyarrow as pa

    from cassette_lab.views.widget import ViewWidget

SAVED_ROWS: Final = 4_000
SAVED_BYTES: Final = 28_000
"""Most rows, and about most packed bytes, that a notebook keeps of a view; a kernel sends all of them beside."""

_MAIN: Final = ("calls", "actual", "sessions", "flights")


class View:
    """What ``cl.timeline`` and the like return. As the last line of a cell it shows itself.

    ``lab``: what is shown (a lab, or something with its tables as attributes). ``drawing``: the picture, without a front
    end; its ``title notes cells chart svg png() html() text() save()`` are the view's own, too. ``selected`` is the
    selection as a table; assigning it selects.
    """

    def __init__(
        self,
        kind: str,
        lab: Any,
        draw: Callable[[], Drawing],
        *,
        tables: Mapping[str, pa.Table] | None = None,
        heading: str | None = None,
        bodies: bool = False,
    ) -> None:
        self.kind = kind
        self.lab = lab if hasattr(lab, "calls") or is_diff(lab) else SimpleNamespace(**tables_of(lab))
        self.bodies = bodies
        self._tables = tables
        self._heading = heading
        self._draw = draw
        self._selection = Selection()
        self._listeners: list[Callable[[View], object]] = []
        self._widget: ViewWidget | None = None
        self.is_given_away = False
        if bodies:
            self._sent(max_rows=1)  # bodies that are not there are told here, not when a cell shows the view

    @cached_property
    def drawing(self) -> Drawing:
        """The picture of it, drawn without a front end."""
        return self._draw()

    @property
    def selected(self) -> pa.Table:
        """The selected rows of the table that they were picked in, all columns; without a selection no rows.

        That is what was picked with everything under it in the same table (the calls below a call), or what ran in the
        brushed range. Assign to select: row numbers or a mask of the main table (calls; of a comparison the actual ones),
        ``{"model_calls": [3, 4]}`` for others, None for nothing.
        """
        return self.selection[told_table(self._selection, self._main)]

    @selected.setter
    def selected(self, wanted: Any) -> None:
        self._selection = chosen(wanted, self._whole_tables, self._main)
        if self._widget is not None:
            self._widget.selected = self._selection.said()
        self._tell()

    @property
    def selection(self) -> dict[str, pa.Table]:
        """The selected rows of every table that is shown, by its name."""
        return taken(self._selection, self._whole_tables)

    @property
    def selected_range_ms(self) -> tuple[float, float] | None:
        """Begin and end of the brushed range, from the first thing that is shown; None without one."""
        return self._selection.range

    def on_select(self, listener: Callable[[View], object]) -> Callable[[], None]:
        """Call ``listener(view)`` after every change of the selection; returns a function that ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    @property
    def widget(self) -> ViewWidget:
        """The widget, to put it beside others (``ipywidgets.VBox``); made when it is first asked for.

        Then it is open until you ``close()`` the view, also when the cell that shows the view runs again.
        """
        self.is_given_away = True
        return self._own_widget()

    def _own_widget(self) -> ViewWidget:
        from cassette_lab.views.widget import ViewWidget

        if self._widget is None or self._widget.comm is None:  # somebody else may have closed it
            saved = self._saved
            options = {**self._options(saved), "lab": name_of(self.lab, self)}
            self._widget = ViewWidget(
                self._whole, view=self.kind, tables=dict(saved.tables), options=options, selected=self._selection.said()
            )
            self._widget.observe(self._heard, "selected")
        return self._widget

    def close(self) -> None:
        """Give the widget up: front ends take it away, and its memory is free. Showing the view again makes a new one."""
        widget, self._widget = self._widget, None
        self.is_given_away = False
        if widget is not None:
            widget.unobserve_all()
            widget.close()

    title = property(lambda self: self.drawing.title, doc="What is shown, of which file, and how much.")
    notes = property(lambda self: self.drawing.notes, doc="What the marks mean, and what is not in the picture.")
    cells = property(lambda self: self.drawing.cells, doc="The picture in words: a table of texts.")
    svg = property(lambda self: self.drawing.svg, doc="The picture as SVG.")

    @property
    def chart(self) -> alt.TopLevelMixin:
        """The Altair chart, to go on from."""
        return self.drawing.chart

    def png(self, scale: float = 2.0) -> bytes:
        """The picture as PNG, ``scale`` pixels per unit."""
        return self.drawing.png(scale)

    def html(self, *, still: bool = True, style: bool = True, opened: bool = False) -> str:
        """The picture and its table as a ``<figure>``; as ``Drawing.html``."""
        return self.drawing.html(still=still, style=style, opened=opened)

    def text(self, columns: int = TEXT_COLUMNS) -> str:
        """The picture drawn with characters, at most ``columns`` wide."""
        return self.drawing.text(columns)

    def save(self, path: str | Path) -> Path:
        """Write the picture; the suffix says how: ``.svg .png .html .txt``, or ``.json`` for the chart's grammar."""
        return self.drawing.save(path)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.kind}: {self.title}>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        del include, exclude
        saved = self._saved
        html = view_html(
            self.drawing,
            self.kind,
            saved.tables,
            {**self._options(saved), "problem": saved.options.get("problem")},
            note=saved.note,
            more=self._aggregates if saved.note else None,
            file=self._file,
        )
        data: dict[str, Any] = {"text/plain": self.text(), "text/html": html}
        if kernel_shell() is not None:
            data[WIDGET_VIEW] = {"version_major": 2, "version_minor": 0, "model_id": self._own_widget().model_id}
            live.shown(self)
        return data, {"cassette_lab": {"bodies": True}} if self.bodies else {}

    @property
    def _whole_tables(self) -> dict[str, pa.Table]:
        return tables_of(self.lab)

    @property
    def _main(self) -> str:
        tables = self._whole_tables
        return next((name for name in _MAIN if name in tables), next(iter(tables)))

    def _sent(self, **limits: Any) -> Sent:
        return sent(self.lab if self._tables is None else self._tables, bodies=self.bodies, **limits)

    @cached_property
    def _saved(self) -> Sent:
        """What a notebook keeps: everything, or of too much as many rows as have room."""
        rows = SAVED_ROWS
        while True:
            saved = self._sent(max_rows=rows, round_times=True)
            if saved.nbytes <= SAVED_BYTES or rows <= 8:
                return saved
            rows = int(min(rows, sum(saved.rows.values())) * min(0.9, SAVED_BYTES / saved.nbytes))

    def _whole(self) -> tuple[Mapping[str, bytes], Mapping[str, Any]]:
        """All rows, for a front end that asks."""
        whole = self._sent(short_keys=False)
        return whole.tables, {**self._options(whole), "lab": name_of(self.lab, self)}

    def _options(self, given: Sent) -> dict[str, Any]:
        options = {**given.options, **trust_of(self.lab), "title": self._heading or title_text(self.lab), "downloads": True}
        if given.note:
            parts = (options.get("problem"), f"{given.note}. Run the cell to see all of them.")
            return {**options, "partial": True, "problem": " ".join(part for part in parts if part)}
        return options

    @property
    def _aggregates(self) -> Cells | None:
        calls = self._whole_tables.get("calls")
        return label_outcomes(calls) if calls is not None and len(calls) else None

    @property
    def _file(self) -> str | None:
        """The only file of the lab as a link from here; None where it is not below the working directory."""
        root, tables = getattr(self.lab, "root", None), self._whole_tables
        files = {
            source
            for table in tables.values()
            if "source" in table.column_names
            for source in table["source"].unique().to_pylist()
        }
        if root is None or len(files) != 1 or not (place := Path(root, files.pop())).exists():
            return None
        link = PurePath(relpath(place)).as_posix()
        return None if link.startswith("../") or PurePath(link).is_absolute() else link

    def _heard(self, change: Any) -> None:
        said = heard(change["new"], self._whole_tables)
        if said != self._selection:
            self._selection = said
            self._tell()

    def _tell(self) -> None:
        for listener in list(self._listeners):
            listener(self)
