"""Reading a large log without the garbage collector, which would look through all that was made so far again and again.

What a log is decoded to, and what is made of that, refers to nothing in circles, so that there is nothing to collect.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No cyclic garbage is collected within, in the whole process; afterwards it is again, if it was before."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
