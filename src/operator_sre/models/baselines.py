"""Agents without understanding, as a baseline for evaluations.

Both act through the gate like any other agent, and neither claims to know a cause.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from operator_protocols.domain.action import Action, Argument
from operator_protocols.domain.diagnosis import Alternative, Diagnosis, Evidence
from operator_protocols.domain.proof import Proof
from operator_protocols.domain.run import Act, Answer, Ask, Call, Diagnose, Escalate, Finish, Prove
from operator_protocols.domain.tool import ParameterType, ToolSource
from operator_protocols.errors import UsageError

__all__ = ["UNKNOWN_CAUSE", "RandomCalls", "RestartEverything", "Scripted"]

ANSWERS_MAX = 1_000
TEXT_CHARS_MAX = 20_000_000


class Scripted:
    """Returns its answers in order, and escalates after the last one.

    The next answer follows from the number of turns of the run, so one script serves any number of
    runs, and an interrupted run continues where it stopped.
    """

    def __init__(self, answers: Iterable[Answer], *, name: str = "scripted") -> None:
        self._answers = tuple(answers)
        self._name = name

    @classmethod
    def read(
        cls, text: str, parse: Callable[[Mapping[str, Any]], Answer], *, name: str = "scripted"
    ) -> Scripted:
        """From JSON: a list of recorded answers, or one to a line; `parse` reads one of them."""
        if len(text) > TEXT_CHARS_MAX:
            raise UsageError(f"The script is longer than {TEXT_CHARS_MAX} characters.")
        try:
            if text.lstrip().startswith("["):
                recorded = json.loads(text)
            else:
                recorded = [json.loads(line) for line in text.split("\n") if line.strip()]
            answers = [parse(answer) for answer in recorded[:ANSWERS_MAX]]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise UsageError(
                f"The script cannot be read ({type(error).__name__}).",
                next_step="Write a JSON list of recorded answers, or one answer per line.",
            ) from None
        return cls(answers, name=name)

    @property
    def name(self) -> str:
        """Its name in the ledger."""
        return self._name

    async def answer(self, ask: Ask) -> Answer:
        """The next answer of the script: the one after as many turns as the run has had."""
        if len(ask.turns) < len(self._answers):
            return self._answers[len(ask.turns)]
        reason = f"The script ended after {len(self._answers)} answers without a resolution."
        return Answer(reason, (Escalate(reason),))


# The cause in their diagnoses.
UNKNOWN_CAUSE = "unknown"
# The cause that a restarting tool resolves.
DEAD = "process_dead"
CALLS_BEFORE_A_CLAIM = 4
CLAIMS_MAX = 3
NUMBER_MAX = 1000
_GIVE_UP = Escalate("The baseline has no further actions, and the incident is not resolved.")


class RestartEverything:
    """Restarts every target, one after another, and claims success."""

    name = "restart-everything"

    async def answer(self, ask: Ask) -> Answer:
        """Restart the next target, then claim success, then give up."""
        briefing = ask.briefing
        # The tool that restarts any target, whatever its name.
        able = [spec for spec in briefing.tools if DEAD in spec.ends and spec.parameter("target")]
        tool = min(able, key=lambda spec: (len(spec.parameters), spec.name), default=None)
        if tool is None:
            return Answer("No tool restarts a target.", (_GIVE_UP,))
        if _count_claims(ask):
            return Answer(
                "Every target was restarted, and the incident is not resolved.", (_GIVE_UP,)
            )
        tried = {action.target for action in _list_actions(ask)}
        left = [target.name for target in briefing.targets if target.name not in tried]
        if not left:
            return Answer("Every target was restarted.", (Finish("Every target was restarted."),))
        action = Action(
            tool.name,
            {"target": left[0]},
            target=left[0],
            reasoning="The baseline restarts every target.",
            timeout_s=60.0,
        )
        first = _diagnose_nothing(ask, "restart every target")
        return Answer(f"Restart {left[0]} next.", (*first, action))


class RandomCalls:
    """Calls random tools, the same ones for the same seed."""

    name = "random"

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    async def answer(self, ask: Ask) -> Answer:
        """One random tool; from time to time a claim of success."""
        briefing = ask.briefing
        claims = _count_claims(ask)
        if claims >= CLAIMS_MAX or not briefing.tools:
            return Answer("Random calls did not help.", (_GIVE_UP,))
        if len(_list_actions(ask)) >= CALLS_BEFORE_A_CLAIM * (claims + 1):
            return Answer(
                "Perhaps the incident is resolved.", (Finish("Random tools were called."),)
            )
        chance = random.Random(f"{self._seed}/{briefing.ticket.id}/{len(ask.turns)}")
        # The tools of the subject and tools with a target; all tools, where there are none.
        ordered = sorted(briefing.tools, key=lambda spec: spec.name)
        subject = ToolSource.SUBJECT
        near = [spec for spec in ordered if spec.source is subject or spec.parameter("target")]
        tool = chance.choice(near or ordered)
        names = sorted(target.name for target in briefing.targets) or [briefing.ticket.target]
        arguments: dict[str, Argument] = {}
        for parameter in (parameter for parameter in tool.parameters if parameter.required):
            match parameter.type:
                case ParameterType.INTEGER | ParameterType.NUMBER:
                    low = int(parameter.minimum if parameter.minimum is not None else 0)
                    high = int(
                        parameter.maximum if parameter.maximum is not None else max(low, NUMBER_MAX)
                    )
                    arguments[parameter.name] = chance.randint(low, max(low, high))
                case ParameterType.BOOLEAN:
                    arguments[parameter.name] = chance.random() < 0.5
                case ParameterType.LIST:
                    arguments[parameter.name] = (chance.choice(names),)
                case ParameterType.MAP:
                    arguments[parameter.name] = {}
                case _:
                    arguments[parameter.name] = chance.choice(parameter.choices or names)
        target = str(arguments.get("target") or "")
        action = Action(
            tool.name, arguments, target=target, reasoning="Random call.", timeout_s=60.0
        )
        first = _diagnose_nothing(ask, "call random tools")
        return Answer(f"Random choice: {tool.name}.", (*first, action))


def _list_actions(ask: Ask) -> list[Action]:
    return [step.want.action for step in ask.steps if isinstance(step.want, Act)]


def _count_claims(ask: Ask) -> int:
    """How many claims of success were checked and refuted."""
    return sum(
        isinstance(step.want, Prove)
        and not step.want.arrival
        and not step.want.hasty
        and isinstance(step.result, Proof)
        and not step.result.held
        for step in ask.steps
    )


def _diagnose_nothing(ask: Ask, choice: str) -> tuple[Call, ...]:
    """A change requires a diagnosis, so submit an empty one."""
    if any(isinstance(step.want, Diagnose) for step in ask.steps):
        return ()
    ticket = ask.briefing.ticket
    diagnosis = Diagnosis(
        cause=UNKNOWN_CAUSE,
        target="",
        summary="This baseline does not look for a cause.",
        severity=ticket.severity,
        confidence=0.0,
        timeline=(),
        affected=tuple(dict.fromkeys(violation.target for violation in ticket.violations)),
        evidence=(Evidence(ticket.summary, ask.briefing.observation_seq),),
        hypotheses=(),
        alternatives=(Alternative(UNKNOWN_CAUSE, "", (), (), "This baseline compares no causes."),),
        options=(),
        choice=choice,
        why="The baseline always does this.",
    )
    return (Diagnose(diagnosis),)
