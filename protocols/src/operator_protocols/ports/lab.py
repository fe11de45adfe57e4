"""What the lab can do to a rig, the faults that are made of it, and where systems are deployed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from operator_protocols.domain.stack import ServiceStatus
    from operator_protocols.domain.target import Process, Target

__all__ = [
    "Abilities",
    "Ability",
    "CorrectOutcome",
    "Cut",
    "Deploying",
    "DeploymentTarget",
    "Fault",
    "Fill",
    "Heal",
    "Inject",
    "Kill",
    "Limit",
    "Occupy",
    "Oracle",
    "Pause",
    "Scene",
    "Slow",
    "Tending",
]


class Ability(StrEnum):
    """One thing that the lab can do to a process of a rig."""

    KILL = "kill"
    PAUSE = "pause"
    CUT = "cut"
    SLOW = "slow"
    FILL = "fill"
    LIMIT = "limit"
    OCCUPY = "occupy"


@runtime_checkable
class Kill(Protocol):
    """End processes, and start them again."""

    async def kill(self, target: str) -> None:
        """End it by SIGKILL; nothing starts it again by itself."""
        ...

    async def restart(self, target: str) -> Process:
        """Stop it if it runs, start it again and wait until it answers."""
        ...


@runtime_checkable
class Pause(Protocol):
    """Freeze processes."""

    async def pause(self, target: str) -> None:
        """Stop it by SIGSTOP; its ports still accept, and nothing answers."""
        ...

    async def resume(self, target: str) -> Process:
        """Let it go on and wait until it answers."""
        ...


@runtime_checkable
class Cut(Protocol):
    """Let nothing pass on links. It needs targets that are linked."""

    async def cut(self, target: str, others: tuple[str, ...] = ()) -> None:
        """Nothing passes between it and these others (everybody, when none is named).

        Whichever side called: connections that stand fall silent, new ones get no answer.
        """
        ...

    async def reconnect(self, target: str, others: tuple[str, ...] = ()) -> None:
        """Everything passes again; what fell silent is closed."""
        ...


@runtime_checkable
class Slow(Protocol):
    """Delay what passes on links. It needs targets that are linked."""

    async def slow(self, target: str, delay_s: float, others: tuple[str, ...] = ()) -> None:
        """Every message between it and these others (everybody) takes that much longer."""
        ...

    async def hasten(self, target: str, others: tuple[str, ...] = ()) -> None:
        """No more delay."""
        ...


@runtime_checkable
class Fill(Protocol):
    """Use up the volume of a process. It needs one with a size of its own."""

    async def fill(self, target: str, *, left_bytes: int = 0) -> None:
        """Leave only so much room in it."""
        ...

    async def drain(self, target: str) -> None:
        """Give back what was used up."""
        ...


@runtime_checkable
class Limit(Protocol):
    """Take resources away from a running process."""

    async def limit(self, target: str, *, memory_bytes: int = 0, files: int = 0) -> None:
        """It may have no more memory (address space) or open files than that; 0: as before."""
        ...

    async def unlimit(self, target: str) -> None:
        """It may have what it could have before; a new process always can."""
        ...


@runtime_checkable
class Occupy(Protocol):
    """Take the port of a process."""

    async def occupy(self, target: str) -> None:
        """End it, and let a stranger listen on its port."""
        ...

    async def vacate(self, target: str) -> None:
        """End the stranger."""
        ...


@runtime_checkable
class Abilities(Kill, Pause, Cut, Slow, Fill, Limit, Occupy, Protocol):
    """All that can be done to a rig."""

    def unable(self, target: str, ability: Ability, others: tuple[str, ...] = ()) -> str:
        """Why this cannot be done to that target (between it and these others) here, or ""."""
        ...

    def damage(self, target: str) -> frozenset[Ability]:
        """What is done to it now, seen in the world and not in a record."""
        ...


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a fault is done: the target it is done to, all of them, and what `inject` noted."""

    target: Target
    targets: tuple[Target, ...]
    rig: Abilities
    notes: Mapping[str, str] = field(default_factory=dict)

    def of(self, name: str) -> Target:
        """One of the targets by name."""
        return next(target for target in self.targets if target.name == name)

    def of_kind(self, kind: str) -> tuple[Target, ...]:
        """All targets of a kind."""
        return tuple(target for target in self.targets if target.kind == kind)


class CorrectOutcome(StrEnum):
    """The outcome that a fault must have: a lasting repair, or an escalation without a change."""

    MITIGATED = "mitigated"
    ESCALATED = "escalated"


Inject = Callable[[Scene], Awaitable[Mapping[str, str]]]
Heal = Callable[[Scene], Awaitable[None]]
Oracle = Callable[[Scene], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to break a rig, with a check of its end that is independent of the product.

    It is done to a target of `kind`. `breaks` are the invariants that break, and the first
    identifies the fault. `inject` returns notes that `heal` and `oracle` get back. `oracle` says
    what is still wrong, or "" when the cause is gone, not only its symptom. `unavailable` says why
    it cannot be done here, or "".
    """

    name: str
    sentence: str
    kind: str
    breaks: tuple[str, ...]
    inject: Inject
    heal: Heal
    oracle: Oracle
    end: CorrectOutcome = CorrectOutcome.MITIGATED
    unavailable: Callable[[Scene], str] = lambda scene: ""


@runtime_checkable
class Deploying(Protocol):
    """Bring it up, take it down."""

    async def up(self) -> Sequence[ServiceStatus]:
        """Start all of it and wait until it is well; RigError says what did not come up."""
        ...

    async def down(self, *, volumes: bool = False) -> None:
        """End all of it; its data too, where asked. Fine when there is nothing."""
        ...


@runtime_checkable
class Tending(Protocol):
    """Look after what is up. A service that does not exist is a NotFoundError."""

    async def status(self) -> Sequence[ServiceStatus]:
        """The current state of every service, also of removed ones, in the order of their names."""
        ...

    async def logs(self, service: str | None = None, *, lines: int = 100) -> Sequence[str]:
        """The last lines of one service, or of all, each prefixed with the name of its service."""
        ...

    async def restart(self, service: str | None = None) -> Sequence[ServiceStatus]:
        """Restart one service, or all, and wait until they are healthy."""
        ...


@runtime_checkable
class DeploymentTarget(Deploying, Tending, Protocol):
    """One place for one system, such as the containers of a project on this machine."""
