"""Pages of what can grow without end: an address says what is shown, and where it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import urlencode

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["SEQ_MAX", "address", "pages_of"]

SEQ_MAX = 2**63 - 1


class _Numbered(Protocol):
    @property
    def seq(self) -> int: ...


T = TypeVar("T", bound=_Numbered)


def address(place: str, asked: Mapping[str, object]) -> str:
    """A place with what is asked of it; what is empty asks for nothing."""
    told = {name: value for name, value in asked.items() if value not in ("", None, False)}
    return f"{place}?{urlencode(told)}" if told else place


def pages_of(
    place: str, asked: DataclassInstance, found: Sequence[T], most: int
) -> tuple[Sequence[T], str]:
    """What fits on one page of all that was `found`, and where older ones are; "" for nowhere."""
    if len(found) <= most:
        return found, ""
    following = replace(asked, before=str(found[most - 1].seq))
    return found[:most], address(place, asdict(following))
