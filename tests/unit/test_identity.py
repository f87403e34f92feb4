from __future__ import annotations

from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab import jsonio
from cassette_lab.cassette.identity import (
    RequestIdentity,
    call_key,
    normalize_parent_context,
    normalize_request,
    parent_context_fingerprint,
    parent_fingerprint,
    request_fingerprint,
    request_metadata,
    slug,
)
from cassette_lab.contracts import ParentAgent
from cassette_lab.errors import IdentityError, SurfaceError
from tests.unit.calls import ask

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5) | st.floats(0.001, 1e30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None)
@given(prompt=st.lists(PLAIN, max_size=3), options=st.dictionaries(st.text(max_size=3), PLAIN, max_size=3))
def test_a_request_is_its_canonical_digest_whatever_the_order_of_members(prompt: list[Any], options: dict[str, Any]) -> None:
    request = {"prompt": prompt, "agentOptions": options, "label": "x", "unknown": object()}
    known = {"label": "x", "agentOptions": dict(reversed(options.items())), "prompt": prompt}
    assert request_fingerprint(request) == jsonio.digest(known)
    assert jsonio.canonical(normalize_request(request)) == jsonio.canonical(known)
    assert request_metadata(request).prompt_bytes == len(jsonio.canonical(prompt))


def test_a_snapshot_does_not_follow_the_caller() -> None:
    request = ask(toolFilter={"allow": ["a"]})
    identity = RequestIdentity(request)
    request["prompt"][0]["text"] = "else"
    request["toolFilter"]["allow"].append("b")
    assert identity.value == ask(toolFilter={"allow": ["a"]})
    assert identity.metadata.tool_filter == {"allow": ["a"]}
    assert identity.fingerprint == request_fingerprint(ask(toolFilter={"allow": ["a"]}))


def test_metadata_says_sizes_and_choices_never_contents() -> None:
    request = ask("é", "☃", agentOptions={"provider": "p", "model": 5}, outputSchema={}, maxDepth=0, persona="")
    assert request_metadata(request).to_json() == {
        "label": "é",
        "promptBlocks": 1,
        "promptBytes": len('[{"text":"☃","type":"text"}]'.encode()),
        "hasOutputSchema": True,
        "maxDepth": 0,
        "childProvider": "p",
        "hasPersona": True,
    }


def test_null_members_are_told_in_the_document_of_metadata() -> None:
    document = RequestIdentity(ask() | {"label": None, "maxDepth": None, "persona": None}).metadata_json()
    assert document == {
        "label": None, "maxDepth": None, "promptBlocks": 1, "promptBytes": 37, "hasOutputSchema": False, "hasPersona": True,
    }  # fmt: skip


def test_metadata_are_plain_values_also_where_the_request_has_subclasses() -> None:
    class Kind(StrEnum):
        AUDIT = "audit"

    class Depth(IntEnum):
        TWO = 2

    request = ask(
        label=Kind.AUDIT,
        maxDepth=Depth.TWO,
        agentOptions={"provider": Kind.AUDIT, "model": Kind.AUDIT},
        toolFilter={"allow": (Kind.AUDIT,)},
    )
    plain = request_metadata(jsonio.detach(request))
    metadata = request_metadata(request)
    assert metadata == plain
    assert repr(metadata) == repr(plain)
    assert slug(Kind.AUDIT) == "audit"


def test_a_split_surrogate_pair_is_the_character_it_spells() -> None:
    split, joined = ask("\ud83d\ude00", "\ud83d\ude00"), ask("😀", "😀")
    assert request_fingerprint(split) == request_fingerprint(joined)
    assert request_metadata(split) == request_metadata(joined)
    assert request_fingerprint(ask("\ud83d")) != request_fingerprint(ask("\ude00"))


def test_numbers_are_doubles() -> None:
    assert request_fingerprint(ask(agentOptions={"t": 1.0, "n": 10**21})) == request_fingerprint(
        ask(agentOptions={"t": 1, "n": 1e21})
    )


@pytest.mark.parametrize(
    ("request_members", "field", "says"),
    [
        (ask(agentOptions={"limits": [1, {"top": -0.0}]}), "agentOptions.limits.1.top", "-0"),
        (ask(agentOptions={"x": float("nan")}), "agentOptions.x", "finite"),
        (ask(outputSchema={"when": {1: 2}}), "outputSchema.when", "a member name is int"),
        ({"prompt": [{"data": b"raw"}]}, "prompt.0.data", "bytes"),
        ({"prompt": [{"odd\u202e key": {1}}]}, "prompt.0.'odd\\u202e key'", "set"),
        ({"prompt": "look"}, "prompt", "array of content blocks"),
        ({"label": "x"}, "prompt", "array of content blocks"),
        (ask(toolFilter=None), "toolFilter", "allow and deny"),
        (ask(toolFilter={"allow": [], "only": []}), "toolFilter", "allow and deny"),
        (ask(toolFilter={"deny": ["a", 1]}), "toolFilter.deny", "array of strings"),
    ],
)
def test_what_has_no_identity_is_named(request_members: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(IdentityError, match=says) as caught:
        RequestIdentity(request_members)
    assert caught.value.field == field
    assert isinstance(caught.value, TypeError)


def test_a_request_that_contains_itself_is_refused() -> None:
    prompt: list[Any] = [{"type": "text"}]
    prompt[0]["again"] = prompt
    with pytest.raises(IdentityError, match="contains itself") as caught:
        RequestIdentity({"prompt": prompt})
    assert caught.value.field == "prompt.0.again"


def test_twenty_thousand_levels_have_an_identity_and_an_error_path() -> None:
    deep: Any = 1
    broken: Any = -0.0
    for _ in range(20_000):
        deep, broken = [deep], {"a": broken}
    identity = RequestIdentity({"prompt": [deep]})
    assert identity.canonical == b'{"prompt":[' + b"[" * 20_000 + b"1" + b"]" * 20_000 + b"]}"
    assert jsonio.canonical(identity.value) == identity.canonical
    with pytest.raises(IdentityError, match=r"prompt.0.a.a.a.a.\(19990 more\).a.a.a.a.a.a is not lossless"):
        RequestIdentity({"prompt": [broken]})


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (None, "agent"),
        ("", "agent"),
        ("--!!", "agent"),
        ("Check API / v2", "check-api-v2"),
        ("__a__", "a"),
        ("\u212aey", "key"),  # the Kelvin sign is lowered to k
        ("\u0130d", "i-d"),  # a dotted capital I is lowered to i and a combining dot
        ("ΑΣ x", "x"),
        ("x" * 40, "x" * 32),
        ("x" * 31 + " y", "x" * 31 + "-"),
        ("a\ud800\udc00b", "a-b"),
    ],
)
def test_slugs(label: str | None, expected: str) -> None:
    assert slug(label) == expected


def test_a_call_key_names_parent_label_identity_and_occurrence() -> None:
    context, request = jsonio.digest({"a": 1}), jsonio.digest({"b": 2})
    prefix = jsonio.digest({"parentContextFingerprint": context, "requestFingerprint": request})[7:19]
    assert call_key("root/x~1", "Do It", context, request, 3) == f"root/x~1/do-it-{prefix}~3"


def test_a_parent_context_keeps_what_a_provider_can_see() -> None:
    parent = ParentAgent(
        id="not seen",
        options=MappingProxyType({"model": "m"}),
        header={"cwd": "/w", "origin": "user", "delegationDepth": 0, "agentPreset": "p", "createdAt": 5, "id": "x"},
        composed_preset="live",
        sandbox_override=None,
        approval_present=True,
    )
    assert normalize_parent_context(parent, False) == {
        "options": {"model": "m"},
        "session": {"cwd": "/w", "origin": "user", "delegationDepth": 0, "agentPreset": "p"},
        "composition": {"agentPreset": "live", "sandboxMode": None, "approvalPolicy": "never"},
    }


@pytest.mark.parametrize("inherits", [False, True])
@pytest.mark.parametrize(
    "parent",
    [
        ParentAgent(),
        ParentAgent(header={"origin": "subagent", "delegationDepth": 1}),
        ParentAgent(header={"delegationDepth": True}),
        ParentAgent(header={"delegationDepth": 1.0, "cwd": ["/"]}),
        ParentAgent(header={"cwd": "\ud83d\ude00"}),
        ParentAgent(options={"a": 1}),
        ParentAgent(events=[{"type": "turn/end", "seq": 0}]),
        ParentAgent(composed_preset="p"),
        ParentAgent(sandbox_override={"mode": "w"}),
        ParentAgent(approval_present=True),
    ],
)
def test_the_quick_fingerprint_is_the_exact_one(parent: ParentAgent, inherits: bool) -> None:
    exact = parent_context_fingerprint(normalize_parent_context(parent, inherits))
    assert parent_fingerprint(parent, inherits) == exact
    assert parent_fingerprint(parent, inherits) == exact  # from the cache, too


def test_a_parent_that_has_no_identity_is_refused() -> None:
    with pytest.raises(IdentityError, match="preset of a parent must be a string"):
        parent_fingerprint(ParentAgent(composed_preset=5), False)
    with pytest.raises(IdentityError, match=r"options\.x is not lossless plain JSON"):
        parent_fingerprint(ParentAgent(options={"x": object()}), False)
    with pytest.raises(IdentityError, match=r"session\.delegationDepth"):
        parent_fingerprint(ParentAgent(header={"delegationDepth": -0.0}), False)


def history(call_id: str, message_id: str) -> list[dict[str, Any]]:
    call = {"type": "tool-call", "id": call_id, "name": "probe", "arguments": "{}"}
    inner = {"type": "tool-call", "id": "inner " + call_id}
    answer = {"type": "tool-result", "toolCallId": call_id, "content": [inner, "text", {"type": "other", "id": "kept"}]}
    source = {"kind": "tool", "callId": call_id}
    return [
        {"type": "request/header", "seq": 0, "data": {"header": {"system": "be kind", "tools": [], "config": {}}}},
        {
            "type": "assistant/message",
            "seq": 1,
            "surfaceOp": "append",
            "data": {"message": {"id": message_id, "role": "assistant", "content": [call]}},
        },
        {
            "type": "tool/result",
            "seq": 2,
            "surfaceOp": "append",
            "data": {"message": {"id": message_id, "role": "user", "content": [answer], "source": source}},
        },
        {"type": "turn/end", "seq": 3, "data": {}},
        {"type": "user/message", "seq": 4, "surfaceOp": "append", "data": {"content": []}},
    ]


@pytest.mark.parametrize("request_members", [None, 5, "prompt", ["prompt"], {"prompt"}])
def test_what_is_no_object_is_no_request(request_members: Any) -> None:
    with pytest.raises(IdentityError, match="a request must be an object"):
        normalize_request(request_members)


@pytest.mark.parametrize(
    ("members", "field"),
    [({"header": None}, "header"), ({"header": []}, "header"), ({"events": 5}, "events"), ({"events": "x"}, "events")],
)
def test_a_parent_of_the_wrong_shape_is_refused(members: dict[str, Any], field: str) -> None:
    for fingerprint in (normalize_parent_context, parent_fingerprint):
        with pytest.raises(IdentityError) as caught:
            fingerprint(ParentAgent(**members), True)
        assert caught.value.field == field


def test_a_history_whose_node_has_no_message_is_refused() -> None:
    events = [{"type": "assistant/message", "seq": 0, "surfaceOp": "append"}, {"type": "turn/end", "seq": 1}]
    with pytest.raises(IdentityError, match="inherited message 0 is not an object"):
        normalize_parent_context(ParentAgent(events=events), True)


def test_inherited_messages_forget_ids_and_number_tool_calls_by_first_appearance() -> None:
    context = normalize_parent_context(ParentAgent(events=history("call-77", "m1")), True)
    assert context["composition"] == {"system": "be kind", "tools": []}
    assert context["inheritedMessages"] == [
        {"role": "assistant", "content": [{"type": "tool-call", "id": "call-1", "name": "probe", "arguments": "{}"}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool-result",
                    "toolCallId": "call-1",
                    "content": [{"type": "tool-call", "id": "call-2"}, "text", {"type": "other", "id": "kept"}],
                }
            ],
            "source": {"kind": "tool", "callId": "call-1"},
        },
    ]
    other_ids = ParentAgent(events=history("other", "m9"))
    assert parent_fingerprint(other_ids, True) == parent_context_fingerprint(context)


def test_only_an_inheriting_provider_sees_the_history() -> None:
    parent = ParentAgent(events=history("c", "m"))
    assert parent_fingerprint(parent, False) == parent_fingerprint(ParentAgent(), False)
    broken = ParentAgent(events=[{"type": "user/message", "seq": 5}, {"type": "turn/end", "seq": 0}])
    assert parent_fingerprint(broken, False) == parent_fingerprint(ParentAgent(), False)
    with pytest.raises(SurfaceError):
        parent_fingerprint(broken, True)


def test_history_messages_are_detached() -> None:
    events = history("c", "m")
    context = normalize_parent_context(ParentAgent(events=events), True)
    context["inheritedMessages"][0]["content"].clear()
    assert events[1]["data"]["message"]["content"][0]["id"] == "c"
