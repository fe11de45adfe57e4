"""Generated faults: run, added up over several sittings, and shrunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from operator_evals.app.campaigns import (
    Jobs,
    check_variant,
    database_path,
    held_alone,
    ledger_folder,
    machine_of,
)
from operator_evals.app.stage import Stage, ahead_of
from operator_evals.app.trial_process import Children
from operator_evals.campaign import Campaign, Planned, Scenario, Variant, variant_named
from operator_evals.campaign_file import variant_folders
from operator_evals.conductor import Conductor, Outcome, Progress
from operator_evals.database import Database, must_be_written, open_database
from operator_evals.facts import TrialFacts, TrialState
from operator_evals.generated.calibration import Calibration, calibrate
from operator_evals.generated.case import Case
from operator_evals.generated.generator import shrink
from operator_evals.generated.outcome import Outcome as Ending
from operator_evals.generated.outcome import judge, needs_baseline
from operator_evals.generated.published import publish_generated, read_generated
from operator_evals.generated.tally import NOBODY, Judged, Tally, judge_all, tally
from operator_lab.app.rigs import check_rig
from operator_protocols.errors import NotFoundError
from operator_protocols.ports import CorrectOutcome
from operator_sre.clock import SystemClock
from operator_sre.config import Config
from operator_sre.plugins import find_plugin

__all__ = [
    "Ending",
    "Judged",
    "Sitting",
    "Tally",
    "Wanted",
    "export_generated",
    "load_generated",
    "run_generated",
    "shrink_generated",
]

NAME = "generated"
# A case that could not be measured is tried once more.
TRIES = 2


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a command line asks for: so many cases of a subject from a seed on."""

    subject: str
    count: int = 1
    seed: int = 1
    variant: str = "reasoner"
    workers: int = 1
    stand_in: bool = False
    usd_max: float = 0.0


@dataclass(frozen=True, slots=True)
class Sitting:
    """All cases of a subject at one revision, also of earlier sittings."""

    tally: Tally
    judged: tuple[Judged, ...]
    machine: dict[str, str]

    @property
    def calibration(self) -> Calibration:
        """How far the probabilities of its diagnoses can be trusted."""
        return calibrate(judged.facts for judged in self.judged)


async def run_generated(
    config: Config,
    wanted: Wanted,
    *,
    command: Sequence[str],
    tell: Callable[[Progress, Ending | None], None],
    database: Path | None = None,
) -> Outcome:
    """Run the cases that this revision has not run yet, and void ones once more, one at a time.

    `tell` gets the outcome of a case that has ended, compared with the same case without an agent
    where that was run. Cancelled, it keeps what is done.
    """
    with _Bench(config, wanted, command, database) as bench:
        planned = [
            bench.plan(bench.variant.name, seed)
            for seed in range(wanted.seed, wanted.seed + wanted.count)
        ]
        async with Children(bench.folder) as children:

            async def run(trial: Planned) -> TrialFacts:
                facts = await bench.run(children, trial)
                if trial.variant != NOBODY and facts.generated and needs_baseline(facts):
                    alone = bench.plan(NOBODY, trial.seed)
                    for _ in range(TRIES):
                        known = bench.known.get(alone.key)
                        if known is not None and known.state is TrialState.DONE:
                            break
                        bench.keep(await bench.run(children, alone, facts.generated.case))
                return facts

            def report(progress: Progress) -> None:
                last = progress.last
                tell(progress, None if last is None else bench.judge(last))

            # What had no rig, or no processor, is tried again in the next sitting.
            known = [
                facts
                for facts in bench.known.values()
                if facts.variant == bench.variant.name and facts.state is not TrialState.INVALID
            ]
            conductor = Conductor(
                bench.campaign, run, bench.keep, SystemClock(), report, only=planned
            )
            done = await conductor.conduct(known)
            void = [
                trial
                for trial in planned
                if trial.key in conductor.ran and bench.judge(bench.known[trial.key]) is Ending.VOID
            ]
            if not void:
                return done
            # Most are void because the machine was too busy for several cases at a time.
            alone = replace(bench.campaign, parallel=1)
            conductor = Conductor(alone, run, bench.keep, SystemClock(), report, only=void)
            again = await conductor.conduct(())
            return replace(done, invalid=again.invalid, failed=again.failed)


async def shrink_generated(
    config: Config,
    wanted: Wanted,
    *,
    command: Sequence[str],
    tell: Callable[[str], None],
    database: Path | None = None,
) -> tuple[Case, Ending]:
    """The smallest case that ends as the case of this seed does, which was run before."""
    with _Bench(config, wanted, command, database) as bench:
        planned = bench.plan(bench.variant.name, wanted.seed)
        facts = bench.known.get(planned.key)
        if facts is None or facts.generated is None:
            raise NotFoundError(
                f"The case {wanted.seed} of {wanted.subject!r} was not run at this revision.",
                next_step=f"Run: operator eval fuzz {wanted.subject} -n 1 --seed {wanted.seed}",
            )
        ending = bench.judge(facts)
        async with Children(bench.folder) as children:

            async def fails(case: Case) -> bool:
                for _ in range(TRIES):
                    again = await bench.run(children, planned, case)
                    alone = None
                    if needs_baseline(again):
                        alone = await bench.run(children, bench.plan(NOBODY, wanted.seed), case)
                    found = judge(again, alone).outcome
                    tell(f"{found.value}: {case.sentence}")
                    if found is not Ending.VOID:
                        break
                return found is ending

            return await shrink(facts.generated.case, fails), ending


def load_generated(
    database: Path, subject: str, variant: str, *, revision: str | None = None
) -> Sitting:
    """What is known of a subject at a revision, the newest where none is named.

    The variant is named as for a run: by its name, or by its file.
    """
    variant = variant_named(variant, variant_folders(database)).name
    if database.is_dir():
        database = database / f"{subject}.jsonl"
    if database.suffix == ".jsonl":
        found = read_generated(database)
    elif database.exists():
        with open_database(database) as facts:
            found = facts.read_generated(subject, revision)
    else:
        found = []
    if not found:
        raise NotFoundError(
            f"No generated fault of {subject!r} was run yet.",
            next_step=f"Run: operator eval fuzz {subject} -n 10",
        )
    machine = dict(found[-1].machine)
    judged = judge_all([each.facts for each in found], variant)
    return Sitting(tally(subject, variant, machine["revision"], judged), tuple(judged), machine)


def export_generated(database: Path, subject: str) -> str:
    """All trials of a subject at its newest revision, as a text to publish."""
    with open_database(database) as facts:
        return publish_generated(facts.read_generated(subject, None))


class _Bench:
    """What running cases needs, held alone for one subject."""

    def __init__(
        self, config: Config, wanted: Wanted, command: Sequence[str], database: Path | None
    ) -> None:
        self._config = config
        self._wanted = wanted
        self._command = tuple(command)
        self._path = database_path(config, database)
        must_be_written(self._path)
        check_rig(find_plugin(wanted.subject))
        self.variant = variant_named(wanted.variant, variant_folders(self._path))
        check_variant(config, self.variant, usd_max=wanted.usd_max)
        self._scenario = Scenario(wanted.subject, NAME, CorrectOutcome.MITIGATED)
        self.campaign = self._campaign(self.variant)
        self.machine = machine_of()
        self.known: dict[str, TrialFacts] = {}
        self.folder = Path()
        self._stage = Stage(wanted.workers)
        self._held = held_alone(self._path, self.campaign.name)
        self._opened = open_database(self._path)
        self._database: Database | None = None

    def __enter__(self) -> _Bench:
        self.folder = self._held.__enter__()
        self._database = self._opened.__enter__()
        found = self._database.read_generated(self._wanted.subject, self.machine["revision"])
        self.known = {each.facts.key: each.facts for each in found}
        return self

    def __exit__(self, *problem: object) -> None:
        self._opened.__exit__(None, None, None)
        self._held.__exit__(None, None, None)

    def plan(self, variant: str, seed: int) -> Planned:
        """The trial of a seed."""
        return Planned(self._scenario, variant, seed)

    async def run(
        self, children: Children, planned: Planned, case: Case | None = None
    ) -> TrialFacts:
        """One case in a process of its own."""
        alone = Variant(NOBODY, variant_named(NOBODY, ()).mind)
        campaign = self.campaign
        if planned.variant != self.variant.name:
            campaign = self._campaign(alone)
        ledgers = ledger_folder(self._path, campaign.name)
        jobs = Jobs(
            *(self._config, campaign, self._command, self.folder, ledgers, children),
            generates=True,
            stand_in=self._wanted.stand_in,
            stage=self._stage,
        )
        return await jobs.run(planned, case)

    def judge(self, facts: TrialFacts) -> Ending:
        """The outcome of a case, compared with the same without an agent, where that was run."""
        return judge(facts, self.known.get(self.plan(NOBODY, facts.seed).key)).outcome

    def keep(self, facts: TrialFacts) -> None:
        """Write it down under this revision."""
        assert self._database is not None
        self.known[facts.key] = facts
        self._database.keep_generated(facts, self.machine)

    def _campaign(self, variant: Variant) -> Campaign:
        return Campaign(
            name=f"{NAME}-{self._wanted.subject}",
            scenarios=(self._scenario,),
            variants=(variant,),
            seeds={variant.name: 1},
            parallel=self._wanted.workers + ahead_of(self._wanted.workers),
            interval_s=1.5,
            stable_s=4.0,
            hold_s=5.0,
            well_s_max=60.0,
            well_looks=1,  # the other two were made before it got its place
            detect_s_max=40.0,
            end_s_max=75.0,
            # How long a fault that bothers no client is waited for.
            control_s=18.0,
            usd_max=self._wanted.usd_max,
        )
