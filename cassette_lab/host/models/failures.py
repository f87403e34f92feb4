"""How a model call fails: one exception, and a closed list of codes that says whether trying again may help.

The codes are those of the harness's own logs and retry policy (session logs, Event types). What a provider writes about an
error may quote a key or a prompt, so that a log keeps nothing of it but a short word (``context_length_exceeded``); who makes
the call is told its beginning, without what looks like a secret.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from cassette_lab.cassette.redaction import Redactor
from cassette_lab.contracts import FailureCode
from cassette_lab.errors import CassetteLabError
from cassette_lab.jsonio import JsonObject, as_integer
from cassette_lab.jsonio.text import show

RETRYABLE_CODES: Final[frozenset[FailureCode]] = frozenset({"EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT"})
"""Failures that may be gone at the next attempt."""


class ModelFailure(CassetteLabError):  # noqa: N818 - the logs call it a failure
    """A model call that failed. Its ``message``, which logs keep, holds no key, no header, no text of a request or an answer.

    ``code`` is a ``FailureCode``; ``status`` the HTTP status, where there was one; ``retry_after_s`` how long the provider
    wants to be left alone. ``detail`` is the beginning of what the provider wrote, with secrets redacted; it may quote the
    prompt, and only ``str()`` shows it. ``is_final``: trying again is of no use, whatever the code says. ``attempts`` and
    ``elapsed_s``: how often and how long an agent has tried.
    """

    code: FailureCode
    attempts: int = 1
    elapsed_s: float = 0.0

    def __init__(
        self,
        message: str,
        *,
        code: FailureCode,
        status: int | None = None,
        retry_after_s: float | None = None,
        detail: str | None = None,
        is_final: bool = False,
    ) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.retry_after_s = retry_after_s if retry_after_s is not None and 0 <= retry_after_s < math.inf else None
        self.detail = detail
        self.is_final = is_final

    def __str__(self) -> str:
        told = [self.message]
        if self.attempts > 1:
            told.append(f"given up after {self.attempts} attempts in {self.elapsed_s:.1f} s")
        if self.detail:
            told.append(f"the endpoint says: {self.detail}")
        return "; ".join(told)

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in RETRYABLE_CODES and not self.is_final

    def to_json(self) -> JsonObject:
        """The failure as a session log writes it."""
        members: JsonObject = {"message": self.message, "code": self.code}
        if self.status is not None:
            members["status"] = self.status
        if self.retry_after_s is not None:
            members["providerRetryAfterMs"] = round(self.retry_after_s * 1000)
        if self.is_final:
            members["retryable"] = False
        return members


def failure_of_answer(
    document: Any,
    *,
    status: int | None = None,
    retry_after: str | None = None,
    without_key: Callable[[str], str] = str,
) -> ModelFailure:
    """What an error document says; ``status`` is None for one that came within a stream. Any JSON value will do.

    ``without_key`` takes the key that was sent out of a text.
    """
    error = document.get("error") if isinstance(document, Mapping) else None
    facts: Mapping[str, Any] = error if isinstance(error, Mapping) else {}
    words = [value for name in ("type", "code") if isinstance(value := facts.get(name), str)]
    told = " ".join([*words, *(value for value in (facts.get("message"),) if isinstance(value, str))])
    code = _code_of(status, set(words), told[:_LONGEST_TOLD])
    seconds = retry_after_seconds(retry_after)
    shown = [_SENTENCES[code]]
    if status is not None:
        shown.append(f"HTTP {status}")
    shown += [word for word in dict.fromkeys(words) if _HARMLESS.fullmatch(word)]
    if seconds is not None:
        shown.append(f"asks for {seconds:g} s of patience")
    return ModelFailure(
        shown[0] if len(shown) == 1 else f"{shown[0]} ({', '.join(shown[1:])})",
        code=code,
        status=status,
        retry_after_s=seconds,
        detail=_detail(document, without_key),
    )


def redacted(text: str) -> str:
    """``text`` without what looks like a secret."""
    return _KEY_LIKE.sub("[REDACTED]", Redactor().text(text)[0])


def _detail(document: Any, without_key: Callable[[str], str]) -> str | None:
    """The beginning of what the provider wrote for people, on one line, without secrets; None where it wrote nothing."""
    error = document.get("error") if isinstance(document, Mapping) else document
    places = (error, document) if isinstance(document, Mapping) else (error,)
    told = [place.get(name) for place in places if isinstance(place, Mapping) for name in ("message", "detail")]
    text = next((text for text in (*told, error) if isinstance(text, str) and text.strip()), None)
    if text is None:
        return None
    line = show(" ".join(redacted(without_key(text[:_LONGEST_TOLD])).split()))
    return line if len(line) <= _LONGEST_DETAIL else f"{line[: _LONGEST_DETAIL - 1]}…"


def malformed(detail: str) -> ModelFailure:
    """An answer that is not what its protocol says."""
    return ModelFailure(f"the answer breaks its protocol: {detail}", code="MALFORMED_RESPONSE")


def token_count(value: Any) -> int | None:
    """A count of tokens in an answer; None for what is none."""
    count = as_integer(value)
    return count if count is not None and count >= 0 else None


def retry_after_seconds(header: str | None) -> float | None:
    """The seconds of a ``retry-after`` header, which is a number or a date; None for the past and for anything else."""
    if header is None:
        return None
    text = header.strip()
    if _SECONDS.fullmatch(text):
        seconds = float(text)
    else:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return min(seconds, _LONGEST_RETRY_S) if seconds > 0 else None


_LONGEST_TOLD: Final = 4096
_LONGEST_DETAIL: Final = 300
_KEY_LIKE: Final = re.compile(r"\b(?:sk|pk|rk|key|token)[-_][A-Za-z0-9*._-]{4,}")
_LONGEST_RETRY_S: Final = 86_400.0
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_HARMLESS: Final = re.compile(r"[a-z]{1,24}(_[a-z]{1,24}){0,5}", re.ASCII)

_SENTENCES: Final[dict[FailureCode, str]] = {
    "AUTH": "the endpoint does not accept the key, or not for this model",
    "CONTENT_FILTER": "the provider's filter stopped the answer",
    "CONTEXT_WINDOW_EXCEEDED": "the conversation is longer than the model's context window",
    "INVALID_REQUEST": "the endpoint refuses the request",
    "QUOTA": "the account has no quota or credit left",
    "RATE_LIMIT": "the endpoint limits the rate of requests",
    "SERVER": "the endpoint failed",
    "TIMEOUT": "the endpoint gave up waiting",
}

_CONTEXT: Final = re.compile(
    r"context[\s_-]?(length|window)[\s_-](exceed|overflow|limit)"
    r"|max(imum)?\s(\w+\s)?context\s(length|window)"
    r"|(request|prompt|input|messages?)\s(is\s|are\s)?too\s(large|long)"
    r"|(input|prompt|request|messages?)\b.{0,60}\b(exceed|overflow|larger\sthan).{0,60}\bcontext",
    re.IGNORECASE,
)
_QUOTA: Final = re.compile(
    r"insufficient[\s_-]+(quota|balance|credit)|(quota|usage[\s_-]limit|budget)[\s_-]+(exceeded|exhausted|reached)"
    r"|exceed(ed|s)?\s(your|the)\s(current\s)?quota|(balance|credits?)[\s_-]+(exhausted|depleted)|out\sof\s(credits?|budget)",
    re.IGNORECASE,
)


def _code_of(status: int | None, words: set[str], told: str) -> FailureCode:
    if status in (401, 403) or words & {"authentication_error", "permission_error", "invalid_api_key"}:
        return "AUTH"
    if status == 402 or _QUOTA.search(told):
        return "QUOTA"
    if status == 429 or words & {"rate_limit_error", "rate_limit_exceeded"}:
        return "RATE_LIMIT"
    if status == 408:
        return "TIMEOUT"
    if _CONTEXT.search(told) and (status is None or status < 500):
        return "CONTEXT_WINDOW_EXCEEDED"
    if words & {"content_filter", "content_policy_violation"}:
        return "CONTENT_FILTER"
    if (status is not None and status < 500) or "invalid_request_error" in words:
        return "INVALID_REQUEST"
    return "SERVER"
