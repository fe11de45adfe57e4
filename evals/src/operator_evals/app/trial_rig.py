"""The order of a trial, and the rig that it runs on."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from operator_evals.campaign import Campaign, Control, Mind, Planned, Variant, settings_of
from operator_evals.facts import Reading, Snapshot
from operator_evals.generated.case import Case
from operator_lab import faults
from operator_lab.app.rigs import fault_of, own_rig
from operator_lab.rig import AnyRig, attach
from operator_protocols.domain.health import Health
from operator_protocols.domain.observation import CheckResult
from operator_protocols.errors import NotFoundError, OperatorError, RigError
from operator_protocols.kit.datafiles import DataFiles
from operator_protocols.ports import Fault, Scene
from operator_sre.app.wiring import App
from operator_sre.config import Config, load_config
from operator_sre.controls import Controls
from operator_sre.pipeline import Pipeline

__all__ = [
    "TRIGGER",
    "FaultOfTrial",
    "Job",
    "RigOfTrial",
    "config_of_trial",
    "model_of",
    "readings_of",
    "settings_for",
    "snapshot_of",
]

TIMEOUT_S = 2.0
# There is no one to approve a request.
APPROVAL_S = 10.0
# Whose alert it is that misleads.
TRIGGER = "pager"


@dataclass(frozen=True, slots=True)
class Job:
    """One trial for a process of its own.

    `folder` is its own and is removed afterwards, `ledger` is where its record goes, `command` how
    the operator is called, `models` its model section in operator.toml, `passes` the
    variables with their keys. `began` is when it was decided to do it, in monotonic seconds.
    Where it `generates` its fault, that is the `case`, or that of its seed; a `stand_in` has no
    real servers. `staged`: it waits for a place before anything is measured. `rig` is the directory
    of a rig that it may use and that is not its own.
    """

    campaign: Campaign
    planned: Planned
    folder: str
    ledger: str
    command: tuple[str, ...]
    began: float
    models: str = ""
    passes: tuple[str, ...] = ()
    case: Case | None = None
    generates: bool = False
    stand_in: bool = False
    staged: bool = False
    rig: str = ""

    @property
    def variant(self) -> Variant:
        """The variant that is tried."""
        return next(
            variant for variant in self.campaign.variants if variant.name == self.planned.variant
        )

    @property
    def home(self) -> Path:
        """The operator home of this trial, and of no other."""
        return Path(self.folder) / "home"

    @property
    def settings_file(self) -> str:
        """What its operator.toml says: the models, and who else tells of alerts."""
        scenario = self.planned.scenario
        if scenario.fault != Control.MISLEADING:
            return self.models
        trigger = f'[triggers.{TRIGGER}]\nkind = "alertmanager"\nsubject = "{scenario.subject}"\n'
        return f"{self.models}\n{trigger}open = 1\n"

    @property
    def facts(self) -> Path:
        """Where the process leaves what it saw."""
        return Path(self.folder) / "facts.json"


def model_of(variant: Variant, seed: int) -> str:
    """The model, as `--model` takes it; "" without one."""
    match variant.mind:
        case Mind.NONE | Mind.ORACLE:
            return ""
        case Mind.RANDOM:
            return f"{variant.mind.value}:{seed}"
        case Mind.MODEL:
            return variant.model
        case Mind.TRANSCRIPT:
            return f"scripted:{Path(variant.transcript).absolute()}"
        case _:
            return variant.mind.value


def settings_for(job: Job) -> dict[str, str]:
    """The settings of all processes of a trial, and what its variant wants beside."""
    campaign, variant = job.campaign, job.variant
    own = {
        "interval_s": f"{campaign.interval_s:g}",
        "stable_s": f"{campaign.stable_s:g}",
        "timeout_s": f"{TIMEOUT_S:g}",
        "approval_s": f"{APPROVAL_S:g}",
        "summary_model": "rule",
        "log_level": "warning",
    }
    guidance = {"guidance": variant.prompt} if variant.prompt else {}
    return {**own, **settings_of(variant), **guidance}


def config_of_trial(job: Job) -> Config:
    """The settings of the trial's home, without any that the user has."""
    settings = {key: text for key, text in settings_for(job).items() if key != "guidance"}
    flags = {"home": str(job.home), "mode": job.variant.mode, "model": "reasoner", **settings}
    return load_config(flags=flags, environ={}, cwd=job.home)


ORACLE_S_MAX = 15.0
# A lent rig must be healthy in so many looks in a row.
LENT_LOOKS, LENT_LOOK_S = 3, 1.0
# How long what is done beside the fault lasts.
NOISE_S = 4.0
TEXT_CHARS_MAX = 200


class RigOfTrial:
    """A rig that this process owns: it ends with us, however that comes about. A rig that was
    `lent` is only linked into our home, and has to be healthy within `well_s_max`.
    """

    def __init__(self, app: App, subject: str, *, lent: str = "", well_s_max: float = 0.0) -> None:
        self._app = app
        self._subject = subject
        self._lent = Path(lent) if lent else None
        self._well_s_max = well_s_max
        self._rig: AnyRig | None = None
        self._pipeline: Pipeline | None = None
        self._controls: Controls | None = None

    @property
    def rig(self) -> AnyRig:
        """The rig, which is up; RigError before."""
        if self._rig is None:
            raise RigError("The rig of the trial is not up.")
        return self._rig

    @property
    def controls(self) -> Controls:
        """What our own looks need, and what the tools of the rig are."""
        if self._controls is None:
            self._controls = self._app.controls(self._subject)
        return self._controls

    async def up(self) -> None:
        """Make it and wait until all of it answers."""
        if self._lent is None:
            self._rig = await own_rig(self._app, self._subject)
            return
        place = self._app.rig_directory(self._subject)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(self._lent)
        self._rig = attach(place)
        # What the trial before it left behind must not be found by the variant of this one.
        ends, in_row = self._app.clock.monotonic() + self._well_s_max, 0
        while in_row < LENT_LOOKS:
            broken = (await self.look()).broken
            in_row = 0 if broken else in_row + 1
            if broken and self._app.clock.monotonic() > ends:
                raise RigError(f"The rig is not healthy again: {', '.join(broken[:5])}.")
            await self._app.clock.sleep(LENT_LOOK_S)

    async def look(self) -> Snapshot:
        """How it is now."""
        if self._pipeline is None:
            self._pipeline = self._app.engine().pipeline
            # The variant in the same home must not learn what the harness has seen.
            DataFiles.keep_in(None)
        return snapshot_of(await self._pipeline.monitor.check(self.controls.subject))

    async def down(self) -> None:
        """End all of it, unless it was lent."""
        if self._lent is not None:
            self._app.rig_directory(self._subject).unlink(missing_ok=True)
        elif self._rig is not None:
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
        done = [broken for broken in faults.broken(rig) if broken.fault == self.fault.name]
        self._notes = done[-1].notes
        if self._noise:
            self._beside = asyncio.create_task(self._make_noise(chance))
        return self.hit

    async def still(self) -> str:
        """What its oracle finds wrong; an unknown result counts as wrong."""
        rig = self._place.rig
        targets = rig.targets()
        target = next(target for target in targets if target.name == self.hit)
        try:
            async with asyncio.timeout(ORACLE_S_MAX):
                return await self.fault.oracle(Scene(target, targets, rig, self._notes))
        except TimeoutError:
            return f"the oracle gave no answer within {ORACLE_S_MAX:g} s"
        except Exception as problem:  # noqa: BLE001  whatever a stranger's oracle raises
            return f"the oracle failed: {type(problem).__name__}: {problem}"

    async def heal(self) -> None:
        """Take it back, and whatever was done beside it."""
        if self._beside is not None:
            self._beside.cancel()
            await asyncio.gather(self._beside, return_exceptions=True)
        for broken in reversed(faults.broken(self._place.rig)):
            fault = fault_of(self._planned.scenario.subject, broken.fault)
            await faults.heal(self._place.rig, fault, target=broken.target)

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


def snapshot_of(check: CheckResult) -> Snapshot:
    """One look, as it is kept; the time is filled in by who has the clock."""
    broken = {
        f"{finding.invariant}@{finding.target}"
        for finding in check.findings
        if finding.health is Health.BROKEN
    }
    seen = check.observation.seen
    if check.observation.problem or (seen and all(target.problem for target in seen)):
        broken.add(f"seen@{check.observation.subject}")
    return Snapshot(
        at_s=0.0,
        readings={target.target: readings_of(target.readings) for target in seen},
        broken=tuple(sorted(broken)),
    )


def readings_of(readings: Mapping[str, Reading]) -> dict[str, Reading]:
    """The readings of a target with texts of bounded length."""
    return {
        name: value[:TEXT_CHARS_MAX] if isinstance(value, str) else value
        for name, value in readings.items()
    }
