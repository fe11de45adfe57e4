"""What Tickets promise: one live record for each break, whoever sees it first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest

from operator_protocols.domain.diagnosis import NO_CAUSES
from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.ticket import Move, MoveKind, Ticket, TicketState
from operator_protocols.errors import ConflictError
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import escalated, resolved, violation
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio


def _count(ports: Ports) -> int:
    return len(ports.entries.after(0, limit=1000))


async def test_the_first_violation_is_the_root(ports: Ports) -> None:
    root = violation("store", severity=Severity.WARNING)
    other = violation("node-1", severity=Severity.CRITICAL)
    opened = await ports.tickets.open([root, other])
    assert opened.target == "store"
    assert opened.subject == "shop"
    assert opened.violations == (root, other)
    assert opened.severity is Severity.CRITICAL
    assert opened.state is TicketState.OPEN
    assert (opened.attempts, opened.epoch, opened.worker, opened.run) == (0, 0, "", "")
    assert (opened.opened_at, opened.changed_at) == (NOON, NOON)
    assert "store" in opened.summary
    assert "1 more" in opened.summary
    assert ports.tickets.get(opened.id) == opened


async def test_a_ticket_that_is_not_there_is_none(ports: Ports) -> None:
    assert ports.tickets.get(1) is None
    assert list(ports.tickets.find()) == []


async def test_a_filed_violation_opens_no_second_ticket(ports: Ports) -> None:
    first = await ports.tickets.open([violation(detail="seen by one")])
    before = _count(ports)
    with pytest.raises(ConflictError):
        await ports.tickets.open([violation(detail="seen by another")])
    assert list(ports.tickets.find()) == [first]
    assert _count(ports) == before


async def test_a_refused_ticket_files_none_of_its_violations(ports: Ports) -> None:
    await ports.tickets.open([violation("node-1")])
    with pytest.raises(ConflictError):
        await ports.tickets.open([violation("node-2"), violation("node-1")])
    assert (await ports.tickets.open([violation("node-2")])).target == "node-2"


@pytest.mark.parametrize("grows", [False, True])
async def test_what_a_check_saw_before_its_ticket_ended_is_left_to_the_next_check(
    ports: Ports, clock: HeldClock, grows: bool
) -> None:
    await ports.tickets.open([violation()])
    first = await ports.leases.claim("worker-1", run="run-1", lease_s=60.0, attempts_max=3)
    assert first is not None
    other = await ports.tickets.open([violation("node-9")])

    async def file(began: datetime | None) -> Ticket:
        if grows:
            return await ports.tickets.grow(other, [violation()], began=began)
        return await ports.tickets.open([violation()], began=began)

    began = clock.now()
    clock.advance(2.0)
    await ports.leases.end(first, resolved(first))
    clock.advance(1.0)
    before = _count(ports)
    with pytest.raises(ConflictError, match="ended after it was seen"):
        await file(began)
    assert _count(ports) == before
    # What another check sees afterwards is a new break.
    assert (await file(clock.now())).state is TicketState.OPEN


async def test_an_end_by_a_clock_ahead_of_ours_hides_no_break(
    ports: Ports, clock: HeldClock
) -> None:
    await ports.tickets.open([violation()])
    first = await ports.leases.claim("worker-1", run="run-1", lease_s=600.0, attempts_max=3)
    assert first is not None
    clock.advance(300.0)
    await ports.leases.end(first, resolved(first))
    clock.advance(-299.0)
    assert (await ports.tickets.open([violation()], began=clock.now())).id != first.id


async def test_one_target_may_break_in_several_ways(ports: Ports) -> None:
    await ports.tickets.open([violation(invariant="node_down")])
    await ports.tickets.open([violation(invariant="redis_disconnected")])
    await ports.tickets.open([violation(subject="bank")])
    assert len(ports.tickets.find()) == 3
    assert [one.subject for one in ports.tickets.find(subject="bank")] == ["bank"]


async def test_the_most_urgent_and_oldest_comes_first(ports: Ports) -> None:
    for target, severity in [
        ("a", Severity.INFO),
        ("b", Severity.CRITICAL),
        ("c", Severity.WARNING),
        ("d", Severity.CRITICAL),
    ]:
        await ports.tickets.open([violation(target, severity=severity)])
    assert [one.target for one in ports.tickets.find()] == ["b", "d", "c", "a"]


async def test_tickets_are_found_by_state(ports: Ports) -> None:
    ending = await ports.tickets.open([violation("node-1")])
    open_one = await ports.tickets.open([violation("node-2")])
    await ports.leases.end(ending, escalated(ending))
    assert list(ports.tickets.find(states=[TicketState.OPEN])) == [open_one]
    assert [one.id for one in ports.tickets.find(states=[TicketState.ESCALATED])] == [ending.id]
    assert list(ports.tickets.find(states=[TicketState.RESOLVED])) == []


async def test_a_ticket_grows(ports: Ports, clock: HeldClock) -> None:
    small = await ports.tickets.open([violation("node-1", severity=Severity.WARNING)])
    clock.advance(3.0)
    more = [violation("node-2"), violation("node-3", severity=Severity.INFO)]
    grown = await ports.tickets.grow(small, more)
    assert [one.target for one in grown.violations] == ["node-1", "node-2", "node-3"]
    assert grown.severity is Severity.CRITICAL
    assert grown.target == "node-1"
    assert "2 more" in grown.summary
    assert (grown.opened_at, grown.changed_at) == (NOON, clock.now())
    assert ports.tickets.get(small.id) == grown


async def test_a_ticket_is_called_by_its_diagnosis_until_it_is_reopened(ports: Ports) -> None:
    opened = await ports.tickets.open([violation("node-1")])
    assert (opened.title, opened.diagnosis) == (opened.summary, "")
    for cause, summary, title in (
        *((cause, "Nothing explains it.", opened.summary) for cause in sorted(NO_CAUSES)),
        ("process_dead", "node-1: its process is not running.", None),
        ("process_paused", "node-1: its process is PAUSED.", None),
    ):
        payload = {"cause": cause, "summary": summary}
        await ports.journal.append(Draft(Kind.DIAGNOSIS, payload, ticket=opened.id, run="r"))
        now = ports.tickets.get(opened.id)
        assert now is not None
        assert (now.title, now.summary) == (title or summary, opened.summary)
    assert [one.id for one in ports.tickets.find(text="is paused")] == [opened.id]
    moved = await ports.ticket_moves.make(opened.id, Move(MoveKind.CLOSE, Actor("ada", "user")))
    assert moved.title == "node-1: its process is PAUSED."
    moved = await ports.ticket_moves.make(opened.id, Move(MoveKind.REOPEN, Actor("ada", "user")))
    assert moved.title == opened.summary


async def test_two_that_grow_a_ticket_from_the_same_view_lose_nothing(ports: Ports) -> None:
    seen = await ports.tickets.open([violation("node-1", severity=Severity.INFO)])
    await ports.tickets.grow(seen, [violation("node-2", severity=Severity.CRITICAL)])
    grown = await ports.tickets.grow(seen, [violation("node-3", severity=Severity.INFO)])
    assert len(grown.violations) == 3
    assert grown.severity is Severity.CRITICAL
    assert "2 more" in grown.summary


async def test_a_claimed_ticket_grows_and_stays_claimed(ports: Ports) -> None:
    await ports.tickets.open([violation("node-1")])
    claimed = await ports.leases.claim("w", run="r", lease_s=30.0, attempts_max=3)
    assert claimed is not None
    grown = await ports.tickets.grow(claimed, [violation("node-2")])
    assert (grown.state, grown.worker, grown.run) == (TicketState.CLAIMED, "w", "r")


async def test_a_ticket_does_not_take_what_another_holds(ports: Ports) -> None:
    one = await ports.tickets.open([violation("node-1")])
    await ports.tickets.open([violation("node-2")])
    with pytest.raises(ConflictError):
        await ports.tickets.grow(one, [violation("node-3"), violation("node-2")])
    kept = ports.tickets.get(one.id)
    assert kept is not None
    assert [held.target for held in kept.violations] == ["node-1"]


@pytest.mark.parametrize("end", [resolved, escalated])
async def test_a_ticket_that_has_ended_meanwhile_does_not_grow(
    ports: Ports, end: Callable[[Ticket], Draft]
) -> None:
    """A violation hidden in an ended ticket would never be worked on, nor filed again."""
    seen = await ports.tickets.open([violation("node-1")])
    await ports.leases.end(seen, end(seen))
    with pytest.raises(ConflictError):
        await ports.tickets.grow(seen, [violation("node-2")])
    assert (await ports.tickets.open([violation("node-2")])).target == "node-2"


async def test_a_resolved_break_may_open_a_new_ticket(ports: Ports) -> None:
    first = await ports.tickets.open([violation()])
    await ports.leases.end(first, resolved(first))
    second = await ports.tickets.open([violation()])
    assert second.id != first.id
    assert {one.state for one in ports.tickets.find()} == {TicketState.OPEN, TicketState.RESOLVED}


async def test_an_escalated_break_opens_no_second_ticket(ports: Ports) -> None:
    first = await ports.tickets.open([violation()])
    await ports.leases.end(first, escalated(first))
    with pytest.raises(ConflictError):
        await ports.tickets.open([violation()])


async def test_tickets_survive_a_reopened_database(home: Home) -> None:
    opened = await home.open().tickets.open([violation(detail="größer\n'\"")])
    home.close()
    assert home.open().tickets.get(opened.id) == opened


async def test_only_one_of_many_opens_it(home: Home) -> None:
    handles = [home.open(), home.open()]
    outcomes = await asyncio.gather(
        *(handles[n % 2].tickets.open([violation(detail=str(n))]) for n in range(20)),
        return_exceptions=True,
    )
    assert sum(isinstance(one, Ticket) for one in outcomes) == 1
    assert sum(isinstance(one, ConflictError) for one in outcomes) == 19


@pytest.mark.parametrize("text", ["\ud800", "a\x00b", "\u202e", "x" * 100_000])
async def test_hostile_text_is_filed_and_does_not_blind_us(ports: Ports, text: str) -> None:
    opened = await ports.tickets.open([violation(detail=text)])
    assert opened.violations[0].detail == text
    grown = await ports.tickets.grow(opened, [violation("node-2", detail=text)])
    assert grown.violations[1].detail == text
    await ports.leases.end(opened, escalated(opened, reason=text))
    assert [one.id for one in ports.tickets.find()] == [opened.id]


async def test_every_change_is_in_the_ledger(ports: Ports) -> None:
    opened = await ports.tickets.open([violation("node-1")])
    await ports.tickets.grow(opened, [violation("node-2")])
    told = ports.entries.after(0, limit=10, ticket=opened.id)
    assert [entry.kind for entry in told] == [Kind.TICKET_OPENED, Kind.TICKET_GREW]
    filed = [[one["target"] for one in entry.payload["violations"]] for entry in told]
    assert filed == [["node-1"], ["node-2"]]


@pytest.mark.parametrize("kind", [Kind.TICKET_RESOLVED, Kind.TICKET_WATCHED])
async def test_what_was_added_after_the_proof_is_not_said_to_hold(ports: Ports, kind: Kind) -> None:
    proven = await ports.tickets.open([violation("node-1")])
    grown = await ports.tickets.grow(proven, [violation("node-2")])
    before = list(ports.entries.after(0, limit=10))
    with pytest.raises(ConflictError, match="new violations"):
        await ports.leases.end(proven, replace(resolved(proven), kind=kind))
    assert list(ports.entries.after(0, limit=10)) == before
    await ports.leases.end(grown, replace(resolved(grown), kind=kind))
    ended = ports.tickets.get(grown.id)
    assert ended is not None
    assert ended.state.value == kind.value.removeprefix("ticket_")


async def test_a_person_gets_a_ticket_though_it_has_grown(ports: Ports) -> None:
    seen = await ports.tickets.open([violation("node-1")])
    await ports.tickets.grow(seen, [violation("node-2")])
    await ports.leases.end(seen, escalated(seen))
    assert [one.state for one in ports.tickets.find()] == [TicketState.ESCALATED]


async def test_pages_of_tickets_are_the_whole(ports: Ports) -> None:
    for number in range(5):
        severity = Severity.WARNING if number % 2 else Severity.CRITICAL
        await ports.tickets.open([violation(f"node-{number}", severity=severity)])
    whole = list(ports.tickets.find())
    found: list[Ticket] = []
    while page := ports.tickets.find(limit=2, after=found[-1].id if found else 0):
        assert len(page) <= 2
        found += page
    assert found == whole
    assert ports.tickets.find(limit=2, after=999) == []
