"""Looks as a monitor would have had them, and a rig of etcd that is looked at."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from operator_lab import faults as lab
from operator_lab.rig import Rig
from operator_protocols.domain.action import Argument, Result
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Finding, Observation, Seen, Value, Violation
from operator_protocols.domain.target import Target
from operator_protocols.ports import Fault, Job, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.etcd import plugin
from operator_sre.subjects.etcd.client import Answer, Etcd, to_base64
from operator_sre.subjects.etcd.cluster import summarize
from operator_sre.subjects.etcd.invariants import invariants_of, options_from
from operator_sre.subjects.etcd.rig import CANARY
from operator_sre.subjects.etcd.subject import EtcdCluster
from operator_sre.subjects.etcd.tools import etcd_tools
from tests.contract.clock import NOON

__all__ = ["UP", "Watch", "fault_named", "findings", "look_of", "members_in"]

WITHIN_S = 45.0
TIMEOUT_S = 4.0
POLL_S = 0.2

# A follower that has nothing wrong.
UP: dict[str, Value] = {
    "kind": "member",
    "reachable": True,
    "quorum": True,
    "voters": 3,
    "voters_up": 3,
    "quorum_lost_s": 0.0,
    "healthy_voters": 3,
    "has_leader": True,
    "is_leader": False,
    "raft_term": 7,
    "lag": 0,
    "behind_s": 0.0,
    "quota_bytes": 100 << 20,
    "db_bytes": 10 << 20,
    "quota_ratio": 0.1,
    "in_use_ratio": 0.1,
    "history_ratio": 0.5,
    "revisions_kept": 500,
    "alarms": "",
    "read_ms": 3.0,
    "read_error": "",
    "peers_lost": "",
    "listed_elsewhere": False,
    "agrees": True,
    "settings_differ": False,
    "settings_differing": "",
    "disk_ratio": 0.4,
    "disk_free_bytes": 1 << 20,
    "log_bytes": 1_000,
    "listed": True,
    "write_lost": "",
    "client_errors_per_s": 0.0,
}
# The same of a cluster.
KNOWN: dict[str, Value] = {"ghosts": "", "has_ghosts": False}


def look_of(refused: str | None = "", /, **members: Mapping[str, Value] | str) -> Observation:
    """A look at members by name, with their cluster behind them.

    A text is the problem why one could not be looked at; `refused` why nobody is let in.
    """
    seen = [
        Seen(name, problem=readings) if isinstance(readings, str) else Seen(name, readings)
        for name, readings in members.items()
    ]
    known = KNOWN if any(one.readings for one in seen) else {}
    whole = summarize("cluster", seen, refused=refused, known=known)
    return Observation("shop", NOON, (*seen, whole))


def members_in(look: Observation) -> tuple[Seen, ...]:
    """What was seen of the members, without the cluster that they are together."""
    return tuple(one for one in look.seen if one.readings.get("kind") == "member")


def findings(look: Observation, **options: Any) -> dict[tuple[str, str], Finding]:
    """What every invariant says of it, by invariant and target."""
    return {
        (one.invariant, one.target): one
        for invariant in invariants_of(options_from({"write_probe": True, **options}))
        for one in invariant.check(look)
    }


def fault_named(name: str) -> Fault:
    """One of the faults of the plug-in."""
    return next(fault for fault in plugin.faults if fault.name == name)


class Watch:
    """A rig with somebody who looks at it, breaks it, and uses its tools."""

    def __init__(self, rig: Rig, **options: Any) -> None:
        self.rig = rig
        self.settings = SubjectSettings(
            "etcd", rig.targets, SystemClock(), TIMEOUT_S, {"canary": CANARY, **options}, life=rig
        )
        self.subject = EtcdCluster(self.settings)

    def target(self, name: str) -> Target:
        """One of its members as it is now."""
        return next(target for target in self.rig.targets() if target.name == name)

    async def look(self) -> tuple[Observation, dict[tuple[str, str], Finding]]:
        """One look, and what every invariant says of it."""
        seen = await self.subject.observe()
        found = [one for each in self.subject.invariants for one in each.check(seen)]
        return seen, {(one.invariant, one.target): one for one in found}

    def violations(self, look: Observation) -> list[Violation]:
        """What is broken in a look, as what tickets are made of."""
        return [
            Violation("etcd", one.invariant, one.target, each.severity, one.detail, look.at)
            for each in self.subject.invariants
            for one in each.check(look)
            if one.health is Health.BROKEN
        ]

    async def until(
        self, holds: Callable[[Observation, dict[tuple[str, str], Finding]], object]
    ) -> Observation:
        """Look until it holds; fails with what was unwell last."""
        ends = time.monotonic() + WITHIN_S
        while True:
            seen, found = await self.look()
            if holds(seen, found):
                return seen
            unwell = {key: one.detail for key, one in found.items() if _bad(one)}
            assert time.monotonic() < ends, f"not within {WITHIN_S} s: {unwell}"
            await asyncio.sleep(POLL_S)

    async def healthy(self) -> Observation:
        """Everything is well, and everything was seen."""
        return await self.until(lambda _, found: not any(_bad(one) for one in found.values()))

    async def broken(self, invariant: str, target: str) -> Observation:
        """One invariant is broken at one member."""
        return await self.until(lambda _, found: found[invariant, target].health is Health.BROKEN)

    async def leader(self) -> str:
        """Who leads."""
        seen = await self.until(lambda seen, _: any(_leads(one) for one in seen.seen))
        return next(one.target for one in seen.seen if _leads(one))

    async def follower(self) -> str:
        """Somebody who does not lead."""
        leader = await self.leader()
        return next(one.name for one in self.rig.targets() if one.name != leader)

    async def use(self, tool: str, **arguments: Argument) -> Result:
        """Call a tool."""
        found = next(one for one in etcd_tools(self.settings) if one.spec.name == tool)
        return await found.call(arguments, Job(timeout_s=120.0))

    async def ask(self, target: str, path: str, **body: object) -> Answer:
        """Ask one member."""
        etcd = Etcd(self.settings)
        return await etcd.ask(self.target(target), path, body)

    async def value(self, target: str, key: str) -> object:
        """What one member itself holds under a key."""
        said = await self.ask(target, "kv/range", key=to_base64(key), serializable=True)
        return next((one["value"] for one in said.body.get("kvs", [])), None)

    @asynccontextmanager
    async def breaking(self, name: str, target: str) -> AsyncIterator[Fault]:
        """A fault at a member, healed afterwards, and everything well after that."""
        fault = fault_named(name)
        await lab.inject(self.rig, fault, target=target, rng=random.Random(0))
        try:
            yield fault
        finally:
            await lab.heal(self.rig, fault)
            await self.healthy()


def _bad(one: Finding) -> bool:
    return one.health is not Health.HEALTHY


def _leads(one: Seen) -> bool:
    return one.readings.get("is_leader") is True
