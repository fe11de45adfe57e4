"""What pages of requests to people promise: the same as the whole, a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from operator_protocols.domain.confirmation import ConfirmationState
from operator_protocols.domain.entry import Actor
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.errors import UsageError
from operator_sre.store.store import Store
from tests.contract.clock import NOON, HeldClock
from tests.contract.samples import approval, confirmation
from tests.contract.stores import Home

pytestmark = pytest.mark.asyncio
ADA = Actor("ada", "user")


def _all(page: Callable[..., Sequence[Any]], **wanted: Any) -> list[str]:
    found: list[str] = []
    while part := page(after=found[-1] if found else "", limit=2, **wanted):
        assert len(part) <= 2
        found += [one.id for one in part]
    return found


async def test_pages_are_the_whole_in_order(home: Home, clock: HeldClock) -> None:
    store = home.open()
    assert isinstance(store, Store)
    for name in ("e", "b", "d", "a", "c"):
        late = timedelta(seconds=10 if name == "d" else 900)
        await store.approvals.request(replace(approval(name), expires_at=NOON + late))
        await store.confirmations.request(replace(confirmation(name), expires_at=NOON + late))
    clock.advance(60.0)
    yes, no = ApprovalState.APPROVED, ConfirmationState.DECLINED
    await store.approvals.decide("b", yes, by=ADA, reason="", version=1)
    await store.confirmations.decide("b", no, by=ADA, reason="")
    for noun, state in ((store.approvals, ApprovalState), (store.confirmations, ConfirmationState)):
        assert _all(noun.page) == ["e", "b", "d", "a", "c"]
        pending: dict[str, Any] = {"states": [state("pending")]}
        assert _all(noun.page, **pending) == ["e", "d", "a", "c"]
        assert _all(noun.page, **pending, alive_at=clock.now()) == ["e", "a", "c"]
        # Whoever stood behind one that was answered meanwhile goes on there.
        assert [one.id for one in noun.page(**pending, after="b", limit=9)] == ["d", "a", "c"]
        with pytest.raises(UsageError, match="continue after"):
            noun.page(after="nosuch", limit=9)
    assert _all(store.approvals.page, newest=True) == ["c", "a", "d", "b", "e"]
    waiting = {"states": [ApprovalState.PENDING], "alive_at": clock.now()}
    assert _all(store.approvals.page, newest=True, **waiting) == ["c", "a", "e"]


async def test_a_yes_is_unsettled_until_it_is_known_what_became_of_it(home: Home) -> None:
    store = home.open()
    assert isinstance(store, Store)
    yes = ConfirmationState.APPROVED
    for name in ("one", "two", "three"):
        await store.confirmations.request(confirmation(name))
    for name in ("two", "three"):
        await store.confirmations.decide(name, yes, by=ADA, reason="")
    await store.confirmations.settle("two", applied=True, outcome="applied")
    assert [one.id for one in store.confirmations.find_unsettled()] == ["three"]
    # For whoever asks for a state, a settled yes is a yes as before.
    assert [one.id for one in store.confirmations.find(states=[yes])] == ["two", "three"]
    assert [one.id for one in store.confirmations.page(states=[yes], limit=9)] == ["two", "three"]
    assert [one.id for one in store.confirmations.newest(states=[yes], limit=1)] == ["three"]
    settled = store.confirmations.find("two", states=[yes])
    assert [(one.state, one.applied) for one in settled] == [(yes, True)]
