from __future__ import annotations

from typing import Any

import pytest

from cassette_lab.contracts import ModelRequest
from cassette_lab.errors import ConfigError, MismatchError
from cassette_lab.session.binding import ScriptBinding
from tests.unit.replay_samples import asked, script, words


def says(binding: ScriptBinding, session_id: str | None, *messages: Any) -> str:
    """What the next call of this session is answered, or why it is not."""
    try:
        return words([binding.next_entry(ModelRequest(messages, session_id=session_id))])[0]
    except MismatchError as error:
        return str(error.diagnostic["reason"])


def test_sessions_take_scripts_in_the_order_of_their_first_calls() -> None:
    binding = ScriptBinding([script("root", "p1", "p2"), script("child", "c1")])
    assert [says(binding, who) for who in ("x", "y", "x")] == ["p1", "c1", "p2"]
    binding.assert_consumed()


def test_calls_without_a_session_id_are_one_session_and_an_empty_id_is_an_id() -> None:
    binding = ScriptBinding([script("root", "p1", "p2"), script("child", "c1")])
    assert [says(binding, who) for who in (None, "", None, None)] == ["p1", "c1", "p2", "script-exhausted"]


def test_more_sessions_and_more_calls_than_recorded() -> None:
    binding = ScriptBinding([script("root", "p1")])
    assert [says(binding, who) for who in ("x", "y", "x", "y", "x")] == [
        "p1",
        "unrecorded-session",
        "script-exhausted",
        "unrecorded-session",
        "script-exhausted",
    ]
    binding.assert_consumed()
    with pytest.raises(MismatchError, match=r"session x makes model call 4, but only 1 of it are recorded") as error:
        binding.next_entry(ModelRequest([], session_id="x"))
    assert error.value.diagnostic == {
        "reason": "script-exhausted",
        "sessionId": "x",
        "recordedId": "root",
        "call": 4,
        "recorded": 1,
    }


def test_what_was_not_used_up_is_told() -> None:
    binding = ScriptBinding([script("root", "p1", "p2"), script("child"), script("other", "o")])
    says(binding, None)
    with pytest.raises(MismatchError) as error:
        binding.assert_consumed()
    assert error.value.diagnostic == {
        "reason": "not-consumed",
        "unbound": 2,
        "partial": [{"sessionId": None, "recordedId": "root", "calls": 1, "recorded": 2}],
    }
    assert "2 of 3 recorded sessions made no call; the session without an id made 1 of 2 recorded calls" in str(error.value)


def test_an_empty_script_has_to_be_taken_too() -> None:
    binding = ScriptBinding([script("empty")])
    with pytest.raises(MismatchError):
        binding.assert_consumed()
    assert says(binding, "x") == "script-exhausted"
    binding.assert_consumed()


class TestByContent:
    def test_siblings_cannot_take_each_others_scripts(self) -> None:
        scripts = [script("root", "r", first=("go",)), script("a", "A", first=("task a",)), script("b", "B", first=("task b",))]
        context = asked("runtime context")
        for binding, expected in [("content", ["r", "B", "A"]), ("first-call", ["r", "A", "B"])]:
            bound = ScriptBinding(scripts, binding=binding)  # type: ignore[arg-type]
            order = [("x", asked("go")), ("y", asked("task b")), ("z", asked("task a"))]
            assert [says(bound, who, message, context) for who, message in order] == expected
            bound.assert_consumed()

    def test_the_task_counts_and_ids_behind_it_may_differ(self) -> None:
        scripts = [script("a", "A", first=("task", "parent is 111")), script("b", "B", first=("task", "parent is 222"))]
        binding = ScriptBinding(scripts, binding="content")
        assert says(binding, "x", asked("task", "parent is 222")) == "B"
        assert says(binding, "y", asked("task", "parent is 999")) == "A"

    def test_a_fork_is_known_by_what_follows_its_inheritance(self) -> None:
        scripts = [script("spawn", "S", first=("go",)), script("fork", "F", first=("fork task",))]
        binding = ScriptBinding(scripts, binding="content")
        inherited = [asked("go"), {"role": "assistant", "content": [{"type": "text", "text": "ok"}]}]
        assert says(binding, "x", *inherited, asked("fork task")) == "F"
        assert says(binding, "y", asked("go")) == "S"

    def test_a_session_that_began_otherwise_is_not_recorded(self) -> None:
        scripts = [script("a", "A", first=("task",)), script("silent", "S")]
        binding = ScriptBinding(scripts, binding="content")
        assistant = {"role": "assistant", "content": [{"type": "text", "text": "task"}]}
        assert says(binding, "x", asked("another"), assistant, {"role": "user"}) == "unrecorded-session"
        assert says(binding, "x", {"role": "user", "content": "task"}) == "A"
        assert says(binding, "y", asked("task")) == "unrecorded-session"


def test_a_message_whose_blocks_the_client_joined_is_known_by_its_beginning() -> None:
    def fresh() -> ScriptBinding:
        firsts = {"1": ("part 1", "by root-7"), "12": ("part 12", "by root-7"), "one": ("part",), "none": ("", "by root-7")}
        return ScriptBinding([script(name, name, first=first) for name, first in firsts.items()], binding="content")

    def joined(text: str) -> dict[str, str]:
        return {"role": "user", "content": text}

    assert says(fresh(), "x", joined("part 1\n\nby root-9")) == "1"
    assert says(fresh(), "x", joined("part 12\n\nby root-9")) == "12"
    assert says(fresh(), "x", asked("part 1"), joined("part 12 by root-9")) == "1"  # surer, though it stands before
    assert says(fresh(), "x", joined("by root-9 part 1")) == "unrecorded-session"
    assert says(fresh(), "x", asked("part 1 and more", "by root-7")) == "unrecorded-session"  # blocks that were kept apart


def test_calls_without_an_id_are_told_apart_by_how_their_sessions_began() -> None:
    scripts = [script("root", "p1", "p2", first=("do it",)), script("child", "c1", "c2", first=("help",))]
    binding = ScriptBinding(scripts, binding="content")
    said = {"role": "assistant", "content": []}
    assert says(binding, None, asked("do it")) == "p1"
    assert says(binding, None, asked("help")) == "c1"
    assert says(binding, None, asked("help"), said) == "c2"
    assert says(binding, None, asked("a summary")) == "script-exhausted"  # of the last one
    assert says(binding, None, asked("do it"), said) == "p2"
    with pytest.raises(MismatchError) as caught:
        ScriptBinding(scripts, binding="content").assert_consumed()
    assert caught.value.diagnostic["unbound"] == 2


def test_another_word_for_a_binding() -> None:
    with pytest.raises(ConfigError):
        ScriptBinding([], binding="by-name")  # type: ignore[arg-type]
