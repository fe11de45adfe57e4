"""A repair is proven by looking, for long enough, and by nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pytest

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import CheckResult, Finding, Observation
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.ticket import Ticket
from operator_sre.verify import Verifier
from tests.contract.clock import NOON, LeapingClock
from tests.contract.samples import ticket, violation

pytestmark = pytest.mark.asyncio

STABLE_S, DEADLINE_S, INTERVAL_S = 5.0, 20.0, 1.0
WELL, UNKNOWN, BROKEN = Health
TICKET = ticket(violation("node-1"))


class _World:
    """One look a second; each shows the next health, and the last one for ever after."""

    def __init__(self, *healths: Health, others: Iterable[tuple[str, Health]] = ()) -> None:
        self.clock = LeapingClock()
        self._healths = list(healths)
        self._others = list(others)
        self.looks = 0
        self.ticket = TICKET
        self.look_s = 0.0

    async def look(self) -> CheckResult:
        health = self._healths[min(self.looks, len(self._healths) - 1)]
        self.looks += 1
        self.clock.advance(self.look_s)
        findings = [Finding("node_down", "node-1", health, "seen")]
        findings += [Finding("node_down", name, one) for name, one in self._others]
        return CheckResult(Observation("shop", self.clock.now()), tuple(findings))

    def current(self) -> Ticket:
        return self.ticket

    async def prove(self, *, before: frozenset[str] = frozenset()) -> Proof:
        verifier = Verifier(
            clock=self.clock, stable_s=STABLE_S, deadline_s=DEADLINE_S, interval_s=INTERVAL_S
        )
        return await verifier.prove(self.current, self.look, before=before)


async def test_it_holds_only_after_the_stable_period() -> None:
    world = _World(WELL)
    proof = await world.prove()
    assert proof.held
    assert proof.health is Health.HEALTHY
    assert (proof.looks, proof.stable_s) == (6, STABLE_S)
    assert (proof.since, proof.until) == (NOON, NOON + timedelta(seconds=STABLE_S))
    assert world.clock.monotonic() == STABLE_S


async def test_one_look_is_never_a_proof() -> None:
    world = _World(WELL)
    verifier = Verifier(clock=world.clock, stable_s=0.0, deadline_s=20.0, interval_s=1.0)
    proof = await verifier.prove(world.current, world.look, before=frozenset())
    assert proof.held
    assert proof.looks == 2


async def test_the_period_begins_when_it_becomes_well() -> None:
    proof = await _World(BROKEN, BROKEN, BROKEN, WELL).prove()
    assert proof.held
    assert proof.since == NOON + timedelta(seconds=3)
    assert proof.until == NOON + timedelta(seconds=8)


@pytest.mark.parametrize("blip", [BROKEN, UNKNOWN])
async def test_a_blip_begins_the_period_anew(blip: Health) -> None:
    proof = await _World(WELL, WELL, WELL, WELL, blip, WELL).prove()
    assert proof.held
    assert proof.since == NOON + timedelta(seconds=5)
    assert proof.stable_s == STABLE_S


@pytest.mark.parametrize("blip", [BROKEN, UNKNOWN])
async def test_flapping_is_no_health(blip: Health) -> None:
    proof = await _World(*[WELL, WELL, WELL, blip] * 10).prove()
    assert not proof.held
    assert proof.looks == 21


@pytest.mark.parametrize("health", [BROKEN, UNKNOWN])
async def test_what_never_becomes_well_ends_at_the_deadline(health: Health) -> None:
    world = _World(health)
    proof = await world.prove()
    assert not proof.held
    assert proof.health is health
    assert proof.stable_s == 0.0
    assert world.clock.monotonic() == DEADLINE_S
    assert health in proof.detail


async def test_what_becomes_well_too_late_is_not_proven() -> None:
    proof = await _World(*[BROKEN] * 17, WELL).prove()
    assert not proof.held
    assert proof.health is Health.HEALTHY


async def test_looks_that_take_long_do_not_stretch_the_deadline() -> None:
    world = _World(UNKNOWN)
    world.look_s = 7.0
    proof = await world.prove()
    assert not proof.held
    assert world.clock.monotonic() <= DEADLINE_S + world.look_s + INTERVAL_S


async def test_what_is_not_spoken_of_is_not_proven() -> None:
    world = _World(WELL)
    world.ticket = ticket(violation("node-1"), violation("vanished"))
    proof = await world.prove()
    assert not proof.held
    assert proof.health is Health.UNKNOWN


async def test_something_else_that_broke_meanwhile_is_harm() -> None:
    proof = await _World(WELL, others=[("node-2", BROKEN)]).prove()
    assert not proof.held
    assert proof.harm == ("shop/node-2/node_down",)
    assert "shop/node-2/node_down" in proof.detail


async def test_what_was_broken_before_is_no_harm() -> None:
    before = frozenset({"shop/node-2/node_down"})
    proof = await _World(WELL, others=[("node-2", BROKEN)]).prove(before=before)
    assert proof.held
    assert proof.harm == ()


async def test_a_ticket_that_grows_meanwhile_must_hold_as_a_whole() -> None:
    world = _World(WELL, others=[("node-2", BROKEN)])
    look = world.look

    async def grow_on_the_third() -> CheckResult:
        check = await look()
        if world.looks == 3:
            world.ticket = ticket(violation("node-1"), violation("node-2"))
        return check

    world.look = grow_on_the_third  # type: ignore[method-assign]
    proof = await world.prove()
    assert not proof.held
    assert proof.health is BROKEN
    assert proof.harm == ()


async def test_a_ticket_that_grew_and_is_well_again_is_proven_as_a_whole() -> None:
    world = _World(WELL, others=[("node-2", WELL)])
    world.ticket = ticket(violation("node-1"), violation("node-2"))
    assert (await world.prove()).held


async def test_what_is_added_late_holds_from_then_on_and_inherits_no_time() -> None:
    world = _World(WELL, others=[("node-2", WELL)])
    look = world.look

    async def grow_at_the_last() -> CheckResult:
        check = await look()
        if world.clock.monotonic() == STABLE_S:
            world.ticket = ticket(violation("node-1"), violation("node-2"))
        return check

    world.look = grow_at_the_last  # type: ignore[method-assign]
    proof = await world.prove()
    assert proof.held
    assert (proof.since, proof.stable_s) == (NOON + timedelta(seconds=STABLE_S), STABLE_S)
    assert world.clock.monotonic() == 2 * STABLE_S


async def test_each_subject_has_a_stable_period_of_its_own_and_the_time_for_it() -> None:
    for stable_s in (2.0, 30.0):
        world = _World(WELL)
        verifier = Verifier(
            clock=world.clock,
            stable_s={"shop": stable_s}.__getitem__,
            deadline_s=DEADLINE_S,
            interval_s=INTERVAL_S,
        )
        proof = await verifier.prove(world.current, world.look, before=frozenset())
        assert (proof.held, proof.stable_s) == (True, stable_s)
