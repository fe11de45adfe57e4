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
FLOOD_CHUNK_LINES = 10_000
NUMBERS = {2: "Two", 3: "Three", 4: "Four", 5: "Five"}

Unavailable = Callable[[Scene], str]


def killed(name: str, kind: str, *, breaks: tuple[str, ...], count: int = 1) -> Fault:
    """So many processes are ended by SIGKILL; it is over when all run and answer again."""
    if count < 1:
        raise ValueError("A fault has to kill at least one.")

    async def inject(scene: Scene) -> Mapping[str, str]:
        for each in _victims(scene, count):
            await scene.rig.kill(each.name)
        return {}

    async def heal(scene: Scene) -> None:
        for each in _victims(scene, count):
            await _revive(scene, each.name)

    def unavailable(scene: Scene) -> str:
        there = len(scene.of_kind(kind))
        if there < count:
            return f"there are only {there} of kind {kind!r}"
        return _cannot(scene, Ability.KILL, count)

    several = f"{NUMBERS.get(count, str(count))} {kind}s are killed."
    sentence = f"One {kind} is killed." if count == 1 else several
    return _fault(
        name, sentence, kind, breaks, Ability.KILL, inject, heal, unavailable, count=count
    )


def paused(name: str, kind: str, *, breaks: tuple[str, ...]) -> Fault:
    """One process is stopped by SIGSTOP; it is over when it goes on, or another took its place."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        await scene.rig.pause(scene.target.name)
        return {}

    async def heal(scene: Scene) -> None:
        if Ability.PAUSE in scene.rig.hurt(scene.target.name):
            await scene.rig.resume(scene.target.name)
        await _revive(scene, scene.target.name)

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
        await _revive(scene, scene.target.name)

    sentence = f"One {kind} is cut off from {_everyone(kind, others)}."
    unavailable = _needs_peers(Ability.CUT, others)
    return _fault(name, sentence, kind, breaks, Ability.CUT, inject, heal, unavailable, end=end)


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
        await _revive(scene, scene.target.name)

    between = f"between one {kind} and {_everyone(kind, others)}"
    sentence = f"Messages {between} take {delay_s:g} s longer."
    unavailable = _needs_peers(Ability.SLOW, others)
    return _fault(name, sentence, kind, breaks, Ability.SLOW, inject, heal, unavailable, end=end)


def filled(name: str, kind: str, *, breaks: tuple[str, ...], left_bytes: int = 0) -> Fault:
    """The disk of one process is full; it is over when there is room again."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        await scene.rig.fill(scene.target.name, left_bytes=left_bytes)
        return {}

    async def heal(scene: Scene) -> None:
        await scene.rig.drain(scene.target.name)
        await _revive(scene, scene.target.name)  # it need not have survived a full disk

    sentence = f"The disk of one {kind} is full."
    return _fault(name, sentence, kind, breaks, Ability.FILL, inject, heal)


def limited(
    name: str, kind: str, *, breaks: tuple[str, ...], memory_bytes: int = 0, files: int = 0
) -> Fault:
    """One process may have no more memory, or no more open files."""
    if not memory_bytes and not files:
        raise ValueError("A limit needs memory_bytes or files.")

    async def inject(scene: Scene) -> Mapping[str, str]:
        await scene.rig.limit(scene.target.name, memory_bytes=memory_bytes, files=files)
        return {}

    async def heal(scene: Scene) -> None:
        if Ability.LIMIT in scene.rig.hurt(scene.target.name):
            await scene.rig.unlimit(scene.target.name)
        await _revive(scene, scene.target.name)

    what = " and ".join([*(["memory"] * bool(memory_bytes)), *(["open files"] * bool(files))])
    sentence = f"One {kind} may have no more {what}."
    return _fault(name, sentence, kind, breaks, Ability.LIMIT, inject, heal)


def occupied(name: str, kind: str, *, breaks: tuple[str, ...]) -> Fault:
    """Another process listens on the port of one that is down."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        await scene.rig.occupy(scene.target.name)
        return {}

    async def heal(scene: Scene) -> None:
        await scene.rig.vacate(scene.target.name)
        await _revive(scene, scene.target.name)

    sentence = f"The port of one {kind} is taken by another process."
    return _fault(name, sentence, kind, breaks, Ability.OCCUPY, inject, heal)


def flooded(name: str, kind: str, *, breaks: tuple[str, ...]) -> Fault:
    """The log of one process has grown by a lot of lines that say nothing."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        before = await asyncio.to_thread(_flood, Path(scene.target.log))
        return {"size": str(before)}

    async def heal(scene: Scene) -> None:
        await asyncio.to_thread(_truncate, Path(scene.target.log), _size_before(scene))

    async def oracle(scene: Scene) -> str:
        size = await asyncio.to_thread(_size, Path(scene.target.log))
        # What it wrote itself in the meantime is no flood.
        flood = size >= _size_before(scene) + FLOOD_BYTES // 2
        return f"the log of {scene.target.name} is {size >> 20} MB long" if flood else ""

    def unavailable(scene: Scene) -> str:
        return "" if scene.target.log else f"{scene.target.name} has no log"

    sentence = f"The log of one {kind} is flooded."
    return Fault(name, sentence, kind, breaks, inject, heal, oracle, unavailable=unavailable)


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
    unavailable: Unavailable | None = None,
    *,
    end: RightEnd = RightEnd.MITIGATED,
    count: int = 1,
) -> Fault:
    async def oracle(scene: Scene) -> str:
        for each in _victims(scene, count):
            hurt = scene.rig.hurt(each.name)
            if ability in hurt or Ability.KILL in hurt:
                return f"{each.name} still suffers from: {', '.join(sorted(hurt))}"
            if not await answers(each):
                return f"{each.name} does not answer"
        return ""

    able = unavailable or (lambda scene: _cannot(scene, ability))
    return Fault(name, sentence, kind, breaks, inject, heal, oracle, end, able)


def _cannot(scene: Scene, ability: Ability, count: int = 1) -> str:
    reasons = (scene.rig.unable(each.name, ability) for each in _victims(scene, count))
    return next((reason for reason in reasons if reason), "")


def _victims(scene: Scene, count: int) -> tuple[Target, ...]:
    """The target, and as many more of its kind as it takes, in the order of the rig."""
    kin = scene.of_kind(scene.target.kind)
    others = [each for each in kin if each.name != scene.target.name]
    return (scene.target, *others[: count - 1])


async def _revive(scene: Scene, name: str) -> None:
    """Start it again where it is dead; nothing is restarted that runs."""
    if Ability.KILL in scene.rig.hurt(name):
        await scene.rig.restart(name)


def _needs_peers(ability: Ability, kinds: tuple[str, ...]) -> Unavailable:
    """Without this a fault between one and nobody would be one between one and everybody."""

    def unavailable(scene: Scene) -> str:
        peers = _peers(scene, kinds)
        if kinds and not peers:
            return f"there is nothing else of kind {' or '.join(map(repr, kinds))}"
        return scene.rig.unable(scene.target.name, ability, peers)

    return unavailable


def _peers(scene: Scene, kinds: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        target.name
        for target in scene.targets
        if target.kind in kinds and target.name != scene.target.name
    )


def _everyone(kind: str, others: tuple[str, ...]) -> str:
    named = [f"every other {each}" if each == kind else f"every {each}" for each in others]
    return " and ".join(named) or "everybody"


def _size_before(scene: Scene) -> int:
    return int(scene.notes.get("size", "0"))


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _flood(log: Path) -> int:
    before = _size(log)
    chunk = FLOOD_LINE * FLOOD_CHUNK_LINES
    with log.open("a", encoding="utf-8") as lines:
        for _ in range(FLOOD_BYTES // len(chunk) + 1):
            lines.write(chunk)
    return before


def _truncate(log: Path, size: int) -> None:
    """Cut off what came behind; a log that is shorter than that was rotated and is left alone."""
    if _size(log) > size:
        with log.open("r+b") as lines:
            lines.truncate(size)
