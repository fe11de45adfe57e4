"""What follows for the whole cluster from what its members say. Pure."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operator_protocols.domain.observation import Seen, Value
from operator_protocols.domain.target import Target
from operator_protocols.kit.invariant import number_of
from operator_sre.subjects.etcd.client import Answer
from operator_sre.subjects.etcd.members import (
    CLUSTER,
    Member,
    MemberStatus,
    alarms_from,
    hex_of,
    member_of,
    quorum_of,
)

__all__ = [
    "WINDOW_S",
    "Cluster",
    "Hash",
    "Hearing",
    "agreement",
    "status_readings",
    "summarize",
]

# Codes of gRPC with which a member says that it could not ask the others in time.
UNAVAILABLE = (4, 14)
WINDOW_S = 2.0  # a leader and its followers send ten times a second
SAMPLES_MAX = 100
NEAR = 100  # logs that differ by less entries than that are as good as each other
# What is the same at every member but for fragments: that of the fullest one counts for all.
_SPACE = (
    "db_bytes",
    "db_in_use_bytes",
    "quota_bytes",
    "quota_ratio",
    "near_quota",
    "in_use_ratio",
    "mostly_free",
    "mostly_history",
    "history_weighs",
    "history_ratio",
    "revisions_kept",
)
_SHARED = ("quorum", "voters", "voters_up", "healthy_voters", "quorum_lost_s")


@dataclass(frozen=True, slots=True)
class Hash:
    """The hash of one member's keys at a revision, since a compaction."""

    value: int
    revision: int
    compacted: int


class Cluster:
    """The members as one check observed them."""

    def __init__(self, statuses: Sequence[MemberStatus]) -> None:
        self.statuses = tuple(statuses)
        self.up = tuple(status for status in statuses if status.up)
        # That of who has applied most: after a change the others may not know it yet.
        known = [status for status in self.up if status.members]
        newest = max(known, key=lambda status: status.number("raftAppliedIndex"), default=None)
        self.members = newest.members if newest is not None else ()
        self._ids = {status.target.name: status.id for status in self.up}
        free = [member for member in self.members if member.id not in self._ids.values()]
        for status in self.statuses:
            member = None if status.up else member_of(status.target, free)
            if member is not None:
                self._ids[status.target.name] = member.id
        leading = [status for status in self.up if status.leads]
        # An isolated leader believes in itself for a while; the newer term is right.
        self.leader = max(leading, key=lambda status: status.number("raftTerm"), default=None)

    def _votes(self, status: MemberStatus) -> bool:
        return not any(member.learner for member in self.members if member.id == status.id)

    @property
    def voters(self) -> int:
        """How many members vote; as many as there are targets when no member answers."""
        listed = sum(not member.learner for member in self.members)
        return listed or len(self.statuses)

    @property
    def voters_up(self) -> int:
        """How many voters answer us."""
        return sum(self._votes(status) for status in self.up)

    @property
    def followers(self) -> tuple[MemberStatus, ...]:
        """The voters that answer and follow a leader, the leader itself among them."""
        return tuple(status for status in self.up if status.leader and self._votes(status))

    @property
    def healthy_voters(self) -> int:
        """How many voters answer and follow a leader."""
        return len(self.followers)

    @property
    def speaker(self) -> MemberStatus | None:
        """The member to ask for the cluster: the leader, else a follower of a leader we cannot
        reach.
        """
        followers = (status for status in self.up if status.leader)
        return self.leader or next(followers, None)

    @property
    def successor(self) -> MemberStatus | None:
        """Who should lead instead: a voter that keeps up, and the quickest to answer of them."""
        return min(
            (status for status in self.followers if not status.leads),
            key=lambda status: (-status.number("raftAppliedIndex") // NEAR, status.status.took_s),
            default=None,
        )

    def quorum(self, reads: Mapping[str, Answer]) -> bool | None:
        """Whether the cluster can decide; None when no member answers that.

        No member answers a linearizable read without a quorum.
        """
        if any(answer.ok for answer in reads.values()):
            return True
        if not self.up:
            return None
        if self.healthy_voters >= quorum_of(self.voters):
            return True
        waited = [
            reply for reply in reads.values() if not reply.reached or reply.code in UNAVAILABLE
        ]
        return False if len(waited) == len(reads) else None

    def refusal(self, answers: Sequence[Answer]) -> str | None:
        """Why access is refused; "" where a member accepts us, None where no member could be asked.

        A member may answer a status request from anyone, and show its keys only to authenticated
        users.
        """
        denied = [reply for reply in answers if reply.denied]
        denied += [status.status for status in self.statuses if status.status.denied]
        if denied and not any(reply.ok for reply in answers):
            return denied[0].error
        return "" if any(reply.ok or reply.reached for reply in answers) else None

    def membership(self) -> dict[str, str]:
        """Who belongs to the cluster, by the member that has applied most."""
        return {
            f"member {self.name_of(member.id)}": f"{'learner' if member.learner else 'voter'} at"
            f" {', '.join(member.peer_urls) or 'no address'}"
            for member in self.members
        }

    def name_of(self, id_: int) -> str:
        """The target with this id, else the name of the member, else the id."""
        for name, known in self._ids.items():
            if known == id_:
                return name
        names = (member.name for member in self.members if member.id == id_)
        return next(names, "") or hex_of(id_)

    def member_of(self, target: Target) -> Member | None:
        """The entry of a target in the member list."""
        return member_of(target, self.members, id_=self._ids.get(target.name, 0))

    def lists(self, status: MemberStatus) -> bool | None:
        """Whether the member list has this target; None where that is unknown.

        A target that is down is looked for by its name and addresses, which may be others than the
        list has; while the list has a started member without a target, it may be that one.
        """
        if self.member_of(status.target) is not None:
            return True
        if status.up:
            # Who was removed knows an old list, so that only the list of the others counts.
            return None if len(self.up) < 2 else False
        found = {self._ids.get(each.target.name, 0) for each in self.statuses}
        strangers = [each for each in self.members if each.name and each.id not in found]
        return None if strangers else False

    def ghosts(self) -> dict[str, Value]:
        """The members that were added and never started, which count for the quorum if they vote.

        A member without a name has never started.
        """
        if not self.members:
            return {}
        found = [
            f"{hex_of(member.id)} ({'learner' if member.learner else 'voter'},"
            f" {', '.join(member.peer_urls) or 'no address'})"
            for member in self.members
            if not member.name
        ]
        return {"ghosts": "; ".join(found), "has_ghosts": bool(found)}

    def alarms_of(self, member: MemberStatus) -> str:
        """The alarms that this member raised, by the word of everybody, with commas."""
        known = set(self._ids.values())
        kinds = {
            kind
            for status in self.up
            for id_, kind in alarms_from(status.status.body.get("errors"))
            if id_ == member.id or (status is member and id_ not in known)
        }
        return ",".join(sorted(kinds))

    def lost_peers(self, deaf: Mapping[str, frozenset[str]]) -> dict[str, str]:
        """Which members that are up each one does not reach or hear, with commas.

        `deaf` says from whom nothing has come, which only means something between the leader and
        who should follow it. A link has two ends: it is reported at the end that has lost every
        peer, where only one of them has.
        """
        lost: dict[str, set[str]] = {}
        isolated: set[str] = set()
        for status in self.up:
            if not status.metrics.peers and len(self.members) > 1:
                continue  # it does not say
            peers = [peer for peer in self.up if peer is not status]
            spoken = [peer for peer in peers if self.leader in (status, peer)]
            silent = {
                peer.target.name
                for peer in spoken
                if hex_of(peer.id) in deaf.get(status.target.name, frozenset())
            }
            gone = {
                peer.target.name
                for peer in peers
                if status.metrics.peers.get(hex_of(peer.id)) is False
            }
            lost[status.target.name] = gone | silent
            if (spoken and len(silent) == len(spoken)) or (peers and len(gone) == len(peers)):
                isolated.add(status.target.name)
        return {
            name: ",".join(sorted(names if name in isolated else names - isolated))
            for name, names in lost.items()
        }

    def hears(self, silent: MemberStatus, deaf: frozenset[str]) -> bool | None:
        """Whether the leader hears a member that does not answer us; None where that is unknown.

        `deaf` says from whom nothing has come to the leader.
        """
        id_ = hex_of(self._ids.get(silent.target.name, 0))
        if self.leader is None or id_ not in self.leader.metrics.received:
            return None
        return id_ not in deaf and self.leader.metrics.peers.get(id_) is not False

    def hash_revision(self) -> int:
        """A revision that every member in sync has and that is not compacted; 0: the last.

        No member gives the hash at the very revision of a compaction, unless it is the last one.
        """
        following = [status for status in self.up if status.leader]
        floor = max(
            (status.metrics.numbers.get("compact_revision", 0) for status in following), default=0
        )
        lowest = min(
            (status.revision for status in following if status.revision >= floor), default=0
        )
        return lowest if lowest > floor else 0


def agreement(hashes: Mapping[str, Hash]) -> dict[str, bool]:
    """For every member whether it holds what most do; nothing where there is no other member to
    compare.

    Where no value has a majority, none is known to be right, and all members disagree.
    """
    views = Counter((hashed.revision, hashed.compacted) for hashed in hashes.values())
    if not views:
        return {}
    view, compared = views.most_common(1)[0]
    if compared < 2:
        return {}
    alike = {
        name: hashed
        for name, hashed in hashes.items()
        if (hashed.revision, hashed.compacted) == view
    }
    value, count = Counter(hashed.value for hashed in alike.values()).most_common(1)[0]
    majority = count * 2 > len(alike)
    return {name: majority and hashed.value == value for name, hashed in alike.items()}


def status_readings(status: MemberStatus, cluster: Cluster) -> dict[str, Value]:
    """What a member that is up says of itself, as readings."""
    leader = cluster.name_of(status.leader) if status.leader else ""
    version = status.status.body.get("version")
    return {
        "member_id": hex_of(status.id),
        "version": version if isinstance(version, str) else "",
        "learner": status.status.body.get("isLearner") is True,
        "is_leader": status.leads,
        "has_leader": bool(status.leader),
        "leader": leader,
        "raft_term": status.number("raftTerm"),
        "raft_index": status.number("raftIndex"),
        "applied_index": status.number("raftAppliedIndex"),
        "revision": status.revision,
        "alarms": cluster.alarms_of(status),
        "successor": cluster.successor.target.name if cluster.successor is not None else None,
        "db_bytes": status.number("dbSize"),
        "db_in_use_bytes": status.number("dbSizeInUse"),
        **{name: status.metrics.numbers[name] for name in sorted(status.metrics.numbers)},
    }


def summarize(
    name: str,
    members: Sequence[Seen],
    *,
    refused: str | None,
    known: Mapping[str, Value],
) -> Seen:
    """The target for the cluster as a whole, with what is `known` besides of it.

    `refused` says why access is refused: "" where a member accepts us, None where no member could
    be asked.
    """
    up = [status for status in members if status.readings.get("reachable")]
    readings: dict[str, Value] = {"kind": CLUSTER, "members_up": len(up), **known}
    if members:
        readings |= {key: members[0].readings.get(key) for key in _SHARED}
    if refused is not None:
        readings |= {"let_in": not refused, "refusal": refused}
    if not up:
        return Seen(name, readings)
    alarms = {status.target: status.readings.get("alarms") for status in up}
    raised = {target: text for target, text in alarms.items() if isinstance(text, str)}
    if raised:
        kinds = {kind for text in raised.values() for kind in text.split(",") if kind}
        readings["alarms"] = ",".join(sorted(kinds))
        readings["alarms_by"] = ", ".join(sorted(target for target, text in raised.items() if text))
    ratios = [number_of(status, "quota_ratio") for status in up]
    fullest, _ = max(
        zip(up, ratios, strict=True), key=lambda pair: -1.0 if pair[1] is None else pair[1]
    )
    readings |= {key: fullest.readings[key] for key in _SPACE if key in fullest.readings}
    readings["fullest"] = fullest.target
    leader = next((status for status in up if status.readings.get("is_leader")), None)
    readings["leader"] = None if leader is None else leader.target
    if leader is not None:
        readings["successor"] = leader.readings.get("successor")
    return Seen(name, readings)


class Hearing:
    """Counts of bytes over time.

    A connection that has fallen silent stands for a long time, and etcd counts it as active.
    """

    def __init__(self) -> None:
        self._samples: dict[str, deque[tuple[float, int, Mapping[str, int]]]] = {}

    def has_history(self, status: MemberStatus, at: float) -> bool:
        """Whether it was counted a while ago as well, so that silence can be recognized."""
        samples = self._samples.get(status.target.name, ())
        return any(then <= at - WINDOW_S and id_ == status.id for then, id_, _ in samples)

    def deaf_to(self, status: MemberStatus, at: float) -> frozenset[str]:
        """The peers, by their id in hex, from which nothing has come for a while."""
        samples = self._samples.setdefault(status.target.name, deque(maxlen=SAMPLES_MAX))
        now = dict(status.metrics.received)
        old = [
            received
            for then, id_, received in samples
            if then <= at - WINDOW_S and id_ == status.id
        ]
        samples.append((at, status.id, now))
        # A member without an earlier count cannot be compared; a member that counts from 0 again is
        # heard.
        before = old[-1] if old else {}
        return frozenset(peer for peer, count in now.items() if before.get(peer) == count)
