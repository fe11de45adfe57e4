"""A trial over fakes: its states, its times, and that all is taken down whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from operator_evals.campaign import Campaign, Control, Mind, Planned, Scenario, Variant
from operator_evals.facts import Snapshot, TicketFact, TrialFacts, TrialState
from operator_evals.score import score
from operator_evals.trial import Cast, Hurting, Place, Trial, Witness, Working, run_trial
from operator_protocols.errors import RigError
from operator_protocols.ports import CorrectOutcome

FAULT = Scenario("shop", "till_kill", CorrectOutcome.MITIGATED, ("answers",), ("process_dead@hit",))
CAMPAIGN = Campaign(
    "c",
    (FAULT,),
    (Variant("reasoner"),),
    {"reasoner": 1},
    hold_s=4.0,
    well_s_max=20.0,
    detect_s_max=30.0,
    end_s_max=40.0,
    control_s=10.0,
)
OPEN = TicketFact(1, "open", "till-1", ("answers",))
RESOLVED = replace(OPEN, state="resolved")


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.at_s = 100.0

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self.at_s)

    def monotonic(self) -> float:
        return self.at_s

    async def sleep(self, seconds: float) -> None:
        self.at_s += seconds
        await asyncio.sleep(0)


@dataclass
class World:
    """A rig, its fault and a variant that follow a script of times; it notes what is done to it."""

    time: Time
    tickets_at: Callable[[float], Sequence[TicketFact]] = lambda since_s: ()
    broken: tuple[str, ...] = ()
    wrong: str = ""
    why_not: str = ""
    ups: Exception | None = None
    dies_at_s: float = 1e9
    done: list[str] = field(default_factory=list)
    injected_s: float | None = None
    hurt: asyncio.Event = field(default_factory=asyncio.Event)

    async def up(self) -> None:
        self.done.append("up")
        if self.ups is not None:
            raise self.ups

    async def look(self) -> Snapshot:
        return Snapshot(0.0, broken=self.broken)

    async def down(self) -> None:
        self.done.append("down")

    def unavailable(self) -> str:
        return self.why_not

    async def inject(self) -> str:
        self.done.append("inject")
        self.injected_s = self.time.at_s
        self.hurt.set()
        return "till-1"

    async def still(self) -> str:
        return self.wrong

    async def heal(self) -> None:
        self.done.append("heal")

    async def start(self) -> None:
        self.done.append("start")

    def watching(self) -> bool:
        if self.injected_s is not None and self.time.at_s - self.injected_s > self.dies_at_s:
            raise RigError("The operator ended by itself with 1.")
        return True

    def tickets(self) -> Sequence[TicketFact]:
        since_s = -1.0 if self.injected_s is None else self.time.at_s - self.injected_s
        return self.tickets_at(since_s)

    async def stop(self) -> None:
        self.done.append("stop")

    def complete(self, facts: TrialFacts) -> TrialFacts:
        self.done.append("read")
        return replace(facts, tickets=tuple(self.tickets()))


def _repaired(since_s: float) -> Sequence[TicketFact]:
    if since_s < 3:
        return ()
    return (OPEN,) if since_s < 8 else (RESOLVED,)


async def _tried(world: World, scenario: Scenario = FAULT) -> TrialFacts:
    cast = Cast(world, world, world, world)
    return await run_trial(Planned(scenario, "reasoner", 0), CAMPAIGN, cast, world.time)


@pytest.mark.asyncio
async def test_a_trial_takes_all_steps_in_their_order_and_its_times_are_of_one_clock() -> None:
    world = World(Time(), tickets_at=_repaired)
    facts = await _tried(world)
    assert world.done == ["up", "start", "inject", "stop", "read", "heal", "down"]
    assert (facts.state, facts.hit, facts.why) == (TrialState.DONE, "till-1", "")
    moments = facts.moments
    assert moments.healthy is not None
    assert moments.fault_injected is not None
    assert moments.ticket_created == pytest.approx(moments.fault_injected + 3, abs=0.3)
    assert moments.resolved == pytest.approx(moments.fault_injected + 8, abs=0.3)
    assert moments.ended is not None
    assert moments.resolved is not None
    assert moments.ended >= moments.resolved + CAMPAIGN.hold_s
    assert facts.overhead_s == pytest.approx(0.0, abs=0.01)  # this harness itself takes no time
    assert score(facts, cap_s=70.0).ended_right
    for port in (Place, Hurting, Working, Witness):
        assert isinstance(world, port)
    assert Trial.__doc__


@pytest.mark.asyncio
async def test_whoever_says_resolved_while_the_oracle_disagrees_gets_nothing() -> None:
    facts = await _tried(World(Time(), tickets_at=_repaired, wrong="till-1 is dead"))
    worth = score(facts, cap_s=70.0)
    assert (facts.still, facts.still_after_hold) == ("till-1 is dead", "till-1 is dead")
    assert not (worth.mitigated)
    assert not (worth.ended_right)
    assert not (worth.end_to_end)
    assert worth.mitigate_s == 70.0


@pytest.mark.asyncio
async def test_a_trial_that_could_not_begin_is_invalid_and_still_taken_down() -> None:
    never_up = World(Time(), ups=RigError("No port is free."))
    never_well = World(Time(), broken=("answers@till-1",))
    early = World(Time(), tickets_at=lambda since_s: (OPEN,))
    unable = World(Time(), why_not="no volumes here")
    for world, word in (
        (never_up, "No port is free"),
        (never_well, "answers@till-1"),
        (early, "before anything was broken"),
        (unable, "no volumes here"),
    ):
        facts = await _tried(world)
        assert facts.state is TrialState.INVALID, facts
        assert word in facts.why
        assert "inject" not in world.done
        assert world.done[-1] == "down"
        assert not score(facts, cap_s=70.0).valid


@pytest.mark.asyncio
async def test_what_is_never_detected_or_never_ends_is_told_as_it_is() -> None:
    unseen = await _tried(World(Time(), wrong="dead"))
    assert unseen.moments.ticket_created is None
    assert unseen.state is TrialState.DONE
    assert unseen.still == "dead"
    endless = await _tried(World(Time(), tickets_at=lambda s: (OPEN,) if s > 1 else ()))
    assert endless.moments.ticket_created is not None
    assert endless.moments.resolved is None

    def again(since_s: float) -> Sequence[TicketFact]:
        """A second ticket comes during the hold, and is waited for as well."""
        second = replace(OPEN, id=2, state="open" if since_s < 20 else "escalated")
        return (*_repaired(since_s), *((second,) if since_s > 10 else ()))

    twice = await _tried(World(Time(), tickets_at=again))
    assert twice.moments.fault_injected is not None
    assert twice.moments.resolved == pytest.approx(twice.moments.fault_injected + 20, abs=0.3)


@pytest.mark.asyncio
async def test_a_control_breaks_nothing_and_waits_for_whoever_repairs_all_the_same() -> None:
    nothing = Scenario("shop", Control.NOTHING)
    calm = World(Time())
    facts = await _tried(calm, nothing)
    assert calm.done[-3:] == ["read", "heal", "down"]
    assert score(facts, cap_s=70.0).ended_right
    spoilt = await _tried(World(Time(), wrong="answers@till-1"), nothing)
    assert (spoilt.state, "answers@till-1" in spoilt.why) == (TrialState.INVALID, True)
    time = Time()
    busy = World(time, tickets_at=lambda since_s: (RESOLVED,) if time.at_s > 105 else ())
    assert not score(await _tried(busy, nothing), cap_s=70.0).ended_right
    time.at_s = 100.0
    alerted = Scenario("shop", Control.MISLEADING)
    assert score(await _tried(busy, alerted), cap_s=70.0).ended_right


@pytest.mark.asyncio
async def test_an_operator_that_ends_by_itself_fails_the_trial_and_leaves_nothing() -> None:
    world = World(Time(), tickets_at=_repaired, dies_at_s=5.0)
    facts = await _tried(world)
    assert facts.state is TrialState.FAILED
    assert "ended by itself" in facts.why
    assert world.done[-3:] == ["stop", "heal", "down"]


@pytest.mark.asyncio
async def test_a_trial_that_is_cancelled_is_taken_down() -> None:
    world = World(Time(), tickets_at=lambda since_s: (OPEN,) if since_s > 1 else ())
    task = asyncio.ensure_future(_tried(world))
    await world.hurt.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert world.done[-2:] == ["heal", "down"]


def test_minds_of_trials_are_those_that_variants_name() -> None:
    assert {one.value for one in Mind} >= {"none", "oracle", "random", "restart-everything"}
