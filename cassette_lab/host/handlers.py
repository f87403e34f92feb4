"""What stands behind one ``@subagent``: its arguments as a request, a request as its arguments, its result both ways."""

from __future__ import annotations

import functools
import inspect
import json
import typing
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from cassette_lab.cassette.runs import ABORTED
from cassette_lab.contracts import ABSENT, ParentAgent, SubagentRequest, SubagentResult
from cassette_lab.errors import AbortError, CassetteLabError, ConfigError, IdentityError, RecordedAbortError
from cassette_lab.host.typed import from_plain, to_plain
from cassette_lab.jsonio import JsonObject, canonical

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""What a function is called with: positional and keyword arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall(SubagentRequest):
    """The request of a call that was made in Python; it carries the function and the arguments as they were given."""

    handler: Handler
    arguments: Arguments


class Handler:
    """An ``async def`` as a subagent. Raises ``ConfigError`` for a function that cannot be one.

    A function whose only parameter is annotated ``SubagentRequest`` takes whole requests, and may return a
    ``SubagentResult``. Every other one takes arguments: the request's prompt is one text block, the canonical JSON of
    the bound arguments, defaults applied.
    """

    def __init__(self, function: Callable[..., Coroutine[Any, Any, Any]], label: str | None) -> None:
        _check_function(function)
        self.function = function
        self.label: str = _name(function) if label is None else label
        self.signature = inspect.signature(function)

    @property
    def hints(self) -> dict[str, Any]:
        """The annotations, as their names stand now: they may be defined late, or again. Empty where one is unknown."""
        try:
            return typing.get_type_hints(self.function)
        except Exception:  # noqa: BLE001 - such annotations say nothing
            return {}

    @functools.cached_property
    def takes_request(self) -> bool:
        """Whether the function takes a whole request instead of arguments."""
        names = list(self.signature.parameters)
        return len(names) == 1 and self.hints.get(names[0]) is SubagentRequest

    def request(self, args: tuple[Any, ...], kwargs: dict[str, Any], parent: ParentAgent) -> SubagentRequest:
        """The request that stands for a call with these arguments.

        ``TypeError`` where they do not fit the function, ``IdentityError`` where one is not plain JSON.
        """
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if self.takes_request:
            (request,) = bound.arguments.values()
            if not isinstance(request, SubagentRequest):
                raise IdentityError(f"{self.label}() takes a SubagentRequest, not {type(request).__name__}")
            return replace(request, label=request.label or self.label, parent=request.parent or parent)
        plain = {name: self._plain_argument(name, value) for name, value in bound.arguments.items()}
        text = canonical(plain).decode()
        return FunctionCall(
            prompt=[{"type": "text", "text": text}],
            label=self.label,
            parent=parent,
            handler=self,
            arguments=(bound.args, bound.kwargs),
        )

    def arguments(self, request: SubagentRequest) -> Arguments:
        """What to call the function with for ``request``; ``IdentityError`` where its prompt does not say.

        A prompt of one text block holds the arguments as a JSON object, or the text that is the function's first one.
        """
        if isinstance(request, FunctionCall) and request.handler is self:
            return request.arguments
        if self.takes_request:
            return ((request,), {})
        given = request.to_json().keys() - {"prompt", "label"}
        if given:
            raise IdentityError(
                f"{self.label}() takes arguments, and no {', '.join(sorted(given))}; give it one parameter annotated "
                "SubagentRequest to take whole requests"
            )
        text = _only_text(request.prompt)
        if text is None:
            raise IdentityError(
                f"the prompt for {self.label}() must be one text block: its arguments as a JSON object, or a text"
            )
        members = _object(text)
        if members is None or not members.keys() <= self.signature.parameters.keys():
            return ((text,), {})
        return self._unpacked(members)

    async def run(self, arguments: Arguments) -> SubagentResult:
        """Call the function; its value as a result."""
        __tracebackhide__ = True
        args, kwargs = arguments
        return self.result(await self.function(*args, **kwargs))

    def result(self, value: Any) -> SubagentResult:
        """A returned value as a result: text as output, anything else as ``structured``."""
        if isinstance(value, SubagentResult):
            return value
        try:
            plain = to_plain(value, "result")
        except IdentityError as error:
            raise CassetteLabError(f"the {error.message} (returned by {self.label})", code="RESULT_TYPE") from None
        if isinstance(plain, str):
            return SubagentResult(output=[{"type": "text", "text": plain}], stop_reason="completed")
        return SubagentResult(output=[], stop_reason="completed", structured=plain)

    def value(self, result: SubagentResult, *, replayed: bool) -> Any:
        """A result as the value that the annotation promises.

        ``AbortError`` for a call that was aborted, ``RecordedAbortError`` for one that was recorded so.
        """
        wanted = self.hints.get("return", Any)
        if wanted is SubagentResult:
            return result
        if result.stop_reason == ABORTED and result.structured is ABSENT:
            if replayed:
                raise RecordedAbortError(
                    f"the call {self.label} was recorded as aborted: a timeout, a cancellation or an interrupt stopped it "
                    "before it had a result"
                )
            raise AbortError(f"the call {self.label} was aborted before it had a result")
        if result.structured is not ABSENT:
            plain = result.structured
        else:
            plain = "".join(block["text"] for block in result.output if block.get("type") == "text")
        return from_plain(wanted, plain, f"the result of {self.label}")

    def _plain_argument(self, name: str, value: Any) -> Any:
        try:
            return to_plain(value, name)
        except IdentityError as error:
            hint = " (a method's self counts; make it a function, or the class a dataclass)" if name in ("self", "cls") else ""
            raise IdentityError(f"{self.label}(): argument {error.message}{hint}", field=error.field) from None

    def _unpacked(self, members: JsonObject) -> Arguments:
        """The arguments in a prompt of JSON, typed as the parameters are annotated."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            if name not in members:
                continue
            value = members[name]
            if parameter.kind is parameter.VAR_POSITIONAL and isinstance(value, list):
                args.extend(value)
            elif parameter.kind is parameter.VAR_KEYWORD and isinstance(value, dict):
                kwargs.update(value)
            else:
                value = from_plain(self.hints.get(name, Any), value, f"argument {name} of {self.label}")
                if parameter.kind is parameter.KEYWORD_ONLY or len(args) < _position(self.signature, name):
                    kwargs[name] = value
                else:
                    args.append(value)
        return (tuple(args), kwargs)


def _check_function(function: Any) -> None:
    name = getattr(function, "__name__", repr(function))
    if isinstance(function, (staticmethod, classmethod)):
        raise ConfigError(f"put @{type(function).__name__} above @subagent, not below it")
    if inspect.isasyncgenfunction(function):
        raise ConfigError(f"@subagent cannot take {name}, which yields; a subagent returns once: collect what it yields")
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(
            f"@subagent needs an `async def`, and {name} is none; wrap it: `async def {name}(...): "
            "return await asyncio.to_thread(work, ...)`"
        )


def _name(function: Any) -> str:
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise ConfigError(f'{type(function).__name__} has no name; give it a label: subagent("label")(…)', field="label")
    return name


def _only_text(prompt: Any) -> str | None:
    if (
        isinstance(prompt, (list, tuple))
        and len(prompt) == 1
        and isinstance(prompt[0], dict)
        and prompt[0].get("type") == "text"
    ):
        text = prompt[0].get("text")
        return text if isinstance(text, str) else None
    return None


def _object(text: str) -> JsonObject | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _position(signature: inspect.Signature, name: str) -> int:
    return list(signature.parameters).index(name)
