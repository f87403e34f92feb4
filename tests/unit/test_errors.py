from __future__ import annotations

from pathlib import Path

import pytest

from cassette_lab.cassette.reader import read_cassette
from cassette_lab.errors import CassetteLabError, FormatError


def test_an_error_names_file_and_line_in_front_of_its_sentence() -> None:
    assert str(CassetteLabError("it broke")) == "it broke"
    assert str(FormatError("it broke", path=Path("runs/a b.jsonl"), line=3)) == "runs/a b.jsonl, line 3: it broke"
    assert str(FormatError("it broke", line=3)) == "line 3: it broke"
    assert str(FormatError("it broke", path="")) == '"": it broke'


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b[2J.jsonl", "\\u{001b}[2J.jsonl"),
        ("gpj.\u202elnosj", "gpj.\\u{202e}lnosj"),
        ("two\nlines", "two\\u{000a}lines"),
        ("\udcff", "\\u{dcff}"),
        ("nul\0", "nul\\u{0000}"),
        ("größe 😀", "größe 😀"),
    ],
)
def test_a_hostile_file_name_is_shown_escaped_and_kept_as_it_is(tmp_path: Path, name: str, shown: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_cassette(tmp_path / name)
    assert str(caught.value).startswith(f"{tmp_path}/{shown}: ")
    assert caught.value.path == str(tmp_path / name)
