"""The members of a cluster: who belongs to it, and what each says of itself."""

from __future__ import annotations

import asyncio
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from operator_protocols.domain.target import Target
from operator_protocols.kit.prometheus import buckets_of, samples_of
from operator_sre.subjects.etcd.client import Answer, Etcd, number

__all__ = [
    "CLUSTER",
    "KIND",
    "Member",
    "MemberStatus",
    "Metrics",
    "alarms_from",
    "ask_member",
    "hex_of",
    "member_of",
    "members_from",
    "metrics_from",
    "quantile_of",
    "quorum_of",
    "with_cluster",
]

KIND = "member"
CLUSTER = "cluster"  # what all members are together: a target without a process
MEMBERS_MAX = 100
FSYNC = "etcd_disk_wal_fsync_duration_seconds"
PEER = "etcd_network_active_peers"
RECEIVED = "etcd_network_peer_received_bytes_total"
HANDLED = "grpc_server_handled_total"
# What members answered to clients, by the kind of error; the rest is no error, or ends a stream.
ERROR_KINDS = {
    "Unauthenticated": "login",
    "PermissionDenied": "permission",
    "ResourceExhausted": "no_space",
}
WANTED = {
    "etcd_server_quota_backend_bytes": "quota_bytes",
    "etcd_server_proposals_failed_total": "proposals_failed",
    "etcd_server_proposals_pending": "proposals_pending",
    "etcd_debugging_mvcc_compact_revision": "compact_revision",
    "etcd_debugging_mvcc_keys_total": "keys",
}
_ALARM = re.compile(r"(?:memberID:(\d{1,20}) )?alarm:([A-Z]{1,20})")


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of the member list; a member that was added and never started has no name."""

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
        lambda member: bool(id_) and member.id == id_,
        lambda member: not id_ and member.name == target.name,
        lambda member: (
            not id_ and any(url.split("://")[-1] in places for url in member.client_urls)
        ),
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
    names = (CLUSTER if turn == 1 else f"{CLUSTER}-{turn}" for turn in itertools.count(1))
    name = next(name for name in names if name not in taken)
    needing = []
    for target in targets:
        if target.kind == KIND:
            leader = (slow_leader,) if slow_leader not in ("", target.name) else ()
            target = replace(target, depends_on=(*target.depends_on, name, *leader))
        needing.append(target)
    return (*needing, Target(name, CLUSTER))


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
    return tuple(text for text in texts if isinstance(text, str))


@dataclass(frozen=True, slots=True)
class Metrics:
    """Numbers by our own names, peers by their id in hex, fsyncs by the bound of their bucket.

    `peers` says to whom a connection stands, `received` how many bytes came from whom, `errors`
    how many requests of clients were answered with which kind of error.
    """

    numbers: Mapping[str, int] = field(default_factory=dict)
    peers: Mapping[str, bool] = field(default_factory=dict)
    fsyncs: Mapping[float, float] = field(default_factory=dict)
    received: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)


def metrics_from(text: str) -> Metrics:
    """Read the metrics that are wanted; whatever else is there is passed over."""
    content = text.encode()
    numbers = {
        ours: int(value)
        for name, ours in WANTED.items()
        for _, value in samples_of(content, name)
        if math.isfinite(value)
    }
    peers = {labels.get("Remote", ""): value > 0 for labels, value in samples_of(content, PEER)}
    received = {
        labels.get("From", ""): int(value)
        for labels, value in samples_of(content, RECEIVED)
        if math.isfinite(value)
    }
    handled = list(samples_of(content, HANDLED))
    errors = dict.fromkeys(ERROR_KINDS.values(), 0) if handled else {}
    for labels, value in handled:
        kind = ERROR_KINDS.get(labels.get("grpc_code", ""))
        if kind is not None and math.isfinite(value):
            errors[kind] += int(value)
    return Metrics(numbers, peers, buckets_of(content, FSYNC), received, errors)


def quantile_of(
    buckets: Mapping[float, float], before: Mapping[float, float], at: float
) -> float | None:
    """The bound below which that share of what came since `before` lies; None when nothing did."""
    bounds = sorted(buckets)
    if not bounds or (before and any(before.get(bound, 0.0) > buckets[bound] for bound in bounds)):
        before = {}  # it restarted, and counts from 0
    counts = [buckets[bound] - before.get(bound, 0.0) for bound in bounds]
    if not counts or counts[-1] <= 0:
        return None
    finite = [bound for bound in bounds if not math.isinf(bound)]
    for bound, count in zip(bounds, counts, strict=True):
        if count >= at * counts[-1] and not math.isinf(bound):
            return bound
    return finite[-1] if finite else None


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """Status, metrics and member list of one member; `status` alone says whether it is up.

    `blind` says which of the others it does not report, and why.
    """

    target: Target
    status: Answer
    metrics: Metrics = field(default_factory=Metrics)
    members: tuple[Member, ...] = ()
    blind: Mapping[str, str] = field(default_factory=dict)

    @property
    def up(self) -> bool:
        """It answered, and the answer is the status of a member."""
        return self.status.ok and bool(self.id)

    @property
    def problem(self) -> str:
        """Why its answer is unusable; "" for a member that is up or does not answer at all.

        Where another program answers, the member itself does not.
        """
        if self.up or not self.status.reached or self.status.strange:
            return ""
        return self.status.error or "the answer does not name the member"

    @property
    def id(self) -> int:
        """Its id in the cluster."""
        return number(self._header, "member_id")

    @property
    def revision(self) -> int:
        """The last revision of the store that it has applied."""
        return number(self._header, "revision")

    @property
    def leader(self) -> int:
        """The id of its leader; 0 for none."""
        return self.number("leader")

    @property
    def leads(self) -> bool:
        """It is the leader, by its own word."""
        return self.up and self.leader == self.id

    def number(self, name: str) -> int:
        """A number of its status."""
        return number(self.status.body, name)

    @property
    def _header(self) -> Mapping[str, Any]:
        header = self.status.body.get("header")
        return header if isinstance(header, dict) else {}


async def ask_member(etcd: Etcd, target: Target) -> MemberStatus:
    """Ask one member about itself; its own memory answers all of it, without the others."""
    status, metrics, listed = await asyncio.gather(
        etcd.ask(target, "maintenance/status"),
        etcd.metrics(target),
        etcd.ask(target, "cluster/member/list"),
    )
    # What is refused stays refused; what is late or out of reach comes with the next check.
    refused = (("metrics", metrics), ("members", listed))
    return MemberStatus(
        target,
        status,
        metrics_from(metrics.text) if metrics.ok else Metrics(),
        members_from(listed.body) if listed.ok else (),
        {
            name: answer.error
            for name, answer in refused
            if status.ok and answer.reached and not (answer.ok or answer.denied)
        },
    )
