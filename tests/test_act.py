"""One way to act, whoever wants it: completed, judged, permitted, executed, recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.limits import BUSY
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.run import LATE
from operator_sre.act import ActionRecord, RefusedBy, Request, WhenBusy, act
from operator_sre.controls import Controls
from operator_sre.executor import Executor
from tests.contract.workshop import Script, Workshop

pytestmark = pytest.mark.asyncio

ADA = Actor("ada", "user", "ada@here:1")
MEND = Action("mend", {"target": "node-1"}, target="node-1")


class _Occupied:
    """An executor that is busy with another change for the first few times."""

    def __init__(self, executor: Executor, times: int) -> None:
        self.tools, self.shell = executor.tools, executor.shell
        self.permits: list[str] = []
        self._executor, self._times = executor, times

    async def execute(
        self, permit: Permit, *, watch: Callable[[int, bytes], None] | None = None
    ) -> tuple[Result, Entry | None]:
        self.permits.append(permit.fingerprint)
        if len(self.permits) <= self._times:
            return Result(Outcome.REFUSED, stderr="another change runs", data={BUSY: True}), None
        return await self._executor.execute(permit, watch=watch)


def _occupied(controls: Controls, times: int) -> tuple[Controls, list[str]]:
    executor: Any = _Occupied(controls.executor, times)
    return replace(controls, executor=executor), executor.permits


@pytest.fixture
def shop(tmp_path: Path) -> Any:
    made = Workshop(tmp_path, Script())
    yield made
    made.close()


def _request(busy: WhenBusy, **more: Any) -> Request:
    return Request(MEND, subject="shop", requester=ADA, when_busy=busy, **more)


async def test_what_ran_is_held_by_the_entry_of_its_result(shop: Workshop) -> None:
    began: list[Permit] = []
    record = await act(shop.controls("shop"), _request(WhenBusy.REFUSE, began=began.append))
    assert isinstance(record, ActionRecord)
    assert (record.result.ok, record.refused_by) == (True, RefusedBy.NOBODY)
    assert shop.mend.calls == ["node-1"]
    (entry,) = shop.entries(Kind.TOOL_RESULT)
    assert entry.seq == record.seq
    assert [one.fingerprint for one in began] == [entry.payload["permit"]]


async def test_a_requester_that_may_not_wait_is_refused_at_once(shop: Workshop) -> None:
    controls, permits = _occupied(shop.controls("shop"), 1)
    record = await act(controls, _request(WhenBusy.REFUSE))
    assert (record.refused_by, len(permits)) == (RefusedBy.EXECUTOR, 1)
    (entry,) = shop.entries(Kind.REFUSED)
    assert (entry.seq, entry.actor.id) == (record.seq, "ada")
    assert entry.payload["permit"] == permits[0]
    assert shop.mend.calls == []


async def test_a_requester_that_waits_keeps_its_permit(shop: Workshop) -> None:
    controls, permits = _occupied(shop.controls("shop"), 3)
    record = await act(controls, _request(WhenBusy.WAIT))
    assert (record.result.ok, record.refused_by) == (True, RefusedBy.NOBODY)
    assert len(permits) == 4
    assert len(set(permits)) == len(shop.entries(Kind.PERMIT_MINTED)) == 1
    assert shop.mend.calls == ["node-1"]


async def test_an_agent_thinks_again_after_another_change(shop: Workshop) -> None:
    controls, permits = _occupied(shop.controls("shop"), 1)
    record = await act(controls, _request(WhenBusy.RETHINK))
    assert LATE in record.result.data
    assert (record.refused_by, len(permits)) == (RefusedBy.EXECUTOR, 1)
    assert shop.mend.calls == []


@dataclass
class _Waited:
    """Turns of which each came at once, or after another change."""

    late: bool

    async def free(self) -> bool:
        return self.late


@pytest.mark.parametrize(
    ("late", "busy", "acts"),
    [
        (False, WhenBusy.RETHINK, True),
        (True, WhenBusy.WAIT, True),
        (True, WhenBusy.RETHINK, False),
        (True, WhenBusy.REFUSE, True),
    ],
)
async def test_only_an_agent_that_waited_for_its_turn_thinks_again(
    shop: Workshop, late: bool, busy: WhenBusy, acts: bool
) -> None:
    turns: Any = _Waited(late)
    record = await act(replace(shop.controls("shop"), turns=turns), _request(busy))
    assert (LATE in record.result.data, bool(shop.mend.calls)) == (not acts, acts)
    assert len(shop.entries(Kind.PERMIT_MINTED)) == acts


async def test_what_the_requester_screens_out_asks_for_no_permit(shop: Workshop) -> None:
    controls = shop.controls("shop")
    refused = await act(
        controls, _request(WhenBusy.WAIT, screen=lambda verdict: verdict.refusal("not again"))
    )
    assert (refused.refused_by, refused.permit) == (RefusedBy.REQUESTER, None)
    assert "not again" in shop.entries(Kind.REFUSED)[0].payload["result"]["stderr"]
    known = await act(controls, _request(WhenBusy.WAIT, screen=lambda verdict: refused))
    assert known is refused
    assert shop.entries(Kind.PERMIT_MINTED) == []


async def test_an_action_that_its_tool_refuses_is_never_permitted(shop: Workshop) -> None:
    class Refusing(Controls):
        async def complete(self, action: Action, ticket: object = None) -> Result:
            return Result(Outcome.REFUSED, stderr="there is no such target")

    made = shop.controls("shop")
    record = await act(Refusing(made.subject, made.gate, made.executor), _request(WhenBusy.WAIT))
    assert (record.refused_by, record.permit) == (RefusedBy.TOOL, None)
    assert shop.entries(Kind.VERDICT) == []
