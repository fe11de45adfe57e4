"""Addresses of filtered lists, and the link to the next page."""

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


def address(place: str, filters: Mapping[str, object]) -> str:
    """A path with its filters as the query; empty filters are left out."""
    query = {name: value for name, value in filters.items() if value not in ("", None, False)}
    return f"{place}?{urlencode(query)}" if query else place


def pages_of(
    place: str, filters: DataclassInstance, found: Sequence[T], most: int
) -> tuple[Sequence[T], str]:
    """The rows of one page, and the address of older rows; "" if there are none."""
    if len(found) <= most:
        return found, ""
    following = replace(filters, before=str(found[most - 1].seq))
    return found[:most], address(place, asdict(following))
