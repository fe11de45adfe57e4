"""Answers: one JSON document each, with its version; errors in one shape, never a traceback."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from fastapi import Response

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.errors import (
    AuthorityError,
    ConflictError,
    MissingExtraError,
    NotFoundError,
    OperatorError,
    PermitError,
    StoreError,
    UsageError,
)
from operator_sre.contract.messages import SCHEMA_VERSION

__all__ = [
    "ErrorDocument",
    "Problem",
    "Refused",
    "answer",
    "encoded",
    "etag_of",
    "problem",
    "refused",
    "status_of",
]

JSON = "application/json"
_STATUSES: tuple[tuple[type[OperatorError], int], ...] = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (AuthorityError, 403),
    (PermitError, 403),
    (UsageError, 400),
    (MissingExtraError, 501),
    (StoreError, 503),
)


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong, in one sentence, and the one thing to do next."""

    category: ErrorCategory
    message: str
    next_action: NextAction


@dataclass(frozen=True, slots=True)
class ErrorDocument:
    """Every answer that is not a success."""

    error: Problem
    schema_version: str = SCHEMA_VERSION


class Refused(Exception):
    """Ends a request with an answer that is no success."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


def answer(
    document: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A document as it is told."""
    body = encoded(document)
    return Response(body, status, dict(headers or {}), media_type=JSON)


def encoded(document: object) -> bytes:
    """A document as JSON; half a character, as a file name may have, is told by its number."""
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(document), separators=(",", ":")).encode()


def etag_of(value: object) -> str:
    """What tells one state of a thing from every other."""
    return f'"{hashlib.sha256(encoded(value)).hexdigest()[:32]}"'


def refused(
    status: int,
    message: str,
    *,
    category: ErrorCategory = ErrorCategory.POLICY_VALIDATION_FAILED,
    action: NextAction = NextAction.FIX_CODE,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A refusal in our own words."""
    document = ErrorDocument(Problem(category, message, action))
    return answer(document, status=status, headers=headers)


def problem(error: OperatorError) -> Response:
    """An error of the app, as an answer."""
    document = ErrorDocument(Problem(error.category, str(error), error.next_action))
    status = status_of(error)
    return answer(document, status=status, headers={"retry-after": "1"} if status == 503 else {})


def status_of(error: OperatorError) -> int:
    """The status that says what kind of error it is."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
