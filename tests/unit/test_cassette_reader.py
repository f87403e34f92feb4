"""Reading a cassette: what is accepted, where it is refused, and what a person is told."""

from __future__ import annotations

import copy
import gc
import gzip
import os
import random
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.cassette import source
from cassette_lab.cassette.model import Header, Interaction
from cassette_lab.cassette.reader import (
    CassetteReader,
    exact_interaction,
    read_cassette,
    read_header,
    read_interaction,
)
from cassette_lab.cassette.schema import RecordError
from cassette_lab.cassette.source import Source
from cassette_lab.errors import FormatError
from cassette_lab.jsonio import JsonObject, canonical
from cassette_lab.jsonio.text import split_lines
from tests.unit.cassette_samples import DATA, full, interaction, records, resealed_line, sealed, siblings, text, write

SIBLINGS = records(siblings())
RESCUE = "keep the file's verified start with `cassette-lab rescue`"


def refusal(data: bytes | Path) -> FormatError:
    with pytest.raises(FormatError) as caught:
        read_cassette(data)
    return caught.value


def with_member(number: int, **members: Any) -> list[JsonObject]:
    """The sibling records, some members of one replaced, sealed again."""
    changed = copy.deepcopy(SIBLINGS)
    changed[number] |= members
    return sealed(changed)


class TestValid:
    @pytest.mark.parametrize(("name", "cassette"), [("siblings", siblings()), ("full", full())])
    def test_a_file_gives_header_and_calls_in_physical_order(
        self, name: str, cassette: tuple[Header, list[Interaction]]
    ) -> None:
        path = DATA / f"{name}.cassette.jsonl"
        found = read_cassette(path)
        assert found.header == cassette[0]
        assert [call.sequence for call in found.interactions] == [call.sequence for call in cassette[1]]
        assert [call.outcome for call in found.interactions] == [call.outcome for call in cassette[1]]
        assert [call.line for call in found.interactions] == list(range(2, len(cassette[1]) + 2))
        assert found.path == str(path)
        assert found.size_bytes == path.stat().st_size
        assert found.file_sha256 == read_cassette(path.read_bytes()).file_sha256

    def test_bytes_may_carry_a_name_for_errors(self) -> None:
        with pytest.raises(FormatError) as caught:
            read_cassette(b"", path="run.cassette.jsonl")
        assert str(caught.value).startswith("run.cassette.jsonl: the file holds no record, not even a header")
        assert (caught.value.line, caught.value.record) == (None, None)

    def test_a_header_alone_is_a_cassette_without_calls(self) -> None:
        assert read_cassette(text(sealed(SIBLINGS[:1]))).interactions == ()

    def test_only_the_header_is_read_for_the_header(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_bytes(text(sealed(SIBLINGS)[:1]) + b"garbage")
        assert read_header(path) == siblings()[0]

    def test_blank_lines_count_for_people_and_not_for_records(self) -> None:
        lines = text(sealed(SIBLINGS)).splitlines(keepends=True)
        data = b"\xef\xbb\xbf\n\r\n" + lines[0] + "\u00a0\t\u2028\n".encode() + lines[1].replace(b"\n", b"\r\n") + b"\x85"
        error = refusal(data)
        assert (error.line, error.record) == (6, 3)
        found = list(CassetteReader(data[:-1] + b"".join(lines[2:])))
        assert [call.line for call in found][:2] == [5, 6]

    def test_layout_and_order_are_free_inside_a_line(self) -> None:
        lines = text(sealed(SIBLINGS)).splitlines()
        loose = lines[1].replace(b'":', b'" :\t').replace(b',"', b' , "')
        moved = b"{" + lines[2][lines[2].index(b'"hash"') : -1] + b"," + lines[2][1 : lines[2].index(b',"hash"')] + b"}"
        found = read_cassette(b"\n".join([lines[0], loose, moved, *lines[3:]]))
        assert found.interactions == read_cassette(text(sealed(SIBLINGS))).interactions

    def test_broken_utf8_counts_as_replacement_characters(self) -> None:
        changed = copy.deepcopy(SIBLINGS)
        changed[1]["outcome"]["result"]["stopReason"] = "a\ufffdb\ufffd\ufffd\ufffd"
        data = text(sealed(changed)).replace("a\ufffdb\ufffd\ufffd\ufffd".encode(), b"a\xf0\x9f\x98b\xed\xa0\x80", 1)
        outcome = read_cassette(data).interactions[0].outcome
        assert outcome.result is not None
        assert outcome.result["stopReason"] == "a\ufffdb\ufffd\ufffd\ufffd"

    def test_twenty_thousand_levels(self) -> None:
        blocks: list[JsonObject] = [{"type": "text", "text": "deep"}]
        for _ in range(20_000):
            blocks = [{"type": "tool-result", "toolCallId": "c", "content": blocks}]
        changed = records((siblings()[0], [interaction(1)]))
        changed[1]["outcome"] = {"kind": "result", "result": {"output": blocks, "stopReason": "completed"}, "redactions": 0}
        data = text(sealed(changed))
        again = read_cassette(data).interactions[0]
        assert text([read_header(data).to_json(), again.to_json()]) == data


class TestRefused:
    @pytest.mark.parametrize(
        ("records_", "line", "field", "message"),
        [
            (with_member(3, sequence=0), 4, "sequence", f"must be a whole number from 1 to 2**53 - 1; {RESCUE}"),
            (with_member(2, sequence=2), 3, "sequence", f"2 is used twice in this file; {RESCUE}"),
            (
                with_member(8, occurrence=2),
                9,
                "occurrence",
                f"2 of one call from one parent is used twice in this file; {RESCUE}",
            ),
            (with_member(0, version=2), 1, "version", "must be 1; read it with the program that wrote it"),
        ],
    )
    def test_line_field_and_way_out(self, records_: list[JsonObject], line: int, field: str, message: str) -> None:
        error = refusal(text(records_))
        assert (error.line, error.record, error.field, error.message) == (line, line, field, f"{field} {message}")
        assert error.code == "CASSETTE_FORMAT"

    def test_a_call_key_that_comes_again(self) -> None:
        error = refusal(text(with_member(2, callKey=SIBLINGS[1]["callKey"])))
        assert (error.line, error.field) == (3, "callKey")
        assert error.message == f"the callKey of sequence 3 is used twice in this file; {RESCUE}"

    def test_a_request_of_the_other_arm(self) -> None:
        error = refusal(text(with_member(0, requestStorage="full")))
        assert (error.line, error.field) == (2, "request.storage")
        assert error.message == f"request.storage is metadata where the header says that requests are stored as full; {RESCUE}"

    def test_without_a_header_nothing_is_promised(self) -> None:
        error = refusal(text(sealed(SIBLINGS)[1:]))
        assert (error.line, error.field) == (1, "kind")
        assert error.message == (
            "the file starts with a call; its header is missing; restore the file, or check that it is a cassette: "
            "without its header nothing can be kept"
        )

    def test_two_cassettes_in_one_file(self) -> None:
        error = refusal(text([*sealed(SIBLINGS)[:3], sealed(SIBLINGS)[0]]))
        assert error.line == 4
        assert error.message == "a second header stands here; split the file: one file holds one cassette"

    @pytest.mark.parametrize(
        ("members", "missing"),
        [
            ({"sequence": 9}, "sequence 7 is missing, though there is a sequence 9"),
            ({"occurrence": 4}, "occurrence 1 of a call is missing, though there is an occurrence 4"),
        ],
    )
    def test_gaps_name_no_line(self, members: JsonObject, missing: str) -> None:
        error = refusal(text(with_member(8, **members)))
        assert (error.line, error.record) == (None, None)
        assert error.message == (
            f"{missing}; a recording that still runs, or was killed, leaves such gaps: wait for it, or {RESCUE}"
        )

    def test_a_changed_body_a_cut_and_a_move_break_the_chain(self) -> None:
        lines = text(sealed(SIBLINGS)).splitlines(keepends=True)
        restore = "restore the file or keep its verified start with `cassette-lab rescue`"
        edited = refusal(b"".join([*lines[:4], lines[4].replace(b"down", b"up"), *lines[5:]]))
        assert (edited.line, edited.field) == (5, "hash")
        assert edited.message == f"the record was changed after it was written (hash differs); {restore}"
        cut = refusal(b"".join([*lines[:3], *lines[4:]]))
        assert (cut.line, cut.field) == (4, "previousHash")
        assert (
            cut.message == f"previousHash is not the hash of the record before: a record was removed, added or moved; {restore}"
        )
        moved = refusal(b"".join([lines[0], lines[2], lines[1], *lines[3:]]))
        assert (moved.line, moved.field) == (2, "previousHash")

    def test_the_checks_of_a_line_run_in_the_formats_order(self) -> None:
        """One line with everything wrong, mended step by step from the first check to the last."""
        lines = text(sealed(SIBLINGS)).splitlines()
        before = b"\n".join(lines[:3]) + b"\n"
        wrong = sealed(SIBLINGS)[4] | {
            "previousHash": "sha256:" + "0" * 64,
            "hash": "sha256:" + "1" * 64,
            "sequence": 2,
            "published": 1,
            "request": sealed(records(full()))[1]["request"],
        }
        duplicate = canonical(wrong)[:-1] + b',"local":false}'
        steps = [
            (duplicate + b",", "(not JSON at character "),
            (duplicate, 'the member "local" appears twice'),
            (canonical(wrong), "published must be"),
            (canonical(wrong := wrong | {"published": True, "outcome": SIBLINGS[1]["outcome"]}), "previousHash is not"),
            (canonical(wrong := wrong | {"previousHash": sealed(SIBLINGS)[2]["hash"]}), "hash differs"),
            (text(sealed([*SIBLINGS[:3], wrong])).splitlines()[3], "request.storage is full"),
        ]
        wrong["request"] = SIBLINGS[1]["request"]
        steps.append((text(sealed([*SIBLINGS[:3], wrong])).splitlines()[3], "sequence 2 is used twice"))
        for line, message in steps:
            error = refusal(before + line)
            assert message in error.message
            assert error.line == 4

    @pytest.mark.parametrize(
        ("name", "spelled", "twice"),
        [
            ("local", b'"local":true', b'"\\u006cocal":false,"local":true'),
            ("a", b'"a":[1.5,null]', b'"a":1,"a":[1.5,null]'),
            ("", b'"a":[1.5,null]', b'"a":[1.5,{"":0,"":0}]'),
            ("😀", b'"a":[1.5,null]', '"a":{"😀":0,"\\ud83d\\ude00":0}'.encode()),
        ],
    )
    def test_a_duplicate_member_at_any_depth_is_named(self, name: str, spelled: bytes, twice: bytes) -> None:
        lines = text(sealed(SIBLINGS)).splitlines()
        assert spelled in lines[3]
        error = refusal(b"\n".join([*lines[:3], lines[3].replace(spelled, twice)]))
        assert error.message.startswith(f'the member "{name}" appears twice in one object; restore the file')
        assert error.line == 4

    def test_a_hostile_duplicate_is_escaped(self) -> None:
        error = refusal(b'{"\x7f\\u202e' + b"x" * 300 + b'":1,"\x7f\\u202e' + b"x" * 300 + b'":1}')
        assert error.message.isprintable()
        assert len(error.message) < 250


class TestSpelling:
    """A line may be spelled freely, but its hash is that of the canonical text."""

    LINE = text(sealed(SIBLINGS)).splitlines()[3]

    @pytest.mark.parametrize(
        ("spelled", "accepted"),
        [
            (b"1.5", True),
            (b"0.0001", True),
            (b"0.00001", True),
            (b"1e-7", True),
            (b"1e+21", True),
            (b"100000000000000000000", True),
            (b"1e-5", False),  # orjson's spelling
            (b"1e16", False),
            (b"1e+16", False),
            (b"1.0", False),
            (b"1E2", False),
            (b"-0", False),
            (b"-0.0", False),
            (b"1e400", False),
            (b"9007199254740993", False),  # not what a double holds
            (b"18446744073709551615", False),
            (b"18446744073709552000", True),
        ],
    )
    def test_numbers(self, spelled: bytes, accepted: bool) -> None:
        line = resealed_line(self.LINE, b"[1.5,null]", b"[%b,null]" % spelled)
        if accepted:
            assert read_interaction(line, "metadata") == exact_interaction(line, "metadata")
        else:
            with pytest.raises(RecordError):
                read_interaction(line, "metadata")

    @pytest.mark.parametrize(
        ("spelled", "accepted"),
        [
            ('{"\U0001f600":1,"\uff5e":2}', True),  # by code units the astral one comes first
            ('{"\uff5e":2,"\U0001f600":1}', False),
            (r'{"a":"\u0041"}', False),
            (r'{"a":"\/"}', False),
            (r'{"a":"\ud83d\ude00"}', False),
            (r'{"a":"\ud800"}', True),
            (r'{"a":"\uD800"}', False),
            (r'{"a":"\u001f\b"}', True),
            (r'{"a":"\u0008"}', False),
            ('{"a":"\x7f\u2028/"}', True),
            ('{"b":1,"a":2}', False),
        ],
    )
    def test_texts_and_keys(self, spelled: str, accepted: bool) -> None:
        line = resealed_line(self.LINE, b"[1.5,null]", spelled.encode())
        if accepted:
            assert read_interaction(line, "metadata") == exact_interaction(line, "metadata")
        else:
            with pytest.raises(RecordError):
                read_interaction(line, "metadata")


class TestProperties:
    plain = st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53) + 1, 2**53 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=8,
    )

    @settings(max_examples=80, deadline=None)
    @given(plain.filter(lambda value: "-0.0" not in repr(value)), st.text(min_size=1), st.text())
    def test_both_tiers_agree_on_every_canonical_line(self, value: Any, key: str, stop_reason: str) -> None:
        changed = records((siblings()[0], [interaction(1, call_key=key)]))
        changed[1]["outcome"]["result"] |= {"stopReason": stop_reason, "structured": value}
        line = text(sealed(changed)).splitlines()[1]
        quick = read_interaction(line, "metadata")
        assert quick == exact_interaction(line, "metadata")
        assert quick.call_key == key

    @settings(max_examples=150, deadline=None)
    @given(st.binary(max_size=200))
    def test_random_bytes_give_a_format_error(self, data: bytes) -> None:
        refusal(data)
        refusal(text(sealed(SIBLINGS)) + b"\n{" + data)

    @settings(max_examples=150, deadline=None)
    @given(st.randoms(use_true_random=False))
    def test_mutants_with_repaired_hashes_are_judged_alike_by_both_tiers(self, draw: random.Random) -> None:
        changed = copy.deepcopy(SIBLINGS)
        number = draw.randrange(1, len(changed))
        mutate(changed[number], draw)
        lines = text(sealed(changed)).splitlines()
        try:
            exact = exact_interaction(lines[number], "metadata")
        except RecordError:
            with pytest.raises(RecordError):
                read_interaction(lines[number], "metadata")
            refusal(b"\n".join(lines))
        else:
            assert read_interaction(lines[number], "metadata") == exact

    @settings(max_examples=150, deadline=None)
    @given(st.randoms(use_true_random=False))
    def test_flipped_bytes_never_pass_unseen(self, draw: random.Random) -> None:
        data = bytearray(text(sealed(SIBLINGS)))
        at = draw.randrange(len(data))
        old = data[at]
        data[at] = draw.choice([value for value in range(256) if value != old])
        try:
            found = read_cassette(bytes(data))
        except FormatError:
            return
        # Only layout is free: a line feed or a space where a blank one stood.
        assert bytes([old]) == b"\n"
        assert found.interactions == read_cassette(text(sealed(SIBLINGS))).interactions


def mutate(members: JsonObject, draw: random.Random) -> None:
    """Change, add or drop one member somewhere in a record."""
    target: Any = members
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        if not keys:
            break
        key = draw.choice(keys)
        if isinstance(target[key], dict | list) and target[key] and draw.random() < 0.75:
            target = target[key]
            continue
        action = draw.randrange(3)
        if action == 0:
            del target[key]
        elif action == 1 and isinstance(target, dict):
            target[draw.choice(["type", "x", "kind", "\ud800", "\U0001f600", "content"])] = draw.choice([None, 1, [], "x"])
        else:
            target[key] = draw.choice([None, True, 0, 1.0, 1.5, -1, 2**60, 1e-7, "", "text", "image", [], {}, [{}], {"a": 1}])
        break


class TestSource:
    def test_missing(self, tmp_path: Path) -> None:
        error = refusal(tmp_path / "none")
        assert error.message == "there is no such file; check the name, or record it first"
        assert str(error).startswith(str(tmp_path / "none"))

    def test_folder(self, tmp_path: Path) -> None:
        assert refusal(tmp_path).message == "this is a folder; name a cassette file in it"

    def test_a_pipe_does_not_hang(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        assert refusal(tmp_path / "pipe").message.startswith("this is a device or pipe, not a file")

    def test_a_name_that_is_none(self) -> None:
        assert refusal(Path("a\0b")).message.startswith("this is no file name")

    def test_not_readable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = write(tmp_path / "x", siblings())

        def refuse(*_: object) -> int:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(os, "open", refuse)  # root may read everything
        assert refusal(path).message == "the file may not be read; change its permissions or copy it"

    @pytest.mark.parametrize("data", [b"", b"\n", b" \r\n\t\n", "\ufeff\n\u00a0".encode()])
    def test_nothing_in_it(self, data: bytes) -> None:
        error = refusal(data)
        assert error.message.startswith("the file holds no record, not even a header")
        assert error.line is None

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            (gzip.compress(b"{}"), "the file is compressed (gzip); decompress it first"),
            (b"\x28\xb5\x2f\xfd\x04", "the file is compressed (zstd); decompress it first"),
            ("{}".encode("utf-16"), "this is UTF-16 text; save the file as UTF-8"),
            (b"\xef\xbb\xbf{}", "a byte order mark stands in front of the record; save the file as UTF-8 without one"),
            (b"hello", "the line is not JSON at character 1; restore the file, or check that it is a cassette"),
        ],
    )
    def test_what_it_is_instead(self, data: bytes, message: str) -> None:
        error = refusal(data)
        assert error.message.startswith(message)
        assert error.line == 1

    def test_a_tail_of_nul_bytes_and_a_cut_record(self) -> None:
        data = text(sealed(SIBLINGS))
        nul = refusal(data + bytes(4096))
        assert nul.message == f"the line holds NUL bytes, as files do after a crash (not JSON at character 1); {RESCUE}"
        assert nul.line == len(SIBLINGS) + 1
        cut = refusal(data[:-30])
        assert cut.message.startswith("the record is cut off (not JSON at character ")
        assert cut.message.endswith(f"if it is not being recorded, {RESCUE}")
        assert cut.line == len(SIBLINGS)

    def test_a_file_is_closed_also_when_its_reader_is_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        closed: list[int] = []
        real = os.close

        def close(descriptor: int) -> None:
            closed.append(descriptor)
            real(descriptor)

        monkeypatch.setattr(os, "close", close)
        reader = CassetteReader(DATA / "siblings.cassette.jsonl")
        next(iter(reader))
        assert closed == []
        del reader
        gc.collect()
        assert len(closed) == 1

    def test_a_file_that_changes_while_it_is_read(self, tmp_path: Path) -> None:
        path = write(tmp_path / "x", siblings())
        with CassetteReader(path) as reader:
            calls = iter(reader)
            next(calls)
            with path.open("ab") as file:
                file.write(b"\n")
            with pytest.raises(FormatError, match="the file changed while it was read; read it again when") as caught:
                list(calls)
        assert caught.value.line is None

    def test_a_line_without_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(source, "LINE_LIMIT_BYTES", 5_000)
        monkeypatch.setattr(source, "BLOCK_BYTES", 1_000)
        path = write(tmp_path / "x", siblings())
        with path.open("ab") as file:
            file.write(b"{" + b" " * 6_000)
        error = refusal(path)
        assert error.message == "the line is longer than 512 MiB; no cassette has such a line"
        assert error.line == len(SIBLINGS) + 1

    def test_memory_does_not_grow_with_the_file(self, tmp_path: Path) -> None:
        answer = "x" * 20_000
        outcome = {"kind": "result", "result": {"output": [], "stopReason": answer}, "redactions": 0}
        many = sealed([SIBLINGS[0], *(interaction(number).to_json() | {"outcome": outcome} for number in range(1, 501))])
        path = tmp_path / "x"
        path.write_bytes(text(many))
        del many
        tracemalloc.start()
        with CassetteReader(path) as reader:
            count = sum(1 for _ in reader)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (count, reader.size_bytes) == (500, path.stat().st_size)
        assert peak < path.stat().st_size / 2

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.sampled_from([b"a", b"\r", b"\n", b"bc", b"\r\n", b"\xe2\x80\xa8"]), max_size=12).map(b"".join))
    def test_lines_do_not_depend_on_blocks(self, data: bytes) -> None:
        whole = [(number, line) for number, line in split_lines(data) if line or data.find(b"\n") >= 0]
        whole = whole[:-1] if whole and not whole[-1][1] else whole
        for size in (1, 2, 3, 1 << 20):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(
                    Source, "_blocks", lambda _, size=size: (data[at : at + size] for at in range(0, len(data), size))
                )
                lines = Source(data)
                assert list(lines) == whole
            assert lines.line_end == len(data)
            assert lines.ends_with_newline == data.endswith(b"\n")

    def test_offsets_and_counts_follow_the_records(self) -> None:
        data = text(sealed(SIBLINGS))
        with CassetteReader(data) as reader:
            ends = [reader.record_end for _ in reader]
            assert ends == [len(b"".join(data.splitlines(keepends=True)[: number + 2])) for number in range(len(ends))]
            assert (reader.lines, reader.record, reader.ends_with_newline) == (len(SIBLINGS), len(SIBLINGS), True)
        with CassetteReader(data[:-1]) as reader:
            assert [reader.record_end for _ in reader][-1] == len(data) - 1
            assert not reader.ends_with_newline
