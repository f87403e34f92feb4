"""Redaction of whole values: secret members, protected members, counts, depth."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.cassette.model import ErrorFacts
from cassette_lab.cassette.redaction import Redactor, builtin, is_secret_name
from cassette_lab.errors import ConfigError
from cassette_lab.jsonio import canonical

X = "[REDACTED]"
LEVELS = 20_000


@pytest.mark.parametrize(
    "name",
    [
        "token", "API_KEY", "my api key", "Authorization", "cookie", "password", "to.ken", "t-o-k-e-n", "access_token",
        "refreshToken", "id-token", "client_secret", "valid token", "to\u212aen", "\u0130dtoken", "\u65e5token\u672c",
        "PASSWORD\x00",
    ],
)  # fmt: skip
def test_secret_names(name: str) -> None:
    assert is_secret_name(name)
    values: list[Any] = ["x", None, 0, False, {"deep": ["Bearer abcdefgh"]}, []]
    for value in values:
        assert Redactor().json({"a": [{name: value, "keep": 1}]}) == ({"a": [{name: X, "keep": 1}]}, 1)


@pytest.mark.parametrize(
    "name",
    [
        "", "tokens", "authorization2", "user_password", "secretKey", "auth_token", "apikeys", "\u017fecret",
        "t\u00f6k\u00ean", "\uff34OKEN",
    ],
)  # fmt: skip
def test_other_names(name: str) -> None:
    assert not is_secret_name(name)
    assert Redactor().json({name: ["x", 1]}) == ({name: ["x", 1]}, 0)


def test_names_long_and_many() -> None:
    long = "x" * 100_000
    assert Redactor().json({long: 1, f"{long}apikey": 1}) == ({long: 1, f"{long}apikey": X}, 1)
    many = {f"name {number}": number for number in range(5000)}
    assert Redactor().json(many) == (many, 0)
    assert Redactor().json({**many, "token": 1}) == ({**many, "token": X}, 1)


def test_counts_and_order() -> None:
    value = {
        "z": "token=abcd and Bearer abcdefgh",
        "Bearer abcdefgh": None,
        "list": ["token", "secret", 1.5, True, ["sk-abcdefghijkl"]],
        "m": {"password": {"token": "y"}, "__proto__": "AKIAABCDEFGHIJKLMNOP"},
    }
    expected = {
        "z": f"token={X} and {X}",
        "Bearer abcdefgh": None,
        "list": ["token", "secret", 1.5, True, [X]],
        "m": {"password": X, "__proto__": X},
    }
    before = copy.deepcopy(value)
    redacted, count = Redactor().json(value)
    assert (redacted, count) == (expected, 5)
    assert list(redacted) == list(expected)
    assert value == before
    assert redacted["list"] is not value["list"]


def test_a_clean_value_comes_back_itself() -> None:
    value = {"output": [{"type": "text", "text": "a token, a secret: no"}], "stopReason": "completed"}
    assert Redactor().result(value)[0] is value
    assert Redactor(enabled=False).json({"token": "Bearer abcdefgh"}) == ({"token": "Bearer abcdefgh"}, 0)


@pytest.mark.parametrize("value", ["Bearer abcdefgh", 5, None, [], {}])
def test_roots_of_every_kind(value: Any) -> None:
    assert Redactor().json(value) == ((X, 1) if isinstance(value, str) else (value, 0))


def test_arrays_of_every_kind_and_no_secret_over_two_strings() -> None:
    assert Redactor().json(("x", ("Bearer abcdefgh",))) == (["x", [X]], 1)
    assert Redactor().json(["Bearer ", "abcdefgh", "token=", "abcd"]) == (["Bearer ", "abcdefgh", "token=", "abcd"], 0)


BLOCKS = [
    {"type": "zz"},
    {"type": "tool-result", "toolCallId": "1", "content": [{"type": "text", "text": "x"}, {"type": "zz"}]},
    {"type": "image", "attachment": {"attachmentId": "a", "mediaType": "zz", "bytes": 1, "width": 1, "height": 1}},
    {"type": "sk-abcdefghijkl"},
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_match_in_a_protected_member_is_refused(block: dict[str, Any]) -> None:
    redactor = Redactor(patterns=("ZZ",))
    with pytest.raises(ConfigError, match="content block in output") as caught:
        redactor.result({"output": [{"type": "text", "text": "x"}, block], "stopReason": "completed"})
    assert caught.value.code == "INVALID_CONFIG"
    with pytest.raises(ConfigError, match="content block in prompt"):
        redactor.request({"prompt": [block]})
    assert Redactor(enabled=False, patterns=("zz",)).request({"prompt": [block]}) == ({"prompt": [block]}, 0)
    assert redactor.json([block])[1] == 1


def test_an_empty_match_in_a_protected_member_is_refused() -> None:
    with pytest.raises(ConfigError):
        Redactor(patterns=("q*",)).request({"prompt": [{"type": "text", "text": ""}]})


def test_what_only_looks_protected_is_redacted() -> None:
    redactor = Redactor(patterns=("zz",))
    value = {
        "output": [
            {"type": "custom", "inner": {"type": "zz"}, "content": [{"type": "zz"}], "attachment": {"mediaType": "zz"}},
            {"type": "tool-result", "content": [{"type": "text", "text": "zz"}], "token": {"type": "zz"}},
            {"type": "image", "attachment": {"mediaType": "image/png", "name": "zz.png"}},
            {"type": ["zz"]},
            [{"type": "zz"}],
        ],
        "structured": {"type": "zz", "mediaType": "zz"},
        "prompt": [{"type": "zz"}],
        "stopReason": "zz",
    }
    expected = {
        "output": [
            {"type": "custom", "inner": {"type": X}, "content": [{"type": X}], "attachment": {"mediaType": X}},
            {"type": "tool-result", "content": [{"type": "text", "text": X}], "token": X},
            {"type": "image", "attachment": {"mediaType": "image/png", "name": f"{X}.png"}},
            {"type": [X]},
            [{"type": X}],
        ],
        "structured": {"type": X, "mediaType": X},
        "prompt": [{"type": X}],
        "stopReason": X,
    }
    assert redactor.result(value) == (expected, 12)


def test_protected_members_stay_where_the_rest_changes() -> None:
    redactor = Redactor(patterns=("^x$",))
    request = {"label": "x", "prompt": [{"type": "text", "text": "x"}], "agentOptions": {"type": "x", "password": 1}}
    expected = {"label": X, "prompt": [{"type": "text", "text": X}], "agentOptions": {"type": X, "password": X}}
    assert redactor.request(request) == (expected, 4)


def nested(text: str) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": text}
    for _ in range(LEVELS):
        block = {"type": "tool-result", "toolCallId": "1", "content": [block]}
    return {"output": [block], "stopReason": "completed"}


@pytest.mark.parametrize("patterns", [(), ("zebra",)])
def test_any_depth(patterns: tuple[str, ...]) -> None:
    value = nested("token=abcd")
    redacted, count = Redactor(patterns=patterns).result(value)
    assert count == 1
    assert canonical(redacted) == canonical(value).replace(b"token=abcd", f"token={X}".encode())


def test_members_are_protected_at_any_depth() -> None:
    with pytest.raises(ConfigError):
        Redactor(patterns=("^text$",)).result(nested("x"))


def test_errors_are_redacted_in_all_their_facts() -> None:
    facts = ErrorFacts("sk-abcdefghijkl", "no token=abcd", "Bearer abcdefgh")
    assert Redactor().error(facts) == ErrorFacts(X, f"no token={X}", X)
    assert Redactor().error(ErrorFacts("Error", "")) == ErrorFacts("Error", "")
    assert Redactor(enabled=False).error(facts) == facts


STRINGS = st.sampled_from(["x", "token=abcd", "Bearer abcdefgh", "\U0001f600", "token", "sk-abcdefghijkl", "a: b", ""])
VALUES = st.recursive(
    STRINGS | st.none() | st.integers(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.sampled_from(["a", "token", "b-c", ""]), children),
    max_leaves=10,
)


def naive(value: Any) -> tuple[Any, int]:
    if isinstance(value, str):
        return builtin.redact(value)
    if isinstance(value, list):
        pairs = [naive(child) for child in value]
        return [redacted for redacted, _ in pairs], sum(count for _, count in pairs)
    if isinstance(value, dict):
        found = {name: (X, 1) if is_secret_name(name) else naive(child) for name, child in value.items()}
        return {name: redacted for name, (redacted, _) in found.items()}, sum(count for _, count in found.values())
    return value, 0


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_the_quick_way_and_the_exact_way_agree(value: Any) -> None:
    assert Redactor().json(value) == naive(value)
