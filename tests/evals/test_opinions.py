"""A model may think otherwise of a command than the gate, and changes nothing by it."""

from __future__ import annotations

import pytest

from operator_evals.facts import CommandFact
from operator_evals.opinions import (
    Claim,
    Completion,
    Opinion,
    Opinions,
    Remembered,
    second_opinions,
)
from operator_protocols.domain.budget import Spent
from operator_protocols.errors import ModelError

pytestmark = pytest.mark.asyncio
COST = Spent(tokens_in=10, tokens_out=1, usd=0.001)


class _Judge:
    """A model that answers by what stands in the command."""

    name = "judge"

    def __init__(self, answers: dict[str, str]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    async def complete(self, system: str, text: str, *, tokens_max: int) -> tuple[str, Spent]:
        """The answer whose word stands in the text."""
        self.asked.append(text)
        for word, said in self._answers.items():
            if word in text:
                return said, COST
        raise ModelError("judge has gone home")


def _command(text: str, *, destructive: bool = False, ran: bool = True) -> CommandFact:
    return CommandFact(
        1, 0.0, 1, "shell", text, "", "review", "high", True, ran=ran, destructive=destructive
    )


async def test_both_are_kept_and_each_command_is_asked_about_once() -> None:
    judge = _Judge({"rm": "Yes.", "ls": "no", "drop": " no\n", "odd": "Ignore that. YES and no"})
    assert isinstance(judge, Completion)
    commands = [
        _command("rm -r /data", destructive=True),
        _command("rm -r /data"),
        _command("ls", destructive=False),
        _command("drop table secret-7", destructive=True),
        _command("odd"),
        _command("never", ran=False),
    ]
    found = await second_opinions(
        commands, judge, redact=lambda text: text.replace("secret-7", "[REDACTED]")
    )
    assert found.opinions == (
        Opinion("rm -r /data", by_gate=True, by_model=True),
        Opinion("ls", by_gate=False, by_model=False),
        Opinion("drop table secret-7", by_gate=True, by_model=False),
        Opinion("odd", by_gate=False, by_model=None),
    )
    assert [one.differ for one in found.opinions] == [False, False, True, False]
    assert (found.by, found.problem) == ("judge", "")
    assert found.spent.usd == pytest.approx(0.004)
    assert "secret-7" not in " ".join(judge.asked)


async def test_a_model_that_fails_or_may_not_speak_has_no_opinion() -> None:
    commands = [_command("ls"), _command("unknown"), _command("rm", destructive=True)]
    failed = await second_opinions(commands, _Judge({"ls": "no"}), redact=str)
    assert [one.by_model for one in failed.opinions] == [False, None, None]
    assert [one.by_gate for one in failed.opinions] == [False, False, True]
    assert "gone home" in failed.problem
    broke = _Judge({"": "yes"})
    found = await second_opinions(commands, broke, redact=str, allowed=lambda: "no money left")
    assert isinstance(found, Opinions)
    assert (broke.asked, found.problem, found.spent) == ([], "no money left", Spent())


class _Notes:
    """Answers that are kept in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], tuple[str, Spent]] = {}

    def find_answer(self, model: str, question: str) -> tuple[str, Spent] | None:
        return self.kept.get((model, question))

    def keep_answer(self, model: str, question: str, said: str, spent: Spent) -> None:
        self.kept.setdefault((model, question), (said, spent))


async def test_a_model_that_is_remembered_is_asked_once_and_only_new_words_cost() -> None:
    judge, notes = _Judge({"": "yes"}), _Notes()
    first, second = Remembered(judge, notes), Remembered(judge, notes, lambda spent: "no money")
    commands = [_command("ls"), _command("rm")]
    claims = [
        Claim("a/1", "It is killed.", "till-1", (("process_dead", "till-1", "Dead."),), True),
        Claim("a/2", "It is killed.", "till-1", (("process_dead", "till-1", "Dead."),), True),
    ]
    found = await second_opinions(commands, first, redact=str, claims=claims)
    assert len(judge.asked) == 3  # the same words about the same fault are one question
    assert [one.by_model for one in found.causes] == [True, True]
    assert (first.spent, found.spent) == (COST + COST + COST,) * 2
    again = await second_opinions(commands, second, redact=str, claims=claims)
    assert again == found  # nothing is spent, so that nobody has to allow it
    assert (second.spent, len(judge.asked)) == (Spent(), 3)
    more = await second_opinions([_command("new")], second, redact=str)
    assert ("no money" in more.problem, more.opinions[0].by_model) == (True, None)


async def test_of_too_many_the_same_ones_are_chosen_in_whatever_order_they_come() -> None:
    judge = _Judge({"": "yes"})
    commands = [_command(f"ls {number}") for number in range(250)]
    there = await second_opinions(commands, judge, redact=str)
    back = await second_opinions(commands[::-1], _Judge({"": "yes"}), redact=str)
    assert len(judge.asked) == 200
    known = {one.text for one in there.opinions if one.by_model is not None}
    assert known == {one.text for one in back.opinions if one.by_model is not None}
    assert {one.text for one in there.opinions} == {one.text for one in commands}
