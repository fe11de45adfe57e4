"""A Rig is a handle on a disposable copy of a subject that runs in one directory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from operator_protocols.domain.rig import RigSpec
from operator_protocols.domain.target import Process, Target
from operator_protocols.errors import NotFoundError, RigError
from operator_sre.lab.manifest import HOST, Manifest, read_manifest
from operator_sre.lab.plan import LOAD, home_of, log_of
from operator_sre.lab.ports import ChoosePorts, choose_ports
from operator_sre.lab.raising import raise_rig, retire
from operator_sre.lab.readiness import wait_ready
from operator_sre.processes.control import Control, Launched
from operator_sre.processes.identity import alive, paused
from operator_sre.processes.supervision import Child, ChildState, Supervision, read_state

__all__ = ["ProcessStatus", "Rig", "RigStatus", "RunState"]

SIGNAL_S_MAX = 3.0
HELD_S_MAX = 5.0
POLL_S = 0.01


class RunState(StrEnum):
    """Where a process of a rig stands, by the process table of the machine."""

    NEW = "new"
    RUNNING = "running"
    PAUSED = "paused"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process of a rig as it is now; the load is one of them."""

    name: str
    kind: str
    state: RunState
    port: int | None
    process: Process | None
    exit_code: int | None
    restarts: int
    log: str


@dataclass(frozen=True, slots=True)
class RigStatus:
    """A whole rig as it is now; when it is not supervised, it can only be taken down."""

    subject: str
    directory: str
    supervised: bool
    processes: tuple[ProcessStatus, ...]


class Rig:
    """One rig directory. Nothing is checked by making a handle; see `up` and `attach`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        # An owned supervisor ends when this handle lets go of it.
        self._launched: Launched | None = None
        self._control = Control(self.directory)

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
        manifest = _manifest(directory)
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

    @property
    def subject(self) -> str:
        """What it is a copy of."""
        return self.manifest().spec.subject

    def manifest(self) -> Manifest:
        """What is written about it; NotFoundError when it is gone."""
        return _manifest(self.directory)

    def targets(self) -> tuple[Target, ...]:
        """Its parts as they are now, without the load; a dead one keeps its last process."""
        manifest = self.manifest()
        children = self._children()
        return tuple(
            Target(
                name=spec.name,
                kind=spec.kind,
                host=HOST,
                port=manifest.ports.get(spec.name),
                depends_on=spec.depends_on,
                process=children.get(spec.name, Child(spec.name)).process,
                log=str(log_of(self.directory, spec.name)),
                data_dir=str(home_of(self.directory, spec.name)),
            )
            for spec in manifest.spec.processes
        )

    def status(self) -> RigStatus:
        """Every process with its state, the load among them."""
        manifest = self.manifest()
        kinds = {spec.name: spec.kind for spec in manifest.spec.processes}
        return RigStatus(
            subject=manifest.spec.subject,
            directory=str(self.directory),
            supervised=manifest.supervisor is not None and alive(manifest.supervisor),
            processes=tuple(
                ProcessStatus(
                    name=child.name,
                    kind=kinds.get(child.name, LOAD),
                    state=_state_of(child),
                    port=manifest.ports.get(child.name),
                    process=child.process,
                    exit_code=child.exit_code,
                    restarts=child.restarts,
                    log=str(log_of(self.directory, child.name)),
                )
                for child in self._children().values()
            ),
        )

    async def kill(self, target: str) -> None:
        """End a target by SIGKILL; nothing starts it again."""
        process = self._running(target)
        await self._control.signal(target, "KILL")
        await self._until(lambda: self._exited(target, process), f"{target!r} does not die")

    async def pause(self, target: str) -> None:
        """Freeze a target by SIGSTOP; its port still accepts, nobody answers."""
        process = self._running(target)
        await self._control.signal(target, "STOP")
        await self._until(lambda: paused(process), f"{target!r} does not stop")

    async def resume(self, target: str) -> Process:
        """Wake a paused target and wait until it answers."""
        process = self._running(target)
        state = await self._control.signal(target, "CONT")
        await self._ready(target, state)
        return process

    async def restart(self, target: str) -> Process:
        """End a target if it runs, start it anew and wait until it answers."""
        self.manifest().process(target)
        state = await self._control.restart(target)
        return await self._ready(target, state)

    async def down(self) -> None:
        """End everything and remove the directory; also when the supervisor is dead, also twice."""
        await retire(self.directory)
        if self._launched is not None:
            await self._launched.gone(HELD_S_MAX)

    def _children(self) -> dict[str, Child]:
        state = read_state(self.directory)
        return {} if state is None else {child.name: child for child in state.children}

    def _running(self, target: str) -> Process:
        """The living process of a target; RigError when there is none."""
        self.manifest().process(target)
        child = self._children().get(target)
        if child is None or child.process is None or not alive(child.process):
            raise RigError(
                f"{target!r} is not running.", next_step="Restart it before anything else."
            )
        return child.process

    def _exited(self, target: str, process: Process) -> bool:
        child = self._children()[target]
        return not alive(process) and child.state is ChildState.EXITED

    async def _ready(self, target: str, state: Supervision) -> Process:
        manifest = self.manifest()
        process = state.child(target).process
        if process is None:
            raise RigError(f"{target!r} was started and is not there.")
        await wait_ready(
            manifest.process(target),
            process=process,
            port=manifest.ports[target],
            log=log_of(self.directory, target),
        )
        return process

    async def _until(self, condition: Callable[[], bool], problem: str) -> None:
        ends = time.monotonic() + SIGNAL_S_MAX
        while not condition():
            if time.monotonic() > ends:
                raise RigError(f"{problem}.")
            await asyncio.sleep(POLL_S)


def _manifest(directory: Path) -> Manifest:
    manifest = read_manifest(directory)
    if manifest is None:
        raise NotFoundError(
            f"There is no rig in {str(directory)!r}.",
            next_step="Start one with: operator lab up SUBJECT",
        )
    return manifest


def _state_of(child: Child) -> RunState:
    # The record may be older than the truth when the supervisor is dead.
    if child.process is None:
        return RunState.NEW if child.state is ChildState.NEW else RunState.EXITED
    if not alive(child.process):
        return RunState.EXITED
    return RunState.PAUSED if paused(child.process) else RunState.RUNNING
