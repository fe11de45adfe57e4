"""The rig of a trial, and the fault that is done to it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping

from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import Sighting
from operator_protocols.errors import NotFoundError, OperatorError, RigError
from operator_protocols.ports import Fault, Scene
from operator_sre.app.lab import fault_of, own_rig
from operator_sre.app.wiring import App
from operator_sre.evals.campaign import Planned
from operator_sre.evals.facts import Reading, Snapshot
from operator_sre.lab import faults
from operator_sre.lab.rigs import AnyRig
from operator_sre.pipeline import Care, Pipeline

__all__ = ["FaultOfTrial", "RigOfTrial", "readings_of", "snapshot_of"]

ORACLE_S_MAX = 15.0
# How long what is done beside the fault lasts.
NOISE_S = 4.0
TEXT_CHARS_MAX = 200


class RigOfTrial:
    """A rig that this process owns: it ends with us, however that comes about."""

    def __init__(self, app: App, subject: str) -> None:
        self._app = app
        self._subject = subject
        self._rig: AnyRig | None = None
        self._pipeline: Pipeline | None = None
        self._care: Care | None = None

    @property
    def rig(self) -> AnyRig:
        """The rig, which is up; RigError before."""
        if self._rig is None:
            raise RigError("The rig of the trial is not up.")
        return self._rig

    @property
    def care(self) -> Care:
        """What our own looks need, and what the tools of the rig are."""
        if self._care is None:
            self._care = self._app.care(self._subject)
        return self._care

    async def up(self) -> None:
        """Make it and wait until all of it answers."""
        self._rig = await own_rig(self._app, self._subject)

    async def look(self) -> Snapshot:
        """How it is now."""
        if self._pipeline is None:
            self._pipeline = self._app.engine().pipeline
        return snapshot_of(await self._pipeline.monitor.look(self.care.subject))

    async def down(self) -> None:
        """End all of it."""
        if self._rig is not None:
            await self._rig.down()


class FaultOfTrial:
    """The fault of a trial at a target that its seed chooses, and the noise beside it."""

    def __init__(self, place: RigOfTrial, planned: Planned, noise: tuple[str, ...]) -> None:
        self._place = place
        self._planned = planned
        self._noise = noise
        self._beside: asyncio.Task[None] | None = None
        self._notes: Mapping[str, str] = {}
        self.hit = ""

    @property
    def fault(self) -> Fault:
        """What is done."""
        return fault_of(self._planned.scenario.subject, self._planned.scenario.fault)

    def unavailable(self) -> str:
        """Why it cannot be done here, or ""."""
        return faults.unavailable(self._place.rig, self.fault)

    async def inject(self) -> str:
        """Do it, and begin with what is done beside; the target that was hit."""
        rig, chance = self._place.rig, random.Random(self._planned.seed)
        self.hit = await faults.inject(rig, self.fault, target=None, rng=chance)
        done = [one for one in faults.broken(rig) if one.fault == self.fault.name]
        self._notes = done[-1].notes
        if self._noise:
            self._beside = asyncio.create_task(self._make_noise(chance))
        return self.hit

    async def still(self) -> str:
        """What its oracle finds wrong; that nobody can tell is no good news."""
        rig = self._place.rig
        targets = rig.targets()
        target = next(one for one in targets if one.name == self.hit)
        try:
            async with asyncio.timeout(ORACLE_S_MAX):
                return await self.fault.oracle(Scene(target, targets, rig, self._notes))
        except TimeoutError:
            return f"nobody could tell within {ORACLE_S_MAX:g} s"
        except Exception as problem:  # noqa: BLE001  whatever a stranger's oracle raises
            return f"nobody could tell: {type(problem).__name__}: {problem}"

    async def heal(self) -> None:
        """Take it back, and whatever was done beside it."""
        if self._beside is not None:
            self._beside.cancel()
            await asyncio.gather(self._beside, return_exceptions=True)
        for one in reversed(faults.broken(self._place.rig)):
            fault = fault_of(self._planned.scenario.subject, one.fault)
            await faults.heal(self._place.rig, fault, target=one.target)

    async def _make_noise(self, chance: random.Random) -> None:
        for name in self._noise:
            fault = fault_of(self._planned.scenario.subject, name)
            try:
                hit = await faults.inject(self._place.rig, fault, target=None, rng=chance)
            except OperatorError:
                continue  # what cannot be done here makes no noise
            try:
                await asyncio.sleep(NOISE_S)
            finally:
                with contextlib.suppress(NotFoundError):  # it was healed meanwhile
                    await faults.heal(self._place.rig, fault, target=hit)


def snapshot_of(sighting: Sighting) -> Snapshot:
    """One look, as it is kept; the time is filled in by who has the clock."""
    broken = {
        f"{one.invariant}@{one.target}" for one in sighting.findings if one.health is Health.BROKEN
    }
    seen = sighting.observation.seen
    if sighting.observation.problem or (seen and all(one.problem for one in seen)):
        broken.add(f"seen@{sighting.observation.subject}")
    return Snapshot(
        at_s=0.0,
        readings={one.target: readings_of(one.readings) for one in seen},
        broken=tuple(sorted(broken)),
    )


def readings_of(readings: Mapping[str, Reading]) -> dict[str, Reading]:
    """The readings of a target with texts of bounded length."""
    return {
        name: value[:TEXT_CHARS_MAX] if isinstance(value, str) else value
        for name, value in readings.items()
    }
