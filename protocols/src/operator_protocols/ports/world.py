"""Ports to the world: clocks, subjects, tools, models, keys and plug-ins."""

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
    from operator_protocols.domain.diagnosis import Diagnosis
    from operator_protocols.domain.entry import Actor
    from operator_protocols.domain.health import Severity
    from operator_protocols.domain.observation import Finding, Observation
    from operator_protocols.domain.permit import Approval
    from operator_protocols.domain.precondition import Precondition
    from operator_protocols.domain.rig import RigSpec
    from operator_protocols.domain.run import Answer, Ask
    from operator_protocols.domain.stack import StackSpec
    from operator_protocols.domain.system_record import SystemRecord
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
    "Prompting",
    "RecordReader",
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
class RecordReader(Protocol):
    """Diagnoses systems of one kind from what commands printed about them.

    A reader is found by the entry point group `operator.records`.
    """

    def diagnose(self, record: SystemRecord, causes: Sequence[str] = ()) -> Diagnosis | None:
        """The most probable cause and target, or None where nothing explains the record.

        Where `causes` are given, the diagnosis has the name of one of them.
        """
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
        """Observe once. Raises ObservationError when nothing can be observed at all."""
        ...


@runtime_checkable
class Noted(Protocol):
    """A subject with notes of its own, in addition to those of its plug-in."""

    @property
    def notes(self) -> str:
        """What an agent has to know about this subject."""
        ...


@runtime_checkable
class Prompting(Protocol):
    """A subject that learns of changes by itself; a change is checked before the interval ends."""

    async def wait_change(self) -> None:
        """Wait until a check could find something else than the last one."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """One running action. Its `id` is permanent: a second request with the id runs nothing.

    `watch` receives the output as it arrives, with 1 for stdout and 2 for stderr; `started`
    receives the local process, if there is one. `started_at` is the time of its start, for a later
    recovery. `confinement` is what the kernel restricts the command to.
    """

    id: str = ""
    timeout_s: float = TIMEOUT_S
    watch: Callable[[int, bytes], None] | None = None
    started: Callable[[Process], None] | None = None
    started_at: datetime | None = None
    confinement: Confinement | None = None


@runtime_checkable
class Tool(Protocol):
    """A typed action. Only the executor calls it."""

    @property
    def spec(self) -> ToolSpec:
        """What an agent and the gate know about it."""
        ...

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        """Do it. A failure is a Result."""
        ...


@runtime_checkable
class Preparing(Protocol):
    """A tool that reads the current state when it is proposed, so that people see its effect.

    The permit binds what it adds: at the call, the state must be the same.
    """

    async def prepare(self, arguments: Mapping[str, Argument]) -> Prepared:
        """What to add. The arguments may be invalid at this point; it changes nothing."""
        ...


@runtime_checkable
class Model(Protocol):
    """A model, asked for one turn at a time."""

    @property
    def name(self) -> str:
        """Its name in the ledger."""
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
        """The outcome of a job whose operator is gone; waits while the job still runs.

        It starts nothing. The outcome is UNKNOWN where it cannot be determined.
        """
        ...


@runtime_checkable
class Depot(Protocol):
    """Stores marks in a rig through its client interface, to count lost writes.

    Neither method raises for what a target does; both end within the timeout for each target.
    """

    async def put(self, mark: str) -> bool:
        """Store one mark; True only if the rig acknowledged it."""
        ...

    async def find_lost(self, marks: Sequence[str]) -> frozenset[str] | None:
        """Which marks are lost; None where that cannot be determined."""
        ...


@runtime_checkable
class PermissionChecker(Protocol):
    """Permissions of people. Each method returns the reason for a refusal, or "".

    A custom checker is found by the entry point group `operator.permissions`.
    """

    def may_request(self, requester: Actor, verdict: Verdict) -> str:
        """Whether they may have this action done."""
        ...

    def may_approve(self, person: str, approval: Approval) -> str:
        """Whether this person's answer counts for this request."""
        ...

    def may_administer(self, person: str, action: str) -> str:
        """Whether this person may do what affects everyone: `revoke a rule`, `reset`."""
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

    `targets` is called at every check, because a repaired target may have moved. `secret` reads a
    file with a secret. `shell` runs commands at a target, and `life` starts and stops its
    processes; None where that is not possible. `judge` returns the verdict on a command that a
    check would run by itself; without it no command is known to be harmless.
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
    listed in operator.toml. `tools` are its own; only the executor calls them. `causes_of` reads
    the causes of a subject from its options, beside the `causes` of all. `truths` say of each
    fault which causes rightly explain it, as `cause@hit` (the target that was hit), `cause@any`, or
    `cause@NAME` where the broken target is no part of the rig. `controls` are what happens every
    day in a rig and must not be repaired; they break nothing, or for a moment what they name.
    `depot` is for a subject that promises to keep what it has acknowledged. `stack` is a copy of it
    in containers, for who has Docker. `requires` are preconditions of tools by name, such as those
    that start a process of its rig. `attach` is a rig inside of a system that exists already, from
    the options that say which. `story` says what happens in this system during the demo: a
    sentence for each of `cluster`, `watch`, `fault`, `detection`, `remedy` and `proof`.
    """

    name: str
    sentence: str
    subject: Callable[[SubjectSettings], Subject]
    causes: tuple[Cause, ...] = ()
    rig: Callable[[], RigSpec] | None = None
    faults: tuple[Fault, ...] = ()
    controls: tuple[Fault, ...] = ()
    truths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: str = ""
    tools: Callable[[SubjectSettings], Sequence[Tool]] | None = None
    targets: Callable[[Mapping[str, Any]], Sequence[Target]] | None = None
    depot: Callable[[SubjectSettings], Depot] | None = None
    stack: Callable[[], StackSpec] | None = None
    causes_of: Callable[[Mapping[str, Any]], Sequence[Cause]] | None = None
    requires: Mapping[str, tuple[Precondition, ...]] = field(default_factory=dict)
    attach: Callable[[Mapping[str, str]], RigSpec] | None = None
    story: Mapping[str, str] = field(default_factory=dict)

    def causes_for(self, options: Mapping[str, Any]) -> tuple[Cause, ...]:
        """All causes that a subject with these options can have."""
        return (*self.causes, *(self.causes_of(options) if self.causes_of is not None else ()))
