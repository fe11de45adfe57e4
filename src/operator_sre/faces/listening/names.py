"""By which names we are asked: a page that was led here by a name of its own is told nothing."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

__all__ = ["is_ours", "names_of"]


def names_of(hosts: Iterable[str]) -> frozenset[str]:
    """The names that we are reached by beside every address: these and `localhost`."""
    return frozenset(one.lower() for one in ("localhost", *hosts))


def is_ours(place: str, names: frozenset[str]) -> bool:
    """Whether a host, with or without a port, is one of ours; an address is no name."""
    name = place.rpartition(":")[0] if not place.endswith("]") and ":" in place else place
    name = name.strip("[]").lower().rstrip(".")
    if name in names:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
