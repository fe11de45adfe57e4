"""The table of generated faults: how often each outcome, and the worst cases. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from operator_evals.facts import TrialFacts
from operator_evals.generated.case import Case
from operator_evals.generated.outcome import GOOD, NEUTRAL, Judgement, Outcome, judge
from operator_evals.score import Share, median, share

__all__ = ["NOBODY", "BadCase", "Judged", "Tally", "credit_rows", "judge_all", "tally"]

# The variant without an agent, which says what a fault does by itself.
NOBODY = "none"
# The worst first.
_WORST = (
    Outcome.HARM,
    Outcome.MISSED,
    Outcome.FALSE_ALARM,
    Outcome.NO_CONTRIBUTION,
    Outcome.UNFINISHED,
    Outcome.ESCALATED,
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A trial with its outcome."""

    facts: TrialFacts
    judgement: Judgement

    @property
    def case(self) -> Case:
        """What was injected."""
        seen = self.facts.generated
        return seen.case if seen else Case(self.facts.scenario.subject, self.facts.seed, ())


@dataclass(frozen=True, slots=True)
class BadCase:
    """A case that did not end well, in a line."""

    seed: int
    outcome: Outcome
    case: str
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """All trials of one subject and variant at one revision.

    `outcomes` are shares of the trials that are not void. `handled` is repaired or escalated
    usefully, of those in which something had to be done. `component_right` is of the trials in
    which a component was named. `abstained` are the trials among them that named no cause, which
    is neither right nor wrong. `first_change_s_median` is the time from a ticket to the first
    proposed change, where it did not have to wait for a proof.
    """

    subject: str
    variant: str
    revision: str
    trials: int
    void: int
    outcomes: Mapping[str, Share]
    handled: Share
    model_alone: Share
    with_reasoner: Share
    component_right: Share
    named: int
    abstained: int
    took_s_median: float | None
    first_change_s_median: float | None
    first_seed: int
    last_seed: int
    worst: tuple[BadCase, ...]
    void_cases: tuple[BadCase, ...] = ()


def credit_rows(found: Tally) -> dict[str, Share]:
    """How a model's successes divide; nothing for the reasoner, which no one aids."""
    if not found.with_reasoner.count and not found.outcomes[Outcome.NO_CONTRIBUTION].count:
        return {}
    return {"model alone": found.model_alone, "model with reasoner": found.with_reasoner}


def judge_all(trials: Sequence[TrialFacts], variant: str) -> list[Judged]:
    """The trials of a variant, each compared with the same case without an agent, if there is."""
    alone = {trial.seed: trial for trial in trials if trial.variant == NOBODY}
    return [
        Judged(trial, judge(trial, None if variant == NOBODY else alone.get(trial.seed)))
        for trial in sorted(trials, key=lambda trial: trial.seed)
        if trial.variant == variant
    ]


def tally(subject: str, variant: str, revision: str, judged: Sequence[Judged]) -> Tally:
    """Count them."""
    found = [each.judgement for each in judged]
    valid = [each for each in found if each.outcome is not Outcome.VOID]
    needed = [each for each in valid if each.outcome not in NEUTRAL]
    answered = [each for each in valid if each.component_right is not None]
    ended = [each.facts.moments.ended for each in judged]
    bad = [each for each in judged if each.judgement.outcome in _WORST]
    return Tally(
        subject=subject,
        variant=variant,
        revision=revision,
        trials=len(valid),
        void=len(found) - len(valid),
        outcomes={
            outcome.value: share([each.outcome is outcome for each in valid])
            for outcome in Outcome
            if outcome is not Outcome.VOID
        },
        handled=share([each.outcome in GOOD for each in needed]),
        model_alone=share([each.outcome in GOOD and not each.aided for each in needed]),
        with_reasoner=share([each.outcome in GOOD and each.aided for each in needed]),
        component_right=share([each.component_right is True for each in answered]),
        named=sum(each.named for each in answered),
        abstained=sum(not each.named for each in answered),
        took_s_median=median([took_s for took_s in ended if took_s is not None]),
        first_change_s_median=median(
            [
                taken
                for each in judged
                if each.judgement.outcome is not Outcome.VOID
                and (taken := _first_change_s(each.facts))
            ]
        ),
        first_seed=min((each.facts.seed for each in judged), default=0),
        last_seed=max((each.facts.seed for each in judged), default=0),
        worst=tuple(
            map(_bad_case, sorted(bad, key=lambda each: _WORST.index(each.judgement.outcome)))
        ),
        void_cases=tuple(
            _bad_case(each) for each in judged if each.judgement.outcome is Outcome.VOID
        ),
    )


def _bad_case(judged: Judged) -> BadCase:
    return BadCase(
        seed=judged.facts.seed,
        outcome=judged.judgement.outcome,
        case=judged.case.sentence,
        why=judged.judgement.why,
    )


def _first_change_s(facts: TrialFacts) -> float | None:
    """How long after a ticket its first change was proposed; None where a proof came before."""
    opened_s = facts.moments.ticket_created
    made = [each for each in facts.commands if each.changes]
    if opened_s is None or not made:
        return None
    first = min(made, key=lambda command: command.at_s)
    waited = any(proof.at_s < first.at_s for proof in facts.proofs)
    is_first = first.ticket == min(ticket.id for ticket in facts.tickets)
    return None if waited or not is_first else first.at_s - opened_s
