"""Faults that any rig can have, written once over the abilities of the lab.

A subject takes the faults that fit its kinds of targets, and adds its own:

FAULTS = (kill_fault("node_kill", "node", breaks=("node_down",)), ...)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

from operator_protocols.domain.target import Target
from operator_protocols.ports.lab import Ability, CorrectOutcome, Fault, Scene

__all__ = [
    "answers",
    "cut_fault",
    "fill_fault",
    "flood_fault",
    "kill_fault",
    "limit_fault",
    "occupy_fault",
    "only_at",
    "pause_fault",
    "slow_fault",
]

ANSWER_S_MAX = 2.0
FLOOD_LINE = 'level=info msg="request served" status=200\n'
FLOOD_BYTES = 32 << 20
FLOOD_CHUNK_LINES = 10_000
NUMBERS = {2: "Two", 3: "Three", 4: "Four", 5: "Five"}

Step = Callable[[Scene], Awaitable[object]]
Unavailable = Callable[[Scene], str]


def only_at(fault: Fault, name: str) -> Fault:
    """The same fault, at the target of that name only."""
    before = fault.unavailable

    def unavailable(scene: Scene) -> str:
        return before(scene) if scene.target.name == name else f"it applies to {name!r} only"

    return replace(fault, unavailable=unavailable)


def kill_fault(
    name: str,
    kind: str,
    *,
    breaks: tuple[str, ...],
    count: int = 1,
    end: CorrectOutcome = CorrectOutcome.MITIGATED,
) -> Fault:
    """Kill several processes by SIGKILL; the fault ends when all run and answer again."""
    if count < 1:
        raise ValueError("A fault must kill at least one target.")

    async def kill(scene: Scene) -> None:
        for each in _victims(scene, count):
            await scene.rig.kill(each.name)

    def unavailable(scene: Scene) -> str:
        there = len(scene.of_kind(kind))
        if there < count:
            return f"there are only {there} of kind {kind!r}"
        reasons = (scene.rig.unable(each.name, Ability.KILL) for each in _victims(scene, count))
        return next((reason for reason in reasons if reason), "")

    several = f"{NUMBERS.get(count, str(count))} {kind}s are killed."
    sentence = f"One {kind} is killed." if count == 1 else several
    return _fault(
        *(name, sentence, kind, breaks, Ability.KILL, kill),
        unavailable=unavailable,
        end=end,
        count=count,
    )


def pause_fault(name: str, kind: str, *, breaks: tuple[str, ...]) -> Fault:
    """Stop one process by SIGSTOP; the fault ends when it continues, or another took its place."""

    async def resume(scene: Scene) -> None:
        if Ability.PAUSE in scene.rig.damage(scene.target.name):
            await scene.rig.resume(scene.target.name)

    return _fault(
        *(name, f"One {kind} is frozen.", kind, breaks, Ability.PAUSE),
        lambda scene: scene.rig.pause(scene.target.name),
        resume,
    )


def cut_fault(
    name: str,
    kind: str,
    *,
    breaks: tuple[str, ...],
    others: tuple[str, ...] = (),
    end: CorrectOutcome = CorrectOutcome.ESCALATED,
) -> Fault:
    """Nothing passes between one process and all targets of other kinds (everybody).

    Nothing inside the system can repair a link, so the correct outcome is an escalation.
    """
    sentence = f"One {kind} is cut off from {_everyone(kind, others)}."
    return _fault(
        *(name, sentence, kind, breaks, Ability.CUT),
        lambda scene: scene.rig.cut(scene.target.name, _peers(scene, others)),
        lambda scene: scene.rig.reconnect(scene.target.name, _peers(scene, others)),
        unavailable=_needs_peers(Ability.CUT, others),
        end=end,
    )


def slow_fault(
    name: str,
    kind: str,
    *,
    breaks: tuple[str, ...],
    delay_s: float,
    others: tuple[str, ...] = (),
    end: CorrectOutcome = CorrectOutcome.ESCALATED,
) -> Fault:
    """Every message between one process and all targets of other kinds (everybody) is delayed."""
    between = f"between one {kind} and {_everyone(kind, others)}"
    sentence = f"Messages {between} take {delay_s:g} s longer."
    return _fault(
        *(name, sentence, kind, breaks, Ability.SLOW),
        lambda scene: scene.rig.slow(scene.target.name, delay_s, _peers(scene, others)),
        lambda scene: scene.rig.hasten(scene.target.name, _peers(scene, others)),
        unavailable=_needs_peers(Ability.SLOW, others),
        end=end,
    )


def fill_fault(
    name: str,
    kind: str,
    *,
    breaks: tuple[str, ...],
    left_bytes: int = 0,
    end: CorrectOutcome = CorrectOutcome.MITIGATED,
) -> Fault:
    """The disk of one process is full; the fault ends when there is room again.

    A process need not have survived a full disk, and is started again then.
    """
    return _fault(
        *(name, f"The disk of one {kind} is full.", kind, breaks, Ability.FILL),
        lambda scene: scene.rig.fill(scene.target.name, left_bytes=left_bytes),
        lambda scene: scene.rig.drain(scene.target.name),
        end=end,
    )


def limit_fault(
    name: str, kind: str, *, breaks: tuple[str, ...], memory_bytes: int = 0, files: int = 0
) -> Fault:
    """One process may have no more memory, or no more open files."""
    if not memory_bytes and not files:
        raise ValueError("A limit needs memory_bytes or files.")

    async def unlimit(scene: Scene) -> None:
        if Ability.LIMIT in scene.rig.damage(scene.target.name):
            await scene.rig.unlimit(scene.target.name)

    limits = {"memory limit": memory_bytes, "open-file limit": files}
    things = " and ".join(name for name, most in limits.items() if most)
    return _fault(
        *(name, f"One {kind} reaches its {things}.", kind, breaks, Ability.LIMIT),
        lambda scene: scene.rig.limit(scene.target.name, memory_bytes=memory_bytes, files=files),
        unlimit,
    )


def occupy_fault(
    name: str, kind: str, *, breaks: tuple[str, ...], end: CorrectOutcome = CorrectOutcome.MITIGATED
) -> Fault:
    """Another process listens on the port of a stopped one."""
    return _fault(
        *(name, f"The port of one {kind} is taken by another process.", kind, breaks),
        Ability.OCCUPY,
        lambda scene: scene.rig.occupy(scene.target.name),
        lambda scene: scene.rig.vacate(scene.target.name),
        end=end,
    )


def flood_fault(name: str, kind: str, *, breaks: tuple[str, ...]) -> Fault:
    """The log of one process has grown by a lot of lines that say nothing."""

    def size_of(log: Path) -> int:
        return log.stat().st_size if log.exists() else 0

    def flood(log: Path) -> int:
        before = size_of(log)
        chunk = FLOOD_LINE * FLOOD_CHUNK_LINES
        with log.open("a", encoding="utf-8") as lines:
            for _ in range(FLOOD_BYTES // len(chunk) + 1):
                lines.write(chunk)
        return before

    def truncate(log: Path, size: int) -> None:
        # A shorter file was rotated, and is left alone.
        if size_of(log) > size:
            with log.open("r+b") as lines:
                lines.truncate(size)

    async def inject(scene: Scene) -> Mapping[str, str]:
        return {"size": str(await asyncio.to_thread(flood, Path(scene.target.log)))}

    async def heal(scene: Scene) -> None:
        before = int(scene.notes.get("size", "0"))
        await asyncio.to_thread(truncate, Path(scene.target.log), before)

    async def oracle(scene: Scene) -> str:
        size = await asyncio.to_thread(size_of, Path(scene.target.log))
        # What it wrote itself in the meantime is no flood.
        is_flooded = size >= int(scene.notes.get("size", "0")) + FLOOD_BYTES // 2
        return f"the log of {scene.target.name} is {size >> 20} MB long" if is_flooded else ""

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
    hurt: Step,
    mend: Step | None = None,
    *,
    unavailable: Unavailable | None = None,
    end: CorrectOutcome = CorrectOutcome.MITIGATED,
    count: int = 1,
) -> Fault:
    """A fault that ends when its ability is withdrawn and its victims run and answer."""

    async def inject(scene: Scene) -> Mapping[str, str]:
        await hurt(scene)
        return {}

    async def heal(scene: Scene) -> None:
        if mend is not None:
            await mend(scene)
        # Nothing is restarted that runs.
        for each in _victims(scene, count):
            if Ability.KILL in scene.rig.damage(each.name):
                await scene.rig.restart(each.name)

    async def oracle(scene: Scene) -> str:
        for each in _victims(scene, count):
            wounds = scene.rig.damage(each.name)
            if ability in wounds or Ability.KILL in wounds:
                return f"{each.name} is still affected by: {', '.join(sorted(wounds))}"
            if not await answers(each):
                return f"{each.name} does not answer"
        return ""

    able = unavailable or (lambda scene: scene.rig.unable(scene.target.name, ability))
    return Fault(name, sentence, kind, breaks, inject, heal, oracle, end, able)


def _victims(scene: Scene, count: int) -> tuple[Target, ...]:
    """The target, and as many more of its kind as it takes, in the order of the rig."""
    kin = scene.of_kind(scene.target.kind)
    others = [each for each in kin if each.name != scene.target.name]
    return (scene.target, *others[: count - 1])


def _needs_peers(ability: Ability, kinds: tuple[str, ...]) -> Unavailable:
    """Without this, a fault between a target and no peers would cut it off from all others."""

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
    return " and ".join(named) or "all other processes"
