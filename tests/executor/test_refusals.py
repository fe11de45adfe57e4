"""What was not run is on record with its reason, and waiting for a turn has an end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from operator_protocols.domain.action import Action, Outcome, Result
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.limits import BUSY
from operator_protocols.domain.permit import Permit
from operator_sre.act import BUSY_S_MAX, RefusedBy, Request, WhenBusy, act
from operator_sre.controls import Controls
from tests.contract.workshop import MEND, Script, Workshop

pytestmark = pytest.mark.asyncio

ADA = Actor("ada", "user", "ada@here:1")


class _AlwaysBusy:
    """An executor that is never free, as long as the test does not look at its own watch."""

    def __init__(self, controls: Controls) -> None:
        self.tools, self.shell = controls.executor.tools, controls.executor.shell
        self.asked = 0

    async def execute(
        self, permit: Permit, *, watch: Callable[[int, bytes], None] | None = None
    ) -> tuple[Result, Entry | None]:
        self.asked += 1
        return Result(Outcome.REFUSED, stderr="another change runs", data={BUSY: True}), None


class _SlowTurns:
    """A subject whose turn comes after a while, every time."""

    def __init__(self, shop: Workshop, each_s: float) -> None:
        self._shop, self._each_s = shop, each_s

    async def free(self) -> bool:
        self._shop.clock.advance(self._each_s)
        return True


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    made = Workshop(tmp_path, Script())
    yield made
    made.close()


async def test_a_change_that_never_gets_its_turn_is_refused_after_the_longest_wait(
    shop: Workshop,
) -> None:
    shop.clock.advance(5_000.0)  # a machine that has been up for a while
    controls = shop.controls("shop")
    busy: Any = _AlwaysBusy(controls)
    turns: Any = _SlowTurns(shop, each_s=25.0)
    start_s = shop.clock.monotonic()
    record = await act(
        replace(controls, executor=busy, turns=turns),
        Request(MEND, subject="shop", requester=ADA, when_busy=WhenBusy.WAIT),
    )
    waited_s = shop.clock.monotonic() - start_s
    assert record.refused_by is RefusedBy.EXECUTOR
    assert BUSY_S_MAX <= waited_s < BUSY_S_MAX + 100.0
    assert record.waited_s == waited_s
    assert busy.asked > 1
    assert shop.mend.calls == []


async def test_a_refusal_names_its_ticket_its_run_its_risk_and_its_reason(shop: Workshop) -> None:
    pipeline = shop.pipeline()
    await pipeline.watch("shop")
    ticket = await shop.claim()
    screened = Request(MEND, ticket=ticket, screen=lambda verdict: verdict.refusal("not again"))
    record = await act(shop.controls("shop"), screened)
    (entry,) = shop.entries(Kind.REFUSED)
    assert (entry.seq, entry.ticket, entry.run) == (record.seq, ticket.id, ticket.run)
    told = entry.payload
    assert (told["action"]["tool"], told["risk"], told["level"]) == ("mend", "medium", "review")
    assert told["permit"] == ""
    assert "not again" in told["result"]["stderr"]


async def test_the_refusal_of_a_step_names_its_run(shop: Workshop) -> None:
    step = Request(Action.shell("rm -rf /"), subject="shop", requester=ADA, run="flow-1", epoch=3)
    record = await act(shop.controls("shop"), step)
    assert record.refused_by is RefusedBy.GATE
    (entry,) = shop.entries(Kind.REFUSED)
    assert (entry.ticket, entry.run, entry.actor) == (None, "flow-1", ADA)


async def test_the_permit_of_a_step_holds_the_claim_on_its_run(shop: Workshop) -> None:
    step = Request(MEND, subject="shop", requester=ADA, run="flow-1", epoch=3)
    record = await act(shop.controls("shop"), step)
    assert record.permit is not None
    assert (record.permit.run, record.permit.epoch) == ("flow-1", 3)
    (minted,) = shop.entries(Kind.PERMIT_MINTED)
    assert (minted.payload["epoch"], minted.payload["subject"]) == (3, "shop")
