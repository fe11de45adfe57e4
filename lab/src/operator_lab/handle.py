"""What is known about a rig that is up: its targets, its processes, and how they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from operator_lab.manifest import HOST, LINKS, LOAD, Layout, Manifest, read_manifest
from operator_protocols.domain.target import Process, Target
from operator_protocols.errors import NotFoundError, RigError
from operator_sre.processes.identity import alive, is_paused
from operator_sre.processes.supervision import Child, ChildState, read_state

__all__ = ["Handle", "ProcessStatus", "RigStatus", "RunState", "manifest_of"]

DEED_S_MAX = 5.0
POLL_S = 0.01
OTHER = "other"


class RunState(StrEnum):
    """Where a process of a rig stands, by the process table of the machine."""

    NEW = "new"
    RUNNING = "running"
    PAUSED = "paused"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process of a rig as it is now; the load and the links are among them."""

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


class Handle:
    """One rig directory, from outside."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()

    @property
    def subject(self) -> str:
        """What it is a copy of."""
        return self.manifest().spec.subject

    def manifest(self) -> Manifest:
        """What is written about it; NotFoundError when it is gone."""
        return manifest_of(self.directory)

    def layout(self) -> Layout:
        """Where everything of it lies."""
        return Layout(self.directory, self.manifest())

    def targets(self) -> tuple[Target, ...]:
        """Its parts as they are now; a dead one keeps its last process."""
        layout, targets = self.layout(), []
        manifest, children = layout.manifest, self._children()
        for spec in manifest.spec.processes:
            child, access = children.get(spec.name), spec.access
            if access is not None:
                # How it wants to be spoken to, with its files where they are.
                access = replace(
                    access,
                    ca_file=layout.fill(spec, access.ca_file),
                    certificate_file=layout.fill(spec, access.certificate_file),
                    key_file=layout.fill(spec, access.key_file),
                    password_file=layout.fill(spec, access.password_file),
                    token_file=layout.fill(spec, access.token_file),
                )
            target = Target(
                name=spec.name,
                kind=spec.kind,
                host=HOST,
                port=manifest.public_port(spec.name) if spec.name in manifest.ports else None,
                depends_on=spec.depends_on,
                process=None if child is None else child.process,
                log=str(layout.log(spec.name)),
                data_dir=str(layout.data(spec)),
                access=access,
            )
            targets.append(target)
        return tuple(targets)

    def own_ports(self) -> Mapping[str, int]:
        """The ports that its parts listen on themselves, by `NAME` and `NAME:PORT`."""
        return self.manifest().ports

    def require(self, target: str) -> None:
        """NotFoundError where it has no such part."""
        self.manifest().process(target)

    def status(self) -> RigStatus:
        """Every process with its state, the load and the links among them."""
        layout = self.layout()
        manifest = layout.manifest
        kinds = {spec.name: spec.kind for spec in manifest.spec.processes}
        kinds |= {LOAD: LOAD, LINKS: LINKS}
        shown = [
            child
            for child in self._children().values()
            # What never ran and is nobody's part says nothing.
            if child.name in kinds or child.state is not ChildState.NEW
        ]
        return RigStatus(
            subject=manifest.spec.subject,
            directory=str(self.directory),
            supervised=manifest.supervisor is not None and alive(manifest.supervisor),
            processes=tuple(
                ProcessStatus(
                    name=child.name,
                    kind=kinds.get(child.name, OTHER),
                    state=_state_of(child),
                    port=manifest.public_port(child.name) if child.name in manifest.ports else None,
                    process=child.process,
                    exit_code=child.exit_code,
                    restarts=child.restarts,
                    log=str(layout.log(child.name)),
                )
                for child in shown
            ),
        )

    def _children(self) -> dict[str, Child]:
        state = read_state(self.directory)
        return {} if state is None else {child.name: child for child in state.children}

    def _process(self, name: str) -> Process | None:
        """The living process of a name, or None."""
        child = self._children().get(name)
        if child is None or child.process is None or not alive(child.process):
            return None
        return child.process

    def _running(self, target: str) -> Process:
        """The living process of a target; RigError when there is none."""
        self.manifest().process(target)
        process = self._process(target)
        if process is None:
            raise RigError(
                f"{target!r} is not running.", next_step="Restart it before anything else."
            )
        return process

    async def _until(self, condition: Callable[[], bool], problem: str) -> None:
        ends = time.monotonic() + DEED_S_MAX
        while not condition():
            if time.monotonic() > ends:
                raise RigError(f"{problem}.")
            await asyncio.sleep(POLL_S)


def manifest_of(directory: Path) -> Manifest:
    """What is written about the rig of a directory; NotFoundError when there is none."""
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
    return RunState.PAUSED if is_paused(child.process) else RunState.RUNNING
