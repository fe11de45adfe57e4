"""What PD says of stores, members, operators and schedulers, as values. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
    "Store",
    "bytes_from",
    "count_from",
    "evicting_from",
    "leader_from",
    "members_from",
    "operators_from",
    "regions_from",
    "schedulers_from",
    "stores_from",
    "time_from",
    "whole_from",
]

EVICT_LEADER = "evict-leader-scheduler"
LIST_MAX = 100_000
TEXT_MAX = 4_000
SAMPLE = 5
PLANNED = ("Offline", "Tombstone")
SILENT = ("Disconnected", "Down")
# A new leader of PD only knows what the one before it wrote down, minutes ago, of a store that it
# has yet to hear of: how large its disk is comes with its first heartbeat.
UNHEARD = "Unheard"
_SIZE = re.compile(r"\s*(\d{1,20}(?:\.\d{1,9})?)\s*([kmgtpe]?)(i?)b?\s*", re.IGNORECASE)
_COUNT = re.compile(rb'\s*\{\s*"count"\s*:\s*(\d{1,18})\b')
_REGION = re.compile(rb'\{\s*"id"\s*:\s*(\d{1,20})\s*,\s*"start_key"')
_TIMES = {
    name: re.compile(rf"\b{name}:(\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d{{1,9}})? ([+-]\d{{4}})")
    for name in ("createAt", "startAt")
}
_DESC = re.compile(r"([\w.-]{1,100}) \{(.{0,500}?)\} \(kind:([\w,-]{1,100}), region:(\d{1,20})\b")


@dataclass(frozen=True, slots=True)
class Store:
    """One store as PD knows it; `state` is PD's own opinion of it.

    Of one that is Unheard, `hearsay` is what the leader of PD has of the one before it.
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
        """Somebody wants it to leave, or it has left: that it is silent is no incident."""
        return self.state in PLANNED

    @property
    def silent(self) -> bool:
        """PD has not heard of it for a while, and it should."""
        return self.state in SILENT

    @property
    def leads(self) -> bool:
        """It is one of those that lead regions; a TiFlash only follows."""
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


def stores_from(body: Any) -> tuple[Store, ...] | None:
    """All stores of an answer to `stores`; None where that is no such answer."""
    listed = body.get("stores") if isinstance(body, dict) else None
    if listed is None and isinstance(body, dict) and body.get("count") == 0:
        return ()
    if not isinstance(listed, list):
        return None
    found = [_store(one) for one in listed[:LIST_MAX]]
    return tuple(one for one in found if one is not None)


def _store(entry: Any) -> Store | None:
    meta = _mapping(entry, "store")
    status = _mapping(entry, "status")
    id_, address = whole_from(meta.get("id")), meta.get("address")
    if not id_ or not isinstance(address, str):
        return None
    state, capacity = _text(meta, "state_name") or "Up", status.get("capacity")
    unheard = capacity is not None and not bytes_from(capacity) and state not in PLANNED
    return Store(
        id=id_,
        address=address,
        status_address=_text(meta, "status_address"),
        state=UNHEARD if unheard else state,
        version=_text(meta, "version").removeprefix("v"),
        labels=_labels(meta.get("labels")),
        capacity_bytes=bytes_from(capacity),
        available_bytes=bytes_from(status.get("available")),
        leader_count=whole_from(status.get("leader_count")),
        leader_weight=_weight(status.get("leader_weight", 1.0)),
        region_count=whole_from(status.get("region_count")),
        slow_score=whole_from(status.get("slow_score")),
        busy=status.get("is_busy") is True,
        started=time_from(status.get("start_ts")),
        heartbeat=time_from(status.get("last_heartbeat_ts")),
        hearsay=state if unheard else "",
    )


def leader_from(body: Any) -> Member | None:
    """Who leads, by the word of one member; None where it knows of nobody."""
    return _member(body)


def members_from(body: Any) -> Members | None:
    """An answer to `members`; None where that is no such answer."""
    listed = body.get("members") if isinstance(body, dict) else None
    if not isinstance(listed, list):
        return None
    found = [_member(one) for one in listed[:LIST_MAX]]
    leader, etcd = _member(body.get("leader")), _member(body.get("etcd_leader"))
    return Members(
        tuple(one for one in found if one is not None),
        leader.name if leader else "",
        etcd.name if etcd else "",
    )


def operators_from(body: Any) -> tuple[Operator, ...] | None:
    """An answer to `operators`, each of them a sentence; None where that is no such answer."""
    if body is None:
        return ()
    if not isinstance(body, list):
        return None
    return tuple(_operator(one[:TEXT_MAX]) for one in body[:LIST_MAX] if isinstance(one, str))


def schedulers_from(body: Any) -> tuple[str, ...] | None:
    """The names in an answer to `schedulers`."""
    if body is None:
        return ()
    if not isinstance(body, list):
        return None
    return tuple(one for one in body[:LIST_MAX] if isinstance(one, str))


def evicting_from(body: Any) -> frozenset[int] | None:
    """The ids of the stores from which the leaders are driven away."""
    ranges = body.get("store-id-ranges") if isinstance(body, dict) else None
    if not isinstance(ranges, dict):
        return None
    return frozenset(int(one) for one in ranges if one.isdecimal() and len(one) <= 20)


def count_from(head: bytes) -> int | None:
    """How many regions a list has, by the beginning of it."""
    found = _COUNT.match(head)
    return int(found[1]) if found else None


def regions_from(head: bytes) -> tuple[int, ...]:
    """The ids of the first regions of a list, by the beginning of it."""
    return tuple(int(one) for one in _REGION.findall(head)[:SAMPLE])


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
        found = datetime.fromisoformat(value)
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo is not None and found.year > 1970 else None


def whole_from(value: Any) -> int:
    """A whole number; 0 for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if -(2**63) < value < 2**64 else 0


def _operator(text: str) -> Operator:
    found = _DESC.match(text)
    return Operator(
        region=int(found[4]) if found else 0,
        desc=found[1] if found else "",
        brief=found[2] if found else "",
        kind=found[3] if found else "",
        created=_time_in(text, "createAt"),
        started=_time_in(text, "startAt"),
        text=text,
    )


def _time_in(text: str, name: str) -> datetime | None:
    found = _TIMES[name].search(text)
    return time_from(f"{found[1]}{found[2][:3]}:{found[2][3:]}") if found else None


def _member(entry: Any) -> Member | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return None
    urls = entry.get("client_urls")
    listed: Sequence[Any] = urls if isinstance(urls, list) else ()
    return Member(
        entry["name"],
        whole_from(entry.get("member_id")),
        tuple(one for one in listed[:SAMPLE] if isinstance(one, str)),
        _text(entry, "binary_version").removeprefix("v"),
    )


def _labels(value: Any) -> dict[str, str]:
    listed = value if isinstance(value, list) else []
    return {
        one["key"]: one["value"]
        for one in listed[:100]
        if isinstance(one, dict)
        and isinstance(one.get("key"), str)
        and isinstance(one.get("value"), str)
    }


def _mapping(entry: Any, name: str) -> Mapping[str, Any]:
    value = entry.get(name) if isinstance(entry, dict) else None
    return value if isinstance(value, dict) else {}


def _text(entry: Mapping[str, Any], name: str) -> str:
    value = entry.get(name)
    return value[:TEXT_MAX] if isinstance(value, str) else ""


def _weight(value: Any) -> float:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return float(value) if fits else 1.0
