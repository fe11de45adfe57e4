"""A mind that gives up leaves nothing changed that did not help, or says what it left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import SHELL, Action, Argument, Outcome, Result
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.run import Act, Answer, Ask, Budget, Escalate, Step
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.domain.tool import Parameter, ToolSpec
from operator_protocols.domain.verdict import Risk
from operator_protocols.errors import ModelError
from operator_protocols.ports import Job
from operator_sre.agent.progress import left_of, undone_by, undos_of
from operator_sre.agent.transcript import Stopped, answer_payload, stopped_from, stopped_payload
from operator_sre.pipeline import Pipeline
from tests.contract.workshop import DIAGNOSIS, MEND, Script, Workshop

FILL = Action("fill", {"target": "node-1"}, target="node-1")
DRAIN = Action("drain", {"target": "node-1"}, target="node-1")
LOOK = Action(SHELL, {"command": "ls /"}, target="node-1")
GIVES_UP = Escalate("I may not do what would help.")


class _Lever:
    """A tool that does nothing to the plant but say how it is taken back."""

    def __init__(self, name: str, *, undo: Action | None = None, exit_code: int = 0) -> None:
        target = (Parameter("target", "a name"),)
        self.spec = ToolSpec(name, "It moves.", target, Risk.LOW, changes=True)
        self._result = Result(Outcome.RAN, exit_code, undo=undo)
        self.calls = 0

    async def call(self, arguments: Mapping[str, Argument], job: Job) -> Result:
        self.calls += 1
        return self._result


@pytest.fixture(name="shop")
def _shop(tmp_path: Path) -> Iterator[Workshop]:
    shop = Workshop(tmp_path, Script())
    yield shop
    shop.close()


def _script(shop: Workshop, *calls: Action | Escalate, exit_code: int = 0) -> _Lever:
    fill = _Lever("fill", exit_code=exit_code)
    shop.tools = (shop.mend, _Lever("drain", undo=FILL), fill)
    shop.model = Script(Answer("", (DIAGNOSIS, *calls)))
    return fill


@pytest.mark.asyncio
async def test_what_was_never_proven_and_does_not_help_is_taken_back(shop: Workshop) -> None:
    fill = _script(shop, DRAIN, GIVES_UP)
    began = shop.clock.monotonic()
    ended = await shop.carry()
    assert fill.calls == 1
    assert ended.state is TicketState.ESCALATED
    undone = f"{GIVES_UP.reason} Rolled back: drain(target=node-1) (exit 0)."
    assert ended.reason.startswith(undone)
    assert shop.clock.monotonic() - began < 2.0, "a person does not wait for a whole proof"


@pytest.mark.asyncio
async def test_what_cannot_be_taken_back_is_named(shop: Workshop) -> None:
    shop.mend.works = False
    fill = _script(shop, LOOK, MEND, DRAIN, GIVES_UP, exit_code=1)
    ended = await shop.carry()
    assert fill.calls == 1
    left, _, back = ended.reason.partition("Rolled back:")
    assert "mend" in left
    assert "drain" in left, "what failed to take it back has left it as it was"
    assert back == ""
    assert "ls /" not in ended.reason, "a look changes nothing"


@pytest.mark.asyncio
async def test_what_helped_is_left_and_a_person_is_asked_all_the_same(shop: Workshop) -> None:
    fill = _script(shop, MEND, DRAIN, GIVES_UP)
    ended = await shop.carry()
    assert fill.calls == 0
    assert ended.state is TicketState.ESCALATED
    assert ended.reason.startswith(f"{GIVES_UP.reason} Left changed: mend")
    (proof,) = shop.entries(Kind.PROOF)
    assert proof.payload["held"]


@pytest.mark.asyncio
async def test_who_changed_nothing_is_not_looked_after(shop: Workshop) -> None:
    _script(shop, LOOK, GIVES_UP)
    ended = await shop.carry()
    assert ended.reason.startswith(f"{GIVES_UP.reason} Next: `operator tickets show 1`")
    assert shop.entries(Kind.PROOF) == []


@pytest.mark.asyncio
async def test_a_model_that_falls_silent_leaves_nothing_behind_either(shop: Workshop) -> None:
    class Silent(Script):
        async def answer(self, ask: Ask) -> Answer:
            if ask.turns:
                raise ModelError("no such key", lasting=True)
            return await super().answer(ask)

    fill = _script(shop, DRAIN)
    shop.model = Silent(Answer("", (DIAGNOSIS, DRAIN)))
    ended = await shop.carry()
    assert fill.calls == 1
    assert "no such key" in ended.reason
    assert "Rolled back: drain" in ended.reason


class _Crash(Exception):
    """The process is gone."""


async def _crashed_before_its_end(
    shop: Workshop, budget: Budget | None = None, again: Budget | None = None
) -> Ticket:
    """A run that did everything but say so, and is taken up again, maybe with another budget."""

    async def gone(self: Pipeline, work: object) -> Ticket:
        raise _Crash

    pipeline = shop.pipeline(budget)
    await pipeline.watch("shop")
    ticket = await shop.claim()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pipeline, "_end", gone)
        with pytest.raises(_Crash):
            await pipeline.work(ticket)
    return await shop.pipeline(again or budget).work(ticket)


@pytest.mark.asyncio
async def test_a_resumed_run_takes_nothing_back_twice(shop: Workshop) -> None:
    class Silent(Script):
        async def answer(self, ask: Ask) -> Answer:
            if ask.turns:
                raise ModelError("no such key", lasting=True)
            return await super().answer(ask)

    fill = _script(shop, DRAIN)
    shop.model = Silent(Answer("", (DIAGNOSIS, DRAIN)))
    ended = await _crashed_before_its_end(shop)
    assert fill.calls == 1
    assert len(shop.entries(Kind.PROOF)) == 1
    assert ended.state is TicketState.ESCALATED
    assert "no such key" in ended.reason
    (told,) = [stopped_from(one.payload) for one in shop.entries(Kind.REASONING)[1:]]
    assert isinstance(told, Stopped)
    assert stopped_from(stopped_payload(told)) == told
    assert stopped_from(answer_payload(Answer("", ()))) is None


@pytest.mark.asyncio
async def test_a_run_that_was_out_of_time_takes_nothing_back_twice(shop: Workshop) -> None:
    class Slow(Script):
        async def answer(self, ask: Ask) -> Answer:
            assert not ask.turns, "there is no time for a second answer"
            shop.clock.advance(60.0)
            return await super().answer(ask)

    fill = _script(shop, DRAIN)
    shop.model = Slow(Answer("", (DIAGNOSIS, DRAIN)))
    ended = await _crashed_before_its_end(shop, Budget(seconds_max=50.0))
    assert fill.calls == 1
    assert len(shop.entries(Kind.PROOF)) == 1
    assert ended.state is TicketState.ESCALATED
    assert "The budget is used up (time)" in ended.reason
    assert "Rolled back: drain" in ended.reason


@pytest.mark.asyncio
async def test_a_resumed_run_that_takes_another_way_takes_nothing_back_twice(
    shop: Workshop,
) -> None:
    """What was done is done, whatever the run believes of how it came to it."""
    fill = _script(shop, DRAIN)
    shop.model = Script(Answer("", (DIAGNOSIS, DRAIN)), Answer("", (GIVES_UP,)))
    ended = await _crashed_before_its_end(shop, Budget(), again=Budget(turns_max=1))
    assert fill.calls == 1
    assert ended.state is TicketState.ESCALATED
    assert "The budget is used up (1 turns)" in ended.reason
    assert "Rolled back: drain" in ended.reason


@pytest.mark.asyncio
async def test_the_end_of_the_budget_tells_what_was_taken_back_and_what_was_left(
    shop: Workshop,
) -> None:
    shop.mend.works = False
    fill = _script(shop, MEND, DRAIN)
    ended = await shop.carry(Budget(turns_max=1))
    assert fill.calls == 1
    assert "Left changed: mend" in ended.reason
    assert "Rolled back: drain" in ended.reason


def test_a_change_counts_as_taken_back_only_when_that_went_well() -> None:
    done = Step(Act(DRAIN), Result(Outcome.RAN, 0, undo=FILL))
    back = Step(Act(FILL), Result(Outcome.RAN, 0))
    failed = replace(back, result=Result(Outcome.RAN, 1))
    assert undos_of([done, back]) == [FILL]
    assert undone_by(done, [failed, back])
    assert not undone_by(done, [failed])
    assert not undone_by(back, [back])
    assert left_of([done], ()) == "", "nothing is changed before a diagnosis"
    assert "Left changed: drain" in left_of([Step(DIAGNOSIS, None), done, failed], ())
