"""What the desk writes down of a ticket: once, under its run, and only what it knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.ports import FLAP_S, Condition
from operator_sre.store import Store, open_store
from operator_sre.tickets import Desk
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import proof, violation

pytestmark = pytest.mark.asyncio

STABLE_S = 10.0
BREAKS = tuple(NOON - timedelta(seconds=second) for second in (90, 60, 30))
FLAPS = Condition("shop", "node_down", "node-1", Health.BROKEN, NOON, NOON, "", BREAKS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    one = open_store(tmp_path / "operator.db", clock=HeldClock())
    yield one
    one.close()


def _desk(store: Store) -> Desk:
    return Desk(
        tickets=store.tickets, leases=store.leases, stable_s=STABLE_S, journal=store.journal
    )


async def _claim(store: Store) -> Ticket:
    ticket = await store.leases.claim("w", run="run-1", lease_s=30.0, attempts_max=3)
    assert ticket is not None
    return ticket


async def test_a_second_incident_leaves_the_first_ticket_as_it_is(store: Store) -> None:
    desk = _desk(store)
    (first,) = await desk.file([violation("node-1")], [])
    (second,) = await desk.file([violation("node-1"), violation("node-2")], [])
    assert second.id != first.id
    assert store.tickets.get(first.id) == first
    kinds = [entry.kind for entry in store.entries.after(0, limit=9)]
    assert kinds == [Kind.TICKET_OPENED] * 2


async def test_of_two_monitors_one_writes_that_a_ticket_is_flapping(store: Store) -> None:
    await _desk(store).file([violation("node-1")], [])
    before = store.tickets.find()

    class Late:
        """The list of tickets from before the other monitor wrote it."""

        get = store.tickets.get
        grow = store.tickets.grow
        open = store.tickets.open

        def find(self, **wanted: object) -> list[Ticket]:
            return list(before)

    late = Desk(tickets=Late(), leases=store.leases, stable_s=STABLE_S, journal=store.journal)
    for desk in (_desk(store), late):
        await desk.flag("shop", [FLAPS], NOON)
    told = [one for one in store.entries.after(0, limit=9) if one.kind is Kind.TICKET_FLAPPING]
    assert [one.payload for one in told] == [
        {"violations": ["shop/node-1/node_down"], "window_s": FLAP_S}
    ]


async def test_what_flaps_has_to_hold_for_longer_before_anybody_wrote_that_it_does(
    store: Store,
) -> None:
    desk = _desk(store)
    await desk.file([violation("node-1")], [])
    well = replace(FLAPS, health=Health.HEALTHY, since=NOON - timedelta(seconds=2 * STABLE_S))
    assert well.flapping(NOON)
    assert await desk.recover("shop", [well], NOON) == []
    calm = replace(well, breaks=BREAKS[:1])
    (ended,) = await desk.recover("shop", [calm], NOON)
    assert ended.state is TicketState.RESOLVED


async def test_one_violation_that_flaps_keeps_its_whole_ticket(store: Store) -> None:
    await store.tickets.open([violation("node-1"), violation("node-2")])
    long_ago = NOON - timedelta(seconds=2 * STABLE_S)
    flaps = replace(FLAPS, health=Health.HEALTHY, since=long_ago)
    calm = replace(flaps, target="node-2", breaks=())
    assert await _desk(store).recover("shop", [flaps, calm], NOON) == []
    calmed = [replace(flaps, breaks=()), calm]
    assert len(await _desk(store).recover("shop", calmed, NOON)) == 1


@pytest.mark.parametrize(
    ("held", "kind"), [(True, Kind.TICKET_RESOLVED), (False, Kind.TICKET_ESCALATED)]
)
async def test_the_end_of_a_ticket_belongs_to_the_run_that_ended_it(
    store: Store, held: bool, kind: Kind
) -> None:
    desk = _desk(store)
    await desk.file([violation("node-1")], [])
    await desk.close(await _claim(store), proof(held=held), reason="because")
    (entry,) = store.entries.newest(limit=1)
    assert (entry.kind, entry.ticket, entry.run) == (kind, 1, "run-1")
    assert entry.payload["reason"] == "because"


async def test_a_ticket_that_a_person_ends_names_the_person(store: Store) -> None:
    desk = _desk(store)
    (ticket,) = await desk.file([violation("node-1")], [])
    ada = Actor("ada", "user", "cli")
    await desk.close(ticket, None, reason="it is gone", by=ada)
    (entry,) = store.entries.newest(limit=1)
    assert (entry.kind, entry.actor) == (Kind.TICKET_ESCALATED, ada)


async def test_a_recovery_that_nobody_worked_on_is_one_check_and_says_so(store: Store) -> None:
    desk = _desk(store)
    await desk.file([violation("node-1")], [])
    since = NOON - timedelta(seconds=STABLE_S)
    (ended,) = await desk.recover(
        "shop", [Condition("shop", "node_down", "node-1", Health.HEALTHY, since, None)], NOON
    )
    assert ended.reason == "It recovered by itself and has held for 10 s; nothing was changed."
    (entry,) = store.entries.newest(limit=1)
    assert entry.payload["proof"]["looks"] == 1
