"""What whoever runs the server may set: ``c.CassetteLab.allow_bodies = True`` in ``jupyter_server_config.py``."""

from __future__ import annotations

from traitlets import Bool, Float, Integer
from traitlets.config import Configurable


class CassetteLab(Configurable):
    """Settings of the viewer's server half."""

    allow_bodies = Bool(
        default_value=False, help="Whether the viewer may show what was said: prompts, results, arguments, error messages."
    ).tag(config=True)
    max_bytes = Integer(4 << 30, min=1, help="The largest file, or folder of artefacts, that is opened; in bytes.").tag(
        config=True
    )
    max_content_bytes = Integer(
        20 << 20, min=1, help="The same for contents managers that do not keep files in folders of this machine."
    ).tag(config=True)
    max_reply_bytes = Integer(256 << 20, min=1, help="So many bytes of rows are sent of what is opened.").tag(config=True)
    max_rows = Integer(1_000_000, min=1, help="So many rows are sent of each table.").tag(config=True)
    max_memory_bytes = Integer(
        2 << 30, min=1, help="The memory that one reading may take, where the system tells it; in bytes."
    ).tag(config=True)
    max_seconds = Float(600.0, min=0.1, help="How long one reading may take, the client's slowness included.").tag(config=True)
    max_silent_seconds = Float(
        120.0, min=0.1, help="How long reading may tell nothing, and a client take nothing, before it is given up."
    ).tag(config=True)
    max_readings = Integer(4, min=1, help="So many readings go on at once; others wait.").tag(config=True)
    spare_seconds = Float(
        300.0, min=0.0, help="How long a reading process is kept ready after the last use, so that the next file opens at once."
    ).tag(config=True)
