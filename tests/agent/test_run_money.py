"""What a run may cost, and calls that make no sense."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operator_protocols.domain.action import Outcome, Result
from operator_protocols.domain.category import ErrorCategory
from operator_protocols.domain.run import Answer, Ask, Budget, Misuse, Spent
from operator_sre.agent.run import Run
from operator_sre.agent.transcript import answer_from, answer_payload
from tests.models.world import briefing

BUDGET = Budget(tokens_max=1000, usd_max=0.5)
FLY = Misuse("fly", "{}", "There is no tool 'fly'.")


def _run(budget: Budget = BUDGET) -> Run:
    return Run(briefing(), budget=budget, seconds=lambda: 0.0)


@pytest.mark.parametrize(
    ("spent", "word"),
    [(Spent(600, 400), "1000 tokens"), (Spent(1, 1, 0.5), "0.5 dollars")],
)
def test_what_thinking_costs_is_bounded(spent: Spent, word: str) -> None:
    run = _run()
    assert isinstance(run.next(), Ask)
    run.receive(Answer("thinking", (FLY,), spent), 1)
    assert run.next() is None
    assert run.conclusion is not None
    assert run.conclusion.category is ErrorCategory.BUDGET_EXCEEDED
    assert word in run.conclusion.reason


def test_what_is_left_is_told_to_the_mind() -> None:
    run = _run()
    run.next()
    run.receive(Answer("thinking", (FLY,), Spent(100, 50, 0.125)), 1)
    ask = run.next()
    assert isinstance(ask, Ask)
    assert ask.left == replace(BUDGET, turns_max=39, tokens_max=850, usd_max=0.375)
    assert [turn.answer.reasoning for turn in ask.turns] == ["thinking"]


def test_a_call_that_makes_no_sense_is_told_and_does_nothing() -> None:
    run = _run()
    run.next()
    run.receive(Answer("trying", (FLY,)), 1)
    ask = run.next()
    assert isinstance(ask, Ask)
    (turn,) = ask.turns
    assert turn.steps == ask.steps
    assert turn.steps[0].want == FLY
    assert turn.steps[0].result == Result(Outcome.REFUSED, stderr="There is no tool 'fly'.")


def test_an_answer_is_read_back_as_it_was_written() -> None:
    answer = Answer(
        "so", (Misuse("fly", "{}", "why"),), Spent(3, 4, 0.1), "reasoner", "no key is set"
    )
    assert answer_from(answer_payload(answer)) == answer
    assert answer_from({"reasoning": "old", "calls": []}) == Answer("old", ())
