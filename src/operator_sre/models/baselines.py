"""Agents that understand nothing: whoever is better than they are has to show it.

Both act through the gate like any other agent, and neither claims to know a cause.
"""

from __future__ import annotations

import random

from operator_protocols.domain.action import Action, Argument
from operator_protocols.domain.diagnosis import Alternative, Diagnosis, Evidence
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import (
    Act,
    Answer,
    Ask,
    Call,
    Diagnose,
    Escalate,
    Finish,
    Prove,
)
from operator_protocols.domain.tool import ParameterType, ToolSource

__all__ = ["UNKNOWN_CAUSE", "RandomCalls", "RestartEverything"]

# What they say instead of a cause.
UNKNOWN_CAUSE = "unknown"
# What a tool ends that starts a process anew.
DEAD = "process_dead"
CALLS_BEFORE_A_CLAIM = 4
CLAIMS_MAX = 3
NUMBER_MAX = 1000
_GIVE_UP = Escalate("What needs no understanding was done, and it is not over.")


class RestartEverything:
    """Restarts every target, one after another, and claims that this was it."""

    name = "restart-everything"

    async def answer(self, ask: Ask) -> Answer:
        """Restart the next target; when all are done, claim; when that is wrong, give up."""
        briefing = ask.briefing
        # The tool that starts any target anew, whatever it is called.
        able = [one for one in briefing.tools if DEAD in one.ends and one.parameter("target")]
        tool = min(able, key=lambda one: (len(one.parameters), one.name), default=None)
        if tool is None:
            return Answer("There is nothing here that restarts anything.", (_GIVE_UP,))
        if _count_claims(ask):
            return Answer("Everything was restarted and it is not over.", (_GIVE_UP,))
        tried = {action.target for action in _list_actions(ask)}
        left = [target.name for target in briefing.targets if target.name not in tried]
        if not left:
            return Answer("Everything was restarted.", (Finish("Every target was restarted."),))
        action = Action(
            tool.name, {"target": left[0]}, target=left[0], reasoning="It may help.", timeout_s=60.0
        )
        first = _diagnose_nothing(ask, "restart every target")
        return Answer(f"{left[0]} is restarted next.", (*first, action))


class RandomCalls:
    """Calls tools by chance, the same ones for the same seed."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    async def answer(self, ask: Ask) -> Answer:
        """One tool by chance; now and then a claim that it is over."""
        briefing = ask.briefing
        claims = _count_claims(ask)
        if claims >= CLAIMS_MAX or not briefing.tools:
            return Answer("Chance did not help.", (_GIVE_UP,))
        if len(_list_actions(ask)) >= CALLS_BEFORE_A_CLAIM * (claims + 1):
            return Answer("Perhaps that was it.", (Finish("Some tools were called by chance."),))
        chance = random.Random(f"{self._seed}/{briefing.ticket.id}/{len(ask.turns)}")
        # The tools of the subject and those with a target; all, where there are none of these.
        ordered = sorted(briefing.tools, key=lambda one: one.name)
        subject = ToolSource.SUBJECT
        near = [one for one in ordered if one.source is subject or one.parameter("target")]
        tool = chance.choice(near or ordered)
        names = sorted(target.name for target in briefing.targets) or [briefing.ticket.target]
        arguments: dict[str, Argument] = {}
        for one in (one for one in tool.parameters if one.required):
            match one.type:
                case ParameterType.INTEGER | ParameterType.NUMBER:
                    low = int(one.minimum if one.minimum is not None else 0)
                    high = int(one.maximum if one.maximum is not None else max(low, NUMBER_MAX))
                    arguments[one.name] = chance.randint(low, max(low, high))
                case ParameterType.BOOLEAN:
                    arguments[one.name] = chance.random() < 0.5
                case ParameterType.LIST:
                    arguments[one.name] = (chance.choice(names),)
                case ParameterType.MAP:
                    arguments[one.name] = {}
                case _:
                    arguments[one.name] = chance.choice(one.choices or names)
        target = str(arguments.get("target") or "")
        action = Action(tool.name, arguments, target=target, reasoning="By chance.", timeout_s=60.0)
        first = _diagnose_nothing(ask, "call tools by chance")
        return Answer(f"Chance says {tool.name}.", (*first, action))


def _list_actions(ask: Ask) -> list[Action]:
    return [step.want.action for step in ask.steps if isinstance(step.want, Act)]


def _count_claims(ask: Ask) -> int:
    """How often a claim of our own was checked and did not hold."""
    return sum(
        isinstance(step.want, Prove)
        and not step.want.arrival
        and not step.want.hasty
        and isinstance(step.result, Proof)
        and not step.result.held
        for step in ask.steps
    )


def _diagnose_nothing(ask: Ask, choice: str) -> tuple[Call, ...]:
    """Nothing is changed without a diagnosis, so that one is handed in which claims nothing."""
    if any(isinstance(step.want, Diagnose) for step in ask.steps):
        return ()
    ticket = ask.briefing.ticket
    diagnosis = Diagnosis(
        cause=UNKNOWN_CAUSE,
        target="",
        summary="Nobody has looked for a cause.",
        severity=ticket.severity,
        confidence=0.0,
        timeline=(),
        affected=tuple(dict.fromkeys(one.target for one in ticket.violations)),
        evidence=(Evidence(ticket.summary, ask.briefing.observation_seq),),
        hypotheses=(),
        alternatives=(
            Alternative(UNKNOWN_CAUSE, "", (), (), "Nobody has looked for any other cause either."),
        ),
        options=(),
        choice=choice,
        why="It needs no understanding.",
    )
    return (Diagnose(diagnosis),)
