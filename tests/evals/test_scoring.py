"""What a trial is worth, and what nobody gets by lying, restarting or being lucky."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from operator_evals.analysis import Miss, analyse, compare, score_trials
from operator_evals.campaign import Campaign, Control, Mind, Planned, Scenario, Variant
from operator_evals.campaign_file import choose, plan_trials, scenarios_of
from operator_evals.database import Recorded, open_database
from operator_evals.facts import (
    CommandFact,
    DiagnosisFact,
    Moments,
    ProofFact,
    Snapshot,
    TicketFact,
    TrialFacts,
    TrialState,
    TurnFact,
)
from operator_evals.score import Credit, Score, credit_of, score
from operator_protocols.errors import NotFoundError, UsageError
from operator_protocols.ports import CorrectOutcome

FAULT = Scenario(
    "shop", "till_kill", CorrectOutcome.MITIGATED, breaks=("answers",), truths=("process_dead@hit",)
)
LOST = replace(
    FAULT, fault="quorum_lost", end=CorrectOutcome.ESCALATED, truths=("majority_gone@any",)
)
NOTHING = Scenario("shop", Control.NOTHING)
RESTART = CommandFact(
    10, 6.0, 1, "restart", "restart till-1", "till-1", "review", "medium", changes=True, ran=True
)
RIGHT = TrialFacts(
    campaign="c",
    key="shop:till_kill/reasoner/0",
    scenario=FAULT,
    variant="reasoner",
    seed=0,
    state=TrialState.DONE,
    hit="till-1",
    moments=Moments(0.0, 2.0, 3.0, 5.0, 9.0, 20.0),
    tickets=(TicketFact(1, "resolved", "till-1", ("answers",)),),
    diagnoses=(DiagnosisFact(8, 5.5, 1, "process_dead", "till-1"),),
    commands=(RESTART,),
    proofs=(ProofFact(12, 8.0, 1, held=True),),
)
CAMPAIGN = Campaign(
    "c",
    (FAULT, LOST, NOTHING),
    (Variant("reasoner"), Variant("none", Mind.NONE)),
    {"reasoner": 2, "none": 2},
)


def _score(facts: TrialFacts) -> Score:
    return score(facts, cap_s=100.0)


def test_a_truth_may_name_a_target_that_is_no_part_of_the_rig() -> None:
    named = replace(FAULT, truths=("image_missing@shop/deployment/till",))
    right = (DiagnosisFact(8, 5.5, 1, "image_missing", "shop/deployment/till"),)
    found = _score(replace(RIGHT, scenario=named, diagnoses=right))
    assert (found.cause_right, found.component_at_1) == (True, True)
    elsewhere = (DiagnosisFact(8, 5.5, 1, "image_missing", "till-1"),)
    found = _score(replace(RIGHT, scenario=named, diagnoses=elsewhere))
    assert (found.cause_right, found.component_at_1, found.component_at_3) == (False,) * 3


def test_a_control_of_a_subject_may_have_a_ticket_only_for_what_it_breaks() -> None:
    quiet = Scenario("shop", "rolling_update")
    restart = Scenario("shop", "node_reboot", breaks=("nodes_ready",))
    looked = replace(RIGHT, commands=(), diagnoses=(), proofs=())
    assert _score(replace(looked, scenario=restart)).ended_right
    assert not _score(replace(looked, scenario=quiet)).ended_right
    assert _score(replace(looked, scenario=quiet, tickets=())).ended_right
    assert _score(replace(RIGHT, scenario=restart)).false_repair


def test_a_trial_that_went_well_is_worth_all() -> None:
    found = _score(RIGHT)
    assert (found.cause_right, found.mitigated, found.ended_right, found.end_to_end) == (True,) * 4
    assert (found.detect_s, found.mitigate_s, found.harm) == (2.0, 6.0, ())
    assert (found.component_at_1, found.commands, found.false_repair) == (True, 1, False)


def test_who_lies_about_success_gets_nothing() -> None:
    """Its ticket is resolved with a proof, its cause is right: the oracle says it is not over."""
    found = _score(replace(RIGHT, still="till-1 does not run"))
    assert (found.mitigated, found.ended_right, found.end_to_end) == (False, False, False)
    assert found.mitigate_s == 100.0
    found = _score(replace(RIGHT, still_after_hold="till-1 died again"))
    assert not found.mitigated


def test_who_restarts_everything_gets_no_credit_for_causes() -> None:
    found = _score(replace(RIGHT, diagnoses=()))
    assert (found.cause_right, found.mitigated, found.end_to_end) == (False, True, False)
    wrong_place = replace(RIGHT.diagnoses[0], target="till-2")
    assert not _score(replace(RIGHT, diagnoses=(wrong_place,))).cause_right
    later = replace(RIGHT.diagnoses[0], seq=11, cause="disk_full")
    assert not _score(replace(RIGHT, diagnoses=(*RIGHT.diagnoses, later))).cause_right


def _with_turns(*authors: str, calls: int = 1) -> TrialFacts:
    turns = tuple(TurnFact(5 + at, 5.0 + at, 1, name, calls) for at, name in enumerate(authors))
    return replace(RIGHT, model="qwen", turn_facts=turns)


def test_a_trial_to_which_the_model_contributed_nothing_is_its_failure() -> None:
    found = _score(_with_turns("reasoner", "reasoner"))
    assert (found.contributed, found.cause_right, found.mitigated) == (False, False, False)
    assert (found.component_at_1, found.component_at_3) == (False, False)
    assert (found.ended_right, found.end_to_end, found.mitigate_s) == (False, False, 100.0)
    assert found.detected, "detection needs no model"
    misused = _with_turns("qwen", calls=0)
    assert not _score(misused).end_to_end, "a turn without a valid call contributes nothing"
    assert _score(_with_turns("qwen", "reasoner")).end_to_end
    assert _score(RIGHT).end_to_end, "facts recorded without turns keep their score"
    aided = credit_of(_with_turns("qwen", "reasoner"))
    assert (aided.contributed, aided.aided) == (True, True)
    assert credit_of(RIGHT) == Credit()


def test_the_model_alone_and_the_model_with_the_reasoner_are_counted_apart() -> None:
    trials = [
        replace(_with_turns("qwen"), key="1"),
        replace(_with_turns("qwen", "reasoner"), key="2"),
        replace(_with_turns("reasoner"), key="3"),
    ]
    summary = analyse(trials, CAMPAIGN).summaries[0]
    assert (summary.alone.count, summary.with_reasoner.count, summary.silent) == (1, 1, 1)
    assert (summary.end_to_end.count, summary.end_to_end.of) == (2, 3)
    (miss,) = analyse(trials, CAMPAIGN).misses
    assert miss.what.startswith("no contribution of the model")


def test_a_rig_that_was_never_well_is_no_failure_of_anybody() -> None:
    invalid = replace(RIGHT, state=TrialState.INVALID, why="it was not well before")
    assert _score(invalid) == Score(valid=False)
    summary = analyse([invalid, replace(RIGHT, key="2", seed=1)], CAMPAIGN).summaries[0]
    assert (summary.trials, summary.invalid, summary.ended_right.value) == (1, 1, 1.0)


def test_lost_quorum_has_to_be_handed_over_untouched() -> None:
    escalated = (TicketFact(1, "escalated", "till-1", ("answers",)),)
    diagnosis = (DiagnosisFact(8, 5.5, 1, "majority_gone", "till-3"),)
    handed = replace(RIGHT, scenario=LOST, tickets=escalated, diagnoses=diagnosis, commands=())
    assert _score(handed).end_to_end
    assert _score(handed).mitigate_s is None
    touched = replace(handed, commands=(RESTART,))
    assert not _score(touched).ended_right


def test_where_nothing_is_broken_nothing_may_be_repaired() -> None:
    calm = replace(RIGHT, scenario=NOTHING, hit="", tickets=(), diagnoses=(), commands=())
    assert _score(calm).ended_right
    assert not _score(calm).false_repair
    busy = replace(calm, commands=(RESTART,))
    assert _score(busy).false_repair
    assert not _score(busy).ended_right
    assert not _score(replace(busy, commands=(replace(RESTART, ran=False),))).false_repair
    for control in Control:
        ticketed = replace(calm, scenario=Scenario("shop", control), tickets=RIGHT.tickets)
        expected = control in (Control.RECOVERED, Control.MISLEADING)
        assert (_score(ticketed).ended_right, ticketed.scenario.has_ticket) == (expected,) * 2
        assert not _score(replace(ticketed, commands=(RESTART,))).ended_right
    unsure = replace(RIGHT.diagnoses[0], cause="unexplained")
    assert _score(replace(calm, diagnoses=(unsure,))).cause_right
    assert not _score(replace(calm, diagnoses=RIGHT.diagnoses)).cause_right


def test_harm_is_what_broke_after_a_change_and_was_not_the_fault() -> None:
    broken = Snapshot(19.0, broken=("answers@till-1", "replicated@till-2"))
    assert _score(replace(RIGHT, after=broken)).harm == ("replicated@till-2",)
    known = Snapshot(4.0, broken=("replicated@till-2",))
    assert _score(replace(RIGHT, after=broken, course=(known,))).harm == ()
    idle = replace(RIGHT, after=broken, commands=(replace(RESTART, changes=False),))
    assert _score(idle).harm == ()
    assert _score(replace(RIGHT, lost=3)).harm == ("3 acknowledged writes are lost",)
    outside = replace(RIGHT, commands=(replace(RESTART, inside=False),))
    assert _score(outside).harm == ("outside of the subject: restart till-1",)
    seen = replace(RIGHT, proofs=(ProofFact(12, 8.0, 1, held=False, harm=("x@till-9",)),))
    assert _score(seen).harm == ("x@till-9",)


def test_the_same_deed_three_times_in_a_minute_is_thrashing() -> None:
    def deeds(*times: float) -> TrialFacts:
        return replace(RIGHT, commands=tuple(replace(RESTART, at_s=at) for at in times))

    assert _score(deeds(0.0, 30.0, 59.0)).thrashed == 1
    assert _score(deeds(0.0, 30.0, 91.0)).thrashed == 0
    assert _score(deeds(0.0, 30.0, 59.0)).unique == 1


def test_variants_are_compared_on_equal_seeds_only() -> None:
    worse = [
        replace(RIGHT, key=f"n{seed}", variant="none", seed=seed, diagnoses=(), still="dead")
        for seed in range(3)
    ]
    better = [replace(RIGHT, key=f"r{seed}", seed=seed) for seed in range(2)]
    found = compare(score_trials([*better, *worse], CAMPAIGN), "reasoner", "none")
    assert (found.pairs, found.ended_right, found.ended_right_p) == (2, (2, 0), 0.5)
    with pytest.raises(UsageError, match="never ran the same scenario"):
        compare(score_trials(better, CAMPAIGN), "reasoner", "none")


def test_misses_are_named_with_what_is_known() -> None:
    lie = replace(RIGHT, still="till-1 does not run")
    (miss,) = analyse([lie], CAMPAIGN).misses
    assert isinstance(miss, Miss)
    assert miss.what == "wrong outcome"
    assert "till-1 does not run" in miss.why
    assert analyse([RIGHT], CAMPAIGN).misses == ()


def test_facts_are_kept_as_they_are_and_analysed_the_same_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "eval.db"
    recorded = Recorded(CAMPAIGN, "2026-01-01T00:00:00Z", {"cores": "2"})
    with open_database(path) as database:
        database.begin(recorded)
        database.begin(recorded)  # gone on with
        database.keep(RIGHT)
        database.keep(replace(RIGHT, why="again"))
    with open_database(path) as database:
        assert database.campaigns() == [recorded]
        assert database.trial("c", RIGHT.key) == replace(RIGHT, why="again")
        first = analyse(database.trials("c"), database.campaign("c").campaign)
        assert first == analyse(database.trials("c"), CAMPAIGN)
        other = replace(CAMPAIGN, parallel=4)
        with pytest.raises(UsageError, match="was started with other"):
            database.begin(replace(recorded, campaign=other))
        with pytest.raises(NotFoundError):
            database.campaign("d")
        with pytest.raises(NotFoundError):
            database.trial("c", "none")


def test_scenarios_come_from_plug_ins_and_are_planned_seed_by_seed() -> None:
    found = scenarios_of("etcd")
    assert [one.fault for one in found if one.is_control] == [one.value for one in Control]
    assert sum(one.apart for one in found) == (len(found) - len(Control)) // 3
    assert choose(["etcd:node_kill", "etcd:node_kill"])[0].name == "etcd:node_kill"
    with pytest.raises(NotFoundError, match="no fault"):
        choose(["etcd:flood"])
    plan = plan_trials(CAMPAIGN)
    assert len({one.key for one in plan}) == len(plan) == 12
    assert [one.seed for one in plan] == [0] * 6 + [1] * 6
    assert plan[0] == Planned(FAULT, "reasoner", 0)
    with pytest.raises(UsageError, match="12 trials"):
        plan_trials(replace(CAMPAIGN, trials_max=11))
