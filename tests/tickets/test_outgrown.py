"""A ticket that grows behind the back of its proof: what was never seen to hold is no success."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from operator_protocols.domain.action import Result
from operator_protocols.domain.entry import Kind
from operator_protocols.domain.run import Answer, Escalate, Finish
from operator_protocols.domain.ticket import Ticket, TicketState
from operator_protocols.errors import ConflictError, ModelError
from tests.contract.samples import violation
from tests.contract.verified import verified
from tests.contract.workshop import DIAGNOSIS, MEND, Script, Workshop

pytestmark = pytest.mark.asyncio


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    """With a mind that mends node-1, says that it is over, and knows nothing of node-2."""
    done = Answer("over", (Finish("I have repaired it"),))
    handed = Answer("no", (Escalate("node-2"),))
    one = Workshop(tmp_path, Script(Answer("act", (DIAGNOSIS, MEND)), done, handed))
    yield one
    one.close()


class _Between:
    """What happens between a proof that held and the end of its run."""

    def __init__(self, shop: Workshop) -> None:
        self.shop = shop

    def note(self, ticket: Ticket, seq: int, what: str | Result) -> None:
        """Nothing to say."""

    async def finish(self, run: str) -> None:
        """It happens, once."""
        now = self.shop.store.tickets.get(1)
        assert now is not None
        if len(now.violations) == 1:
            await self.happen(now)

    async def happen(self, now: Ticket) -> None:
        """The monitor adds to the ticket."""
        await self.shop.store.tickets.grow(now, [violation("node-2", "up")])


class _Stopped(_Between):
    async def happen(self, now: Ticket) -> None:
        """Whoever works on it is stopped."""
        raise ModelError("stopped")


class _Taken(_Between):
    async def happen(self, now: Ticket) -> None:
        """It grows, and another worker has it by then."""
        await super().happen(now)
        self.shop.clock.advance(2e6)
        await self.shop.claim("quick")


@pytest.mark.parametrize("up", [True, False])
async def test_what_is_added_after_the_last_look_is_proven_or_worked_on_too(
    shop: Workshop, *, up: bool
) -> None:
    class Grown(_Between):
        async def happen(self, now: Ticket) -> None:
            shop.plant.up["node-2"] = up
            await super().happen(now)

    pipeline = replace(shop.pipeline(), summaries=Grown(shop))
    await pipeline.watch("shop")
    ended = await pipeline.work(await shop.claim())
    assert ended.state is (TicketState.RESOLVED if up else TicketState.ESCALATED)
    assert len(ended.violations) == 2
    assert shop.mend.calls == ["node-1"]
    assert [proof.payload["held"] for proof in shop.entries(Kind.PROOF)] == [True, up]
    assert len(shop.entries(Kind.RUN_FINISHED)) == len(shop.entries(Kind.RUN_STARTED)) == 1
    assert verified(shop.store.entries).whole


@pytest.mark.parametrize("grows", [True, False])
async def test_a_proof_from_before_an_interruption_covers_what_it_covered_then(
    shop: Workshop, *, grows: bool
) -> None:
    pipeline = shop.pipeline()
    await pipeline.watch("shop")
    claimed = await shop.claim()
    with pytest.raises(ModelError):
        await replace(pipeline, summaries=_Stopped(shop)).work(claimed)
    if grows:
        shop.plant.up["node-2"] = False
        await shop.store.tickets.grow(claimed, [violation("node-2", "up")])
    ended = await pipeline.work(claimed)
    assert ended.state is (TicketState.ESCALATED if grows else TicketState.RESOLVED)
    assert len(shop.entries(Kind.PROOF)) == (2 if grows else 1)
    assert shop.mend.calls == ["node-1"]


async def test_what_grew_and_changed_hands_is_left_to_whoever_has_it(shop: Workshop) -> None:
    pipeline = replace(shop.pipeline(), summaries=_Taken(shop))
    await pipeline.watch("shop")
    with pytest.raises(ConflictError):
        await pipeline.work(await shop.claim())
    assert [one.worker for one in shop.store.tickets.find()] == ["quick"]
    assert len(shop.entries(Kind.PROOF)) == 1
