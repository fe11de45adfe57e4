"""The first half of a look: what one member says of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from operator_protocols.domain.target import Target
from operator_sre.subjects.etcd.client import Answer, Etcd, number
from operator_sre.subjects.etcd.members import Member, members_from
from operator_sre.subjects.etcd.metrics import Metrics, metrics_from

__all__ = ["Glimpse", "glimpse_of"]


@dataclass(frozen=True, slots=True)
class Glimpse:
    """Status, metrics and member list of one member; `status` alone says whether it is up."""

    target: Target
    status: Answer
    metrics: Metrics = field(default_factory=Metrics)
    members: tuple[Member, ...] = ()

    @property
    def up(self) -> bool:
        """It answered, and what it said is the status of a member."""
        return self.status.ok and bool(self.id)

    @property
    def problem(self) -> str:
        """Why what it said is not to be used; "" for one that is up or does not answer at all.

        Where somebody answers who does not speak as etcd does, the member itself does not.
        """
        if self.up or not self.status.reached or self.status.strange:
            return ""
        return self.status.error or "it does not say which member it is"

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
        """The id of whom it follows; 0 for nobody."""
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


async def glimpse_of(etcd: Etcd, target: Target) -> Glimpse:
    """Ask one member about itself; its own memory answers all of it, without the others."""
    status, metrics, listed = await asyncio.gather(
        etcd.ask(target, "maintenance/status"),
        etcd.metrics(target),
        etcd.ask(target, "cluster/member/list"),
    )
    return Glimpse(
        target,
        status,
        metrics_from(metrics.text) if metrics.ok else Metrics(),
        members_from(listed.body) if listed.ok else (),
    )
