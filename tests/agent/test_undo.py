"""Taking a change back: it may come late, and it is never done with a secret missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.action import Action, Argument, Outcome, Result
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.health import Health
from operator_protocols.domain.run import (
    LATE,
    Act,
    Answer,
    Ask,
    Budget,
    Escalate,
    Finish,
    Prove,
    Step,
)
from operator_protocols.domain.tool import Parameter, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.ports import Job
from operator_sre.agent import Run
from operator_sre.agent.progress import account_of, is_change, unreadable
from operator_sre.agent.run import UNDO_TRIES_MAX
from tests.contract.samples import proof
from tests.contract.workshop import DIAGNOSIS, Script, Workshop
from tests.models.world import briefing

DRAIN = Action("drain", {}, target="node-1")
FILL = Action("fill", {"token": "hunter2"}, target="node-1")
NO_TOKEN = replace(FILL, arguments={"token": "[REDACTED:token:01234567]"})
TOO_LATE = Result(Outcome.CANCELLED, stderr="Not run.", data={LATE: True})
CUT_OFF = Result(Outcome.CANCELLED, stderr="The action was interrupted.")
RAN = Result(Outcome.RAN, 0)


def _taken_back(*results: Result) -> list[Step]:
    """The steps that take a change back, when it comes out so each time it is tried."""
    run = Run(briefing(), budget=Budget(attempts_max=1), seconds=lambda: 0.0)
    told = iter(results)
    while (want := run.next()) is not None:
        match want:
            case Ask():
                run.receive(Answer("", (DIAGNOSIS, DRAIN, Finish("drained"))), 1)
            case Act(action) if action == DRAIN:
                run.receive(replace(RAN, undo=FILL), 2)
            case Act():
                run.receive(next(told), 3)
            case Prove():
                run.receive(replace(proof(held=False), health=Health.BROKEN), 4)
            case _:
                run.receive(None, 5)
    return [step for step in run.steps if step.want == Act(FILL)]


def test_what_takes_back_and_comes_late_is_tried_again() -> None:
    assert [step.result for step in _taken_back(TOO_LATE, RAN)] == [TOO_LATE, RAN]


def test_it_is_not_tried_for_ever() -> None:
    assert len(_taken_back(*[TOO_LATE] * 99)) == UNDO_TRIES_MAX


@pytest.mark.parametrize("result", [RAN, CUT_OFF, Result(Outcome.REFUSED)], ids=str)
def test_what_was_begun_or_refused_is_not_tried_again(result: Result) -> None:
    assert [step.result for step in _taken_back(result, RAN)] == [result]


def test_what_came_late_was_not_tried_and_what_was_cut_off_was() -> None:
    late, cut_off = Step(Act(FILL), TOO_LATE), Step(Act(FILL), CUT_OFF)
    assert not is_change(late, ())
    assert is_change(cut_off, ())
    assert "Nothing was changed." in account_of([Step(DIAGNOSIS, None), late], ())


def test_only_what_takes_back_is_refused_for_a_mark() -> None:
    undone = [Step(Act(DRAIN), replace(RAN, undo=NO_TOKEN))]
    assert "manually" in unreadable(undone, NO_TOKEN)
    assert unreadable([], NO_TOKEN) == ""
    told = replace(FILL, reasoning="it said [REDACTED:token:01234567]")
    assert unreadable([Step(Act(DRAIN), replace(RAN, undo=told))], told) == ""


class _Drain:
    """A change that helps nobody; how it is taken back was recorded without its secret."""

    spec = ToolSpec("drain", "It drains.", (), Risk.LOW, changes=True, reversible=True)
    undo = NO_TOKEN

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        return replace(RAN, undo=self.undo)


class _Fill:
    """What takes it back."""

    spec = ToolSpec("fill", "It.", (Parameter("token", "a word"),), Risk.LOW, changes=True)

    def __init__(self) -> None:
        self.calls: list[Mapping[str, Argument]] = []

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        self.calls.append(arguments)
        return RAN


@pytest.mark.asyncio
async def test_nothing_is_taken_back_with_a_mark_in_place_of_a_secret(tmp_path: Path) -> None:
    turns = Answer("", (DIAGNOSIS, DRAIN, Finish("drained"))), Answer("", (Escalate("no"),))
    shop, fill = Workshop(tmp_path, Script(*turns)), _Fill()
    shop.tools = (_Drain(), fill)
    await shop.carry()
    refused = [entry.payload["result"]["stderr"] for entry in shop.entries(Kind.REFUSED)]
    shop.close()
    assert fill.calls == []
    assert len(refused) == 1
    assert "a secret in it was redacted" in refused[0]


class _Turns:
    """Somebody else was quicker at these of our changes, counted from the first."""

    def __init__(self, *late: int) -> None:
        self._late, self._asked = late, 0

    async def free(self) -> bool:
        self._asked += 1
        return self._asked in self._late


@pytest.mark.asyncio
async def test_what_came_late_through_the_whole_pipeline_is_taken_back_after_all(
    tmp_path: Path,
) -> None:
    turns = Answer("", (DIAGNOSIS, DRAIN, Finish("drained"))), Answer("", (Escalate("no"),))
    shop, fill, drain = Workshop(tmp_path, Script(*turns)), _Fill(), _Drain()
    drain.undo = FILL
    shop.tools = (drain, fill)
    quicker: Any = _Turns(2, 3)
    pipeline = replace(
        shop.pipeline(), controls=lambda subject: replace(shop.controls(subject), turns=quicker)
    )
    await pipeline.watch("shop")
    await pipeline.work(await shop.claim())
    refused = [entry.payload["result"]["outcome"] for entry in shop.entries(Kind.REFUSED)]
    shop.close()
    assert refused == ["cancelled", "cancelled"]
    assert fill.calls == [FILL.arguments]
