"""A yes of a person waits for its turn: nobody is asked again, unless the world is another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.limits import Limits
from operator_protocols.domain.permit import Approval, ApprovalState
from operator_protocols.domain.run import Answer
from operator_protocols.domain.verdict import Mode
from operator_sre.controls import Controls
from operator_sre.gate import Policy, came_late, judge, refused_as_busy
from operator_sre.gate.restraint import Restraint
from tests.contract.workshop import DIAGNOSIS, MEND
from tests.engine.test_several import Yard, until

pytestmark = pytest.mark.asyncio

SLOW = Action("slow", {}, target="node-2", reasoning="it takes long")
PERMIT_S = 60.0


class _Asking(Yard):
    """A yard in which people are asked about every change."""

    def __init__(self, folder: Path, *, restrained: bool) -> None:
        super().__init__(folder)
        self.shop.mode = Mode.APPROVE
        self._restrained = restrained

    def controls(self, subject: str) -> Controls:
        controls = super().controls(subject)
        if not self._restrained:
            return controls
        store, limits = self.shop.store, Limits(targets_max=9)
        restraint = Restraint(
            store.switch, store.limit_usage, store.sessions, self.clock, lambda: limits
        )
        return replace(controls, gate=replace(controls.gate, restrain=restraint))

    def pending(self, tool: str) -> list[Approval]:
        found = self.shop.store.approvals.find(states=(ApprovalState.PENDING,))
        return [one for one in found if one.action.tool == tool]

    async def approve(self, tool: str) -> None:
        await until(lambda: self.pending(tool), clock=self.clock)
        (asked,) = self.pending(tool)
        await self.shop.store.approvals.decide(
            asked.id, ApprovalState.APPROVED, by=Actor("ada", "user"), reason="", version=1
        )


@pytest_asyncio.fixture(params=["begin", "restraint"])
async def yard(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[_Asking]:
    """One where somebody else's change runs when people say yes to ours."""
    made = _Asking(tmp_path, restrained=request.param == "restraint")
    await made.open("node-1", "node-2")
    working = asyncio.create_task(made.engine().work())
    await made.mind.thinks_about(2)
    made.mind.say("node-1", Answer("", (DIAGNOSIS, MEND)))
    await until(lambda: made.pending("mend"), clock=made.clock)
    made.mind.say("node-2", Answer("", (DIAGNOSIS, SLOW)))
    await made.approve("slow")
    await until(made.slow.begun.is_set, clock=made.clock)
    await made.approve("mend")
    yield made
    made.slow.go_on.set()
    working.cancel()
    await until(working.done, clock=made.clock)
    made.shop.close()


async def _others_turn(yard: _Asking) -> None:
    """Until ours has its permit, and does not run beside the other one."""

    def permitted() -> bool:
        yard.clock.advance(0.5)
        minted = yard.shop.entries(Kind.PERMIT_MINTED)
        return any(one.ticket == 1 for one in minted)

    await until(permitted)
    assert yard.shop.mend.calls == []


async def test_what_was_approved_waits_for_its_turn_and_nobody_is_asked_again(
    yard: _Asking,
) -> None:
    await _others_turn(yard)
    yard.slow.go_on.set()
    await until(lambda: yard.shop.mend.calls == ["node-1"], clock=yard.clock)
    assert len(yard.shop.entries(Kind.APPROVAL_REQUESTED)) == 2
    assert yard.shop.entries(Kind.REFUSED) == []


async def test_what_waits_while_the_policy_changes_is_thought_over_again(yard: _Asking) -> None:
    await _others_turn(yard)
    yard.shop.mode = Mode.OBSERVE
    yard.slow.go_on.set()
    await until(lambda: yard.mind.asked.count("node-1") == 2, clock=yard.clock)
    assert yard.shop.mend.calls == []


async def test_a_yes_that_expires_while_it_waits_lets_nothing_run(yard: _Asking) -> None:
    await _others_turn(yard)
    yard.clock.advance(PERMIT_S)
    await asyncio.sleep(0)
    yard.slow.go_on.set()
    await until(lambda: yard.mind.asked.count("node-1") == 2, clock=yard.clock)
    assert yard.shop.mend.calls == []


async def test_being_late_is_told_from_any_other_refusal() -> None:
    words = "another change of 'shop' is running"
    verdict = judge(Action.shell(f'touch "{words}"'), Policy(mode=Mode.OBSERVE))
    assert came_late(refused_as_busy(verdict, "Not now."))
    assert not came_late(verdict.refusal(f"The approval was rejected: I want {words}."))
