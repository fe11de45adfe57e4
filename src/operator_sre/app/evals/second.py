"""A configured model's second opinion on a campaign: asked once, kept, and the same ever after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from operator_protocols.domain.budget import Spent
from operator_protocols.domain.entry import Draft, Kind
from operator_protocols.domain.run import Answer
from operator_protocols.errors import MissingPluginError, NotFoundError
from operator_sre.agent.transcript import answer_payload
from operator_sre.app.evals.views import shown_campaign
from operator_sre.app.models import completion_of, model_id, over_budget
from operator_sre.app.persons import myself
from operator_sre.app.redaction import open_redactor
from operator_sre.app.wiring import App
from operator_sre.evals.analysis import Scored
from operator_sre.evals.campaign import Scenario
from operator_sre.evals.database import must_be_written, open_database
from operator_sre.evals.opinions import (
    Claim,
    Completion,
    Opinions,
    Remembered,
    second_opinions,
)
from operator_sre.plugins import find_plugin

__all__ = ["Opinions", "claims_of", "opinions_on"]

SAID_MAX = 3


@dataclass(frozen=True, slots=True)
class _Named:
    """The same model by what it is, so that another one under its name is asked anew."""

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
    _, trials = shown_campaign(database, campaign)
    commands = [each for one in trials if one.score.valid for each in one.facts.commands]
    async with completion_of(app, model) as remote:
        with open_database(database) as facts:
            known = model_id(app.config, model)
            asked = Remembered(_Named(remote, known), facts, lambda spent: over_budget(app, spent))
            try:
                found = await second_opinions(
                    commands,
                    asked,
                    redact=open_redactor(app.config).text,
                    claims=claims_of(trials),
                )
            finally:
                await _pay(app, model, asked.spent)
    return replace(found, by=f"{model} ({known})")


def claims_of(trials: Sequence[Scored]) -> list[Claim]:
    """What was said about the causes of faults; where nothing was said, there is nothing to ask."""
    found = []
    for one in trials:
        facts = one.facts
        last = {each.ticket: each for each in facts.diagnoses}
        if not one.score.valid or one.score.control or not last:
            continue
        said = tuple((each.cause, each.target, each.summary) for each in last.values())
        done = _done(facts.scenario)
        found.append(Claim(facts.key, done, facts.hit, said[-SAID_MAX:], one.score.cause_right))
    return found


def _done(scenario: Scenario) -> str:
    """The fault in a sentence; its name, where it is of a plug-in that is not here."""
    try:
        faults = find_plugin(scenario.subject).faults
    except (MissingPluginError, NotFoundError):
        return scenario.fault
    return next((one.sentence for one in faults if one.name == scenario.fault), scenario.fault)


async def _pay(app: App, model: str, spent: Spent) -> None:
    """Count what it cost towards the day of the home whose key was used."""
    if spent != Spent():
        answer = Answer("A campaign was judged.", (), spent, model)
        draft = Draft(Kind.REASONING, answer_payload(answer), actor=myself())
        await app.store.journal.append(draft)
