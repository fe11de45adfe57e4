"""What commands show of campaigns, with second opinions on misses."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, fields, replace
from itertools import combinations
from pathlib import Path

from operator_evals.analysis import (
    Analysis,
    Cell,
    Comparison,
    Miss,
    Scored,
    Summary,
    analyse,
    compare,
    score_trials,
)
from operator_evals.campaign import Mind, Scenario
from operator_evals.campaign_file import plan_trials, scenarios_of
from operator_evals.database import (
    Database,
    Published,
    Recorded,
    must_be_written,
    open_database,
    publish_text,
)
from operator_evals.facts import TrialFacts
from operator_evals.opinions import (
    Claim,
    Completion,
    Opinions,
    Remembered,
    second_opinions,
)
from operator_evals.score import Score
from operator_protocols.domain.budget import Spent
from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.run import Answer
from operator_protocols.errors import MissingPluginError, NotFoundError, UsageError
from operator_sre.agent.transcript import answer_payload
from operator_sre.app.models import completion_of, model_id, over_budget
from operator_sre.app.persons import myself
from operator_sre.app.redaction import open_redactor
from operator_sre.app.wiring import App
from operator_sre.codec import to_json
from operator_sre.plugins import find_plugin, plugin_names

__all__ = [
    "Analysis",
    "CampaignView",
    "Cell",
    "Comparison",
    "Miss",
    "Opinions",
    "Score",
    "Scored",
    "Summary",
    "TrialFacts",
    "analysis_of",
    "campaigns_in",
    "claims_of",
    "compare_all",
    "compare_two",
    "compare_with_baseline",
    "every_scenario",
    "export_campaign",
    "load_campaign",
    "load_trial",
    "opinions_on",
]

FORMATS = ("csv", "facts", "json")


@dataclass(frozen=True, slots=True)
class CampaignView:
    """A campaign in a line: how much of it is done, and on what."""

    name: str
    started_at: str
    scenarios: int
    variants: tuple[str, ...]
    trials: int
    done: int
    invalid: int
    failed: int
    machine: Mapping[str, str]


def every_scenario(subject: str | None = None) -> list[Scenario]:
    """All that can be tried, of one subject or of all that have a rig."""
    if subject is not None and not scenarios_of(subject):
        raise UsageError(f"The subject {subject!r} has no rig, so it has no trials.")
    names = [subject] if subject is not None else plugin_names()
    return [scenario for name in names for scenario in scenarios_of(name)]


def campaigns_in(database: Path) -> list[CampaignView]:
    """All campaigns, the oldest first."""
    if not database.exists():
        return []
    with open_database(database) as facts:
        return [_view(facts, campaign) for campaign in facts.campaigns()]


def load_campaign(database: Path, name: str | None) -> tuple[CampaignView, Sequence[Scored]]:
    """One campaign, the newest where none is named, and each of its trials with its score."""
    with _open_existing(database) as facts:
        recorded = _choose_campaign(facts, name)
        return _view(facts, recorded), _score_campaign(facts, recorded)


def load_trial(database: Path, campaign: str, key: str) -> Scored:
    """One trial by its key, with its score."""
    with _open_existing(database) as facts:
        recorded = facts.campaign(campaign)
        (found,) = score_trials([facts.trial(campaign, key)], recorded.campaign)
        return found


def analysis_of(database: Path, name: str | None) -> Analysis:
    """All tables of a campaign, computed again."""
    with _open_existing(database) as facts:
        recorded = _choose_campaign(facts, name)
        return analyse(facts.trials(recorded.campaign.name), recorded.campaign)


def compare_two(database: Path, first: str, second: str, *, campaign: str | None) -> Comparison:
    """Two variants on equal trials; each may be of another campaign, as CAMPAIGN/VARIANT."""
    with _open_existing(database) as facts:
        known = [
            replace(scored, facts=replace(scored.facts, variant=word))
            for word in dict.fromkeys((first, second))
            for scored in _load_variant(facts, word, campaign)
        ]
    return compare(known, first, second)


def compare_with_baseline(
    database: Path, campaign: str | None, *, baseline: str | None = None
) -> list[Comparison]:
    """Every other variant compared with the idle variant, or with another."""
    with _open_existing(database) as facts:
        recorded = _choose_campaign(facts, campaign)
        known, variants = _score_campaign(facts, recorded), recorded.campaign.variants
    idle = [variant.name for variant in variants if variant.mind is Mind.NONE]
    base = baseline or (idle[0] if idle else None)
    if base is None or base not in {variant.name for variant in variants}:
        raise UsageError(
            f"The campaign {recorded.campaign.name!r} has no such baseline.",
            next_step="Run it with the variant 'none', or name another with --baseline.",
        )
    return [compare(known, base, variant.name) for variant in variants if variant.name != base]


def compare_all(database: Path, campaign: str | None) -> list[Comparison]:
    """Every pair of variants that have trials in common."""
    with _open_existing(database) as facts:
        recorded = _choose_campaign(facts, campaign)
        known = _score_campaign(facts, recorded)
    found = []
    for first, second in combinations([variant.name for variant in recorded.campaign.variants], 2):
        try:
            found.append(compare(known, first, second))
        except UsageError:  # these two have no trial in common
            continue
    return found


def export_campaign(database: Path, name: str | None, style: str) -> str:
    """All trials of a campaign as text: facts and scores, scores as CSV, or facts to publish."""
    if style == "facts":
        with _open_existing(database) as known:
            recorded = _choose_campaign(known, name)
            every = tuple(known.trials(recorded.campaign.name))
        machine = dict(recorded.machine)
        return publish_text(Published(recorded.campaign, recorded.started_at, machine, every))
    _, trials = load_campaign(database, name)
    if style == "csv":
        names = [field.name for field in fields(Score)]
        head = ["key", "scenario", "variant", "seed", "state", "why", "hit", *names, "overhead_s"]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(head)
        for trial in trials:
            facts = trial.facts
            own = [
                facts.key,
                facts.scenario.name,
                facts.variant,
                facts.seed,
                facts.state,
                facts.why,
            ]
            values = [getattr(trial.score, name) for name in names]
            cells = ["; ".join(map(str, v)) if isinstance(v, tuple) else v for v in values]
            writer.writerow([*own, facts.hit, *cells, facts.overhead_s])
        return text.getvalue()
    if style != "json":
        raise UsageError(f"There is no format {style!r}.", next_step=f"Formats: {FORMATS}.")
    return json.dumps(to_json({"trials": trials}), sort_keys=True, ensure_ascii=False) + "\n"


def _open_existing(database: Path) -> AbstractContextManager[Database]:
    if not database.exists():
        raise NotFoundError(
            "There is no campaign yet.",
            next_step="Start one with: operator eval run --subject SUBJECT --fault FAULT",
        )
    return open_database(database)


def _choose_campaign(facts: Database, name: str | None) -> Recorded:
    if name is not None:
        return facts.campaign(name)
    known = facts.campaigns()
    if not known:
        raise NotFoundError("There is no campaign yet.", next_step="See: operator eval run --help")
    return known[-1]


def _score_campaign(facts: Database, recorded: Recorded) -> list[Scored]:
    return score_trials(facts.trials(recorded.campaign.name), recorded.campaign)


def _load_variant(facts: Database, word: str, campaign: str | None) -> list[Scored]:
    where, _, variant = word.rpartition("/")
    recorded = _choose_campaign(facts, where or campaign)
    names = [variant.name for variant in recorded.campaign.variants]
    if variant not in names:
        raise NotFoundError(
            f"The campaign {recorded.campaign.name!r} has no variant {variant!r}.",
            next_step=f"Variants: {', '.join(names)}; or say CAMPAIGN/VARIANT.",
        )
    return [
        scored for scored in _score_campaign(facts, recorded) if scored.facts.variant == variant
    ]


def _view(facts: Database, recorded: Recorded) -> CampaignView:
    campaign = recorded.campaign
    states = [trial.state.value for trial in facts.trials(campaign.name)]
    return CampaignView(
        name=campaign.name,
        started_at=recorded.started_at,
        scenarios=len(campaign.scenarios),
        variants=tuple(variant.name for variant in campaign.variants),
        trials=len(plan_trials(campaign)),
        done=states.count("done"),
        invalid=states.count("invalid"),
        failed=states.count("failed"),
        machine=recorded.machine,
    )


SAID_MAX = 3


@dataclass(frozen=True, slots=True)
class _Named:
    """The identity of a model, so that another model under the same name is asked again."""

    model: Completion
    name: str

    async def complete(self, system: str, text: str, *, tokens_max: int) -> tuple[str, Spent]:
        """What it says."""
        return await self.model.complete(system, text, tokens_max=tokens_max)


async def opinions_on(app: App, database: Path, campaign: str | None, model: str) -> Opinions:
    """What a model thinks of the commands and the causes of a campaign.

    What it was asked before is in the database, and costs nothing again.
    """
    must_be_written(database)
    _, trials = load_campaign(database, campaign)
    commands = [
        command for trial in trials if trial.score.valid for command in trial.facts.commands
    ]
    async with completion_of(app, model) as remote:
        with open_database(database) as facts:
            known = model_id(app.config, model)
            remembered = Remembered(
                _Named(remote, known), facts, lambda spent: over_budget(app, spent)
            )
            try:
                found = await second_opinions(
                    commands,
                    remembered,
                    redact=open_redactor(app.config).text,
                    claims=claims_of(trials),
                )
            finally:
                if remembered.spent != Spent():
                    answer = Answer("A campaign was judged.", (), remembered.spent, model)
                    draft = Draft(Kind.REASONING, answer_payload(answer), actor=myself())
                    await app.store.journal.append(draft)
    return replace(found, by=f"{model} ({known})")


def claims_of(trials: Sequence[Scored]) -> list[Claim]:
    """The diagnoses of faults; a trial without a diagnosis gives nothing to ask."""
    found = []
    for trial in trials:
        facts = trial.facts
        last = {diagnosis.ticket: diagnosis for diagnosis in facts.diagnoses}
        if not trial.score.valid or trial.score.control or not last:
            continue
        causes = tuple((each.cause, each.target, each.summary) for each in last.values())
        done = facts.scenario.fault
        with suppress(MissingPluginError, NotFoundError):  # it is of a plug-in that is not here
            faults = find_plugin(facts.scenario.subject).faults
            done = next((fault.sentence for fault in faults if fault.name == done), done)
        found.append(Claim(facts.key, done, facts.hit, causes[-SAID_MAX:], trial.score.cause_right))
    return found
