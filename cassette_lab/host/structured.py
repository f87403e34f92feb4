"""Structured output: a JSON schema that an agent's last word must fit, as a tool that the model calls to end its turn.

A last text that is JSON and fits counts as well: some models do not call the tool.
"""

from __future__ import annotations

import re
from typing import Any, Final

from cassette_lab.contracts import ABSENT
from cassette_lab.errors import CassetteLabError, ConfigError
from cassette_lab.host.tools import FatalToolError, Tool, ToolContext, ToolError, ToolOutput, text_output
from cassette_lab.jsonio import JsonObject, JsonSyntaxError, parse

TOOL_NAME: Final = "structured_output"
SECTION: Final = (
    f"Your answer is a value, not a text: when you have all it takes, call the tool {TOOL_NAME} with it. "
    "Nothing else counts as the answer."
)
REMINDER: Final = f"The answer is still missing. Call the tool {TOOL_NAME} with it."
_WRAPPER: Final = "value"


class Output:
    """What is wanted: a JSON schema, or a type that pydantic knows (a model, a dataclass, ``list[int]``, …).

    Raises ``ConfigError`` for a schema that is none. References to other documents are not followed: they end the run.
    """

    def __init__(self, wanted: Any) -> None:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import validator_for
        from referencing import Registry

        self._adapter = None
        if isinstance(wanted, dict):
            self.schema: JsonObject = wanted
        else:
            self._adapter, self.schema = _schema_of(wanted)
        try:
            kind = validator_for(self.schema)
            kind.check_schema(self.schema)
        except SchemaError as error:
            raise ConfigError(f"the output schema is no JSON schema: {error.message}", field="outputSchema") from None
        except (AttributeError, TypeError, RecursionError) as error:
            raise ConfigError(f"the output schema is no JSON schema ({type(error).__name__})", field="outputSchema") from error
        self._validator = kind(self.schema, registry=Registry())
        try:
            self.misfit(None)
        except RecursionError:
            raise ConfigError("the output schema refers to itself without an end", field="outputSchema") from None
        is_object = self.schema.get("type") == "object"
        self._parameters = self.schema if is_object else _wrapped(self.schema)
        self._is_wrapped = not is_object

    def tool(self, found: list[Any]) -> Tool:
        """The tool by which the model gives its answer; a value that fits is put into ``found``."""

        async def run(text: str, _: ToolContext) -> ToolOutput:
            try:
                value = parse(text)
            except JsonSyntaxError as error:
                raise ToolError(f"invalid arguments: no JSON ({error})", name="ToolArgsError", code="INVALID_ARGS") from None
            if self._is_wrapped:
                if not isinstance(value, dict) or value.keys() != {_WRAPPER}:
                    raise ToolError(f"invalid arguments: the only one is {_WRAPPER}", name="ToolArgsError", code="INVALID_ARGS")
                value = value[_WRAPPER]
            try:
                misfit = self.misfit(value)
            except RecursionError:
                misfit = "the value is nested too deeply"
            except ConfigError as error:
                raise FatalToolError from error
            if misfit is not None:
                raise ToolError(f"invalid arguments: {misfit}", name="ToolArgsError", code="INVALID_ARGS")
            found[:] = [value]
            return text_output("The answer is complete.")

        return Tool(TOOL_NAME, "Give the answer, and end with it.", self._parameters, run)

    def told(self, text: str) -> Any:
        """The value that a last text is, where it is JSON (in a code fence or not) and fits; ``ABSENT`` where it is none."""
        fenced = _FENCED.fullmatch(text.strip())
        try:
            value = parse(fenced[1] if fenced else text)
            if self._is_wrapped and isinstance(value, dict) and value.keys() == {_WRAPPER} and self.misfit(value) is not None:
                value = value[_WRAPPER]
            return value if self.misfit(value) is None else ABSENT
        except (JsonSyntaxError, RecursionError):
            return ABSENT

    def misfit(self, value: Any) -> str | None:
        """Where ``value`` does not fit the schema; None where it does."""
        from jsonschema.exceptions import ValidationError, best_match
        from referencing.exceptions import Unresolvable

        try:
            error: ValidationError | None = best_match(self._validator.iter_errors(value))
        except Unresolvable as failure:
            raise ConfigError(f"the output schema refers to what is not in it: {failure}", field="outputSchema") from None
        if error is None:
            return None
        return f"{error.json_path}: {error.message}"[:_LONGEST_MISFIT]

    def value(self, plain: Any) -> Any:
        """The value in the type that was asked for. Raises ``CassetteLabError`` (``RESULT_TYPE``) where it cannot be made."""
        if self._adapter is None:
            return plain
        from pydantic import ValidationError

        try:
            return self._adapter.validate_python(plain)
        except ValidationError as error:
            from cassette_lab.host.arguments import told_errors

            raise CassetteLabError(
                f"the answer fits the schema but not the type: {told_errors(error)}", code="RESULT_TYPE"
            ) from None


_LONGEST_MISFIT: Final = 500
_FENCED: Final = re.compile(r"```[a-z]*\n(.*)\n```", re.DOTALL)


def _wrapped(schema: JsonObject) -> JsonObject:
    """An object with the value as its only member: arguments of tools are objects."""
    inner = {name: value for name, value in schema.items() if name not in ("$defs", "$schema")}
    outer = {"type": "object", "properties": {_WRAPPER: inner}, "required": [_WRAPPER], "additionalProperties": False}
    return outer if "$defs" not in schema else {**outer, "$defs": schema["$defs"]}


def _schema_of(wanted: Any) -> tuple[Any, JsonObject]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    from cassette_lab.host.arguments import untitled

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(wanted)
        schema: JsonObject = untitled(adapter.json_schema())
    except PydanticUserError as error:
        raise ConfigError(f"the output type makes no JSON schema: {str(error).splitlines()[0]}", field="output") from None
    return adapter, schema
