"""Several tickets at once, taken away by people, and stopped without a loss."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.limits import BUSY, Limits
from operator_protocols.domain.run import Answer, Ask, Escalate
from operator_protocols.domain.ticket import Move, MoveKind, TicketState
from operator_protocols.domain.tool import Parameter, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job
from operator_sre.controls import Controls
from operator_sre.engine import LocalEngine
from operator_sre.engine.local import FOLLOW_S, STOPPING_POLL_S
from operator_sre.executor import Executor
from operator_sre.gate import Turns, came_late
from tests.contract.clock import HeldClock
from tests.contract.samples import violation
from tests.contract.workshop import DIAGNOSIS, MEND, Workshop
from tests.processes.waiting import eventually

pytestmark = pytest.mark.asyncio

ADA = Actor("ada", "user")
GIVES_UP = Answer("", (Escalate("a person has to take over"),))
LEASE_S = 30.0


class _Thinking:
    """A mind that thinks about each ticket until it is told what to say."""

    name = "thinking"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.begun = asyncio.Condition()
        self.says: dict[str, asyncio.Future[Answer]] = {}

    async def answer(self, ask: Ask) -> Answer:
        target = ask.briefing.ticket.target
        said = self.says.setdefault(target, asyncio.get_running_loop().create_future())
        async with self.begun:
            self.asked.append(target)
            self.begun.notify_all()
        answer = await asyncio.shield(said)
        if self.says.get(target) is said:
            del self.says[target]  # it is said once
        return answer

    async def thinks_about(self, count: int) -> None:
        async with asyncio.timeout(10.0), self.begun:
            await self.begun.wait_for(lambda: len(self.asked) >= count)

    def say(self, target: str, answer: Answer) -> None:
        self.says[target].set_result(answer)


class _Slow:
    """A change that goes on until the test says so."""

    def __init__(self, name: str) -> None:
        target = Parameter("target", "a name", required=False, default="")
        self.spec = ToolSpec(name, "It takes its time.", (target,), Risk.MEDIUM, changes=True)
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.calls = 0

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        self.calls += 1
        self.begun.set()
        await self.go_on.wait()
        return Result(Outcome.RAN, 0, "done")


class Yard:
    """A workshop with an engine that works on several tickets."""

    def __init__(self, folder: Path) -> None:
        self.clock = HeldClock()
        self.mind = _Thinking()
        self.shop = Workshop(folder, self.mind, clock=self.clock)
        self.slow = _Slow("slow")
        self.ids = (f"{number:010}" for number in itertools.count())
        self.shop.tools = (self.shop.mend, self.slow)

    def controls(self, subject: str) -> Controls:
        """With limits and turns, as the product has them."""
        controls = self.shop.controls(subject)
        limits = Limits(targets_max=9)
        shell, store = self.shop._shell, self.shop.store
        executor = Executor(store.intents, shell, self.shop.tools, limits=lambda: limits)
        turns = Turns("shop", store.limit_usage, executor.limits, self.clock)
        return replace(controls, executor=executor, turns=turns)

    def engine(self, worker: str = "worker", runs_max: int = 2) -> LocalEngine:
        return LocalEngine(
            pipeline=replace(self.shop.pipeline(), controls=self.controls),
            leases=self.shop.store.leases,
            clock=self.clock,
            worker=worker,
            new_id=lambda: next(self.ids),
            interval_s=10.0,
            lease_s=LEASE_S,
            runs_max=runs_max,
            intents=self.shop.store.intents,
            grace_s=5.0,
        )

    async def open(self, *targets: str) -> None:
        for target in targets:
            self.shop.plant.up[target] = False
            await self.shop.store.tickets.open([violation(target, "up")])

    def state(self, number: int) -> TicketState:
        found = self.shop.store.tickets.get(number)
        assert found is not None
        return found.state


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    """One of them."""
    made = Yard(tmp_path)
    yield made
    made.shop.close()


async def until(true: Callable[[], object], *, clock: HeldClock | None = None) -> None:
    """Until it is so; time goes on by itself where a clock is given."""

    def so() -> object:
        if clock is not None:
            clock.advance(0.05)
        return true()

    await eventually(so)


async def _stop(working: asyncio.Task[None]) -> None:
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert working.cancelled()


async def test_so_many_tickets_are_worked_on_at_once_and_the_most_urgent_first(
    yard: Yard,
) -> None:
    for target, severity in [("a", "info"), ("b", "critical"), ("c", "warning")]:
        filed = violation(target, "up", severity=Severity(severity))
        await yard.shop.store.tickets.open([filed])
    working = asyncio.create_task(yard.engine().work())
    await yard.mind.thinks_about(2)
    assert sorted(yard.mind.asked) == ["b", "c"]
    assert [yard.state(number) for number in (1, 2, 3)] == ["open", "claimed", "claimed"]
    yard.mind.say("b", GIVES_UP)
    await yard.mind.thinks_about(3)
    assert yard.state(2) is TicketState.ESCALATED
    assert yard.mind.asked[-1] == "a"
    await _stop(working)
    assert [yard.state(number) for number in (1, 3)] == ["open", "open"]


@pytest.mark.parametrize("kind", [MoveKind.HOLD, MoveKind.CLOSE, MoveKind.ESCALATE])
async def test_a_ticket_that_a_person_takes_away_is_let_go_of_and_nothing_more_runs(
    yard: Yard, kind: MoveKind
) -> None:
    await yard.open("node-1", "node-2")
    working = asyncio.create_task(yard.engine().work())
    await yard.mind.thinks_about(2)
    await yard.shop.store.ticket_moves.make(1, Move(kind, ADA, "mine"))
    yard.mind.say("node-1", Answer("", (DIAGNOSIS, MEND)))
    yard.clock.advance(FOLLOW_S)
    yard.mind.say("node-2", GIVES_UP)
    await until(lambda: yard.state(2) is TicketState.ESCALATED)
    await _stop(working)
    assert yard.shop.mend.calls == []
    assert yard.shop.entries(Kind.TOOL_CALL) == []
    assert yard.state(1) is not TicketState.CLAIMED
    runs = {one.ticket: one.state for one in yard.shop.store.runs.newest(limit=9)}
    assert runs[1] == "stopped"


async def test_a_change_waits_for_its_turn_and_is_thought_over_again(yard: Yard) -> None:
    await yard.open("node-1", "node-2")
    working = asyncio.create_task(yard.engine().work())
    await yard.mind.thinks_about(2)
    yard.mind.say("node-2", Answer("", (DIAGNOSIS, Action("slow", {}, target="node-2"))))
    await yard.slow.begun.wait()
    yard.mind.say("node-1", Answer("", (DIAGNOSIS, MEND)))
    await yard.clock.asleep(for_s=0.2)
    assert yard.shop.mend.calls == []
    yard.slow.go_on.set()
    await until(lambda: len(yard.mind.asked) >= 4, clock=yard.clock)
    refused = yard.shop.entries(Kind.REFUSED)
    assert [entry.payload["result"]["outcome"] for entry in refused] == ["cancelled"]
    assert "ran first" in refused[0].payload["result"]["stderr"]
    assert came_late(Result(Outcome.REFUSED, data={BUSY: True}))
    (*_, late) = yard.shop.entries(Kind.OBSERVED)
    assert late.ticket == 1  # it was looked at again before it was asked again
    await _stop(working)
    assert yard.shop.mend.calls == []


async def test_what_is_being_done_comes_to_its_end_before_an_agent_is_gone(yard: Yard) -> None:
    await yard.open("node-1", "node-2")
    working = asyncio.create_task(yard.engine().work())
    await yard.mind.thinks_about(2)
    yard.mind.say("node-1", Answer("", (DIAGNOSIS, Action("slow", {}, target="node-1"))))
    await yard.slow.begun.wait()
    working.cancel()
    await yard.clock.asleep(for_s=STOPPING_POLL_S)
    assert yard.state(1) is TicketState.CLAIMED
    yard.slow.go_on.set()
    await until(lambda: yard.shop.entries(Kind.TOOL_RESULT))
    await until(working.done, clock=yard.clock)
    (outcome,) = yard.shop.entries(Kind.TOOL_RESULT)
    assert outcome.payload["result"]["outcome"] == "ran"
    assert [yard.state(number) for number in (1, 2)] == ["open", "open"]
    found = yard.shop.store.tickets.find()
    assert {one.attempts for one in found} == {0}
    assert all("stopped" in one.reason for one in found)


async def test_the_next_agent_goes_on_where_the_first_was_stopped_and_repeats_nothing(
    yard: Yard,
) -> None:
    yard.slow.go_on.set()
    await yard.open("node-1")
    working = asyncio.create_task(yard.engine().work())
    await yard.mind.thinks_about(1)
    yard.mind.say("node-1", Answer("", (DIAGNOSIS, Action("slow", {}, target="node-1"))))
    await until(lambda: yard.shop.entries(Kind.TOOL_RESULT))
    await yard.mind.thinks_about(2)
    await _stop(working)
    second = asyncio.create_task(yard.engine("second").work())
    await yard.mind.thinks_about(3)
    yard.mind.say("node-1", GIVES_UP)
    await until(lambda: yard.state(1) is TicketState.ESCALATED)
    await _stop(second)
    assert yard.slow.calls == 1
    assert len(yard.shop.entries(Kind.RUN_STARTED)) == 1


async def test_one_that_hangs_is_not_waited_for_longer_than_the_grace(yard: Yard) -> None:
    await yard.open("node-1")
    working = asyncio.create_task(yard.engine().work())
    await yard.mind.thinks_about(1)
    yard.mind.say("node-1", Answer("", (DIAGNOSIS, Action("slow", {}, target="node-1"))))
    await yard.slow.begun.wait()
    working.cancel()
    await yard.clock.asleep(for_s=STOPPING_POLL_S)
    yard.clock.advance(5.0)
    await asyncio.gather(working, return_exceptions=True)
    (outcome,) = yard.shop.entries(Kind.TOOL_RESULT)
    assert outcome.payload["result"]["outcome"] == "cancelled"
    assert yard.state(1) is TicketState.OPEN
