"""What is kept of requests and prompts, and what is not."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cassette_lab.contracts import FrozenTools, ModelRequest
from cassette_lab.event_bus import Assembly
from cassette_lab.flight.model import NOTHING_OMITTED
from cassette_lab.flight.projection import SCHEMA_NODES, Projector, _exact_messages, _messages, schema_nodes
from tests.unit.flight_samples import message


def tool(name: str, parameters: Any = None) -> dict[str, Any]:
    return {"name": name, "description": "private", "parameters": parameters}


def project(messages: Any = (), tools: Any = (), **members: Any) -> Any:
    return Projector().request(ModelRequest(messages, tools, **members))


def test_no_text_is_in_a_projection() -> None:
    request = ModelRequest(
        [message()], [tool("t", {"description": "private"})], "p", "m", {"stop": ["private"]}, system="private"
    )
    projection, omissions = Projector().request(request)
    assert "private" not in repr(projection)
    assert projection.stop_count == 1
    assert projection.system_characters == 7
    assert omissions == NOTHING_OMITTED


def test_nothing_of_the_caller_is_kept_or_changed() -> None:
    messages, tools, options = [message()], [tool("t", {"a": {}})], {"temperature": 0.5}
    before = repr((messages, tools, options))
    projection, _ = project(messages, tools, options=options)
    told = repr(projection)
    assert repr((messages, tools, options)) == before
    messages.append(message("assistant"))
    tools[0]["parameters"]["b"] = {}
    assert repr(projection) == told


class TestTools:
    def test_a_plain_list_that_changes_is_seen(self) -> None:
        projector, tools = Projector(), [tool("one", {"a": 1})]
        request = ModelRequest([], tools)
        first, _ = projector.request(request)
        tools[0]["parameters"]["b"] = 2
        tools.append(tool("two"))
        second, _ = projector.request(request)
        assert [tuple(each) for each in first.tools] == [("one", 2)]
        assert [tuple(each) for each in second.tools] == [("one", 3), ("two", 1)]

    def test_frozen_tools_are_walked_once(self) -> None:
        projector, tools = Projector(), FrozenTools([tool("one", {"a": 1})])
        first, _ = projector.request(ModelRequest([], tools))
        again, _ = projector.request(ModelRequest([message()], tools))
        assert again.tools is first.tools

    def test_frozen_tools_are_a_copy(self) -> None:
        source = [tool("one", {"a": 1})]
        tools = FrozenTools(source)
        source[0]["parameters"]["b"] = 2
        assert tools[0]["parameters"] == {"a": 1}

    def test_frozen_tools_are_not_kept_alive(self) -> None:
        projector, tools = Projector(), FrozenTools([tool("one")])
        projector.request(ModelRequest([], tools))
        del tools
        gc.collect()
        assert projector._known == {}

    def test_a_name_that_is_too_long_goes_with_its_schema(self) -> None:
        cyclic: dict[str, Any] = {}
        cyclic["self"] = cyclic
        projection, omissions = project(tools=[tool("n" * 257, cyclic), tool("\U0001f600" * 128), tool("\U0001f600" * 129)])
        assert [len(each.name) for each in projection.tools] == [128]
        assert omissions.request_tools == 2
        assert omissions.oversized_names == 2
        assert omissions.truncated_tool_schemas == 0


class TestSchemaNodes:
    def test_shared_and_cyclic_objects_count_once(self) -> None:
        shared = {"type": "string"}
        assert schema_nodes({"a": shared, "b": shared, "c": 1}) == (4, False)
        cyclic: dict[str, Any] = {"type": "object"}
        cyclic["self"] = cyclic
        assert schema_nodes(cyclic) == (2, False)
        names = ["a"]
        assert schema_nodes({"required": names, "properties": {"required": names}}) == (4, False)

    def test_no_more_than_the_limit(self) -> None:
        assert schema_nodes([0] * (SCHEMA_NODES - 1)) == (SCHEMA_NODES, True)
        assert schema_nodes([0] * SCHEMA_NODES) == (SCHEMA_NODES, False)
        assert schema_nodes({str(number): 0 for number in range(SCHEMA_NODES - 1)}) == (SCHEMA_NODES, True)
        assert schema_nodes({str(number): "s" for number in range(SCHEMA_NODES)}) == (SCHEMA_NODES, False)

    def test_any_depth(self) -> None:
        deep: Any = {}
        for _ in range(4_000):
            deep = {"a": deep}
        assert schema_nodes(deep) == (4_001, True)
        deep = [deep, [deep]]
        assert schema_nodes(deep) == (4_003, False)

    def test_tuples_and_other_mappings(self) -> None:
        assert schema_nodes((1, {"a": ()}, ())) == (5, True)

    def test_a_sequence_without_an_end(self) -> None:
        class Endless(list[int]):
            def __iter__(self) -> Iterator[int]:
                return itertools.count()

        assert schema_nodes({"enum": Endless()}) == (SCHEMA_NODES, False)

    @settings(max_examples=60, deadline=None)
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=3),
            lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=2), children, max_size=4),
            max_leaves=20,
        )
    )
    def test_every_value_is_a_node(self, schema: Any) -> None:
        def count(value: Any) -> int:
            children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            return 1 + sum(map(count, children))

        assert schema_nodes(schema) == (count(schema), True)


class TestMessages:
    def test_hostile_names_are_names(self) -> None:
        messages = [message("__proto__", "constructor", "toString"), message("\ud800", "\u202eevil", "\x00")]
        counts = project(messages)[0].messages
        assert dict(counts.by_role) == {"__proto__": 1, "\ud800": 1}
        assert dict(counts.by_source) == {"constructor": 1, "\u202eevil": 1}
        assert dict(counts.by_block_type) == {"toString": 1, "\x00": 1}

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.tuples(*[st.text("ab\U0001f600", max_size=2) | st.sampled_from(["user", "plugin", "x" * 300])] * 3)))
    def test_the_quick_way_and_the_letter_agree(self, names: list[tuple[str, str, str]]) -> None:
        messages = [message(*each) for each in names]
        quick, omitted = _messages(messages)
        exact, omissions = _exact_messages(messages)
        assert (quick, omitted or NOTHING_OMITTED) == (exact, omissions)

    def test_halves_of_one_character_are_that_character(self) -> None:
        assert dict(project([message("\ud83d\ude00"), message("\U0001f600")])[0].messages.by_role) == {"\U0001f600": 2}

    def test_a_full_map_still_counts_what_is_in_it(self) -> None:
        messages = [message(f"r{number}") for number in range(70)] + [message("r0")]
        projection, omissions = project(messages)
        assert len(projection.messages.by_role) == 64
        assert projection.messages.by_role["r0"] == 2
        assert omissions.message_roles == 6

    @pytest.mark.parametrize(
        "broken",
        [
            None, [None], [{"role": "user"}], [{"role": "user", "source": {}, "content": []}],
            [{"role": 7, "source": {"kind": "user"}, "content": []}],
            [{"role": "user", "source": {"kind": "user"}, "content": "text"}],
            [{"role": "user", "source": {"kind": "user"}, "content": None}],
        ],
    )  # fmt: skip
    def test_what_is_no_message_is_refused(self, broken: Any) -> None:
        with pytest.raises((TypeError, KeyError, AttributeError)):
            project(broken)


@pytest.mark.parametrize("options", [{"temperature": "hot"}, {"maxTokens": True}, {"stop": "word"}, {"reasoningEffort": 3}])
def test_settings_of_the_wrong_type_are_refused(options: Any) -> None:
    with pytest.raises(TypeError):
        project(options=options)


def test_a_number_that_json_cannot_hold_is_left_out() -> None:
    projection, _ = project(options={"temperature": float("nan"), "maxTokens": float("inf")})
    assert (projection.temperature, projection.max_tokens) == (None, None)


class TestPrompt:
    def test_sizes_and_names_in_their_order(self) -> None:
        assembly = Assembly(
            None, None, None, 1, 1,
            sections=[{"name": "b", "text": "\U0001f600"}, {"name": "a", "text": "xyz"}],
            tools=FrozenTools([tool("t")]), variables={"cwd": "/private"},
        )  # fmt: skip
        prompt, omissions = Projector().prompt(assembly)
        assert prompt.to_json() == {
            "sections": [{"name": "b", "characters": 2}, {"name": "a", "characters": 3}],
            "contexts": [],
            "tools": ["t"],
            "variables": ["cwd"],
        }
        assert omissions is NOTHING_OMITTED

    def test_limits(self) -> None:
        names = [f"v{number}" for number in range(257)]
        tools = [tool(name) for name in names]
        parts = [{"name": name, "text": ""} for name in [*names, "n" * 300]]
        for offered in (tools, FrozenTools(tools)):
            prompt, omissions = Projector().prompt(Assembly(None, None, None, 1, 1, parts, parts, offered, names))
            assert (len(prompt.sections), len(prompt.tools), len(prompt.variables)) == (256, 128, 256)
            assert (omissions.prompt_sections, omissions.prompt_contexts) == (2, 2)
            assert (omissions.prompt_tools, omissions.prompt_variables, omissions.oversized_names) == (129, 1, 2)
