"""A Rig is a handle on a disposable copy of a subject that runs in one directory."""

from __future__ import annotations

from pathlib import Path

from operator_protocols.domain.rig import RigSpec
from operator_protocols.errors import RigError
from operator_sre.lab.abilities import Breakable
from operator_sre.lab.handle import ProcessStatus, RigStatus, RunState, manifest_of
from operator_sre.lab.ports import ChoosePorts, choose_ports
from operator_sre.lab.raising import raise_rig, retire
from operator_sre.processes.control import Launched

__all__ = ["ProcessStatus", "Rig", "RigStatus", "RunState"]

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
        choose: ChoosePorts = choose_ports,
    ) -> Rig:
        """Start a rig and wait until all of it answers; on any failure nothing of it stays.

        An owned rig dies with this process, however that ends; the other kind outlives it.
        """
        rig = cls(directory)
        rig._launched = await raise_rig(spec, rig.directory, owned=owned, choose=choose)
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
                next_step="End what is left of it with: operator lab down",
            )
        return cls(directory)

    async def down(self) -> None:
        """End everything and remove the directory; also when the supervisor is dead, also twice."""
        await retire(self.directory)
        if self._launched is not None:
            await self._launched.gone(HELD_S_MAX)
