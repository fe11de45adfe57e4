"""What we ask of the world: clocks, subjects, tools, minds, keys and plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from operator_protocols.domain.action import TIMEOUT_S, Action, Argument, Result
from operator_protocols.errors import ObservationError

if TYPE_CHECKING:
    from operator_protocols.domain.cause import Cause
    from operator_protocols.domain.confinement import Confinement
    from operator_protocols.domain.entry import Actor
    from operator_protocols.domain.health import Severity
    from operator_protocols.domain.observation import Finding, Observation
    from operator_protocols.domain.permit import Approval
    from operator_protocols.domain.rig import RigSpec
    from operator_protocols.domain.run import Answer, Ask
    from operator_protocols.domain.stack import StackSpec
    from operator_protocols.domain.target import Process, Target
    from operator_protocols.domain.tool import Prepared, ToolSpec
    from operator_protocols.domain.verdict import Verdict
    from operator_protocols.ports.lab import Fault, Kill

__all__ = [
    "CapabilityChecker",
    "Clock",
    "Depot",
    "Invariant",
    "Job",
    "Model",
    "Noted",
    "PermissionChecker",
    "Plugin",
    "Preparing",
    "Sealer",
    "Shell",
    "Signer",
    "Subject",
    "SubjectSettings",
    "Tool",
]


@runtime_checkable
class Clock(Protocol):
    """Time as an argument, so that a test can hold it."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


@runtime_checkable
class Invariant(Protocol):
    """A named sentence that must hold."""

    @property
    def name(self) -> str:
        """Its name in tickets and policies."""
        ...

    @property
    def severity(self) -> Severity:
        """How urgent a break is."""
        ...

    @property
    def grace_s(self) -> float:
        """How long it must be broken before a ticket opens."""
        ...

    def check(self, observation: Observation) -> Iterable[Finding]:
        """Say for every target it speaks of whether it holds. Pure."""
        ...


@runtime_checkable
class Subject(Protocol):
    """A system in our care."""

    @property
    def name(self) -> str:
        """Its name in configuration and tickets."""
        ...

    @property
    def invariants(self) -> Sequence[Invariant]:
        """What must hold."""
        ...

    def targets(self) -> Sequence[Target]:
        """Its parts as they are now; cheap."""
        ...

    async def observe(self) -> Observation:
        """Look once. Raises ObservationError when nothing can be seen at all."""
        ...


@runtime_checkable
class Noted(Protocol):
    """A subject that has to say something of its own, beside what its plug-in says of all."""

    @property
    def notes(self) -> str:
        """What a mind has to know of this one."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """One deed under way. `id` names it for ever: whoever asks again finds it, and runs nothing.

    `watch` hears every byte as it comes, with 1 for stdout and 2 for stderr; `started` is told
    which process it became, where it became one of this machine. `begun` is when it was begun, for
    whoever asks what became of it. `confinement` is what the kernel holds a command to.
    """

    id: str = ""
    timeout_s: float = TIMEOUT_S
    watch: Callable[[int, bytes], None] | None = None
    started: Callable[[Process], None] | None = None
    begun: datetime | None = None
    confinement: Confinement | None = None


@runtime_checkable
class Tool(Protocol):
    """A typed action. Only the executor calls it."""

    @property
    def spec(self) -> ToolSpec:
        """What a mind and the gate are told of it."""
        ...

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Do it. A failure is a Result."""
        ...


@runtime_checkable
class Preparing(Protocol):
    """A tool that looks at the world when it is proposed, so that people see what it will do.

    What it adds is bound by the permit: at the call, the world has to be the same.
    """

    async def prepare(self, arguments: Mapping[str, Argument]) -> Prepared:
        """What is to be added. The arguments may make no sense yet; it changes nothing."""
        ...


@runtime_checkable
class Model(Protocol):
    """A mind: one turn at a time."""

    @property
    def name(self) -> str:
        """Who speaks, in the ledger."""
        ...

    async def answer(self, ask: Ask) -> Answer:
        """Think about what is known and say what to do next."""
        ...


@runtime_checkable
class Shell(Protocol):
    """Where commands run."""

    async def run(self, action: Action, job: Job) -> Result:
        """Run one command within its limits; never raises for what the command does."""
        ...

    async def recover(self, action: Action, job: Job) -> Result:
        """What became of a job whose operator is gone; waits for it where it still runs.

        It starts nothing: UNKNOWN where nobody can tell.
        """
        ...


@runtime_checkable
class Depot(Protocol):
    """Where a rig keeps what it is given, by the door that its clients use: who counts losses.

    Neither verb raises for what a target does, and both end within the time-out of the settings
    for each target.
    """

    async def put(self, mark: str) -> bool:
        """Have one mark kept; True only where the rig has said that it is."""
        ...

    async def gone(self, marks: Sequence[str]) -> frozenset[str] | None:
        """Which of them are not there any more; None where nobody can tell."""
        ...


@runtime_checkable
class PermissionChecker(Protocol):
    """What people may. Each verb returns why not in a sentence, or "".

    One of one's own is found by the entry point group `operator.permissions`.
    """

    def may_request(self, requester: Actor, verdict: Verdict) -> str:
        """Whether they may have this action done."""
        ...

    def may_approve(self, person: str, approval: Approval) -> str:
        """Whether this person's answer counts for this request."""
        ...

    def may_administer(self, person: str, deed: str) -> str:
        """Whether they may undo what holds for everybody: `revoke a rule`, `reset`."""
        ...


@runtime_checkable
class CapabilityChecker(Protocol):
    """What agents may, found by the entry point group `operator.capabilities`."""

    def may_act(self, agent: str, verdict: Verdict) -> str:
        """Why this agent may not have this action done, or ""."""
        ...


@runtime_checkable
class Signer(Protocol):
    """Signs heads with a key that never leaves it."""

    @property
    def key(self) -> str:
        """The public key, as hex; it names the signer."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The signature of these bytes."""
        ...


@runtime_checkable
class Sealer(Protocol):
    """Keeps secrets that are needed again, readable by this home only."""

    def seal(self, plain: bytes, *, label: str) -> bytes:
        """Bytes that only the same sealer opens, under the same label."""
        ...

    def open(self, sealed: bytes, *, label: str) -> bytes | None:
        """What was sealed, or None."""
        ...


def _no_secret(path: str) -> str:
    raise ObservationError(f"The secret in {path!r} cannot be read here.")


@dataclass(frozen=True, slots=True)
class SubjectSettings:
    """What a plug-in is given to build its Subject and its tools.

    `targets` is asked anew at every look, because a repaired target may have moved. `secret` reads
    a file that holds one. `shell` runs commands where a target is, and `life` starts and ends its
    processes; None where nobody can. `judge` says what the gate thinks of a command that a look
    would run by itself; without it nobody knows of any that it is harmless.
    """

    name: str
    targets: Callable[[], Sequence[Target]]
    clock: Clock
    timeout_s: float
    options: Mapping[str, Any]
    secret: Callable[[str], str] = _no_secret
    shell: Shell | None = None
    life: Kill | None = None
    judge: Callable[[Action], Verdict] | None = None


@dataclass(frozen=True, slots=True)
class Plugin:
    """Everything a plug-in brings, found by the entry point group `operator.subjects`.

    `targets` reads the parts of a subject from its options, for a plug-in whose targets are not
    listed in operator.toml. `tools` are its own; only the executor calls them. `truths` say of each
    fault which causes rightly explain it, as `cause@hit` (the target that was hit) or `cause@any`.
    `depot` is for a subject that promises to keep what it has acknowledged. `stack` is a copy of it
    in containers, for who has Docker.
    """

    name: str
    sentence: str
    subject: Callable[[SubjectSettings], Subject]
    causes: tuple[Cause, ...] = ()
    rig: Callable[[], RigSpec] | None = None
    faults: tuple[Fault, ...] = ()
    truths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: str = ""
    tools: Callable[[SubjectSettings], Sequence[Tool]] | None = None
    targets: Callable[[Mapping[str, Any]], Sequence[Target]] | None = None
    depot: Callable[[SubjectSettings], Depot] | None = None
    stack: Callable[[], StackSpec] | None = None
