"""What Leases promise: one worker for a ticket, and no power for a stale one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.errors import ConflictError
from tests.contract.clock import HeldClock
from tests.contract.samples import (
    escalated,
    resolved,
    run_finished,
    run_started,
    violation,
)
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio

LEASE_S = 30.0


async def _claim(
    ports: Ports,
    worker: str = "one",
    *,
    run: str = "run-new",
    subjects: Sequence[str] | None = None,
) -> Ticket | None:
    return await ports.leases.claim(
        worker, run=run, lease_s=LEASE_S, attempts_max=3, subjects=subjects
    )


async def _claimed(ports: Ports, worker: str = "one", *, run: str = "run-new") -> Ticket:
    ticket = await _claim(ports, worker, run=run)
    assert ticket is not None
    return ticket


async def _state(ports: Ports, ticket: Ticket) -> TicketState:
    found = ports.tickets.get(ticket.id)
    assert found is not None
    return found.state


async def test_there_is_nothing_to_claim_on_an_empty_database(ports: Ports) -> None:
    assert await _claim(ports) is None
    assert list(ports.entries.after(0, limit=10)) == []


async def test_a_claim_names_its_worker_and_counts(ports: Ports) -> None:
    opened = await ports.tickets.open([violation()])
    claimed = await _claimed(ports)
    assert (claimed.id, claimed.state, claimed.worker) == (opened.id, TicketState.CLAIMED, "one")
    assert (claimed.attempts, claimed.epoch, claimed.run) == (1, 1, "run-new")
    assert ports.tickets.get(opened.id) == claimed
    assert await _claim(ports, "two") is None


async def test_the_most_urgent_ticket_is_taken_first(ports: Ports) -> None:
    for target, severity in [("a", Severity.WARNING), ("b", Severity.CRITICAL)]:
        await ports.tickets.open([violation(target, severity=severity)])
    assert [(await _claimed(ports)).target for _ in range(2)] == ["b", "a"]


async def test_tickets_of_subjects_that_a_worker_does_not_know_are_left_alone(ports: Ports) -> None:
    opened = await ports.tickets.open([violation()])
    for subjects in ([], ["another"]):
        assert await _claim(ports, subjects=subjects) is None
    found = ports.tickets.get(opened.id)
    assert found is not None
    assert (found.state, found.attempts) == (TicketState.OPEN, 0)
    taken = await _claim(ports, subjects=["another", opened.subject])
    assert taken is not None
    assert taken.id == opened.id


async def test_two_workers_never_get_the_same_ticket(home: Home) -> None:
    handles = [home.open(), home.open()]
    for number in range(6):
        await handles[0].tickets.open([violation(f"node-{number}")])
    claims = await asyncio.gather(*(_claim(handles[n % 2], f"w{n}") for n in range(10)))
    taken = [ticket.id for ticket in claims if ticket is not None]
    assert sorted(taken) == [1, 2, 3, 4, 5, 6]


async def test_a_lease_that_is_renewed_is_kept(ports: Ports, clock: HeldClock) -> None:
    await ports.tickets.open([violation()])
    claimed = await _claimed(ports)
    for _ in range(5):
        clock.advance(LEASE_S - 1.0)
        assert await ports.leases.renew(claimed, lease_s=LEASE_S)
        assert await _claim(ports, "two") is None


async def test_an_expired_lease_is_claimed_anew_with_a_higher_epoch(
    ports: Ports, clock: HeldClock
) -> None:
    await ports.tickets.open([violation()])
    first = await _claimed(ports)
    clock.advance(LEASE_S - 0.1)
    assert await _claim(ports, "two") is None
    clock.advance(0.1)
    second = await _claimed(ports, "two")
    assert (second.id, second.worker) == (first.id, "two")
    assert second.epoch > first.epoch
    assert second.attempts == 2


async def test_a_stale_worker_has_no_power(ports: Ports, clock: HeldClock) -> None:
    await ports.tickets.open([violation()])
    stale = await _claimed(ports)
    clock.advance(LEASE_S)
    holder = await _claimed(ports, "two")
    before = list(ports.entries.after(0, limit=100))
    assert not await ports.leases.renew(stale, lease_s=LEASE_S)
    with pytest.raises(ConflictError):
        await ports.leases.release(stale, reason="late", wait_s=0.0)
    with pytest.raises(ConflictError):
        await ports.leases.end(stale, resolved(stale))
    with pytest.raises(ConflictError):
        await ports.leases.end(stale, escalated(stale))
    assert list(ports.entries.after(0, limit=100)) == before
    assert ports.tickets.get(holder.id) == holder
    assert await ports.leases.renew(holder, lease_s=LEASE_S)
    await ports.leases.end(holder, resolved(holder))
    assert await _state(ports, holder) is TicketState.RESOLVED


async def test_whoever_saw_a_ticket_open_cannot_end_it_once_it_is_claimed(ports: Ports) -> None:
    seen_open = await ports.tickets.open([violation()])
    claimed = await _claimed(ports)
    with pytest.raises(ConflictError):
        await ports.leases.end(seen_open, resolved(seen_open))
    assert await _state(ports, claimed) is TicketState.CLAIMED


async def test_a_ticket_ends_once(ports: Ports) -> None:
    await ports.tickets.open([violation()])
    claimed = await _claimed(ports)
    await ports.leases.end(claimed, resolved(claimed, reason="it holds"))
    with pytest.raises(ConflictError):
        await ports.leases.end(claimed, escalated(claimed))
    ended = ports.tickets.get(claimed.id)
    assert ended is not None
    assert (ended.state, ended.reason, ended.worker) == (TicketState.RESOLVED, "it holds", "")
    assert await _claim(ports) is None


async def test_a_ticket_that_is_not_there_cannot_be_ended(ports: Ports) -> None:
    await ports.tickets.open([violation()])
    claimed = await _claimed(ports)
    ghost = resolved(claimed)
    missing = await ports.tickets.open([violation("node-2")])
    await ports.leases.end(missing, resolved(missing))
    with pytest.raises(ConflictError):
        await ports.leases.end(missing, ghost)


async def test_an_escalated_ticket_is_not_taken_again(ports: Ports, clock: HeldClock) -> None:
    await ports.tickets.open([violation()])
    claimed = await _claimed(ports)
    await ports.leases.end(claimed, escalated(claimed))
    clock.advance(10 * LEASE_S)
    assert await _claim(ports) is None


async def test_a_released_ticket_waits_out_its_back_off(ports: Ports, clock: HeldClock) -> None:
    await ports.tickets.open([violation()])
    claimed = await _claimed(ports)
    await ports.leases.release(claimed, reason="the model is away", wait_s=10.0)
    free = ports.tickets.get(claimed.id)
    assert free is not None
    assert (free.state, free.worker, free.reason) == (TicketState.OPEN, "", "the model is away")
    clock.advance(9.9)
    assert await _claim(ports, "two") is None
    clock.advance(0.1)
    assert (await _claimed(ports, "two")).attempts == 2


async def test_a_ticket_that_waits_does_not_hold_up_the_others(ports: Ports) -> None:
    await ports.tickets.open([violation("node-1", severity=Severity.CRITICAL)])
    claimed = await _claimed(ports)
    await ports.tickets.open([violation("node-2", severity=Severity.INFO)])
    await ports.leases.release(claimed, reason="wait", wait_s=60.0)
    assert (await _claimed(ports, "two")).target == "node-2"


async def test_a_worker_that_gave_it_back_has_no_power_any_more(ports: Ports) -> None:
    await ports.tickets.open([violation()])
    claimed = await _claimed(ports)
    await ports.leases.release(claimed, reason="stopped", wait_s=0.0)
    assert not await ports.leases.renew(claimed, lease_s=LEASE_S)
    with pytest.raises(ConflictError):
        await ports.leases.end(claimed, resolved(claimed))
    with pytest.raises(ConflictError):
        await ports.leases.release(claimed, reason="again", wait_s=0.0)


async def test_the_attempts_are_limited_and_end_with_a_person(
    ports: Ports, clock: HeldClock
) -> None:
    await ports.tickets.open([violation()])
    for attempt in range(1, 4):
        claimed = await _claimed(ports)
        assert claimed.attempts == attempt
        await ports.leases.release(claimed, reason="it failed", wait_s=1.0)
        clock.advance(1.0)
    assert await _claim(ports) is None
    given_up = ports.tickets.get(1)
    assert given_up is not None
    assert given_up.state is TicketState.ESCALATED
    assert "3 attempts" in given_up.reason
    assert ports.entries.newest(limit=1)[0].kind is Kind.TICKET_ESCALATED
    clock.advance(1000.0)
    assert await _claim(ports) is None


async def test_crashes_count_as_attempts_too(ports: Ports, clock: HeldClock) -> None:
    await ports.tickets.open([violation()])
    for _ in range(3):
        await _claimed(ports)
        clock.advance(LEASE_S)
    assert await _claim(ports) is None
    assert [one.state for one in ports.tickets.find()] == [TicketState.ESCALATED]


async def test_a_given_up_ticket_does_not_hide_the_next(ports: Ports, clock: HeldClock) -> None:
    await ports.tickets.open([violation("node-1")])
    for _ in range(3):
        await _claimed(ports)
        clock.advance(LEASE_S)
    await ports.tickets.open([violation("node-2")])
    assert (await _claimed(ports)).target == "node-2"


async def test_an_unfinished_run_goes_on_under_its_own_id(ports: Ports, clock: HeldClock) -> None:
    await ports.tickets.open([violation()])
    first = await _claimed(ports, run="run-a")
    await ports.journal.append(run_started(first))
    clock.advance(LEASE_S)
    second = await _claimed(ports, "two", run="run-b")
    assert second.run == "run-a"
    claim = ports.entries.newest(limit=1)[0]
    assert (claim.kind, claim.payload["resumed"]) == (Kind.TICKET_CLAIMED, True)


async def test_a_finished_run_is_followed_by_a_new_one(ports: Ports, clock: HeldClock) -> None:
    await ports.tickets.open([violation()])
    first = await _claimed(ports, run="run-a")
    await ports.journal.append(run_started(first))
    await ports.journal.append(run_finished(first))
    clock.advance(LEASE_S)
    assert (await _claimed(ports, "two", run="run-b")).run == "run-b"


async def test_a_claim_survives_a_reopened_database(home: Home, clock: HeldClock) -> None:
    ports = home.open()
    await ports.tickets.open([violation()])
    claimed = await _claimed(ports)
    home.close()
    again = home.open()
    assert await _claim(again, "two") is None
    assert await again.leases.renew(claimed, lease_s=LEASE_S)
    clock.advance(LEASE_S)
    assert (await _claimed(again, "two")).epoch == claimed.epoch + 1
