"""However many say yes at once and however many wait for it, what was asked for runs once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Action, Outcome
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import Approval, ApprovalState, Permit
from operator_protocols.domain.verdict import Mode
from operator_protocols.errors import ConflictError
from operator_sre.clock import SystemClock
from operator_sre.executor import Executor
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import LocalShell
from operator_sre.gate import Gate
from tests.contract.actor import APPROVED, actors
from tests.contract.clock import HeldClock
from tests.contract.doing import Doer
from tests.contract.stores import Home, Ports

PEOPLE = 100
AGENTS = 6
POLL_S = 0.2


class _Agents:
    """Agents that went on with the same run, on two handles, and what they do with a permit."""

    def __init__(self, doer: Doer, other: Ports, folder: Path) -> None:
        self.witness = folder / "witness"
        self.action = Action.shell(f"echo x >> {self.witness}")
        self._doer = doer
        self._handles = (doer.ports, other)
        self._shell = LocalShell(Programs(Spool(folder / "spool")))

    def _gate(self, number: int) -> Gate:
        ports = self._handles[number % 2]
        return replace(
            self._doer.gate,
            journal=ports.journal,
            approvals=ports.approvals,
            new_id=lambda: f"request-{number:04}",
        )

    async def work(self, number: int) -> Outcome:
        """Wait for an answer, and execute whatever it permits."""
        gate = self._gate(number)
        permit = await gate.permit(gate.judge(self.action), self._doer.ticket)
        if not isinstance(permit, Permit):
            return permit.outcome
        executor = Executor(self._handles[number % 2].intents, self._shell, ())
        result, _ = await executor.execute(permit)
        return result.outcome

    def check(self, outcomes: list[Outcome]) -> None:
        """One has run it, and the others were told no."""
        assert sorted(outcomes) == [Outcome.RAN, *[Outcome.REFUSED] * (len(outcomes) - 1)]
        assert self.witness.read_text() == "x\n"
        told = [one.kind for one in self._handles[0].entries.after(0, limit=1000)]
        assert told.count(Kind.TOOL_CALL) == told.count(Kind.APPROVAL_DECIDED) == 1


async def _answer(ports: Ports, asked: Approval, person: int) -> bool:
    by = Actor(f"person-{person}", "user")
    try:
        await ports.approvals.decide(
            asked.id, ApprovalState.APPROVED, by=by, reason="", version=asked.version
        )
    except ConflictError:
        return False
    return True


class _WatchedClock(SystemClock):
    """The real clock, which knows who has slept by it."""

    def __init__(self) -> None:
        self._sleepers: set[object] = set()
        self._more = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self._sleepers.add(asyncio.current_task())
        self._more.set()
        await super().sleep(seconds)

    async def asleep(self, count: int = 1) -> None:
        """Wait until so many have gone to sleep at least once."""
        while len(self._sleepers) < count:
            self._more.clear()
            await self._more.wait()


async def _waiting(
    agents: _Agents, clock: HeldClock | _WatchedClock
) -> list[asyncio.Future[Outcome]]:
    first = asyncio.ensure_future(agents.work(0))
    await clock.asleep()
    rest = [asyncio.ensure_future(agents.work(number)) for number in range(1, AGENTS)]
    await clock.asleep(AGENTS)
    return [first, *rest]


@pytest.mark.asyncio
async def test_a_hundred_answers_at_once_are_one_execution(
    home: Home, clock: HeldClock, tmp_path: Path
) -> None:
    one, other = home.open(), home.open()
    agents = _Agents(await Doer.hired(one, clock, mode=Mode.APPROVE), other, tmp_path)
    waiting = await _waiting(agents, clock)
    (asked,) = one.approvals.find()
    said = await asyncio.gather(*(_answer((one, other)[n % 2], asked, n) for n in range(PEOPLE)))
    assert said.count(True) == 1
    clock.advance(POLL_S)
    agents.check(list(await asyncio.gather(*waiting)))


@pytest.mark.asyncio
async def test_a_hundred_answers_of_threads_are_one_execution(
    home: Home, clock: HeldClock, tmp_path: Path
) -> None:
    one, other = home.open(), home.open()
    agents = _Agents(await Doer.hired(one, clock, mode=Mode.APPROVE), other, tmp_path)
    waiting = await _waiting(agents, clock)
    (asked,) = one.approvals.find()
    handles = [home.open() for _ in range(4)]
    said: list[bool] = []
    start = threading.Barrier(len(handles))

    async def answers(ports: Ports, first: int) -> list[bool]:
        people = range(first, PEOPLE, len(handles))
        return list(await asyncio.gather(*(_answer(ports, asked, n) for n in people)))

    def answer(number: int) -> None:
        start.wait()
        said.extend(asyncio.run(answers(handles[number], number)))

    threads = [threading.Thread(target=answer, args=(n,)) for n in range(len(handles))]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    assert (len(said), said.count(True)) == (PEOPLE, 1)
    clock.advance(POLL_S)
    agents.check(list(await asyncio.gather(*waiting)))


@pytest.fixture
def living(home: Home) -> Iterator[tuple[Home, _WatchedClock]]:
    """The same database as other processes see it, whose clocks go on."""
    clock = _WatchedClock()
    one = Home(home.kind, home.folder, clock)
    yield one, clock
    one.close()


@pytest.mark.asyncio
async def test_a_hundred_answers_of_processes_are_one_execution(
    living: tuple[Home, _WatchedClock], tmp_path: Path
) -> None:
    home, clock = living
    one, other = home.open(), home.open()
    agents = _Agents(await Doer.hired(one, clock, mode=Mode.APPROVE), other, tmp_path)
    waiting = await _waiting(agents, clock)
    working = await asyncio.to_thread(actors, home, "approve", "left", "right")
    said = [word for actor in working for word in await asyncio.to_thread(actor.rest)]
    assert (len(said), said.count("approved")) == (2 * APPROVED, 1)
    agents.check(list(await asyncio.gather(*waiting)))
