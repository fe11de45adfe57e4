"""Listing without end, ended: follow a store cursor up to a number of items and of pages."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Listing", "collect"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """Distinct items, and whether there may be more than were looked at."""

    items: tuple[T, ...]
    truncated: bool


async def collect(
    page: Callable[[int], Awaitable[tuple[int, Iterable[T]]]], *, items_max: int, pages_max: int
) -> Listing[T]:
    """Gather items from `page(cursor)` until its cursor is 0 again or a maximum is reached."""
    # A cursor may show an item twice; a dict keeps the first and the order.
    found: dict[T, None] = {}
    cursor = 0
    for _ in range(pages_max):
        cursor, items = await page(cursor)
        found.update(dict.fromkeys(items))
        if cursor == 0 or len(found) >= items_max:
            break
    items_kept = tuple(found)[:items_max]
    return Listing(items_kept, truncated=cursor != 0 or len(found) > items_max)
