"""Every fault of the rig from its first symptom to its right end, by the built-in mind alone.

What it does is done by the tools and the probes themselves, to real processes: the stand-in's, and
those of the real PD where it is built.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from operator_lab import faults as lab
from operator_lab.rig import Rig
from operator_lab.tools import rig_tools
from operator_protocols.domain.action import SHELL, Action, Outcome, Result
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import CheckResult, Violation
from operator_protocols.domain.run import Act, Ask, Briefing, Budget, Diagnose, Prove
from operator_protocols.domain.target import Process, Target
from operator_protocols.ports import Ability, CorrectOutcome, Fault, Job, SubjectSettings, Tool
from operator_sre.agent import Conclusion, Run
from operator_sre.clock import SystemClock
from operator_sre.executor.tools.host import CheckPort
from operator_sre.models.reasoner import Reasoner
from operator_sre.subjects.tikv import plugin
from operator_sre.tickets import incidents_of
from tests.contract.samples import proof, ticket
from tests.contract.servers import serving
from tests.engines.tikv.real import real_programs
from tests.engines.tikv.standin import install
from tests.processes.waiting import processes_in

pytestmark = [pytest.mark.asyncio, pytest.mark.slow, pytest.mark.timeout(900)]

TIMEOUT_S = 5.0
POLL_S = 0.1
INTERVAL_S = 2.0  # as a trial looks
WITHIN_S = 240.0
PROOF_S = 60.0
SLOW_S = 2.0
LOOKS = 3  # a ticket is worked on when its symptoms have had the time to show
FAULTS = {one.name: one for one in plugin.faults}


@dataclass
class Ward:
    """A rig with somebody who looks at it, breaks it, and lets a mind mend it.

    `happens` is done once at each of its moments: when a ticket is worked on, when a diagnosis
    stands, and when a part was restarted while whoever asked for that still waits. `detours` are
    ports where parts are asked instead of at their own.
    """

    rig: Rig
    changes: list[Action] = field(default_factory=list)
    diagnoses: list[Diagnosis] = field(default_factory=list)
    happens: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    detours: dict[str, int] = field(default_factory=dict)
    victims: set[str] = field(default_factory=set)
    due_at: float = 0.0

    def __post_init__(self) -> None:
        options = self.rig.manifest().spec.options
        self.settings = SubjectSettings(
            plugin.name, self.targets, SystemClock(), TIMEOUT_S, options, life=self
        )
        self.subject = plugin.subject(self.settings)
        assert plugin.tools is not None
        given = (*plugin.tools(self.settings), *rig_tools(self.rig))
        tools: tuple[Tool, ...] = (*given, CheckPort(self.rig.targets))
        self.tools = {one.spec.name: one for one in tools}

    def targets(self) -> tuple[Target, ...]:
        """The parts of the rig, where they are asked."""
        ports = self.detours
        return tuple(replace(one, port=ports.get(one.name, one.port)) for one in self.rig.targets())

    async def restart(self, target: str) -> Process:
        """As the rig does it; something may happen before anybody knows."""
        process = await self.rig.restart(target)
        await self._moment("restart")
        return process

    async def kill(self, target: str) -> None:
        """As the rig does it."""
        await self.rig.kill(target)

    async def _moment(self, name: str) -> None:
        if happens := self.happens.pop(name, None):
            await happens()

    async def look(self) -> CheckResult:
        """One look, not sooner than a monitor would, and what every invariant says of it."""

        async def due() -> bool:
            return time.monotonic() >= self.due_at

        await until(due, every_s=POLL_S)
        seen = await self.subject.observe()
        self.due_at = time.monotonic() + INTERVAL_S
        found = (one for each in self.subject.invariants for one in each.check(seen))
        return CheckResult(seen, tuple(found))

    def broken(self, look: CheckResult) -> list[Violation]:
        """What is broken in a look, however short."""
        severities = {one.name: one.severity for one in self.subject.invariants}
        return [
            Violation(
                plugin.name,
                one.invariant,
                one.target,
                severities[one.invariant],
                one.detail,
                look.observation.at,
            )
            for one in look.findings
            if one.health is Health.BROKEN
        ]

    async def healthy(self) -> None:
        """Nothing is broken, in three looks."""
        in_row = 0

        async def well() -> bool:
            nonlocal in_row
            in_row = 0 if self.broken(await self.look()) else in_row + 1
            return in_row >= LOOKS

        await until(well, every_s=POLL_S)

    async def incident(self, fault: Fault, *, by: str = "") -> list[Violation]:
        """What is broken together, when the fault shows in all that it shows by soon.

        As for a monitor, it shows by what is broken for longer than its grace; `by` waits for one
        of that.
        """
        found: list[list[Violation]] = []
        since: dict[str, float] = {}
        graces = {one.name: one.grace_s for one in self.subject.invariants}
        wanted = {by} if by else set(fault.breaks)

        async def shows() -> bool:
            now, broken = time.monotonic(), self.broken(await self.look())
            for key in since.keys() - {one.key for one in broken}:
                del since[key]
            lasting = [
                one
                for one in broken
                if now - since.setdefault(one.key, now) >= graces[one.invariant]
            ]
            groups = incidents_of(lasting, self.subject.targets())
            known_by = (list(one) for one in groups if wanted & {v.invariant for v in one})
            mine = next(known_by, [])
            found.extend([mine] if mine else [])
            return bool(mine) and len(found) > LOOKS

        await until(shows, every_s=POLL_S)
        return found[-1]

    async def mend(self, broken: list[Violation]) -> Conclusion:
        """Let the mind work on it until it comes to its conclusion.

        Whoever works on a ticket did not see how it came to be: its first look is the first one.
        """
        await self._moment("ticket")
        self.subject = plugin.subject(self.settings)
        filed = ticket(*broken)
        mind = Reasoner()
        run = Run(await self._briefing(filed.violations), budget=Budget(), seconds=time.monotonic)
        seq = 10
        while (want := run.next()) is not None:
            seq += 1
            match want:
                case Ask():
                    told = await self._briefing(filed.violations)
                    run.receive(await mind.answer(replace(want, briefing=told)), seq)
                case Act():
                    run.receive(await self._act(want.action), seq)
                case Diagnose():
                    self.diagnoses.append(want.diagnosis)
                    await self._moment("diagnosis")
                    run.receive(None, seq)
                case Prove():
                    run.receive(proof(held=await self._holds(filed.violations)), seq)
        assert run.conclusion is not None
        return run.conclusion

    async def _briefing(self, filed: tuple[Violation, ...]) -> Briefing:
        look = await self.look()
        return Briefing(
            ticket(*filed),
            tuple(self.subject.targets()),
            look.observation,
            look.health_of(one.key for one in filed),
            tuple(one.spec for one in self.tools.values()),
            plugin.causes,
            broken=look.broken(),
        )

    async def _act(self, action: Action) -> Result:
        if action.tool == SHELL:
            return await _ran(action.command)
        tool = self.tools[action.tool]
        if tool.spec.changes:
            self.changes.append(action)
        return await tool.call(action.arguments, Job(timeout_s=action.timeout_s))

    async def _holds(self, filed: tuple[Violation, ...]) -> bool:
        keys = [one.key for one in filed]

        async def well() -> bool:
            return (await self.look()).health_of(keys) is Health.HEALTHY

        try:
            await until(well, every_s=POLL_S, within_s=PROOF_S)
        except TimeoutError:
            return False
        return True

    async def is_over(self, fault: Fault) -> bool:
        """It comes to be over by the fault's own oracle, which has to do with balance at times."""

        async def over() -> bool:
            return await lab.is_over(self.rig, fault) == ""

        try:
            await until(over, every_s=POLL_S, within_s=PROOF_S)
        except TimeoutError:
            return False
        return True

    @asynccontextmanager
    async def hurt(self, fault: Fault) -> AsyncIterator[Target]:
        """The fault at one target, healed afterwards, and everything well after that."""
        await self.healthy()
        name = await lab.inject(self.rig, fault, target=None, rng=random.Random(0))
        links = {Ability.CUT, Ability.SLOW}  # which have two sides
        known = {one.name for one in self.rig.targets()}
        self.victims = {name, *(one for one in known if self.rig.damage(one) - links)}
        try:
            yield next(one for one in self.rig.targets() if one.name == name)
        finally:
            await lab.heal(self.rig, fault)
            await self.healthy()


async def until(
    holds: Callable[[], Awaitable[bool]], *, every_s: float, within_s: float = WITHIN_S
) -> None:
    """Ask until it holds; TimeoutError when it does not in time."""
    async with asyncio.timeout(within_s):
        while True:
            if await holds():
                return
            await asyncio.sleep(every_s)


async def _ran(command: str) -> Result:
    """A question of the mind, asked by a real shell."""
    child = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await child.communicate()
    return Result(Outcome.RAN, child.returncode, out.decode(), err.decode())


@pytest.fixture(scope="module", params=["stand-in", "real"])
def rig_directory(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A rig that is up; it ends with the tests, and leaves nothing."""
    place = tmp_path_factory.mktemp("tikv")
    programs: Path | str = install(place / "bin")
    if request.param == "real":
        programs = real_programs()
    if isinstance(programs, str):
        pytest.skip(programs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        assert plugin.rig is not None
        spec = plugin.rig()
    up = asyncio.run(Rig.up(spec, place / "rig", owned=True))
    yield place / "rig"
    asyncio.run(up.down())
    assert processes_in(place / "rig") == []


@pytest.mark.parametrize("name", sorted(FAULTS))
async def test_a_fault_comes_to_its_right_end_and_nobody_else_is_touched(
    rig_directory: Path, name: str
) -> None:
    fault = FAULTS[name]
    ward = Ward(Rig.attach(rig_directory))
    async with ward.hurt(fault) as hit:
        # Whoever is hurt besides may have a ticket of its own.
        for _ in ward.victims:
            broken = await ward.incident(fault)
            conclusion = await ward.mend(broken)
            if fault.end is CorrectOutcome.ESCALATED or await ward.is_over(fault):
                break
        assert ward.diagnoses, (conclusion, [one.key for one in broken])
        last = ward.diagnoses[-1]
        seen = [one.sentence for one in last.evidence]
        told = [one.summary for one in ward.diagnoses], seen, ward.changes, conclusion
        right = [truth.partition("@")[::2] for truth in plugin.truths[name]]
        assert any(
            one.cause == cause and (place == "any" or one.target == hit.name)
            for one in ward.diagnoses
            for cause, place in right
        ), told
        if fault.end is CorrectOutcome.ESCALATED:
            assert conclusion.proof is None, told
            assert not ward.changes, told
        else:
            assert await ward.is_over(fault), told
            touched = {one.target for one in ward.changes}
            assert touched <= {*ward.victims, "cluster"}, told


@pytest.mark.parametrize("moment", ["ticket", "diagnosis", "restart"])
async def test_a_leader_of_pd_that_dies_meanwhile_changes_nothing_but_who_is_asked(
    rig_directory: Path, moment: str
) -> None:
    fault = FAULTS["node_kill"]
    ward = Ward(Rig.attach(rig_directory))
    async with ward.hurt(fault) as hit:
        broken = await ward.incident(fault, by="store_down")
        leader = str((await ward.look()).observation.of("cluster").readings["pd_leader"])
        ward.happens[moment] = lambda: ward.rig.kill(leader)
        try:
            conclusion = await ward.mend(broken)
            told = [one.summary for one in ward.diagnoses], ward.changes, conclusion
            assert not ward.happens, told
            assert conclusion.proof is not None, told
            assert conclusion.proof.held, told
            # Without that the run is the same: see the test of every fault.
            assert [(one.tool, one.target) for one in ward.changes] == [
                ("restart_store", hit.name)
            ], told
            assert {(one.cause, one.target) for one in ward.diagnoses} == {
                ("process_dead", hit.name)
            }, told
            assert await lab.is_over(ward.rig, fault) == ""
            look = await ward.look()
            assert look.observation.of("cluster").readings["pd_leader"] not in ("", leader)
            left = {one.target for one in ward.broken(look)}
            assert left - {"cluster"} == {leader}, told
        finally:
            await ward.rig.restart(leader)


async def test_a_store_and_the_leader_of_pd_that_die_together_are_both_brought_back(
    rig_directory: Path,
) -> None:
    fault = FAULTS["node_kill"]
    ward = Ward(Rig.attach(rig_directory))
    await ward.healthy()
    leader = str((await ward.look()).observation.of("cluster").readings["pd_leader"])
    async with ward.hurt(fault) as hit:
        await ward.rig.kill(leader)
        try:
            broken = await ward.incident(fault, by="store_down")
            conclusion = await ward.mend(broken)
            told = [one.summary for one in ward.diagnoses], ward.changes, conclusion
            right = {("restart_store", hit.name), ("restart_pd", leader)}
            assert {(one.tool, one.target) for one in ward.changes} <= right, told
            assert conclusion.proof is not None, told
            assert conclusion.proof.held, told
            assert await lab.is_over(ward.rig, fault) == ""
        finally:
            await ward.rig.restart(leader)


async def test_a_pd_that_takes_its_time_to_answer_changes_nothing_of_what_is_done(
    rig_directory: Path,
) -> None:
    fault = FAULTS["node_kill"]
    ward = Ward(Rig.attach(rig_directory))
    async with ward.hurt(fault) as hit, AsyncExitStack() as slow:
        for one in ward.rig.targets():
            if one.kind == "pd" and one.port is not None:
                ward.detours[one.name] = await slow.enter_async_context(_slow(one.port))
        broken = await ward.incident(fault)
        conclusion = await ward.mend(broken)
        told = [one.summary for one in ward.diagnoses], ward.changes, conclusion
        assert [(one.tool, one.target) for one in ward.changes] == [("restart_store", hit.name)], (
            told
        )
        assert conclusion.proof is not None, told
        assert conclusion.proof.held, told
        ward.detours.clear()


@asynccontextmanager
async def _slow(port: int) -> AsyncIterator[int]:
    """A way to a port on which every answer takes longer."""

    async def carry(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, after_s: float
    ) -> None:
        try:
            while data := await reader.read(1 << 16):
                await asyncio.sleep(after_s)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(carry(reader, back, SLOW_S), carry(there, writer, 0.0))

    async with serving(serve) as way:
        yield way
