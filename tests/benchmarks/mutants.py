"""Recorded calls with something changed, and their hash repaired: most are wrong, some are right in an unusual way."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from cassette_lab.jsonio import CanonicalError, DuplicateMemberError, JsonSyntaxError, canonical, digest, parse

_VALUE = re.compile(rb'(?<=:)(?:-?[0-9][0-9.eE+-]*|true|false|"(?:[^"\\]|\\.)*")(?=[,}])')
_MEMBER = re.compile(rb'"[A-Za-z]+":(?:-?[0-9][0-9.eE+-]*|true|false|"(?:[^"\\]|\\.)*")(?=[,}])')
_STRUCTURE = re.compile(rb'["{}\[\]:,]')

_VALUES = [
    b"0", b"1", b"-0", b"-1", b"01", b"1.0", b"1.50", b"0.5", b".5", b"5.", b"1e3", b"1E3", b"1e-7", b"0.000001", b"1e21",
    b"1e400", b"5e-324", b"10000000000", b"9999999999.5", b"123456789012.125", b"0.1234567890123456", b"0.12345678901234567",
    b"9007199254740991", b"9007199254740992", b"12345678901234567890", b"4503599627370497.5", b"+1", b"NaN", b"Infinity",
    b"0x10", b"1_0", b"true", b"false", b"null", b"True", b'""', b'"x"', b'"\\u0041"', b'"\\/"', b'"\\u000a"', b'"\\u001f"',
    b'"\\u001F"', b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\xf0\x9f\x99\x82"', b'"completed"', b'"sha256:0"', b"[]", b"{}",
    b'["a"]', b'[{"text":"x","type":"text"}]', b'{"allow":["a"]}', b'"2026-02-30T00:00:00.000Z"', b'"2026-13-01T00:00:00.000Z"',
    b'"2026-01-01T24:00:00.000Z"', b'"Mon, 04 May 2026 09:30:00 GMT"', b'"+012026-05-04T09:30:00Z"', b'"yesterday"',
]  # fmt: skip
_PIECES = [
    b'"', b"\\", b'\\"', b"\\\\", b"\\n", b"\\u0000", b"\\x", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\t", b"\r", b"\x01",
    b"\x7f", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\xc3\xa9", b"\xef\xbb\xbf", b"", b"", b'"a":1,', b',"z":{}',
    b',"label":"x"', b',"structured":{"a":1}', b'"stopReason":"completed"', b'"deny":["x"]', b"start-error", b"0", b"A", b"g",
]  # fmt: skip


def mutants(lines: Sequence[bytes], count: int, seed: int = 1) -> Iterator[bytes]:
    """So many changed lines (without line breaks) of the given ones, the same for the same seed."""
    draw = random.Random(seed)  # noqa: S311 - the same lines every time is the point
    for _ in range(count):
        line = draw.choice(lines).rstrip(b"\n")
        for _ in range(draw.choice([1, 1, 1, 2, 3])):
            line = draw.choice(_CHANGES)(line, draw)
        line = line.replace(b"\n", b"")
        yield repaired(respelled(line) if draw.random() < 0.5 else line)


def respelled(line: bytes) -> bytes:
    """The line in its canonical spelling, if it has one."""
    try:
        return canonical(parse(line))
    except (JsonSyntaxError, CanonicalError):
        return line


def repaired(line: bytes) -> bytes:
    """The line with the hash that it should have; where it is no JSON, the hash of its bytes without the hash member."""
    start = line.find(b',"hash":"sha256:')
    if start < 0 or len(line) < start + 81:
        return line
    try:
        members = parse(line, duplicates=False)
        hexadecimal = digest({name: value for name, value in members.items() if name != "hash"})[7:].encode()
    except (JsonSyntaxError, DuplicateMemberError, CanonicalError, AttributeError):
        hexadecimal = hashlib.sha256(line[:start] + line[start + 81 :]).hexdigest().encode()
    return line[: start + 16] + hexadecimal + line[start + 80 :]


def _change_value(line: bytes, draw: random.Random) -> bytes:
    found = list(_VALUE.finditer(line))
    if not found:
        return line
    match = draw.choice(found)
    return line[: match.start()] + draw.choice(_VALUES) + line[match.end() :]


def _change_piece(line: bytes, draw: random.Random) -> bytes:
    places = [match.start() for match in _STRUCTURE.finditer(line)] if draw.random() < 0.6 else range(len(line))
    if not places:
        return line
    start = draw.choice(places)
    stop = start + draw.choice([0, 0, 1, 1, 2, 3, draw.randint(0, 80)])
    return line[:start] + draw.choice(_PIECES) + line[stop:]


def _swap_members(line: bytes, draw: random.Random) -> bytes:
    neighbours = [(a, b) for a, b in pairwise(_MEMBER.finditer(line)) if line[a.end() : b.start()] == b","]
    if not neighbours:
        return line
    a, b = draw.choice(neighbours)
    return line[: a.start()] + b[0] + b"," + a[0] + line[b.end() :]


def _repeat_member(line: bytes, draw: random.Random) -> bytes:
    match = draw.choice(list(_MEMBER.finditer(line)) or [None])
    return line if match is None else line[: match.end()] + b"," + match[0] + line[match.end() :]


def _drop_member(line: bytes, draw: random.Random) -> bytes:
    match = draw.choice(list(_MEMBER.finditer(line)) or [None])
    return line if match is None else line[: match.start()] + line[match.end() + 1 :]


_CHANGES = [
    _change_value,
    _change_value,
    _change_value,
    _change_piece,
    _change_piece,
    _swap_members,
    _repeat_member,
    _drop_member,
]
