"""What the process of a trial is told, and where its things lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from operator_sre.config import Config, load_config
from operator_sre.evals.campaign import Campaign, Control, Mind, Planned, Variant
from operator_sre.evals.variants import settings_of

__all__ = ["TRIGGER", "Job", "config_of_trial", "model_of", "settings_for"]

TIMEOUT_S = 2.0
# Nobody is there to answer whoever asks.
APPROVAL_S = 10.0
# Whose alert it is that misleads.
TRIGGER = "pager"


@dataclass(frozen=True, slots=True)
class Job:
    """One trial for a process of its own.

    `folder` is its own and is removed afterwards, `ledger` is where its record goes, `command` how
    the operator is called, `minds` the models as operator.toml describes them, `passes` the
    variables with their keys. `began` is when it was decided to do it, in monotonic seconds.
    """

    campaign: Campaign
    planned: Planned
    folder: str
    ledger: str
    command: tuple[str, ...]
    began: float
    minds: str = ""
    passes: tuple[str, ...] = ()

    @property
    def variant(self) -> Variant:
        """The variant that is tried."""
        return next(one for one in self.campaign.variants if one.name == self.planned.variant)

    @property
    def home(self) -> Path:
        """The operator home of this trial, and of no other."""
        return Path(self.folder) / "home"

    @property
    def settings_file(self) -> str:
        """What its operator.toml says: the models, and who else tells of alerts."""
        scenario = self.planned.scenario
        if scenario.fault != Control.MISLEADING:
            return self.minds
        told = f'[triggers.{TRIGGER}]\nkind = "alertmanager"\nsubject = "{scenario.subject}"\n'
        return f"{self.minds}\n{told}open = 1\n"

    @property
    def facts(self) -> Path:
        """Where the process leaves what it saw."""
        return Path(self.folder) / "facts.json"


def model_of(variant: Variant, seed: int) -> str:
    """Who thinks, as `--model` takes it; "" where nobody does."""
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
    told = {"guidance": variant.prompt} if variant.prompt else {}
    return {**own, **settings_of(variant), **told}


def config_of_trial(job: Job) -> Config:
    """The settings of the trial's home, without any that the user has."""
    settings = {key: text for key, text in settings_for(job).items() if key != "guidance"}
    flags = {"home": str(job.home), "mode": job.variant.mode, "model": "reasoner", **settings}
    return load_config(flags=flags, environ={}, cwd=job.home)
