"""An independent observer of a rig's cluster: plain questions to each member."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from operator_protocols.domain.target import Target
from operator_protocols.errors import RigError
from operator_protocols.ports import Scene, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.etcd.client import Answer, Etcd, number, to_base64
from operator_sre.subjects.etcd.members import KIND, member_of, members_from

__all__ = ["ClusterScene", "settings_of"]

ANSWER_S_MAX = 5.0
WRITERS = 8
KEYS = 6
WRITES_MAX = 8_000
QUOTA = "etcd_server_quota_backend_bytes "


def settings_of(scene: Scene) -> SubjectSettings:
    """How to speak to the members of a scene, and to start and end them."""
    return SubjectSettings(
        "etcd", lambda: scene.targets, SystemClock(), ANSWER_S_MAX, {}, life=scene.rig
    )


class ClusterScene:
    """Asks the members of one scene, with connections of its own."""

    def __init__(self, scene: Scene) -> None:
        self._etcd = Etcd(settings_of(scene))
        self.members = scene.of_kind(KIND)

    async def status(self, target: Target) -> Mapping[str, Any]:
        """What it says of itself; empty when it does not answer."""
        answer = await self._etcd.ask(target, "maintenance/status")
        return answer.body if answer.ok else {}

    async def id_of(self, target: Target) -> int:
        """Its id; 0 when it does not answer."""
        header = (await self.status(target)).get("header", {})
        return number(header, "member_id")

    async def leader(self) -> Target | None:
        """Who says that it leads."""
        for target in self.members:
            status = await self.status(target)
            id_ = number(status.get("header", {}), "member_id")
            if id_ and id_ == number(status, "leader"):
                return target
        return None

    async def lead(self, heir: Target) -> None:
        """Let this one lead; nothing happens when it does."""
        leader = await self.leader()
        if leader is None:
            raise RigError("The cluster has no leader, so leadership cannot be transferred.")
        if leader.name == heir.name:
            return
        await self.do(leader, "maintenance/transfer-leadership", targetID=await self.id_of(heir))

    async def do(self, target: Target, path: str, **body: object) -> Mapping[str, Any]:
        """Run the command, or raise RigError with its output."""
        answer = await self._ask(target, path, body)
        if not answer.ok:
            raise RigError(f"{target.name} did not do {path!r}: {answer.error}.")
        return answer.body

    async def quota(self, target: Target) -> int:
        """The quota that it runs with; 0 when it does not say."""
        text = (await self._etcd.metrics(target)).text
        lines = [line for line in text.splitlines() if line.startswith(QUOTA)]
        return int(float(lines[0].split()[1])) if lines else 0

    async def compact(self, target: Target) -> None:
        """Forget all history that there is."""
        header = (await self.status(target)).get("header", {})
        body = {"revision": number(header, "revision"), "physical": True}
        answer = await self._ask(target, "kv/compaction", body)
        if not answer.ok and "compacted" not in answer.error:
            raise RigError(f"{target.name} does not compact: {answer.error}.")

    async def _ask(self, target: Target, path: str, body: Mapping[str, object]) -> Answer:
        fields = {name: str(value) if type(value) is int else value for name, value in body.items()}
        return await self._etcd.ask(target, path, fields, timeout_s=ANSWER_S_MAX * 4)

    async def put(self, target: Target, key: str, value: bytes) -> str:
        """Write one key; what it says against it, or ""."""
        body = {"key": to_base64(key), "value": to_base64(value)}
        return (await self._etcd.ask(target, "kv/put", body)).error

    async def write_until(self, enough: Callable[[], Awaitable[bool]], size_bytes: int) -> None:
        """Write the same few keys again and again; RigError when that is never enough."""

        async def write_some(turn: int) -> None:
            target = self.members[turn % len(self.members)]
            for key in range(KEYS):
                await self.put(target, f"shop/stock/{key}", secrets.token_bytes(size_bytes))

        for _ in range(0, WRITES_MAX, WRITERS * KEYS):
            if await enough():
                return
            await asyncio.gather(*map(write_some, range(WRITERS)))
        raise RigError(f"{WRITES_MAX} writes were not enough.")

    async def find_silent(self) -> str:
        """The first member that does not answer a linearizable read; "" when all do."""
        for target in self.members:
            answer = await self._etcd.ask(target, "kv/range", {"key": to_base64("shop")})
            if not answer.ok:
                return f"{target.name} does not answer a read: {answer.error}"
        return ""

    async def alarms(self) -> list[str]:
        """All alarms, agreed on by the cluster."""
        answer = await self._etcd.ask(self.members[0], "maintenance/alarm", {"action": "GET"})
        if not answer.ok:
            return [answer.error]
        return [str(alarm.get("alarm")) for alarm in answer.body.get("alarms", [])]

    async def quota_ratio(self, size: str) -> float:
        """How much of the least quota the largest `dbSize` or `dbSizeInUse` takes."""
        quota = min([await self.quota(target) for target in self.members]) or 1
        found = [await self.status(target) for target in self.members]
        return max(number(status, size) for status in found) / quota

    async def hashes(self) -> dict[str, object]:
        """The hash of every member's keys at one revision, by peers' own way of asking."""
        found = {target.name: await self.status(target) for target in self.members}
        revision = min(number(status.get("header", {}), "revision") for status in found.values())
        listed = members_from((await self._etcd.ask(self.members[0], "cluster/member/list")).body)
        hashes: dict[str, object] = {}
        for target in self.members:
            member = member_of(target, listed, id_=await self.id_of(target))
            url = member.peer_urls[0] if member is not None else "http://127.0.0.1:1"
            answer = await self._etcd.peer(target, f"{url}/members/hashkv", {"revision": revision})
            hashes[target.name] = answer.body.get("hash", answer.error)
        return hashes
