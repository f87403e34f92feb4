"""A function's parameters as a JSON schema, and what a model wrote as its arguments: pydantic's work."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from cassette_lab.errors import ConfigError
from cassette_lab.host.docstrings import read_docstring
from cassette_lab.host.tools import ToolContext, ToolError
from cassette_lab.jsonio import CanonicalError, JsonObject, canonical

_MOST_ERRORS: Final = 5


class Arguments:
    """What a function takes. ``description`` says what it is for, ``schema`` is an object with one property a parameter.

    Raises ``ConfigError`` for a function that takes what no JSON object can name (``*args``, ``**kwargs``), or whose
    annotations pydantic does not know.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        target = body_of(function)
        self._name = getattr(function, "__name__", type(function).__name__)
        self.description, told = read_docstring(inspect.getdoc(target) or "")
        try:
            signature = inspect.signature(function)
            hints = typing.get_type_hints(target, include_extras=True)
        except (TypeError, ValueError, NameError) as error:
            raise self._refusal(f"its parameters cannot be read ({error})") from error
        self._parameters: list[tuple[str | None, inspect.Parameter]] = []  # None: the context
        fields: dict[str, Any] = {}
        for name, parameter in signature.parameters.items():
            annotation = hints.get(name, Any)
            if annotation is ToolContext or ToolContext in typing.get_args(annotation):
                self._parameters.append((None, parameter))
                continue
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise self._refusal(f"a model cannot fill *{name}; name the parameters")
            default = ... if parameter.default is parameter.empty else parameter.default
            key = f"p{len(self._parameters)}"  # pydantic refuses some names, and a model's arguments may have any
            about: dict[str, Any] = {"description": told[name]} if name in told else {}  # else what the annotation says stays
            fields[key] = annotation, Field(default, alias=name, **about)
            self._parameters.append((key, parameter))
        try:
            config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
            self._model: type[BaseModel] = create_model(self._name, __config__=config, **fields)
            self.schema: JsonObject = untitled(self._model.model_json_schema(schema_generator=_Schema))
        except PydanticUserError as error:
            raise self._refusal(f"its annotations make no JSON schema ({str(error).splitlines()[0]})") from error

    def parse(self, text: str, context: ToolContext) -> tuple[list[Any], dict[str, Any]]:
        """What to call the function with. Raises ``ToolError`` (``INVALID_ARGS``) that tells the model what does not fit."""
        try:
            values = self._model.model_validate_json(text or "{}")
        except ValidationError as error:
            raise ToolError(f"invalid arguments: {told_errors(error)}", name="ToolArgsError", code="INVALID_ARGS") from None
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for key, parameter in self._parameters:
            value = context if key is None else getattr(values, key)
            if parameter.kind is parameter.POSITIONAL_ONLY:
                args.append(value)
            else:
                kwargs[parameter.name] = value
        return args, kwargs

    def _refusal(self, reason: str) -> ConfigError:
        return ConfigError(f"{self._name} cannot be a tool: {reason}", field="tools")


def body_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """What is run when ``function`` is called: its annotations and its docstring are what counts."""
    if isinstance(function, functools.partial):
        return body_of(function.func)
    return function if inspect.isroutine(function) else type(function).__call__


def told_errors(error: ValidationError) -> str:
    """What pydantic found, one phrase each, without the values."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    phrases = [
        ": ".join(part for part in (".".join(map(str, each["loc"])), each["msg"]) if part) for each in found[:_MOST_ERRORS]
    ]
    more = len(found) - len(phrases)
    return "; ".join(phrases) + (f"; and {more} more" if more > 0 else "")


def untitled(schema: Any) -> Any:
    """A schema without the titles that pydantic makes of names: a model gains nothing by them."""
    if isinstance(schema, list):
        return [untitled(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value if name in _VALUES else untitled(value)
        for name, value in schema.items()
        if not (name == "title" and isinstance(value, str))
    }


class _Schema(GenerateJsonSchema):
    """Leaves out defaults that JSON cannot hold."""

    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012 - as the base class has it

    def encode_default(self, dft: Any) -> Any:
        """The default as JSON."""
        value = super().encode_default(dft)
        try:
            canonical(value)
        except CanonicalError as error:
            raise PydanticSerializationError(str(error)) from error
        return value


_VALUES: Final = frozenset({"default", "const", "enum", "examples"})
