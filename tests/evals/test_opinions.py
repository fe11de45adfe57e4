"""A model may think otherwise of a command than the gate, and changes nothing by it."""

from __future__ import annotations

import pytest

from operator_protocols.domain.budget import Spent
from operator_protocols.errors import ModelError
from operator_sre.evals.facts import CommandFact
from operator_sre.evals.opinions import Completion, Opinion, Opinions, second_opinions

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
