"""Break a rig on purpose, remember what was broken, and mend it again."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import assert_never

from operator_protocols.domain.fault import Ability, Fault
from operator_protocols.errors import NotFoundError, RigError
from operator_sre.lab.rig import Rig, RunState
from operator_sre.processes.files import write_atomically

__all__ = ["Broken", "broken", "heal", "inject"]

FAULTS_FILE = "faults.json"


@dataclass(frozen=True, slots=True)
class Broken:
    """A fault that was injected and not healed."""

    fault: str
    target: str


def broken(rig: Rig) -> tuple[Broken, ...]:
    """What was broken and not healed, oldest first."""
    try:
        records = json.loads(_file(rig).read_text(encoding="utf-8"))
        return tuple(Broken(**record) for record in records)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError) as problem:
        raise RigError(f"The faults of the rig cannot be read: {problem}.") from problem


async def inject(rig: Rig, fault: Fault, *, target: str | None, rng: random.Random) -> str:
    """Do the fault to a target of its kind, chosen by `rng` when none is named; return the name."""
    name = _named(rig, fault, target) if target is not None else _picked(rig, fault, rng)
    # Remembered first: a fault that nobody remembers could not be healed.
    before = broken(rig)
    _remember(rig, [*before, Broken(fault.name, name)])
    done = False
    try:
        match fault.ability:
            case Ability.KILL:
                await rig.kill(name)
            case Ability.PAUSE:
                await rig.pause(name)
            case _:
                assert_never(fault.ability)
        done = True
    finally:
        if not done:
            _remember(rig, before)
    return name


async def heal(rig: Rig, fault: Fault, *, target: str | None = None) -> str:
    """Undo the fault at a target, or where it was injected last; return the name.

    A target that somebody has mended in the meantime is left as it is.
    """
    name = _named(rig, fault, target) if target is not None else _hurt_last(rig, fault)
    state = _states(rig)[name]
    match fault.ability:
        case Ability.KILL:
            if state is not RunState.RUNNING:
                await rig.restart(name)
        case Ability.PAUSE:
            if state is RunState.PAUSED:
                await rig.resume(name)
        case _:
            assert_never(fault.ability)
    _remember(rig, [each for each in broken(rig) if each != Broken(fault.name, name)])
    return name


def _named(rig: Rig, fault: Fault, target: str) -> str:
    valid = _of_kind(rig, fault)
    if target not in valid:
        raise NotFoundError(
            f"The fault {fault.name!r} cannot be done to {target!r}.",
            next_step=f"It can be done to {', '.join(valid) or 'nothing in this rig'}.",
        )
    return target


def _picked(rig: Rig, fault: Fault, rng: random.Random) -> str:
    valid = _of_kind(rig, fault)
    if not valid:
        raise NotFoundError(
            f"The fault {fault.name!r} needs a target of kind {fault.kind!r}.",
            next_step=f"This rig has {', '.join(sorted({t.kind for t in rig.targets()}))}.",
        )
    states = _states(rig)
    running = [name for name in valid if states.get(name) is RunState.RUNNING]
    if not running:
        raise RigError(
            f"No target of kind {fault.kind!r} is running, so {fault.name!r} has nothing to hurt.",
            next_step="Heal the rig first.",
        )
    return rng.choice(running)


def _hurt_last(rig: Rig, fault: Fault) -> str:
    now = broken(rig)
    for each in reversed(now):
        if each.fault == fault.name:
            return each.target
    others = ", ".join(f"{each.fault} at {each.target}" for each in now) or "nothing"
    raise NotFoundError(
        f"The fault {fault.name!r} is not in this rig.", next_step=f"Broken now: {others}."
    )


def _of_kind(rig: Rig, fault: Fault) -> list[str]:
    return sorted(target.name for target in rig.targets() if target.kind == fault.kind)


def _states(rig: Rig) -> dict[str, RunState]:
    return {process.name: process.state for process in rig.status().processes}


def _remember(rig: Rig, faults: Sequence[Broken]) -> None:
    write_atomically(_file(rig), json.dumps([asdict(each) for each in faults]))


def _file(rig: Rig) -> Path:
    return rig.directory / FAULTS_FILE
