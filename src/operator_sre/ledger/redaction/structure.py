"""Walking a JSON value, with what the fields on the way to each leaf say about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from operator_sre.ledger.redaction.arguments import secret_arguments
from operator_sre.ledger.redaction.names import Name, Trust, name_of

__all__ = ["Field", "Json", "Leaf", "walked"]

Leaf: TypeAlias = bool | int | float | str | None
Json: TypeAlias = "Leaf | Sequence[Json] | Mapping[str, Json]"

# Beside a `name` stands a `value`: environment lists, parameters, tags.
_NAMES = ("name", "key", "Name", "Key", "ParameterKey", "variable")
_VALUES = ("value", "Value", "ParameterValue", "default")
_HEADERS = {"authorization": "Authorization", "proxy-authorization": "Authorization"}
_COOKIES = {"cookie": "Cookie", "set-cookie": "Cookie", "cookies": "Cookie"}


@dataclass(frozen=True, slots=True)
class Field:
    """What a field's name says about the values in it."""

    named: Name | None = None
    # The header that its text is, when it is one.
    header: str = ""
    # Whether everything below is a secret, whatever it is called.
    is_all: bool = False


_PLAIN = Field()
_SECRET_DATA = Field(Name("k8s_secret", Trust.ANY), is_all=True)
_Slot: TypeAlias = "tuple[Callable[[Json], None], Json, Field]"


def walked(value: Json, leaf: Callable[[Leaf, Field], Leaf], key: Callable[[str], str]) -> Json:
    """A copy of the value with every leaf and every key changed.

    A stack, not recursion: how deep a value goes is up to whoever sent it.
    """
    top: list[Json] = [None]
    todo: list[_Slot] = [(_put(top, 0), value, _PLAIN)]
    while todo:
        put, one, field = todo.pop()
        if isinstance(one, Mapping):
            table: dict[str, Json] = {key(str(name)): None for name in one}
            put(table)
            todo += [
                (_set(table, key(name)), item, below) for name, item, below in _fields(one, field)
            ]
        elif isinstance(one, Sequence) and not isinstance(one, str):
            items: list[Json] = list(one)
            put(items)
            todo += [(_put(items, at), item, below) for at, item, below in _items(one, field)]
        else:
            put(leaf(one, field))
    return top[0]


def _put(items: list[Json], at: int) -> Callable[[Json], None]:
    return lambda value: items.__setitem__(at, value)


def _set(table: dict[str, Json], name: str) -> Callable[[Json], None]:
    return lambda value: table.__setitem__(name, value)


def _fields(one: Mapping[str, Json], field: Field) -> Iterator[tuple[str, Json, Field]]:
    is_secret_object = one.get("kind") == "Secret"
    paired = next((text for name in _NAMES if isinstance(text := one.get(name), str)), "")
    for raw, item in one.items():
        name = str(raw)
        if field.is_all:
            yield name, item, field
        elif is_secret_object and name in ("data", "stringData"):
            yield name, item, _SECRET_DATA
        elif paired and name in _VALUES and (named := _named(paired)) is not None:
            yield name, item, Field(named)
        else:
            lower = name.lower()
            header = _HEADERS.get(lower) or _COOKIES.get(lower, "")
            yield name, item, Field(None if header else _named(name), header)


def _items(one: Sequence[Json], field: Field) -> Iterator[tuple[int, Json, Field]]:
    """The items of a list: what its name says holds for them, and an option for the next word."""
    secret = secret_arguments(one)
    for at, item in enumerate(one):
        if at in secret:
            yield at, item, Field(Name(secret[at], Trust.ANY))
        else:
            yield at, item, field


def _named(name: str) -> Name | None:
    if "[REDACTED:" in name:
        return None  # what was a secret itself names nothing
    return name_of(name.encode("utf-8", "surrogatepass"))
