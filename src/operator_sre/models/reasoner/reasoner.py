"""The next turn: a question, a diagnosis with its remedy, a claim to be proven, or giving up."""

from __future__ import annotations

from dataclasses import replace

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.cause import Remedy
from operator_protocols.domain.health import Health
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import Act, Answer, Ask, Diagnose, Escalate, Finish, Step
from operator_protocols.domain.target import Target
from operator_sre.models.reasoner.belief import SURE
from operator_sre.models.reasoner.case import Case, case_from
from operator_sre.models.reasoner.causes import PATIENCE
from operator_sre.models.reasoner.diagnose import SCRIPT, arguments_of, choose, diagnose
from operator_sre.models.reasoner.probes import Probe
from operator_sre.models.reasoner.table import table_of

__all__ = ["HOLDS_AGAIN", "Reasoner"]

WORTH_ASKING_BITS = 0.05
CHEAP = 1.0  # what costs no more is asked of whoever is about to be blamed
ACTION_S_MAX = 60.0
HOLDS_AGAIN = "It holds again by itself; nothing was changed."
HOLDS_NOW = "It holds again, after what was tried."

Question = tuple[Probe, Target, Action]


class Reasoner:
    """A mind that lists hypotheses, asks what tells them apart, and acts on the clear leader.

    It keeps nothing between turns: all it knows follows from what it is asked with.
    """

    name = "reasoner"

    async def answer(self, ask: Ask) -> Answer:
        """Think about what is known and say what to do next."""
        case = case_from(ask)
        return _after_a_change(case) or _already_over(case, ask) or _question(case) or _decide(case)


def _after_a_change(case: Case) -> Answer | None:
    last = case.last
    if last is None or not isinstance(last.want, Act) or last.want not in case.tried:
        return None
    result, action = last.result, last.want.action
    assert isinstance(result, Result)
    if result.ok:
        claim = f"{_called(action)} was done: {_said(action, result).rstrip('.')}."
        return Answer(f"{claim} Now it has to prove itself.", (Finish(claim),))
    if result.outcome is Outcome.REFUSED and not _missing(last):
        reason = f"{_called(action)} was proposed and not permitted. {result.stderr}"
        return Answer(reason, (Escalate(reason),))
    return None


def _missing(step: Step | None) -> str:
    """What is not here that it needs, where nobody refused it: the next best may be tried then."""
    result = step.result if step is not None else None
    missing = isinstance(result, Result) and "unavailable" in result.data
    return result.stderr.strip() if isinstance(result, Result) and missing else ""


def _called(action: Action) -> str:
    """The call in one line: a script is told by its length, the ledger has its text."""
    if action.tool != SCRIPT:
        return action.command
    lines = len(str(action.arguments.get("text", "")).splitlines())
    return replace(action, arguments={**action.arguments, "text": f"({lines} lines)"}).command


def _said(action: Action, result: Result) -> str:
    """What it said; of a script, which tells first what it found, how it ended."""
    said = result.stdout.strip()
    return "".join(said.splitlines()[-1:]) if action.tool == SCRIPT else said


def _already_over(case: Case, ask: Ask) -> Answer | None:
    if case.briefing.health is not Health.HEALTHY:
        return None
    changing = {spec.name for spec in ask.briefing.tools if spec.changes}
    claim = HOLDS_NOW if any(_begun(step, changing) for step in ask.steps) else HOLDS_AGAIN
    return Answer("Every invariant of the ticket holds already.", (Finish(claim),))


def _begun(step: Step, changing: set[str]) -> bool:
    """Whether it may have changed something, however it ended."""
    if not isinstance(step.want, Act) or not isinstance(step.result, Result):
        return False
    ran = step.result.outcome is not Outcome.REFUSED and not step.late
    return ran and step.want.action.tool in changing


def _question(case: Case) -> Answer | None:
    """The question worth most for its cost; the leader is asked what is cheap before any blame."""
    leader, chance = case.belief.ranked()[0]
    questions = case.open_questions
    about_leader = [one for one in questions if one[1].name == leader.target]
    worth = [
        (case.belief.gain(probe.name, target.name) / probe.cost, probe, target, action)
        for probe, target, action in (about_leader if chance >= SURE else questions)
    ]
    telling = [one for one in worth if one[0] > WORTH_ASKING_BITS]
    cheap = [one for one in worth if one[2].name == leader.target and one[1].cost <= CHEAP]
    if not (telling or cheap):
        return None
    ranked = sorted(telling or cheap, key=lambda one: (-one[0], one[1].name, one[2].name))
    bits, probe, target, action = ranked[0]
    why = "To be sure, before it is blamed"
    if telling:
        why = f"The question that tells most ({bits:.2f} bits for its cost)"
    return Answer(_thought(case, f"{why}: {target.name}: {probe.question}"), (action,))


def _decide(case: Case) -> Answer:
    remedy = choose(case)
    diagnosis = diagnose(case, remedy)
    if remedy is None:
        reason = f"{diagnosis.summary} {diagnosis.why}"
        return Answer(_thought(case, reason), (Diagnose(diagnosis), Escalate(reason)))
    told = _thought(case, diagnosis.why)
    if remedy.tool == PATIENCE:
        claim = f"{diagnosis.summary} It was given time, and nothing was changed."
        return Answer(told, (Diagnose(diagnosis), Finish(claim)))
    return Answer(told, (Diagnose(diagnosis), _action(case, remedy, diagnosis.summary)))


def _action(case: Case, remedy: Remedy, why: str) -> Action:
    target = case.belief.ranked()[0][0].target
    return Action(
        tool=remedy.tool,
        arguments=arguments_of(remedy, case.briefing, target) or {},
        target=target,
        reasoning=why,
        expected=f"{target} answers again and its invariants hold",
        timeout_s=ACTION_S_MAX,
    )


def _thought(case: Case, then: str) -> str:
    """What was learned, what is believed now and before, and what follows from it."""
    learned = ""
    if case.before is not None:
        last = case.readings[-1]
        learned = f"{last.target}: {last.sentence}.\n"
    elif case.last is not None and isinstance(case.last.result, Proof):
        learned = f"That did not end it: {case.last.result.detail}\n"
    elif missing := _missing(case.last):
        learned = f"{missing}\n"
    return f"{learned}{table_of(case.belief, case.before)}\n{then}"
