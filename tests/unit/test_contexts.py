"""The options of ``record()`` and ``replay()``: named, explained, checked."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import cassette_lab as cl
from cassette_lab.cassette.config import CassetteConfig

BOTH = pytest.mark.parametrize("function", [cl.record, cl.replay], ids=["record", "replay"])


def options(function: Any) -> dict[str, inspect.Parameter]:
    parameters = dict(inspect.signature(function).parameters)
    del parameters["file"]
    return parameters


@BOTH
def test_every_option_is_a_named_parameter_with_the_default_of_the_configuration(function: Any) -> None:
    defaults = {field.name: field.default for field in fields(CassetteConfig)}
    for name, parameter in options(function).items():
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.default == defaults.get(name, parameter.default)
    assert set(defaults) - {"mode", "file"} == options(cl.record).keys() - {"settle_timeout_s", "registry"}
    assert options(cl.replay).keys() < options(cl.record).keys()


def test_every_option_is_explained_in_a_line_of_its_own() -> None:
    for function, names in (
        (cl.replay, options(cl.replay)),
        (cl.record, options(cl.record).keys() - options(cl.replay).keys()),
    ):
        assert function.__doc__ is not None
        for name in ["file", *names]:
            assert any(line.strip().startswith(f"``{name}``: ") for line in function.__doc__.splitlines()), name


@pytest.mark.parametrize(
    ("function", "given", "sentence"),
    [
        (cl.record, {"redact_secret": False}, "record() has no option 'redact_secret'; did you mean redact_secrets?"),
        (cl.replay, {"speeed": 2}, "replay() has no option 'speeed'; did you mean speed?"),
        (cl.replay, {"write_mode": "append"}, "replay() has no option 'write_mode'; it is one of record()"),
        (cl.record, {"timing": "recorded"}, 'timing is for replay(), or for record() with write_mode="once"'),
        (cl.record, {"write_mode": "append", "speed": 3}, 'speed is for replay(), or for record() with write_mode="once"'),
        (cl.record, {"mode": "replay"}, "record() has no option 'mode'; "),
        (cl.replay, {"what": 1}, "replay() has no option 'what'; it has timing, speed, "),
    ],
)
def test_an_option_that_cannot_be_is_one_sentence(function: Any, given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(cl.ConfigError) as caught:
        function("file", **given)
    assert str(caught.value).startswith(sentence)


def test_once_takes_the_options_of_both(tmp_path: Path) -> None:
    cassette = cl.record(tmp_path / "c", write_mode="once", timing="recorded", speed=2, fsync="each", redaction_patterns=["x"])
    assert (cassette.config.timing, cassette.config.speed, cassette.config.fsync) == ("recorded", 2, "each")
    assert cassette.config.redaction_patterns == ("x",)
    assert repr(options(cl.record)["registry"].default).startswith("<providers: spawn")
