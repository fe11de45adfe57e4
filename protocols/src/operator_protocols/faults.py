"""Faults that any rig can have, written once over the abilities of the lab.

A subject takes those that make sense for its kinds of targets, and adds its own:

    FAULTS = (killed("node_kill", "node", breaks=("node_down",)), ...)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from operator_protocols.domain.target import Target
from operator_protocols.ports.breaking import Ability, Fault, Heal, Inject, RightEnd, Scene

__all__ = [
    "answers",
    "cut_off",
    "filled",
    "flooded",
    "killed",
    "limited",
    "occupied",
    "paused",
    "slowed",
]

ANSWER_S_MAX = 2.0
FLOOD_LINE = 'level=info msg="request served" status=200\n'
FLOOD_BYTES = 32 << 20


def killed(name: str, kind: str, *, breaks: tuple[str, ...]) -> Fault:
    """One process is ended by SIGKILL; it is over when it runs and answers again."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        await scene.rig.kill(scene.target.name)
        return {}

    async def heal(scene: Scene) -> None:
        if Ability.KILL in scene.rig.hurt(scene.target.name):
            await scene.rig.restart(scene.target.name)

    return _fault(name, f"One {kind} is killed.", kind, breaks, Ability.KILL, inject, heal)


def paused(name: str, kind: str, *, breaks: tuple[str, ...]) -> Fault:
    """One process is stopped by SIGSTOP; it is over when it goes on, or another took its place."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        await scene.rig.pause(scene.target.name)
        return {}

    async def heal(scene: Scene) -> None:
        if Ability.PAUSE in scene.rig.hurt(scene.target.name):
            await scene.rig.resume(scene.target.name)

    return _fault(name, f"One {kind} is frozen.", kind, breaks, Ability.PAUSE, inject, heal)


def cut_off(
    name: str,
    kind: str,
    *,
    breaks: tuple[str, ...],
    others: tuple[str, ...] = (),
    end: RightEnd = RightEnd.ESCALATED,
) -> Fault:
    """Nothing passes between one process and all targets of other kinds (everybody).

    Nobody inside of the system can mend a wire, so the right end is a person who knows.
    """

    async def inject(scene: Scene) -> Mapping[str, str]:
        await scene.rig.cut(scene.target.name, _peers(scene, others))
        return {}

    async def heal(scene: Scene) -> None:
        await scene.rig.mend(scene.target.name, _peers(scene, others))

    away = f"from every {' and '.join(others)}" if others else "from everybody"
    sentence = f"One {kind} is cut off {away}."
    return _fault(name, sentence, kind, breaks, Ability.CUT, inject, heal, end=end)


def slowed(
    name: str,
    kind: str,
    *,
    breaks: tuple[str, ...],
    delay_s: float,
    others: tuple[str, ...] = (),
    end: RightEnd = RightEnd.ESCALATED,
) -> Fault:
    """Every message between one process and all targets of other kinds (everybody) is delayed."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        await scene.rig.slow(scene.target.name, delay_s, _peers(scene, others))
        return {}

    async def heal(scene: Scene) -> None:
        await scene.rig.hasten(scene.target.name, _peers(scene, others))

    sentence = f"Messages to and from one {kind} take {delay_s:g} s longer."
    return _fault(name, sentence, kind, breaks, Ability.SLOW, inject, heal, end=end)


def filled(name: str, kind: str, *, breaks: tuple[str, ...], left_bytes: int = 0) -> Fault:
    """The disk of one process is full; it is over when there is room again."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        await scene.rig.fill(scene.target.name, left_bytes=left_bytes)
        return {}

    async def heal(scene: Scene) -> None:
        await scene.rig.drain(scene.target.name)
        if Ability.KILL in scene.rig.hurt(scene.target.name):  # it did not survive a full disk
            await scene.rig.restart(scene.target.name)

    return _fault(
        name, f"The disk of one {kind} is full.", kind, breaks, Ability.FILL, inject, heal
    )


def limited(
    name: str, kind: str, *, breaks: tuple[str, ...], memory_bytes: int = 0, files: int = 0
) -> Fault:
    """One process may have no more memory, or no more open files."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        await scene.rig.limit(scene.target.name, memory_bytes=memory_bytes, files=files)
        return {}

    async def heal(scene: Scene) -> None:
        await scene.rig.unlimit(scene.target.name)
        if Ability.KILL in scene.rig.hurt(scene.target.name):
            await scene.rig.restart(scene.target.name)

    what = "memory" if memory_bytes else "open files"
    sentence = f"One {kind} may have no more {what}."
    return _fault(name, sentence, kind, breaks, Ability.LIMIT, inject, heal)


def occupied(name: str, kind: str, *, breaks: tuple[str, ...]) -> Fault:
    """Another process listens on the port of one that is down."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        await scene.rig.occupy(scene.target.name)
        return {}

    async def heal(scene: Scene) -> None:
        await scene.rig.vacate(scene.target.name)
        if Ability.KILL in scene.rig.hurt(scene.target.name):
            await scene.rig.restart(scene.target.name)

    sentence = f"The port of one {kind} is taken by another process."
    return _fault(name, sentence, kind, breaks, Ability.OCCUPY, inject, heal)


def flooded(name: str, kind: str, *, breaks: tuple[str, ...]) -> Fault:
    """The log of one process has grown by a lot of lines that say nothing."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        log = Path(scene.target.log)
        before = await asyncio.to_thread(_flood, log)
        return {"size": str(before)}

    async def heal(scene: Scene) -> None:
        await asyncio.to_thread(_truncate, Path(scene.target.log), int(scene.notes["size"]))

    async def oracle(scene: Scene) -> str:
        size = await asyncio.to_thread(_size, Path(scene.target.log))
        return "" if size < FLOOD_BYTES else f"its log is {size >> 20} MB long"

    sentence = f"The log of one {kind} is flooded."
    return Fault(name, sentence, kind, breaks, inject, heal, oracle)


async def answers(target: Target) -> bool:
    """Whether a connection to it is accepted."""
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            _, writer = await asyncio.open_connection(target.host, target.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def _fault(
    name: str,
    sentence: str,
    kind: str,
    breaks: tuple[str, ...],
    ability: Ability,
    inject: Inject,
    heal: Heal,
    *,
    end: RightEnd = RightEnd.MITIGATED,
) -> Fault:
    async def oracle(scene: Scene) -> str:
        hurt = scene.rig.hurt(scene.target.name)
        if ability in hurt or Ability.KILL in hurt:
            return f"{scene.target.name} still suffers from: {', '.join(sorted(hurt))}"
        return "" if await answers(scene.target) else f"{scene.target.name} does not answer"

    return Fault(name, sentence, kind, breaks, inject, heal, oracle, end, _needs(ability))


def _needs(ability: Ability) -> Callable[[Scene], str]:
    return lambda scene: scene.rig.unable(scene.target.name, ability)


def _peers(scene: Scene, kinds: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        target.name
        for target in scene.targets
        if target.kind in kinds and target.name != scene.target.name
    )


def _size(log: Path) -> int:
    return log.stat().st_size


def _flood(log: Path) -> int:
    before = _size(log)
    with log.open("a", encoding="utf-8") as lines:
        lines.writelines(FLOOD_LINE for _ in range(FLOOD_BYTES // len(FLOOD_LINE)))
    return before


def _truncate(log: Path, size: int) -> None:
    with log.open("r+b") as lines:
        lines.truncate(size)
