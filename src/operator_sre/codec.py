"""Converts domain types to JSON and back, for the store, the stages and the faces."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

__all__ = ["from_json", "to_json"]

T = TypeVar("T")


def to_json(value: object) -> Any:
    """The value as JSON types: dataclasses as objects, enums by value, times as RFC 3339."""
    return msgspec.to_builtins(value)


def from_json(kind: type[T], value: object) -> T:
    """A domain value from its JSON; unknown fields are ignored."""
    return msgspec.convert(value, kind)
