"""Messages as JSON documents and back: nothing is lost, and what is not defined is refused.

What does not fit its field is refused when it is written as a reader would refuse it, so that
every document can be read. How a type is written is worked out once, because timelines are long.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from operator_protocols.domain.category import ErrorCategory, NextAction
from operator_protocols.errors import UsageError
from operator_sre.contract import SCHEMA_VERSION
from operator_sre.contract.messages import GetRunTimelineResponse, Message

__all__ = [
    "MisfitError",
    "all_error_categories",
    "all_next_actions",
    "as_document",
    "from_document",
    "inner_of",
    "is_valid_error_category",
    "is_valid_next_action",
    "write_message",
]

M = TypeVar("M", bound=Message)
TEXT_CHARACTERS_MAX = 1_000_000
ITEMS_MAX = 100_000
# What another implementation writes for a time that is not set.
UNSET_YEAR = 1
UNKNOWN, VERSION = "unknown", "schema_version"
# Lists that are there even when they are empty.
ALWAYS = {(GetRunTimelineResponse, "events")}
_NAMES = {str: "a text", int: "a whole number", bool: "true or false"}
Write = Callable[[Any], Any]
# The types of the fields of each message, which never change.
_HINTS: dict[type[Message], Mapping[str, Any]] = {}


class MisfitError(ValueError):
    """A value of the wrong type; its path is added on the way out."""

    def __init__(self, fault: str, where: str = "") -> None:
        super().__init__(f"{where} {fault}")
        self.fault, self.where = fault, where

    def inside(self, place: str) -> MisfitError:
        """The same, seen from one level further out."""
        return MisfitError(self.fault, f"{place}{self.where}")


@dataclass(frozen=True, slots=True)
class _Plan:
    """The fields of one type in their order: name, default if it has one, and how it is written."""

    fields: tuple[tuple[str, object, Write], ...]
    names: frozenset[str]
    inner: tuple[tuple[str, type[Message]], ...]


_PLANS: dict[type[Message], _Plan] = {}


def write_message(message: Message) -> dict[str, Any]:
    """Its document: the version first, what holds its default left out. MisfitError."""
    plan = _plan_of(type(message))
    document: dict[str, Any] = {}
    name = ""
    try:
        for name, default, write in plan.fields:
            value = getattr(message, name)
            if value != default and (part := write(value)) is not None:
                document[name] = part
    except MisfitError as misfit:
        raise misfit.inside(f".{name}") from None
    if message.unknown:
        more = message.unknown.items()
        document |= {name: value for name, value in more if name not in plan.names}
    return document


def inner_of(kind: type[Message]) -> tuple[tuple[str, type[Message]], ...]:
    """The fields of a type that hold other messages, one or many, and of which type."""
    return _plan_of(kind).inner


def _plan_of(kind: type[Message]) -> _Plan:
    if kind not in _PLANS:
        hints: Mapping[str, Any] = get_type_hints(kind)
        known = [field for field in fields(kind) if field.name != UNKNOWN]
        known.sort(key=lambda field: field.name != VERSION)
        plans, inner = [], []
        for field in known:
            hint = hints[field.name]
            is_kept = field.name == VERSION or (kind, field.name) in ALWAYS
            plans.append((field.name, MISSING if is_kept else field.default, _writer_of(hint)))
            # A field may hold a message, maybe or many of them.
            held = [part for part in (hint, *get_args(hint)) if isinstance(part, type)]
            inner += [(field.name, part) for part in held if issubclass(part, Message)][:1]
        names = frozenset(field.name for field in known) | {UNKNOWN}
        _PLANS[kind] = _Plan(tuple(plans), names, tuple(inner))
    return _PLANS[kind]


def _writer_of(hint: Any) -> Write:
    """What turns a value of this type into JSON types; MisfitError for any other value."""
    if get_origin(hint) in (Union, types.UnionType):
        (inner,) = (inner for inner in get_args(hint) if inner is not types.NoneType)
        write = _writer_of(inner)
        return lambda value: None if value is None else write(value)
    if get_origin(hint) is tuple:
        write = _writer_of(get_args(hint)[0])

        def write_items(value: object) -> list[Any]:
            if not isinstance(value, tuple) or len(value) > ITEMS_MAX:
                raise MisfitError("must be a list")
            items: list[Any] = []
            try:
                for item in value:
                    items.append(write(item))  # how many there are tells which was wrong
            except MisfitError as misfit:
                raise misfit.inside(f"[{len(items)}]") from None
            return items

        return write_items
    if hint is datetime:
        return _write_moment
    if issubclass(hint, StrEnum):
        words: dict[str, str] = {word.value: word.value for word in hint}

        def write_word(value: object) -> str:
            if not isinstance(value, str) or value not in words:
                raise MisfitError(f"must be one of {', '.join(hint)}")
            return words[value]

        return write_word
    if issubclass(hint, Message):

        def write_inner(value: object) -> dict[str, Any]:
            if not isinstance(value, hint):
                raise MisfitError("must be an object")
            return write_message(value)

        return write_inner

    def write_text(value: object) -> str:
        if not isinstance(value, str):
            raise MisfitError(f"must be {_NAMES[str]}")
        if len(value) > TEXT_CHARACTERS_MAX:
            raise MisfitError(f"is longer than {TEXT_CHARACTERS_MAX} characters")
        return value

    def write_plain(value: object) -> object:
        if type(value) is not hint:  # in Python, but not in JSON, true is an int
            raise MisfitError(f"must be {_NAMES[hint]}")
        return value

    return write_text if hint is str else write_plain


def _write_moment(value: object) -> str | None:
    """A time in RFC 3339; None if it is not set."""
    if not isinstance(value, datetime):
        raise MisfitError("must be a time")
    if value.year == UNSET_YEAR:
        return None
    if value.tzinfo is not UTC:
        value = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return f"{value.isoformat()[: -len('+00:00')]}Z"


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
        return write_message(message)
    except MisfitError as misfit:
        raise _refuse(f"{type(message).__name__}{misfit.where}", misfit.fault) from None


def from_document(kind: type[M], document: object) -> M:
    """A message from a document. What is unknown here is kept; what is not defined is refused."""
    return _read_message(kind, document, kind.__name__)


def _read_message(kind: type[M], document: object, where: str) -> M:
    if not isinstance(document, Mapping) or not all(isinstance(name, str) for name in document):
        raise _refuse(where, "must be an object")
    if kind not in _HINTS:
        hints = get_type_hints(kind)
        _HINTS[kind] = {name: hint for name, hint in hints.items() if name != UNKNOWN}
    known, given = _HINTS[kind], {}
    unknown = {name: value for name, value in document.items() if name not in known}
    for field in fields(kind):
        if field.name in document and field.name != UNKNOWN:
            value = document[field.name]
            given[field.name] = _read_value(known[field.name], value, f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise _refuse(f"{where}.{field.name}", "is missing")
    if VERSION in known:
        # A later minor version can be read; another major one means something else.
        place, version = f"{where}.{VERSION}", document.get(VERSION)
        parts = version.split(".") if isinstance(version, str) else []
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
            raise _refuse(place, "must be a version such as 1.0.0")
        if parts[0] != SCHEMA_VERSION.split(".")[0]:
            raise _refuse(place, f"is {version}, and {SCHEMA_VERSION} is known here")
    return kind(**given, unknown=unknown)


def _read_value(hint: Any, value: object, where: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        if value is None:
            return None
        (inner,) = (inner for inner in get_args(hint) if inner is not types.NoneType)
        found = _read_value(inner, value, where)
        return None if isinstance(found, datetime) and found.year == UNSET_YEAR else found
    if get_origin(hint) is tuple:
        if value is None:  # what another implementation writes for an empty list
            return ()
        if not isinstance(value, list | tuple) or len(value) > ITEMS_MAX:
            raise _refuse(where, "must be a list")
        item = get_args(hint)[0]
        return tuple(_read_value(item, part, f"{where}[{at}]") for at, part in enumerate(value))
    if hint is datetime:
        try:
            moment = datetime.fromisoformat(value if isinstance(value, str) else "")
        except ValueError:
            raise _refuse(where, "must be a time as in RFC 3339") from None
        if moment.tzinfo is None:
            raise _refuse(where, "must be a time with its zone")
        # Times near the first year cannot be moved to another zone, and mean nothing anyway.
        return moment.replace(tzinfo=UTC) if moment.year == UNSET_YEAR else moment.astimezone(UTC)
    if issubclass(hint, StrEnum):
        if not isinstance(value, str) or value not in tuple(hint):
            raise _refuse(where, f"must be one of {', '.join(hint)}")
        return hint(value)
    if issubclass(hint, Message):
        return _read_message(hint, value, where)
    if not isinstance(value, hint) or (hint is not bool and isinstance(value, bool)):
        raise _refuse(where, f"must be {_NAMES[hint]}")
    if isinstance(value, str) and len(value) > TEXT_CHARACTERS_MAX:
        raise _refuse(where, f"is longer than {TEXT_CHARACTERS_MAX} characters")
    return value


def _refuse(where: str, fault: str) -> UsageError:
    return UsageError(f"{where} {fault}.", next_step="See: docs/contract.md")
