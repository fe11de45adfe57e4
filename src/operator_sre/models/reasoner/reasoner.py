"""The next turn: a question, a diagnosis with its remedy, a claim to be proven, or giving up."""

from __future__ import annotations

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.health import Health
from operator_protocols.domain.run import Act, Answer, Ask, Diagnose, Escalate, Finish
from operator_sre.models.reasoner.belief import Suspect
from operator_sre.models.reasoner.case import Case, case_from
from operator_sre.models.reasoner.causes import UNEXPLAINED
from operator_sre.models.reasoner.diagnose import arguments_of, diagnose, remedies_for

__all__ = ["Reasoner"]

SURE = 0.9
WORTH_ASKING_BITS = 0.05
SHOWN_MIN = 0.01
CERTAIN = 0.999  # nothing seen from outside is surer than that


class Reasoner:
    """A mind that lists hypotheses, asks what tells them apart, and acts on the clear leader.

    It keeps nothing between turns: all it knows follows from what it is asked with.
    """

    name = "reasoner"

    async def answer(self, ask: Ask) -> Answer:
        """Think about what is known and say what to do next."""
        case = case_from(ask)
        return _after_a_change(case) or _already_over(case) or _question(case) or _decide(case)


def _after_a_change(case: Case) -> Answer | None:
    last = case.last
    if last is None or not isinstance(last.want, Act) or last.want not in case.tried:
        return None
    result, action = last.result, last.want.action
    assert isinstance(result, Result)
    if result.ok:
        claim = f"{action.command} was done: {result.stdout.strip().rstrip('.')}."
        return Answer(f"{claim} Now it has to prove itself.", (Finish(claim),))
    if result.outcome is Outcome.REFUSED:
        reason = f"{action.command} was proposed and not permitted. {result.stderr}"
        return Answer(reason, (Escalate(reason),))
    return None


def _already_over(case: Case) -> Answer | None:
    if case.briefing.health is not Health.HEALTHY:
        return None
    claim = "Every invariant of the ticket holds already; nothing was changed."
    return Answer(claim, (Finish(claim),))


def _question(case: Case) -> Answer | None:
    """The question worth most for its cost; the leader is asked everything before it is blamed."""
    leader, chance = case.belief.ranked()[0]
    questions = case.open_questions
    about_leader = [one for one in questions if one[1].name == leader.target]
    if chance >= SURE:
        questions = about_leader
    worth = [
        (case.belief.gain(probe.name, target.name) / probe.cost, probe, target, action)
        for probe, target, action in questions
    ]
    asked_all = not about_leader
    worth = [one for one in worth if one[0] > WORTH_ASKING_BITS or not asked_all]
    if not worth:
        return None
    bits, probe, target, action = max(worth, key=lambda one: (one[0], one[1].name, one[2].name))
    why = "To be sure, before it is blamed"
    if bits > WORTH_ASKING_BITS:
        why = f"The question that tells most ({bits:.2f} bits for its cost)"
    return Answer(f"{_table(case)} {why}: {target.name}: {probe.question}", (action,))


def _decide(case: Case) -> Answer:
    leader, chance = case.belief.ranked()[0]
    remedies = remedies_for(case, leader) if _clear(leader, chance) else []
    remedy = remedies[0] if remedies else None
    diagnosis = diagnose(case, remedy)
    if remedy is None:
        reason = f"{diagnosis.summary} {diagnosis.why}"
        return Answer(f"{_table(case)} {reason}", (Diagnose(diagnosis), Escalate(reason)))
    action = Action(
        tool=remedy.tool,
        arguments=arguments_of(remedy, case.briefing, leader.target) or {},
        target=leader.target,
        reasoning=diagnosis.summary,
        expected=f"{leader.target} answers again and its invariants hold",
        timeout_s=60.0,
    )
    return Answer(f"{_table(case)} {diagnosis.why}", (Diagnose(diagnosis), action))


def _clear(leader: Suspect, chance: float) -> bool:
    return leader.cause is not UNEXPLAINED and chance >= SURE


def _table(case: Case) -> str:
    ranked = case.belief.ranked()
    shown = [one for one in ranked[:3] if one[1] >= SHOWN_MIN] or ranked[:1]
    rows = ", ".join(
        f"{suspect.cause.name} at {suspect.target} {min(weight, CERTAIN):.1%}"
        for suspect, weight in shown
    )
    return f"Hypotheses: {rows}."
