"""The desk where tickets are filed and ended."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime

from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Violation, key_of
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.errors import ConflictError
from operator_protocols.ports import Condition, Leases, Tickets
from operator_sre.codec import to_json
from operator_sre.tickets.incidents import incidents_of

__all__ = ["Desk"]

LIVE = tuple(state for state in TicketState if state.live)
log = logging.getLogger(__name__)


class Desk:
    """Files violations, closes what recovered by itself, ends what was worked on."""

    def __init__(self, *, tickets: Tickets, leases: Leases, stable_s: float) -> None:
        self._tickets = tickets
        self._leases = leases
        self._stable_s = stable_s

    async def file(
        self, violations: Sequence[Violation], targets: Sequence[Target]
    ) -> Sequence[Ticket]:
        """One ticket for each incident that has none yet; returns those opened or grown."""
        if not violations:
            return []
        live = self._tickets.find(states=LIVE, subject=violations[0].subject)
        changed = [
            await self._file_incident(incident, live)
            for incident in incidents_of(violations, targets)
        ]
        return [ticket for ticket in changed if ticket is not None]

    async def _file_incident(
        self, incident: Sequence[Violation], live: Sequence[Ticket]
    ) -> Ticket | None:
        filed = {violation.key: ticket for ticket in live for violation in ticket.violations}
        new = [violation for violation in incident if violation.key not in filed]
        if not new:
            return None
        home = next((filed[v.key] for v in incident if _takes_more(filed.get(v.key))), None)
        try:
            if home is not None:
                return await self._tickets.grow(home, new)
            ticket = await self._tickets.open(new)
        except ConflictError:
            return None  # another monitor filed it between our look and now
        log.info("ticket opened", extra={"ticket": ticket.id, "target": ticket.target})
        return ticket

    async def recover(
        self, subject: str, conditions: Iterable[Condition], now: datetime
    ) -> Sequence[Ticket]:
        """Resolve tickets that nobody works on and whose every invariant holds again for long."""
        since = {
            key_of(one.subject, one.target, one.invariant): one.since
            for one in conditions
            if one.health is Health.HEALTHY
        }
        resolved = []
        idle = (TicketState.OPEN, TicketState.ESCALATED)
        for ticket in self._tickets.find(states=idle, subject=subject):
            held = [since.get(violation.key) for violation in ticket.violations]
            times = [at for at in held if at is not None]
            if len(times) < len(held):
                continue
            stable_s = (now - max(times)).total_seconds()
            if stable_s >= self._stable_s:
                proof = _recovered(max(times), now, stable_s)
                with contextlib.suppress(ConflictError):  # somebody took it up this moment
                    resolved.append(await self.close(ticket, proof))
        return resolved

    async def close(
        self, ticket: Ticket, proof: Proof | None, *drafts: Draft, reason: str = ""
    ) -> Ticket:
        """RESOLVED needs a Proof that held; anything else is ESCALATED with its reason.

        `drafts` are what else ends with it, recorded with it or not at all.
        """
        if proof is not None and proof.held:
            payload = {"reason": reason or proof.detail, "proof": to_json(proof)}
            draft = Draft(Kind.TICKET_RESOLVED, payload, ticket=ticket.id, run=ticket.run)
        else:
            payload = {"reason": reason or (proof.detail if proof else "no reason was given")}
            draft = Draft(Kind.TICKET_ESCALATED, payload, ticket=ticket.id, run=ticket.run)
        await self._leases.end(ticket, *drafts, draft)
        log.info(draft.kind.value, extra={"ticket": ticket.id, "run": ticket.run})
        ended = self._tickets.get(ticket.id)
        assert ended is not None
        return ended


def _takes_more(ticket: Ticket | None) -> bool:
    # Nobody works on an escalated ticket, so a new break must not hide in it.
    return ticket is not None and ticket.state is not TicketState.ESCALATED


def _recovered(since: datetime, now: datetime, stable_s: float) -> Proof:
    return Proof(
        held=True,
        health=Health.HEALTHY,
        looks=1,
        since=since,
        until=now,
        stable_s=stable_s,
        detail=f"It recovered by itself and has held for {stable_s:.0f} s; nothing was changed.",
    )
