"""The fast load gives what the exact reader gives: the same rows, or the same refusal."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cassette_lab.cassette import scan
from cassette_lab.cassette.columns import Projection, interactions_batch, project_cassette
from cassette_lab.cassette.model import RequestStorage
from cassette_lab.cassette.reader import CassetteReader, exact_interaction, read_cassette
from cassette_lab.cassette.scan import blocks, part, project
from cassette_lab.cassette.scan.blocks import MARGIN_BYTES, Block
from cassette_lab.cassette.scan.grammar import walk
from cassette_lab.cassette.scan.proof import prove
from cassette_lab.cassette.scan.rows import proven_batch
from cassette_lab.cassette.scan.whole import _are_distinct
from cassette_lab.cassette.schema import RecordError
from cassette_lab.errors import FormatError
from cassette_lab.jsonio import canonical, digest, parse
from tests.benchmarks.generate import Shape, cassette_lines
from tests.benchmarks.mutants import mutants, repaired

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden" / "cassette" / "cassettes"

Change = Callable[[dict[str, Any]], object]


@pytest.fixture
def by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a small file goes through the block tier."""
    monkeypatch.setattr(part, "FEW_BYTES", 0)


@pytest.fixture
def only_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, and a line that the block tier does not accept fails the test."""
    monkeypatch.setattr(part, "FEW_BYTES", 0)

    def refuse(line: bytes, *_: object) -> None:
        raise AssertionError(f"left by the block tier: {line!r}")

    monkeypatch.setattr(part, "read_interaction", refuse)


def save(path: Path, lines: Sequence[bytes], newline: bytes = b"\n") -> Path:
    path.write_bytes(b"".join(line.rstrip(b"\n") + newline for line in lines))
    return path


def changed(lines: Sequence[bytes], changes: dict[int, Change]) -> list[bytes]:
    """The records with members changed (by record number, header 0), all hashes made right again, written canonically."""
    out: list[bytes] = []
    previous = ""
    for number, line in enumerate(lines):
        members = parse(line)
        changes.get(number, lambda _: None)(members)
        members.pop("hash", None)
        if number:
            members["previousHash"] = previous
        previous = members["hash"] = digest(members)
        out.append(canonical(members))
    return out


def sample(calls: int, shape: Shape = "mixed") -> list[bytes]:
    return list(cassette_lines(calls, shape))


def assert_same(found: Projection, path: Path, *, bodies: bool = True) -> None:
    expected = project_cassette(read_cassette(path), bodies=bodies)
    for name in expected.calls.column_names:
        assert found.calls[name].to_pylist() == expected.calls[name].to_pylist(), name
    assert found.calls.equals(expected.calls)
    assert found.raw_texts == expected.raw_texts
    assert (found.header, found.last_hash, found.size_bytes) == (expected.header, expected.last_hash, expected.size_bytes)
    assert found.file_sha256 == expected.file_sha256


def refusal(read: Callable[[Path], object], path: Path) -> tuple[Any, ...]:
    with pytest.raises(FormatError) as caught:
        read(path)
    error = caught.value
    return (str(error), error.line, error.record, error.field, error.code)


@pytest.mark.parametrize("shape", ["plain", "mixed", "full"])
@pytest.mark.parametrize("bodies", [False, True])
@pytest.mark.usefixtures("only_by_block")
def test_what_a_recorder_writes_is_proven_by_the_block(tmp_path: Path, shape: Shape, bodies: bool) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(250, shape))
    assert_same(project(path, bodies=bodies), path, bodies=bodies)


@pytest.mark.parametrize("calls", [0, 1, 3])
@pytest.mark.parametrize("shape", ["mixed", "full", "spaced"])
def test_small_files_and_other_spellings(tmp_path: Path, shape: Shape, calls: int) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(calls, shape))
    assert_same(project(path, bodies=True, digest=True), path)


@pytest.mark.usefixtures("by_block")
def test_blank_lines_carriage_returns_and_a_missing_end(tmp_path: Path) -> None:
    lines = sample(40)
    lines[5] += b"\n"
    lines[9] = b"\r\n \t\r\n\xef\xbb\xbf\xc2\xa0\n" + lines[9]
    lines[20] = lines[20].rstrip(b"\n") + b"  \r\n"
    lines[30] = b"  " + lines[30]
    path = tmp_path / "a.cassette.jsonl"
    path.write_bytes(b"\n\n" + b"".join(lines).rstrip(b"\n"))
    found = project(path, bodies=True)
    assert_same(found, path)
    assert found.calls["line"].to_pylist()[:10] == [4, 5, 6, 7, 8, 10, 11, 12, 16, 17]


@pytest.mark.usefixtures("only_by_block")
def test_carriage_returns_at_every_line_are_no_odd_lines(tmp_path: Path) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(40), newline=b"\r\n")
    assert_same(project(path, bodies=True), path)


@pytest.mark.usefixtures("by_block")
def test_lines_of_other_spellings_among_canonical_ones_keep_their_places(tmp_path: Path) -> None:
    lines, spaced = sample(60), sample(60, "spaced")
    mixed = [canonical_line if number % 7 else b" " + canonical_line for number, canonical_line in enumerate(lines)]
    path = save(tmp_path / "a.cassette.jsonl", mixed)
    assert_same(project(path, bodies=True), path)
    path = save(tmp_path / "b.cassette.jsonl", spaced)
    assert_same(project(path, bodies=True), path)


@pytest.mark.usefixtures("by_block")
def test_lone_surrogates_in_the_midst_of_a_block(tmp_path: Path) -> None:
    def relabel(label: str) -> Change:
        return lambda record: record["request"]["metadata"].update(label=label, toolFilter={"allow": [label]})

    lines = changed(sample(30), {7: relabel("half \ud83d"), 8: relabel("\\ud83d"), 21: relabel("\udc00 other half")})
    path = save(tmp_path / "a.cassette.jsonl", lines)
    found = project(path, bodies=True)
    assert_same(found, path)
    labels = found.raw("label")
    assert (labels[6], labels[7], labels[20]) == ("half \ud83d", "\\ud83d", "\udc00 other half")
    assert found.calls["label"].to_pylist()[6:8] == ["half \\ud83d", "\\ud83d"]


@pytest.mark.usefixtures("by_block")
def test_keys_that_differ_only_in_a_lone_surrogate_differ(tmp_path: Path) -> None:
    def rename(key: str) -> Change:
        return lambda record: record.update(callKey=key)

    path = save(tmp_path / "a.cassette.jsonl", changed(sample(9), {2: rename("k\ud83d"), 3: rename("k\\ud83d")}))
    assert_same(project(path, bodies=True), path)
    path = save(tmp_path / "b.cassette.jsonl", changed(sample(9), {2: rename("k\ud83d"), 3: rename("k\ud83d")}))
    assert refusal(project, path) == refusal(read_cassette, path)


@pytest.mark.usefixtures("by_block")
def test_a_line_deeper_than_any_recursion_and_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 20_000)
    monkeypatch.setattr(blocks, "_spare", [])
    deep: Any = []
    for _ in range(20_000):
        deep = [deep]

    def answer(record: dict[str, Any]) -> None:
        result = {"output": [{"type": "text", "text": "y" * 90_000}], "stopReason": "completed", "structured": deep}
        record.update(outcome={"kind": "result", "redactions": 0, "result": result}, published=True)

    path = save(tmp_path / "a.cassette.jsonl", changed(sample(30), {17: answer}))
    assert_same(project(path, bodies=True), path)


NUMBERS = [
    "0", "1", "7.25", "0.001", "0.5", "12345678.125", "1234567890123.5", "123456789012345680000", "9999999999", "10000000000",
    "1e-7", "0.000001", "0.0000012", "5e-324", "1e+21", "1.7976931348623157e+308", "0.1234567890123456", "0.30000000000000004",
    "98.30000000000001", "9007199254740993.5", "1.0", "1.50", "01", "00", "-0", "-1", ".5", "5.", "1e3", "1E+21", "0.10",
    "1e400", "+1", "NaN", "Infinity", "inf", "nan", "0x10", "1_0", "1.2.3", "1..2", '"1"', "true", "null", "", "1.234 ",
    "\uff19",
]  # fmt: skip


@pytest.mark.usefixtures("by_block")
@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_is_read_and_refused_as_the_exact_reader_does(tmp_path: Path, number: str) -> None:
    for member in ("durationMs", "signalAbortedAtMs", "sequence", "promptBytes"):
        lines = sample(3, "plain")
        record = parse(lines[3])
        record["timing"] |= {"startLatencyMs": 0, "durationMs": 1, "signalAbortedAtMs": 1}
        place = record if member == "sequence" else record["timing" if member.endswith("Ms") else "request"]
        place = place.get("metadata", place)
        place[member] = 123456.75
        spelled = canonical({name: value for name, value in record.items() if name != "hash"})
        spelled = spelled.replace(b"123456.75", number.encode())
        line = spelled.replace(b',"kind":', b',"hash":"sha256:%064d","kind":' % 0)
        lines[3] = repaired(line)
        path = save(tmp_path / "a.cassette.jsonl", lines)
        try:
            expected = project_cassette(read_cassette(path))
        except FormatError:
            assert refusal(project, path) == refusal(read_cassette, path)
        else:
            assert project(path).calls.equals(expected.calls)


TIMES = [
    "2026-05-04T09:30:00.250Z", "1969-12-31T23:59:59.999Z", "0000-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z",
    "2024-02-29T12:00:00.000Z", "2026-02-30T00:00:00.000Z", "2026-02-32T00:00:00.000Z", "2026-13-01T00:00:00.000Z",
    "2026-00-10T00:00:00.000Z", "2026-05-04T24:00:00.000Z", "2026-05-04T23:60:00.000Z", "2026-05-04T23:59:60.000Z",
    "2026-05-04t09:30:00.250z", "2026-05-04T09:30:00.250+", "2026-05-04 09:30:00.250Z", "2026-05-04T09:30:00,250Z",
    "2026-05-04T09:30:00Z", "2026-05-04", "+012026-05-04T09:30:00Z", "Mon, 04 May 2026 09:30:00 GMT", "soon", "x" * 24,
    "2026-05-0\u0664T09:30:00.250", 'say "when"', "\n",
]  # fmt: skip


@pytest.mark.usefixtures("only_by_block")
def test_times_of_any_form_in_one_block(tmp_path: Path) -> None:
    def at(time: str) -> Change:
        return lambda record: record["timing"].update(startedAt=time)

    lines = changed(sample(len(TIMES), "plain"), {number: at(time) for number, time in enumerate(TIMES, 1)})
    path = save(tmp_path / "a.cassette.jsonl", lines)
    assert_same(project(path, bodies=True), path)


@pytest.mark.usefixtures("only_by_block")
def test_escapes_that_canonical_json_has_are_no_odd_lines(tmp_path: Path) -> None:
    text = "".join(map(chr, range(0x30))) + '\\\\" \\u0041 \u007f\u2028 é日🎼'

    def write_it(record: dict[str, Any]) -> None:
        record["request"]["metadata"]["label"] = text
        error = {"name": text, "message": text, "code": text}
        record.update(outcome={"kind": "result-error", "error": error}, published=True)

    path = save(tmp_path / "a.cassette.jsonl", changed(sample(9, "plain"), {4: write_it}))
    found = project(path, bodies=True)
    assert_same(found, path)
    assert [found.raw(name)[3] for name in ("label", "error_name", "error_code", "error_message")] == [text] * 4


@pytest.mark.usefixtures("only_by_block")
def test_repeated_calls_in_any_physical_order(tmp_path: Path) -> None:
    def repeat(occurrence: int, sequence: int) -> Change:
        fingerprint = "sha256:" + "7" * 64
        return lambda record: record.update(
            requestFingerprint=fingerprint, parentKey="root", occurrence=occurrence, sequence=sequence
        )

    lines = changed(sample(20, "plain"), {3: repeat(3, 9), 4: repeat(1, 3), 9: repeat(2, 4)})
    path = save(tmp_path / "a.cassette.jsonl", lines)
    assert_same(project(path, bodies=True), path)
    for broken in (repeat(4, 9), repeat(1, 9), repeat(2, 9)):
        lines = changed(sample(20, "plain"), {3: broken, 4: repeat(1, 3), 9: repeat(2, 4)})
        path = save(tmp_path / "a.cassette.jsonl", lines)
        assert refusal(project, path) == refusal(read_cassette, path)


@pytest.mark.parametrize(
    ("texts", "distinct"),
    [
        (["a"], True),
        (["a", "b", "ab", "", "ba"], True),
        (["a", "b", "a"], False),
        (["", ""], False),
        (["x" * 15, "x" * 16, "x" * 17], True),
        (["same start, middle one, the same end", "same start, middle two, the same end"], True),
        (["same start, the same middle, the same end"] * 2, False),
        ([f"root/call-{number:09}~1" for number in range(500)], True),
        ([*(f"root/call-{number:09}~1" for number in range(500)), "root/call-000000007~1"], False),
    ],
)
def test_distinct_texts_in_chunks_of_any_kind(texts: list[str], distinct: bool) -> None:
    for size in (1, 2, 3, len(texts)):
        whole_column = pa.array(["before", *texts, "behind"])
        chunks = [whole_column.slice(1 + start, min(size, len(texts) - start)) for start in range(0, len(texts), size)]
        assert _are_distinct(pa.chunked_array(chunks)) is distinct


ERROR = {"kind": "start-error", "error": {"name": "Error", "message": ""}}

BROKEN: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "a line removed": lambda lines: lines[:7] + lines[8:],
    "two lines swapped": lambda lines: [*lines[:7], lines[8], lines[7], *lines[9:]],
    "a body edited": lambda lines: [*lines[:7], lines[7].replace(b"root/task", b"root/tusk"), *lines[8:]],
    "a sequence left out": lambda lines: changed(lines, {5: lambda record: record.update(sequence=400)}),
    "a sequence twice": lambda lines: changed(lines, {5: lambda record: record.update(sequence=4)}),
    "a call key twice": lambda lines: changed(lines, {5: lambda record: record.update(callKey=parse(lines[9])["callKey"])}),
    "an occurrence without the first": lambda lines: changed(lines, {5: lambda record: record.update(occurrence=2)}),
    "duration below latency": lambda lines: changed(lines, {5: lambda record: record["timing"].update(durationMs=0)}),
    "local, not published": lambda lines: changed(
        lines, {5: lambda record: record.update(published=False, local=True, outcome=ERROR)}
    ),
    "published start error": lambda lines: changed(lines, {5: lambda record: record.update(published=True, outcome=ERROR)}),
    "fingerprint in capitals": lambda lines: changed(
        lines, {5: lambda record: record.update(requestFingerprint="sha256:" + "A" * 64)}
    ),
    "another storage": lambda lines: changed(
        lines,
        {5: lambda record: record.update(request={"storage": "full", "redactions": 0, "value": {"prompt": []}})},
    ),
    "a second header": lambda lines: [*lines[:5], lines[0], *lines[5:]],
    "a torn end": lambda lines: [*lines[:-1], lines[-1][:-40]],
    "broken UTF-8": lambda lines: [*lines[:5], lines[5].replace(b"task", b"t\xffsk"), *lines[6:]],
    "a member twice": lambda lines: [
        *lines[:5],
        repaired(lines[5].replace(b'"local":', b'"local":false,"local":')),
        *lines[6:],
    ],
    "no header": lambda lines: lines[1:],
    "nothing": lambda _: [],
}


@pytest.mark.usefixtures("by_block")
@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_file_is_refused_as_the_exact_reader_does(tmp_path: Path, how: str) -> None:
    path = save(tmp_path / "a.cassette.jsonl", BROKEN[how](sample(30, "plain")))
    assert refusal(project, path) == refusal(read_cassette, path)


@pytest.mark.usefixtures("by_block")
def test_metadata_in_a_file_that_says_full_is_refused(tmp_path: Path) -> None:
    lines = changed(sample(30, "plain"), {0: lambda header: header.update(requestStorage="full")})
    path = save(tmp_path / "a.cassette.jsonl", lines)
    assert refusal(project, path) == refusal(read_cassette, path)


@pytest.mark.usefixtures("by_block")
def test_the_same_refusal_every_time(tmp_path: Path) -> None:
    lines = sample(4, "plain")
    path = save(tmp_path / "a.cassette.jsonl", [*lines[:4], lines[4].replace(b"completed", b"refusal")])
    assert len({refusal(project, path) for _ in range(200)}) == 1


def test_missing_files_folders_and_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "missing", tmp_path, tmp_path / "pipe"):
        assert refusal(project, path) == refusal(read_cassette, path)


def test_a_file_that_goes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(3))
    opened = CassetteReader.__exit__

    def gone(reader: CassetteReader, *error: object) -> None:
        opened(reader, *error)
        path.unlink(missing_ok=True)

    monkeypatch.setattr(CassetteReader, "__exit__", gone)
    with pytest.raises(FormatError, match="there is no such file"):
        project(path)


@pytest.mark.usefixtures("by_block")
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(tmp_path / "a.cassette.jsonl", sample(30))
    whole = blocks.read_blocks

    def growing(*arguments: Any) -> Iterator[Block]:
        for block in whole(*arguments):
            yield block
            with path.open("ab") as file:
                file.write(b"\n")

    monkeypatch.setattr(part, "read_blocks", growing)
    with pytest.raises(FormatError, match="changed while it was read"):
        project(path)


def accepted(lines: Sequence[bytes], storage: RequestStorage) -> int:
    """How many of the lines the block tier accepts. Each must be accepted by the exact tier, too, with the same row."""
    data = b"".join(line + b"\n" for line in lines)
    block = Block(bytearray(data + bytes(MARGIN_BYTES)), len(data))
    found = walk(block, storage)
    proof = prove(block, found)
    rows = proof.rows.tolist()
    interactions = []
    for row in rows:
        try:
            interactions.append(exact_interaction(block.line(row), storage, None, int(block.lines[row])))
        except RecordError as error:
            raise AssertionError(f"{error}: {block.line(row)!r}") from error
    expected, raw_texts = interactions_batch(interactions, bodies=True)
    if rows:
        batch = proven_batch(block, found, proof, 1, bodies=True)
        for name in batch.schema.names:
            assert batch.column(name).to_pylist() == expected.column(name).to_pylist(), name
        assert batch.equals(expected)
        assert not raw_texts
    return len(rows)


@pytest.mark.parametrize(("shape", "storage"), [("plain", "metadata"), ("mixed", "metadata"), ("full", "full")])
def test_the_block_tier_accepts_no_mutant_that_the_exact_tier_refuses(shape: Shape, storage: RequestStorage) -> None:
    lines = sample(60, shape)[1:]
    changed_lines = list(mutants(lines, 700))
    count = sum(accepted(changed_lines[start : start + 100], storage) for start in range(0, len(changed_lines), 100))
    assert 40 < count < 400


@pytest.mark.usefixtures("by_block")
@pytest.mark.parametrize("shape", ["mixed", "full"])
def test_a_file_with_one_mutant_is_read_or_refused_as_the_exact_reader_does(tmp_path: Path, shape: Shape) -> None:
    lines = sample(8, shape)
    for number, mutant in enumerate(mutants(lines[1:], 60, seed=5)):
        place = 1 + number % 8
        path = save(tmp_path / "a.cassette.jsonl", rechained(lines, place, mutant))
        try:
            expected = project_cassette(read_cassette(path), bodies=True)
        except FormatError:
            assert refusal(project, path) == refusal(read_cassette, path)
        else:
            assert project(path, bodies=True).calls.equals(expected.calls)


def rechained(lines: Sequence[bytes], place: int, mutant: bytes) -> list[bytes]:
    """The lines with another record in one place, and the chain behind it made right again where that is possible."""
    out = [line.rstrip(b"\n") for line in lines[:place]]
    previous = parse(out[-1])["hash"]
    out.append(repaired(with_previous(mutant, previous)))
    for line in lines[place + 1 :]:
        start = out[-1].find(b',"hash":"sha256:')
        out.append(repaired(with_previous(line.rstrip(b"\n"), out[-1][start + 9 : start + 80].decode("utf-8", "replace"))))
    return out


def with_previous(line: bytes, previous: str) -> bytes:
    start = line.find(b'"previousHash":"sha256:')
    return line if start < 0 else line[: start + 16] + previous.encode() + line[start + 87 :]


def golden(folder: str) -> list[Path]:
    return sorted((GOLDEN / folder).glob("*.cassette.jsonl"))


@pytest.mark.skipif(not GOLDEN.exists(), reason="shared data not present")
def test_valid_files_of_the_original(monkeypatch: pytest.MonkeyPatch) -> None:
    assert golden("valid")
    for few_bytes in (0, part.FEW_BYTES):
        monkeypatch.setattr(part, "FEW_BYTES", few_bytes)
        for path in golden("valid"):
            assert_same(project(path, bodies=True), path)


@pytest.mark.skipif(not GOLDEN.exists(), reason="shared data not present")
@pytest.mark.usefixtures("by_block")
def test_invalid_files_of_the_original() -> None:
    assert golden("invalid")
    for path in golden("invalid"):
        assert refusal(project, path) == refusal(read_cassette, path)


def test_the_exact_reader_has_the_last_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def doubt(*_: object, **__: object) -> None:
        raise blocks.DoubtError

    monkeypatch.setattr(scan, "scan_alone", doubt)
    monkeypatch.setattr(scan, "_EXACT_ROWS", 7)
    path = save(tmp_path / "a.cassette.jsonl", sample(20))
    assert_same(project(path, bodies=True), path)
