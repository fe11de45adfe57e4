"""A small world for a mind: targets in known states, and what probes and repairs do there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from operator_lab.tools import RESTART_NODE, RESUME_NODE
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
from operator_sre.executor.tools.host import CheckPort
from tests.contract.clock import NOON
from tests.contract.samples import proof, ticket, violation

__all__ = [
    "CROWDED",
    "CUT",
    "DEAD",
    "DEAF",
    "FULL",
    "HUNG",
    "PAUSED",
    "SHOP",
    "SWOLLEN",
    "TAKEN",
    "WELL",
    "YOUNG",
    "State",
    "World",
    "briefing",
    "target",
]

TOOLS: tuple[ToolSpec, ...] = (CheckPort.spec, RESTART_NODE, RESUME_NODE)


@dataclass(frozen=True, slots=True)
class State:
    """What the probes show of a target, as `ps`, `ss`, `check_port` and so on really print it."""

    ps: str
    port: str
    log: str = "INFO serving\n"
    age_s: int = 5000
    queued: int = 0
    listens: bool = True
    files: int = 12
    memory_kb: int = 4096
    disk_percent: int = 40

    def show(self, action: Action) -> Result:
        """The answer to a question."""
        if action.tool == "check_port":
            said = f"127.0.0.1:8001 {self.port}"
            return Result(Outcome.RAN, 0, said, data={"port": self.port})
        match action.command.split()[0], bool(self.ps):
            case "tail", _:
                return Result(Outcome.RAN, 0, self.log)
            case "df", _:
                line = f"tmpfs 65536 1024 512 {self.disk_percent}% /var/lib/node\n"
                return Result(Outcome.RAN, 0, f"Filesystem 1024-blocks Used\n{line}")
            case "ls", False:
                missing = "ls: cannot access '/proc/4711/fd': No such file or directory\n"
                return Result(Outcome.RAN, 2, "", missing)
            case _, False:
                return Result(Outcome.RAN, 1)
            case "ls", _:
                return Result(Outcome.RAN, 0, f"socket:[77]\n{self._sockets()}")
            case "cat", _:
                return Result(Outcome.RAN, 0, self._limits())
        line = f"   4711 {self.ps}  {self.age_s} python -m node\n"
        return Result(Outcome.RAN, 0, line)

    def _sockets(self) -> str:
        """The table of the kernel: what listens, and another socket of the machine."""
        rows = [(1, "16", 0, 78), (2, "1F41", self.queued, 77)][: 2 if self.listens else 1]
        head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
        return head + "".join(
            f"   {number}: 0100007F:{port:0>4} 00000000:0000 0A 00000000:{queued:08X}"
            f" 00:00000000 00000000     0        0 {inode} 1 0000000000000000 100 0 0 10 0\n"
            for number, port, queued, inode in rows
        )

    def _limits(self) -> str:
        return (
            "Max open files            1024                 1048576              files\n"
            "Max address space         67108864             unlimited            bytes\n"
            f"Name:\tpython\nVmSize:\t{self.memory_kb} kB\n{self.files}\n"
        )


WELL = State("Ssl", "answers")
DEAD = State("", "refused")
PAUSED = State("Tsl", "silent", queued=3)
HUNG = State("Ssl", "silent", queued=3)
CUT = State("Ssl", "silent")
DEAF = State("Ssl", "refused", listens=False)
YOUNG = State("Rsl", "refused", age_s=2)
TAKEN = State("", "answers")
CROWDED = State("Ssl", "silent", queued=3, files=1024)
SWOLLEN = State("Ssl", "silent", queued=3, memory_kb=65536)
FULL = State("Ssl", "answers", disk_percent=100, log="ERROR write: No space left on device\n")


def target(name: str, *needs: str) -> Target:
    """A target that can be asked everything."""
    return Target(
        name,
        "store" if name == "store" else "node",
        port=8001,
        depends_on=needs,
        process=Process(4711, 1.0),
        log=f"/var/log/{name}.log",
        data_dir=f"/var/lib/{name}",
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
                    run.receive(self.answers[-1], seq)
                case Act():
                    run.receive(self._act(want.action), seq)
                case Diagnose():
                    self.diagnoses.append(want.diagnosis)
                    run.receive(None, seq)
                case Prove():
                    self.proofs.append(proof(held=self.holds(self.changes)))
                    run.receive(self.proofs[-1], seq)
        self.steps = run.steps
        assert run.conclusion is not None
        return run.conclusion

    def _act(self, action: Action) -> Result:
        if action.tool in {spec.name for spec in self.told.tools if spec.changes}:
            self.changes.append(action)
            return self.repair(action)
        return self.states[action.target].show(action)

    @property
    def done(self) -> list[str]:
        """The repairs, as people write them."""
        return [action.command for action in self.changes]
