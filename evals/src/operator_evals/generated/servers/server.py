"""What a known server can be asked to list and to change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from operator_evals.generated.surface import AdminCommand, Setting

__all__ = ["ASK_S_MAX", "Holder", "Seat", "Server", "Undo", "nothing_to_undo"]

ASK_S_MAX = 4.0
Undo = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a part of a rig is: its own port, the port of its link, and its directory."""

    name: str
    kind: str
    own_port: int
    public_port: int
    home: Path
    password_file: str = ""


class Server(Protocol):
    """One server; RigError where it refuses or does not answer."""

    async def settings(self) -> Sequence[Setting]:
        """All its settings with their types and limits, as it lists them itself."""
        ...

    async def change(self, name: str, value: str) -> Undo:
        """Change a setting at run time."""
        ...

    async def commands(self) -> Sequence[AdminCommand]:
        """Changes of accounts, grants, members and roles that it accepts."""
        ...

    async def execute(self, command: str, about: str) -> Undo:
        """Make such a change."""
        ...

    async def takes_writes(self) -> bool | None:
        """Whether it takes the writes; None where it has no such role or is silent."""
        ...


@runtime_checkable
class Holder(Protocol):
    """A server that says which roles it has, each of which one server may have at a time."""

    async def holds(self) -> frozenset[str] | None:
        """Its roles; None where it is silent."""
        ...


async def nothing_to_undo() -> None:
    """The undo of what cannot be undone."""
