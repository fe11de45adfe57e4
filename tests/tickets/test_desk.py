"""The desk: one ticket for each incident, and an end only with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import Move, MoveKind, Ticket, TicketState
from operator_protocols.errors import ConflictError
from operator_protocols.ports import Condition
from operator_sre.store import Store, open_store
from operator_sre.tickets import INCIDENTS_MAX, Desk, incidents_of, needs_of
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import escalated, proof, resolved, violation
from tests.measuring import GROWTH_MAX, growth

pytestmark = pytest.mark.asyncio

STABLE_S = 10.0
TARGETS = [
    Target("store", "store"),
    Target("node-1", "node", depends_on=("store",)),
    Target("node-2", "node", depends_on=("store",)),
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    one = open_store(tmp_path / "operator.db", clock=HeldClock())
    yield one
    one.close()


@pytest.fixture
def desk(store: Store) -> Desk:
    return Desk(tickets=store.tickets, leases=store.leases, stable_s=STABLE_S)


def _filed(store: Store) -> list[list[str]]:
    return [[one.target for one in ticket.violations] for ticket in store.tickets.find()]


async def _claim(store: Store) -> Ticket:
    ticket = await store.leases.claim("w", run="run-1", lease_s=30.0, attempts_max=3)
    assert ticket is not None
    return ticket


def _well(
    *targets: str, for_s: float = STABLE_S, health: Health = Health.HEALTHY
) -> list[Condition]:
    since = NOON - timedelta(seconds=for_s)
    return [Condition("shop", "node_down", target, health, since, None) for target in targets]


async def test_nothing_broken_files_nothing(store: Store, desk: Desk) -> None:
    assert list(await desk.file([], TARGETS)) == []
    assert store.entries.newest(limit=1) == []


async def test_what_depends_on_one_another_is_one_ticket(store: Store, desk: Desk) -> None:
    breaks = [violation(name) for name in ("node-1", "node-2", "store")]
    (ticket,) = await desk.file(breaks, TARGETS)
    assert ticket.target == "store"
    assert _filed(store) == [["store", "node-1", "node-2"]]


async def test_what_has_nothing_in_common_is_two_tickets(store: Store, desk: Desk) -> None:
    assert len(await desk.file([violation("node-1"), violation("node-2")], TARGETS)) == 2
    assert _filed(store) == [["node-1"], ["node-2"]]


async def test_the_same_break_is_filed_once(store: Store, desk: Desk) -> None:
    await desk.file([violation("node-1")], TARGETS)
    assert list(await desk.file([violation("node-1", detail="other words")], TARGETS)) == []
    assert _filed(store) == [["node-1"]]


async def test_what_joins_an_incident_grows_its_ticket(store: Store, desk: Desk) -> None:
    await desk.file([violation("store")], TARGETS)
    both = [violation("store"), violation("node-1")]
    (grown,) = await desk.file(both, TARGETS)
    assert grown.id == 1
    assert _filed(store) == [["store", "node-1"]]


async def test_a_root_that_is_seen_later_grows_the_ticket_too(store: Store, desk: Desk) -> None:
    await desk.file([violation("node-1")], TARGETS)
    await desk.file([violation("node-1"), violation("store")], TARGETS)
    assert _filed(store) == [["node-1", "store"]]


async def test_a_claimed_ticket_grows(store: Store, desk: Desk) -> None:
    await desk.file([violation("store")], TARGETS)
    await _claim(store)
    (grown,) = await desk.file([violation("store"), violation("node-1")], TARGETS)
    assert grown.state is TicketState.CLAIMED
    assert len(grown.violations) == 2


async def test_an_escalated_ticket_takes_no_new_violation(store: Store, desk: Desk) -> None:
    (first,) = await desk.file([violation("store")], TARGETS)
    await store.leases.end(first, escalated(first))
    (second,) = await desk.file([violation("store"), violation("node-1")], TARGETS)
    assert second.id != first.id
    assert second.state is TicketState.OPEN
    assert [one.target for one in second.violations] == ["node-1"]


async def test_what_recovered_and_breaks_again_does_not_hide_in_an_escalated_ticket(
    store: Store, desk: Desk
) -> None:
    names = ("store", "node-1")
    (first,) = await desk.file([violation(name) for name in names], TARGETS)
    await store.leases.end(first, escalated(first))
    still = [violation(name, since=first.opened_at) for name in names]
    assert await desk.file(still, TARGETS, NOON) == []
    later = NOON + timedelta(seconds=60)
    again = violation("node-1", since=later)
    (reopened,) = await desk.file([still[0], again], TARGETS, later)
    assert (reopened.id, reopened.state) == (first.id, TicketState.OPEN)
    assert "broke again" in reopened.reason


async def test_of_two_tickets_the_living_one_takes_what_joins_them(
    store: Store, desk: Desk
) -> None:
    (first,) = await desk.file([violation("store")], TARGETS)
    await store.leases.end(first, escalated(first))
    await desk.file([violation("store"), violation("node-1")], TARGETS)
    everything = [violation(name) for name in ("store", "node-1", "node-2")]
    (grown,) = await desk.file(everything, TARGETS)
    assert (grown.id, len(grown.violations)) == (2, 2)


async def test_a_ticket_filed_by_another_meanwhile_is_no_error(store: Store) -> None:
    class Slow:
        """Another monitor files between our look at the tickets and our own filing."""

        get = store.tickets.get
        grow = store.tickets.grow
        open = store.tickets.open

        def find(self, **wanted: object) -> list[Ticket]:
            return []

    await store.tickets.open([violation("node-1")])
    blind = Desk(tickets=Slow(), leases=store.leases, stable_s=STABLE_S)
    assert list(await blind.file([violation("node-1")], TARGETS)) == []
    assert _filed(store) == [["node-1"]]


async def test_what_has_held_for_long_is_resolved_with_a_proof(store: Store, desk: Desk) -> None:
    await desk.file([violation("node-1")], TARGETS)
    (ended,) = await desk.recover("shop", _well("node-1"), NOON)
    assert ended.state is TicketState.RESOLVED
    told = store.entries.newest(limit=1)[0]
    assert told.kind is Kind.TICKET_RESOLVED
    assert told.payload["proof"]["held"] is True
    assert told.payload["proof"]["stable_s"] == STABLE_S


@pytest.mark.parametrize(
    "conditions",
    [
        [],
        _well("node-1", for_s=STABLE_S - 0.1),
        _well("node-1", health=Health.UNKNOWN),
        _well("node-1", health=Health.BROKEN),
        _well("node-2"),
    ],
    ids=["not spoken of", "too short", "unknown", "broken", "another target"],
)
async def test_nothing_else_is_a_recovery(
    store: Store, desk: Desk, conditions: list[Condition]
) -> None:
    await desk.file([violation("node-1")], TARGETS)
    assert list(await desk.recover("shop", conditions, NOON)) == []
    assert [one.state for one in store.tickets.find()] == [TicketState.OPEN]


@pytest.mark.parametrize(
    "other",
    [
        _well("node-1", for_s=1.0),
        _well("node-1", health=Health.UNKNOWN),
        _well("node-1", health=Health.BROKEN),
        [],
    ],
    ids=["too short", "unknown", "broken", "not spoken of"],
)
async def test_every_violation_must_have_recovered(
    store: Store, desk: Desk, other: list[Condition]
) -> None:
    await desk.file([violation("store"), violation("node-1")], TARGETS)
    assert list(await desk.recover("shop", [*_well("store"), *other], NOON)) == []
    assert len(await desk.recover("shop", _well("store", "node-1"), NOON)) == 1


async def test_a_ticket_that_somebody_works_on_is_left_alone(store: Store, desk: Desk) -> None:
    await desk.file([violation("node-1")], TARGETS)
    claimed = await _claim(store)
    assert list(await desk.recover("shop", _well("node-1", for_s=1e6), NOON)) == []
    assert store.tickets.get(claimed.id) == claimed


async def test_a_ticket_that_was_claimed_this_moment_is_left_alone(store: Store) -> None:
    (seen,) = [await store.tickets.open([violation("node-1")])]

    class Late:
        """The list of tickets from before the claim."""

        get = store.tickets.get
        grow = store.tickets.grow
        open = store.tickets.open

        def find(self, **wanted: object) -> list[Ticket]:
            return [seen]

    claimed = await _claim(store)
    late = Desk(tickets=Late(), leases=store.leases, stable_s=STABLE_S)
    assert list(await late.recover("shop", _well("node-1"), NOON)) == []
    assert store.tickets.get(claimed.id) == claimed


async def test_an_escalated_ticket_recovers_by_itself(store: Store, desk: Desk) -> None:
    (ticket,) = await desk.file([violation("node-1")], TARGETS)
    await store.leases.end(ticket, escalated(ticket))
    (ended,) = await desk.recover("shop", _well("node-1"), NOON)
    assert ended.state is TicketState.RESOLVED


async def test_tickets_of_another_subject_do_not_recover_with_it(store: Store, desk: Desk) -> None:
    await desk.file([violation("node-1", subject="bank")], TARGETS)
    assert list(await desk.recover("shop", _well("node-1"), NOON)) == []


async def test_resolved_needs_a_proof_that_held(store: Store, desk: Desk) -> None:
    for given, expected in [
        (proof(held=True), TicketState.RESOLVED),
        (proof(held=False), TicketState.ESCALATED),
        (None, TicketState.ESCALATED),
    ]:
        ticket = await store.tickets.open([violation(f"node-{given}")])
        ended = await desk.close(ticket, given, reason="because")
        assert (ended.state, ended.reason) == (expected, "because")


async def test_an_end_always_has_a_reason(store: Store, desk: Desk) -> None:
    for name, given in [("a", proof(detail="as seen")), ("b", proof(held=False, detail="as seen"))]:
        ticket = await store.tickets.open([violation(name)])
        assert (await desk.close(ticket, given)).reason == "as seen"
    ticket = await store.tickets.open([violation("c")])
    assert (await desk.close(ticket, None)).reason != ""


async def test_a_ticket_that_changed_hands_is_not_closed(store: Store, desk: Desk) -> None:
    seen = await store.tickets.open([violation("node-1")])
    await store.leases.end(seen, resolved(seen))
    with pytest.raises(ConflictError):
        await desk.close(seen, None, reason="late")
    assert [one.state for one in store.tickets.find()] == [TicketState.RESOLVED]


async def test_what_needs_a_tickets_target_joins_it_though_that_is_not_broken_now(
    store: Store, desk: Desk
) -> None:
    await desk.file([violation("store")], TARGETS)
    (grown,) = await desk.file([violation("node-1")], TARGETS)
    assert grown.id == 1
    assert _filed(store) == [["store", "node-1"]]


async def test_what_a_tickets_target_needs_joins_it_though_that_is_not_broken_now(
    store: Store, desk: Desk
) -> None:
    await desk.file([violation("node-1")], TARGETS)
    await desk.file([violation("store")], TARGETS)
    assert _filed(store) == [["node-1", "store"]]


async def test_what_needs_an_escalated_tickets_target_has_one_of_its_own(
    store: Store, desk: Desk
) -> None:
    (first,) = await desk.file([violation("store")], TARGETS)
    await store.leases.end(first, escalated(first))
    (second,) = await desk.file([violation("node-1")], TARGETS)
    assert second.id != first.id


async def test_what_has_nothing_to_do_with_a_ticket_does_not_join_it(
    store: Store, desk: Desk
) -> None:
    await desk.file([violation("node-1")], TARGETS)
    await desk.file([violation("node-2")], TARGETS)
    assert _filed(store) == [["node-1"], ["node-2"]]


async def test_a_flood_is_one_ticket(store: Store, desk: Desk) -> None:
    targets = [Target(f"n-{number:03}", "node") for number in range(INCIDENTS_MAX + 1)]
    few, many = targets[:-1], targets
    assert len(incidents_of([violation(one.name) for one in few], few)) == INCIDENTS_MAX
    (ticket,) = await desk.file([violation(one.name) for one in many], many)
    assert len(ticket.violations) == INCIDENTS_MAX + 1
    assert list(await desk.file([violation(one.name) for one in many], many)) == []


async def test_a_flood_is_filed_in_no_time(store: Store, desk: Desk) -> None:
    """Each step once over all of them, and not once for each of them."""
    hub = Target("hub", "hub")
    targets = [hub, *(Target(f"n-{one}", "node", depends_on=("hub",)) for one in range(3000))]
    violations = [violation(one.name) for one in targets]
    (ticket,) = await desk.file(violations, targets)
    assert len(ticket.violations) == len(targets)
    assert needs_of({"n-1"}, targets) == {"n-1": frozenset({"hub"})}
    assert growth(lambda n: incidents_of(violations[:n], targets[:n]), 750) <= GROWTH_MAX
    names = [one.name for one in targets]
    assert growth(lambda n: needs_of(set(names[:n]), targets[:n]), 750) <= GROWTH_MAX


async def test_flapping_is_said_once_in_the_ticket_that_holds_it(store: Store) -> None:
    desk = Desk(
        tickets=store.tickets, leases=store.leases, stable_s=STABLE_S, journal=store.journal
    )
    await desk.file([violation("node-1"), violation("node-2")], TARGETS)
    breaks = tuple(NOON - timedelta(seconds=second) for second in (30, 20, 10))
    flaps = Condition("shop", "node_down", "node-1", Health.BROKEN, NOON, NOON, "", breaks)
    for _ in range(3):
        await desk.flag("shop", [flaps, *_well("node-2")], NOON)
    assert [one.flapping for one in store.tickets.find()] == [True, False]
    told = [one for one in store.entries.after(0, limit=9) if one.kind is Kind.TICKET_FLAPPING]
    assert [one.payload["violations"] for one in told] == [["shop/node-1/node_down"]]


async def test_a_ticket_that_grew_this_moment_is_not_recovered(store: Store, desk: Desk) -> None:
    seen = await store.tickets.open([violation("node-1")])
    grown = await store.tickets.grow(seen, [violation("node-2")])

    class Late:
        """The list of tickets from before another monitor added to one."""

        get = store.tickets.get
        grow = store.tickets.grow
        open = store.tickets.open

        def find(self, **wanted: object) -> list[Ticket]:
            return [seen]

    late = Desk(tickets=Late(), leases=store.leases, stable_s=STABLE_S)
    assert list(await late.recover("shop", _well("node-1"), NOON)) == []
    assert store.tickets.get(seen.id) == grown
    assert len(await desk.recover("shop", _well("node-1", "node-2"), NOON)) == 1


async def test_what_a_person_escalates_stays_so_until_a_person_acts(
    store: Store, desk: Desk
) -> None:
    ada = Actor("ada", "user")
    ours, theirs = [await store.tickets.open([violation(name)]) for name in ("node-1", "node-2")]
    await store.leases.end(ours, escalated(ours))
    await store.ticket_moves.make(theirs.id, Move(MoveKind.ESCALATE, ada, "the disk is ours"))
    well = _well("node-1", "node-2")
    (recovered,) = await desk.recover("shop", well, NOON)
    assert recovered.id == ours.id
    kept = store.tickets.get(theirs.id)
    assert kept is not None
    assert (kept.state, kept.reason) == (TicketState.ESCALATED, "the disk is ours")
    await store.ticket_moves.make(theirs.id, Move(MoveKind.UNHOLD, ada))
    (recovered,) = await desk.recover("shop", well, NOON)
    assert (recovered.id, recovered.state) == (theirs.id, TicketState.RESOLVED)


async def test_a_person_may_take_over_what_an_agent_has_escalated(store: Store, desk: Desk) -> None:
    ticket = await store.tickets.open([violation("node-1")])
    await store.leases.end(ticket, escalated(ticket))
    move = Move(MoveKind.ESCALATE, Actor("ada", "user"), "mine")
    taken = await store.ticket_moves.make(ticket.id, move)
    assert taken.is_paused(NOON)
    assert await store.ticket_moves.make(ticket.id, move) == taken
    assert await desk.recover("shop", _well("node-1"), NOON) == []


async def test_what_an_agent_was_at_is_not_said_to_be_unchanged(store: Store, desk: Desk) -> None:
    await store.tickets.open([violation("node-1")])
    claimed = await _claim(store)
    await store.leases.end(claimed, escalated(claimed))
    (ended,) = await desk.recover("shop", _well("node-1"), NOON)
    assert "nothing was changed" not in ended.reason


async def test_each_subject_has_to_hold_for_as_long_as_its_own_interval_says(
    store: Store,
) -> None:
    desk = Desk(
        tickets=store.tickets, leases=store.leases, stable_s={"shop": 3 * STABLE_S}.__getitem__
    )
    await store.tickets.open([violation("node-1")])
    assert await desk.recover("shop", _well("node-1"), NOON) == []
    (ended,) = await desk.recover("shop", _well("node-1", for_s=3 * STABLE_S), NOON)
    assert ended.state is TicketState.RESOLVED
