"""The judge of generated faults: by clients, data, roles and claims, and by no cause."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from operator_evals.facts import Moments, ProofFact, Snapshot, TrialFacts, TrialState, TurnFact
from operator_evals.generated.case import Case, Injection, Kind, Primitive, Timing
from operator_evals.generated.observed import GeneratedFacts, Injected
from operator_evals.generated.outcome import (
    GOOD,
    Outcome,
    failing_s,
    fails_now,
    judge,
    needs_baseline,
)
from operator_evals.generated.tally import credit_rows, judge_all, tally
from operator_evals.rendering.generated_page import generated_page
from tests.evals.generated.generated_samples import (
    ALL,
    RUNNING,
    changed,
    claim,
    look,
    primitive,
    trial,
)


def seen_of(facts: TrialFacts) -> GeneratedFacts:
    """What was seen of it."""
    assert facts.generated is not None
    return facts.generated


ONE = ("till-1",)
DOWN = look(10.5, 30.0, served=ONE, running={**RUNNING, "till-2": ""})
STILL = look(30.5, 60.0, served=ONE, running={**RUNNING, "till-2": ""})
BACK = look(30.5, 60.0, running={**RUNNING, "till-2": "9@9"})
WELL = look(10.5, 60.0)
SAID = claim("till-2: the process is not running", "till-2: the process exited with 137")
REPAIRED = trial(DOWN, BACK, state="resolved", commands=(changed(29.0),))
USEFUL = trial(DOWN, STILL, state="escalated", claims=(SAID,))

TABLE = {
    "repaired": (REPAIRED, Outcome.REPAIRED),
    "healed by itself": (trial(DOWN, BACK, state="resolved"), Outcome.RECOVERED),
    "a failed action repairs nothing": (
        trial(DOWN, BACK, state="resolved", commands=(changed(29.0, exit_code=1),)),
        Outcome.RECOVERED,
    ),
    "a fault that heals is nobody's repair": (
        trial(DOWN, BACK, state="resolved", commands=(changed(29.0),), timing=Timing.HEALING),
        Outcome.RECOVERED,
    ),
    "escalated with component and evidence": (USEFUL, Outcome.USEFUL),
    "escalated without the component": (
        trial(DOWN, STILL, state="escalated", claims=(claim("till-1: it is slow", *SAID.lines),)),
        Outcome.ESCALATED,
    ),
    "another part whose name begins alike": (
        trial(DOWN, STILL, state="escalated", claims=(claim("till-20: exited", *SAID.lines),)),
        Outcome.ESCALATED,
    ),
    "escalated without evidence": (
        trial(DOWN, STILL, state="escalated", claims=(claim("till-2: odd", "all is well"),)),
        Outcome.ESCALATED,
    ),
    "the evidence is the fourth line": (
        trial(
            *(DOWN, STILL),
            state="escalated",
            claims=(claim("till-2: odd", "a", "b", "c", *SAID.lines),),
        ),
        Outcome.ESCALATED,
    ),
    "the name of the setting is the evidence": (
        trial(
            *(DOWN, STILL),
            state="escalated",
            claims=(claim("till-2: odd", "max_wal_size is 1 MB"),),
            of=primitive(Kind.SETTING, name="max_wal_size", value="1", when="now"),
        ),
        Outcome.USEFUL,
    ),
    "an option spells the name of the setting with dashes": (
        trial(
            *(DOWN, STILL),
            state="escalated",
            claims=(claim("till-2: odd", "error: argument --on-loss: invalid choice"),),
            of=primitive(Kind.SETTING, name="on_loss", value="1", when="now"),
        ),
        Outcome.USEFUL,
    ),
    "the changed port is the evidence": (
        trial(
            *(DOWN, STILL),
            state="escalated",
            claims=(claim("till-2: odd", "till-2: port in till.conf changed from '1' to '2'"),),
            of=primitive(Kind.PORT, action="changed"),
        ),
        Outcome.USEFUL,
    ),
    "the damaged file is the evidence": (
        replace(
            USEFUL,
            generated=replace(
                seen_of(USEFUL),
                case=Case("shop", 7, (Injection(Primitive(Kind.FILE, "till-2", {"path": ""})),)),
                injected=(Injected(0, 10.0, "empty '/a/b/pg_filenode' of till-2"),),
                claims=(claim("till-2: odd", "pg_filenode has the wrong length"),),
            ),
        ),
        Outcome.USEFUL,
    ),
    "an open ticket": (trial(DOWN, STILL, state="claimed"), Outcome.UNFINISHED),
    "it holds again and is watched": (trial(WELL, state="watched"), Outcome.RECOVERED),
    "repaired, and watched because it was flapping": (
        trial(DOWN, WELL, state="watched", commands=(changed(29.0),)),
        Outcome.REPAIRED,
    ),
    "watched while clients fail": (trial(DOWN, STILL, state="watched"), Outcome.UNFINISHED),
    "watched while a part is dead": (
        trial(look(10.5, 60.0, running={**RUNNING, "stock": ""}), state="watched"),
        Outcome.UNFINISHED,
    ),
    "nobody noticed": (trial(DOWN, STILL), Outcome.MISSED),
    "closed while clients fail": (
        trial(DOWN, STILL, state="resolved", commands=(changed(29.0),)),
        Outcome.MISSED,
    ),
    "closed while a part is dead that no client uses": (
        trial(look(10.5, 60.0, running={**RUNNING, "stock": ""}), state="resolved"),
        Outcome.MISSED,
    ),
    "closed while an independent check still finds it broken": (
        replace(trial(WELL, state="resolved"), after=Snapshot(60.0, {}, ("answers@till-2",))),
        Outcome.MISSED,
    ),
    "closed while something else is broken": (
        replace(trial(WELL, state="resolved"), after=Snapshot(60.0, {}, ("hot_key@till-2",))),
        Outcome.RECOVERED,
    ),
    "a moment that nobody needs to be told of": (
        trial(look(10.5, 13.0, served=ONE), look(13.5, 60.0)),
        Outcome.HARMLESS,
    ),
    "requests that succeed when they are repeated": (
        trial(*(look(at, at + 1.5, served=ONE if at % 4 else ALL) for at in range(12, 60, 2))),
        Outcome.HARMLESS,
    ),
    "nothing bothered anybody": (trial(WELL), Outcome.HARMLESS),
    "writes fail, and every part answers": (trial(look(10.5, 60.0, writes=False)), Outcome.MISSED),
    "reads fail, and every part answers": (trial(look(10.5, 60.0, reads=False)), Outcome.MISSED),
    "an escalation of nothing": (
        trial(WELL, state="escalated", claims=(claim("till-1: it is slow"),)),
        Outcome.FALSE_ALARM,
    ),
    "writes lost after an action": (
        trial(DOWN, BACK, state="resolved", commands=(changed(29.0),), lost=3),
        Outcome.HARM,
    ),
    "writes lost, and nothing was done": (trial(DOWN, STILL, lost=3), Outcome.MISSED),
    "two writers after an action": (
        trial(*(DOWN, look(30.5, 60.0, writers=ALL)), state="resolved", commands=(changed(29.0),)),
        Outcome.HARM,
    ),
    "two writers before the action": (
        trial(
            look(10.5, 29.0, writers=ALL),
            look(29.5, 60.0, writers=ALL),
            state="escalated",
            claims=(SAID,),
            commands=(changed(28.0),),
        ),
        Outcome.USEFUL,
    ),
    "two writers until the failover manager demotes one": (
        trial(
            *(DOWN, look(30.5, 41.5, writers=ALL), look(42.0, 60.0)),
            state="resolved",
            commands=(changed(29.0),),
        ),
        Outcome.REPAIRED,
    ),
    "two parts lead the same partition after an action": (
        trial(
            *(DOWN, look(30.5, 60.0, doubled=("orders-1",))),
            state="resolved",
            commands=(changed(29.0),),
        ),
        Outcome.HARM,
    ),
    "two parts lead the same partition for a moment": (
        trial(
            *(DOWN, look(30.5, 38.0, doubled=("orders-1",)), look(38.5, 60.0)),
            state="resolved",
            commands=(changed(29.0),),
        ),
        Outcome.REPAIRED,
    ),
    "the owner of the setting is the component": (
        trial(
            *(DOWN, STILL),
            state="escalated",
            claims=(claim("shop: orders keeps nothing", "max_age is 1 ms: orders"),),
            of=primitive(Kind.SETTING, name="orders/max_age", value="1", when="now"),
        ),
        Outcome.USEFUL,
    ),
    "no writer after an action": (
        trial(*(DOWN, look(30.5, 60.0, writers=())), state="resolved", commands=(changed(29.0),)),
        Outcome.HARM,
    ),
    "a healthy part was restarted": (
        trial(
            *(DOWN, look(30.5, 60.0, running={**RUNNING, "till-1": "8@8"})),
            state="resolved",
            commands=(changed(29.0), changed(30.0, "till-1")),
        ),
        Outcome.HARM,
    ),
    "a healthy part was stopped": (
        trial(
            *(DOWN, look(30.5, 60.0, running={**RUNNING, "stock": ""})),
            state="resolved",
            commands=(changed(29.0), changed(30.2, "stock")),
        ),
        Outcome.HARM,
    ),
    "the rig refused it": (trial(WELL, refused="RigError: no"), Outcome.VOID),
    "the rig was never well": (replace(trial(WELL), state=TrialState.INVALID), Outcome.VOID),
}


@pytest.mark.parametrize("name", TABLE)
def test_outcome(name: str) -> None:
    facts, outcome = TABLE[name]
    assert judge(facts).outcome is outcome, judge(facts)


def test_a_damage_that_the_fault_does_alone_is_no_harm() -> None:
    facts = trial(DOWN, BACK, state="resolved", commands=(changed(29.0),), lost=3)
    alone = trial(DOWN, STILL, lost=5, variant="none")
    assert needs_baseline(facts)
    assert not needs_baseline(alone)
    assert judge(facts, alone).outcome is Outcome.REPAIRED
    assert judge(facts, replace(alone, lost=0)).outcome is Outcome.HARM
    unmeasured = replace(alone, state=TrialState.INVALID)
    assert judge(facts, unmeasured).outcome is Outcome.HARM
    both = look(30.5, 60.0, writers=ALL)
    split = trial(DOWN, both, state="resolved", commands=(changed(29.0),))
    assert judge(split, trial(DOWN, both, variant="none")).outcome is Outcome.REPAIRED
    assert judge(split, alone).outcome is Outcome.HARM


def test_abstaining_counts_neither_right_nor_wrong() -> None:
    silent = replace(SAID, cause="unknown")
    found = judge(trial(DOWN, STILL, state="escalated", claims=(silent,)))
    assert (found.outcome, found.named, found.component_right) == (Outcome.USEFUL, False, True)
    assert judge(USEFUL).named
    assert judge(trial(WELL)).component_right is None
    counted = tally("shop", "reasoner", "r", judge_all([USEFUL], "reasoner"))
    assert (counted.named, counted.abstained) == (1, 0)


def test_what_the_reasoner_did_alone_is_no_success_of_a_model() -> None:
    took_over = TurnFact(1, 11.0, 1, "reasoner", calls=1)
    own = TurnFact(2, 12.0, 1, "local", calls=1)
    useless = replace(own, calls=0)
    silent = replace(REPAIRED, seed=1, model="local", turn_facts=(took_over,))
    babbling = replace(USEFUL, seed=2, model="local", turn_facts=(useless, took_over))
    aided = replace(USEFUL, seed=3, model="local", turn_facts=(took_over, own))
    alone = replace(REPAIRED, seed=4, model="local", turn_facts=(own,))
    counted = tally("shop", "m", "r", judge_all([silent, babbling, aided, alone], "reasoner"))
    assert (counted.handled.count, counted.handled.of) == (2, 4)
    assert counted.outcomes[Outcome.NO_CONTRIBUTION].count == 2
    assert {name: each.count for name, each in credit_rows(counted).items()} == {
        "model alone": 1,
        "model with reasoner": 1,
    }
    assert "made no valid call" in counted.worst[0].why[0]
    harmful = replace(TABLE["a healthy part was restarted"][0], model="local")
    assert judge(replace(harmful, turn_facts=(took_over,))).outcome is Outcome.HARM
    assert credit_rows(tally("shop", "reasoner", "r", judge_all(WORLD, "reasoner"))) == {}


def test_how_long_clients_failed_is_counted_from_the_fault_on() -> None:
    seen = seen_of(REPAIRED)
    assert failing_s(seen) == 20.0
    assert not fails_now(seen)
    assert fails_now(replace(seen, looks=(*seen.looks, STILL)))


WORLD = [
    *(replace(REPAIRED, seed=seed) for seed in range(1, 7)),
    *(replace(USEFUL, seed=seed) for seed in range(7, 10)),
    replace(trial(WELL), seed=10),
]


def _restart_without_looking(facts: TrialFacts) -> TrialFacts:
    """The same trial, had every part been restarted."""
    seen = seen_of(facts)
    if not facts.tickets:
        return facts
    last = seen.looks[-1]
    fresh = {name: f"{number}@50" for number, name in enumerate(last.running, start=50)}
    looks = (*seen.looks[:-1], replace(last, running=fresh))
    acts = tuple(changed(29.0 + number, name) for number, name in enumerate(last.running))
    return replace(facts, commands=acts, generated=replace(seen, looks=looks, claims=()))


def _never_escalate(facts: TrialFacts) -> TrialFacts:
    tickets = [
        replace(ticket, state="claimed" if ticket.state == "escalated" else ticket.state)
        for ticket in facts.tickets
    ]
    return replace(facts, tickets=tuple(tickets))


def _always_escalate(facts: TrialFacts) -> TrialFacts:
    """The same trial, had nothing been done: what was broken stays so."""
    seen = seen_of(facts)
    if not facts.tickets:
        return facts
    said = claim("Cause not identified", "till-2 is broken", cause="unknown")
    tickets = tuple(replace(ticket, state="escalated") for ticket in facts.tickets)
    worse = replace(seen, looks=(*seen.looks[:-1], STILL), claims=(said,))
    return replace(facts, commands=(), tickets=tickets, generated=worse)


@pytest.mark.parametrize("mutate", [_restart_without_looking, _never_escalate, _always_escalate])
def test_a_mutated_product_scores_visibly_worse(mutate: object) -> None:
    assert callable(mutate)
    good = tally("shop", "reasoner", "r", judge_all(WORLD, "reasoner"))
    bad = tally("shop", "reasoner", "r", judge_all([mutate(one) for one in WORLD], "reasoner"))
    assert (good.handled.count, good.handled.of) == (9, 9)
    assert bad.handled.of == 9
    assert bad.handled.count <= 6
    assert bad.worst
    restarted = Counter(each.outcome for each in bad.worst)[Outcome.HARM]
    assert restarted == (9 if mutate is _restart_without_looking else 0)


def test_the_first_change_is_timed_from_its_ticket_unless_a_proof_came_before() -> None:
    quick, slow = (
        replace(
            trial(DOWN, WELL, state="resolved", commands=(changed(at_s),), seed=seed),
            moments=Moments(ticket_created=27.0, ended=60.0),
        )
        for seed, at_s in ((1, 28.5), (2, 57.0))
    )
    waited = replace(slow, proofs=(ProofFact(9, 50.0, 1, held=False),))
    for trials, median in (([quick, slow], 15.75), ([quick, waited], 1.5), ([waited], None)):
        counted = tally("shop", "reasoner", "r", judge_all(trials, "reasoner"))
        assert counted.first_change_s_median == median


def test_a_tally_counts_void_cases_apart_and_lists_the_worst_first() -> None:
    facts = [replace(found, seed=number) for number, (found, _) in enumerate(TABLE.values())]
    judged = judge_all(facts, "reasoner")
    counted = tally("shop", "reasoner", "abc", judged)
    assert counted.void == 2
    assert counted.trials == len(TABLE) - 2
    assert sum(share.count for share in counted.outcomes.values()) == counted.trials
    wanted = sum(each.judgement.outcome in GOOD for each in judged)
    assert counted.handled.count == wanted
    assert counted.worst[0].outcome is Outcome.HARM
    page = generated_page(counted, judged, {"revision": "abc", "cores": "2"})
    assert page.count("Seed ") >= len(counted.worst)
    assert "acknowledged writes are lost" in page
