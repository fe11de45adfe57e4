"""How a message becomes JSON types: worked out once for each type, because timelines are long.

What does not fit its field is refused here as a reader would refuse it, so that nothing leaves the
house that nobody could read.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

from operator_sre.contract.messages import GetRunTimelineResponse, Message

__all__ = ["ITEMS_MAX", "TEXT_CHARACTERS_MAX", "UNSET_YEAR", "MisfitError", "inner_of", "written"]

TEXT_CHARACTERS_MAX = 1_000_000
ITEMS_MAX = 100_000
# What another implementation writes for a time that is not set.
UNSET_YEAR = 1
UNKNOWN, VERSION = "unknown", "schema_version"
# Lists that are there even when they are empty.
ALWAYS = {(GetRunTimelineResponse, "events")}
_NAMES = {str: "a text", int: "a whole number", bool: "true or false"}
Write = Callable[[Any], Any]


class MisfitError(ValueError):
    """A value that is not what its field holds; where it stands is told on the way out."""

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(f"{where} {what}")
        self.what, self.where = what, where

    def inside(self, place: str) -> MisfitError:
        """The same, seen from one level further out."""
        return MisfitError(self.what, f"{place}{self.where}")


@dataclass(frozen=True, slots=True)
class _Plan:
    """The fields of one type in their order: name, default if it has one, and how it is written.

    Nothing has to be done to plain text, of which there is most.
    """

    fields: tuple[tuple[str, object, Write | None], ...]
    names: frozenset[str]
    inner: tuple[tuple[str, type[Message]], ...]


_PLANS: dict[type[Message], _Plan] = {}


def written(message: Message) -> dict[str, Any]:
    """Its document: the version first, what holds its default left out. MisfitError."""
    plan = _plan_of(type(message))
    document: dict[str, Any] = {}
    name = ""
    try:
        for name, default, write in plan.fields:
            value = getattr(message, name)
            if value == default:
                continue
            if write is None:
                if type(value) is not str or len(value) > TEXT_CHARACTERS_MAX:
                    _text(value)
                document[name] = value
            elif (told := write(value)) is not None:
                document[name] = told
    except MisfitError as misfit:
        raise misfit.inside(f".{name}") from None
    if message.unknown:
        more = message.unknown.items()
        document |= {name: it for name, it in more if name not in plan.names}
    return document


def inner_of(kind: type[Message]) -> tuple[tuple[str, type[Message]], ...]:
    """The fields of a type that hold other messages, one or many, and of which type."""
    return _plan_of(kind).inner


def _plan_of(kind: type[Message]) -> _Plan:
    if kind not in _PLANS:
        hints: Mapping[str, Any] = get_type_hints(kind)
        known = [one for one in fields(kind) if one.name != UNKNOWN]
        known.sort(key=lambda one: one.name != VERSION)
        kept = [
            (
                one.name,
                MISSING if _is_kept(kind, one.name) else one.default,
                _writer(hints[one.name]),
            )
            for one in known
        ]
        inner = [(one.name, held) for one in known if (held := _held(hints[one.name]))]
        names = frozenset(one.name for one in known) | {UNKNOWN}
        _PLANS[kind] = _Plan(tuple(kept), names, tuple(inner))
    return _PLANS[kind]


def _is_kept(kind: type[Message], name: str) -> bool:
    return name == VERSION or (kind, name) in ALWAYS


def _held(hint: Any) -> type[Message] | None:
    """The message that a field holds, maybe or many of them."""
    found = [one for one in (hint, *get_args(hint)) if isinstance(one, type)]
    return next((one for one in found if issubclass(one, Message)), None)


def _write(hint: Any) -> Write | None:
    return None if hint is str else _writer(hint)


def _writer(hint: Any) -> Write:
    if get_origin(hint) in (Union, types.UnionType):
        (inner,) = (one for one in get_args(hint) if one is not types.NoneType)
        write = _writer(inner)
        return lambda value: None if value is None else write(value)
    if get_origin(hint) is tuple:
        return _items(_writer(get_args(hint)[0]))
    if hint is datetime:
        return _moment
    if issubclass(hint, StrEnum):
        return _word(hint)
    return _message(hint) if issubclass(hint, Message) else _plain(hint)


def _items(write: Write) -> Write:
    def items(value: object) -> list[Any]:
        if not isinstance(value, tuple) or len(value) > ITEMS_MAX:
            raise MisfitError("has to be a list")
        told: list[Any] = []
        try:
            for one in value:
                told.append(write(one))  # how many there are tells which was wrong
        except MisfitError as misfit:
            raise misfit.inside(f"[{len(told)}]") from None
        return told

    return items


def _moment(value: object) -> str | None:
    """A time as in RFC 3339; None for one that is not set."""
    if not isinstance(value, datetime):
        raise MisfitError("has to be a time")
    if value.year == UNSET_YEAR:
        return None
    if value.tzinfo is not UTC:
        value = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return f"{value.isoformat()[: -len('+00:00')]}Z"


def _word(kind: type[StrEnum]) -> Write:
    known = {one.value: one.value for one in kind}

    def word(value: object) -> str:
        if not isinstance(value, str) or value not in known:
            raise MisfitError(f"has to be one of {', '.join(kind)}")
        return known[value]

    return word


def _message(kind: type[Message]) -> Write:
    def message(value: object) -> dict[str, Any]:
        if not isinstance(value, kind):
            raise MisfitError("has to be an object")
        return written(value)

    return message


def _plain(kind: type) -> Write:
    def plain(value: object) -> object:
        if type(value) is not kind:  # true is a whole number to Python, and to nobody else
            raise MisfitError(f"has to be {_NAMES[kind]}")
        return value

    return _text if kind is str else plain


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise MisfitError(f"has to be {_NAMES[str]}")
    if len(value) > TEXT_CHARACTERS_MAX:
        raise MisfitError(f"is longer than {TEXT_CHARACTERS_MAX} characters")
    return value
