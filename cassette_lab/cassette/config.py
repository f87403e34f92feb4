"""The options of a cassette: names, defaults, which values they take; and where its file is.

Source: cassette format, Recording, Configuration.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias, get_args

from cassette_lab.cassette.delays import ReplayTiming, check_speed
from cassette_lab.cassette.matching import DUPLICATE_POLICIES, NESTED_POLICIES, DuplicatePolicy, NestedPolicy
from cassette_lab.cassette.model import REQUEST_STORAGES, RequestStorage, iso_now
from cassette_lab.cassette.writer import Durability
from cassette_lab.errors import ConfigError
from cassette_lab.jsonio import camel_case
from cassette_lab.jsonio.text import js_trim

Mode: TypeAlias = Literal["record", "replay"]
WriteMode: TypeAlias = Literal["create", "truncate", "append", "once"]

MODES: Final[tuple[Mode, ...]] = ("record", "replay")
WRITE_MODES: Final[tuple[WriteMode, ...]] = ("create", "truncate", "append", "once")
DEFAULT_FILE: Final = ".dsh-cassettes/subagents-{timestamp}-{pid}.cassette.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class CassetteConfig:
    """How to record or replay one cassette. Raises ``ConfigError`` for a value that an option does not take.

    ``mode``: ``record`` or ``replay``. ``provider``: the name the cassette is registered under. ``upstream_provider``:
    the name of the provider to record from. ``file``: where the cassette is, see ``resolve_file``.

    Recording: ``write_mode`` ``create`` (the file must not exist), ``truncate``, ``append``, or ``once`` (record where
    the file is missing, replay where it is there); ``request_storage`` ``metadata`` or ``full``; ``redact_secrets``
    and ``redaction_patterns`` (ECMAScript regular expressions); ``redact_labels`` redacts labels, provider, model and
    tool names and the label in call keys too; ``fsync`` ``close`` or ``each`` record.

    Replaying: ``timing`` ``instant`` or ``recorded``, the latter divided by ``speed``; ``duplicate_policy`` ``reject``
    or ``sequence``; ``allow_redacted_replay`` plays results that were redacted; ``assert_consumed`` makes the disposal
    fail where calls were not asked for; ``nested`` ``covered`` counts calls below a consumed call as asked for.
    """

    mode: Mode = "record"
    provider: str = "cassette"
    upstream_provider: str = "spawn"
    file: str | os.PathLike[str] = DEFAULT_FILE
    write_mode: WriteMode = "create"
    request_storage: RequestStorage = "metadata"
    redact_secrets: bool = True
    redaction_patterns: tuple[str, ...] = ()
    timing: ReplayTiming = "instant"
    speed: float = 1
    duplicate_policy: DuplicatePolicy = "reject"
    allow_redacted_replay: bool = False
    assert_consumed: bool = True
    redact_labels: bool = False
    nested: NestedPolicy = "strict"
    fsync: Durability = "close"

    def __post_init__(self) -> None:
        for field, values in _CHOICES.items():
            if getattr(self, field) not in values:
                choices = f"{', '.join(values[:-1])} or {values[-1]}"
                raise ConfigError(f"{field} must be {choices}, not {getattr(self, field)!r}", field=field)
        for field in _FLAGS:
            if type(getattr(self, field)) is not bool:
                raise ConfigError(f"{field} must be true or false, not {getattr(self, field)!r}", field=field)
        for field in ("provider", "upstream_provider"):
            _check_name(getattr(self, field), field)
        if self.provider == self.upstream_provider:
            raise ConfigError(
                f"the cassette provider and its upstream have one name, {self.provider!r}; a cassette cannot record itself",
                field="provider",
            )
        if isinstance(self.file, str):
            _check_name(self.file, "file")
        elif not isinstance(self.file, os.PathLike):
            raise ConfigError(f"file must be a path, not {self.file!r}", field="file")
        if isinstance(self.redaction_patterns, str):
            raise ConfigError("redaction_patterns must be a list of patterns, not one string", field="redaction_patterns")
        object.__setattr__(self, "redaction_patterns", tuple(self.redaction_patterns))
        if not all(isinstance(pattern, str) for pattern in self.redaction_patterns):
            raise ConfigError("every redaction pattern must be a string", field="redaction_patterns")
        check_speed(self.timing, self.speed)

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """From the original's names (``writeMode``, ``redactSecrets``, …); ``ConfigError`` for one that is unknown."""
        for name in members:
            if name not in _JSON_NAMES:
                raise ConfigError(f"a cassette has no option {name!r}; it has {', '.join(_JSON_NAMES)}", field=name)
        return cls(**{_JSON_NAMES[name]: value for name, value in members.items()})


def resolve_file(
    file: str | os.PathLike[str], *, cwd: str | os.PathLike[str] | None = None, now: str | None = None, pid: int | None = None
) -> Path:
    """The path of a cassette: ``{timestamp}`` and ``{pid}`` filled in, then taken from ``cwd``.

    ``now`` is the time in ISO form, of which ``{timestamp}`` leaves out ``-``, ``:`` and ``.``; the present, as are the
    process and the working directory, where they are not given. ``ConfigError`` where that directory is gone.
    """
    text = os.fspath(file)
    if "{timestamp}" in text:
        stamp = (now if now is not None else iso_now()).translate(_NO_PUNCTUATION)
        text = text.replace("{timestamp}", stamp)
    if "{pid}" in text:
        text = text.replace("{pid}", str(os.getpid() if pid is None else pid))
    if cwd is None and not Path(text).is_absolute():
        try:
            cwd = Path.cwd()
        except OSError:
            raise ConfigError("the working directory is gone; change to another one, or give a whole path", path=text) from None
    return Path(os.path.normpath(Path(cwd or "", text)))


_NO_PUNCTUATION = str.maketrans("", "", "-:.")
_CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "mode": MODES,
    "write_mode": WRITE_MODES,
    "request_storage": REQUEST_STORAGES,
    "duplicate_policy": DUPLICATE_POLICIES,
    "nested": NESTED_POLICIES,
    "fsync": get_args(Durability),
}
_FLAGS: Final = ("redact_secrets", "allow_redacted_replay", "assert_consumed", "redact_labels")


def _check_name(value: Any, field: str) -> None:
    if not isinstance(value, str):
        raise ConfigError(f"{field} must be a string, not {value!r}", field=field)
    if not value:
        raise ConfigError(f"{field} must not be empty", field=field)
    if js_trim(value) != value:
        raise ConfigError(f"{field} must not begin or end with white space: {value!r}", field=field)


_JSON_NAMES: Final = {camel_case(field.name): field.name for field in fields(CassetteConfig)}
