"""A campaign over fakes: what is left, who is alone, what is kept, and what money forbids."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest

from operator_evals.campaign import Campaign, Mind, Planned, Scenario, Variant
from operator_evals.campaign_file import plan_trials
from operator_evals.conductor import (
    GUESS_S,
    Conductor,
    Outcome,
    Progress,
    failed_trial,
    left_of,
)
from operator_evals.facts import TrialFacts, TrialState
from operator_protocols.domain.budget import Spent
from operator_protocols.errors import RigError
from operator_protocols.ports import CorrectOutcome
from operator_sre.clock import SystemClock

QUICK = tuple(
    Scenario("shop", f"fault_{number}", CorrectOutcome.MITIGATED, ("answers",))
    for number in range(4)
)
SLOW = Scenario("shop", "latency", CorrectOutcome.MITIGATED, ("slow_read",), alone=True)
CAMPAIGN = Campaign(
    "c", (QUICK[0], SLOW, *QUICK[1:]), (Variant("reasoner"),), {"reasoner": 2}, parallel=3
)


def _facts(one: Planned, state: TrialState = TrialState.DONE, usd: float = 0.0) -> TrialFacts:
    spent = Spent(usd=usd)
    return TrialFacts("c", one.key, one.scenario, one.variant, one.seed, state, spent=spent)


class Trials:
    """Trials that take some turns of the loop, and note who runs beside whom."""

    def __init__(self, *, wrong: frozenset[str] = frozenset(), usd: float = 0.0) -> None:
        self.running: set[str] = set()
        self.most = 0
        self.beside_alone = 0
        self.begun: list[str] = []
        self.kept: dict[str, TrialFacts] = {}
        self.two = asyncio.Event()
        self._wrong, self._usd = wrong, usd

    async def run(self, one: Planned) -> TrialFacts:
        self.running.add(one.key)
        self.begun.append(one.key)
        self.most = max(self.most, len(self.running))
        try:
            for _ in range(5):
                await asyncio.sleep(0)
                if any("latency" in key for key in self.running):
                    self.beside_alone = max(self.beside_alone, len(self.running))
            if one.key in self._wrong:
                raise RigError("The process of the trial ended with -9.")
            return _facts(one, usd=self._usd)
        finally:
            self.running.discard(one.key)

    def keep(self, facts: TrialFacts) -> None:
        self.kept[facts.key] = facts
        if len(self.kept) >= 2:
            self.two.set()


async def _conducted(
    trials: Trials, campaign: Campaign = CAMPAIGN, known: tuple[TrialFacts, ...] = ()
) -> tuple[Outcome, list[Progress]]:
    said: list[Progress] = []
    conductor = Conductor(campaign, trials.run, trials.keep, SystemClock(), said.append)
    return await conductor.conduct(known), said


@pytest.mark.asyncio
async def test_trials_run_beside_each_other_and_what_is_alone_runs_alone() -> None:
    trials = Trials()
    outcome, said = await _conducted(trials)
    assert trials.most == 3
    assert trials.beside_alone == 1
    assert sorted(trials.kept) == sorted(one.key for one in plan_trials(CAMPAIGN))
    assert (outcome.done, outcome.of, outcome.failed, outcome.why) == (10, 10, 0, "")
    assert said[-1].done == said[-1].of == 10
    assert said[-1].left_s == 0.0
    assert said[0].left_s == said[0].of * GUESS_S / CAMPAIGN.parallel
    assert all(first.done <= second.done for first, second in itertools.pairwise(said))


@pytest.mark.asyncio
async def test_a_campaign_goes_on_where_it_stopped_and_repeats_only_what_failed() -> None:
    every = plan_trials(CAMPAIGN)
    states = (TrialState.DONE, TrialState.INVALID, TrialState.FAILED)
    known = tuple(_facts(one, state) for one, state in zip(every, states, strict=False))
    left = {one.key for one in left_of(CAMPAIGN, known)}
    assert left == {one.key for one in every[2:]}
    trials = Trials()
    outcome, _ = await _conducted(trials, known=known)
    assert set(trials.begun) == left
    assert (outcome.before, outcome.done, outcome.of) == (2, 8, 10)
    again, _ = await _conducted(Trials(), known=tuple(map(_facts, every)))
    assert (again.before, again.done) == (10, 0)


@pytest.mark.asyncio
async def test_a_trial_that_dies_is_kept_as_failed_and_ends_no_other() -> None:
    victim = plan_trials(CAMPAIGN)[0].key
    trials = Trials(wrong=frozenset({victim}))
    outcome, _ = await _conducted(trials)
    assert (outcome.done, outcome.failed) == (10, 1)
    assert trials.kept[victim].state is TrialState.FAILED
    assert "-9" in trials.kept[victim].why
    told = failed_trial(CAMPAIGN, plan_trials(CAMPAIGN)[0], SystemClock(), "it died")
    assert (told.key, told.campaign, told.why) == (victim, CAMPAIGN.name, "it died")
    assert [one.key for one in left_of(CAMPAIGN, [told])].count(victim) == 1, "it is done again"


@pytest.mark.asyncio
async def test_whoever_stops_it_keeps_what_is_done_and_nothing_goes_on() -> None:
    trials = Trials()
    conductor = Conductor(CAMPAIGN, trials.run, trials.keep, SystemClock())
    task = asyncio.ensure_future(conductor.conduct(()))
    await trials.two.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not trials.running
    known = tuple(trials.kept.values())
    assert 2 <= len(known) < 10
    assert len(left_of(CAMPAIGN, known)) == 10 - len(known)


@pytest.mark.asyncio
async def test_a_model_that_costs_nothing_needs_no_limit() -> None:
    free = (Variant("free", Mind.MODEL, model="m"),)
    trials = Trials()
    outcome, _ = await _conducted(
        trials, replace(CAMPAIGN, variants=free, seeds={"free": 1}, parallel=1)
    )
    assert (len(trials.begun), outcome.why) == (5, "")


@pytest.mark.asyncio
async def test_no_trial_of_a_paid_model_begins_when_the_money_is_spent() -> None:
    variants = (Variant("paid", Mind.MODEL, model="m"), Variant("none", Mind.NONE))
    campaign = replace(
        *(CAMPAIGN,), variants=variants, seeds={"paid": 1, "none": 1}, parallel=1, usd_max=1.0
    )
    trials = Trials(usd=0.6)
    outcome, _ = await _conducted(trials, campaign)
    paid = [key for key in trials.begun if "/paid/" in key]
    assert len(paid) == 1  # the others have cost 0.6 each as well, and count
    assert len([key for key in trials.begun if "/none/" in key]) == 5
    assert "usd_max" in outcome.why
