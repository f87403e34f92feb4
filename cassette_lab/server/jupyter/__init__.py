r"""The server half of the JupyterLab viewer: a Jupyter server extension, enabled where this package is installed.

Both addresses ask what Jupyter's own do: a token or a login, with a cookie the XSRF token, and the right to read contents.
What cannot be done is a JSON object ``{"code": …, "message": …}`` with one sentence; nothing of a file stands in it.

``GET /cassette-lab/api/status``
    ``{"version": 1, "bodies": false, "max_bytes": …, "max_content_bytes": …, "tables": […]}``: that the server half is
    there, whether it gives bodies, the largest files it opens (in folders of this machine, and of other contents managers),
    and the names of the tables.

``POST /cassette-lab/api/open``
    The body is a JSON object:

    ``paths``
        paths of the contents API: one file, one folder as a lab (``""`` is the root), or several files.
    ``compare``
        true for two files, the expected one first: their difference is told, too.
    ``bodies``
        true for prompts, results and the like, where the server's settings allow it (else ``403``).
    ``tables``
        names of the only tables to send; all without it.

    ``404`` for a path that the contents manager does not show (a hidden one, too), ``413`` for a file that is too large.
    The answer, ``application/vnd.cassette-lab.frames``, comes while the files are read. Whoever closes the connection ends
    the reading; whoever reads slowly slows it down. It is a sequence of frames::

        length of the JSON (4 bytes, little endian) | length of the data (4 bytes) | JSON (UTF-8) | data

    Numbers of bytes and rows are integers. The JSON has an ``event``, and only pages have data:

    ``begin``
        ``{"version": 1, "paths": […], "bodies": …}``
    ``header``
        the header of a cassette, before anything else of it: ``{"source", "bytes", "cassette_id", "created_at", "provider",
        "upstream", "request_storage", "redact_secrets", "redaction_patterns"}``. ``created_at`` is null where it is no date,
        patterns are only counted.
    ``page``
        ``{"table", "rows", "total_rows"}``: more rows of a table of the lab, and how many there are with them. The data of all
        pages of a table, put together in their order, are an Arrow IPC stream; so they are at every moment, after any page
        (the mark of its end may be missing). The ``source`` column has paths of the contents API.
    ``progress``
        ``{"done", "total", "words"}``, in bytes, several times a second.
    ``state``
        how far a path can be trusted, as a view's head shows it: ``{"source", "kind", "state", "words", "rows", "line",
        "changed", "problem"}``. ``kind`` is ``cassette``, ``session``, ``flight``, ``folder`` or null; ``state`` is
        ``verifying``, ``verified``, ``partial``, ``unverified`` or ``broken``. ``rows`` and ``line`` are those of a cassette
        that are verified: **pages may have brought more rows of ``calls`` from this source, which must not be shown** (a call
        that is there twice, for instance, is known at the end). ``changed`` is true where the file changed meanwhile: what
        was read is no longer what is there; open it again. ``problem`` is null or ``{"code", "message", "file", "line",
        "field"}``. What is wrong with single files of a folder is in the table ``problems``.
    ``diff``
        for two cassettes to compare: ``{"verdict", "comparable", "equivalent", "issues", "policy_changes", "expected",
        "actual"}``; the last two are sources, by which the rows of both are told apart.
    ``end``
        ``{"rows": {table: number}, "left_out": {table: number}, "complete": true}``: rows that were sent, and those that were
        not because of the server's limits. Not ``complete`` where the process that read the files ended before it was done;
        a ``state`` says why. An answer without ``end`` was cut off.

Files of this machine are read by a process of their own (``worker``), which is killed when the client goes away, when it
takes too long or too much memory; so the server answers others meanwhile. Without ``bodies``, the answer has none of what
was said, no pattern of redaction, and no folder outside the contents root. Settings: ``CassetteLab`` (``settings``).
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    """Where Jupyter finds the extension."""
    return [{"module": "cassette_lab.server.jupyter"}]


def _load_jupyter_server_extension(server_app: Any) -> None:
    """Add the handlers to a server."""
    from cassette_lab.server.jupyter.handlers import add_handlers
    from cassette_lab.server.jupyter.settings import CassetteLab

    add_handlers(server_app.web_app, CassetteLab(parent=server_app))
