"""Artefacts as Arrow tables: ``load`` them, look at them in a ``Lab``, ask in SQL, write them as files."""

from cassette_lab.tables.lab import Lab
from cassette_lab.tables.load import load
from cassette_lab.tables.sql import SqlResult
from cassette_lab.tables.write import write_tables

__all__ = ["Lab", "SqlResult", "load", "write_tables"]
