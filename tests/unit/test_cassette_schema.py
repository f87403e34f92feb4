"""Which records a cassette may hold, and how the member that is wrong is named."""

from __future__ import annotations

import copy
import re
import sys
from typing import Any

import pytest

from cassette_lab.cassette.schema import (
    SchemaError,
    check_content_blocks,
    check_header,
    check_interaction,
    check_result,
    kind_of,
    shorten,
)
from cassette_lab.jsonio import JsonObject
from tests.unit.cassette_samples import full, records, sealed, siblings

DELETE = object()

HEADER, *CALLS = sealed(records(siblings()))
FULL_HEADER, FULL_CALL, _ = sealed(records(full()))
CALL = next(call for call in CALLS if call["sequence"] == 1)
FAILED = next(call for call in CALLS if call["sequence"] == 4)


def changed(record: JsonObject, path: str, value: Any) -> JsonObject:
    """``record`` with the member at a dotted path replaced, added or deleted."""
    record = copy.deepcopy(record)
    target: Any = record
    *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in parents:
        target = target[step]
    if value is DELETE:
        del target[last]
    else:
        target[last] = value
    return record


def refusal(record: JsonObject) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        (check_header if "cassetteId" in record or record.get("kind") == "cassette/header" else check_interaction)(record)
    return caught.value


@pytest.mark.parametrize("record", [HEADER, FULL_HEADER])
def test_headers_pass(record: JsonObject) -> None:
    check_header(record)


@pytest.mark.parametrize("record", [*CALLS, FULL_CALL])
def test_interactions_pass(record: JsonObject) -> None:
    check_interaction(record)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", "other", 'format must be "dsh-subagent-cassette"'),
        ("version", 2, "version must be 1"),
        ("version", True, "version must be 1"),
        ("version", DELETE, "version is missing"),
        ("cassetteId", "", "cassetteId must be a non-empty string, not an empty string"),
        ("createdAt", "2026-13-01", "createdAt must be a date, as 2026-01-31T12:00:00.000Z is"),
        ("createdAt", None, "createdAt must be a date, as 2026-01-31T12:00:00.000Z is"),
        ("target", [], "target must be an object, not an array"),
        ("target.dshSubagent", "0.1.0", 'target.dshSubagent must be "0.1.0-rc.7"'),
        ("target.node", "22", "target.node is not a member that this format knows"),
        ("provider.upstream", None, "provider.upstream must be a non-empty string, not null"),
        ("provider.capabilities.persona", 1, "provider.capabilities.persona must be true or false, not a number"),
        ("provider.capabilities.stream", True, "provider.capabilities.stream is not a member that this format knows"),
        ("provider.inheritsParentContext", DELETE, "provider.inheritsParentContext is missing"),
        ("requestStorage", "none", "requestStorage must be metadata or full"),
        ("redactSecrets", "yes", "redactSecrets must be true or false, not a string"),
        ("redactionPatterns", "x", "redactionPatterns must be an array of strings, not a string"),
        ("redactionPatterns", ["x", None], "redactionPatterns[1] must be a string, not null"),
        ("hash", "sha256:AB", "hash must be sha256: and 64 lower-case hex digits"),
        ("note", 1, "note is not a member that this format knows"),
    ],
)
def test_a_header_with_one_wrong_member_names_it(path: str, value: Any, message: str) -> None:
    error = refusal(changed(HEADER, path, value))
    assert error.message == message
    assert error.field == message.partition(" ")[0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("kind", "cassette/call", 'kind must be "cassette/interaction"'),
        ("sequence", 0, "sequence must be a whole number from 1 to 2**53 - 1"),
        ("sequence", 1.5, "sequence must be a whole number from 1 to 2**53 - 1"),
        ("sequence", True, "sequence must be a whole number from 1 to 2**53 - 1"),
        ("sequence", 2**53, "sequence must be a whole number from 1 to 2**53 - 1"),
        ("sequence", float("inf"), "sequence must be a whole number from 1 to 2**53 - 1"),
        ("occurrence", "1", "occurrence must be a whole number from 1 to 2**53 - 1"),
        ("callKey", "", "callKey must be a non-empty string, not an empty string"),
        ("parentKey", 3, "parentKey must be a non-empty string, not a number"),
        ("requestFingerprint", "sha256:" + "0" * 63, "requestFingerprint must be sha256: and 64 lower-case hex digits"),
        ("requestFingerprint", "sha256:" + "0" * 64 + "\n", "requestFingerprint must be sha256: and 64 lower-case hex digits"),
        (
            "parentContextFingerprint",
            "sha256:" + "A" * 64,
            "parentContextFingerprint must be sha256: and 64 lower-case hex digits",
        ),
        ("previousHash", DELETE, "previousHash is missing"),
        ("comment", "", "comment is not a member that this format knows"),
        ("request", None, "request must be an object, not null"),
        ("request.storage", "some", "request.storage must be metadata or full"),
        ("request.storage", [], "request.storage must be metadata or full"),
        ("request.redactions", 0, "request.redactions is not a member that this format knows"),
        ("request.metadata", [], "request.metadata must be an object, not an array"),
        ("request.metadata.prompt", [], "request.metadata.prompt is not a member that this format knows"),
        ("request.metadata.label", None, "request.metadata.label must be a string, not null"),
        ("request.metadata.childModel", 4, "request.metadata.childModel must be a string, not a number"),
        ("request.metadata.promptBytes", -1, "request.metadata.promptBytes must be a whole number from 0 to 2**53 - 1"),
        ("request.metadata.promptBlocks", False, "request.metadata.promptBlocks must be a whole number from 0 to 2**53 - 1"),
        ("request.metadata.maxDepth", 0.5, "request.metadata.maxDepth must be a whole number from 0 to 2**53 - 1"),
        ("request.metadata.hasPersona", 0, "request.metadata.hasPersona must be true or false, not a number"),
        ("request.metadata.toolFilter", [], "request.metadata.toolFilter must be an object, not an array"),
        (
            "request.metadata.toolFilter.allow",
            "x",
            "request.metadata.toolFilter.allow must be an array of strings, not a string",
        ),
        ("request.metadata.toolFilter.deny", [1], "request.metadata.toolFilter.deny[0] must be a string, not a number"),
        ("request.metadata.toolFilter.x", [], "request.metadata.toolFilter.x is not a member that this format knows"),
        ("timing.startedAt", "", "timing.startedAt must be a non-empty string, not an empty string"),
        ("timing.durationMs", -1, "timing.durationMs must be a finite number of at least 0, in milliseconds"),
        ("timing.durationMs", float("nan"), "timing.durationMs must be a finite number of at least 0, in milliseconds"),
        ("timing.durationMs", float("inf"), "timing.durationMs must be a finite number of at least 0, in milliseconds"),
        ("timing.startLatencyMs", True, "timing.startLatencyMs must be a finite number of at least 0, in milliseconds"),
        ("timing.startLatencyMs", 1e9, "timing.durationMs must not be less than timing.startLatencyMs"),
        ("timing.signalAbortedAtMs", None, "timing.signalAbortedAtMs must be a finite number of at least 0, in milliseconds"),
        ("timing.endedAt", 1, "timing.endedAt is not a member that this format knows"),
        ("published", 1, "published must be true or false, not a number"),
        ("published", False, "published must be true where the outcome is a result"),
        ("local", None, "local must be true or false, not null"),
        ("outcome", "ok", "outcome must be an object, not a string"),
        ("outcome.kind", "timeout", "outcome.kind must be result, start-error or result-error"),
        ("outcome.kind", {}, "outcome.kind must be result, start-error or result-error"),
        ("outcome.redactions", 1.25, "outcome.redactions must be a whole number from 0 to 2**53 - 1"),
        ("outcome.error", {}, "outcome.error is not a member that this format knows"),
        ("outcome.result", [], "outcome.result must be an object, not an array"),
        ("outcome.result.output", DELETE, "outcome.result.output is missing"),
        ("outcome.result.output", {}, "outcome.result.output must be an array of content blocks, not an object"),
        ("outcome.result.stopReason", 1, "outcome.result.stopReason must be a string, not a number"),
        ("outcome.result.stopReason", DELETE, "outcome.result.stopReason is missing"),
        ("outcome.result.output.0", "text", "outcome.result.output[0] must be a content block, not a string"),
        ("outcome.result.output.0.type", DELETE, "outcome.result.output[0].type is missing"),
        ("outcome.result.output.0.type", "", "outcome.result.output[0].type must be a non-empty string, not an empty string"),
        ("outcome.result.output.0.type", ["text"], "outcome.result.output[0].type must be a non-empty string, not an array"),
        ("outcome.result.output.0.text", None, "outcome.result.output[0].text must be a string, not null"),
    ],
)
def test_an_interaction_with_one_wrong_member_names_it(path: str, value: Any, message: str) -> None:
    error = refusal(changed(CALL, path, value))
    assert error.message == message
    assert error.field == message.partition(" ")[0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("request.redactions", DELETE, "is missing"),
        ("request.metadata", {}, "is not a member that this format knows"),
        ("request.value", [], "must be an object, not an array"),
        ("request.value.prompt", DELETE, "is missing"),
        ("request.value.parent", {}, "is not a member that this format knows"),
        ("request.value.persona", 1, "must be a string, not a number"),
        ("request.value.agentOptions", [], "must be an object, not an array"),
        ("request.value.outputSchema", None, "must be an object, not null"),
        ("request.value.maxDepth", -1, "must be a whole number from 0 to 2**53 - 1"),
        ("request.value.prompt.1.text", DELETE, "is missing"),
        ("request.value.prompt.2.name", DELETE, "is missing"),
        ("request.value.prompt.2.arguments", {}, "must be a string, not an object"),
        ("request.value.prompt.3.toolCallId", 1, "must be a string, not a number"),
        ("request.value.prompt.3.isError", None, "must be true or false, not null"),
        ("request.value.prompt.3.content", DELETE, "is missing"),
        ("request.value.prompt.3.content", "x", "must be an array of content blocks, not a string"),
        ("request.value.prompt.3.content.0", 1, "must be a content block, not a number"),
        ("request.value.prompt.3.content.0.text", 1, "must be a string, not a number"),
        ("request.value.prompt.4.attachment", DELETE, "is missing"),
        ("request.value.prompt.4.attachment.attachmentId", "", "must be a non-empty string, not an empty string"),
        ("request.value.prompt.4.attachment.mediaType", "image/PNG", "must be image/gif, image/jpeg, image/png or image/webp"),
        ("request.value.prompt.4.attachment.mediaType", [], "must be image/gif, image/jpeg, image/png or image/webp"),
        ("request.value.prompt.4.attachment.bytes", 0.5, "must be a whole number from 0 to 2**53 - 1"),
        ("request.value.prompt.4.attachment.width", 0, "must be a whole number from 1 to 2**53 - 1"),
        ("request.value.prompt.4.attachment.name", None, "must be a string, not null"),
    ],
)
def test_a_full_request_with_one_wrong_member_names_it(path: str, value: Any, message: str) -> None:
    error = refusal(changed(FULL_CALL, path, value))
    assert error.field == re.sub(r"\.(\d+)", r"[\1]", path)
    assert error.message == f"{error.field} {message}"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("outcome.error", [], "outcome.error must be an object, not an array"),
        ("outcome.error.name", "", "outcome.error.name must be a non-empty string, not an empty string"),
        ("outcome.error.message", DELETE, "outcome.error.message is missing"),
        ("outcome.error.code", 5, "outcome.error.code must be a string, not a number"),
        ("outcome.error.stack", "", "outcome.error.stack is not a member that this format knows"),
        ("outcome.kind", "result-error", "published must be true where the outcome is a result-error"),
        ("published", True, "published must be false where the outcome is a start-error"),
        ("local", True, "local must be false where published is false"),
    ],
)
def test_an_error_with_one_wrong_member_names_it(path: str, value: Any, message: str) -> None:
    assert refusal(changed(FAILED, path, value)).message == message


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("sequence", 1.0),
        ("sequence", 2**53 - 1),
        ("timing.startedAt", "whenever"),
        ("timing.durationMs", 1e308),
        ("timing.signalAbortedAtMs", 99999),
        ("request.metadata.label", ""),
        ("request.metadata.toolFilter", {}),
        ("outcome.result.stopReason", ""),
        ("outcome.result.more", [None, {"x": 1}]),
        ("outcome.result.output", []),
        ("outcome.result.output.0.more", 1),
        ("outcome.result.output.0", {"type": "x-new", "text": 5, "content": 7}),
    ],
)
def test_what_the_format_leaves_open_passes(path: str, value: Any) -> None:
    check_interaction(changed(CALL, path, value))


def test_the_arm_must_be_the_headers() -> None:
    check_interaction(CALL, "metadata")
    with pytest.raises(SchemaError, match=r"request\.storage is metadata where the header says .* full"):
        check_interaction(CALL, "full")


def test_a_record_in_the_wrong_place_is_told_apart() -> None:
    with pytest.raises(SchemaError, match="its header is missing"):
        check_header(CALL)
    with pytest.raises(SchemaError, match="a second header stands here"):
        check_interaction(HEADER)
    for value, kind in ((None, "null"), ([], "an array"), ("x", "a string"), (1, "a number"), (True, "true")):
        with pytest.raises(SchemaError, match=f"a record must be an object, not {kind}"):
            check_interaction(value)


def nested(levels: int, inner: JsonObject) -> list[JsonObject]:
    blocks = [inner]
    for _ in range(levels):
        blocks = [{"type": "tool-result", "toolCallId": "c", "content": blocks}]
    return blocks


def test_twenty_thousand_levels_pass_and_an_error_at_the_bottom_has_a_short_name() -> None:
    check_content_blocks(nested(20_000, {"type": "text", "text": ""}), "output")
    with pytest.raises(SchemaError) as caught:
        check_content_blocks(nested(20_000, {"type": "text"}), "outcome.result.output")
    assert caught.value.field is not None
    assert len(caught.value.field) <= 160
    assert caught.value.field.startswith("outcome.result.output[0].content[0].content[0]")
    assert caught.value.field.endswith(".content[0].text")


def test_work_is_linear_in_the_depth() -> None:
    def steps(levels: int) -> int:
        """Lines of Python that run, which no other load on the machine changes."""
        blocks = nested(levels, {"type": "text", "text": ""})
        count = 0

        def trace(*_: object) -> Any:
            nonlocal count
            count += 1
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            check_content_blocks(blocks, "output")
        finally:
            sys.settrace(before)
        return count

    assert steps(4_000) < 4.2 * steps(1_000)


def test_a_hostile_member_name_is_escaped_and_cut() -> None:
    error = refusal(changed(CALL, "\u001b[31m\u202ewired" + "x" * 500, 1))
    assert error.message.isprintable()
    assert "\\u{001b}[31m\\u{202e}wired" in error.message
    assert len(error.message) < 200


def test_a_result_alone_can_be_checked() -> None:
    check_result({"output": [], "stopReason": "completed", "usage": {}})
    with pytest.raises(SchemaError, match=r"result\.output\[0\] must be a content block, not null"):
        check_result({"output": [None], "stopReason": ""})


def test_values_are_named_and_never_quoted() -> None:
    values = [None, True, False, "", "hidden", 1, 1.5, [], (), {}, object()]
    assert [kind_of(value) for value in values] == [
        "null", "true", "false", "an empty string", "a string", "a number", "a number", "an array", "tuple", "an object",
        "object",
    ]  # fmt: skip


def test_the_middle_of_a_long_text_is_left_out() -> None:
    assert shorten("abcdefghij", 10) == "abcdefghij"
    assert shorten("abcdefghijk", 10) == "abcd…hijk"
