"""An independent observer of a rig's cluster: plain questions to its brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from operator_protocols.domain.target import Access, Target
from operator_protocols.errors import RigError
from operator_protocols.ports import Scene, SubjectSettings
from operator_sre.clock import SystemClock
from operator_sre.subjects.kafka.client import Client, client_settings, servers_of
from operator_sre.subjects.kafka.groups import GroupView, read_groups
from operator_sre.subjects.kafka.invariants import Options
from operator_sre.subjects.kafka.kinds import BROKER
from operator_sre.subjects.kafka.protocol import Request
from operator_sre.subjects.kafka.state import Cluster
from operator_sre.subjects.kafka.subject import observe_cluster
from operator_sre.subjects.kafka.wire import Line

__all__ = ["ClusterScene"]

T = TypeVar("T")
ANSWER_S_MAX = 20.0


class ClusterScene:
    """Asks the brokers of one scene, with connections of its own."""

    def __init__(self, scene: Scene) -> None:
        self.brokers = scene.of_kind(BROKER)
        self._settings = SubjectSettings(
            "kafka", lambda: scene.targets, SystemClock(), ANSWER_S_MAX, {}, life=scene.rig
        )

    async def observe(self) -> Cluster:
        """The cluster as it is now."""
        return await observe_cluster(self._settings, Options(), self.brokers, {}, full=True)

    async def node(self, target: Target) -> int:
        """The id of a broker; RigError where no broker reports it."""
        found = (await self.observe()).nodes.get(target.name)
        if found is None:
            raise RigError(f"The id of {target.name} is not known.")
        return found

    async def ask(self, request: Request[T]) -> T:
        """Ask the best informed broker; RigError where it does not answer."""
        speaker = (await self.observe()).speaker()
        if speaker is None:
            raise RigError("No broker answers.")
        target = speaker.target
        async with Line(self._settings, target, mechanism="PLAIN", within_s=ANSWER_S_MAX) as line:
            answer = await line.ask(request)
        if answer.value is None:
            raise RigError(f"{target.name} did not answer: {answer.error}.")
        return answer.value

    async def group(self, name: str) -> GroupView:
        """A consumer group as it is now."""
        cluster = await self.observe()
        views = await read_groups(
            self._settings, cluster, [name], mechanism="PLAIN", within_s=ANSWER_S_MAX
        )
        return views[name]

    async def change(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        """Change settings of a topic or a broker."""
        await asyncio.to_thread(self.client().change, kind, name, changes)

    def client(self) -> Client:
        """A client of librdkafka."""
        servers = servers_of((each.host, each.port or 0) for each in self.brokers)
        settings = client_settings(
            servers, Access(), mechanism="PLAIN", password="", timeout_s=ANSWER_S_MAX
        )
        return Client(settings, timeout_s=ANSWER_S_MAX)

    def servers(self) -> str:
        """Where a client of the shop finds the brokers."""
        return servers_of((each.host, each.port or 0) for each in self.brokers)
