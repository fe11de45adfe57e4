"""The next turn: a probe, a diagnosis with its remedy, a claim to be proven, or an escalation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from operator_protocols.domain.action import Action, Outcome, Result, Urgency
from operator_protocols.domain.cause import Remedy
from operator_protocols.domain.diagnosis import RankedHypothesis
from operator_protocols.domain.health import Health
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import (
    UNAVAILABLE,
    Act,
    Answer,
    Ask,
    Call,
    Diagnose,
    Escalate,
    Finish,
    Prove,
    Step,
)
from operator_protocols.domain.target import dependencies_of
from operator_sre.models.reasoner.belief import SURE, Belief, Suspect
from operator_sre.models.reasoner.case import Case, case_from, split_case
from operator_sre.models.reasoner.causes import PATIENCE, UNEXPLAINED
from operator_sre.models.reasoner.diagnosis import (
    SCRIPT,
    arguments_of,
    choose,
    diagnose,
    find_unmet_of,
    focus,
)

__all__ = ["HOLDS_AGAIN", "Reasoner", "rank_hypotheses"]

WORTH_ASKING_BITS = 0.05
ROWS_MAX, SHOWN_MIN, DIGITS = 4, 0.01, 4
CERTAIN = 0.999  # no external observation gives more certainty
CHEAP = 1.0  # probes up to this cost are run at the leading suspect in any case
ACTION_S_MAX = 60.0
HOLDS_AGAIN = "All invariants hold again; Operator changed nothing."
HOLDS_NOW = "All invariants hold again after the actions taken."


class Reasoner:
    """Lists hypotheses, runs the probes that tell them apart, and acts on the clear leader.

    It keeps no state between turns: everything follows from the steps of the run.
    """

    name = "reasoner"

    async def answer(self, ask: Ask) -> Answer:
        """Weigh the evidence and decide the next step."""
        case = case_from(ask)
        if case.unproven:
            return _repair_beside(ask, case) or _claim(case)
        if (answer := _judge_refusal(case)) is not None:
            return answer
        if case.briefing.health is Health.HEALTHY:
            changing = {spec.name for spec in ask.briefing.tools if spec.changes}
            changed = any(
                isinstance(step.want, Act)
                and isinstance(step.result, Result)
                and step.result.outcome is not Outcome.REFUSED
                and not step.late
                and step.want.action.tool in changing
                for step in ask.steps
            )
            claim = HOLDS_NOW if changed else HOLDS_AGAIN
            return Answer("Every invariant of the ticket already holds.", (Finish(claim),))
        parts = split_case(ask, case)
        leader = case.belief.rank()[0][0]
        # What is down below the leader does not follow from it, and comes back first.
        below = dependencies_of(leader.target, case.briefing.targets) & case.broken_targets
        if not parts or not (leader.cause is UNEXPLAINED or below & case.gone):
            if (answer := _ask_next(case)) is not None:
                return answer
            case = focus(case)
            remedy = choose(case)
            if _is_idle(remedy) and (answer := _ask_rest(case)) is not None:
                return answer
            if remedy is not None or not parts:
                return _decide(case, remedy)
        return _repair_parts(case, parts)


def _is_idle(remedy: Remedy | None) -> bool:
    """Whether the agent waits or gives up, so that it has the time to ask for all the rest."""
    return remedy is None or remedy.tool == PATIENCE


def _decide(case: Case, remedy: Remedy | None) -> Answer:
    """The diagnosis, with its remedy or with an escalation."""
    diagnosis = diagnose(case, remedy)
    if remedy is None:
        reason = " ".join([diagnosis.summary, diagnosis.why, *_find_refusals(case)])
        return _answer(case, reason, Diagnose(diagnosis), Escalate(reason))
    if remedy.tool == PATIENCE:
        claim = f"{diagnosis.summary} Operator waited and changed nothing."
        target = diagnosis.target if case.about else ""
        return _answer(case, diagnosis.why, Diagnose(diagnosis), Finish(claim, target))
    target = diagnosis.target
    action = Action(
        tool=remedy.tool,
        arguments=arguments_of(remedy, case.briefing, target) or {},
        target=target,
        reasoning=diagnosis.summary,
        expected=f"{target} answers again and its invariants hold",
        timeout_s=ACTION_S_MAX,
        urgency=Urgency.of(case.briefing.ticket.severity),
    )
    return _answer(case, diagnosis.why, Diagnose(diagnosis), action)


def _repair_parts(whole: Case, parts: Sequence[Case]) -> Answer:
    """Work on targets that fail independently, one after the other; wait only when no more can be
    repaired, and escalate what is left.
    """
    waiting: list[tuple[Case, Remedy]] = []
    for part in parts:
        if (answer := _ask_next(part)) is not None:
            return answer
        remedy = choose(part)
        if not _is_idle(remedy):
            return _decide(part, remedy)
        if (answer := _ask_rest(part)) is not None:
            return answer
        waiting += [(part, remedy)] if remedy is not None else []
    if waiting:
        return _decide(*waiting[0])
    diagnoses = [diagnose(part, None) for part in parts]
    refusals = _find_refusals(whole)
    known = [each for each in diagnoses if each.cause != UNEXPLAINED.name]
    best = max(known or diagnoses, key=lambda each: each.confidence)
    ordered = [best, *(each for each in diagnoses if each is not best)]
    reason = " ".join([*(f"{each.summary} {each.why}" for each in ordered), *refusals])
    # Each part has a cause of its own; the last diagnosis is that of the ticket.
    others = [Diagnose(each) for each in known if each is not best]
    return _answer(whole, reason, *others, Diagnose(best), Escalate(reason))


def _repair_beside(ask: Ask, case: Case) -> Answer | None:
    """Start what else is down while the repairs before wait for their proofs; None for nothing.

    It must not depend on what is not proven yet, nor the other way round. What still runs waits,
    because a repair may take something away from it, and so does everything once something new has
    broken.
    """
    targets, ticket = case.briefing.targets, case.briefing.ticket
    changed = {each.want.action.target for each in case.unproven if isinstance(each.want, Act)}
    about = {each.target for each in ticket.violations}
    suffering = {
        each.name for each in targets if ({each.name} | dependencies_of(each.name, targets)) & about
    }
    news = {
        key
        for key in case.briefing.broken - {each.key for each in ticket.violations}
        if key.removeprefix(f"{ticket.subject}/").rpartition("/")[0] not in suffering - changed
    }
    # After a start that had to wait for proofs, the limits of the subject allow no more at a time.
    if news or any(step.late for step in case.steps):
        return None
    for part in split_case(ask, case):
        (name,) = part.about
        needs = dependencies_of(name, targets)
        leaning = any(name in dependencies_of(each, targets) for each in changed)
        if name in changed or name not in case.gone or needs & changed or leaning:
            continue
        if (answer := _ask_next(part)) is not None:
            return answer
        remedy = choose(part)
        if (
            remedy is not None
            and not _is_idle(remedy)
            and not find_unmet_of(part, remedy, name, awaited=True)
        ):
            return _decide(part, remedy)
    return None


def _claim(case: Case) -> Answer:
    """The claim about the oldest repair without a proof; about all where nothing else is broken."""
    step = case.unproven[0]
    assert isinstance(step.want, Act)
    assert isinstance(step.result, Result)
    action = step.want.action
    command, output = action.command, step.result.stdout.strip()
    if action.tool == SCRIPT:
        # The ledger has the text of a script; here its length and its last output line suffice.
        lines = len(str(action.arguments.get("text", "")).splitlines())
        shown = {**action.arguments, "text": f"({lines} lines)"}
        command = replace(action, arguments=shown).command
        output = "".join(output.splitlines()[-1:])
    claim = f"{command} succeeded: {output.rstrip('.')}."
    target = action.target if case.broken_targets - {action.target} else ""
    return Answer(f"{claim} Verification follows.", (Finish(claim, target),))


def _judge_refusal(case: Case) -> Answer | None:
    """An escalation if the last change was refused, whatever was proven since."""
    changes = [each for each in case.steps if each.want in case.tried]
    last = changes[-1] if changes else None
    since = case.steps[case.steps.index(last) + 1 :] if last is not None else ()
    if last is None or not all(isinstance(each.want, Prove) for each in since):
        return None
    assert isinstance(last.want, Act)
    assert isinstance(last.result, Result)
    if last.result.outcome is not Outcome.REFUSED or _find_missing(last):
        return None
    reason = f"{last.want.action.command} was refused. {last.result.stderr}"
    return Answer(reason, (Escalate(reason),))


def _find_missing(step: Step | None) -> str:
    """What the action needs and does not find here; the next best remedy may be tried then."""
    result = step.result if step is not None else None
    missing = isinstance(result, Result) and UNAVAILABLE in result.data
    return result.stderr.strip() if isinstance(result, Result) and missing else ""


def _find_refusals(case: Case) -> list[str]:
    """Why actions must not run now, each once."""
    texts = [_find_missing(step) for step in case.steps]
    return list(dict.fromkeys(text for text in texts if text))


def _ask_next(case: Case) -> Answer | None:
    """The probe with the best gain for its cost; cheap probes are always run at the leader."""
    leader, chance = case.belief.rank()[0]
    questions = case.open_questions
    about_leader = [question for question in questions if question[1].name == leader.target]
    worth = [
        (case.belief.gain(probe.name, target.name) / probe.cost, probe, target, action)
        for probe, target, action in (about_leader if chance >= SURE else questions)
    ]
    telling = [probe for probe in worth if probe[0] > WORTH_ASKING_BITS]
    cheap = [probe for probe in worth if probe[2].name == leader.target and probe[1].cost <= CHEAP]
    if not (telling or cheap):
        return None
    ranked = sorted(telling or cheap, key=lambda probe: (-probe[0], probe[1].name, probe[2].name))
    bits, probe, target, action = ranked[0]
    why = "Confirm the leading hypothesis"
    if telling:
        why = f"Most informative check ({bits:.2f} bits for its cost)"
    # What is cheap is asked there in any case, so that it needs no turn of its own.
    beside = [
        each
        for each in questions
        if each[1].name == target.name and each[0].cost <= CHEAP and each[0].name != probe.name
    ]
    texts = [each[0].question for each in ((probe, target, action), *beside)]
    calls = (action, *(each[2] for each in beside))
    return _answer(case, f"{why}. {target.name}: {' '.join(texts)}", *calls)


def _ask_rest(case: Case) -> Answer | None:
    """All that was not asked yet where the trouble is, the cheapest first."""
    leader = case.belief.rank()[0][0]
    rest = [each for each in case.remaining if each[1].name == leader.target]
    if not rest and not any(reading.target == leader.target for reading in case.readings):
        # It has no process of its own, as a cluster has none: its parts that fail are asked.
        rest = [
            each
            for each in case.remaining
            if each[1].name in case.failing_parts and each[0].cost <= CHEAP
        ]
    if not rest:
        return None
    rest.sort(key=lambda each: (each[0].cost, each[1].name, each[0].name))
    texts = [f"{target.name}: {probe.question}" for probe, target, _ in rest]
    return _answer(case, f"Complete the evidence. {' '.join(texts)}", *(each[2] for each in rest))


def _answer(case: Case, then: str, *calls: Call) -> Answer:
    """A turn: the new evidence, the next step, and the hypotheses now and before."""
    learned = ""
    if case.before is not None:
        fresh = case.readings[-case.latest :]
        learned = " ".join(f"{each.target}: {each.sentence}." for each in fresh) + "\n"
    elif case.last is not None and isinstance(case.last.result, Proof):
        learned = f"The action did not resolve it: {case.last.result.detail}\n"
    elif missing := _find_missing(case.last):
        learned = f"{missing}\n"
    return Answer(f"{learned}{then}", calls, hypotheses=rank_hypotheses(case.belief, case.before))


def rank_hypotheses(now: Belief, before: Belief | None) -> tuple[RankedHypothesis, ...]:
    """The most probable hypotheses, with their probability before the last answer."""
    rows = [suspect for suspect, weight in now.rank()[:ROWS_MAX] if weight >= SHOWN_MIN]
    if before is not None:  # a hypothesis that no longer leads is worth showing
        rows += [suspect for suspect, _ in before.rank()[:1] if suspect not in rows]

    def probability(belief: Belief, suspect: Suspect) -> float:
        return round(min(belief.weights.get(suspect, 0.0), CERTAIN), DIGITS)

    return tuple(
        RankedHypothesis(
            suspect.cause.name,
            suspect.target,
            probability(now, suspect),
            None if before is None else probability(before, suspect),
        )
        for suspect in rows
    )
