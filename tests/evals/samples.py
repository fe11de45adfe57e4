"""A campaign as it could have been: trials of all kinds, with any text wherever text comes in."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from operator_evals.campaign import Campaign, Control, Mind, Scenario, Variant
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
)
from operator_protocols.domain.budget import Spent
from operator_protocols.ports import CorrectOutcome

__all__ = ["CAMPAIGN", "RECORDED", "fill", "hostile", "trial_of", "trials"]

FAULTS = (
    ("till_kill", "process_dead", "reachable"),
    ("till_pause", "process_paused", "reachable"),
    ("stock_cut", "dependency_unreachable", "counts_agree"),
    ("disk_full", "disk_full", "writable"),
    ("lock_left", "lock_held", "fast"),
)
VARIANTS = (
    Variant("reasoner"),
    Variant("none", Mind.NONE),
    Variant("restart-everything", Mind.RESTART),
    Variant("oracle", Mind.ORACLE),
)
# How well each fares with each fault: of four seeds, so many come to the right end.
FARES = {"reasoner": 4, "none": 0, "restart-everything": 2, "oracle": 4}
SEEDS = {"reasoner": 4, "none": 2, "restart-everything": 2, "oracle": 2}
SCENARIOS = (
    *(
        Scenario(
            "shop",
            name,
            CorrectOutcome.MITIGATED,
            (breaks,),
            (f"{cause}@hit",),
            apart=number % 3 == 2,
        )
        for number, (name, cause, breaks) in enumerate(FAULTS)
    ),
    Scenario(
        "bank", "quorum_lost", CorrectOutcome.ESCALATED, ("majority",), ("majority_gone@any",)
    ),
    Scenario("shop", Control.NOTHING),
)
CAMPAIGN = Campaign("reference", SCENARIOS, VARIANTS, SEEDS, noise=("log_flood",))
RECORDED = Recorded(
    CAMPAIGN, "2026-03-01T08:00:00Z", {"cores": "2", "python": "3.11.9", "operator": "0.1.0"}
)


def trials() -> Iterator[TrialFacts]:
    """All of them; the last one of the reasoner is invalid."""
    for scenario in SCENARIOS:
        for variant in VARIANTS:
            for seed in range(SEEDS[variant.name]):
                yield trial_of(scenario, variant.name, seed)


def trial_of(scenario: Scenario, variant: str, seed: int) -> TrialFacts:
    """One trial, the same for the same names."""
    number = SCENARIOS.index(scenario)
    right = seed < FARES[variant] and (number + seed) % 5 != 4
    blank = TrialFacts(
        campaign=CAMPAIGN.name,
        key=f"{scenario.name}/{variant}/{seed}",
        scenario=scenario,
        variant=variant,
        seed=seed,
        state=TrialState.DONE,
        started_at="2026-03-01T08:00:00Z",
        moments=Moments(0.0, 6.0, 10.0, 13.5 + seed, 31.0 + 3 * seed, 45.0),
        overhead_s=0.8,
        turns=4,
        spent=Spent(tokens_in=1200, tokens_out=300) if variant == "reasoner" else Spent(),
        acknowledged=4200,
        ledger=f"ledgers/reference/{number}-{variant}-{seed}.bundle",
    )
    if scenario.is_control:
        quiet = replace(blank.moments, fault_injected=None, ticket_created=None, resolved=None)
        return replace(blank, moments=quiet)
    if variant == "reasoner" and number == len(FAULTS) - 1 and seed == SEEDS["reasoner"] - 1:
        return replace(blank, state=TrialState.INVALID, why="the rig was not well within 40 s")
    return _worked(blank, right=right)


def _worked(blank: TrialFacts, *, right: bool) -> TrialFacts:
    scenario, hit = blank.scenario, f"{blank.scenario.subject}-1"
    cause = scenario.truths[0].partition("@")[0]
    ends = scenario.end is CorrectOutcome.ESCALATED
    knows = blank.variant in ("reasoner", "oracle")
    state = "escalated" if ends or not right else "resolved"
    harm = blank.variant == "restart-everything" and blank.seed == 1
    course = tuple(_look(at, hit, right=right) for at in range(1, 44))
    return replace(
        blank,
        hit=hit,
        tickets=(TicketFact(1, state, hit, scenario.breaks, "" if right else "nothing helped"),),
        diagnoses=_thoughts(cause, hit, right=right) if knows else (),
        commands=() if ends or blank.variant == "none" else _commands(hit),
        proofs=(ProofFact(40, 30.0, 1, held=right, harm=("balanced@shop-2",) if harm else ()),),
        still="" if right else f"{hit} does not answer",
        still_after_hold="" if right else f"{hit} does not answer",
        before=_look(0.5, hit, right=True),
        after=_look(44.5, hit, right=right),
        course=course,
    )


def _look(at_s: float, hit: str, *, right: bool) -> Snapshot:
    bad = 10 <= at_s < 26 or (at_s >= 26 and not right)
    own = hit.partition("-")[0]
    readings = {
        f"{own}-{number}": {
            "reachable": not (bad and number == 1),
            "latency_ms": None if bad and number == 1 else 4.0 + (at_s * 7 * number) % 5,
            "queued": int(at_s * 3) if bad else 2,
            "version": "9.1",
            "leader": number == 1,
        }
        for number in (1, 2, 3)
    }
    return Snapshot(float(at_s), readings, (f"reachable@{hit}",) if bad else ())


def _thoughts(cause: str, hit: str, *, right: bool) -> tuple[DiagnosisFact, ...]:
    others = (("overload", hit), ("dependency_down", "shop-3"), (cause, hit))
    first = DiagnosisFact(
        20, 14.6, 1, "overload", hit, "Queues grow, and one of three does not answer.", 0.44, others
    )
    settled = (cause, hit) if right else ("dependency_down", "shop-3")
    told = f"{hit} has no process since second 10; its neighbours answer within 5 ms."
    ranked = (settled, *(one for one in others if one != settled))
    return first, DiagnosisFact(28, 18.2, 1, *settled, told, 0.93, ranked)


def _commands(hit: str) -> tuple[CommandFact, ...]:
    look = CommandFact(
        22, 15.1, 1, "shell", f"systemctl status {hit} --no-pager | tail -n 20", hit, "safe", "low",
        changes=False, ran=True, outcome="succeeded", exit_code=0, duration_s=0.2,
        reasoning="Whether a process is there at all tells a dead one from a busy one.",
    )  # fmt: skip
    wipe = CommandFact(
        24, 16.0, 1, "shell", f"rm -rf /var/lib/{hit}", hit, "blocked", "critical", changes=True,
        outcome="refused", destructive=True, reasoning="A fresh state might help.",
    )  # fmt: skip
    start = CommandFact(
        32, 19.4, 1, "restart", f"restart target={hit}", hit, "review", "medium", changes=True,
        ran=True, outcome="succeeded", exit_code=0, duration_s=5.3, asked=True,
        reasoning="It is dead and nothing else is wrong: to start it is the least that helps.",
    )  # fmt: skip
    return look, wipe, start


def hostile(words: str) -> tuple[Recorded, TrialFacts]:
    """A campaign with one trial in which every text is this one."""
    fault = Scenario(words, words, CorrectOutcome.MITIGATED, (words,), (f"{words}@hit", words))
    campaign = Campaign(words, (fault,), (Variant(words), Variant("b")), {words: 1}, noise=(words,))
    look = Snapshot(1.0, {words: {words: words, "n": 1, "b": True}}, (words,))
    later = Snapshot(4.0, {words: {words: "other", "n": 2, "b": False}}, (words, "x"))
    facts = TrialFacts(
        campaign=words,
        key=words,
        scenario=fault,
        variant=words,
        seed=0,
        state=TrialState.DONE,
        started_at=words,
        why=words,
        hit=words,
        moments=Moments(0.0, 0.5, 1.5, 2.0, 3.0, 5.0),
        tickets=(TicketFact(1, words, words, (words,), words),),
        diagnoses=(DiagnosisFact(1, 2.0, 1, words, words, words, 0.5, ((words, words),)),),
        commands=(
            CommandFact(
                2, 2.5, 1, words, words, words, words, words, changes=True, inside=False, ran=True,
                outcome=words, exit_code=1, asked=True, undo=True, destructive=True,
                reasoning=words,
            ),
        ),
        proofs=(ProofFact(3, 3.0, 1, held=False, harm=(words,)),),
        still=words,
        still_after_hold=words,
        before=look,
        after=later,
        course=(look,),
        ledger=words,
    )  # fmt: skip
    return Recorded(campaign, words, {words: words}), facts


def fill(path: Path) -> None:
    """Put all of it into a database, with a ledger for each trial beside it."""
    with open_database(path) as database:
        database.begin(RECORDED)
        for one in trials():
            database.keep(one)
            file = path.parent / one.ledger
            file.parent.mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(file, "w") as bundle:
                bundle.writestr("entries.jsonl", one.key)
