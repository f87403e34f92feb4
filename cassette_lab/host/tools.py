"""What a model may call: Python functions as tools, by their signature and docstring; and how one call is carried out.

A tool's failure is the model's to know, so that it comes back as a result that is an error. What says that a cassette and the
run have parted is not for the model: it ends the run.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, overload

from cassette_lab.cassette.failures import error_facts
from cassette_lab.contracts import AbortSignal, FrozenTools
from cassette_lab.errors import AbortError, AmbiguityError, ClosedError, ConfigError, MismatchError, RecordedError
from cassette_lab.host.threads import in_thread
from cassette_lab.host.typed import to_plain
from cassette_lab.jsonio import JsonObject, canonical

if TYPE_CHECKING:
    from cassette_lab.host.agent import Agent


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Whose call it is. A parameter annotated with this type gets it, and is no argument of the tool.

    ``signal`` aborts when the run is stopped: a function that works in a thread should look at it now and then.
    """

    agent: Agent
    signal: AbortSignal
    call_id: str


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a call came to: content blocks, and ``error`` (``name``, perhaps ``code``) where it failed."""

    content: Sequence[JsonObject]
    is_error: bool = False
    error: JsonObject | None = None


class ToolError(Exception):
    """A tool may raise this to tell the model what is wrong, in its own words and with a code."""

    def __init__(self, message: str, *, name: str = "ToolError", code: str | None = None) -> None:
        super().__init__(message)
        self.recorded_name = name
        self.code = code


class FatalToolError(Exception):
    """Carries, out of a tool, what ends the whole run: its ``__cause__``."""


@dataclass(frozen=True, slots=True, eq=False)
class Tool:
    """One tool: ``name``, ``description`` and the JSON schema of its ``parameters`` are what the model sees.

    ``run`` gets the arguments as the model wrote them (a text) and the context. It raises what has gone wrong.
    """

    name: str
    description: str
    parameters: JsonObject
    run: Callable[[str, ToolContext], Awaitable[ToolOutput]]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"a tool's name has 1 to 64 of A-Z a-z 0-9 _ -, not {self.name!r}; give it a name", field="name")

    @property
    def definition(self) -> JsonObject:
        """As a request offers it."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}


AnyTool: TypeAlias = Tool | Callable[..., Any]


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(*, name: str | None = None, description: str | None = None) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, *, name: str | None = None, description: str | None = None
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool: ``@tool``, or with another name or description than its own.

    The description is the docstring up to its list of parameters, which describes those (Google, NumPy and Sphinx style), as
    ``Annotated[…, Field(description=…)]`` does. Arguments are checked by pydantic. An ``async def`` runs on the event loop,
    where an abort cancels it. Any other function runs in a thread of its own, which no abort can end: its result is not waited
    for, but it works on until it returns, unless it looks at the ``signal`` of a ``ToolContext``. Text is the result as it is,
    content blocks in a ``ToolOutput``, too; anything else becomes JSON. ``ConfigError`` for a function that cannot be one.
    """
    if function is None:
        return functools.partial(_function_tool, name=name, description=description)
    return _function_tool(function, name=name, description=description)


class Toolbox:
    """The tools of one agent. ``definitions`` is made once: every request offers the same object."""

    def __init__(self, tools: Iterable[AnyTool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for each in tools:
            made = each if isinstance(each, Tool) else _function_tool(each)
            if self._tools.setdefault(made.name, made) is not made:
                raise ConfigError(f"two tools are called {made.name!r}; give one of them another name", field="tools")
        self.definitions = FrozenTools(each.definition for each in self._tools.values())

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)

    def filtered(self, tool_filter: Mapping[str, Any] | None) -> Toolbox:
        """Only those of the filter's ``allow`` (all without one), and none of its ``deny``.

        ``ConfigError`` for a filter of another shape, and where a tool is allowed that is not here: nobody can hand on what
        they do not have.
        """
        if tool_filter is None:
            return self
        if not _is_filter(tool_filter):
            raise ConfigError(
                "a tool filter has the members allow and deny, lists of names", field="toolFilter", code="SUBAGENT_REFUSED"
            )
        allowed, denied = tool_filter.get("allow"), tool_filter.get("deny", ())
        missing = [name for name in allowed or () if name not in self._tools]
        if missing:
            known = ", ".join(self._tools) or "none"
            raise ConfigError(
                f"the tool filter allows {', '.join(missing)}, which the parent does not have; it has {known}",
                field="toolFilter.allow",
                code="SUBAGENT_REFUSED",
            )
        kept = [each for name, each in self._tools.items() if (allowed is None or name in allowed) and name not in denied]
        return self if len(kept) == len(self._tools) else Toolbox(kept)


def _is_filter(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        name in ("allow", "deny") and isinstance(names, (list, tuple)) and all(isinstance(each, str) for each in names)
        for name, names in value.items()
    )


async def carry_out(tool: Tool | None, call: JsonObject, context: ToolContext) -> ToolOutput:
    """The output of one call, whatever happens. Raises only what ends the run, and ``CancelledError``."""
    if tool is None:
        return failed(f'unknown tool "{call["name"]}"', name="ToolNotFoundError", code="UNKNOWN_TOOL")
    try:
        return _checked(await tool.run(call["arguments"], context))
    except _PARTED:
        raise
    except FatalToolError as error:
        raise error.__cause__ or error from None
    except AbortError as error:
        if context.signal.aborted and not isinstance(error, RecordedError):
            return ABORTED_OUTPUT
        return _failed_with(error)
    except Exception as error:  # noqa: BLE001 - the model may know what to do
        return _failed_with(error)


def failed(message: str, *, name: str, code: str | None = None) -> ToolOutput:
    """An output that is an error."""
    error = {"name": name} if code is None else {"name": name, "code": code}
    return ToolOutput([{"type": "text", "text": f"Error: {message}"}], is_error=True, error=error)


def text_output(text: str) -> ToolOutput:
    """An output of one text."""
    return ToolOutput([{"type": "text", "text": text}])


ABORTED_OUTPUT: Final = failed("tool call aborted", name="AbortError", code="ABORTED")
_PARTED: Final = (MismatchError, AmbiguityError, ClosedError)
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def _failed_with(error: BaseException) -> ToolOutput:
    """Told in the same words whether it happened or is replayed."""
    facts = error_facts(error)
    told = facts.message if isinstance(error, ToolError) else f"{facts.name}: {facts.message}"
    return failed(told, name=facts.name, code=facts.code)


def _function_tool(function: Callable[..., Any], *, name: str | None = None, description: str | None = None) -> Tool:
    from cassette_lab.host.arguments import Arguments, body_of

    if not callable(function):
        raise ConfigError(f"a tool is a function, not {type(function).__name__}", field="tools")
    arguments, body = Arguments(function), body_of(function)
    shown = getattr(function, "__name__", type(function).__name__)
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise ConfigError(f"{shown} cannot be a tool: it yields, and a tool returns once; return a list", field="tools")
    is_async = inspect.iscoroutinefunction(body)

    async def run(text: str, context: ToolContext) -> ToolOutput:
        args, kwargs = arguments.parse(text, context)
        if is_async:
            value = function(*args, **kwargs)
        else:
            value = await in_thread(lambda: function(*args, **kwargs), name=f"tool {shown}")
        return _output(await value if inspect.isawaitable(value) else value)  # a plain function may wrap an async one

    return Tool(name or shown, arguments.description if description is None else description, arguments.schema, run)


def _checked(output: Any) -> ToolOutput:
    """An output that can be logged, and shown to a model. ``TypeError``, or ``IdentityError``, for one that cannot."""
    if not isinstance(output, ToolOutput):
        raise TypeError(f"a tool's run gives a ToolOutput, not {type(output).__name__}")
    content: Any = to_plain(output.content, "content")
    for block in content if isinstance(content, list) else [None]:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise TypeError("the content of a ToolOutput is a list of blocks: objects with a type")
        if block["type"] == "text" and not isinstance(block.get("text"), str):
            raise TypeError("a text block has a text")
    error: Any = to_plain(output.error, "error")
    return replace(output, content=content, error=error)


def _output(value: Any) -> ToolOutput:
    if isinstance(value, ToolOutput):
        return value
    if value is None:
        return text_output("")
    plain = to_plain(value, "result")
    return text_output(plain if isinstance(plain, str) else canonical(plain).decode())
