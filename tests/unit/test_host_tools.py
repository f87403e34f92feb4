"""Functions as tools: what a model is told of them, how arguments arrive, what comes back; and answers that fit a schema."""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from cassette_lab.contracts import AbortSignal
from cassette_lab.errors import CassetteLabError, ConfigError
from cassette_lab.host.agent import Agent
from cassette_lab.host.context import Context
from cassette_lab.host.docstrings import read_docstring
from cassette_lab.host.models.scripted import Call, ScriptedModel
from cassette_lab.host.structured import Output
from cassette_lab.host.tools import Toolbox, ToolContext, ToolError, ToolOutput, carry_out, failed, tool
from tests.unit.host_samples import agent, facts_of
from tests.unit.upstreams import play


@dataclasses.dataclass
class Place:
    city: str
    country: str = "NZ"


class Order(BaseModel):
    item: str
    count: Annotated[int, Field(ge=1)] = 1


def call(made: Any, arguments: Any) -> ToolOutput:
    """Carry out one call of a tool as a model would make it."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    context = ToolContext(None, AbortSignal(), "c1")  # type: ignore[arg-type]
    return play(carry_out(made, {"type": "tool-call", "id": "c1", "name": "x", "arguments": text}, context))


def text(output: ToolOutput) -> str:
    return str(output.content[0]["text"])


def test_a_signature_and_a_docstring_say_all_there_is_to_say() -> None:
    def forecast(
        place: Place, days: Annotated[int, Field(ge=1, description="How far.")] = 3, *, unit: Literal["C", "F"] = "C"
    ) -> str:
        """The weather to come.

        Not always right.

        Args:
            place: Where,
                with the country.
            unit (str): Of the temperatures.

        Returns:
            str: a sentence
        """
        return f"{place.city} {place.country} {days} {unit}"

    made = tool(forecast)
    assert (made.name, made.description) == ("forecast", "The weather to come.\n\nNot always right.")
    properties = made.parameters["properties"]
    assert properties["place"]["description"] == "Where, with the country."
    assert properties["days"] == {"type": "integer", "minimum": 1, "default": 3, "description": "How far."}
    assert properties["unit"]["enum"] == ["C", "F"]
    assert made.parameters["required"] == ["place"]
    assert made.parameters["additionalProperties"] is False
    assert "title" not in json.dumps(made.parameters)
    assert text(call(made, {"place": {"city": "Oslo"}, "unit": "F"})) == "Oslo NZ 3 F"


@pytest.mark.parametrize(
    ("docstring", "about", "told"),
    [
        ("", "", {}),
        ("Just this.", "Just this.", {}),
        (
            "Do.\n\nParameters\n----------\na : int\n    The a: first.\nb\n    The b.\n\nReturns\n-------\nint",
            "Do.",
            {"a": "The a: first.", "b": "The b."},
        ),
        (
            "Do.\n\n:param a: The a,\n    at length.\n:param int b: The b.\n:returns: it",
            "Do.",
            {"a": "The a, at length.", "b": "The b."},
        ),
        ("Do.\n\nArgs:\n    a: The a.\n\nRaises:\n    ValueError: never", "Do.", {"a": "The a."}),
    ],
)
def test_docstrings_are_read_in_three_styles(docstring: str, about: str, told: dict[str, str]) -> None:
    assert read_docstring(docstring) == (about, told)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("{not json", "Invalid JSON"),
        ("[1]", "object"),
        ({"count": 1}, "item: Field required"),
        ({"item": "a", "count": 0}, "count: Input should be greater than or equal to 1"),
        ({"item": "a", "size": 3}, "size: Extra inputs are not permitted"),
        ({"item": "secret-value", "count": "many"}, "count: Input should be a valid integer"),
    ],
)
def test_arguments_that_do_not_fit_are_told_to_the_model(arguments: Any, told: str) -> None:
    def order(item: str, count: Annotated[int, Field(ge=1)] = 1) -> str:
        """Order."""
        return item * count

    output = call(tool(order), arguments)
    assert output.is_error
    assert output.error == {"name": "ToolArgsError", "code": "INVALID_ARGS"}
    assert told in text(output)
    assert "secret-value" not in text(output)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("as it is", "as it is"),
        (None, ""),
        (3, "3"),
        ({"b": 1, "a": [True]}, '{"a":[true],"b":1}'),
        (Order(item="x"), '{"count":1,"item":"x"}'),
        (Place("Oslo", "NO"), '{"city":"Oslo","country":"NO"}'),
    ],
)
def test_values_come_back_as_text_or_json(value: Any, told: str) -> None:
    def give() -> Any:
        """Give."""
        return value

    output = call(tool(give), "")
    assert (text(output), output.is_error) == (told, False)


def test_content_blocks_and_own_errors_go_through() -> None:
    picture = {"type": "image", "data": "AA==", "mediaType": "image/png"}

    def show() -> ToolOutput:
        """Show."""
        return ToolOutput([picture])

    def refuse() -> str:
        """Refuse."""
        raise ToolError("not today", name="ShopError", code="CLOSED")

    assert call(tool(show), {}).content == [picture]
    output = call(tool(refuse), {})
    assert (text(output), output.error) == ("Error: not today", {"name": "ShopError", "code": "CLOSED"})


def test_a_tool_may_know_whose_call_it_is() -> None:
    async def who(name: str, context: ToolContext) -> str:
        """Who."""
        return f"{name} {context.call_id}"

    made = tool(who)
    assert list(made.parameters["properties"]) == ["name"]
    assert text(call(made, {"name": "me"})) == "me c1"


def test_parameters_may_have_any_name_and_kind() -> None:
    def odd(schema: int, /, model_config: int, *, _hidden: int = 3) -> int:
        """Odd."""
        return schema + model_config + _hidden

    made = tool(odd)
    assert list(made.parameters["properties"]) == ["schema", "model_config", "_hidden"]
    assert text(call(made, {"schema": 1, "model_config": 2})) == "6"


def test_objects_that_are_called_and_methods_are_tools_too() -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        async def __call__(self, by: int) -> int:
            """Count on."""
            self.count += by
            return self.count

        def back(self, by: int) -> int:
            """Count back."""
            self.count -= by
            return self.count

    counter = Counter()
    assert text(call(tool(counter), {"by": 3})) == "3"
    assert tool(counter).description == "Count on."
    assert text(call(tool(counter.back), {"by": 1})) == "2"
    assert text(call(tool(name="twice")(functools.partial(counter.back, 2)), {})) == "0"


def test_what_cannot_be_a_tool_says_why() -> None:
    def many(*names: str) -> None:
        """Many."""

    def strange(value: AbortSignal) -> None:
        """Strange."""

    with pytest.raises(ConfigError, match=r"many cannot be a tool: a model cannot fill \*names"):
        tool(many)
    with pytest.raises(ConfigError, match="strange cannot be a tool: its annotations make no JSON schema"):
        tool(strange)
    with pytest.raises(ConfigError, match="a tool's name has"):
        tool(lambda: None)
    with pytest.raises(ConfigError, match="two tools are called"):
        Toolbox([tool(name="a")(many_things), tool(name="a")(many_things)])


def many_things() -> None:
    """Many things."""


def test_a_filter_hands_on_some_tools() -> None:
    box = Toolbox([tool(name=name)(many_things) for name in ("a", "b", "c")])
    names = lambda each: [tool.name for tool in each]  # noqa: E731 - short
    assert names(box.filtered({"allow": ["c", "a"]})) == ["a", "c"]
    assert names(box.filtered({"deny": ["b", "z"]})) == ["a", "c"]
    assert names(box.filtered({"allow": ["a", "b"], "deny": ["a"]})) == ["b"]
    assert names(box.filtered({"allow": []})) == []
    assert box.filtered(None) is box
    with pytest.raises(ConfigError, match="allows z, which the parent does not have"):
        box.filtered({"allow": ["z"]})
    for odd in ({"allow": "abc"}, {"only": ["a"]}, {"deny": [1]}):
        with pytest.raises(ConfigError, match="has the members allow and deny"):
            box.filtered(odd)


def test_unknown_tools_and_failures_have_a_name() -> None:
    output = failed("no", name="X")
    assert (text(output), output.error) == ("Error: no", {"name": "X"})
    assert call(None, {}).error == {"name": "ToolNotFoundError", "code": "UNKNOWN_TOOL"}


# Structured answers


def answer(value: Any) -> Call:
    return Call("structured_output", value)


def test_an_answer_fits_a_schema_or_is_asked_for_again(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    work = agent("It is 3.", answer({"n": "3"}), answer({"n": 3}), output=schema, sessions=tmp_path)

    async def scenario() -> Any:
        async with work:
            return await work.run("How many?")

    result = play(scenario())
    assert (result.stop_reason, result.output) == ("completed", {"n": 3})
    facts = facts_of(tmp_path, work.session_id)
    assert [(call.name, call.is_error) for call in facts.tool_calls] == [
        ("structured_output", True),
        ("structured_output", False),
    ]
    assert facts.turns[0].end_kind == "completed"
    told = [
        message["content"][0].get("text", "") for message in work.session.messages() if message["source"] == {"kind": "user"}
    ]
    assert told == ["How many?", "The answer is still missing. Call the tool structured_output with it."]


@pytest.mark.parametrize(
    ("wanted", "given", "value"),
    [
        (Order, {"item": "x", "count": 2}, Order(item="x", count=2)),
        (Place, {"city": "Oslo"}, Place("Oslo")),
        (list[int], {"value": [1, 2]}, [1, 2]),
        (Literal["yes", "no"], {"value": "no"}, "no"),
        (dict[str, int], {"a": 1}, {"a": 1}),
        ({"enum": [1, 2]}, {"value": 2}, 2),
    ],
)
def test_an_answer_has_the_type_that_was_asked_for(wanted: Any, given: Any, value: Any) -> None:
    async def scenario() -> Any:
        async with agent(answer(given)) as work:
            return (await work.run("go", output=wanted)).output

    assert play(scenario()) == value


@pytest.mark.parametrize(
    ("wanted", "text", "value"),
    [
        (Order, '{"item": "x", "count": 2}', Order(item="x", count=2)),
        (Order, '```json\n{"item": "x", "count": 2}\n```', Order(item="x", count=2)),
        (list[int], "[1, 2]", [1, 2]),
        (list[int], '{"value": [1, 2]}', [1, 2]),
    ],
)
def test_a_last_text_that_is_json_and_fits_is_the_answer(wanted: Any, text: str, value: Any) -> None:
    async def scenario() -> Any:
        async with agent(text) as work:
            return (await work.run("go", output=wanted)).output

    assert play(scenario()) == value


def test_the_same_invalid_call_again_and_again_ends_the_turn() -> None:
    model = ScriptedModel(lambda request: Call("double", '{"n": "no number"' if len(request.messages) > 2 else "[]"))
    work = Agent(model, tools=[double], context=Context())
    with pytest.raises(CassetteLabError, match="same invalid call of the tool double 5 times in a row") as raised:
        play(work.run("go"))
    assert (raised.value.code, len(model.requests)) == ("INVALID_CALLS", 6)


def double(n: int) -> int:
    """Twice that."""
    return 2 * n


def test_a_model_that_does_not_answer_fails_in_the_end() -> None:
    async def scenario() -> None:
        async with agent(*["no"] * 4, output=Order) as work:
            await work.run("go")

    with pytest.raises(CassetteLabError) as raised:
        play(scenario())
    assert raised.value.code == "NO_OUTPUT"


def test_a_schema_is_checked_and_follows_no_reference_out_of_it() -> None:
    with pytest.raises(ConfigError, match="no JSON schema"):
        Output({"type": "objekt"})
    with pytest.raises(ConfigError, match="makes no JSON schema"):
        Output(AbortSignal)
    wanted = Output({"type": "object", "properties": {"a": {"$ref": "https://example.org/schema.json"}}})
    with pytest.raises(ConfigError, match="refers to what is not in it"):
        wanted.misfit({"a": 1})
    nested = Output({"$defs": {"n": {"type": "integer"}}, "type": "array", "items": {"$ref": "#/$defs/n"}})
    assert nested.misfit([1]) is None
    assert nested.misfit(["a"]) == "$[0]: 'a' is not of type 'integer'"
