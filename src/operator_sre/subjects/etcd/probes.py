"""The second half of a look: what members do when they are asked to read, write and compare."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

from operator_protocols.domain.observation import Value
from operator_protocols.domain.target import Target
from operator_sre.subjects.etcd.client import Answer, Etcd, encoded, number
from operator_sre.subjects.etcd.cluster import Cluster, Hash
from operator_sre.subjects.etcd.glimpse import Glimpse
from operator_sre.subjects.etcd.lease import LeaseClock

__all__ = ["PROBE_KEY", "Probed", "hashes_of", "probe", "read_from", "write_to"]

PROBE_KEY = "operator/probe"
HASH_BY_GATEWAY = (3, 6)  # older ones tell the hash at a revision to their peers only
_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})\.")


@dataclass(frozen=True, slots=True)
class Probed:
    """What came of it: reads and hashes by target; a write and the lease at the speaker."""

    reads: dict[str, Answer] = field(default_factory=dict)
    write: Answer | None = None
    lease: dict[str, Value] = field(default_factory=dict)
    hashes: dict[str, Hash] | None = None


async def probe(
    etcd: Etcd, cluster: Cluster, *, lease: LeaseClock | None, write: bool, hashes: bool
) -> Probed:
    """Everything at once. Who follows no leader is asked nothing: it could only let us wait."""
    asked = [one for one in cluster.up if one.leader]
    speaker = cluster.speaker
    reads, written, left, compared = await asyncio.gather(
        asyncio.gather(*(read_from(etcd, one.target) for one in asked)),
        _maybe_write(etcd, speaker if write else None),
        _maybe_lease(etcd, lease, speaker),
        hashes_of(etcd, cluster) if hashes else _nothing(),
    )
    names = [one.target.name for one in asked]
    return Probed(dict(zip(names, reads, strict=True)), written, left, compared)


async def read_from(etcd: Etcd, target: Target) -> Answer:
    """A linearizable read of one key: the member asks the leader, and that a majority."""
    return await etcd.ask(target, "kv/range", {"key": encoded(PROBE_KEY), "limit": "1"})


async def write_to(etcd: Etcd, target: Target) -> Answer:
    """A write that is agreed on, logged and applied by all, and changes nothing.

    Its condition never holds, so there is no key and no revision, however often it is done; a
    member refuses it for want of space as it refuses every other write.
    """
    return await etcd.ask(
        target,
        "kv/txn",
        {
            "compare": [
                {
                    "key": encoded(PROBE_KEY),
                    "target": "VERSION",
                    "result": "LESS",
                    "version": "0",
                }
            ],
            "success": [{"requestPut": {"key": encoded(PROBE_KEY), "value": encoded("x")}}],
        },
    )


async def hashes_of(etcd: Etcd, cluster: Cluster) -> dict[str, Hash]:
    """The hash of all keys at one revision, of everybody who tells it."""
    revision = cluster.hash_revision()
    asked = [one for one in cluster.up if one.revision >= revision]
    answers = await asyncio.gather(*(_hash(etcd, cluster, one, revision) for one in asked))
    return {
        one.target.name: Hash(
            number(answer.body, "hash"),
            revision or _revision(answer),
            number(answer.body, "compact_revision"),
        )
        for one, answer in zip(asked, answers, strict=True)
        if answer is not None and answer.ok and "hash" in answer.body
    }


def _revision(answer: Answer) -> int:
    header = answer.body.get("header")
    return number(header, "revision") if isinstance(header, dict) else 0


async def _hash(etcd: Etcd, cluster: Cluster, one: Glimpse, revision: int) -> Answer | None:
    version = _VERSION.match(str(one.status.body.get("version", "")))
    if version is not None and (int(version[1]), int(version[2])) >= HASH_BY_GATEWAY:
        return await etcd.ask(one.target, "maintenance/hashkv", {"revision": str(revision)})
    member = cluster.member_of(one.target)
    if member is None or not member.peer_urls:
        return None
    url = f"{member.peer_urls[0].rstrip('/')}/members/hashkv"
    return await etcd.peer(one.target, url, {"revision": revision})


async def _maybe_write(etcd: Etcd, speaker: Glimpse | None) -> Answer | None:
    return None if speaker is None else await write_to(etcd, speaker.target)


async def _maybe_lease(
    etcd: Etcd, lease: LeaseClock | None, speaker: Glimpse | None
) -> dict[str, Value]:
    if lease is None or speaker is None:
        return {}
    return await lease.look(etcd, speaker.target)


async def _nothing() -> None:
    return None
