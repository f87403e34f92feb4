"""Which records a cassette may hold: closed members, their types and ranges, the arms, the content blocks.

``check_header`` and ``check_interaction`` pass or raise ``SchemaError``, which names the dotted member. They look at
plain parsed JSON, work at any nesting depth and do linear work. Hashes and whatever concerns more than one record are
the reader's and ``checks``'.

Source: cassette format 1, Header and Interaction.
"""

from __future__ import annotations

import re
from collections.abc import KeysView, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from cassette_lab.cassette.members import INTERACTION_KIND
from cassette_lab.cassette.model import (
    FORMAT,
    HEADER_KIND,
    OUTCOME_KINDS,
    REQUEST_STORAGES,
    TARGET,
    VERSION,
    RequestStorage,
)
from cassette_lab.jsonio import MAX_SAFE_INTEGER, as_integer
from cassette_lab.jsonio.dates import date_parse_ms
from cassette_lab.jsonio.text import show

IMAGE_MEDIA_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})

_SESSION: Final = "see `cassette-lab session`, load() and open_session(); rescue_session() saves a damaged one"
_FIELD_CHARACTERS = 160
_NAME_CHARACTERS = 60


class RecordError(ValueError):
    """A record that breaks a rule: ``message`` says which, ``field`` is the dotted member, ``way_out`` what to do.

    Internal: reader and writer turn it into a ``FormatError`` with file and line.
    """

    def __init__(self, field: str | None, message: str, way_out: str | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.message = message
        self.way_out = way_out


class SchemaError(RecordError):
    """A record with a member missing, too many, or of the wrong kind."""


def check_header(members: Any) -> None:
    """Pass a cassette's first record (hash excepted), or raise ``SchemaError``."""
    if type(members) is dict and members.get("kind") == INTERACTION_KIND:
        raise SchemaError("kind", "the file starts with a call; its header is missing")
    if type(members) is dict and members.get("type") == "session" and "kind" not in members:
        raise SchemaError("type", "this is a session log, not a cassette", _SESSION)
    _closed(members, "", _HEADER)
    _exactly(members["kind"], "kind", HEADER_KIND)
    _exactly(members["format"], "format", FORMAT)
    if as_integer(members["version"]) != VERSION:
        raise SchemaError("version", f"version must be {VERSION}", "read it with the program that wrote it")
    _text(members["cassetteId"], "cassetteId")
    if type(members["createdAt"]) is not str or date_parse_ms(members["createdAt"]) is None:
        raise SchemaError("createdAt", "createdAt must be a date, as 2026-01-31T12:00:00.000Z is")
    _closed(members["target"], "target", _TARGET)
    for name, value in TARGET.items():
        _exactly(members["target"][name], f"target.{name}", value)
    _check_provider(members["provider"])
    if members["requestStorage"] not in REQUEST_STORAGES:
        raise SchemaError("requestStorage", f"requestStorage must be {_either(REQUEST_STORAGES)}")
    _flag(members["redactSecrets"], "redactSecrets")
    _strings(members["redactionPatterns"], "redactionPatterns")
    _digest(members["hash"], "hash")


def check_interaction(members: Any, request_storage: RequestStorage | None = None) -> None:
    """Pass a record of one call (hash and chain excepted), or raise ``SchemaError``.

    With ``request_storage`` the request must also be of that arm, the header's.
    """
    if type(members) is dict and members.get("kind") == HEADER_KIND:
        raise SchemaError("kind", "a second header stands here", "split the file: one file holds one cassette")
    _closed(members, "", _INTERACTION)
    _exactly(members["kind"], "kind", INTERACTION_KIND)
    _integer(members["sequence"], "sequence", 1)
    _text(members["callKey"], "callKey")
    _text(members["parentKey"], "parentKey")
    for name in _DIGESTS:
        _digest(members[name], name)
    _integer(members["occurrence"], "occurrence", 1)
    check_request(members["request"])
    _check_timing(members["timing"])
    published, local = members["published"], members["local"]
    _flag(published, "published")
    _flag(local, "local")
    kind = _check_outcome(members["outcome"])
    if published is (kind == "start-error"):
        raise SchemaError("published", f"published must be {'false' if published else 'true'} where the outcome is a {kind}")
    if local and not published:
        raise SchemaError("local", "local must be false where published is false")
    if request_storage is not None:
        check_storage(members["request"]["storage"], request_storage)


def check_storage(storage: str, request_storage: RequestStorage) -> None:
    """The request's arm must be the header's ``requestStorage``; else ``SchemaError``."""
    if storage != request_storage:
        raise SchemaError(
            "request.storage",
            f"request.storage is {storage} where the header says that requests are stored as {request_storage}",
        )


def check_result(value: Any, field: str = "result") -> None:
    """A run's result: an open object with ``output`` blocks and a string ``stopReason``; else ``SchemaError``."""
    if type(value) is not dict:
        raise SchemaError(field, f"{field} must be an object, not {kind_of(value)}")
    if "output" not in value:
        raise SchemaError(f"{field}.output", f"{field}.output is missing")
    if type(value.get("stopReason")) is not str:
        raise SchemaError(f"{field}.stopReason", f"{field}.stopReason {_must(value, 'stopReason', 'a string')}")
    check_content_blocks(value["output"], f"{field}.output")


def check_content_blocks(value: Any, field: str) -> None:
    """An array of content blocks, nested through ``tool-result.content`` to any depth; else ``SchemaError``."""
    work: list[tuple[Any, _Place | None]] = [(value, None)]
    if type(value) is not list:
        raise SchemaError(field, f"{field} must be an array of content blocks, not {kind_of(value)}")
    while work:
        blocks, place = work.pop()
        for index, block in enumerate(blocks):
            if type(block) is not dict:
                raise _block_error(field, (place, index), "", f"must be a content block, not {kind_of(block)}")
            kind = block.get("type")
            if kind in ("text", "reasoning"):
                if type(block.get("text")) is not str:
                    raise _block_error(field, (place, index), "text", _must(block, "text", "a string"))
            elif type(kind) is not str or not kind:
                raise _block_error(field, (place, index), "type", _must(block, "type", "a non-empty string"))
            elif kind in _BLOCK_STRINGS:
                for name in _BLOCK_STRINGS[kind]:
                    if type(block.get(name)) is not str:
                        raise _block_error(field, (place, index), name, _must(block, name, "a string"))
                if kind == "tool-result":
                    if type(block.get("isError", False)) is not bool:
                        raise _block_error(field, (place, index), "isError", _must(block, "isError", "true or false"))
                    if type(block.get("content")) is not list:
                        message = _must(block, "content", "an array of content blocks")
                        raise _block_error(field, (place, index), "content", message)
                    work.append((block["content"], (place, index)))
            elif kind == "image":
                _check_image(block, field, (place, index))


def check_request_value(value: Any) -> None:
    """A request as it is stored in full: closed members, with a prompt of content blocks; else ``SchemaError``."""
    _closed(value, "request.value", _VALUE)
    check_content_blocks(value["prompt"], "request.value.prompt")
    for name in ("label", "persona"):
        if name in value:
            _string(value[name], "request.value", name)
    for name in ("agentOptions", "outputSchema"):
        if name in value and type(value[name]) is not dict:
            raise SchemaError(f"request.value.{name}", f"request.value.{name} must be an object, not {kind_of(value[name])}")
    if "maxDepth" in value:
        _integer(value["maxDepth"], "request.value.maxDepth", 0)
    if "toolFilter" in value:
        check_tool_filter(value["toolFilter"], "request.value.toolFilter")


def kind_of(value: Any) -> str:
    """What a JSON value is, for a sentence; never its text."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, str):
        return "a string" if value else "an empty string"
    if isinstance(value, int | float):
        return "a number"
    if type(value) is dict:
        return "an object"
    return "an array" if type(value) is list else type(value).__name__  # what is no JSON is named as Python does


# The closed sets of members.


class _Members(NamedTuple):
    """A closed set of members: those that must be there, and all that may."""

    required: KeysView[str]
    allowed: KeysView[str]


def _members(*required: str, optional: tuple[str, ...] = ()) -> _Members:
    return _Members(dict.fromkeys(required).keys(), dict.fromkeys((*required, *optional)).keys())


_HEADER = _members(
    "kind", "format", "version", "cassetteId", "createdAt", "target", "provider", "requestStorage", "redactSecrets",
    "redactionPatterns", "hash",
)  # fmt: skip
_TARGET = _members(*TARGET)
_PROVIDER = _members("cassette", "upstream", "capabilities", "inheritsParentContext")
_CAPABILITIES = _members("outputSchema", "depthLimit", "toolFilter", "persona")
_INTERACTION = _members(
    "kind", "sequence", "callKey", "parentKey", "parentContextFingerprint", "requestFingerprint", "occurrence", "request",
    "timing", "published", "local", "outcome", "previousHash", "hash",
)  # fmt: skip
_DIGESTS = ("parentContextFingerprint", "requestFingerprint", "previousHash", "hash")
_METADATA_REQUEST = _members("storage", "metadata")
_FULL_REQUEST = _members("storage", "value", "redactions")
_METADATA = _members(
    "promptBlocks", "promptBytes", "hasOutputSchema", "hasPersona",
    optional=("label", "childProvider", "childModel", "maxDepth", "toolFilter"),
)  # fmt: skip
_METADATA_STRINGS = ("label", "childProvider", "childModel")
_VALUE = _members("prompt", optional=("label", "persona", "agentOptions", "outputSchema", "maxDepth", "toolFilter"))
_TOOL_FILTER = _members(optional=("allow", "deny"))
_TIMING = _members("startedAt", "startLatencyMs", "durationMs", optional=("signalAbortedAtMs", "disposeCalledAtMs"))
_RESULT_OUTCOME = _members("kind", "result", "redactions")
_ERROR_OUTCOME = _members("kind", "error")
_ERROR = _members("name", "message", optional=("code",))
_BLOCK_STRINGS = {"tool-call": ("id", "name", "arguments"), "tool-result": ("toolCallId",)}
_IMAGE_INTEGERS = (("bytes", 0), ("width", 1), ("height", 1))

_is_digest = re.compile("sha256:[0-9a-f]{64}").fullmatch


def _check_provider(value: Any) -> None:
    _closed(value, "provider", _PROVIDER)
    _text(value["cassette"], "provider.cassette")
    _text(value["upstream"], "provider.upstream")
    _flag(value["inheritsParentContext"], "provider.inheritsParentContext")
    _closed(value["capabilities"], "provider.capabilities", _CAPABILITIES)
    for name, flag in value["capabilities"].items():
        _flag(flag, f"provider.capabilities.{name}")


def check_request(value: Any) -> None:
    """A request as a record keeps it, of either arm; else ``SchemaError``."""
    storage = value.get("storage") if type(value) is dict else None
    if storage == "metadata":
        _closed(value, "request", _METADATA_REQUEST)
        _check_metadata(value["metadata"])
    elif storage == "full":
        _closed(value, "request", _FULL_REQUEST)
        check_request_value(value["value"])
        _integer(value["redactions"], "request.redactions", 0)
    elif type(value) is not dict:
        raise SchemaError("request", f"request must be an object, not {kind_of(value)}")
    else:
        raise SchemaError("request.storage", f"request.storage must be {_either(REQUEST_STORAGES)}")


def _check_metadata(value: Any) -> None:
    _closed(value, "request.metadata", _METADATA)
    for name in _METADATA_STRINGS:
        if name in value:
            _string(value[name], "request.metadata", name)
    _integer(value["promptBlocks"], "request.metadata.promptBlocks", 0)
    _integer(value["promptBytes"], "request.metadata.promptBytes", 0)
    _flag(value["hasOutputSchema"], "request.metadata.hasOutputSchema")
    _flag(value["hasPersona"], "request.metadata.hasPersona")
    if "maxDepth" in value:
        _integer(value["maxDepth"], "request.metadata.maxDepth", 0)
    if "toolFilter" in value:
        check_tool_filter(value["toolFilter"], "request.metadata.toolFilter")


def check_tool_filter(value: Any, field: str = "toolFilter") -> None:
    """``allow`` and ``deny``, each an optional array of strings, and nothing else; else ``SchemaError``."""
    _closed(value, field, _TOOL_FILTER)
    for name, names in value.items():
        _strings(names, f"{field}.{name}")


def _check_timing(value: Any) -> None:
    _closed(value, "timing", _TIMING)
    for name, item in value.items():
        if name == "startedAt":
            _text(item, "timing.startedAt")
        elif (type(item) is not float and type(item) is not int) or not 0 <= item < _INFINITY:
            raise SchemaError(f"timing.{name}", f"timing.{name} must be a finite number of at least 0, in milliseconds")
    if value["durationMs"] < value["startLatencyMs"]:
        raise SchemaError("timing.durationMs", "timing.durationMs must not be less than timing.startLatencyMs")


def _check_outcome(value: Any) -> str:
    kind: Any = value.get("kind") if type(value) is dict else None
    if kind == "result":
        _closed(value, "outcome", _RESULT_OUTCOME)
        check_result(value["result"], "outcome.result")
        _integer(value["redactions"], "outcome.redactions", 0)
        return "result"
    if kind in ("start-error", "result-error"):
        _closed(value, "outcome", _ERROR_OUTCOME)
        error = value["error"]
        _closed(error, "outcome.error", _ERROR)
        _text(error["name"], "outcome.error.name")
        _string(error["message"], "outcome.error", "message")
        if "code" in error:
            _string(error["code"], "outcome.error", "code")
        return str(kind)
    if type(value) is not dict:
        raise SchemaError("outcome", f"outcome must be an object, not {kind_of(value)}")
    raise SchemaError("outcome.kind", f"outcome.kind must be {_either(OUTCOME_KINDS)}")


# Single values.

_INFINITY = float("inf")


def _closed(value: Any, field: str, members: _Members) -> None:
    if type(value) is not dict:
        raise SchemaError(field or None, f"{field or 'a record'} must be an object, not {kind_of(value)}")
    names = value.keys()
    if members.required <= names <= members.allowed:
        return
    prefix = f"{field}." if field else ""
    for name in members.required:
        if name not in value:
            raise SchemaError(prefix + name, f"{prefix}{name} is missing")
    extra = prefix + show(shorten(next(name for name in names if name not in members.allowed), _NAME_CHARACTERS))
    raise SchemaError(extra, f"{extra} is not a member that this format knows")


def _exactly(value: Any, field: str, expected: str) -> None:
    if value != expected:
        raise SchemaError(field, f'{field} must be "{expected}"')


def _text(value: Any, field: str) -> None:
    if type(value) is not str or not value:
        raise SchemaError(field, f"{field} must be a non-empty string, not {kind_of(value)}")


def _string(value: Any, parent: str, name: str) -> None:
    if type(value) is not str:
        raise SchemaError(f"{parent}.{name}", f"{parent}.{name} must be a string, not {kind_of(value)}")


def _strings(value: Any, field: str) -> None:
    if type(value) is not list:
        raise SchemaError(field, f"{field} must be an array of strings, not {kind_of(value)}")
    for index, item in enumerate(value):
        if type(item) is not str:
            raise SchemaError(f"{field}[{index}]", f"{field}[{index}] must be a string, not {kind_of(item)}")


def _flag(value: Any, field: str) -> None:
    if value is not True and value is not False:
        raise SchemaError(field, f"{field} must be true or false, not {kind_of(value)}")


def _integer(value: Any, field: str, least: int) -> None:
    if type(value) is int and least <= value <= MAX_SAFE_INTEGER:
        return
    integer = as_integer(value)
    if integer is None or integer < least:
        raise SchemaError(field, f"{field} must be a whole number from {least} to 2**53 - 1")


def _digest(value: Any, field: str) -> None:
    if type(value) is not str or not _is_digest(value):
        raise SchemaError(field, f"{field} must be sha256: and 64 lower-case hex digits")


# Content blocks: where one stands is a chain of (parent, index), spelled out only for an error.

_Place: TypeAlias = "tuple[_Place | None, int]"


def _check_image(block: Mapping[str, Any], field: str, place: _Place) -> None:
    attachment = block.get("attachment")
    if type(attachment) is not dict:
        raise _block_error(field, place, "attachment", _must(block, "attachment", "an object"))
    if type(attachment.get("attachmentId")) is not str or not attachment["attachmentId"]:
        message = _must(attachment, "attachmentId", "a non-empty string")
        raise _block_error(field, place, "attachment.attachmentId", message)
    media_type = attachment.get("mediaType")
    if type(media_type) is not str or media_type not in IMAGE_MEDIA_TYPES:
        raise _block_error(field, place, "attachment.mediaType", f"must be {_either(sorted(IMAGE_MEDIA_TYPES))}")
    for name, least in _IMAGE_INTEGERS:
        integer = as_integer(attachment.get(name))
        if integer is None or integer < least:
            raise _block_error(field, place, f"attachment.{name}", f"must be a whole number from {least} to 2**53 - 1")
    if type(attachment.get("name", "")) is not str:
        raise _block_error(field, place, "attachment.name", _must(attachment, "name", "a string"))


def _must(block: Mapping[str, Any], name: str, wanted: str) -> str:
    return f"must be {wanted}, not {kind_of(block[name])}" if name in block else "is missing"


def _block_error(field: str, place: _Place | None, name: str, message: str) -> SchemaError:
    parts = [f".{name}"] if name else []
    while place is not None:
        place, index = place
        parts.append(f"{'.content' if place is not None else ''}[{index}]")
    shown = shorten(field + "".join(reversed(parts)), _FIELD_CHARACTERS)
    return SchemaError(shown, f"{shown} {message}")


def _either(words: Any) -> str:
    *most, last = words
    return f"{', '.join(most)} or {last}"


def shorten(text: str, most: int) -> str:
    """``text``, with its middle left out where it is longer than ``most`` characters."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"
