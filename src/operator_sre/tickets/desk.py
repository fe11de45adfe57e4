"""Opens, grows, recovers and closes tickets."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Violation, key_of
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import Move, MoveKind, Ticket, TicketState
from operator_protocols.errors import ConflictError
from operator_protocols.ports import FLAP_S, Condition, Journal, Leases, TicketMoves, Tickets
from operator_sre.codec import to_json

__all__ = ["INCIDENTS_MAX", "Desk", "Needs", "find_unrelated", "incidents_of", "needs_of"]

LIVE = tuple(state for state in TicketState if state.live)
# The actor that holds tickets during planned work, and closes those of removed subjects.
PLANNER = Actor("operator", "system")
PLANNED = "Planned: a silence or a maintenance window covers all of it."
# How long other systems may report what our own check does not show, before the ticket reopens.
PENDING_S = 900.0

# When more incidents than this begin in one check, they share a cause that we do not know, and
# become one ticket instead of a flood of them.
INCIDENTS_MAX = 20
log = logging.getLogger(__name__)

Needs = Mapping[str, frozenset[str]]


class Desk:
    """Files violations, closes what recovered by itself, ends what was worked on."""

    def __init__(
        self,
        *,
        tickets: Tickets,
        leases: Leases,
        stable_s: float | Callable[[str], float],
        journal: Journal | None = None,
        moves: TicketMoves | None = None,
    ) -> None:
        self._tickets = tickets
        self._leases = leases
        self._stable_s = stable_s
        self._journal = journal
        self._moves = moves

    async def file(
        self,
        violations: Sequence[Violation],
        targets: Sequence[Target],
        at: datetime | None = None,
        *,
        began: datetime | None = None,
    ) -> Sequence[Ticket]:
        """One ticket for each incident that has none yet; returns those opened, reopened or grown.

        `at` is when the violations were seen, by a check that `began` before. What was resolved
        between is left to the next check.
        """
        if not violations:
            return []
        live = self._tickets.find(states=LIVE, subject=violations[0].subject)
        again = await self._reopen(live, violations, at)
        fresh = {ticket.id: ticket for ticket in again}
        live = [fresh.get(ticket.id, ticket) for ticket in live]
        filed = {violation.key: ticket for ticket in live for violation in ticket.violations}
        if all(violation.key in filed for violation in violations):
            return again
        names = {violation.target for ticket in live for violation in ticket.violations}
        needs = needs_of(names | {violation.target for violation in violations}, targets)
        for incident in incidents_of(violations, targets):
            new = [violation for violation in incident if violation.key not in filed]
            if not new:
                continue
            home = next((filed[v.key] for v in incident if _takes_more(filed.get(v.key))), None)
            home = home or _find_related(new, filed.values(), needs)
            with contextlib.suppress(ConflictError):  # just now it was filed elsewhere, or it ended
                if home is not None:
                    again.append(await self._tickets.grow(home, new, began=began))
                    continue
                ticket = await self._tickets.open(new, began=began)
                log.info("ticket opened", extra={"ticket": ticket.id, "target": ticket.target})
                again.append(ticket)
        return again

    async def _reopen(
        self, live: Sequence[Ticket], violations: Sequence[Violation], at: datetime | None
    ) -> list[Ticket]:
        """Reopen watched and escalated tickets that broke again; their attempts still count.

        A ticket that a person has paused stays, and so does an escalated ticket that is flapping.
        """
        reopened = []
        for ticket in live:
            keys = {violation.key for violation in ticket.violations}
            mine = [violation for violation in violations if violation.key in keys]
            slack_s = self._stable_of(ticket.subject)
            ages_s = [(ticket.changed_at - violation.since).total_seconds() for violation in mine]
            if ticket.state is TicketState.ESCALATED:
                paused = at is not None and ticket.is_paused(at)
                if ticket.flapping or paused or not any(age_s < -slack_s for age_s in ages_s):
                    continue
                why = "It held for a while after it was escalated, and broke again."
            elif ticket.state is not TicketState.WATCHED:
                continue
            # Other systems may still report a break that is older than our proof.
            elif any(age_s < slack_s for age_s in ages_s):
                why = "It broke again while it was watched."
            elif mine and at is not None and (at - ticket.changed_at).total_seconds() > PENDING_S:
                why = f"Other systems still report it after {PENDING_S / 60:g} minutes."
            else:
                continue
            payload = {"reason": why, "attempts": ticket.attempts}
            draft = Draft(Kind.TICKET_REOPENED, payload, ticket=ticket.id, run=ticket.run)
            with contextlib.suppress(ConflictError):  # another monitor saw it too
                await self._leases.end(ticket, draft)
                reopened.append(self._tickets.get(ticket.id) or ticket)
                log.info("ticket broke again", extra={"ticket": ticket.id})
        return reopened

    async def plan(
        self,
        subject: str,
        silenced: Sequence[Violation],
        loud: Sequence[Violation],
        now: datetime,
    ) -> None:
        """Hold tickets while silences or windows cover all that is broken, and release them after.

        A pause that has ended holds no ticket.
        """
        if self._moves is None:
            return
        states = (TicketState.OPEN, TicketState.CLAIMED)
        quiet = {violation.key for violation in silenced}
        broken = {violation.key for violation in loud}
        for ticket in self._tickets.find(states=states, subject=subject):
            keys = {violation.key for violation in ticket.violations}
            ours = ticket.pause is not None and ticket.pause.by == PLANNER.id
            if keys & broken:
                kind, reason = MoveKind.UNHOLD, "The silence ended."
                wanted = ours
            else:
                kind, reason = MoveKind.HOLD, PLANNED
                wanted = bool(keys & quiet) and not ticket.is_paused(now)
            if wanted:
                with contextlib.suppress(ConflictError):
                    await self._moves.make(ticket.id, Move(kind, PLANNER, reason))

    async def retire(self, subject: str, reason: str) -> None:
        """Close the tickets of a subject that was removed: they cannot be proven any more."""
        if self._moves is None:
            return
        for ticket in self._tickets.find(states=LIVE, subject=subject):
            with contextlib.suppress(ConflictError):  # it was closed at this moment
                await self._moves.make(ticket.id, Move(MoveKind.CLOSE, PLANNER, reason))
                log.info("ticket closed: %s", reason, extra={"ticket": ticket.id})

    async def flag(self, subject: str, conditions: Iterable[Condition], now: datetime) -> None:
        """Mark the tickets of a subject whose violations are flapping."""
        flapping = {
            key_of(condition.subject, condition.target, condition.invariant)
            for condition in conditions
            if condition.flapping(now)
        }
        if not flapping or self._journal is None:
            return
        for ticket in self._tickets.find(states=LIVE, subject=subject):
            keys = sorted({violation.key for violation in ticket.violations} & flapping)
            if keys and not ticket.flapping:
                # The key lets only one of two monitors append it.
                payload = {"violations": keys, "window_s": FLAP_S}
                draft = Draft(
                    Kind.TICKET_FLAPPING,
                    payload,
                    ticket=ticket.id,
                    run=ticket.run,
                    key=f"ticket-{ticket.id}/flapping",
                )
                await self._journal.append(draft)
                log.info("ticket is flapping", extra={"ticket": ticket.id})

    async def recover(
        self, subject: str, conditions: Iterable[Condition], now: datetime
    ) -> Sequence[Ticket]:
        """Resolve tickets without an agent whose invariants have all held for long enough.

        A flapping ticket has to hold until it no longer counts as flapping. A ticket that a person
        has escalated and paused stays as it is.
        """
        idle = (TicketState.OPEN, TicketState.WATCHED, TicketState.ESCALATED)
        tickets = self._tickets.find(states=idle, subject=subject)
        if not tickets:
            return []
        healthy = {
            key_of(condition.subject, condition.target, condition.invariant): condition
            for condition in conditions
            if condition.health is Health.HEALTHY
        }
        resolved = []
        for ticket in tickets:
            if ticket.state is TicketState.ESCALATED and ticket.is_paused(now):
                continue
            held = [healthy.get(violation.key) for violation in ticket.violations]
            well = [condition for condition in held if condition is not None]
            if len(well) < len(held):
                continue
            since = max(condition.since for condition in well)
            stable_s = (now - since).total_seconds()
            flaps = ticket.flapping or any(condition.flapping(now) for condition in well)
            enough_s = self._stable_of(subject)
            if stable_s >= (max(FLAP_S, enough_s) if flaps else enough_s):
                # An agent that worked on it before may have changed something.
                if ticket.state is TicketState.WATCHED:
                    how, changed = "It was watched", ""
                elif ticket.run:
                    how, changed = "It holds again", ""
                else:
                    how, changed = "It recovered by itself", "; nothing was changed"
                proof = Proof(
                    held=True,
                    health=Health.HEALTHY,
                    looks=1,
                    since=since,
                    until=now,
                    stable_s=stable_s,
                    detail=f"{how} and has held for {stable_s:.0f} s{changed}.",
                )
                with contextlib.suppress(ConflictError):  # taken up, or grown, this moment
                    resolved.append(await self.close(ticket, proof))
        return resolved

    def _stable_of(self, subject: str) -> float:
        stable_s = self._stable_s
        return stable_s(subject) if callable(stable_s) else stable_s

    async def close(
        self,
        ticket: Ticket,
        proof: Proof | None,
        *drafts: Draft,
        reason: str = "",
        by: Actor | None = None,
        leaves: Iterable[Violation] = (),
    ) -> Ticket:
        """RESOLVED needs a proof that held; anything else is ESCALATED with its reason.

        What `leaves` an escalated ticket opens another one while it is broken. When the ticket is
        flapping, or other systems still report a violation, the proof is not enough yet and the
        ticket is WATCHED. `drafts` are recorded in the same transaction.
        """
        if proof is not None and proof.held:
            doubt = ""
            if proof.pending:
                names = ", ".join(proof.pending)
                doubt = f" It is watched until other systems stop reporting {names}."
            elif ticket.flapping and proof.stable_s < FLAP_S:
                doubt = (
                    " It was flapping, so it is watched until it has held for"
                    f" {FLAP_S / 60:g} minutes."
                )
            payload = {"reason": f"{reason or proof.detail}{doubt}", "proof": to_json(proof)}
            kind = Kind.TICKET_WATCHED if doubt else Kind.TICKET_RESOLVED
        else:
            reason = reason or (proof.detail if proof else "no reason was given")
            keys = [violation.key for violation in leaves]
            payload = {"reason": reason, **({"leaves": keys} if keys else {})}
            kind = Kind.TICKET_ESCALATED
        draft = Draft(kind, payload, ticket=ticket.id, run=ticket.run, actor=by or Actor())
        await self._leases.end(ticket, *drafts, draft)
        log.info(draft.kind.value, extra={"ticket": ticket.id, "run": ticket.run})
        ended = self._tickets.get(ticket.id)
        assert ended is not None
        return ended


def find_unrelated(
    ticket: Ticket, about: str, targets: Sequence[Target], apart: Collection[str]
) -> list[Violation]:
    """The violations that the diagnosis of one target does not explain: unrelated failures.

    Only those of targets that fail by themselves (`apart`), and neither depend on it nor it on
    them. A ticket keeps at least one.
    """
    needs = needs_of({about, *apart}, targets)
    rest = [
        violation
        for violation in ticket.violations
        if violation.target in apart
        and about != violation.target
        and about not in needs[violation.target]
        and violation.target not in needs[about]
    ]
    return rest if len(rest) < len(ticket.violations) else []


def _takes_more(ticket: Ticket | None) -> bool:
    # No agent works on an escalated or watched ticket, so a new break must not hide in it.
    return ticket is not None and ticket.state in {TicketState.OPEN, TicketState.CLAIMED}


def _find_related(new: Sequence[Violation], live: Iterable[Ticket], needs: Needs) -> Ticket | None:
    """The oldest ticket about a target that a new break depends on, or the other way round.

    It is the same incident even when the ticket's own violations hold, are silenced or unknown.
    """
    broken = {violation.target for violation in new}
    below = broken.union(*(needs[name] for name in broken))
    for _, ticket in sorted({ticket.id: ticket for ticket in live}.items()):
        about = {violation.target for violation in ticket.violations}
        joins = about & below or any(broken & needs[name] for name in about)
        if joins and _takes_more(ticket):
            return ticket
    return None


def incidents_of(
    violations: Sequence[Violation], targets: Sequence[Target]
) -> list[tuple[Violation, ...]]:
    """Violations grouped into incidents, each with its root first: what the others depend on."""
    broken = {violation.target for violation in violations}
    needs = {name: needed & broken for name, needed in needs_of(broken, targets).items()}
    # Union-find: the leader of a target stands for its group of connected targets.
    leader = {name: name for name in broken}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = name = leader[leader[name]]
        return name

    for name in sorted(broken):
        for need in needs[name]:
            leader[find(need)] = find(name)
    dependants = Counter(need for name in broken for need in needs[name])

    def order(violation: Violation) -> tuple[int, int, str, str]:
        name = violation.target
        return -dependants[name], -violation.severity.rank, name, violation.invariant

    groups: dict[str, list[Violation]] = {}
    for violation in sorted(violations, key=order):
        groups.setdefault(find(violation.target), []).append(violation)
    if len(groups) > INCIDENTS_MAX:
        return [tuple(sorted(violations, key=order))]
    return sorted(
        map(tuple, groups.values()), key=lambda group: min(violation.target for violation in group)
    )


def needs_of(names: set[str], targets: Sequence[Target]) -> Needs:
    """The targets that each of these depends on, directly or through another."""
    direct = {target.name: target.depends_on for target in targets}
    needs: dict[str, frozenset[str]] = {}
    for name in names:
        seen: set[str] = set()
        queue = list(direct.get(name, ()))
        while queue:
            need = queue.pop()
            if need not in seen:
                seen.add(need)
                queue.extend(direct.get(need, ()))
        needs[name] = frozenset(seen - {name})
    return needs
