"""``cassette-lab``: the cassettes of a shell. ``main`` is the whole command line; see ``cassette-lab --help``."""

from cassette_lab.cli.main import main

__all__ = ["main"]
