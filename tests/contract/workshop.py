"""The whole pipeline on a small subject: real store, gate, executor and verifier."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.diagnosis import Alternative, Diagnosis, Evidence, Option
from operator_protocols.domain.entry import Entry, Kind
from operator_protocols.domain.health import Severity
from operator_protocols.domain.observation import Observation
from operator_protocols.domain.run import Answer, Ask, Budget, Diagnose
from operator_protocols.domain.target import Target
from operator_protocols.domain.ticket import Ticket
from operator_protocols.domain.tool import Parameter, ToolSpec
from operator_protocols.domain.verdict import Mode, Risk
from operator_protocols.ports import Job, Model, Tool
from operator_sre.app.models import objection_to
from operator_sre.controls import Controls
from operator_sre.executor import Executor
from operator_sre.executor.jobs import Spool
from operator_sre.executor.programs import Programs
from operator_sre.executor.transports.local import LocalShell
from operator_sre.gate import Gate, Policy, Profile, Terms
from operator_sre.monitor import Monitor
from operator_sre.pipeline import Pipeline
from operator_sre.store import Store, open_store
from operator_sre.tickets import Desk
from operator_sre.verify import Verifier
from tests.contract.clock import HeldClock, LeapingClock
from tests.contract.plants import Plant

__all__ = ["DIAGNOSIS", "MEND", "Endless", "Mend", "Script", "Workshop"]

STABLE_S = 5.0
DIAGNOSIS = Diagnose(
    Diagnosis(
        cause="process_dead",
        target="node-1",
        summary="node-1: the process is not running.",
        severity=Severity.CRITICAL,
        confidence=0.97,
        timeline=(Evidence("12:00:00 UTC node-1: up broke", 4),),
        affected=("node-1",),
        evidence=(Evidence("node-1: it is down", 4),),
        hypotheses=(),
        alternatives=(Alternative("process_hung", "node-1", (), ("x",), "it does not fit"),),
        options=(Option("mend(node-1)", Risk.MEDIUM, reversible=False, trade_off="none"),),
        choice="mend(node-1)",
        why="It removes the cause.",
    )
)
MEND = Action("mend", {"target": "node-1"}, target="node-1", reasoning="it is down", timeout_s=9.0)


class Script:
    """A mind that says what is written, turn by turn, whatever it is told."""

    name = "script"

    def __init__(self, *turns: Answer) -> None:
        self._turns = turns
        self.asked: list[Ask] = []

    async def answer(self, ask: Ask) -> Answer:
        """The answer of this turn; silence when the script is over."""
        self.asked.append(ask)
        turn = len(ask.turns)
        return self._turns[turn] if turn < len(self._turns) else Answer("I have no more to say", ())


class Endless:
    """An agent that thinks until it is cancelled; `begun` is set when it begins."""

    name = "endless"

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def answer(self, ask: Ask) -> Answer:
        """Never."""
        self.begun.set()
        await asyncio.Event().wait()
        raise AssertionError("nothing wakes it")


class Mend:
    """A tool that brings a target of the plant up again, unless the test says otherwise."""

    spec = ToolSpec(
        "mend", "It mends.", (Parameter("target", "a name"),), Risk.MEDIUM, changes=True
    )

    def __init__(self, plant: Plant) -> None:
        self._plant = plant
        self.calls: list[str] = []
        self.works = True

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Do it."""
        target = str(arguments["target"])
        self.calls.append(target)
        if self.works:
            self._plant.up[target] = True
        return Result(Outcome.RAN, 0, f"{target} mended")


class _AsItIs(Controls):
    """Controls that judge every action as it was proposed."""

    async def complete(self, action: Action, ticket: Ticket | None = None) -> Action:
        return action


class Workshop:
    """One home with a subject `shop`, whose node-1 is down, and a tool that mends it."""

    def __init__(self, folder: Path, model: Model, *, clock: HeldClock | None = None) -> None:
        self.clock = clock or LeapingClock()
        self.store: Store = open_store(folder / "operator.db", clock=self.clock)
        self.plant = Plant(self.clock)
        self.plant.up["node-1"] = False
        self.mend = Mend(self.plant)
        self.mode = Mode.EXECUTE
        self.tools: Sequence[Tool] = (self.mend,)
        self.new_id = (f"{number:012x}".ljust(32, "0") for number in itertools.count(1))
        self._shell = LocalShell(Programs(Spool(folder / "spool")))
        self.model = model

    def controls(self, subject: str) -> Controls:
        """Everything for the subject."""
        gate = Gate(
            policy=self._policy,
            journal=self.store.journal,
            approvals=self.store.approvals,
            clock=self.clock,
            new_id=lambda: next(self.new_id),
            terms=Terms(approval_s=60.0),
        )

        async def observe() -> tuple[Observation, Sequence[Target]]:
            return await self.plant.observe(), self.plant.targets()

        executor = Executor(self.store.intents, self._shell, self.tools, observe=observe)
        return _AsItIs(self.plant, gate, executor)

    def _policy(self) -> Policy:
        return Policy(
            mode=self.mode,
            profile=Profile.LAB,
            tools=tuple(tool.spec for tool in self.tools),
            boundary_tools=frozenset(tool.spec.name for tool in self.tools),
            boundary_targets=frozenset(self.plant.up),
        )

    def pipeline(self, budget: Budget | None = None) -> Pipeline:
        """The pipeline as the product wires it."""
        store = self.store
        return Pipeline(
            monitor=Monitor(
                clock=self.clock,
                conditions=store.conditions,
                observations=store.observations,
                timeout_s=5.0,
                blind_grace_s=0.0,
            ),
            desk=Desk(tickets=store.tickets, leases=store.leases, stable_s=STABLE_S),
            model=self.model,
            verifier=Verifier(clock=self.clock, stable_s=STABLE_S, deadline_s=30.0, interval_s=1.0),
            journal=store.journal,
            entries=store.entries,
            sealed=store.sealed,
            tickets=store.tickets,
            clock=self.clock,
            budget=budget or Budget(),
            controls=self.controls,
            objection=objection_to,
        )

    async def claim(self, worker: str = "worker") -> Ticket:
        """Take the ticket, as an engine does."""
        claimed = await self.store.leases.claim(worker, run="run-1", lease_s=1e6, attempts_max=9)
        assert claimed is not None
        return claimed

    async def carry(self, budget: Budget | None = None) -> Ticket:
        """Watch, file, and work the one ticket to its end."""
        pipeline = self.pipeline(budget)
        await pipeline.watch("shop")
        return await pipeline.work(await self.claim())

    def entries(self, *kinds: Kind) -> list[Entry]:
        """What is in the ledger, of these kinds or at all."""
        told = self.store.entries.after(0, limit=10_000)
        return [entry for entry in told if not kinds or entry.kind in kinds]

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()
