"""Rigs: bring one up, hurt it, heal it, take it down."""

from __future__ import annotations

import random
from dataclasses import dataclass

from operator_protocols.domain.target import Target
from operator_protocols.errors import NotFoundError, UsageError
from operator_protocols.ports import Fault
from operator_sre.app.wiring import App
from operator_sre.lab import faults
from operator_sre.lab.load import LoadStats, read_load
from operator_sre.lab.rig import Rig
from operator_sre.plugins import find_plugin

__all__ = [
    "RigView",
    "break_rig",
    "fault_of",
    "heal_rig",
    "own_rig",
    "rig_down",
    "rig_status",
    "rig_up",
]


@dataclass(frozen=True, slots=True)
class TargetView:
    """A target as a person needs it to break it by hand."""

    name: str
    kind: str
    state: str
    pid: int | None
    host: str
    port: int | None
    log: str
    data_dir: str


@dataclass(frozen=True, slots=True)
class RigView:
    """A rig with all its targets."""

    subject: str
    directory: str
    targets: tuple[TargetView, ...]
    load: LoadStats | None
    faults: tuple[str, ...]


async def rig_up(app: App, subject: str) -> RigView:
    """Bring the rig of a subject to life under this home; it runs until it is taken down."""
    await _raise(app, subject, owned=False)
    return rig_status(app, subject)


async def own_rig(app: App, subject: str) -> Rig:
    """A rig that ends with this process at the latest; the caller holds it and takes it down."""
    return await _raise(app, subject, owned=True)


async def _raise(app: App, subject: str, *, owned: bool) -> Rig:
    plugin = find_plugin(subject)
    if plugin.rig is None:
        raise UsageError(f"The subject {subject!r} has no rig.")
    return await Rig.up(plugin.rig(), app.rig_directory(subject), owned=owned)


async def rig_down(app: App, subject: str) -> None:
    """End everything of it and remove its directory; fine when there is nothing."""
    find_plugin(subject)
    await Rig(app.rig_directory(subject)).down()


def rig_status(app: App, subject: str) -> RigView:
    """Every target as it is now."""
    plugin = find_plugin(subject)
    rig = Rig.attach(app.rig_directory(subject))
    states = {process.name: process.state for process in rig.status().processes}
    return RigView(
        subject=subject,
        directory=str(app.rig_directory(subject)),
        targets=tuple(_view(target, states.get(target.name, "gone")) for target in rig.targets()),
        load=read_load(app.rig_directory(subject)),
        faults=tuple(fault.name for fault in plugin.faults),
    )


async def break_rig(
    app: App, subject: str, fault: str, *, target: str | None, seed: int | None
) -> str:
    """Inject a fault; returns the target that was hit."""
    found = fault_of(subject, fault)
    rig = Rig.attach(app.rig_directory(subject))
    return await faults.inject(rig, found, target=target, rng=random.Random(seed))


async def heal_rig(app: App, subject: str, fault: str, *, target: str | None) -> str:
    """Undo a fault; returns the target."""
    found = fault_of(subject, fault)
    rig = Rig.attach(app.rig_directory(subject))
    return await faults.heal(rig, found, target=target)


def fault_of(subject: str, name: str) -> Fault:
    """A fault of a subject by its name; NotFoundError lists those there are."""
    known = find_plugin(subject).faults
    for fault in known:
        if fault.name == name:
            return fault
    raise NotFoundError(
        f"{subject!r} has no fault {name!r}.",
        next_step=f"Faults: {', '.join(fault.name for fault in known)}.",
    )


def _view(target: Target, state: str) -> TargetView:
    return TargetView(
        name=target.name,
        kind=target.kind,
        state=state,
        pid=target.process.pid if target.process else None,
        host=target.host,
        port=target.port,
        log=target.log,
        data_dir=target.data_dir,
    )
