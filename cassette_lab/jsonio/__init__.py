"""JSON as ECMAScript reads and writes it: exact parsing, canonical text, digests.

Everything that is hashed, compared or verified in this package goes through this room.
Source of the rules: the cassette format's canonical JSON; ECMA-262 ``JSON.parse``, ``JSON.stringify``, ``Number::toString``.
"""

from cassette_lab.jsonio.canonical import CanonicalError, canonical, digest, digest_bytes, utf16_key
from cassette_lab.jsonio.numbers import MAX_SAFE_INTEGER, number_text
from cassette_lab.jsonio.parser import DuplicateMemberError, JsonSyntaxError, parse
from cassette_lab.jsonio.plain import JsonObject, JsonValue, as_integer, camel_case, detach

__all__ = [
    "MAX_SAFE_INTEGER",
    "CanonicalError",
    "DuplicateMemberError",
    "JsonObject",
    "JsonSyntaxError",
    "JsonValue",
    "as_integer",
    "camel_case",
    "canonical",
    "detach",
    "digest",
    "digest_bytes",
    "number_text",
    "parse",
    "utf16_key",
]
