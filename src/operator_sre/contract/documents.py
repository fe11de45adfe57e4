"""Messages as JSON documents and back: nothing is lost, and what is not defined is refused."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.errors import UsageError
from operator_sre.contract.messages import SCHEMA_VERSION, Message
from operator_sre.contract.writing import (
    ITEMS_MAX,
    TEXT_CHARACTERS_MAX,
    UNSET_YEAR,
    MisfitError,
    written,
)

__all__ = [
    "all_error_categories",
    "all_next_actions",
    "as_document",
    "from_document",
    "is_valid_error_category",
    "is_valid_next_action",
]

M = TypeVar("M", bound=Message)
UNKNOWN = "unknown"
# The types of the fields of each message, which never change.
_HINTS: dict[type[Message], Mapping[str, Any]] = {}


def all_error_categories() -> tuple[ErrorCategory, ...]:
    """Every reason why something failed."""
    return tuple(ErrorCategory)


def all_next_actions() -> tuple[NextAction, ...]:
    """Everything that can be the one thing to do next."""
    return tuple(NextAction)


def is_valid_error_category(text: object) -> bool:
    """True for a category that is defined."""
    return isinstance(text, str) and text in tuple(ErrorCategory)


def is_valid_next_action(text: object) -> bool:
    """True for a next action that is defined."""
    return isinstance(text, str) and text in tuple(NextAction)


def as_document(message: Message) -> dict[str, Any]:
    """A message as JSON types: the version first, what holds its default left out.

    UsageError for what no reader would take.
    """
    try:
        return written(message)
    except MisfitError as misfit:
        raise _wrong(f"{type(message).__name__}{misfit.where}", misfit.what) from None


def from_document(kind: type[M], document: object) -> M:
    """A message from a document. What is unknown here is kept; what is not defined is refused."""
    return _message(kind, document, kind.__name__)


def _hints(kind: type[Message]) -> Mapping[str, Any]:
    if kind not in _HINTS:
        hints = get_type_hints(kind)
        _HINTS[kind] = {name: it for name, it in hints.items() if name != UNKNOWN}
    return _HINTS[kind]


def _message(kind: type[M], document: object, where: str) -> M:
    if not isinstance(document, Mapping) or not all(isinstance(name, str) for name in document):
        raise _wrong(where, "has to be an object")
    hints, given = _hints(kind), {}
    unknown = {name: it for name, it in document.items() if name not in hints}
    for one in fields(kind):
        if one.name in document and one.name != UNKNOWN:
            value = document[one.name]
            given[one.name] = _decoded(hints[one.name], value, f"{where}.{one.name}")
        elif one.default is MISSING and one.default_factory is MISSING:
            raise _wrong(f"{where}.{one.name}", "is missing")
    if "schema_version" in hints:
        _must_be_known(document.get("schema_version"), where)
    return kind(**given, unknown=unknown)


def _must_be_known(version: object, where: str) -> None:
    """A later minor version can be read; another major one means something else."""
    parts = version.split(".") if isinstance(version, str) else []
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        raise _wrong(f"{where}.schema_version", "has to be a version such as 1.0.0")
    if parts[0] != SCHEMA_VERSION.split(".")[0]:
        raise _wrong(f"{where}.schema_version", f"is {version}, and {SCHEMA_VERSION} is known here")


def _decoded(hint: Any, value: object, where: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        return _optional(hint, value, where)
    if get_origin(hint) is tuple:
        return _items(get_args(hint)[0], value, where)
    if hint is datetime:
        return _moment(value, where)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        if not isinstance(value, str) or value not in tuple(hint):
            raise _wrong(where, f"has to be one of {', '.join(hint)}")
        return hint(value)
    if isinstance(hint, type) and issubclass(hint, Message):
        return _message(hint, value, where)
    return _plain(hint, value, where)


def _optional(hint: Any, value: object, where: str) -> Any:
    if value is None:
        return None
    (inner,) = (one for one in get_args(hint) if one is not types.NoneType)
    found = _decoded(inner, value, where)
    return None if isinstance(found, datetime) and found.year == UNSET_YEAR else found


def _items(hint: Any, value: object, where: str) -> tuple[Any, ...]:
    if value is None:  # what another implementation writes for an empty list
        return ()
    if not isinstance(value, list | tuple) or len(value) > ITEMS_MAX:
        raise _wrong(where, "has to be a list")
    return tuple(_decoded(hint, one, f"{where}[{at}]") for at, one in enumerate(value))


def _moment(value: object, where: str) -> datetime:
    try:
        found = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise _wrong(where, "has to be a time as in RFC 3339") from None
    if found.tzinfo is None:
        raise _wrong(where, "has to be a time with its zone")
    # Times near the first year cannot be moved to another zone, and mean nothing anyway.
    return found.replace(tzinfo=UTC) if found.year == UNSET_YEAR else found.astimezone(UTC)


def _plain(hint: type, value: object, where: str) -> Any:
    right = isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
    if not right:
        names = {str: "a text", int: "a whole number", bool: "true or false"}
        raise _wrong(where, f"has to be {names[hint]}")
    if isinstance(value, str) and len(value) > TEXT_CHARACTERS_MAX:
        raise _wrong(where, f"is longer than {TEXT_CHARACTERS_MAX} characters")
    return value


def _wrong(where: str, what: str) -> UsageError:
    return UsageError(f"{where} {what}.", next_step="See: docs/contract.md")
