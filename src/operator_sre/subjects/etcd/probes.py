"""The second half of an observation: how members answer requests to read, write and compare."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from uuid import uuid4

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_protocols.ports import Clock
from operator_sre.subjects.etcd.client import Answer, Etcd, number, to_base64
from operator_sre.subjects.etcd.cluster import Cluster, Hash
from operator_sre.subjects.etcd.members import MemberStatus

__all__ = [
    "PROBE_KEY",
    "CanaryWrite",
    "CanaryWrites",
    "LeaseClock",
    "Probed",
    "find_wrong_addresses",
    "hashes_of",
    "probe",
    "read_from",
    "write_to",
]

PROBE_KEY = "operator/probe"
HASH_BY_GATEWAY = (3, 6)  # older ones tell the hash at a revision to their peers only
# While one leader follows another, a lease has all the time that a number can hold.
HANDED_OVER_S_MIN = 10 * 365 * 86_400
PEER_S_MAX = 2.0
SETTLE_S = 2.0  # a lease that has run out is looked for and removed twice a second


@dataclass(frozen=True, slots=True)
class Probed:
    """What came of it: reads and hashes by target; a write and the lease at the speaker."""

    reads: dict[str, Answer] = field(default_factory=dict)
    write: Answer | None = None
    lease: dict[str, Value] = field(default_factory=dict)
    hashes: dict[str, Hash] | None = None


@dataclass(frozen=True, slots=True)
class _Lease:
    id: int
    ttl_s: int
    granted: float
    term: int


class LeaseClock:
    """Grants a lease that holds no key, and compares what is left of it with our own clock.

    A new one follows when the last has run out, so there is never more than one of it. A new leader
    restarts the time of a lease by design: its term starts a new lease.
    """

    def __init__(self, ttl_s: int, clock: Clock) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._lease: _Lease | None = None

    async def compare(self, etcd: Etcd, target: Target) -> dict[str, Value]:
        """What is left, and how far that is from what should be; nothing for a lease just granted.

        A lease that expired too early is reported until its proper end.
        """
        lease = self._lease
        if lease is None:
            return await self._grant(etcd, target)
        answer = await etcd.ask(target, "lease/timetolive", {"ID": str(lease.id)})
        if not answer.ok:
            return {"lease_problem": answer.error}
        if _header_number(answer, "raft_term") != lease.term:
            return await self._grant(etcd, target)
        expected_s = lease.ttl_s - (self._clock.monotonic() - lease.granted)
        left_s = number(answer.body, "TTL")
        if (left_s < 0 and expected_s < SETTLE_S) or left_s > HANDED_OVER_S_MIN:
            return await self._grant(etcd, target)
        error_s = max(0, left_s) - expected_s
        return {"lease_left_s": max(0, left_s), "lease_error_s": round(error_s, 1)}

    async def _grant(self, etcd: Etcd, target: Target) -> dict[str, Value]:
        self._lease = None
        answer = await etcd.ask(target, "lease/grant", {"TTL": str(self._ttl_s)})
        id_, ttl_s = number(answer.body, "ID"), number(answer.body, "TTL")
        if not answer.ok or not id_:
            return {"lease_problem": answer.error or "it gave no lease"}
        self._lease = _Lease(
            id_, ttl_s, self._clock.monotonic(), _header_number(answer, "raft_term")
        )
        return {"lease_left_s": ttl_s, "lease_error_s": 0.0}


async def probe(
    etcd: Etcd,
    cluster: Cluster,
    *,
    lease: LeaseClock | None,
    canary: str,
    value: str = "",
    write: bool,
    hashes: bool,
) -> Probed:
    """Everything at once. Who follows no leader is asked nothing: it could only let us wait.

    The key `canary` gets this value, and is read; without it, `write` sends a write that changes
    nothing.
    """
    following = [member for member in cluster.up if member.leader]
    speaker = cluster.speaker
    async with asyncio.TaskGroup() as group:
        reads = {
            member.target.name: group.create_task(read_from(etcd, member.target, canary))
            for member in following
        }
        written = left = compared = None
        if (canary or write) and speaker is not None:
            written = group.create_task(write_to(etcd, speaker.target, canary, value))
        if lease is not None and speaker is not None:
            left = group.create_task(lease.compare(etcd, speaker.target))
        if hashes:
            compared = group.create_task(hashes_of(etcd, cluster))
    return Probed(
        {name: task.result() for name, task in reads.items()},
        None if written is None else written.result(),
        {} if left is None else left.result(),
        None if compared is None else compared.result(),
    )


async def read_from(etcd: Etcd, target: Target, key: str = "") -> Answer:
    """A linearizable read of one key: the member asks the leader, and that a majority."""
    return await etcd.ask(target, "kv/range", {"key": to_base64(key or PROBE_KEY), "limit": "1"})


async def write_to(etcd: Etcd, target: Target, key: str = "", value: str = "") -> Answer:
    """Put the key of the canary, or a write that is agreed on, logged and applied by all, and
    changes nothing.

    The condition of the latter never holds, so there is no key and no revision, however often it is
    done; a member refuses it for want of space as it refuses every other write.
    """
    if key:
        return await etcd.ask(target, "kv/put", {"key": to_base64(key), "value": to_base64(value)})
    never = {"target": "VERSION", "result": "LESS", "version": "0"}
    probe_key = to_base64(PROBE_KEY)
    put = {"requestPut": {"key": probe_key, "value": to_base64("x")}}
    return await etcd.ask(
        target, "kv/txn", {"compare": [{"key": probe_key, **never}], "success": [put]}
    )


@dataclass(frozen=True, slots=True)
class CanaryWrite:
    """One write of the canary: its value, which no other write has, and the last one before it.

    `acknowledged` is the revision that every read which begins now must show, `by` its value.
    """

    value: str
    acknowledged: int = 0
    by: str = ""


class CanaryWrites:
    """The last acknowledged write of the canary, which every read that begins later must show."""

    def __init__(self) -> None:
        self._observer = uuid4().hex[:12]
        self._count = self._acknowledged = 0
        self._value = ""

    def begin(self) -> CanaryWrite:
        """The next write. Two checks at once must not count what the other one writes meanwhile."""
        self._count += 1
        value = f"{self._observer}/{self._count}"
        return CanaryWrite(value, self._acknowledged, self._value)

    def compare(self, mine: CanaryWrite, probed: Probed) -> dict[str, str]:
        """By member why the last acknowledged write is not there; "" where it is.

        Several observers may write the same key, so any later revision of it will do. After a loss
        the next write counts, so that a loss is reported once.
        """
        found: dict[str, str] = {}
        for name, answer in probed.reads.items() if mine.acknowledged else ():
            if not answer.ok:
                continue
            pairs = answer.body.get("kvs")
            pair = pairs[0] if isinstance(pairs, list) and pairs else {}
            revision = number(pair, "mod_revision") if isinstance(pair, dict) else 0
            shown = f"the canary has revision {revision}" if revision else "the canary is gone"
            lost = f"{shown}, acknowledged was {mine.acknowledged}"
            if revision and pair.get("value") == to_base64(mine.by):
                # The write itself is there: a member that counts fewer has lost others before it.
                lost = (
                    f"the last acknowledged write has revision {revision} here and was acknowledged"
                    f" as {mine.acknowledged}, so earlier writes are missing here"
                )
            found[name] = lost if revision < mine.acknowledged else ""
        if probed.write is not None and probed.write.ok:
            revision = _header_number(probed.write, "revision")
            if revision > self._acknowledged or any(found.values()):
                self._acknowledged, self._value = revision, mine.value
        return found


async def hashes_of(etcd: Etcd, cluster: Cluster) -> dict[str, Hash]:
    """The hash of all keys at one revision, of everybody who tells it."""
    revision = cluster.hash_revision()

    async def ask(status: MemberStatus) -> Answer | None:
        version = re.match(r"(\d{1,4})\.(\d{1,4})\.", str(status.status.body.get("version", "")))
        if version is not None and (int(version[1]), int(version[2])) >= HASH_BY_GATEWAY:
            return await etcd.ask(status.target, "maintenance/hashkv", {"revision": str(revision)})
        member = cluster.member_of(status.target)
        if member is None or not member.peer_urls:
            return None
        url = f"{member.peer_urls[0].rstrip('/')}/members/hashkv"
        return await etcd.peer(status.target, url, {"revision": revision})

    current = [member for member in cluster.up if member.revision >= revision]
    answers = await asyncio.gather(*map(ask, current))
    return {
        member.target.name: Hash(
            number(answer.body, "hash"),
            revision or _header_number(answer, "revision"),
            number(answer.body, "compact_revision"),
        )
        for member, answer in zip(current, answers, strict=True)
        if answer is not None and answer.ok and "hash" in answer.body
    }


async def find_wrong_addresses(etcd: Etcd, cluster: Cluster) -> dict[str, str]:
    """Of each running member, the listed peer addresses where nothing answers; "" where one does.

    A member that is silent there says nothing, and nothing is found unless another member answers
    at its own: peer addresses may be out of reach of this machine.
    """

    async def ask(status: MemberStatus) -> str | None:
        member = cluster.member_of(status.target)
        if member is None or not member.peer_urls:
            return None
        within_s = min(PEER_S_MAX, etcd.timeout_s)
        addresses = [f"{url.rstrip('/')}/version" for url in member.peer_urls]
        began = asyncio.get_running_loop().time()
        answers = await asyncio.gather(
            *(etcd.peer(status.target, url, {}, timeout_s=within_s) for url in addresses)
        )
        if any(answer.reached for answer in answers):
            return ""
        # Refused at once, or not resolved; a slow or cut link is another matter.
        at_once = asyncio.get_running_loop().time() - began < within_s / 2
        return ", ".join(member.peer_urls) if at_once else None

    found = await asyncio.gather(*map(ask, cluster.up))
    by_name = zip((status.target.name for status in cluster.up), found, strict=True)
    return {name: wrong for name, wrong in by_name if wrong is not None} if "" in found else {}


def _header_number(answer: Answer, name: str) -> int:
    header = answer.body.get("header")
    return number(header, name) if isinstance(header, dict) else 0
