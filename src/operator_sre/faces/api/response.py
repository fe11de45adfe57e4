"""Answers: one JSON document with its version; every error has the same shape."""

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
    "encode_json",
    "etag_of",
    "problem",
    "refuse",
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
    """What failed, why, and what to do next."""

    category: ErrorCategory
    message: str
    next_action: NextAction


@dataclass(frozen=True, slots=True)
class ErrorDocument:
    """The body of every error."""

    error: Problem
    schema_version: str = SCHEMA_VERSION


class Refused(Exception):
    """Ends a request with this error response."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status_code)
        self.response = response


def answer(
    document: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A document as a response."""
    body = encode_json(document)
    return Response(body, status, dict(headers or {}), media_type=JSON)


def encode_json(document: object) -> bytes:
    """A document as JSON; lone surrogates, as in a file name, are escaped."""
    try:
        return msgspec.json.encode(document)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(document), separators=(",", ":")).encode()


def etag_of(value: object) -> str:
    """An ETag that changes with the value."""
    return f'"{hashlib.sha256(encode_json(value)).hexdigest()[:32]}"'


def refuse(
    status: int,
    message: str,
    *,
    category: ErrorCategory = ErrorCategory.POLICY_VALIDATION_FAILED,
    action: NextAction = NextAction.FIX_CODE,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An error response with this message."""
    document = ErrorDocument(Problem(category, message, action))
    return answer(document, status=status, headers=headers)


def problem(error: OperatorError) -> Response:
    """An error of the app as a response."""
    document = ErrorDocument(Problem(error.category, str(error), error.next_action))
    status = status_of(error)
    return answer(document, status=status, headers={"retry-after": "1"} if status == 503 else {})


def status_of(error: OperatorError) -> int:
    """The HTTP status for an error."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)
