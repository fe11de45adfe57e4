"""Rigs of every make: what all of them can, and whichever lies in a directory."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from operator_protocols.domain.target import Target
from operator_protocols.ports import Abilities
from operator_sre.lab.handle import RigStatus
from operator_sre.lab.rig import Rig
from operator_sre.lab.stacks.record import is_stack

__all__ = ["AnyRig", "Make", "attach", "retire_any"]


class Make(StrEnum):
    """What a rig is made of: processes of this machine, or containers that compose brings up."""

    PROCESSES = "processes"
    COMPOSE = "compose"


class AnyRig(Abilities, Protocol):
    """A rig that is up, whatever it is made of."""

    directory: Path

    @property
    def subject(self) -> str:
        """What it is a copy of."""
        ...

    def targets(self) -> tuple[Target, ...]:
        """Its parts as they are now."""
        ...

    def status(self) -> RigStatus:
        """Every part with its state."""
        ...

    def own_ports(self) -> Mapping[str, int]:
        """The ports that its parts listen on, by `NAME` and `NAME:PORT`."""
        ...

    def require(self, target: str) -> None:
        """NotFoundError where it has no such part."""
        ...

    async def down(self) -> None:
        """End all of it and remove its directory."""
        ...


def attach(directory: Path) -> AnyRig:
    """The rig that is up in a directory; NotFoundError when there is none."""
    if is_stack(directory):
        from operator_sre.lab.stacks.rig import StackRig

        return StackRig.attach(directory)
    return Rig.attach(directory)


async def retire_any(directory: Path) -> None:
    """End whatever rig lies there, also one that is half dead; fine when there is none."""
    if is_stack(directory):
        from operator_sre.lab.stacks.rig import StackRig

        await StackRig(directory).down()
        return
    await Rig(directory).down()
