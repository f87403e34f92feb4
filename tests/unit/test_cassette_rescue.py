"""Rescue: the longest verified prefix as a new file, and an account of the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.cassette import rescue as rescue_room
from cassette_lab.cassette.reader import CassetteReader, read_cassette
from cassette_lab.cassette.rescue import LostLines, rescue
from cassette_lab.cassette.writer import prepare_target
from cassette_lab.errors import FormatError, LockedError
from cassette_lab.jsonio import JsonObject
from tests.unit.cassette_samples import DATA, header, interaction, records, sealed, siblings, text, torn, write

SIBLINGS = sealed(records(siblings()))
LINES = text(SIBLINGS).splitlines(keepends=True)


def test_the_torn_sample(tmp_path: Path) -> None:
    source = DATA / "torn.cassette.jsonl"
    assert source.read_bytes() == torn()
    report = rescue(source, tmp_path / "new")
    assert (report.kept, report.kept_lines, report.lost_records) == (6, 7, 2)
    assert report.lost == (
        LostLines(8, 8, 1, "whole, but sequence 7 is missing, though there is a sequence 8"),
        LostLines(9, 9, 1, "the record is cut off (not JSON at character 194)"),
    )
    assert report.reason == "the record is cut off (not JSON at character 194)"
    assert (tmp_path / "new").read_bytes() == b"".join(LINES[:7])
    assert report.to_sentence() == (
        f"6 calls kept in {tmp_path / 'new'}, 2 records lost: "
        "line 8: whole, but sequence 7 is missing, though there is a sequence 8; "
        "line 9: the record is cut off (not JSON at character 194)"
    )
    assert source.read_bytes() == torn()


def test_a_whole_file_is_kept_whole(tmp_path: Path) -> None:
    source = write(tmp_path / "x", siblings())
    source.write_bytes(source.read_bytes()[:-1])
    report = rescue(source, tmp_path / "made" / "new")
    assert (report.kept, report.lost, report.reason) == (8, (), None)
    assert report.to_sentence() == f"8 calls kept in {tmp_path / 'made' / 'new'}, nothing lost"
    assert (tmp_path / "made" / "new").read_bytes() == text(SIBLINGS)
    assert [entry.name for entry in (tmp_path / "made").iterdir()] == ["new"]


def test_bytes_are_kept_as_they_stand(tmp_path: Path) -> None:
    start = LINES[0].replace(b'":', b'" : ') + b"\r\n\n" + LINES[1]
    (tmp_path / "x").write_bytes(start + b"\n  \n" + LINES[3])
    report = rescue(tmp_path / "x", tmp_path / "new")
    # Sequence 2 alone leaves a gap, so only the header is a whole file.
    assert (report.kept, report.kept_lines) == (0, 1)
    assert (tmp_path / "new").read_bytes() == LINES[0].replace(b'":', b'" : ')
    assert [(each.first, each.last, each.records) for each in report.lost] == [(4, 4, 1), (7, 7, 1)]


def test_what_follows_a_break_is_lost_with_it(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"".join([*LINES[:4], LINES[4].replace(b"down", b"up"), b"\n", *LINES[5:]]))
    report = rescue(tmp_path / "x", tmp_path / "new")
    assert report.kept == 3
    assert [each.to_sentence() for each in report.lost] == [
        "line 5: the record was changed after it was written (hash differs)",
        "lines 7 to 10: behind the break, where nothing can be proven",
    ]
    assert report.lost_records == 5


def test_a_gap_of_occurrences(tmp_path: Path) -> None:
    calls = [interaction(1), interaction(2, occurrence=2, call_key="again"), interaction(3)]
    report = rescue(write(tmp_path / "x", (header(), calls)), tmp_path / "new")
    assert report.kept == 1
    assert report.lost == (LostLines(3, 4, 2, "whole, but occurrence 1 of a call is missing, though there is an occurrence 2"),)


def test_one_call_and_one_record(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(text(sealed(records((header(), [interaction(1)])))) + bytes(100))
    sentence = rescue(tmp_path / "x", tmp_path / "new").to_sentence()
    assert sentence.startswith(f"1 call kept in {tmp_path / 'new'}, 1 record lost: line 3: the line holds NUL bytes")


@pytest.mark.parametrize("data", [b"", b"\n", LINES[0][:-20], b"".join(LINES[1:])])
def test_without_a_header_there_is_nothing_to_keep(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(FormatError):
        rescue(tmp_path / "x", tmp_path / "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    source = write(tmp_path / "x", siblings())
    (tmp_path / "new").write_bytes(b"mine")
    for output in (tmp_path / "new", source):
        before = output.read_bytes()
        with pytest.raises(FormatError, match="there is such a file already, and a rescue never overwrites; name a new one"):
            rescue(source, output)
        assert output.read_bytes() == before
    with pytest.raises(FormatError, match="this is a folder"):
        rescue(source, tmp_path)


def test_an_output_that_is_being_recorded(tmp_path: Path) -> None:
    source = write(tmp_path / "x", siblings())
    (tmp_path / "new.writer.lock").mkdir()
    with pytest.raises(LockedError):
        rescue(source, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_missing_source(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="there is no such file"):
        rescue(tmp_path / "x", tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_changes_in_between_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "x", siblings())

    def change(target: Path) -> None:
        source.write_bytes(b"".join([LINES[0], *reversed(LINES[1:])]))
        prepare_target(target)

    monkeypatch.setattr(rescue_room, "prepare_target", change)
    with pytest.raises(FormatError):
        rescue(source, tmp_path / "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "x", siblings())

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rescue_room, "_verify", refuse)
    with pytest.raises(FormatError, match=r"the file cannot be written \(No space left on device\)"):
        rescue(source, tmp_path / "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["x"]


def longest_valid_prefix(data: bytes) -> int | None:
    """By trying every prefix that ends with a record: the number of calls, or None without a header."""
    lines = data.splitlines(keepends=True)
    found = None
    for number in range(1, len(lines) + 1):
        try:
            found = len(read_cassette(b"".join(lines[:number])).interactions)
        except FormatError:
            continue
    return found


orders = st.permutations(range(1, 7)).map(
    lambda order: text(
        sealed(
            records(
                (header(), [interaction(n, request_fingerprint=f"sha256:{n % 2:064}", occurrence=(n + 1) // 2) for n in order])
            )
        )
    )
)


@settings(max_examples=30, deadline=None)
@given(orders, st.data())
def test_it_is_the_longest_prefix_that_reads(
    tmp_path_factory: pytest.TempPathFactory, whole: bytes, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    (folder / "x").write_bytes(cut)
    expected = longest_valid_prefix(cut)
    if expected is None:
        with pytest.raises(FormatError):
            rescue(folder / "x", folder / "new")
        return
    report = rescue(folder / "x", folder / "new")
    assert report.kept == expected
    with CassetteReader(folder / "new") as reader:
        kept: list[JsonObject] = [call.to_json() for call in reader]
    assert len(kept) == expected
    assert cut.startswith((folder / "new").read_bytes()[:-1])
    assert report.kept + report.lost_records == len(cut.splitlines()) - 1


def test_a_hostile_output_name_is_shown_escaped(tmp_path: Path) -> None:
    source = write(tmp_path / "whole.jsonl", (header(), [interaction()]))
    report = rescue(source, tmp_path / "\x1b[2J\u202e")
    assert report.to_sentence() == f"1 call kept in {tmp_path}/\\u{{001b}}[2J\\u{{202e}}, nothing lost"
