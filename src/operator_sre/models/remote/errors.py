"""Failures of a model as a ModelError, with whether to retry."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from operator_protocols.errors import ModelError
from operator_sre.models.fence import clean, redact_whole

__all__ = ["model_error", "refuses_schema", "refuses_stream", "refuses_tools"]

WAIT_S_MAX = 3_600.0
DETAIL_CHARS_MAX = 240
BODY_CHARS_MAX = 4_000
# Client errors that may pass, so they are retried.
_PASSING = frozenset({408, 409, 425, 429})
_REFUSING = frozenset({400, 404, 405, 415, 422, 500, 501})
_TOOLS = re.compile(r"\btools?\b|tool[_ -]?(?:use|choice|call)|function[_ -]?call", re.I)
_SCHEMA = re.compile(r"response_format|json[_ ]?schema|grammar|structured|guided", re.I)
_STREAM = re.compile(r"\bstream", re.I)
# What pydantic-ai reports of a stream without an event.
_NO_STREAM = "Streamed response ended without"
_NEXT_STEPS = {
    400: "The model may not support this request. Test it with: operator models test",
    401: "Check its API key.",
    402: "Add credit to the account.",
    403: "Check its API key and its permissions.",
    404: "Check the name of the model and its base_url.",
}


def model_error(
    error: BaseException, *, name: str, key: str, redact: Callable[[str], str] = str
) -> ModelError:
    """The error for an exception of a library. No message contains the key."""
    from pydantic_ai import exceptions as known

    wait_s = getattr(error, "retry_after", None)
    if not isinstance(wait_s, int | float) or not math.isfinite(wait_s):
        wait_s = 0.0
    wait_s = min(max(float(wait_s), 0.0), WAIT_S_MAX)
    if isinstance(error, known.ModelHTTPError):
        # The message of the endpoint, if it is in the usual place.
        inner = error.body.get("error", error.body) if isinstance(error.body, dict) else error.body
        message = inner.get("message", "") if isinstance(inner, dict) else inner
        detail = _clean_detail(message, key, redact) if isinstance(message, str) else ""
        status = error.status_code
        quota = isinstance(error, known.ModelQuotaExceededError)
        return ModelError(
            f"{name} answered with status {status}{f': {detail}' if detail else '.'}",
            next_step=_NEXT_STEPS.get(402 if quota else status, ""),
            wait_s=wait_s,
            lasting=quota or (status < 500 and status not in _PASSING),
        )
    if isinstance(error, TimeoutError | known.ModelRequestTimeout | known.ModelTimeoutError):
        return ModelError(f"{name} did not answer in time.", wait_s=wait_s, unreachable=True)
    if isinstance(error, known.ModelQuotaExceededError):
        return ModelError(f"{name}: the quota is exhausted.", lasting=True)
    if isinstance(error, known.ModelRequestRejectedError):
        return ModelError(f"{name} rejected the request.", lasting=True)
    if isinstance(error, known.ModelConnectionError):
        problem = f"{name} cannot be reached, or closed the connection."
        return ModelError(problem, wait_s=wait_s, unreachable=True)
    if isinstance(error, known.ModelAPIError):
        return ModelError(f"{name} returned an invalid answer.", wait_s=wait_s)
    if isinstance(error, known.UserError):
        detail = _clean_detail(str(error), key, redact)
        return ModelError(f"{name} does not accept this request: {detail}", lasting=True)
    return ModelError(f"{name} returned an answer that cannot be parsed ({type(error).__name__}).")


def refuses_tools(error: BaseException) -> bool:
    """Whether an endpoint reports that it cannot call tools."""
    return _refuses(error, _TOOLS)


def refuses_schema(error: BaseException) -> bool:
    """Whether an endpoint reports that it does not support a response schema."""
    return _refuses(error, _SCHEMA)


def refuses_stream(error: BaseException) -> bool:
    """Whether an endpoint refuses to stream, or answers in one piece where a stream is expected."""
    from pydantic_ai.exceptions import UnexpectedModelBehavior

    if isinstance(error, UnexpectedModelBehavior):
        return str(error).startswith(_NO_STREAM)
    return _refuses(error, _STREAM)


def _refuses(error: BaseException, words: re.Pattern[str]) -> bool:
    from pydantic_ai.exceptions import ModelHTTPError

    if not isinstance(error, ModelHTTPError) or error.status_code not in _REFUSING:
        return False
    return bool(words.search(str(error.body)[:BODY_CHARS_MAX]))


def _clean_detail(text: str, key: str, redact: Callable[[str], str]) -> str:
    text = text.replace(key, "[the key]") if key else text
    detail = " ".join(clean(redact_whole(text, redact)[:BODY_CHARS_MAX]).split())
    if len(detail) > DETAIL_CHARS_MAX:
        detail = detail[: DETAIL_CHARS_MAX - 1].rpartition(" ")[0] + "…"
    return detail if not detail or detail.endswith((".", "…", "!", "?")) else f"{detail}."
