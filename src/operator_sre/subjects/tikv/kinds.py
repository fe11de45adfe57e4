"""What the parts of a TiKV cluster are called, and which of them belong to which address. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from urllib.parse import urlsplit

from operator_protocols.domain.target import Access, Target
from operator_protocols.kit.access import authority

__all__ = [
    "CLUSTER",
    "PD",
    "PROMETHEUS",
    "STORE",
    "address_of",
    "addresses_of",
    "discovered_target",
    "host_of",
    "shared_access",
    "target_at",
    "with_cluster",
]

PD = "pd"
STORE = "store"
PROMETHEUS = "prometheus"
CLUSTER = "cluster"
KINDS = (PD, STORE, PROMETHEUS)


def addresses_of(target: Target) -> list[str]:
    """Where a target answers, its own address first."""
    own = [authority((target.host, target.port))] if target.port is not None else []
    return [*own, *target.endpoints]


def address_of(url: str) -> str:
    """`host:port` of a URL or of an address; "" where there is none."""
    try:
        parts = urlsplit(url if "://" in url else f"//{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return ""
    return authority((host, port)) if host and port else ""


def host_of(address: str) -> str:
    """The host of `host:port`, in lower case."""
    return address.rpartition(":")[0].strip("[]").lower()


def target_at(targets: Iterable[Target], names: Iterable[str], places: Sequence[str]) -> str:
    """The target that answers at one of these places, or has one of these names; "" for none.

    Addresses count more than names. What is advertised inside of a network of containers is not
    where we reach it from outside; there the host is the name of the target.
    """
    known = tuple(targets)
    wanted = {place for place in places if place}
    for target in known:
        if wanted & set(addresses_of(target)):
            return target.name
    called = {*names, *(host_of(place) for place in wanted)}
    named = [target.name for target in known if target.name in called]
    return named[0] if len(named) == 1 else ""


def discovered_target(
    name: str, kind: str, address: str, taken: Iterable[str], access: Access | None
) -> Target:
    """A part that is not listed and that the cluster reported, under an unused name."""
    digits = address.rpartition(":")[2]
    port = int(digits) if digits.isdecimal() else None
    return Target(_free_name(name, taken), kind, host=host_of(address), port=port, access=access)


def shared_access(targets: Iterable[Target]) -> Access | None:
    """How to connect to unlisted parts: as to the first PD, except for its name."""
    for target in targets:
        if target.kind == PD and target.access is not None:
            return replace(target.access, server_name="")
    return None


def with_cluster(targets: Sequence[Target], needs: Iterable[str] = ()) -> tuple[Target, ...]:
    """The targets, and the cluster that they are together as one more of them.

    It needs those parts that are known to be gone or emptied now: what breaks for the whole cluster
    because of them is one incident with them. Where there is no part of a cluster there is none.
    """
    if not any(target.kind in (PD, STORE) for target in targets):
        return tuple(targets)
    names = {target.name for target in targets}
    wanted = tuple(sorted(names & set(needs)))
    return (*targets, Target(_free_name(CLUSTER, names), CLUSTER, depends_on=wanted))


def _free_name(name: str, taken: Iterable[str]) -> str:
    used = set(taken)
    names = (name if turn == 1 else f"{name}-{turn}" for turn in count(1))
    return next(free for free in names if free not in used)
