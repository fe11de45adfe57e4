"""The options of a subject in operator.toml, read into a dataclass that has their defaults."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from operator_protocols.errors import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["read_options"]

TEXT_CHARS_MAX = 200
T = TypeVar("T", bound="DataclassInstance")


def read_options(
    kind: type[T],
    given: Mapping[str, Any],
    *,
    subject: str,
    choices: Mapping[str, tuple[str, ...]] | None = None,
    others: Iterable[str] = (),
) -> T:
    """An instance of `kind` with these options; the type of a default is the type of its option.

    ConfigError for a name or a value that does not fit. `others` are names that are read elsewhere,
    `choices` the texts that an option may be.
    """
    usual = {field.name: field.default for field in fields(kind)}
    chosen: dict[str, Any] = {}
    for name, value in given.items():
        if name in others:
            continue
        if name not in usual:
            raise ConfigError(
                f"{name!r} is not an option of {subject}.",
                next_step=f"There are: {', '.join(sorted({*usual, *others}))}.",
            )
        default = usual[name]
        if isinstance(default, bool):
            if not isinstance(value, bool):
                raise ConfigError(f"{name!r} must be true or false.")
        elif isinstance(default, str):
            if not isinstance(value, str) or len(value) > TEXT_CHARS_MAX or not value.isprintable():
                raise ConfigError(f"{name!r} must be a string.")
            allowed = (choices or {}).get(name)
            if allowed is not None and value not in allowed:
                listed = ", ".join(repr(choice) for choice in allowed if choice)
                raise ConfigError(f"{name!r} is {value!r}.", next_step=f"It can be: {listed}.")
        else:
            whole = isinstance(default, int)
            fits = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
            if not fits or not 0 <= value < math.inf:
                number = "a whole number" if whole else "a number"
                raise ConfigError(f"{name!r} must be {number} of 0 or more.")
            value = value if whole else float(value)
        chosen[name] = value
    return kind(**chosen)
