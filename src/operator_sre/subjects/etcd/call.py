"""One call of a tool: the members that are there, and what may be asked of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from operator_protocols.domain.category import FailureCategory
from operator_protocols.kit.tool import Call, RefusedCall
from operator_protocols.ports import SubjectSettings
from operator_sre.subjects.etcd.client import Answer, Etcd
from operator_sre.subjects.etcd.cluster import Cluster
from operator_sre.subjects.etcd.invariants import Options
from operator_sre.subjects.etcd.members import KIND, MemberStatus, ask_member, quorum_of
from operator_sre.subjects.etcd.probes import read_from

__all__ = ["NO_QUORUM", "ClusterCall", "observe_cluster"]

POLL_S = 0.1
SETTLE_S = 15.0
NO_QUORUM = (
    "The cluster has no quorum, so Operator changes nothing: the lost members may hold the only"
    " copy of the last writes. Bring them back, or escalate."
)


@dataclass(frozen=True, slots=True)
class ClusterCall(Call):
    """A call under way: the cluster as it was when it began, and how to speak to it."""

    settings: SubjectSettings
    options: Options
    etcd: Etcd
    cluster: Cluster

    @property
    def speaker(self) -> MemberStatus:
        """Whom to ask for the whole cluster."""
        speaker = self.cluster.speaker
        if speaker is None:
            raise RefusedCall(NO_QUORUM, FailureCategory.RESOURCE)
        return speaker

    async def need_quorum(self, *, without: str = "", why: str = "") -> None:
        """Refuse when the cluster cannot decide, or no member answers whether it can.

        Where a member is `without` for a while, also when the other voters are no majority.
        """
        reads = {
            member.target.name: await read_from(self.etcd, member.target)
            for member in self.cluster.up
            if member.leader
        }
        if self.cluster.quorum(reads) is not True:
            raise RefusedCall(NO_QUORUM, FailureCategory.RESOURCE)
        others = [member for member in self.cluster.followers if member.target.name != without]
        if without and len(others) < quorum_of(self.cluster.voters):
            raise RefusedCall(why, FailureCategory.RESOURCE)

    def member(self, name: str) -> MemberStatus:
        """What was seen of one member."""
        for member in self.cluster.statuses:
            if member.target.name == name:
                return member
        known = ", ".join(member.target.name for member in self.cluster.statuses)
        raise RefusedCall(
            f"There is no member {name!r}; there are: {known}.", FailureCategory.NOT_FOUND
        )

    def up(self, name: str) -> MemberStatus:
        """One member that answers."""
        member = self.member(name)
        if not member.up:
            why = member.problem or member.status.error
            raise RefusedCall(f"{name} does not answer: {why}.", FailureCategory.NETWORK)
        return member

    async def ask(self, member: MemberStatus, path: str, body: Mapping[str, object]) -> Answer:
        """Ask one member to do something; RefusedCall with its own words when it does not."""
        answer = await self.etcd.ask(member.target, path, body, timeout_s=self.job.timeout_s)
        if not answer.ok:
            category = FailureCategory.RUNTIME if answer.reached else FailureCategory.NETWORK
            raise RefusedCall(
                f"{member.target.name} rejected the request: {answer.error}.", category
            )
        return answer

    async def ask_settled(
        self, member: MemberStatus, path: str, body: Mapping[str, object]
    ) -> Answer:
        """The same, again and again while it says that members have not been connected for long.

        A cluster changes its members only when all that answer have done so for some seconds.
        """
        deadline = asyncio.get_running_loop().time() + SETTLE_S
        while True:
            try:
                return await self.ask(member, path, body)
            except RefusedCall as refused:
                late = asyncio.get_running_loop().time() >= deadline
                if late or "unhealthy cluster" not in str(refused):
                    raise
            await asyncio.sleep(POLL_S)

    async def observe(self) -> Cluster:
        """The cluster as it is now."""
        return await observe_cluster(self.etcd, self.settings)

    async def until(self, holds: Callable[[Cluster], Awaitable[bool]]) -> Cluster:
        """Observe until it holds; the time of the whole call is its limit."""
        while True:
            cluster = await self.observe()
            if await holds(cluster):
                return cluster
            await asyncio.sleep(POLL_S)


async def observe_cluster(etcd: Etcd, settings: SubjectSettings) -> Cluster:
    """What all members say of themselves."""
    members = [target for target in settings.targets() if target.kind == KIND]
    return Cluster(await asyncio.gather(*(ask_member(etcd, target) for target in members)))
