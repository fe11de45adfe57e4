"""Controls: what happens around a system in which nothing is left to repair."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import random
from datetime import timedelta

from operator_protocols.domain.alert import Alert
from operator_protocols.domain.health import Severity
from operator_protocols.domain.silence import Silence
from operator_protocols.errors import RigError
from operator_protocols.ports import Ability, Fault
from operator_sre.app.evals.job import TRIGGER, Job
from operator_sre.app.evals.places import RigOfTrial
from operator_sre.app.evals.working import VariantAtWork
from operator_sre.app.wiring import App
from operator_sre.evals.campaign import Control
from operator_sre.lab import faults
from operator_sre.plugins import find_plugin

__all__ = ["ControlOfTrial"]

POLL_S = 0.1
# So short that a look waits for it, and so often that there is always some.
PAUSE_S = 0.1
PAUSE_EVERY_S = 0.6
MAINTENANCE = timedelta(hours=1)


class ControlOfTrial:
    """What is done in a control; a target is chosen by the seed, as for a fault."""

    def __init__(self, app: App, place: RigOfTrial, variant: VariantAtWork, job: Job) -> None:
        self._app = app
        self._place = place
        self._variant = variant
        self._job = job
        self._subject = job.planned.scenario.subject
        self._control = Control(job.planned.scenario.fault)
        self._chance = random.Random(job.planned.seed)
        self._noise: asyncio.Task[None] | None = None
        self._broke: set[str] = set()

    @property
    def plain(self) -> Fault:
        """The first fault of a plug-in is its plainest one: a part is down."""
        return find_plugin(self._subject).faults[0]

    def unavailable(self) -> str:
        """Why it cannot be done here, or ""."""
        match self._control:
            case Control.RECOVERED | Control.MAINTENANCE:
                return faults.unavailable(self._place.rig, self.plain)
            case Control.NOISY:
                return "" if self._restless() else "no part of the rig can be paused"
            case _:
                return ""

    async def inject(self) -> str:
        """Do it; the target that it is about, "" where it is about none."""
        match self._control:
            case Control.NOTHING:
                return ""
            case Control.RECOVERED:
                return await self._recovered()
            case Control.NOISY:
                self._noise = asyncio.create_task(self._make_noise())
                return ""
            case Control.MISLEADING:
                return await self._mislead()
            case Control.MAINTENANCE:
                return await self._maintain()

    async def still(self) -> str:
        """What it broke in spite of its name."""
        if self._noise is not None:
            if self._noise.done():
                self._noise.result()
            self._broke |= set((await self._place.look()).broken)
        return ", ".join(sorted(self._broke))

    async def heal(self) -> None:
        """Take back what was done."""
        if self._noise is not None:
            self._noise.cancel()
            await asyncio.gather(self._noise, return_exceptions=True)
        if any(one.fault == self.plain.name for one in faults.broken(self._place.rig)):
            await faults.heal(self._place.rig, self.plain)

    async def _break(self) -> str:
        return await faults.inject(self._place.rig, self.plain, target=None, rng=self._chance)

    async def _recovered(self) -> str:
        """Down until there is a ticket; whoever works on it comes when all of it is back."""
        hit = await self._break()
        ends = self._app.clock.monotonic() + self._job.campaign.detect_s_max
        while not self._variant.tickets():
            self._must_be_before(ends, f"Nobody noticed that {hit!r} was down.")
            await asyncio.sleep(POLL_S)
        await self._variant.stop()
        await faults.heal(self._place.rig, self.plain)
        ends = self._app.clock.monotonic() + self._job.campaign.well_s_max
        while (await self._place.look()).broken:
            self._must_be_before(ends, f"It was not well after {hit!r} was back.")
            await asyncio.sleep(POLL_S)
        await self._variant.work()
        return hit

    def _must_be_before(self, ends: float, why: str) -> None:
        if self._app.clock.monotonic() >= ends:
            raise RigError(why)

    async def _mislead(self) -> str:
        """An alert as its receiver takes it down."""
        parts = [one for one in self._place.rig.targets() if one.kind == self.plain.kind]
        hit = self._chance.choice(parts).name
        alert = Alert(
            trigger=TRIGGER,
            fingerprint="1",
            name="TargetDown",
            subject=self._subject,
            target=hit,
            invariant="alert:TargetDown",
            severity=Severity.CRITICAL,
            summary=f"{hit} is down",
            since=self._app.clock.now(),
        )
        await self._app.store.alerts.take([alert])
        return hit

    async def _maintain(self) -> str:
        """A silence of a person for the whole subject, and then the work that it is for."""
        now = self._app.clock.now()
        announced = Silence(
            id="quiet-planned",
            starts_at=now,
            until=now + MAINTENANCE,
            by="maintainer",
            reason="planned maintenance",
            subject=glob.escape(self._subject),
        )
        await self._app.store.silences.add(announced)
        return await self._break()

    def _restless(self) -> list[str]:
        rig = self._place.rig
        return [one.name for one in rig.targets() if not rig.unable(one.name, Ability.PAUSE)]

    async def _make_noise(self) -> None:
        """Pause one part after another for a moment, and look whether that broke anything."""
        rig, parts = self._place.rig, self._restless()
        while True:
            one = self._chance.choice(parts)
            await rig.pause(one)
            try:
                await asyncio.sleep(PAUSE_S)
            finally:
                with contextlib.suppress(RigError):  # it goes on, and answers a moment later
                    await rig.resume(one)
            self._broke |= set((await self._place.look()).broken)
            await asyncio.sleep(PAUSE_EVERY_S)
