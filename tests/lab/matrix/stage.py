"""Rigs that are looked at by the real monitor, shared by the faults that are done to them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from operator_lab.faults import Broken, broken
from operator_lab.rig import Rig
from operator_protocols.domain.health import Health, worst
from operator_protocols.domain.observation import Violation
from operator_protocols.domain.target import dependencies_of
from operator_protocols.errors import MissingProgramError
from operator_protocols.ports import Ability, Fault, Plugin, Scene, Subject, SubjectSettings
from operator_sre.app.secret_store import read_secret
from operator_sre.clock import SystemClock
from operator_sre.monitor import OBSERVABLE, Monitor, Watched, violations_of
from operator_sre.plugins import find_plugin, plugin_names
from operator_sre.store import Store, open_store

__all__ = ["Case", "Stage", "Stages", "cases", "strangers", "unwell"]

# How often a demo looks, by which the promise is measured; and how often we do, to lose no time.
INTERVAL_S = 5.0
LOOK_EVERY_S = 0.5
TIMEOUT_S = 3.0
HEALTHY_S_MAX = 60.0
# A longer grace is not waited for: it is enough that the break lasts for some looks.
GRACE_S_MAX = 3.0
LOOKS_AFTER = 2
# Built from source, and its faults change objects and no process: tests/subjects/kubernetes/rig
# does them on the real cluster.
ELSEWHERE = frozenset({"kubernetes"})


@dataclass(frozen=True, slots=True)
class Case:
    """One fault of one subject."""

    subject: str
    fault: Fault

    @property
    def id(self) -> str:
        """Its name in a report."""
        return f"{self.subject}-{self.fault.name}"


def cases() -> list[Case]:
    """All that are installed, in their order."""
    plugins = (find_plugin(name) for name in plugin_names() if name not in ELSEWHERE)
    return [Case(one.name, fault) for one in plugins if one.rig for fault in one.faults]


class Stage:
    """One rig with the subject that looks at it and a store for what was seen."""

    def __init__(self, plugin: Plugin, rig: Rig, store: Store) -> None:
        self.rig = rig
        clock = SystemClock()
        options = rig.manifest().spec.options
        settings = SubjectSettings(
            plugin.name, rig.targets, clock, TIMEOUT_S, options, secret=read_secret, life=rig
        )
        self.subject: Subject = plugin.subject(settings)
        self._store = store
        self._monitor = Monitor(
            clock=clock,
            conditions=store.conditions,
            observations=store.observations,
            timeout_s=TIMEOUT_S * 3,
            blind_grace_s=2 * LOOK_EVERY_S,
        )

    async def look(self) -> Watched:
        """One look, and what it means by now."""
        return await self._monitor.watch(self.subject)

    async def until_healthy(self, within_s: float = HEALTHY_S_MAX) -> None:
        """Wait until all is well in two looks; AssertionError says what is not."""
        ends, in_row = time.monotonic() + within_s, 0
        while in_row < 2:
            watched = await self.look()
            wrong = unwell(watched)
            in_row = 0 if wrong else in_row + 1
            assert not wrong or time.monotonic() < ends, f"not well in {within_s:g} s: {wrong}"
            await asyncio.sleep(LOOK_EVERY_S)

    async def until_violated(self, case: Case, hit: frozenset[str]) -> list[str]:
        """Wait until the fault's invariant is a violation; what else is one meanwhile.

        AssertionError when it is not within its grace and two intervals.
        """
        named = case.fault.breaks[0]
        grace_s = self.grace_s(named)
        # Looking takes time as well: twice as long at what does not answer, and again when busy.
        ends = time.monotonic() + 2 * INTERVAL_S + min(grace_s, GRACE_S_MAX) + 4 * TIMEOUT_S
        others: set[str] = set()
        seen = 0
        while seen < LOOKS_AFTER:
            watched = await self.look()
            others |= strangers(watched, case.fault.breaks, hit)
            violated = named in {one.invariant for one in self._later(watched, grace_s)}
            seen += violated
            if not seen:
                assert time.monotonic() < ends, f"{named} is no violation; {unwell(watched)}"
            await asyncio.sleep(LOOK_EVERY_S)
        return sorted(others)

    def grace_s(self, invariant: str) -> float:
        """How long it may be broken; 0 for what the monitor says itself."""
        graces = {one.name: one.grace_s for one in self.subject.invariants}
        assert invariant in {*graces, OBSERVABLE}, f"there is no invariant {invariant!r}"
        return graces.get(invariant, 0.0)

    def _later(self, watched: Watched, grace_s: float) -> tuple[Violation, ...]:
        """What is a violation, or will be one when a long grace is over, if nothing changes."""
        skipped = timedelta(seconds=max(0.0, grace_s - GRACE_S_MAX))
        return violations_of(
            watched.conditions,
            now=watched.check.observation.at + skipped,
            invariants={one.name: one for one in self.subject.invariants},
            blind_grace_s=2 * LOOK_EVERY_S,
        )

    def scene(self, one: Broken) -> Scene:
        """Where a fault was done, as it is now."""
        targets = self.rig.targets()
        target = next(each for each in targets if each.name == one.target)
        return Scene(target, targets, self.rig, one.notes)

    def hurt(self) -> frozenset[str]:
        """Whoever something is done to now; of a link, only that side to which it was done."""
        done = {one.target for one in broken(self.rig)}
        links = {Ability.CUT, Ability.SLOW}
        names = {one.name for one in self.rig.targets() if self.rig.damage(one.name) - links}
        return frozenset(done | names)

    def processes(self, *, but: frozenset[str]) -> dict[str, object]:
        """Who runs, without those that were hurt."""
        return {one.name: one.process for one in self.rig.targets() if one.name not in but}

    async def close(self) -> None:
        """Take it down."""
        self._store.close()
        await self.rig.down()


class Stages:
    """The stages of one process, by subject."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stages: dict[str, Stage] = {}
        self._count = 0

    async def of(self, subject: str) -> Stage:
        """The stage of a subject, brought up if it is not there. MissingExtraError if it cannot."""
        if subject not in self._stages:
            plugin = find_plugin(subject)
            assert plugin.rig is not None
            spec = plugin.rig()
            if not all(Path(each.file).exists() for each in spec.artifacts):
                raise MissingProgramError(
                    "its pinned files",
                    needed_for=f"The rig of {subject!r}",
                    next_step="Fetch them.",
                )
            self._count += 1
            folder = self._folder / f"{subject}-{self._count}"
            folder.mkdir()
            rig = await Rig.up(spec, folder / "rig", owned=True)
            store = open_store(folder / "operator.db", clock=SystemClock())
            self._stages[subject] = Stage(plugin, rig, store)
        return self._stages[subject]

    async def drop(self, subject: str) -> None:
        """Take it down, so that the next fault finds a new one."""
        if stage := self._stages.pop(subject, None):
            await stage.close()

    async def close(self) -> None:
        """Take all down."""
        for subject in tuple(self._stages):
            await self.drop(subject)


def unwell(watched: Watched) -> list[str]:
    """What is not HEALTHY, in words; nothing at all seen is not health."""
    findings = watched.check.findings
    wrong = [
        f"{one.invariant} at {one.target}: {one.health} {one.detail}"
        for one in findings
        if one.health is not Health.HEALTHY
    ]
    return wrong or ([] if worst(one.health for one in findings) is Health.HEALTHY else ["nothing"])


def strangers(watched: Watched, breaks: tuple[str, ...], hit: frozenset[str]) -> set[str]:
    """Violations that the fault does not name, and that do not follow from who needs whom."""
    found = set()
    for one in watched.violations:
        follows = bool(hit & dependencies_of(one.target, watched.targets))
        unseen = one.invariant == OBSERVABLE and one.target in hit
        if one.invariant not in breaks and not follows and not unseen:
            found.add(f"{one.invariant} at {one.target}: {one.detail}")
    return found
