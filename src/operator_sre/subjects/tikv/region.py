"""One region as PD tells of it: which keys it holds, and on which stores. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Peer", "Region", "region_from"]

PEERS_MAX = 100
VOTER = "Voter"


@dataclass(frozen=True, slots=True)
class Peer:
    """One copy of a region; only a voter may lead, and one that is pending lags behind."""

    store: int
    voter: bool = True
    pending: bool = False
    down: bool = False

    @property
    def sound(self) -> bool:
        """It votes, and has what the others have."""
        return self.voter and not self.pending and not self.down


@dataclass(frozen=True, slots=True)
class Region:
    """A range of keys with its copies; `leader` is the store that leads it, 0 for nobody.

    `version` goes up with every split and merge. Sizes are PD's own estimates.
    """

    id: int
    start_key: str
    end_key: str
    version: int
    peers: tuple[Peer, ...]
    leader: int
    size_mb: int = 0
    keys: int = 0

    def peer_on(self, store: int) -> Peer | None:
        """Its copy on a store."""
        return next((peer for peer in self.peers if peer.store == store), None)

    def unsound(self, *, but: int = 0) -> tuple[int, ...]:
        """The stores on which its copy is not what it should be, without one of them."""
        return tuple(peer.store for peer in self.peers if peer.store != but and not peer.sound)

    def touches(self, other: Region) -> bool:
        """Whether one of them begins where the other ends."""
        # The first region of all begins, and the last one ends, with no key at all.
        after = bool(self.end_key) and self.end_key == other.start_key
        return after or (bool(self.start_key) and self.start_key == other.end_key)


def region_from(body: object) -> Region | None:
    """The region in an answer of PD; None where there is none, which it says by null."""
    if not isinstance(body, Mapping) or not _number(body, "id"):
        return None
    pending = _stores(body.get("pending_peers"))
    # Of one that is down the peer itself lies inside, with the time for which it is.
    down = _stores([_map(one, "peer") or one for one in _list(body.get("down_peers"))])
    peers = tuple(
        Peer(
            store,
            voter=one.get("is_learner") is not True and one.get("role_name", VOTER) == VOTER,
            pending=store in pending,
            down=store in down,
        )
        for one in _list(body.get("peers"))
        if isinstance(one, Mapping) and (store := _number(one, "store_id"))
    )
    return Region(
        id=_number(body, "id"),
        start_key=str(body.get("start_key") or ""),
        end_key=str(body.get("end_key") or ""),
        version=_number(_map(body, "epoch"), "version"),
        peers=peers,
        leader=_number(_map(body, "leader"), "store_id"),
        size_mb=_number(body, "approximate_size"),
        keys=_number(body, "approximate_keys"),
    )


def _stores(entries: object) -> frozenset[int]:
    return frozenset(_number(one, "store_id") for one in _list(entries) if isinstance(one, Mapping))


def _list(value: object) -> list[Any]:
    return value[:PEERS_MAX] if isinstance(value, list) else []


def _map(value: object, name: str) -> Mapping[str, Any]:
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _number(value: Mapping[str, Any], name: str) -> int:
    found = value.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0
