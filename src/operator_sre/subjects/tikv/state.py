"""What PD says of stores, members, regions, operators and schedulers, as values. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from operator_sre.subjects.tikv.kinds import address_of

__all__ = [
    "EVICT_LEADER",
    "SILENT",
    "UNHEARD",
    "Member",
    "Members",
    "Operator",
    "Peer",
    "Region",
    "Store",
    "bytes_from",
    "count_from",
    "count_led",
    "evicting_from",
    "leader_from",
    "members_from",
    "operators_from",
    "region_from",
    "regions_from",
    "scheduled_stores",
    "schedulers_from",
    "stores_from",
    "time_from",
    "whole_from",
]

EVICT_LEADER = "evict-leader-scheduler"
LIST_MAX = 100_000
PEERS_MAX = 100
TEXT_MAX = 4_000
SAMPLE = 5
PLANNED = ("Offline", "Tombstone")
SILENT = ("Disconnected", "Down")
VOTER = "Voter"
# A new leader of PD only knows what the one before it wrote down, minutes ago, of a store that it
# has yet to hear of: how large its disk is comes with its first heartbeat.
UNHEARD = "Unheard"
_SIZE = re.compile(r"\s*(\d{1,20}(?:\.\d{1,9})?)\s*([kmgtpe]?)(i?)b?\s*", re.IGNORECASE)
_COUNT = re.compile(rb'\s*\{\s*"count"\s*:\s*(\d{1,18})\b')
_REGION = re.compile(rb'\{\s*"id"\s*:\s*(\d{1,20})\s*,\s*"start_key"')
_TIMES = tuple(
    re.compile(rf"\b{name}:(\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d{{1,9}})? ([+-]\d{{4}})")
    for name in ("createAt", "startAt")
)
_DESC = re.compile(r"([\w.-]{1,100}) \{(.{0,500}?)\} \(kind:([\w,-]{1,100}), region:(\d{1,20})\b")


@dataclass(frozen=True, slots=True)
class Store:
    """One store as PD knows it; `state` is PD's own opinion of it.

    For an Unheard store, `hearsay` is what the leader of PD kept from its predecessor.
    """

    id: int
    address: str
    status_address: str = ""
    state: str = "Up"
    version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity_bytes: int = 0
    available_bytes: int = 0
    leader_count: int = 0
    leader_weight: float = 1.0
    region_count: int = 0
    slow_score: int = 0
    busy: bool = False
    started: datetime | None = None
    heartbeat: datetime | None = None
    hearsay: str = ""

    @property
    def planned(self) -> bool:
        """It is asked to leave, or it has left: its silence is no incident."""
        return self.state in PLANNED

    @property
    def silent(self) -> bool:
        """PD has not heard of it for a while, and it should."""
        return self.state in SILENT

    @property
    def leads(self) -> bool:
        """It can lead regions; a TiFlash only follows."""
        return self.labels.get("engine") not in ("tiflash", "tiflash_compute")


@dataclass(frozen=True, slots=True)
class Member:
    """One member of PD."""

    name: str
    id: int
    client_urls: tuple[str, ...] = ()
    version: str = ""

    @property
    def addresses(self) -> list[str]:
        """Where it answers, as it says itself."""
        return [place for url in self.client_urls if (place := address_of(url))]


@dataclass(frozen=True, slots=True)
class Members:
    """All members of PD, and the names of who leads."""

    members: tuple[Member, ...] = ()
    leader: str = ""
    etcd_leader: str = ""


@dataclass(frozen=True, slots=True)
class Operator:
    """One thing that PD has a region do."""

    region: int
    desc: str
    brief: str
    kind: str
    created: datetime | None
    started: datetime | None
    text: str

    def age_s(self, now: datetime) -> float | None:
        """How long it has been running, or waiting to."""
        since = self.started or self.created
        return None if since is None else max(0.0, (now - since).total_seconds())


@dataclass(frozen=True, slots=True)
class Peer:
    """One copy of a region; only a voter may lead, and a pending copy lags behind."""

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
    """A range of keys with its copies; `leader` is the store that leads it, 0 for none.

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


def stores_from(body: Any) -> tuple[Store, ...] | None:
    """All stores of an answer to `stores`; None where that is no such answer."""
    listed = body.get("stores") if isinstance(body, dict) else None
    if listed is None and isinstance(body, dict) and body.get("count") == 0:
        return ()
    if not isinstance(listed, list):
        return None
    stores = []
    for entry in listed[:LIST_MAX]:
        meta, status = _mapping(entry, "store"), _mapping(entry, "status")
        id_, address = whole_from(meta.get("id")), meta.get("address")
        if not id_ or not isinstance(address, str):
            continue
        state, capacity = _text(meta, "state_name") or "Up", status.get("capacity")
        unheard = capacity is not None and not bytes_from(capacity) and state not in PLANNED
        labels = ((label.get("key"), label.get("value")) for label in _dicts(meta.get("labels")))
        weight = status.get("leader_weight", 1.0)
        weighs = isinstance(weight, int | float) and not isinstance(weight, bool) and weight >= 0
        store = Store(
            id=id_,
            address=address,
            status_address=_text(meta, "status_address"),
            state=UNHEARD if unheard else state,
            version=_text(meta, "version").removeprefix("v"),
            labels={
                key: value
                for key, value in labels
                if isinstance(key, str) and isinstance(value, str)
            },
            capacity_bytes=bytes_from(capacity),
            available_bytes=bytes_from(status.get("available")),
            leader_count=whole_from(status.get("leader_count")),
            leader_weight=float(weight) if weighs else 1.0,
            region_count=whole_from(status.get("region_count")),
            slow_score=whole_from(status.get("slow_score")),
            busy=status.get("is_busy") is True,
            started=time_from(status.get("start_ts")),
            heartbeat=time_from(status.get("last_heartbeat_ts")),
            hearsay=state if unheard else "",
        )
        stores.append(store)
    return tuple(stores)


def count_led(stores: Iterable[Store]) -> int:
    """How many regions have a leader that PD hears."""
    return sum(store.leader_count for store in stores if not store.silent)


def leader_from(body: Any) -> Member | None:
    """The leader, according to one member; None where it knows of none."""
    if not isinstance(body, dict) or not isinstance(body.get("name"), str):
        return None
    urls = body.get("client_urls")
    return Member(
        body["name"],
        whole_from(body.get("member_id")),
        tuple(
            url for url in (urls if isinstance(urls, list) else ())[:SAMPLE] if isinstance(url, str)
        ),
        _text(body, "binary_version").removeprefix("v"),
    )


def members_from(body: Any) -> Members | None:
    """An answer to `members`; None where that is no such answer."""
    listed = body.get("members") if isinstance(body, dict) else None
    if not isinstance(listed, list):
        return None
    leader, etcd = leader_from(body.get("leader")), leader_from(body.get("etcd_leader"))
    return Members(
        tuple(member for entry in listed[:LIST_MAX] if (member := leader_from(entry)) is not None),
        leader.name if leader else "",
        etcd.name if etcd else "",
    )


def region_from(body: object) -> Region | None:
    """The region in an answer of PD; None where there is none, which it says by null."""
    if not isinstance(body, dict) or not whole_from(body.get("id")):
        return None
    pending = {whole_from(peer.get("store_id")) for peer in _dicts(body.get("pending_peers"))}
    # For a peer that is down, the peer itself lies inside, with the length of its downtime.
    down = {
        whole_from((_mapping(entry, "peer") or entry).get("store_id"))
        for entry in _dicts(body.get("down_peers"))
    }
    peers = tuple(
        Peer(
            store,
            voter=peer.get("is_learner") is not True and peer.get("role_name", VOTER) == VOTER,
            pending=store in pending,
            down=store in down,
        )
        for peer in _dicts(body.get("peers"))
        if (store := whole_from(peer.get("store_id")))
    )
    return Region(
        id=whole_from(body["id"]),
        start_key=str(body.get("start_key") or ""),
        end_key=str(body.get("end_key") or ""),
        version=whole_from(_mapping(body, "epoch").get("version")),
        peers=peers,
        leader=whole_from(_mapping(body, "leader").get("store_id")),
        size_mb=whole_from(body.get("approximate_size")),
        keys=whole_from(body.get("approximate_keys")),
    )


def operators_from(body: Any) -> tuple[Operator, ...] | None:
    """An answer to `operators`, each of them a sentence; None where that is no such answer."""
    sentences = schedulers_from(body)
    if sentences is None:
        return None
    operators = []
    for sentence in sentences:
        text = sentence[:TEXT_MAX]
        parts = _DESC.match(text)
        created, started = (
            time_from(f"{match[1]}{match[2][:3]}:{match[2][3:]}") if match else None
            for match in (pattern.search(text) for pattern in _TIMES)
        )
        desc, brief, kind, region = parts.groups() if parts else ("", "", "", "0")
        operators.append(Operator(int(region), desc, brief, kind, created, started, text))
    return tuple(operators)


def schedulers_from(body: Any) -> tuple[str, ...] | None:
    """The names in an answer to `schedulers`."""
    if body is None:
        return ()
    if not isinstance(body, list):
        return None
    return tuple(name for name in body[:LIST_MAX] if isinstance(name, str))


def scheduled_stores(kind: str, names: Iterable[str]) -> frozenset[int]:
    """The stores for which there is a scheduler of this kind each, as older PDs have them."""
    ends = (name.removeprefix(f"{kind}-") for name in names if name.startswith(f"{kind}-"))
    return frozenset(int(end) for end in ends if end.isdecimal())


def evicting_from(body: Any) -> frozenset[int] | None:
    """The ids of the stores from which the leaders are driven away."""
    ranges = body.get("store-id-ranges") if isinstance(body, dict) else None
    if not isinstance(ranges, dict):
        return None
    return frozenset(int(id_) for id_ in ranges if id_.isdecimal() and len(id_) <= 20)


def count_from(head: bytes) -> int | None:
    """How many regions a list has, by the beginning of it."""
    match = _COUNT.match(head)
    return int(match[1]) if match else None


def regions_from(head: bytes) -> tuple[int, ...]:
    """The ids of the first regions of a list, by the beginning of it."""
    return tuple(int(id_) for id_ in _REGION.findall(head)[:SAMPLE])


def bytes_from(value: Any) -> int:
    """A size such as `99.5GiB`, in bytes; 0 for what is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return max(0, value)
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return 0
    power = " kmgtpe".index(match[2].lower() or " ")
    return int(float(match[1]) * 1024**power)


def time_from(value: Any) -> datetime | None:
    """A time with a zone; None for what is none, and for what Go and PD write for never."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return time.astimezone(UTC) if time.tzinfo is not None and time.year > 1970 else None


def whole_from(value: Any) -> int:
    """A whole number; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if -(2**63) < value < 2**64 else 0


def _dicts(value: Any) -> list[dict[str, Any]]:
    entries = value[:PEERS_MAX] if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _mapping(entry: Any, name: str) -> Mapping[str, Any]:
    value = entry.get(name) if isinstance(entry, dict) else None
    return value if isinstance(value, dict) else {}


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    return value[:TEXT_MAX] if isinstance(value, str) else ""
