"""Pages: bounded, and continued by a cursor that says nothing to whoever holds it."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

import msgspec
from fastapi import Query

from operator_protocols.domain.action import digest_of
from operator_protocols.errors import UsageError

__all__ = ["LIMIT_MAX", "Cursor", "Limit", "cursor_at", "number_of", "page_of", "place_of"]

T = TypeVar("T")
LIMIT = 50
LIMIT_MAX = 500
CURSOR_MAX = 300
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="How many at most.")]
Cursor = Annotated[
    str,
    Query(max_length=CURSOR_MAX, description="`next_cursor` of the page before, with its filter."),
]


class _Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """After what a page goes on, and for which question."""

    after: str
    asked: str


def cursor_at(after: object, *asked: object) -> str:
    """The cursor that goes on behind this, for the same question."""
    place = _Place(str(after), _digest(asked))
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=")


def place_of(cursor: str, *asked: object) -> str:
    """Behind what to go on; empty for the first page. UsageError for what we did not give out."""
    if not cursor:
        return ""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        place = msgspec.json.decode(
            base64.b64decode(padded, altchars=b"-_", validate=True), type=_Place
        )
    except (ValueError, binascii.Error, msgspec.MsgspecError):
        raise UsageError("That is no cursor of ours.", next_step="Begin without one.") from None
    if place.asked != _digest(asked):
        raise UsageError(
            "The cursor belongs to another filter.", next_step="Begin without one, or keep it."
        )
    return place.after


def number_of(place: str) -> int:
    """A place that is a number; 0 for none."""
    return int(place) if place.isascii() and place.isdigit() and len(place) < 19 else 0


def page_of(
    found: Sequence[T], key: Callable[[T], object], limit: int, *asked: object
) -> tuple[tuple[T, ...], str]:
    """What is shown of one more than are asked for, and the cursor of the rest if there is one."""
    part = tuple(found[:limit])
    return part, cursor_at(key(part[-1]), *asked) if len(found) > limit else ""


def _digest(asked: Sequence[object]) -> str:
    return digest_of([str(one) for one in asked]).removeprefix("sha256:")[:16]
