"""Commands as a gate and an executor leave them in a ledger."""

from __future__ import annotations

import itertools
from dataclasses import replace

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Actor, Draft, Entry, Kind
from operator_protocols.domain.permit import ApprovalState, Permit
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.verdict import Mode, Risk
from operator_protocols.ports import Clock
from operator_sre.codec import to_json
from operator_sre.gate import Gate, Policy
from tests.contract.samples import run_started, violation
from tests.contract.stores import Ports

__all__ = ["DONE", "Doer"]

DONE = Result(Outcome.RAN, 0)


class Doer:
    """An agent on one ticket, with a real gate that lets everything run that is not blocked."""

    def __init__(self, ports: Ports, clock: Clock, ticket: Ticket, *, policy: Policy) -> None:
        self.ports = ports
        self.clock = clock
        self.ticket = ticket
        numbers = (f"{ticket.run}-{number:028}" for number in itertools.count(1))
        self.gate = Gate(
            lambda: policy, ports.journal, ports.approvals, clock, lambda: next(numbers)
        )

    @classmethod
    async def hired(
        cls, ports: Ports, clock: Clock, *, run: str = "run-1", mode: Mode = Mode.EXECUTE
    ) -> Doer:
        """With a ticket claimed and a run begun."""
        await ports.tickets.open([violation(f"of-{run}")])
        ticket = await ports.leases.claim(f"by-{run}", run=run, lease_s=1e6, attempts_max=3)
        assert ticket is not None
        await ports.journal.append(run_started(ticket))
        policy = Policy(mode=mode, auto=frozenset(Risk))
        return cls(ports, clock, ticket, policy=policy)

    async def begin(self, action: Action | str) -> tuple[Entry, int]:
        """The intent of a command that runs, and its number."""
        wanted = Action.shell(action) if isinstance(action, str) else action
        permit = await self.gate.permit(self.gate.judge(wanted), self.ticket)
        assert isinstance(permit, Permit)
        intent = await self.ports.intents.begin(permit)
        return intent, intent.seq

    async def run(self, action: Action | str, result: Result = DONE) -> int:
        """A command that ran to this result; its number."""
        intent, seq = await self.begin(action)
        await self.ports.intents.end(intent, result)
        return seq

    async def fail(self, action: Action | str, exit_code: int = 1) -> int:
        """A command that ended badly."""
        return await self.run(action, replace(DONE, exit_code=exit_code))

    async def refuse(self, action: Action, result: Result | None = None, permit: str = "") -> int:
        """A command that was not allowed to run, as the pipeline writes it down."""
        verdict = self.gate.judge(action)
        payload = {
            "action": to_json(action),
            "level": verdict.level,
            "risk": verdict.risk,
            "permit": permit,
            "result": to_json(result or verdict.refusal("Not now.")),
        }
        draft = Draft(Kind.REFUSED, payload, ticket=self.ticket.id, run=self.ticket.run)
        return (await self.ports.journal.append(draft)).seq

    async def answer(self, state: ApprovalState, *, by: str) -> None:
        """A person's answer to the one request."""
        (asked,) = self.ports.approvals.find(states=[ApprovalState.PENDING])
        await self.ports.approvals.decide(
            asked.id, state, by=Actor(by, "user"), reason="", version=asked.version
        )
