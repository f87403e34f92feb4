"""``@subagent``: identity from bound arguments, typed results and errors back, topology by who calls."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pydantic
import pytest

import cassette_lab as cl
from cassette_lab.cassette.model import Interaction
from cassette_lab.contracts import SubagentRequest, SubagentResult
from cassette_lab.host.ambient import current_parent
from cassette_lab.host.handlers import Handler
from tests.unit.upstreams import play, text_result


@dataclasses.dataclass
class Finding:
    file: str
    lines: list[int]


class Verdict(pydantic.BaseModel):
    ok: bool
    findings: list[dict[str, int]] = []


def calls_of(path: Path) -> list[Interaction]:
    return sorted(cl.read_cassette(path).interactions, key=lambda call: call.sequence)


def arguments_of(path: Path) -> list[Any]:
    """The arguments in the stored prompts of a recording with full requests."""
    prompts = [call.request.value["prompt"] for call in calls_of(path) if call.request.value is not None]
    return [json.loads(prompt[0]["text"]) for prompt in prompts]


async def record_then_replay(path: Path, work: Any, **options: Any) -> tuple[Any, Any]:
    async with cl.record(path, **options):
        live = await work()
    async with cl.replay(path, nested="covered"):
        return live, await work()


class TestDecorator:
    def test_name_doc_and_signature_stay(self) -> None:
        @cl.subagent("other label")
        async def audit(prompt: str, *, depth: int = 2) -> str:
            """Audit."""
            return f"{prompt}{depth}"

        assert (audit.__name__, audit.__doc__) == ("audit", "Audit.")
        assert str(inspect.signature(audit)) == "(prompt: 'str', *, depth: 'int' = 2) -> 'str'"
        assert inspect.iscoroutinefunction(audit)

    @pytest.mark.parametrize("decorator", [cl.subagent, cl.subagent(), cl.subagent(None)])
    def test_the_label_is_the_functions_name_unless_given(self, tmp_path: Path, decorator: Any) -> None:
        async def audit() -> int:
            return 1

        async def scenario() -> None:
            async with cl.record(tmp_path / "c"):
                await decorator(audit)()
                await cl.subagent("given")(audit)()

        play(scenario())
        labels = [call.request.metadata.label for call in calls_of(tmp_path / "c") if call.request.metadata]
        assert labels == ["audit", "given"]

    def test_what_is_no_async_function_is_refused_with_a_way_out(self) -> None:
        def sync() -> int:
            return 1

        async def generator() -> AsyncIterator[int]:
            yield 1

        for function, hint in ((sync, "asyncio.to_thread"), (generator, "yields"), (staticmethod(generator), "above")):
            with pytest.raises(cl.ConfigError, match=hint):
                cl.subagent(function)  # type: ignore[arg-type]
        for label in ("", 3):
            with pytest.raises(cl.ConfigError, match="label"):
                cl.subagent(label)  # type: ignore[arg-type]

    def test_what_has_no_name_needs_a_label(self, tmp_path: Path) -> None:
        async def add(left: int, right: int) -> int:
            return left + right

        part = functools.partial(add, 1)
        with pytest.raises(cl.ConfigError, match="partial has no name; give it a label"):
            cl.subagent(part)
        named = cl.subagent("add-one")(part)
        assert play(record_then_replay(tmp_path / "run.jsonl", lambda: named(2))) == (3, 3)

    def test_without_a_cassette_it_just_calls_the_function(self) -> None:
        seen: list[Any] = []

        @cl.subagent
        async def live(value: Any) -> Any:
            seen.append(current_parent().header)
            return value

        @cl.subagent
        async def outer(value: Any) -> Any:
            return await live(value)

        marker = object()
        assert play(outer(marker)) is marker
        assert seen == [{"origin": "subagent", "delegationDepth": 2}]
        with pytest.raises(TypeError, match="missing"):
            play(live())  # type: ignore[call-arg]


class TestIdentity:
    def test_arguments_are_bound_and_defaults_applied(self, tmp_path: Path) -> None:
        @cl.subagent
        async def audit(a: int, /, b: Any = Finding("f", [1]), *rest: int, depth: int = 2, **more: Any) -> int:  # noqa: B008
            assert b is not None
            return a + depth + len(rest) + len(more)

        async def scenario() -> tuple[Any, Any]:
            async def work() -> list[int]:
                return [await audit(1), await audit(1, {"x": 1}, 3, 4, depth=5, other=(6,))]

            return await record_then_replay(tmp_path / "c", work, request_storage="full")

        assert play(scenario()) == ([3, 9], [3, 9])
        assert arguments_of(tmp_path / "c") == [
            {"a": 1, "b": {"file": "f", "lines": [1]}, "depth": 2, "more": {}, "rest": []},
            {"a": 1, "b": {"x": 1}, "depth": 5, "more": {"other": [6]}, "rest": [3, 4]},
        ]

    def test_spelling_does_not_matter_and_values_do(self, tmp_path: Path) -> None:
        @cl.subagent
        async def audit(prompt: str, *, depth: int = 2) -> str:
            return f"{prompt}{depth}"

        async def scenario() -> None:
            async with cl.record(tmp_path / "c"):
                await audit("a")
            for call in (lambda: audit(prompt="a"), lambda: audit("a", depth=2)):
                async with cl.replay(tmp_path / "c"):
                    assert await call() == "a2"
            async with cl.replay(tmp_path / "c", assert_consumed=False):
                with pytest.raises(cl.MismatchError) as miss:
                    await audit("a", depth=3)
                assert miss.value.diagnostic.reason == "request-changed"

        play(scenario())

    @pytest.mark.parametrize(
        ("arguments", "hint"), [((object(),), "argument value.*object"), ((float("nan"),), "argument value.*nan")]
    )
    def test_an_argument_that_is_not_plain_json_is_named(self, tmp_path: Path, arguments: Any, hint: str) -> None:
        @cl.subagent
        async def audit(value: Any) -> int:
            return int(value)

        async def scenario() -> None:
            async with cl.record(tmp_path / "c"):
                with pytest.raises(cl.IdentityError, match=hint) as refusal:
                    await audit(*arguments)
                assert "\n" not in str(refusal.value)
                with pytest.raises(TypeError, match="missing"):
                    await audit()  # type: ignore[call-arg]

        play(scenario())
        assert calls_of(tmp_path / "c") == []

    def test_a_method_counts_its_self(self, tmp_path: Path) -> None:
        @dataclasses.dataclass
        class Reviewer:
            name: str

            @cl.subagent
            async def review(self, text: str) -> str:
                return f"{self.name}: {text}"

        class Plain:
            @cl.subagent
            async def review(self, text: str) -> str:
                return text

            @staticmethod
            @cl.subagent
            async def check(text: str) -> str:
                return text

        async def scenario() -> tuple[Any, Any]:
            async def work() -> list[str]:
                with pytest.raises(cl.IdentityError, match=r"argument self.*a method's self"):
                    await Plain().review("a")
                return [await Reviewer("r").review("a"), await Plain.check("b")]

            return await record_then_replay(tmp_path / "c", work)

        assert play(scenario()) == (["r: a", "b"], ["r: a", "b"])

    def test_a_recording_made_in_one_folder_replays_in_another(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        @cl.subagent
        async def audit(prompt: str) -> str:
            return prompt.upper()

        async def scenario() -> None:
            for folder, context in (("one", cl.record), ("two", cl.replay)):
                (tmp_path / folder).mkdir()
                monkeypatch.chdir(tmp_path / folder)
                if folder == "two":
                    os.replace(tmp_path / "one" / "c", "c")  # noqa: PTH105 - a relative path is the point
                async with context("c"):
                    assert await audit("a") == "A"

        play(scenario())


class TestResults:
    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (str, "text"),
            (str, ""),
            (Any, {"a": [1, None]}),
            (list[Finding], [Finding("a", [1])]),
            (Verdict, Verdict(ok=True, findings=[{"a": 1}])),
            (Verdict | None, None),
            (None, None),
            (tuple[int, str], (1, "a")),
            ("NotThere", {"a": 1}),
        ],
    )
    def test_replay_gives_the_annotated_type_back(self, tmp_path: Path, annotation: Any, value: Any) -> None:
        async def audit() -> Any:
            return value

        audit.__annotations__["return"] = annotation
        work = cl.subagent(audit)
        live, again = play(record_then_replay(tmp_path / "c", work))
        assert live == again == value
        assert type(live) is type(again) is type(value)

    def test_text_is_output_and_anything_else_structured(self, tmp_path: Path) -> None:
        @cl.subagent
        async def echo(value: Any) -> Any:
            return value

        async def scenario() -> None:
            async with cl.record(tmp_path / "c"):
                await echo("text")
                await echo(3)

        play(scenario())
        assert [call.outcome.result for call in calls_of(tmp_path / "c")] == [
            {"output": [{"type": "text", "text": "text"}], "stopReason": "completed"},
            {"output": [], "stopReason": "completed", "structured": 3},
        ]

    def test_a_result_that_is_not_plain_json_is_an_error_of_that_call(self, tmp_path: Path) -> None:
        @cl.subagent
        async def audit(value: int) -> Any:
            return value or object()

        async def scenario() -> None:
            async with cl.record(tmp_path / "c"):
                with pytest.raises(cl.CassetteLabError, match=r"result.*object.*audit"):
                    await audit(0)
                assert await audit(1) == 1

        play(scenario())
        assert [call.outcome.kind for call in calls_of(tmp_path / "c")] == ["result-error", "result"]

    def test_errors_come_back_as_what_they_were(self, tmp_path: Path) -> None:
        class AuditError(Exception):
            code = "A1"

        @cl.subagent
        async def audit(builtin: bool) -> str:
            raise ValueError("no") if builtin else AuditError("bad")

        async def work() -> list[Exception]:
            return list(await asyncio.gather(audit(True), audit(False), return_exceptions=True))  # type: ignore[arg-type]

        live, again = play(record_then_replay(tmp_path / "c", work))
        assert [type(error) for error in live] == [ValueError, AuditError]
        value_error, audit_error = again
        assert isinstance(value_error, ValueError)
        assert isinstance(value_error, cl.RecordedError)
        assert isinstance(audit_error, cl.RecordedError)
        assert (audit_error.recorded_name, str(audit_error), audit_error.code) == ("AuditError", "bad", "A1")


class TestTopology:
    def test_nested_and_concurrent_calls_find_their_places(self, tmp_path: Path) -> None:
        @cl.subagent
        async def check(name: str) -> str:
            await asyncio.sleep(0.001)
            return name

        @cl.subagent
        async def audit(name: str) -> list[str]:
            await asyncio.sleep(0.001)
            return list(await asyncio.gather(check(f"{name}1"), asyncio.create_task(check(f"{name}2")), in_thread(f"{name}3")))

        async def in_thread(name: str) -> str:
            return await asyncio.to_thread(lambda: asyncio.run(check(name)))

        async def work() -> list[Any]:
            return list(await asyncio.gather(audit("a"), audit("b"), check("c")))

        live, again = play(record_then_replay(tmp_path / "c", work))
        assert live == again == [["a1", "a2", "a3"], ["b1", "b2", "b3"], "c"]
        calls = calls_of(tmp_path / "c")
        outer = {call.call_key: call for call in calls if call.parent_key == "root"}
        assert sorted(call.call_key.split("/")[1].split("-")[0] for call in outer.values()) == ["audit", "audit", "check"]
        below = [call for call in calls if call.parent_key != "root"]
        assert len(below) == 6
        assert {call.parent_key for call in below} == {key for key in outer if "audit" in key}
        assert all(call.local for call in calls)

    def test_a_task_factory_that_starts_eagerly_changes_nothing(self, tmp_path: Path) -> None:
        eager = getattr(asyncio, "eager_task_factory", None)

        @cl.subagent
        async def inner() -> int:
            return 1

        @cl.subagent
        async def outer() -> int:
            return await inner()

        async def scenario() -> None:
            if eager is not None:
                asyncio.get_running_loop().set_task_factory(eager)
            async with cl.record(tmp_path / "c"):
                assert list(await asyncio.gather(outer(), outer())) == [1, 1]

        play(scenario())
        assert len(calls_of(tmp_path / "c")) == 4


class TestRedefinition:
    def test_a_result_type_that_is_defined_again_is_the_one_that_comes_back(self, tmp_path: Path) -> None:
        cells: dict[str, Any] = sys.modules["__main__"].__dict__
        exec("from dataclasses import dataclass\nimport cassette_lab as cl", cells)  # noqa: S102 - as a notebook does
        define = "@dataclass\nclass RerunReport:\n    score: int\n    {}"
        exec(define.format(""), cells)  # noqa: S102 - as above
        exec("@cl.subagent\nasync def rerun() -> RerunReport:\n    return RerunReport(*range(1, 3))", cells)  # noqa: S102 - as above
        exec(define.format("more: int"), cells)  # noqa: S102 - as above
        live, again = play(record_then_replay(tmp_path / "c", cells["rerun"]))
        assert live == again == cells["RerunReport"](1, 2)
        for name in ("RerunReport", "rerun"):
            del cells[name]

    def test_defining_a_label_again_replaces_it_for_full_requests(self) -> None:
        for number in (1, 2):

            @cl.subagent("redefined")
            async def redefined(number: int = number) -> int:
                return number

        async def scenario() -> Any:
            return (await cl.run_subagent(SubagentRequest([{"type": "text", "text": "{}"}], "redefined"))).structured

        assert play(scenario()) == 2

    def test_two_functions_of_one_label_each_run_themselves(self, tmp_path: Path) -> None:
        def made(answer: int) -> Any:
            @cl.subagent("same")
            async def same() -> int:
                return answer

            return same

        one, other = made(1), made(2)

        async def scenario() -> None:
            async with cl.record(tmp_path / "c"):
                assert [await one(), await other()] == [1, 2]

        play(scenario())


class TestFullRequests:
    def test_a_function_may_take_whole_requests(self, tmp_path: Path) -> None:
        @cl.subagent("agent")
        async def agent(request: SubagentRequest) -> SubagentResult:
            assert request.parent is not None
            return text_result(f"{request.persona} {request.max_depth}", "max-tokens")

        async def work() -> list[SubagentResult]:
            request = SubagentRequest([{"type": "text", "text": "hello"}], persona="p", max_depth=2)
            return [await agent(request), await cl.run_subagent(dataclasses.replace(request, label="agent", max_depth=3))]

        live, again = play(record_then_replay(tmp_path / "c", work))
        assert live == again == [text_result("p 2", "max-tokens"), text_result("p 3", "max-tokens")]
        with pytest.raises(cl.IdentityError, match="takes a SubagentRequest"):
            play(record_then_replay(tmp_path / "d", functools.partial(agent, "text")))  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('{"finding": {"file": "f", "lines": [1]}, "depth": 3}', "Finding f 3"),
            ('{"finding": {"file": "f", "lines": [1]}}', "Finding f 2"),
            ("plain words", "str plain words 2"),
            ('{"other": 1}', 'str {"other": 1} 2'),
        ],
    )
    def test_a_prompt_gives_a_function_its_arguments(self, text: str, expected: str) -> None:
        @cl.subagent("arguments")
        async def arguments(finding: Finding, *, depth: int = 2) -> str:
            return f"{type(finding).__name__} {getattr(finding, 'file', finding)} {depth}"

        async def scenario() -> str:
            result = await cl.run_subagent(SubagentRequest([{"type": "text", "text": text}], "arguments"))
            return str(result.output[0]["text"])

        assert play(scenario()) == expected

    def test_what_a_function_cannot_take_is_refused_in_one_sentence(self) -> None:
        @cl.subagent("strict")
        async def strict(a: int) -> int:
            return a

        text = [{"type": "text", "text": "1"}]
        for request, error, hint in (
            (SubagentRequest(text, "strict", persona="p"), cl.IdentityError, "no persona"),
            (SubagentRequest([*text, *text], "strict"), cl.IdentityError, "one text block"),
            (SubagentRequest(text, "unknown-label"), cl.ConfigError, "'unknown-label'"),
        ):
            with pytest.raises(error, match=hint):
                play(cl.run_subagent(request))
        with pytest.raises(cl.NoUpstreamError, match="'nobody'"):
            play(cl.run_subagent(SubagentRequest(text), provider="nobody"))

    def test_arguments_by_position_name_and_rest_survive_the_prompt(self) -> None:
        async def function(a: int, /, b: int, *rest: int, c: int, **more: int) -> list[Any]:
            return [a, b, rest, c, more]

        handler = Handler(function, None)
        request = handler.request((1, 2, 3, 4), {"c": 5, "d": 6}, current_parent())
        args, kwargs = handler.arguments(SubagentRequest(request.prompt, request.label))
        assert play(function(*args, **kwargs)) == [1, 2, (3, 4), 5, {"d": 6}]


class TestCancellation:
    def test_cancelling_the_caller_cancels_the_function_and_records_aborted(self, tmp_path: Path) -> None:
        cleaned: list[str] = []

        @cl.subagent
        async def slow(name: str) -> str:
            try:
                await asyncio.sleep(30)
            finally:
                await asyncio.sleep(0.001)
                cleaned.append(name)
            return name

        async def scenario() -> None:
            async with cl.record(tmp_path / "c"):
                task = asyncio.create_task(slow("task"))
                await asyncio.sleep(0.01)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(slow("waited"), 0.01)
            async with cl.replay(tmp_path / "c"):
                with pytest.raises(cl.AbortError, match="slow was recorded as aborted"):
                    await slow("task")
                with pytest.raises(cl.AbortError):
                    await slow("waited")

        play(scenario())
        assert cleaned == ["task", "waited"]
        for call in calls_of(tmp_path / "c"):
            assert call.outcome.result == {"output": [], "stopReason": "aborted"}
            assert call.timing.signal_aborted_at_ms is not None

    def test_a_function_that_ends_in_spite_of_it_is_recorded_as_it_ended(self, tmp_path: Path) -> None:
        @cl.subagent
        async def stubborn() -> str:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                return "done all the same"
            return "never"

        async def scenario() -> None:
            async with cl.record(tmp_path / "c"):
                task = asyncio.create_task(stubborn())
                await asyncio.sleep(0.01)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

        play(scenario())
        (call,) = calls_of(tmp_path / "c")
        assert call.outcome.result == {
            "output": [{"type": "text", "text": "done all the same"}],
            "stopReason": "completed",
        }

    def test_a_function_that_was_never_begun_is_aborted_too(self, tmp_path: Path) -> None:
        @cl.subagent
        async def never() -> str:
            raise AssertionError("begun")

        async def scenario() -> None:
            async with cl.record(tmp_path / "c") as cassette:
                controller = cl.AbortController()
                request = SubagentRequest([{"type": "text", "text": "{}"}], "never", signal=controller.signal)
                run = await cassette.handle.provider.start(request)
                controller.abort()
                assert (await run.result()).stop_reason == "aborted"
                await run.dispose()
                with pytest.raises(cl.AbortError):
                    await cl.run_subagent(request)

        play(scenario())
        assert [call.outcome.kind for call in calls_of(tmp_path / "c")] == ["result", "start-error"]
