"""A small world for a mind: targets in known states, and what probes and repairs do there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.cause import Cause
from operator_protocols.domain.diagnosis import Diagnosis
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Observation, Violation
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import (
    Act,
    Answer,
    Ask,
    Briefing,
    Budget,
    Diagnose,
    Prove,
    Step,
)
from operator_protocols.domain.target import Process, Target
from operator_protocols.domain.tool import ToolSpec
from operator_protocols.ports import Model
from operator_sre.agent import Conclusion, Run
from operator_sre.executor.tools.port import CheckPort
from operator_sre.lab.tools import RESTART_NODE, RESUME_NODE
from tests.contract.clock import NOON
from tests.contract.samples import proof, ticket, violation

__all__ = ["DEAD", "HUNG", "PAUSED", "SHOP", "WELL", "State", "World", "briefing", "target"]

TOOLS: tuple[ToolSpec, ...] = (CheckPort.spec, RESTART_NODE, RESUME_NODE)


@dataclass(frozen=True, slots=True)
class State:
    """What the probes show of a target, as `ps`, `check_port` and `tail` really print it."""

    ps: str
    port: str
    log: str = "INFO serving\n"

    def show(self, action: Action) -> Result:
        """The answer to a question."""
        if action.tool == "check_port":
            said = f"127.0.0.1:8001 {self.port}"
            return Result(Outcome.RAN, 0, said, data={"port": self.port})
        if action.command.startswith("tail"):
            return Result(Outcome.RAN, 0, self.log)
        line = f"   4711 {self.ps}   python -m node\n" if self.ps else ""
        return Result(Outcome.RAN, 0 if self.ps else 1, line)


WELL = State("Ssl", "answers")
DEAD = State("", "refused")
PAUSED = State("Tsl", "silent")
HUNG = State("Ssl", "silent")


def target(name: str, *needs: str) -> Target:
    """A target that can be asked everything."""
    return Target(
        name,
        "store" if name == "store" else "node",
        port=8001,
        depends_on=needs,
        process=Process(4711, 1.0),
        log=f"/var/log/{name}.log",
    )


SHOP = (target("store"), target("node-1", "store"), target("node-2", "store"))


def briefing(
    *violations: Violation,
    targets: tuple[Target, ...] = SHOP,
    tools: tuple[ToolSpec, ...] = TOOLS,
    causes: tuple[Cause, ...] = (),
    health: Health = Health.BROKEN,
) -> Briefing:
    """What a mind is told of a ticket with these violations."""
    filed = violations or (violation("node-1"),)
    observation = Observation("shop", NOON)
    return Briefing(ticket(*filed), targets, observation, health, tools, causes, observation_seq=7)


Repair = Callable[[Action], Result]


def _works(action: Action) -> Result:
    return Result(Outcome.RAN, 0, "done", data={"pid": 4712})


@dataclass
class World:
    """Carries a run to its end and remembers what happened."""

    states: Mapping[str, State]
    told: Briefing = field(default_factory=briefing)
    repair: Repair = _works
    holds: Callable[[list[Action]], bool] = bool
    budget: Budget = field(default_factory=Budget)
    answers: list[Answer] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    changes: list[Action] = field(default_factory=list)
    diagnoses: list[Diagnosis] = field(default_factory=list)
    proofs: list[Proof] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    async def live(self, model: Model) -> Conclusion:
        """Until the mind comes to its conclusion."""
        run = Run(self.told, budget=self.budget, seconds=lambda: 0.0)
        seq = 10
        while (want := run.next()) is not None:
            seq += 1
            match want:
                case Ask():
                    ask = replace(want, briefing=self.told)
                    self.asks.append(ask)
                    self.answers.append(await model.answer(ask))
                    run.tell(self.answers[-1], seq)
                case Act():
                    run.tell(self._act(want.action), seq)
                case Diagnose():
                    self.diagnoses.append(want.diagnosis)
                    run.tell(None, seq)
                case Prove():
                    self.proofs.append(proof(held=self.holds(self.changes)))
                    run.tell(self.proofs[-1], seq)
        self.steps = run.steps
        assert run.conclusion is not None
        return run.conclusion

    def _act(self, action: Action) -> Result:
        if action.tool in {RESTART_NODE.name, RESUME_NODE.name}:
            self.changes.append(action)
            return self.repair(action)
        return self.states[action.target].show(action)

    @property
    def done(self) -> list[str]:
        """The repairs, as people write them."""
        return [action.command for action in self.changes]
