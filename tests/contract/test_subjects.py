"""What every plug-in promises, kept by all that are installed; and liars, who are found out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from operator_protocols.domain.action import Argument, Outcome, Result
from operator_protocols.domain.cause import Cause, Remedy
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Finding, Observation, Seen
from operator_protocols.domain.rig import ProcessSpec, RigSpec
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ObservationError
from operator_protocols.faults import kill_fault
from operator_protocols.ports import Invariant, Job, Plugin, Subject, SubjectSettings, Tool
from operator_protocols.ports.lab import Inject, Oracle
from operator_protocols.promises import broken_promises
from operator_sre.plugins import find_plugin, plugin_names
from tests.contract.clock import HeldClock
from tests.contract.plants import Plant

pytestmark = pytest.mark.asyncio


# The options without which a subject cannot be.
NEEDED = {
    "aws": {
        "region": "eu-central-1",
        "endpoint": "http://127.0.0.1:1",
        "credentials_file": "aws.credentials",
    }
}


@pytest.mark.parametrize("name", plugin_names())
async def test_every_installed_plug_in_keeps_its_promises(name: str) -> None:
    assert await broken_promises(find_plugin(name), options=NEEDED.get(name)) == []


async def test_the_plant_of_our_tests_keeps_the_same_promises() -> None:
    plant = Plant(HeldClock())
    assert isinstance(plant, Subject)
    assert (await plant.observe()).of("node-1").readings == {"up": True}


@dataclass(frozen=True, slots=True)
class Answers:
    """Broken at every target that says so; says `verdict` of one that was not seen."""

    name: str = "answers"
    severity: Severity = Severity.CRITICAL
    grace_s: float = 0.0
    unseen: Health = Health.UNKNOWN
    always: tuple[Finding, ...] = ()

    def check(self, observation: Observation) -> Iterable[Finding]:
        yield from self.always
        for seen in observation.seen:
            up = seen.readings.get("up")
            known = Health.BROKEN if up is False else Health.HEALTHY
            yield Finding(self.name, seen.target, self.unseen if up is None else known)


@dataclass(frozen=True, slots=True)
class Honest:
    """A subject that keeps every promise, with one of them for a liar to replace."""

    settings: SubjectSettings
    invariants: Sequence[Invariant] = (Answers(),)
    up: bool | None = False
    slow_s: float = 0.0
    forgets: str = ""
    blind: bool = False
    renamed: str = ""

    @property
    def name(self) -> str:
        return self.renamed or self.settings.name

    def targets(self) -> Sequence[Target]:
        return self.settings.targets()

    async def observe(self) -> Observation:
        await asyncio.sleep(self.slow_s)
        targets = self.targets()
        if not targets and not self.blind:
            raise ObservationError("There is nothing to look at.")
        seen = tuple(
            Seen(one.name, {"up": self.up}) for one in targets if self.forgets not in (one.name,)
        )
        return Observation(self.name, self.settings.clock.now(), seen)


@dataclass(frozen=True, slots=True)
class Lever:
    """A tool that answers `result`, or raises."""

    spec: ToolSpec
    result: Result | Exception

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


@dataclass(frozen=True, slots=True)
class Keeps:
    """A depot that answers the same to everybody, or raises."""

    kept: bool = False
    lost: frozenset[str] | None = None
    error: Exception | None = None

    async def put(self, mark: str) -> bool:
        if self.error is not None:
            raise self.error
        return self.kept

    async def find_lost(self, marks: Sequence[str]) -> frozenset[str] | None:
        return self.lost


def _depot(**lies: Any) -> Plugin:
    return replace(HONEST, depot=lambda settings: Keeps(**lies))


REFUSES = Result(Outcome.RAN, exit_code=1, stderr="it takes no such argument")
PUSH = ToolSpec("push", "Push it.", (), Risk.LOW, changes=True)
RIG = RigSpec("tiny", (ProcessSpec("a", "node", ("true",)),))
CAUSE = Cause(
    "stuck",
    "it is stuck",
    0.2,
    remedies=(Remedy("push", "push it", "nothing", Risk.LOW, reversible=True),),
    breaks=("answers",),
)
HONEST = Plugin(
    name="honest",
    sentence="Keeps its promises.",
    subject=Honest,
    causes=(CAUSE,),
    rig=lambda: RIG,
    faults=(kill_fault("node_kill", "node", breaks=("answers",)),),
    tools=lambda settings: [Lever(PUSH, REFUSES)],
    depot=lambda settings: Keeps(),
)


def _subject(**lies: Any) -> Plugin:
    return replace(HONEST, subject=lambda settings: Honest(settings, **lies))


def _tools(*tools: Tool) -> Plugin:
    return replace(HONEST, tools=lambda settings: tools)


def _invariant(**lies: Any) -> Plugin:
    return _subject(invariants=(replace(Answers(), **lies),))


LIARS: dict[str, tuple[Callable[[], Plugin], str]] = {
    "another name": (lambda: _subject(renamed="other"), "instead of its configured name"),
    "no sentence": (lambda: replace(HONEST, sentence=""), "plug-in has no `sentence`"),
    "no invariant": (lambda: _subject(invariants=()), "no invariant"),
    "twice the same": (lambda: _subject(invariants=(Answers(), Answers())), "the same name"),
    "the monitor's": (lambda: _invariant(name="observable"), "monitor's own"),
    "endless grace": (lambda: _invariant(grace_s=1e6), "grace"),
    "sees nothing": (lambda: _subject(blind=True), "does not raise ObservationError"),
    "forgets one": (lambda: _subject(forgets="odd-dead"), "missing from the observation: odd-dead"),
    "all is well": (lambda: _subject(up=True), "which is wrong"),
    "takes for ever": (lambda: _subject(slow_s=1.6), "took"),
    "guesses": (lambda: _invariant(unseen=Health.BROKEN), "that was not observed"),
    "hopes": (lambda: _invariant(unseen=Health.HEALTHY), "that was not observed"),
    "talks": (
        lambda: _invariant(always=(Finding("answers", "x", Health.UNKNOWN),)),
        "although none was observed",
    ),
    "raises": (lambda: _tools(Lever(PUSH, ValueError("no"))), "raises ValueError"),
    "does anything": (lambda: _tools(Lever(PUSH, Result(Outcome.RAN, 0))), "does not declare"),
    "two levers": (lambda: _tools(Lever(PUSH, REFUSES), Lever(PUSH, REFUSES)), "Two tools"),
    "no remedy": (lambda: replace(HONEST, tools=None), "'push', which is not a tool"),
    "odd cause": (lambda: replace(HONEST, causes=(replace(CAUSE, prior=1.5),)), "prior"),
    "breaks nothing": (
        lambda: replace(HONEST, causes=(replace(CAUSE, breaks=("x",)),)),
        "'x', which is not an invariant",
    ),
    "no rig": (lambda: replace(HONEST, rig=None), "no rig"),
    "fault without a break": (
        lambda: replace(HONEST, faults=(kill_fault("node_kill", "node", breaks=()),)),
        "name the invariant that it breaks",
    ),
    "fault at nothing": (
        lambda: replace(HONEST, faults=(kill_fault("store_kill", "store", breaks=("answers",)),)),
        "which the rig does not have",
    ),
    "keeps all": (lambda: _depot(kept=True), "was never acknowledged"),
    "lost nothing": (lambda: _depot(lost=frozenset()), "no target answers"),
    "lost all": (lambda: _depot(lost=frozenset({"mark"})), "no target answers"),
    "raises at the door": (lambda: _depot(error=OSError("no")), "depot raises OSError"),
    "two faults": (lambda: replace(HONEST, faults=HONEST.faults * 2), "Two faults"),
}


async def test_an_honest_plug_in_breaks_no_promise() -> None:
    assert await broken_promises(HONEST) == []
    inject: Inject = HONEST.faults[0].inject
    oracle: Oracle = HONEST.faults[0].oracle
    assert callable(inject)
    assert callable(oracle)


@pytest.mark.parametrize("lie", LIARS)
async def test_a_liar_is_found_out(lie: str) -> None:
    make, said = LIARS[lie]
    broken = await broken_promises(make(), slack_s=0.5)
    assert any(said in sentence for sentence in broken), broken
