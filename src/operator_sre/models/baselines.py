"""Minds that understand nothing: whoever is better than they are has to show it.

Both act through the gate like any other mind, and neither claims to know a cause.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from operator_protocols.domain.action import Action, Argument
from operator_protocols.domain.diagnosis import Alternative, Diagnosis, Evidence
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import (
    Act,
    Answer,
    Ask,
    Briefing,
    Call,
    Diagnose,
    Escalate,
    Finish,
    Prove,
)
from operator_protocols.domain.tool import Parameter, ParameterType, ToolSource, ToolSpec

__all__ = ["UNKNOWN_CAUSE", "RandomCalls", "RestartEverything"]

# What they say instead of a cause.
UNKNOWN_CAUSE = "unknown"
# What a tool ends that starts a process anew.
DEAD = "process_dead"
CALLS_BEFORE_A_CLAIM = 4
CLAIMS_MAX = 3
NUMBER_MAX = 1000


class RestartEverything:
    """Restarts every target, one after another, and claims that this was it."""

    name = "restart-everything"

    async def answer(self, ask: Ask) -> Answer:
        """Restart the next target; when all are done, claim; when that is wrong, give up."""
        briefing = ask.briefing
        tool = _restarting(briefing.tools)
        if tool is None:
            return _said("There is nothing here that restarts anything.", _gives_up())
        if _claims(ask):
            return _said("Everything was restarted and it is not over.", _gives_up())
        tried = {one.target for one in _acts(ask)}
        left = [one.name for one in briefing.targets if one.name not in tried]
        if not left:
            return _said("Everything was restarted.", Finish("Every target was restarted."))
        action = Action(
            tool.name, {"target": left[0]}, target=left[0], reasoning="It may help.", timeout_s=60.0
        )
        return _said(f"{left[0]} is restarted next.", *_first(ask, "restart every target"), action)


class RandomCalls:
    """Calls tools by chance, the same ones for the same seed."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    async def answer(self, ask: Ask) -> Answer:
        """One tool by chance; now and then a claim that it is over."""
        briefing = ask.briefing
        claims = _claims(ask)
        if claims >= CLAIMS_MAX or not briefing.tools:
            return _said("Chance did not help.", _gives_up())
        if len(_acts(ask)) >= CALLS_BEFORE_A_CLAIM * (claims + 1):
            return _said("Perhaps that was it.", Finish("Some tools were called by chance."))
        chance = random.Random(f"{self._seed}/{briefing.ticket.id}/{len(ask.turns)}")
        tool = chance.choice(_about_it(briefing.tools))
        arguments = _by_chance(tool, briefing, chance)
        target = str(arguments.get("target") or "")
        action = Action(tool.name, arguments, target=target, reasoning="By chance.", timeout_s=60.0)
        return _said(f"Chance says {tool.name}.", *_first(ask, "call tools by chance"), action)


def _restarting(tools: Sequence[ToolSpec]) -> ToolSpec | None:
    """The tool that starts any target anew, whatever it is called."""
    able = [one for one in tools if DEAD in one.ends and one.parameter("target") is not None]
    return min(able, key=lambda one: (len(one.parameters), one.name), default=None)


def _about_it(tools: Sequence[ToolSpec]) -> list[ToolSpec]:
    """The tools of the subject and those with a target; all, where there are none of these."""
    ordered = sorted(tools, key=lambda one: one.name)
    near = [one for one in ordered if one.source is ToolSource.SUBJECT or one.parameter("target")]
    return near or ordered


def _acts(ask: Ask) -> list[Action]:
    return [step.want.action for step in ask.steps if isinstance(step.want, Act)]


def _claims(ask: Ask) -> int:
    """How often a claim of our own was looked at and did not hold."""
    return sum(
        isinstance(step.want, Prove)
        and not step.want.arrival
        and not step.want.hasty
        and isinstance(step.result, Proof)
        and not step.result.held
        for step in ask.steps
    )


def _by_chance(tool: ToolSpec, briefing: Briefing, chance: random.Random) -> Mapping[str, Argument]:
    names = sorted(one.name for one in briefing.targets) or [briefing.ticket.target]
    wanted = [one for one in tool.parameters if one.required]
    return {one.name: _value(one, names, chance) for one in wanted}


def _value(one: Parameter, names: Sequence[str], chance: random.Random) -> Argument:
    match one.type:
        case ParameterType.INTEGER | ParameterType.NUMBER:
            low = int(one.minimum if one.minimum is not None else 0)
            high = int(one.maximum if one.maximum is not None else max(low, NUMBER_MAX))
            return chance.randint(low, max(low, high))
        case ParameterType.BOOLEAN:
            return chance.random() < 0.5
        case ParameterType.LIST:
            return (chance.choice(names),)
        case ParameterType.MAP:
            return {}
        case _:
            return chance.choice(one.choices or names)


def _first(ask: Ask, choice: str) -> tuple[Call, ...]:
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


def _gives_up() -> Escalate:
    return Escalate("What needs no understanding was done, and it is not over.")


def _said(reasoning: str, *calls: Call) -> Answer:
    return Answer(reasoning, calls)
