"""Rigs: a handle on a disposable copy of a subject, of every make, in one directory."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from operator_lab.abilities import Breakable
from operator_lab.handle import ProcessStatus, RigStatus, RunState, manifest_of
from operator_lab.ports import ReservePorts, reserve_ports
from operator_lab.stacks.record import is_stack
from operator_lab.startup import raise_rig, retire
from operator_protocols.domain.rig import RigSpec
from operator_protocols.domain.target import Target
from operator_protocols.errors import RigError
from operator_protocols.ports import Abilities
from operator_sre.processes.control import Launched

__all__ = [
    "AnyRig",
    "Make",
    "ProcessStatus",
    "Rig",
    "RigStatus",
    "RunState",
    "attach",
    "retire_any",
]

HELD_S_MAX = 5.0


class Rig(Breakable):
    """One rig directory. Nothing is checked by making a handle; see `up` and `attach`."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        # An owned supervisor ends when this handle lets go of it.
        self._launched: Launched | None = None

    @classmethod
    async def up(
        cls,
        spec: RigSpec,
        directory: Path,
        *,
        owned: bool,
        reserve: ReservePorts = reserve_ports,
    ) -> Rig:
        """Start a rig and wait until all of it answers; on any failure nothing of it stays.

        An owned rig dies with this process, however that ends; the other kind outlives it.
        """
        rig = cls(directory)
        rig._launched = await raise_rig(spec, rig.directory, owned=owned, reserve=reserve)
        return rig

    @classmethod
    def attach(cls, directory: Path) -> Rig:
        """A rig that is up; NotFoundError when there is none, RigError when it is not well."""
        manifest = manifest_of(directory)
        if manifest.supervisor is None and manifest.live:
            raise RigError(
                f"The rig in {str(directory)!r} is still being started by pid "
                f"{manifest.maker.pid}.",
                next_step="Wait for it.",
            )
        if not manifest.live:
            raise RigError(
                f"The supervisor of the rig in {str(directory)!r} is dead.",
                next_step="Stop the remaining processes with: operator lab down",
            )
        return cls(directory)

    async def down(self) -> None:
        """End everything and remove the directory; also when the supervisor is dead, also twice."""
        await retire(self.directory)
        if self._launched is not None:
            await self._launched.wait_until_gone(HELD_S_MAX)


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
        from operator_lab.stacks.rig import StackRig

        return StackRig.attach(directory)
    return Rig.attach(directory)


async def retire_any(directory: Path) -> None:
    """Stop the rig in a directory, also a partly dead one; nothing happens without a rig."""
    if is_stack(directory):
        from operator_lab.stacks.rig import StackRig

        await StackRig(directory).down()
        return
    await Rig(directory).down()
