"""A gate on a real store, with a policy, targets and people that the test can change."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from operator_protocols.domain.action import Action, Result
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.permit import Approval, ApprovalState, Permit
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Mode, Risk
from operator_sre.gate import Gate, Policy, Standing, Terms
from operator_sre.store import Store, open_store
from tests.contract.clock import HeldClock
from tests.contract.samples import ticket as ticket_of

__all__ = ["ACTION", "LOOK", "POLL_S", "TICKET", "Office", "crash"]

RESTART = ToolSpec("restart_node", "It restarts.", (), Risk.MEDIUM, changes=True)
LOOK_SPEC = ToolSpec("look_at_node", "It looks.", (), Risk.LOW, changes=False)
DESTROY = ToolSpec("destroy_node", "It destroys.", (), Risk.CRITICAL, changes=True)
ACTION = Action("restart_node", {"target": "node-1"}, target="node-1", reasoning="it is dead")
LOOK = Action("look_at_node", {}, target="node-1")
TICKET = ticket_of()
POLL_S = 0.2


class Office:
    """One home; `gate` is what every process on it would have."""

    def __init__(self, path: Path) -> None:
        self.clock = HeldClock()
        self.policy = Policy(mode=Mode.APPROVE, tools=(RESTART, DESTROY, LOOK_SPEC))
        self.terms = Terms(approval_s=60.0)
        self.identities = {"node-1": "node-1: pid 7 started 1.5"}
        self.links: Mapping[str, str] = {}
        self._ids = (f"{number:012x}".ljust(32, "f") for number in itertools.count(1))
        self.store: Store = open_store(path, clock=self.clock)
        self.standing = Standing(
            self.store.standing, resolve=lambda path: self.links.get(path, path)
        )
        self.changed = Gate(
            policy=lambda: self.policy,
            journal=self.store.journal,
            approvals=self.store.approvals,
            clock=self.clock,
            new_id=lambda: next(self._ids),
            identify=lambda name: self.identities.get(name, ""),
            environment="sha256:environment",
            standing=self.standing,
        )

    def gate(self) -> Gate:
        """A gate as another process would make it."""
        return replace(self.changed, terms=self.terms)

    async def ask(
        self, action: Action = ACTION, ticket: Ticket = TICKET, requester: Actor | None = None
    ) -> Permit | Result:
        """Judge it and ask for a permit."""
        gate = self.gate()
        return await gate.permit(gate.judge(action), ticket, requester)

    async def asking(
        self, action: Action = ACTION, ticket: Ticket = TICKET, requester: Actor | None = None
    ) -> asyncio.Future[Permit | Result]:
        """A question that waits for its answer by now."""
        waiting = asyncio.ensure_future(self.ask(action, ticket, requester))
        asleep = asyncio.ensure_future(self.clock.asleep())
        await asyncio.wait([waiting, asleep], return_when=asyncio.FIRST_COMPLETED)
        assert asleep.done(), f"it was not asked: {waiting.result()}"
        return waiting

    def asked(self) -> Approval:
        """The one request that is pending."""
        (pending,) = self.store.approvals.find(states=[ApprovalState.PENDING])
        return pending

    async def answer(self, state: ApprovalState, reason: str = "", *, by: str = "ada") -> Approval:
        """What somebody says to it."""
        pending = self.asked()
        return await self.store.approvals.decide(
            pending.id, state, by=Actor(by, "user"), reason=reason, version=pending.version
        )

    async def approved(
        self, action: Action = ACTION, requester: Actor | None = None
    ) -> Permit | Result:
        """What comes of a yes."""
        waiting = await self.asking(action, requester=requester)
        await self.answer(ApprovalState.APPROVED)
        self.clock.advance(POLL_S)
        return await waiting

    def entries(self, *kinds: Kind) -> list[Entry]:
        """What is in the ledger, of these kinds or at all."""
        told = self.store.entries.after(0, limit=1000)
        return [entry for entry in told if not kinds or entry.kind in kinds]

    def kinds(self) -> list[Kind]:
        """What happened, in order."""
        return [entry.kind for entry in self.entries()]


async def crash(waiting: asyncio.Future[Permit | Result]) -> None:
    """The process that waits is gone."""
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
