"""Who belongs to a cluster, as its own members tell it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from operator_protocols.domain.target import Target
from operator_sre.subjects.etcd.client import number

__all__ = [
    "CLUSTER",
    "KIND",
    "Member",
    "alarms_from",
    "hex_of",
    "member_of",
    "members_from",
    "quorum_of",
    "with_cluster",
]

KIND = "member"
CLUSTER = "cluster"  # what all members are together: a target without a process
MEMBERS_MAX = 100
_ALARM = re.compile(r"(?:memberID:(\d{1,20}) )?alarm:([A-Z]{1,20})")


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of the member list; one that was added and never started has no name."""

    id: int
    name: str
    peer_urls: tuple[str, ...] = ()
    client_urls: tuple[str, ...] = ()
    learner: bool = False


def members_from(body: Mapping[str, Any]) -> tuple[Member, ...]:
    """The entries of a member list; what is not one is passed over."""
    entries = body.get("members")
    if not isinstance(entries, list):
        return ()
    return tuple(
        Member(
            id=number(entry, "ID"),
            name=str(entry.get("name", "")),
            peer_urls=_texts(entry.get("peerURLs")),
            client_urls=_texts(entry.get("clientURLs")),
            learner=entry.get("isLearner") is True,
        )
        for entry in entries[:MEMBERS_MAX]
        if isinstance(entry, dict) and number(entry, "ID")
    )


def member_of(target: Target, members: Iterable[Member], *, id_: int = 0) -> Member | None:
    """The entry of a target: by the id it gave, else by name, else by where it answers."""
    known = tuple(members)
    places = {f"{target.host}:{target.port}", *target.endpoints}
    for fits in (
        lambda one: bool(id_) and one.id == id_,
        lambda one: not id_ and one.name == target.name,
        lambda one: not id_ and any(url.split("://")[-1] in places for url in one.client_urls),
    ):
        for member in known:
            if fits(member):
                return member
    return None


def with_cluster(targets: Sequence[Target], *, slow_leader: str = "") -> tuple[Target, ...]:
    """The targets, and the cluster as one more of them, which every member needs.

    What breaks for all members at once breaks there, once. Who follows a leader that is slow needs
    that leader as well. Where there is no member there is no cluster.
    """
    if not any(target.kind == KIND for target in targets):
        return tuple(targets)
    taken = {target.name for target in targets}
    names = (CLUSTER if turn == 1 else f"{CLUSTER}-{turn}" for turn in count(1))
    name = next(name for name in names if name not in taken)
    members = (_needing(target, name, slow_leader) for target in targets)
    return (*members, Target(name, CLUSTER))


def _needing(target: Target, cluster: str, leader: str) -> Target:
    if target.kind != KIND:
        return target
    needs = (cluster, leader) if leader and leader != target.name else (cluster,)
    return replace(target, depends_on=(*target.depends_on, *needs))


def alarms_from(errors: object) -> list[tuple[int, str]]:
    """The alarms among the errors of a status, each with the id of the member that raised it."""
    if not isinstance(errors, list):
        return []
    found = [_ALARM.search(error) for error in errors[:MEMBERS_MAX] if isinstance(error, str)]
    return [(int(match[1] or 0), match[2]) for match in found if match is not None]


def quorum_of(voters: int) -> int:
    """How many of so many voters decide."""
    return voters // 2 + 1


def hex_of(id_: int) -> str:
    """An id as etcd writes it in its logs and metrics."""
    return f"{id_:x}"


def _texts(value: object) -> tuple[str, ...]:
    texts: Sequence[object] = value if isinstance(value, list) else ()
    return tuple(one for one in texts if isinstance(one, str))
