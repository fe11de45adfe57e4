"""Campaigns: planned, run on this machine, and the revision they were run from."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from operator_evals.app.rig_pool import RigPool
from operator_evals.app.stage import Stage
from operator_evals.app.trial_process import Children
from operator_evals.app.trial_rig import Job
from operator_evals.campaign import Campaign, Mind, Planned, Variant, variant_named
from operator_evals.campaign_file import choose, plan_trials, read_campaign, variant_folders
from operator_evals.conductor import Conductor, Outcome, Progress
from operator_evals.database import Database, Recorded, must_be_written, open_database
from operator_evals.facts import TrialFacts, TrialState
from operator_evals.generated.case import Case
from operator_lab.app.rigs import check_rig
from operator_lab.crew import crew_files
from operator_protocols.domain.action import digest_of
from operator_protocols.errors import (
    ConfigError,
    ConflictError,
    MissingExtraError,
    RigError,
    UsageError,
)
from operator_sre import __version__
from operator_sre.app.models import is_offline, key_state
from operator_sre.clock import SystemClock
from operator_sre.config import Config
from operator_sre.plugins import find_plugin
from operator_sre.release import code_revision

__all__ = [
    "Jobs",
    "Wanted",
    "begin_campaign",
    "bundle_name",
    "campaign_from_file",
    "campaign_of",
    "check_campaign",
    "check_variant",
    "database_path",
    "held_alone",
    "ledger_folder",
    "machine_of",
    "run_campaign",
]

FOLDER = "evals"
FILE = "eval.db"
BASELINES = ("none",)
_KEYS = ("ANTHROPIC_API_KEY", "OPERATOR_ANTHROPIC_API_KEY")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a command line asks for."""

    subject: str
    fault: str
    times: int = 1
    variants: tuple[str, ...] = ()
    baseline: bool = False
    seed: int = 0
    parallel: int = 1
    name: str = ""


def database_path(config: Config, named: Path | None = None) -> Path:
    """Where the facts are: in the home, unless a file is named."""
    return named or config.home / FILE


def ledger_folder(database: Path, campaign: str) -> Path:
    """Where the exported ledgers of a campaign lie, beside its database."""
    return database.parent / "ledgers" / campaign


def bundle_name(planned: Planned) -> str:
    """What the exported ledger of a trial is called."""
    return planned.key.replace("/", "-").replace(":", "-") + ".bundle"


def campaign_of(wanted: Wanted) -> Campaign:
    """One scenario, or all of a subject, with one or several variants."""
    words = dict.fromkeys((*wanted.variants, *(BASELINES if wanted.baseline else ())))
    if not wanted.variants:
        words = dict.fromkeys(("reasoner", *words))
    folders = variant_folders(Path.cwd() / FOLDER / "campaign.toml")
    variants = tuple(variant_named(word, folders) for word in words)
    scenario = f"{wanted.subject}:{wanted.fault}" if wanted.fault else wanted.subject
    name = wanted.name or f"{scenario.replace(':', '-')}-{time.strftime('%Y%m%d-%H%M%S')}"
    return Campaign(
        name=name,
        scenarios=choose([scenario]),
        variants=variants,
        seeds={variant.name: wanted.times for variant in variants},
        first_seed=wanted.seed,
        parallel=wanted.parallel,
    )


def campaign_from_file(path: Path, *, parallel: int | None = None, name: str = "") -> Campaign:
    """What a file describes; another name starts it from the beginning."""
    found = read_campaign(path)
    changed = replace(found, name=name) if name else found
    return changed if parallel is None else replace(changed, parallel=parallel)


def check_campaign(config: Config, campaign: Campaign) -> tuple[Planned, ...]:
    """Every trial of it; an error for whatever could not work, before the first of them."""
    trials = plan_trials(campaign)
    if not trials:
        raise UsageError(
            "The campaign has no trials.", next_step="Set seeds for at least one variant."
        )
    for subject in dict.fromkeys(scenario.subject for scenario in campaign.scenarios):
        try:
            check_rig(find_plugin(subject))
        except (MissingExtraError, RigError) as error:
            raise UsageError(
                f"The rig of {subject!r} cannot start here: {error.message}",
                next_step=error.next_step,
            ) from error
    for variant in campaign.variants:
        check_variant(config, variant, usd_max=campaign.usd_max)
    for word in campaign.noise:
        subject, _, fault = word.rpartition(":")
        subjects = [subject] if subject else [scenario.subject for scenario in campaign.scenarios]
        if not any(
            known.name == fault for subject in subjects for known in find_plugin(subject).faults
        ):
            raise ConfigError(f"'noise' names {word!r}, but no subject has that fault.")
    return trials


def check_variant(config: Config, variant: Variant, *, usd_max: float) -> None:
    """An error where its transcript, its key or the money for it is missing."""
    if variant.mind is Mind.TRANSCRIPT and not Path(variant.transcript).is_file():
        raise ConfigError(
            f"The transcript {variant.transcript!r} of the variant {variant.name!r} is not there.",
            next_step="Make one with: operator models transcript RUN FILE",
        )
    if variant.mind is not Mind.MODEL or is_offline(variant.model):
        return
    if key_state(config, variant.model) == "not set":  # NotFoundError for an unknown model
        raise ConfigError(
            f"The key of the model {variant.model!r} of the variant {variant.name!r} is not set.",
            next_step=f"Try it with: operator models test {variant.model}",
        )
    prices = next(model.prices for model in config.models if model.name == variant.model)
    if usd_max <= 0 and (prices is None or prices.input or prices.output):
        raise ConfigError(
            f"The variant {variant.name!r} costs money, and 'usd_max' is 0.",
            next_step="Set usd_max in the campaign file, or --usd-max, such as 5.0.",
        )


async def run_campaign(
    config: Config,
    campaign: Campaign,
    *,
    command: Sequence[str],
    tell: Callable[[Progress], None],
    database: Path | None = None,
) -> Outcome:
    """Do what is left of it; cancelled, it keeps what is done and ends what runs."""
    check_campaign(config, campaign)
    path = database_path(config, database)
    must_be_written(path)
    clock = SystemClock()
    with held_alone(path, campaign.name) as folder, open_database(path) as facts:
        known = begin_campaign(facts, campaign, clock)
        ledgers = ledger_folder(path, campaign.name)
        async with Children(folder) as children, RigPool(folder) as pool:
            rigs = pool if campaign.reuse_rigs else None
            jobs = Jobs(config, campaign, tuple(command), folder, ledgers, children, rigs=rigs)
            conductor = Conductor(campaign, jobs.run, facts.keep, clock, tell)
            return await conductor.conduct(known)


def begin_campaign(facts: Database, campaign: Campaign, clock: SystemClock) -> Sequence[TrialFacts]:
    """Write the campaign down if it is new; what is known of it already.

    How many run at once is no part of what a campaign is.
    """
    same = next(
        (recorded for recorded in facts.campaigns() if recorded.campaign.name == campaign.name),
        None,
    )
    if same is not None:
        campaign = replace(campaign, parallel=same.campaign.parallel)
    at = clock.now().isoformat(timespec="seconds")
    facts.begin(Recorded(campaign, at, machine_of()))
    return facts.trials(campaign.name)


def machine_of() -> dict[str, str]:
    """This machine, the versions of what runs on it, and the revision of the code."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "system": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cores": str(os.cpu_count() or 0),
        "memory_mb": str(pages * size >> 20),
        "python": sys.version.split()[0],
        "operator": __version__,
        "revision": code_revision(),
    }


@dataclass(frozen=True, slots=True)
class Jobs:
    """Each trial with a folder, a home and a ledger that no other has."""

    config: Config
    campaign: Campaign
    command: tuple[str, ...]
    folder: Path
    ledgers: Path
    children: Children
    generates: bool = False
    stand_in: bool = False
    stage: Stage | None = None
    rigs: RigPool | None = None

    async def run(self, planned: Planned, case: Case | None = None) -> TrialFacts:
        """One trial in a process of its own; of this `case`, where faults are generated.

        A trial that could not begin on a used rig is repeated on another.
        """
        if self.rigs is None:
            return await self._run_once(planned, case)
        used = True
        while used:
            async with self.rigs.lend(planned.scenario.subject) as lent:
                facts = await self._run_once(planned, case, str(lent.rig.directory))
                lent.keep, used = facts.state is TrialState.DONE, lent.used
            if lent.keep:
                break
        return facts

    async def _run_once(self, planned: Planned, case: Case | None, rig: str = "") -> TrialFacts:
        keys = (*_KEYS, *(model.key_env for model in self.config.models if model.key_env))
        job = Job(
            campaign=self.campaign,
            planned=planned,
            # Short: the paths of sockets below it have an end.
            folder=tempfile.mkdtemp(prefix="", dir=self.folder) + "/t",
            ledger=str(self.ledgers / bundle_name(planned)),
            command=self.command,
            began=time.monotonic(),
            models=crew_files(self.config)["operator.toml"],
            passes=tuple(dict.fromkeys(keys)),
            case=case,
            generates=self.generates,
            stand_in=self.stand_in,
            staged=self.stage is not None,
            rig=rig,
        )
        try:
            if self.stage is None:
                return await self.children.run(job)
            async with self.stage.attend(Path(job.folder)):
                return await self.children.run(job)
        finally:
            shutil.rmtree(Path(job.folder).parent, ignore_errors=True)


@contextmanager
def held_alone(database: Path, campaign: str) -> Iterator[Path]:
    """The folder for its trials; ConflictError when another process runs the same campaign.

    What a run that was killed left there is removed.
    """
    place = digest_of([str(database.absolute()), campaign]).removeprefix("sha256:")[:10]
    folder = Path(tempfile.gettempdir()) / f"operator-eval-{os.getuid()}-{place}"
    database.parent.mkdir(parents=True, exist_ok=True)
    held = database.parent / f".{campaign}.lock"
    with held.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConflictError(
                f"The campaign {campaign!r} is already running.", next_step="Wait until it ends."
            ) from None
        if folder.is_symlink() or (folder.exists() and folder.stat().st_uid != os.getuid()):
            raise ConflictError(f"{str(folder)!r} belongs to another user.")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            held.unlink(missing_ok=True)
