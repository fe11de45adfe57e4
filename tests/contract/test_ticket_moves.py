"""What TicketMoves promise: people's word counts at once, once, and over a restart."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.ticket import (
    Move,
    MoveKind,
    Pause,
    Ticket,
    TicketState,
    refusal_of,
)
from operator_protocols.errors import ConflictError, NotFoundError
from operator_protocols.ports import TicketMoves
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import approval, escalated, resolved, run_started, ticket, violation
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio
ADA = Actor("ada", "user")
SOON = NOON + timedelta(seconds=60)


def _move(kind: MoveKind, reason: str = "so it is") -> Move:
    until = SOON if kind is MoveKind.SNOOZE else None
    return Move(kind, ADA, reason, until=until, assignee="bob")


async def _make(ports: Ports, kind: MoveKind, reason: str = "so it is", number: int = 1) -> Ticket:
    return await ports.ticket_moves.make(number, _move(kind, reason))


async def _claim(ports: Ports, worker: str = "one") -> Ticket | None:
    return await ports.leases.claim(worker, run="run-1", lease_s=30.0, attempts_max=3)


def _kinds(ports: Ports) -> list[Kind]:
    return [entry.kind for entry in ports.entries.after(0, limit=100)]


async def test_a_store_keeps_the_port(ports: Ports) -> None:
    assert isinstance(ports.ticket_moves, TicketMoves)


@pytest.mark.parametrize("kind", MoveKind)
async def test_a_ticket_that_is_not_there_is_said_to_be_so(ports: Ports, kind: MoveKind) -> None:
    with pytest.raises(NotFoundError):
        await _make(ports, kind)
    assert _kinds(ports) == []


@pytest.mark.parametrize("kind", MoveKind)
async def test_every_move_is_in_the_ledger_once_with_who_made_it(
    ports: Ports, kind: MoveKind
) -> None:
    opened = await ports.tickets.open([violation()])
    if kind is MoveKind.REOPEN:
        await ports.leases.end(opened, escalated(opened))
    if kind is MoveKind.UNHOLD:
        await _make(ports, MoveKind.HOLD)
    before = len(_kinds(ports))
    first = await _make(ports, kind)
    second = await _make(ports, kind)
    assert first == second == ports.tickets.get(1)
    (entry,) = ports.entries.after(before, limit=10)
    assert (entry.actor, entry.ticket) == (ADA, 1)
    assert "so it is" in entry.payload.values()


async def test_a_held_ticket_is_not_claimed_until_it_is_let_go(
    ports: Ports, clock: HeldClock
) -> None:
    await ports.tickets.open([violation()])
    held = await _make(ports, MoveKind.HOLD)
    assert held.pause == Pause("ada", "so it is")
    assert held.is_paused(clock.now())
    clock.advance(1e7)
    assert await _claim(ports) is None
    let_go = await _make(ports, MoveKind.UNHOLD)
    assert let_go.pause is None
    assert await _claim(ports) is not None


async def test_a_hold_may_have_an_end(ports: Ports, clock: HeldClock) -> None:
    await ports.tickets.open([violation()])
    move = Move(MoveKind.HOLD, ADA, "lunch", until=NOON + timedelta(seconds=5))
    held = await ports.ticket_moves.make(1, move)
    assert not held.pause.snoozed if held.pause else False
    clock.advance(4.9)
    assert await _claim(ports) is None
    clock.advance(0.1)
    assert not held.is_paused(clock.now())
    assert await _claim(ports) is not None


async def test_a_snoozed_ticket_comes_back_by_itself_over_a_restart(
    home: Home, clock: HeldClock
) -> None:
    ports = home.open()
    await ports.tickets.open([violation()])
    await _make(ports, MoveKind.SNOOZE)
    home.close()
    ports = home.open()
    snoozed = ports.tickets.get(1)
    assert snoozed is not None
    assert snoozed.pause == Pause("ada", "so it is", SOON, snoozed=True)
    clock.advance(59.0)
    assert await _claim(ports) is None
    clock.advance(1.0)
    assert await _claim(ports) is not None


async def test_a_hold_does_not_hold_up_the_others(ports: Ports) -> None:
    await ports.tickets.open([violation("node-1")])
    await ports.tickets.open([violation("node-2", severity=Severity.INFO)])
    await _make(ports, MoveKind.HOLD)
    claimed = await _claim(ports)
    assert claimed is not None
    assert claimed.target == "node-2"


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (MoveKind.HOLD, TicketState.OPEN),
        (MoveKind.SNOOZE, TicketState.OPEN),
        (MoveKind.ESCALATE, TicketState.ESCALATED),
        (MoveKind.CLOSE, TicketState.CLOSED),
    ],
)
async def test_it_is_taken_from_whoever_works_on_it(
    ports: Ports, kind: MoveKind, state: TicketState
) -> None:
    await ports.tickets.open([violation()])
    claimed = await _claim(ports)
    assert claimed is not None
    await ports.journal.append(run_started(claimed))
    await ports.approvals.request(approval())
    taken = await _make(ports, kind)
    assert (taken.state, taken.worker) == (state, "")
    assert not await ports.leases.renew(claimed, lease_s=30.0)
    with pytest.raises(ConflictError):
        await ports.leases.end(claimed, resolved(claimed))
    run = ports.runs.get("run-1")
    assert run is not None
    assert run.state == "stopped"
    assert "ada" in run.summary
    asked = ports.approvals.get("a1")
    assert asked is not None
    assert asked.state is ApprovalState.WITHDRAWN


async def test_a_hold_ends_with_its_ticket(ports: Ports) -> None:
    opened = await ports.tickets.open([violation()])
    await _make(ports, MoveKind.HOLD)
    held = ports.tickets.get(opened.id)
    assert held is not None
    assert held.is_paused(NOON)
    over = Draft(Kind.TICKET_RESOLVED, {"reason": "it holds"}, ticket=opened.id)
    await ports.leases.end(held, over)
    ended = ports.tickets.get(opened.id)
    assert ended is not None
    assert (ended.state, ended.is_paused(NOON)) == (TicketState.RESOLVED, False)


async def test_being_taken_away_is_no_attempt_and_the_next_one_begins_anew(ports: Ports) -> None:
    await ports.tickets.open([violation()])
    claimed = await _claim(ports)
    assert claimed is not None
    await ports.journal.append(run_started(claimed))
    await _make(ports, MoveKind.HOLD)
    await _make(ports, MoveKind.UNHOLD)
    again = await ports.leases.claim("two", run="run-2", lease_s=30.0, attempts_max=3)
    assert again is not None
    assert (again.attempts, again.run) == (1, "run-2")
    assert again.epoch > claimed.epoch


@pytest.mark.parametrize("kind", [MoveKind.ASSIGN, MoveKind.COMMENT, MoveKind.UNHOLD])
async def test_what_is_only_said_takes_nothing_from_anybody(ports: Ports, kind: MoveKind) -> None:
    await ports.tickets.open([violation()])
    claimed = await _claim(ports)
    assert claimed is not None
    await _make(ports, kind)
    assert await ports.leases.renew(claimed, lease_s=30.0)
    assert not _move(kind).takes


async def test_a_closed_ticket_makes_room_for_a_new_one(ports: Ports) -> None:
    await ports.tickets.open([violation()])
    closed = await _make(ports, MoveKind.CLOSE, "a known fault")
    assert (closed.state, closed.reason) == (TicketState.CLOSED, "a known fault")
    assert await _claim(ports) is None
    assert (await ports.tickets.open([violation()])).id == 2


async def test_what_is_reopened_begins_with_no_attempts(ports: Ports, clock: HeldClock) -> None:
    await ports.tickets.open([violation()])
    for _ in range(3):
        await _claim(ports)
        clock.advance(30.0)
    assert await _claim(ports) is None
    reopened = await _make(ports, MoveKind.REOPEN, "try again")
    assert (reopened.state, reopened.attempts) == (TicketState.OPEN, 0)
    again = await _claim(ports)
    assert again is not None
    assert again.attempts == 1


@pytest.mark.parametrize("kind", [MoveKind.CLOSE, MoveKind.ESCALATE])
async def test_what_is_over_is_live_again_when_it_is_reopened(ports: Ports, kind: MoveKind) -> None:
    await ports.tickets.open([violation()])
    await _make(ports, kind)
    await _make(ports, MoveKind.REOPEN)
    with pytest.raises(ConflictError):
        await ports.tickets.open([violation()])


async def test_what_another_ticket_is_about_by_now_is_not_reopened(ports: Ports) -> None:
    await ports.tickets.open([violation("node-1"), violation("node-2")])
    await _make(ports, MoveKind.CLOSE)
    await ports.tickets.open([violation("node-2")])
    before = _kinds(ports)
    with pytest.raises(ConflictError, match="Ticket 2 covers the same violation"):
        await _make(ports, MoveKind.REOPEN)
    assert _kinds(ports) == before


@pytest.mark.parametrize("kind", sorted(set(MoveKind) - {MoveKind.ASSIGN, MoveKind.COMMENT}))
async def test_what_is_over_is_left_alone(ports: Ports, kind: MoveKind) -> None:
    opened = await ports.tickets.open([violation()])
    await ports.leases.end(opened, resolved(opened))
    if kind is MoveKind.REOPEN:
        assert (await _make(ports, kind)).state is TicketState.OPEN
        return
    with pytest.raises(ConflictError, match="resolved already"):
        await _make(ports, kind)


async def test_nobody_works_on_what_is_escalated_so_it_is_not_held() -> None:
    one = ticket(state=TicketState.ESCALATED)
    assert "escalated" in refusal_of(one, MoveKind.HOLD)
    assert refusal_of(one, MoveKind.CLOSE) == ""


async def test_the_same_words_of_two_people_are_two_comments(ports: Ports) -> None:
    await ports.tickets.open([violation()])
    for by in ("ada", "bob", "ada", "ada"):
        await ports.ticket_moves.make(1, Move(MoveKind.COMMENT, Actor(by, "user"), "me too"))
    said = [entry.actor.id for entry in ports.entries.after(1, limit=10)]
    assert said == ["ada", "bob", "ada"]


async def test_tickets_are_found_by_what_they_say(ports: Ports) -> None:
    await ports.tickets.open([violation("node-1", detail="100% full")])
    await ports.tickets.open([violation("node-2", severity=Severity.INFO, detail="Slow_disk")])
    await _make(ports, MoveKind.ASSIGN, number=2)
    assert [one.id for one in ports.tickets.find(assignee="bob")] == [2]
    assert [one.id for one in ports.tickets.find(severity="critical")] == [1]
    assert [one.id for one in ports.tickets.find(text="slow_DISK")] == [2]
    assert [one.id for one in ports.tickets.find(text="0% f")] == [1]
    assert ports.tickets.find(text="0_f") == []
    assert ports.tickets.find(text="node-1", assignee="bob") == []


@pytest.mark.parametrize("text", ["\ud800", "a\x00b", "x" * 10_000])
async def test_hostile_text_is_kept_and_harms_nobody(ports: Ports, text: str) -> None:
    await ports.tickets.open([violation()])
    for kind in (MoveKind.COMMENT, MoveKind.HOLD, MoveKind.CLOSE):
        await _make(ports, kind, text)
    await ports.ticket_moves.make(1, Move(MoveKind.ASSIGN, ADA, assignee=text))
    assert [one.state for one in ports.tickets.find()] == [TicketState.CLOSED]
    assert ports.tickets.find(text=text)


@pytest.mark.parametrize("attempts", [0, 2])
async def test_only_people_let_go_of_what_a_person_holds(ports: Ports, attempts: int) -> None:
    opened = await ports.tickets.open([violation()])
    await ports.leases.end(opened, replace(resolved(opened), kind=Kind.TICKET_WATCHED))
    watched = await _make(ports, MoveKind.HOLD)
    payload = {"reason": "it broke again", "attempts": attempts}
    again = Draft(Kind.TICKET_REOPENED, payload, ticket=1)
    await ports.leases.end(watched, again)
    held = ports.tickets.get(1)
    assert held is not None
    assert (held.state, held.pause) == (TicketState.OPEN, Pause("ada", "so it is"))
    assert await _claim(ports) is None
    await _make(ports, MoveKind.CLOSE)
    assert (await _make(ports, MoveKind.REOPEN)).pause is None
    assert await _claim(ports) is not None


async def test_a_person_who_reopens_what_is_watched_lets_it_go(ports: Ports) -> None:
    opened = await ports.tickets.open([violation()])
    await ports.leases.end(opened, replace(resolved(opened), kind=Kind.TICKET_WATCHED))
    await _make(ports, MoveKind.HOLD)
    assert (await _make(ports, MoveKind.REOPEN)).pause is None
