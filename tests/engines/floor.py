"""A floor with many bays, each a subject of one target: broken until somebody writes a line.

Every repair appends its line to one file, so that whoever counts lines sees what ran how often.
"""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.health import Health, Severity
from operator_protocols.domain.observation import Observation, Seen, Violation
from operator_protocols.domain.run import Act, Answer, Ask, Budget, Escalate, Finish
from operator_protocols.domain.target import Target
from operator_protocols.domain.tool import Parameter, ToolSpec
from operator_protocols.domain.verdict import Mode, Risk
from operator_protocols.ports import Engine, Invariant, Job, Model
from operator_sre.clock import SystemClock
from operator_sre.controls import Controls
from operator_sre.engine import ClusterEngine, LocalEngine
from operator_sre.executor import Executor
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import LocalShell
from operator_sre.gate import Gate, Policy, Profile, Terms
from operator_sre.monitor import Monitor
from operator_sre.pipeline import Pipeline
from operator_sre.store import Store, open_store_at
from operator_sre.store.transaction import Rules
from operator_sre.tickets import Desk
from operator_sre.verify import Verifier
from tests.contract.plants import Up
from tests.contract.workshop import DIAGNOSIS

__all__ = ["Floor", "Mender", "bay", "violations"]

TARGET = "press"
REPAIRS = "repairs.log"
# Long enough for a kill to find a repair half done.
STROKE_S_MAX = 0.02
SPEC = ToolSpec("mend", "It mends.", (Parameter("target", "a name"),), Risk.MEDIUM, changes=True)


def bay(number: int) -> str:
    """The name of one subject."""
    return f"bay-{number}"


def violations(clock: SystemClock, numbers: Iterable[int]) -> list[Violation]:
    """What is broken in these bays, one after another."""
    now = clock.now()
    return [
        Violation(bay(number), "up", TARGET, Severity.CRITICAL, "it stands still", now)
        for number in numbers
    ]


@dataclass(frozen=True, slots=True)
class Bay:
    """One subject: its press runs when a line of the file says that it was mended."""

    name: str
    repairs: Path
    clock: SystemClock
    invariants: Sequence[Invariant] = (Up(),)

    def targets(self) -> Sequence[Target]:
        """Its one part."""
        return [Target(TARGET, "press")]

    async def observe(self) -> Observation:
        """Look once."""
        up = self.name in {line.split()[0] for line in _lines(self.repairs)}
        return Observation(self.name, self.clock.now(), (Seen(TARGET, {"up": up}),))


@dataclass(frozen=True, slots=True)
class Mend:
    """Writes its line, after a while and before a while."""

    subject: str
    repairs: Path
    stroke_s: float

    @property
    def spec(self) -> ToolSpec:
        """What a mind and the gate are told of it."""
        return SPEC

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Do it."""
        await asyncio.sleep(random.uniform(0, self.stroke_s))
        with self.repairs.open("a") as file:
            file.write(f"{self.subject} {job.id} {os.getpid()}\n")
        await asyncio.sleep(random.uniform(0.5, 1.0) * self.stroke_s)
        return Result(Outcome.RAN, 0, "mended")


class Mender:
    """A mind that mends once; where nobody knows what became of it, it looks and asks a person."""

    name = "mender"

    async def answer(self, ask: Ask) -> Answer:
        """One turn."""
        mended = [step for step in ask.steps if isinstance(step.want, Act)]
        if not mended:
            mend = Action("mend", {"target": TARGET}, target=TARGET, reasoning="it stands still")
            return Answer("it stands still", (DIAGNOSIS, replace(mend, timeout_s=5.0)))
        result = mended[-1].result
        if ask.briefing.health is Health.HEALTHY or (isinstance(result, Result) and result.ok):
            return Answer("it runs", (Finish("it runs again"),))
        return Answer("nobody knows", (Escalate("it is not known what became of the repair"),))


class Floor:
    """The pipeline as the product wires it, on a store anywhere, for one process."""

    def __init__(
        self,
        where: str,
        folder: Path,
        *,
        model: Model | None = None,
        mode: Mode = Mode.EXECUTE,
        parked_s: float = 0.0,
        stroke_s: float = STROKE_S_MAX,
    ) -> None:
        self.where = where
        self.folder = folder
        self.clock = SystemClock()
        self.store: Store = open_store_at(where, Rules(self.clock))
        self._model = model or Mender()
        self._mode = mode
        self._stroke_s = stroke_s
        self._terms = Terms(approval_s=60.0, parked_s=parked_s)
        self._shell = LocalShell(Programs(Spool(folder / "spool")))

    @property
    def repairs(self) -> Path:
        """The file with a line for each repair."""
        return self.folder / REPAIRS

    def repaired(self) -> Counter[str]:
        """How often each bay was mended."""
        return Counter(line.split()[0] for line in _lines(self.repairs))

    async def open_tickets(self, count: int, *, behind: int = 0) -> None:
        """As a monitor would, many at once."""
        broken = violations(self.clock, range(behind, behind + count))
        await asyncio.gather(*(self.store.tickets.open([one]) for one in broken))

    def engine(self, kind: str, *, lease_s: float = 30.0, grace_s: float = 0.0) -> Engine:
        """An engine of this kind in this process."""
        local = LocalEngine(
            pipeline=self.pipeline(),
            leases=self.store.leases,
            clock=self.clock,
            worker=f"floor:{os.getpid()}-{secrets.token_hex(4)}",
            new_id=lambda: secrets.token_hex(16),
            interval_s=1.0,
            lease_s=lease_s,
            switch=self.store.switch,
            approvals=self.store.approvals,
            park_s=0.5,
            intents=self.store.intents,
            grace_s=grace_s,
        )
        if kind == "local":
            return local
        return ClusterEngine(
            local=local,
            backlog=self.store.backlog,
            workers=self.store.workers,
            url=self.where,
            poll_s=0.3,
            taken_s_max=2.0,
        )

    def pipeline(self) -> Pipeline:
        """All of it."""
        store = self.store
        return Pipeline(
            monitor=Monitor(
                clock=self.clock,
                conditions=store.conditions,
                observations=store.observations,
                timeout_s=5.0,
                blind_grace_s=0.0,
            ),
            desk=Desk(tickets=store.tickets, leases=store.leases, stable_s=0.02),
            model=self._model,
            verifier=Verifier(clock=self.clock, stable_s=0.02, deadline_s=2.0, interval_s=0.02),
            journal=store.journal,
            entries=store.entries,
            sealed=store.sealed,
            tickets=store.tickets,
            clock=self.clock,
            budget=Budget(),
            controls=self.controls,
        )

    def controls(self, subject: str) -> Controls:
        """Everything for one bay."""
        mend = Mend(subject, self.repairs, self._stroke_s)
        policy = Policy(
            mode=self._mode,
            profile=Profile.LAB,
            tools=(mend.spec,),
            boundary_tools=frozenset({mend.spec.name}),
            boundary_targets=frozenset({TARGET}),
        )
        gate = Gate(
            policy=lambda: policy,
            journal=self.store.journal,
            approvals=self.store.approvals,
            clock=self.clock,
            new_id=lambda: secrets.token_hex(16),
            terms=self._terms,
        )
        executor = Executor(self.store.intents, self._shell, (mend,))
        return Controls(Bay(subject, self.repairs, self.clock), gate, executor)

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()


def _lines(file: Path) -> list[str]:
    try:
        return [line for line in file.read_text().splitlines() if line]
    except FileNotFoundError:
        return []
