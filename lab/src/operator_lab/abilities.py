"""Everything that can be done to a rig that is up, and what is done to it now."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from operator_lab import limits
from operator_lab.handle import Handle
from operator_lab.manifest import LINKS, Volumes
from operator_lab.plan import aside
from operator_lab.ports import is_taken, listening, listens
from operator_lab.rules import EVERYBODY, Rule, change_rules, read_applied
from operator_lab.startup import wait_linked, wait_ready
from operator_protocols.domain.target import Process
from operator_protocols.errors import RigError
from operator_protocols.ports import Ability
from operator_sre.processes.control import Control
from operator_sre.processes.identity import alive, is_paused, tree_of
from operator_sre.processes.supervision import ChildState, Supervision

__all__ = ["Breakable"]

DELAY_S_MAX = 60.0


class Breakable(Handle):
    """A rig with all that the lab can do to it, see `Abilities` of the protocols."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._control = Control(self.directory)

    async def kill(self, target: str) -> None:
        """End a target by SIGKILL; nothing starts it again."""
        process = self._running(target)

        def has_exited() -> bool:
            child = self._children()[target]
            return not alive(process) and child.state is ChildState.EXITED

        await self._control.signal(target, "KILL")
        await self._until(has_exited, f"{target!r} does not exit after SIGKILL")
        await self._tell_links()

    async def restart(self, target: str) -> Process:
        """Stop a target if it runs, start it again and wait until it answers."""
        self.manifest().process(target)
        return await self._ready(target, await self._control.restart(target))

    async def pause(self, target: str) -> None:
        """Freeze a target by SIGSTOP; its port still accepts, but nothing answers."""
        process = self._running(target)
        await self._control.signal(target, "STOP")
        await self._until(lambda: is_paused(process), f"{target!r} does not stop")

    async def resume(self, target: str) -> Process:
        """Wake a paused target and wait until it answers."""
        process = self._running(target)
        await self._ready(target, await self._control.signal(target, "CONT"))
        return process

    def children(self, target: str) -> tuple[Process, ...]:
        """The processes that came out of a target, the oldest first."""
        process = self._running(target)
        return tuple(sorted(tree_of(process.pid), key=lambda each: (each.started, each.pid)))

    def signal(self, target: str, number: int, *, child: int | None = None) -> str:
        """Send any signal to a target, or to one of its children; returns what was hit."""
        process, name = self._running(target), target
        if child is not None and (born := self.children(target)):
            process = born[child % len(born)]
            name = f"{target}, child {process.pid}"
        if alive(process):
            os.kill(process.pid, number)
        return name

    async def cut(self, target: str, others: tuple[str, ...] = ()) -> None:
        """Nothing passes between a target and these others (everybody)."""
        self._check_links(target, others)
        new = tuple(Rule(target, other, cut=True) for other in others or (EVERYBODY,))
        await self._change(lambda rules: (*(r for r in rules if r not in new), *new))

    async def reconnect(self, target: str, others: tuple[str, ...] = ()) -> None:
        """Everything passes again between them; what fell silent is closed."""
        self._check_links(target, others)
        await self._change(
            lambda rules: tuple(r for r in rules if not (r.cut and r.about(target, others)))
        )

    async def slow(self, target: str, delay_s: float, others: tuple[str, ...] = ()) -> None:
        """Every message between a target and these others (everybody) takes that much longer."""
        self._check_links(target, others)
        if not 0 < delay_s <= DELAY_S_MAX:
            raise RigError(f"A delay is more than 0 s and at most {DELAY_S_MAX:g} s.")
        new = tuple(Rule(target, other, delay_s=delay_s) for other in others or (EVERYBODY,))
        # A new delay replaces the old one between the same two.
        pairs = {(rule.target, rule.other) for rule in new}
        await self._change(
            lambda rules: (
                *(r for r in rules if r.cut or (r.target, r.other) not in pairs),
                *new,
            )
        )

    async def lose(self, target: str, share: float, others: tuple[str, ...] = ()) -> None:
        """That share of messages between them is lost and sent again; `hasten` ends it."""
        self._check_links(target, others)
        if not 0 < share < 1:
            raise RigError("The share of lost messages is between 0 and 1.")
        new = tuple(Rule(target, other, loss=share) for other in others or (EVERYBODY,))
        await self._change(lambda rules: (*rules, *new))

    async def hasten(self, target: str, others: tuple[str, ...] = ()) -> None:
        """No more delay and no more loss between them."""
        self._check_links(target, others)
        await self._change(
            lambda rules: tuple(r for r in rules if r.cut or not r.about(target, others))
        )

    async def fill(self, target: str, *, left_bytes: int = 0) -> None:
        """Leave only so much room in the volume of a target."""
        volume = self._volume(target)
        await _at_disk(volume, partial(limits.fill, volume, left_bytes=left_bytes))

    async def drain(self, target: str) -> None:
        """Give back what was used up."""
        volume = self._volume(target)
        await _at_disk(volume, partial(limits.drain, volume))

    async def limit(
        self,
        target: str,
        *,
        memory_bytes: int = 0,
        files: int = 0,
        processes: int = 0,
        file_bytes: int = 0,
    ) -> None:
        """A target may have no more memory, open files, processes or bytes in a file than that."""
        process = self._running(target)
        self._check(target, Ability.LIMIT)
        wanted = {"as": memory_bytes, "nofile": files, "nproc": processes, "fsize": file_bytes}
        if min(wanted.values()) < 0 or not any(wanted.values()):
            raise RigError("A limit is a number above 0.")
        wanted = {name: most for name, most in wanted.items() if most}
        await asyncio.to_thread(limits.lower, self.directory, process, wanted)

    async def unlimit(self, target: str) -> None:
        """Lift its limits; a stopped target has none when it is started."""
        self.manifest().process(target)
        self._check(target, Ability.LIMIT)
        process = self._process(target)
        if process is not None:
            await asyncio.to_thread(limits.raise_again, self.directory, process)

    async def occupy(self, target: str) -> None:
        """End a target, and let a stranger listen on its port."""
        port = self.manifest().ports[self.manifest().process(target).name]
        await self._control.stop(target)
        name = aside(target)
        await self._control.start(name)

        def holds() -> bool:
            process = self._process(name)
            if process is None:
                raise RigError(f"No process could be started on the port {port}.")
            return listens(process, port) is not False and is_taken(port)

        await self._until(holds, f"No process listens on the port {port}")
        await self._tell_links()

    async def vacate(self, target: str) -> None:
        """End the stranger."""
        port = self.manifest().ports[self.manifest().process(target).name]
        await self._control.stop(aside(target))
        stranger = self._children()[aside(target)].process
        await self._until(
            lambda: stranger is None or not alive(stranger), f"The port {port} is still taken"
        )
        await self._tell_links()

    def unable(self, target: str, ability: Ability, others: tuple[str, ...] = ()) -> str:
        """Why this cannot be done to that target here, or ""."""
        manifest = self.manifest()
        spec = manifest.process(target)
        # What lies between two is enough, whichever of them it belongs to.
        between = bool(others) and all(manifest.process(other).linked for other in others)
        match ability:
            case Ability.CUT | Ability.SLOW if not spec.linked and not between:
                return f"{target!r} has no link"
            case Ability.FILL if not spec.volume_mb:
                return f"{target!r} has no volume of its own size"
            case Ability.FILL if manifest.volumes is Volumes.PLAIN:
                return manifest.no_volumes or "volumes cannot be mounted here"
            case Ability.LIMIT if not limits.AVAILABLE:
                return "only Linux can change the limits of a running process"
            case _:
                return ""

    def damage(self, target: str) -> frozenset[Ability]:
        """What is done to it now, seen in the world and not in a record."""
        layout = self.layout()
        manifest = layout.manifest
        spec = manifest.process(target)
        process = self._process(target)
        port = manifest.ports[target]
        heard = listening()
        there = is_taken(port) if heard is None else port in heard
        is_filled = is_limited = False
        if spec.volume_mb and manifest.volumes is not Volumes.PLAIN:
            with contextlib.suppress(OSError):
                is_filled = limits.is_full(layout.data(spec))
        if process is not None and manifest.supervisor is not None and limits.AVAILABLE:
            is_limited = limits.is_lowered(process, manifest.supervisor)
        seen = {
            Ability.KILL: process is None,
            Ability.PAUSE: process is not None and is_paused(process),
            Ability.FILL: is_filled,
            Ability.LIMIT: is_limited,
            Ability.OCCUPY: there and (process is None or listens(process, port) is False),
        }
        found = {ability for ability, is_so in seen.items() if is_so}
        links = self._process(LINKS) if manifest.links else None
        if manifest.links and (links is None or is_paused(links)):
            # Without a process for its links, nothing passes.
            found |= {Ability.CUT} if spec.linked else set()
        elif manifest.links:
            applied = read_applied(self.directory)
            rules = () if applied is None else applied.of(spec.name)
            found |= {Ability.CUT if rule.cut else Ability.SLOW for rule in rules}
        return frozenset(found)

    def _check(self, target: str, ability: Ability) -> None:
        if why := self.unable(target, ability):
            raise RigError(f"This cannot be done to {target!r}: {why}.")

    def _check_links(self, target: str, others: tuple[str, ...]) -> None:
        manifest = self.manifest()
        linked = manifest.process(target).linked
        for other in others:
            if other == target:
                raise RigError(f"There is no link between {target!r} and itself.")
            if not linked and not manifest.process(other).linked:
                raise RigError(f"There is no link between {target!r} and {other!r}.")
        if not others and not linked:
            raise RigError(f"{target!r} has no link.")

    def _volume(self, target: str) -> Path:
        layout = self.layout()
        spec = layout.manifest.process(target)
        self._check(target, Ability.FILL)
        return layout.data(spec)

    async def _change(self, change: Callable[[tuple[Rule, ...]], tuple[Rule, ...]]) -> None:
        """Change the rules and return when they hold."""
        number = change_rules(self.directory, change).number
        await self._control.signal(LINKS, "HUP")

        def hold() -> bool:
            applied = read_applied(self.directory)
            return applied is not None and applied.number >= number

        await self._until(hold, "The links do not accept the new rules")

    async def _tell_links(self) -> None:
        """Let the links notice at once who listens and who does not."""
        if self.manifest().links and self._process(LINKS) is not None:
            await self._change(lambda rules: rules)

    async def _ready(self, target: str, state: Supervision) -> Process:
        layout = self.layout()
        spec = layout.manifest.process(target)
        process = state.child(target).process
        if process is None:
            raise RigError(f"{target!r} was started but is not running.")
        await wait_ready(layout, spec, process=process)
        if spec.linked and self._process(LINKS) is not None:
            await wait_linked(layout, spec)
        return process


async def _at_disk(volume: Path, deed: Callable[[], None]) -> None:
    try:
        await asyncio.to_thread(deed)
    except OSError as problem:
        raise RigError(f"The volume {str(volume)!r} cannot be changed: {problem}.") from problem
