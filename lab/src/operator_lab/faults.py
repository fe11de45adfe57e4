"""Break a rig on purpose, record the damage, and repair it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from operator_lab.handle import RunState
from operator_lab.rig import AnyRig
from operator_protocols.errors import NotFoundError, OperatorError, RigError
from operator_protocols.ports import Ability, Fault, Scene
from operator_sre.processes.files import write_atomically

__all__ = ["Broken", "broken", "heal", "inject", "is_over", "unavailable"]

FAULTS_FILE = "faults.json"


@dataclass(frozen=True, slots=True)
class Broken:
    """A fault that was injected and not healed, with what it noted for that."""

    fault: str
    target: str
    notes: Mapping[str, str] = field(default_factory=dict)

    def same(self, other: Broken) -> bool:
        """The same fault at the same target."""
        return (self.fault, self.target) == (other.fault, other.target)


def broken(rig: AnyRig) -> tuple[Broken, ...]:
    """What was broken and not healed, oldest first."""
    try:
        records = json.loads(_file(rig).read_text(encoding="utf-8"))
        return tuple(Broken(**record) for record in records)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError) as problem:
        raise RigError(f"The faults of the rig cannot be read: {problem}.") from problem


def unavailable(rig: AnyRig, fault: Fault) -> str:
    """Why a fault cannot be done to anything in this rig, or ""."""
    reasons = [fault.unavailable(_scene(rig, name)) for name in _of_kind(rig, fault)]
    if not reasons:
        return f"this rig has nothing of kind {fault.kind!r}"
    return "" if "" in reasons else reasons[0]


async def inject(rig: AnyRig, fault: Fault, *, target: str | None, rng: random.Random) -> str:
    """Do the fault to a target of its kind, chosen by `rng` when none is named; return the name."""
    name = _find_target(rig, fault, target) if target is not None else _pick_target(rig, fault, rng)
    scene = _scene(rig, name)
    if why := fault.unavailable(scene):
        raise RigError(f"The fault {fault.name!r} is not available here: {why}.")
    damage = Broken(fault.name, name)
    if any(damage.same(each) for each in broken(rig)):
        raise RigError(
            f"The fault {fault.name!r} is already active at {name!r}.",
            next_step=f"Heal it first with: operator lab heal {rig.subject} {fault.name}",
        )
    # Recorded first: a fault without a record could not be healed.
    _change(rig, lambda now: [*now, damage])
    before = _hurts(scene)
    try:
        notes = await fault.inject(scene)
    except OperatorError:
        # Refused, and nothing happened. After anything else it may be half done, and is kept.
        if _hurts(scene) == before:
            _change(rig, lambda now: [each for each in now if not damage.same(each)])
        raise
    done = Broken(fault.name, name, notes)
    _change(rig, lambda now: [done if damage.same(each) else each for each in now])
    return name


async def heal(rig: AnyRig, fault: Fault, *, target: str | None = None) -> str:
    """Undo the fault at a target, or where it was injected last; return the name.

    A target that was repaired in the meantime is left as it is.
    """
    damage = _find_damage(rig, fault, target)
    await fault.heal(_scene(rig, damage.target, damage.notes))
    _change(rig, lambda now: [each for each in now if not damage.same(each)])
    return damage.target


async def is_over(rig: AnyRig, fault: Fault, *, target: str | None = None) -> str:
    """What is still wrong by the fault's own oracle, or "" when its cause is gone."""
    damage = _find_damage(rig, fault, target)
    return await fault.oracle(_scene(rig, damage.target, damage.notes))


def _scene(rig: AnyRig, name: str, notes: Mapping[str, str] | None = None) -> Scene:
    targets = rig.targets()
    target = next(target for target in targets if target.name == name)
    return Scene(target, targets, rig, notes or {})


def _hurts(scene: Scene) -> dict[str, frozenset[Ability]]:
    return {target.name: scene.rig.damage(target.name) for target in scene.targets}


def _find_target(rig: AnyRig, fault: Fault, target: str) -> str:
    valid = _of_kind(rig, fault)
    if target not in valid:
        raise NotFoundError(
            f"The fault {fault.name!r} cannot be injected into {target!r}.",
            next_step=f"It can be done to {', '.join(valid) or 'nothing in this rig'}.",
        )
    return target


def _pick_target(rig: AnyRig, fault: Fault, rng: random.Random) -> str:
    valid = _of_kind(rig, fault)
    if not valid:
        raise NotFoundError(
            f"The fault {fault.name!r} needs a target of kind {fault.kind!r}.",
            next_step=f"This rig has {', '.join(sorted({t.kind for t in rig.targets()}))}.",
        )
    states = {process.name: process.state for process in rig.status().processes}
    running = [name for name in valid if states.get(name) is RunState.RUNNING]
    if not running:
        raise RigError(
            f"No target of kind {fault.kind!r} is running, so {fault.name!r} has no target.",
            next_step="Heal the rig first.",
        )
    # Where it is there already, or cannot be done, it is not done; `inject` says why if nowhere is.
    taken = {each.target for each in broken(rig) if each.fault == fault.name}
    fit = [name for name in running if name not in taken]
    able = [name for name in fit if not fault.unavailable(_scene(rig, name))]
    return rng.choice(able or fit or running)


def _find_damage(rig: AnyRig, fault: Fault, target: str | None) -> Broken:
    """Where the fault was injected last, or at this target."""
    if target is not None:
        _find_target(rig, fault, target)
    now = broken(rig)
    for each in reversed(now):
        if each.fault == fault.name and target in (None, each.target):
            return each
    others = ", ".join(f"{each.fault} at {each.target}" for each in now) or "nothing"
    raise NotFoundError(
        f"The fault {fault.name!r} is not active in this rig.",
        next_step=f"Active faults: {others}.",
    )


def _of_kind(rig: AnyRig, fault: Fault) -> list[str]:
    return sorted(target.name for target in rig.targets() if target.kind == fault.kind)


def _change(rig: AnyRig, change: Callable[[Sequence[Broken]], Sequence[Broken]]) -> None:
    """Write down what is broken now; two who do this at the same time do not undo each other."""
    with _alone(rig):
        faults = change(broken(rig))
        write_atomically(_file(rig), json.dumps([asdict(fault) for fault in faults]))


@contextlib.contextmanager
def _alone(rig: AnyRig) -> Iterator[None]:
    """Be alone with the record for a moment, without leaving a file."""
    handle = os.open(rig.directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _file(rig: AnyRig) -> Path:
    return rig.directory / FAULTS_FILE
