"""Writing a cassette: what is in the file, what is refused, and what a failure leaves behind."""

from __future__ import annotations

import dataclasses
import errno
import gc
import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.cassette import writer as writer_room
from cassette_lab.cassette.lock import read_owner
from cassette_lab.cassette.model import (
    ErrorFacts,
    Header,
    Interaction,
    Outcome,
    ProviderFacts,
    RequestMetadata,
    StoredRequest,
    Timing,
)
from cassette_lab.cassette.reader import read_cassette
from cassette_lab.cassette.writer import CassetteWriter, OpenMode, RecordedGroup, make_header
from cassette_lab.errors import ClosedError, ConfigError, FormatError, LockedError
from cassette_lab.jsonio.dates import date_parse_ms
from tests.unit.cassette_samples import DATA, DIGEST, full, header, interaction, records, result, sealed, siblings, text, write


def lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".writer.lock")


class TestHeader:
    def test_an_id_a_time_and_a_hash_are_made(self) -> None:
        one, other = make_header(ProviderFacts("cassette", "spawn")), make_header(ProviderFacts("cassette", "spawn"))
        assert one.cassette_id != other.cassette_id
        assert date_parse_ms(one.created_at) is not None
        assert one.hash.startswith("sha256:")
        assert (one.request_storage, one.redact_secrets, one.redaction_patterns) == ("metadata", True, ())

    @pytest.mark.parametrize(
        ("changes", "field"),
        [
            ({"created_at": "yesterday"}, "createdAt"),
            ({"cassette_id": ""}, "cassetteId"),
            ({"provider": ProviderFacts("", "spawn")}, "provider.cassette"),
            ({"request_storage": "some"}, "requestStorage"),
            ({"redaction_patterns": (1,)}, "redactionPatterns[0]"),
        ],
    )
    def test_bad_values_are_refused(self, changes: dict[str, Any], field: str) -> None:
        with pytest.raises(FormatError) as caught:
            header(**changes)
        assert caught.value.field == field

    def test_a_bad_header_creates_and_locks_nothing(self, tmp_path: Path) -> None:
        bad = dataclasses.replace(header(), created_at="yesterday")
        with pytest.raises(FormatError, match="the header cannot be written: createdAt must be a date"):
            CassetteWriter.open(tmp_path / "new" / "x", bad)
        assert list(tmp_path.iterdir()) == []


class TestLines:
    @pytest.mark.parametrize(("name", "cassette"), [("siblings", siblings()), ("full", full())])
    def test_the_samples_are_written_as_they_stand(
        self, tmp_path: Path, name: str, cassette: tuple[Header, list[Interaction]]
    ) -> None:
        data = write(tmp_path / "x", cassette).read_bytes()
        assert data == (DATA / f"{name}.cassette.jsonl").read_bytes()
        assert data == text(sealed(records(cassette)))

    def test_what_append_returns_is_what_a_reader_finds(self, tmp_path: Path) -> None:
        first, calls = siblings()
        with CassetteWriter.open(tmp_path / "x", first) as writer:
            written = [writer.append(call) for call in calls]
        found = read_cassette(tmp_path / "x").interactions
        assert tuple(written) == found
        assert [call.line for call in written] == [call.line for call in found]

    def test_hashes_it_carries_are_replaced(self, tmp_path: Path) -> None:
        stale = dataclasses.replace(interaction(1), previous_hash="sha256:" + "0" * 64, hash="nonsense")
        path = write(tmp_path / "x", (header(), [stale]))
        assert read_cassette(path).interactions[0].previous_hash == header().hash

    def test_each_record_is_in_the_file_when_append_returns(self, tmp_path: Path) -> None:
        with CassetteWriter.open(tmp_path / "x", header()) as writer:
            assert read_cassette(tmp_path / "x").interactions == ()
            for number in (1, 2, 3):
                writer.append(interaction(number))
                assert len(read_cassette(tmp_path / "x").interactions) == number
                assert writer.next_sequence == number + 1

    def test_a_call_key_that_looks_like_a_record(self, tmp_path: Path) -> None:
        call = interaction(1, call_key=',"kind":"cassette/interaction","hash":"sha256:')
        path = write(tmp_path / "x", (header(), [call]))
        assert read_cassette(path).interactions[0].call_key == call.call_key

    def test_twenty_thousand_levels(self, tmp_path: Path) -> None:
        blocks = [{"type": "text", "text": "deep"}]
        for _ in range(20_000):
            blocks = [{"type": "tool-result", "toolCallId": "c", "content": blocks}]  # type: ignore[dict-item]
        path = write(tmp_path / "x", (header(), [interaction(1, outcome=result(list(blocks)))]))
        assert path.read_bytes().count(b"tool-result") == 20_000
        assert len(read_cassette(path).interactions) == 1

    json_values = st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    )  # fmt: skip
    texts = st.text(min_size=1, max_size=8)
    outcomes = st.builds(
        lambda value, reason, redactions: result([{"type": "text", "text": reason}], reason, redactions, structured=value),
        json_values.filter(lambda value: "-0.0" not in repr(value)),
        st.text(max_size=6),
        st.integers(0, 3),
    ) | st.builds(lambda name, message: Outcome("result-error", error=ErrorFacts(name, message, message)), texts, st.text())
    metadata = st.builds(
        RequestMetadata, st.integers(0, 9), st.integers(0, 2**53 - 1), st.booleans(), st.booleans(), st.none() | st.text(),
        st.none() | texts, st.none(), st.none() | st.integers(0, 5),
        st.none() | st.fixed_dictionaries({}, optional={"allow": st.lists(st.text(), max_size=2)}),
    )  # fmt: skip
    timings = st.builds(
        lambda start, latency, more, aborted: Timing(start, latency, latency + more, aborted),
        texts, st.floats(0, 1e9), st.integers(0, 10**9), st.none() | st.floats(0, 1e300),
    )  # fmt: skip

    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.tuples(outcomes, metadata, timings, texts), max_size=3))
    def test_reading_gives_back_what_was_written(
        self, tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[Outcome, RequestMetadata, Timing, str]]
    ) -> None:
        path = tmp_path_factory.mktemp("round") / "x"
        calls = [
            interaction(number, outcome=outcome, request=StoredRequest(request), timing=timing, parent_key=parent)
            for number, (outcome, request, timing, parent) in enumerate(drawn, 1)
        ]
        write(path, (header(), calls))
        found = read_cassette(path)
        assert found.header == header()
        assert [dataclasses.replace(call, previous_hash="", hash="") for call in found.interactions] == calls
        again = write(path.with_name("again"), (found.header, found.interactions))
        assert again.read_bytes() == path.read_bytes()


class TestRefused:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (interaction(0), "sequence must be a whole number from 1 to 2**53 - 1"),
            (interaction(3, call_key=""), "callKey must be a non-empty string, not an empty string"),
            (interaction(3, request=full()[1][0].request), "request.storage is full where the header says"),
            (interaction(3, outcome=result([{"type": "text"}])), "outcome.result.output[0].text is missing"),
            (interaction(3, outcome=result([], structured=float("nan"))), "a number is not finite"),
            (interaction(3, outcome=result([], structured=-0.0)), "a number is -0"),
            (interaction(3, outcome=result([], structured={1: 2})), "a member name is int, not a string"),
            (interaction(3, outcome=result([], structured={"x"})), "set is not plain JSON"),
            (interaction(3, timing=Timing("x", 2, 1)), "timing.durationMs must not be less than timing.startLatencyMs"),
            (interaction(3, published=False), "published must be true where the outcome is a result"),
            (interaction(1), "sequence 1 is used twice in this file"),
            (interaction(3, call_key=interaction(1).call_key), "the callKey of sequence 3 is used twice in this file"),
            (
                interaction(3, request_fingerprint=interaction(1).request_fingerprint),
                "occurrence 1 of one call from one parent",
            ),
        ],
    )
    def test_a_bad_record_writes_nothing_and_later_ones_go_on(self, tmp_path: Path, call: Interaction, message: str) -> None:
        path = tmp_path / "x"
        with CassetteWriter.open(path, header()) as writer:
            writer.append(interaction(1))
            before = path.read_bytes()
            with pytest.raises(FormatError) as caught:
                writer.append(call)
            assert caught.value.message.startswith(f"the call was not recorded: {message}")
            assert caught.value.path == str(path)
            assert path.read_bytes() == before
            writer.append(interaction(2))
        assert [call.sequence for call in read_cassette(path).interactions] == [1, 2]

    def test_a_line_that_no_reader_could_hold(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with CassetteWriter.open(tmp_path / "x", header()) as writer:
            monkeypatch.setattr(writer_room, "LINE_LIMIT_BYTES", 2_000)
            with pytest.raises(FormatError, match="more than a line may have"):
                writer.append(interaction(1, outcome=result([{"type": "text", "text": "x" * 2_000}])))
            writer.append(interaction(1))

    def test_after_close(self, tmp_path: Path) -> None:
        writer = CassetteWriter.open(tmp_path / "x", header())
        writer.close()
        writer.close()
        assert writer.closed
        with pytest.raises(ClosedError, match="the cassette is closed; the call was not recorded"):
            writer.append(interaction(1))

    @pytest.mark.parametrize("options", [{"mode": "update"}, {"fsync": "never"}])
    def test_options(self, tmp_path: Path, options: dict[str, Any]) -> None:
        with pytest.raises(ConfigError):
            CassetteWriter.open(tmp_path / "x", header(), **options)
        assert list(tmp_path.iterdir()) == []


class TestModes:
    def test_create_makes_folders_and_refuses_a_file_that_is_there(self, tmp_path: Path) -> None:
        path = write(tmp_path / "a" / "b" / "x", siblings())
        before = path.read_bytes()
        with pytest.raises(FormatError) as caught:
            CassetteWriter.open(path, header())
        assert caught.value.message == (
            'there is such a file already; record with write_mode="truncate", "append" or "once", or name another file'
        )
        assert path.read_bytes() == before
        assert not lock_of(path).exists()

    def test_truncate_begins_anew(self, tmp_path: Path) -> None:
        path = write(tmp_path / "x", siblings())
        with CassetteWriter.open(path, header(cassette_id="new"), mode="truncate") as writer:
            writer.append(interaction(1))
        found = read_cassette(path)
        assert (found.header.cassette_id, len(found.interactions)) == ("new", 1)

    def test_append_keeps_identity_and_goes_on_with_chain_and_sequence(self, tmp_path: Path) -> None:
        path = write(tmp_path / "x", siblings())
        before = path.read_bytes()
        with CassetteWriter.open(path, header(cassette_id="other", created_at="2030-01-01"), mode="append") as writer:
            assert writer.header == siblings()[0]
            assert writer.next_sequence == 9
            groups = {call.group: call.occurrence for call in sorted(siblings()[1], key=lambda call: call.occurrence)}
            assert sorted(writer.existing) == sorted(RecordedGroup(*each) for each in groups.items())
            written = writer.append(interaction(9))
        assert path.read_bytes().startswith(before)
        assert read_cassette(path).interactions[-1] == written
        assert written.line == 10

    def test_append_to_nothing_creates(self, tmp_path: Path) -> None:
        with CassetteWriter.open(tmp_path / "x", header(), mode="append") as writer:
            assert writer.existing == ()
            writer.append(interaction(1))
        assert (tmp_path / "x").read_bytes() == text(sealed(records((header(), [interaction(1)]))))

    @pytest.mark.parametrize("ending", [b"", b"\r", b"\n\n  ", b"\r\n"])
    def test_append_begins_on_a_line_of_its_own(self, tmp_path: Path, ending: bytes) -> None:
        path = write(tmp_path / "x", siblings())
        path.write_bytes(path.read_bytes()[:-1] + ending)
        with CassetteWriter.open(path, header(), mode="append") as writer:
            written = writer.append(interaction(9))
        found = read_cassette(path)
        assert found.interactions[-1] == written
        assert found.interactions[-1].line == written.line

    @pytest.mark.parametrize(
        ("wanted", "field"),
        [
            (header(provider=ProviderFacts("cassette", "fork")), "provider"),
            (header(request_storage="full"), "requestStorage"),
            (header(redact_secrets=True), "redactSecrets"),
            (header(redaction_patterns=("x",)), "redactionPatterns"),
        ],
    )
    def test_append_wants_the_same_policy(self, tmp_path: Path, wanted: Header, field: str) -> None:
        path = write(tmp_path / "x", siblings())
        before = path.read_bytes()
        with pytest.raises(FormatError) as caught:
            CassetteWriter.open(path, wanted, mode="append")
        assert caught.value.field == field
        assert caught.value.message == (
            f"the file was recorded with another {field}; append with the same one, or record into another file"
        )
        assert path.read_bytes() == before
        assert not lock_of(path).exists()

    def test_append_verifies_first(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        torn = (DATA / "torn.cassette.jsonl").read_bytes()
        path.write_bytes(torn)
        with pytest.raises(FormatError, match="the record is cut off"):
            CassetteWriter.open(path, header(), mode="append")
        assert path.read_bytes() == torn
        assert not lock_of(path).exists()

    def test_append_checks_new_calls_against_old_ones(self, tmp_path: Path) -> None:
        path = write(tmp_path / "x", siblings())
        with CassetteWriter.open(path, header(), mode="append") as writer:
            with pytest.raises(FormatError, match="sequence 8 is used twice"):
                writer.append(interaction(8, call_key="new"))
            equal = siblings()[1][-1]
            with pytest.raises(FormatError, match="occurrence 2 of one call"):
                writer.append(dataclasses.replace(equal, sequence=9, call_key="new", occurrence=2))

    @pytest.mark.parametrize("mode", ["create", "truncate", "append"])
    def test_only_files_are_written(self, tmp_path: Path, mode: OpenMode) -> None:
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        (tmp_path / "file").write_bytes(b"")
        for name, message in (
            ("", "this is a folder; name a file in it"),
            ("pipe", "this is a device or pipe, not a file; name another one"),
            ("link", "this is a link to a file that is not there; name the file itself"),
            ("file/x", "a part of this path is a file, not a folder; name another place"),
            ("n" * 300, "the file cannot be reached (File name too long)"),
            ("a\0b", "the file cannot be reached ("),  # Python versions word what follows differently
        ):
            with pytest.raises(FormatError) as caught:
                CassetteWriter.open(tmp_path / name, header(), mode=mode)
            assert caught.value.message.startswith(message)
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "link", "pipe"]

    def test_a_link_is_locked_where_the_file_is(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        path = write(tmp_path / "real" / "x", siblings())
        (tmp_path / "link").symlink_to(path)
        with CassetteWriter.open(tmp_path / "link", header(), mode="append"):
            assert lock_of(path).is_dir()
            with pytest.raises(LockedError):
                CassetteWriter.open(path, header(), mode="append")


class TestLock:
    @pytest.mark.parametrize("mode", ["create", "truncate", "append"])
    def test_a_held_file_is_not_touched(self, tmp_path: Path, mode: OpenMode) -> None:
        path = tmp_path / "x"
        with CassetteWriter.open(path, header()) as writer:
            writer.append(interaction(1))
            before = path.read_bytes()
            with pytest.raises(LockedError) as caught:
                CassetteWriter.open(path, header(), mode=mode)
            assert caught.value.owner is not None
            assert caught.value.owner["pid"] == os.getpid()
            assert caught.value.code == "CASSETTE_FORMAT"
            assert path.read_bytes() == before
            writer.append(interaction(2))
        assert not lock_of(path).exists()

    def test_a_writer_that_is_dropped_gives_the_lock_back(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        writer = CassetteWriter.open(path, header())
        writer.append(interaction(1))
        assert read_owner(path) is not None
        del writer
        gc.collect()
        assert read_owner(path) is None
        assert len(read_cassette(path).interactions) == 1

    def test_a_process_that_ends_gives_the_lock_back(self, tmp_path: Path) -> None:
        script(f"""
            from tests.unit.cassette_samples import header, interaction
            from cassette_lab.cassette.writer import CassetteWriter
            writer = CassetteWriter.open({str(tmp_path / "x")!r}, header())
            writer.append(interaction(1))
        """)
        assert read_owner(tmp_path / "x") is None
        assert len(read_cassette(tmp_path / "x").interactions) == 1

    def test_a_forked_process_neither_writes_nor_unlocks(self, tmp_path: Path) -> None:
        out = script(f"""
            import os
            from tests.unit.cassette_samples import header, interaction
            from cassette_lab.cassette.lock import read_owner
            from cassette_lab.cassette.writer import CassetteWriter
            from cassette_lab.errors import FormatError
            writer = CassetteWriter.open({str(tmp_path / "x")!r}, header())
            if not (child := os.fork()):
                for act in (lambda: writer.append(interaction(1)), writer.close):
                    try:
                        act()
                    except FormatError as error:
                        print(error.message, flush=True)
                del writer
                os._exit(0)
            os.waitpid(child, 0)
            print(read_owner(writer.path)["pid"] == os.getpid())
            writer.append(interaction(1))
            writer.close()
        """)
        refusal = "the cassette was opened in another process; record in the one that opened it"
        assert out.splitlines() == [refusal, refusal, "True"]
        assert len(read_cassette(tmp_path / "x").interactions) == 1


class TestDurability:
    @pytest.mark.parametrize(("fsync", "records_"), [("close", 0), ("each", 3)])
    def test_what_is_synced(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fsync: Any, records_: int) -> None:
        synced: list[int] = []
        path = tmp_path / "x"
        real = os.fsync

        def counted(descriptor: int) -> None:
            real(descriptor)
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                synced.append(path.stat().st_size)

        monkeypatch.setattr(os, "fsync", counted)
        with CassetteWriter.open(path, header(), fsync=fsync) as writer:
            assert synced[-1] == path.stat().st_size  # the header, at once
            before = len(synced)
            for number in (1, 2, 3):
                writer.append(interaction(number))
            assert len(synced) - before == records_
        assert synced[-1] == path.stat().st_size  # and the end

    def failing_write(self, monkeypatch: pytest.MonkeyPatch, after: int, error: BaseException) -> Callable[[], None]:
        """Let the next write get ``after`` bytes through, then raise. Returns how to mend it."""
        real = os.write
        left = [after]

        def write_some(descriptor: int, data: Any) -> int:
            if not left[0]:
                raise error
            done = real(descriptor, bytes(data)[: left[0]])
            left[0] -= done
            return done

        monkeypatch.setattr(os, "write", write_some)
        return lambda: monkeypatch.setattr(os, "write", real)

    def test_a_short_write_is_gone_on_with(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        real = os.write
        with CassetteWriter.open(tmp_path / "x", header()) as writer:
            monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data)[:100]))
            writer.append(interaction(1))
            monkeypatch.undo()
        assert (tmp_path / "x").read_bytes() == text(sealed(records((header(), [interaction(1)]))))

    def test_a_full_disk_leaves_whole_records_and_a_usable_writer(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "x"
        with CassetteWriter.open(path, header()) as writer:
            writer.append(interaction(1))
            before = path.read_bytes()
            mend = self.failing_write(monkeypatch, 300, OSError(errno.ENOSPC, "No space left on device"))
            with pytest.raises(FormatError) as caught:
                writer.append(interaction(2))
            mend()
            assert caught.value.message == (
                "the call could not be written (No space left on device); "
                "the file ends with the last whole record, and recording can go on"
            )
            assert path.read_bytes() == before
            writer.append(interaction(2))
        assert [call.sequence for call in read_cassette(path).interactions] == [1, 2]

    def test_a_real_limit_of_the_system(self, tmp_path: Path) -> None:
        out = script(f"""
            import resource
            from pathlib import Path
            from tests.unit.cassette_samples import header, interaction
            from cassette_lab.cassette.writer import CassetteWriter
            from cassette_lab.errors import FormatError
            path = Path({str(tmp_path / "x")!r})
            writer = CassetteWriter.open(path, header())
            resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY))
            for number in range(1, 9):
                try:
                    writer.append(interaction(number))
                except FormatError as error:
                    print(number, error.message)
                    break
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            writer.append(interaction(number))
            writer.close()
        """)
        assert "the call could not be written (File too large)" in out
        number = int(out.split()[0])
        assert [call.sequence for call in read_cassette(tmp_path / "x").interactions] == list(range(1, number + 1))

    def test_a_part_that_cannot_be_taken_back_ends_the_recording(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "x"
        writer = CassetteWriter.open(path, header())
        writer.append(interaction(1))
        mend = self.failing_write(monkeypatch, 50, OSError(errno.EIO, "Input/output error"))

        def refuse(*_: object) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "ftruncate", refuse)
        with pytest.raises(FormatError, match=r"could not be taken back .* keep the file's verified start"):
            writer.append(interaction(2))
        mend()
        with pytest.raises(FormatError, match="nothing more is recorded"):
            writer.append(interaction(2))
        writer.close()
        assert not lock_of(path).exists()

    def test_an_interrupt_leaves_no_line_that_nobody_knows_of(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "x"
        real = os.write

        def interrupted(descriptor: int, data: Any) -> int:
            real(descriptor, data)
            raise KeyboardInterrupt

        with CassetteWriter.open(path, header()) as writer:
            monkeypatch.setattr(os, "write", interrupted)
            with pytest.raises(KeyboardInterrupt):
                writer.append(interaction(1))
            monkeypatch.undo()
            writer.append(interaction(1))
        assert len(read_cassette(path).interactions) == 1

    @pytest.mark.parametrize("mode", ["create", "truncate"])
    def test_a_header_that_does_not_fit_leaves_no_file_of_ours(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: OpenMode
    ) -> None:
        path = tmp_path / "x"
        real = os.write

        def refuse(descriptor: int, data: Any) -> int:
            if b"cassette/header" not in bytes(data):
                return real(descriptor, data)  # the lock's marker
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", refuse)
        with pytest.raises(FormatError, match=r"the header could not be written \(No space left on device\)"):
            CassetteWriter.open(path, header(), mode=mode)
        assert path.exists() is (mode == "truncate")
        assert not lock_of(path).exists()

    def test_a_file_that_is_taken_away_is_noticed(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        writer = CassetteWriter.open(path, header())
        path.rename(tmp_path / "y")
        with pytest.raises(FormatError, match="the file was removed or replaced while it was recorded"):
            writer.close()
        assert not lock_of(path).exists()
        writer.close()

    def test_a_file_that_something_else_writes_is_noticed(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        writer = CassetteWriter.open(path, header())
        with path.open("ab") as file:
            file.write(b"{}\n")
        with pytest.raises(FormatError, match="something else wrote into the file while it was recorded"):
            writer.close()
        assert not lock_of(path).exists()

    def test_threads_take_turns(self, tmp_path: Path) -> None:
        with CassetteWriter.open(tmp_path / "x", header()) as writer:

            def record(first: int) -> None:
                for number in range(first, 201, 4):
                    writer.append(interaction(number))

            threads = [threading.Thread(target=record, args=(first,)) for first in (1, 2, 3, 4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(30)
        assert sorted(call.sequence for call in read_cassette(tmp_path / "x").interactions) == list(range(1, 201))


def script(source: str) -> str:
    """Run Python source in a process of its own; its standard output."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_marker_is_json_that_the_format_knows(tmp_path: Path) -> None:
    with CassetteWriter.open(tmp_path / "x", header()):
        (marker,) = lock_of(tmp_path / "x").iterdir()
        owner = json.loads(marker.read_text())
    assert marker.name == f"{owner['ownerToken']}.json"
    assert {"ownerToken", "pid", "acquiredAt", "host"} <= set(owner)
    assert owner["pid"] == os.getpid()
    assert DIGEST not in str(owner)
