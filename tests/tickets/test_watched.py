"""What holds again and is not trusted yet, and what is planned and so no incident."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Actor, Draft, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.ticket import Move, MoveKind, Ticket, TicketState
from operator_protocols.ports import FLAP_S, Condition
from operator_sre.store import Store, open_store
from operator_sre.tickets import Desk
from operator_sre.tickets.desk import PENDING_S
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import proof, run_started, violation

pytestmark = pytest.mark.asyncio
STABLE_S = 10.0
KEY = "shop/node-1/node_down"


class _Desk:
    """A desk, its store and its clock."""

    def __init__(self, store: Store, clock: HeldClock) -> None:
        self.store, self.clock = store, clock
        self.desk = Desk(
            tickets=store.tickets,
            leases=store.leases,
            stable_s=STABLE_S,
            journal=store.journal,
            moves=store.ticket_moves,
        )

    async def claimed(self, *, flapping: bool = False) -> Ticket:
        await self.desk.file([violation()], [])
        if flapping:
            draft = Draft(Kind.TICKET_FLAPPING, {"violations": [KEY]}, ticket=1)
            await self.store.journal.append(draft)
        claimed = await self.store.leases.claim("w", run="run-1", lease_s=1e6, attempts_max=9)
        assert claimed is not None
        return claimed

    def ticket(self) -> Ticket:
        found = self.store.tickets.get(1)
        assert found is not None
        return found

    def well(self, for_s: float) -> list[Condition]:
        since = self.clock.now() - timedelta(seconds=for_s)
        return [Condition("shop", "node_down", "node-1", Health.HEALTHY, since, None)]


@pytest.fixture
def one(tmp_path: Path) -> Iterator[_Desk]:
    """An empty one."""
    clock = HeldClock()
    store = open_store(tmp_path / "operator.db", clock=clock)
    yield _Desk(store, clock)
    store.close()


async def test_what_breaks_again_and_again_is_watched_after_a_proof(one: _Desk) -> None:
    ended = await one.desk.close(await one.claimed(flapping=True), proof())
    assert ended.state is TicketState.WATCHED
    assert "10 minutes" in ended.reason
    assert await one.store.leases.claim("w", run="r", lease_s=1.0, attempts_max=9) is None
    one.clock.advance(FLAP_S)
    assert await one.desk.recover("shop", one.well(FLAP_S - 1), one.clock.now()) == []
    (resolved,) = await one.desk.recover("shop", one.well(FLAP_S), one.clock.now())
    assert resolved.state is TicketState.RESOLVED
    assert resolved.reason.startswith("It was watched and has held for")


async def test_a_proof_over_the_whole_time_resolves_it_at_once(one: _Desk) -> None:
    long = replace(proof(), stable_s=FLAP_S)
    ended = await one.desk.close(await one.claimed(flapping=True), long)
    assert ended.state is TicketState.RESOLVED


async def test_what_others_still_report_is_watched_until_they_agree(one: _Desk) -> None:
    lagging = replace(proof(), pending=(KEY,))
    ended = await one.desk.close(await one.claimed(), lagging)
    assert ended.state is TicketState.WATCHED
    assert KEY in ended.reason
    one.clock.advance(STABLE_S)
    old = violation(since=NOON - timedelta(seconds=300))
    assert await one.desk.file([old], [], one.clock.now()) == []
    (resolved,) = await one.desk.recover("shop", one.well(STABLE_S), one.clock.now())
    assert resolved.state is TicketState.RESOLVED


async def test_others_are_not_waited_for_without_end(one: _Desk) -> None:
    await one.desk.close(await one.claimed(), replace(proof(), pending=(KEY,)))
    one.clock.advance(PENDING_S + 1)
    old = violation(since=NOON - timedelta(seconds=300))
    (again,) = await one.desk.file([old], [], one.clock.now())
    assert (again.state, again.attempts) == (TicketState.OPEN, 1)


async def test_what_was_watched_and_broke_again_is_work_again(one: _Desk) -> None:
    await one.desk.close(await one.claimed(flapping=True), proof())
    one.clock.advance(60.0)
    broken = violation(since=one.clock.now())
    (again,) = await one.desk.file([broken], [], one.clock.now())
    assert (again.id, again.state, again.attempts) == (1, TicketState.OPEN, 1)
    assert "broke again" in again.reason
    assert len(one.store.tickets.find()) == 1


async def test_a_new_break_does_not_hide_in_what_is_watched(one: _Desk) -> None:
    await one.desk.close(await one.claimed(flapping=True), proof())
    (opened,) = await one.desk.file([violation("node-1", "other")], [], one.clock.now())
    assert opened.id == 2


async def test_what_is_planned_is_taken_from_the_agent_and_given_back_later(one: _Desk) -> None:
    claimed = await one.claimed()
    await one.store.journal.append(run_started(claimed))
    await one.desk.plan("shop", [violation()], [], one.clock.now())
    assert one.ticket().is_paused(one.clock.now())
    assert one.ticket().state is TicketState.OPEN
    assert not await one.store.leases.renew(claimed, lease_s=1.0)
    before = one.store.entries.newest(limit=1)
    await one.desk.plan("shop", [violation()], [], one.clock.now())
    assert one.store.entries.newest(limit=1) == before
    await one.desk.plan("shop", [], [violation()], one.clock.now())
    assert one.ticket().pause is None
    assert await one.store.leases.claim("w", run="r", lease_s=1.0, attempts_max=9) is not None


async def test_what_is_broken_besides_is_still_an_incident(one: _Desk) -> None:
    await one.desk.file([violation(), violation("node-1", "other")], [])
    await one.desk.plan("shop", [violation()], [violation("node-1", "other")], one.clock.now())
    assert one.ticket().pause is None


async def test_what_a_person_holds_is_not_let_go_by_a_silence_that_ends(one: _Desk) -> None:
    await one.desk.file([violation()], [])
    ada = Actor("ada", "user")
    await one.store.ticket_moves.make(1, Move(MoveKind.HOLD, ada, "mine"))
    await one.desk.plan("shop", [violation()], [], one.clock.now())
    await one.desk.plan("shop", [], [violation()], one.clock.now())
    pause = one.ticket().pause
    assert pause is not None
    assert pause.by == "ada"


async def test_a_snooze_that_is_over_does_not_undo_what_is_planned(one: _Desk) -> None:
    await one.desk.file([violation()], [])
    until = NOON + timedelta(seconds=60)
    ada = Actor("ada", "user")
    await one.store.ticket_moves.make(1, Move(MoveKind.SNOOZE, ada, "later", until=until))
    for advance_s, by in [(59.0, "ada"), (1.0, "operator")]:
        one.clock.advance(advance_s)
        await one.desk.plan("shop", [violation()], [], one.clock.now())
        pause = one.ticket().pause
        assert pause is not None
        assert pause.by == by
    assert await one.store.leases.claim("w", run="r", lease_s=1.0, attempts_max=9) is None


async def test_what_a_person_holds_stays_held_when_it_breaks_again(one: _Desk) -> None:
    await one.desk.file([violation()], [])
    draft = Draft(Kind.TICKET_FLAPPING, {"violations": [KEY]}, ticket=1)
    await one.store.journal.append(draft)
    await one.desk.close(one.ticket(), proof())
    await one.store.ticket_moves.make(1, Move(MoveKind.HOLD, Actor("ada", "user"), "mine"))
    one.clock.advance(60.0)
    broken = violation(since=one.clock.now())
    (again,) = await one.desk.file([broken], [], one.clock.now())
    assert (again.state, again.attempts) == (TicketState.OPEN, 0)
    assert again.is_paused(one.clock.now())


async def test_live_tickets_of_a_removed_subject_are_closed_and_no_others(one: _Desk) -> None:
    await one.desk.file([violation("node-1")], [])
    await one.desk.file([replace(violation("node-1"), subject="orders")], [])
    await one.desk.retire("shop", "The subject was removed.")
    kept = [ticket.subject for ticket in one.store.tickets.find() if ticket.state.live]
    assert kept == ["orders"]
    (entry,) = one.store.entries.newest(limit=1)
    assert (entry.ticket, entry.payload["reason"]) == (1, "The subject was removed.")
    without = Desk(
        tickets=one.store.tickets,
        leases=one.store.leases,
        stable_s=STABLE_S,
        journal=one.store.journal,
    )
    await without.retire("orders", "It has no moves.")
    assert [ticket.subject for ticket in one.store.tickets.find() if ticket.state.live] == [
        "orders"
    ]
