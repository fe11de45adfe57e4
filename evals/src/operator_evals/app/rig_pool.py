"""Rigs that serve one trial after another, for subjects whose rig takes long to come up.

A rig goes back only if everything that was done to it was undone and all of it runs. The next trial
begins when its monitor finds the rig healthy.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from operator_lab import faults
from operator_lab.app.rigs import raise_rig
from operator_lab.rig import AnyRig, RunState
from operator_protocols.errors import OperatorError

__all__ = ["Lent", "RigPool"]


@dataclass(slots=True)
class Lent:
    """A rig for one trial. It is `used` if it has served another trial before."""

    rig: AnyRig
    used: bool
    keep: bool = False


@dataclass(slots=True)
class RigPool:
    """Rigs below one folder; they end with this process at the latest."""

    folder: Path
    _free: dict[str, list[AnyRig]] = field(default_factory=dict)
    _made: int = 0

    async def __aenter__(self) -> RigPool:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for rigs in self._free.values():
            for rig in rigs:
                with suppress(OperatorError):
                    await rig.down()
        self._free = {}

    @asynccontextmanager
    async def lend(self, subject: str) -> AsyncIterator[Lent]:
        """A rig for one trial at a time; it goes back if the trial says `keep` and it is whole."""
        free = self._free.setdefault(subject, [])
        if free:
            lent = Lent(free.pop(), used=True)
        else:
            self._made += 1
            place = self.folder / f"r{self._made}"
            rig = await raise_rig(subject, place, make=None, owned=True)
            lent = Lent(rig, used=False)
        is_kept = False
        try:
            yield lent
            is_kept = lent.keep and _is_whole(lent.rig)
        finally:
            if is_kept:
                free.append(lent.rig)
            else:
                with suppress(OperatorError):
                    await lent.rig.down()


def _is_whole(rig: AnyRig) -> bool:
    """Whether nothing is broken in it and all of its parts run."""
    try:
        parts = {target.name for target in rig.targets()}
        states = {each.state for each in rig.status().processes if each.name in parts}
        return not faults.broken(rig) and states == {RunState.RUNNING}
    except OperatorError:
        return False
