"""How a model call fails: one exception, and a closed list of codes that says whether trying again may help.

The codes are those of the harness's own logs and retry policy (session logs, Event types). What a provider writes about an
error may quote a key or a prompt, so that nothing of it is kept but a short word (``context_length_exceeded``).
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

from cassette_lab.contracts import FailureCode
from cassette_lab.errors import CassetteLabError
from cassette_lab.jsonio import JsonObject, as_integer

RETRYABLE_CODES: Final[frozenset[FailureCode]] = frozenset({"EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT"})
"""Failures that may be gone at the next attempt."""


class ModelFailure(CassetteLabError):  # noqa: N818 - the logs call it a failure
    """A model call that failed. Its sentence holds no key, no header and no text of a request or an answer.

    ``code`` is a ``FailureCode``; ``status`` the HTTP status, where there was one; ``retry_after_s`` how long the provider
    wants to be left alone.
    """

    code: FailureCode

    def __init__(
        self, message: str, *, code: FailureCode, status: int | None = None, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.status = status
        self.retry_after_s = retry_after_s if retry_after_s is not None and 0 <= retry_after_s < math.inf else None

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.code in RETRYABLE_CODES

    def to_json(self) -> JsonObject:
        """The failure as a session log writes it."""
        members: JsonObject = {"message": self.message, "code": self.code}
        if self.status is not None:
            members["status"] = self.status
        if self.retry_after_s is not None:
            members["providerRetryAfterMs"] = round(self.retry_after_s * 1000)
        return members


def failure_of_answer(document: Any, *, status: int | None = None, retry_after: str | None = None) -> ModelFailure:
    """What an error document says; ``status`` is None for one that came within a stream. Any JSON value will do."""
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
        shown[0] if len(shown) == 1 else f"{shown[0]} ({', '.join(shown[1:])})", code=code, status=status, retry_after_s=seconds
    )


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
