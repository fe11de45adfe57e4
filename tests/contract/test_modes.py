"""What Modes promise: the last word of a person about each subject, until it is taken back."""

from __future__ import annotations

import pytest

from operator_protocols.domain.entry import Kind
from operator_protocols.domain.limits import SubjectMode
from operator_protocols.domain.permit import ApprovalState
from operator_protocols.domain.verdict import Mode
from tests.contract.clock import HeldClock
from tests.contract.samples import approval
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio


async def test_the_last_word_counts_and_survives(home: Home, clock: HeldClock) -> None:
    ports = home.open()
    assert list(ports.modes.find()) == []
    await ports.modes.set("shop", Mode.EXECUTE, by="ada", reason="night")
    await ports.modes.set("shop", Mode.APPROVE, by="bob", reason="day")
    await ports.modes.set("bank", Mode.OBSERVE, by="ada", reason="")
    home.close()
    again = home.open()
    bank = SubjectMode("bank", Mode.OBSERVE, "ada", "", clock.now())
    shop = SubjectMode("shop", Mode.APPROVE, "bob", "day", clock.now())
    assert list(again.modes.find()) == [bank, shop]
    assert list(again.modes.find("shop")) == [shop]
    assert list(again.modes.find("nosuch")) == []


async def test_taking_it_back_leaves_nothing_but_the_record(ports: Ports) -> None:
    await ports.modes.set("shop", Mode.EXECUTE, by="ada", reason="")
    await ports.modes.reset("shop", by="bob", reason="enough")
    await ports.modes.reset("nosuch", by="bob", reason="")
    assert list(ports.modes.find()) == []
    told = ports.entries.after(0, limit=9)
    assert [(one.kind, one.actor.id) for one in told][:2] == [
        (Kind.MODE_SET, "ada"),
        (Kind.MODE_RESET, "bob"),
    ]


async def test_hostile_names_do_no_harm(ports: Ports) -> None:
    await ports.modes.set("'; DROP \x00", Mode.OBSERVE, by="\ud800", reason="\x00")
    (found,) = ports.modes.find()
    assert found.mode is Mode.OBSERVE


async def test_a_hold_sets_all_to_observe_and_cancels_what_waits(
    ports: Ports, clock: HeldClock
) -> None:
    waiting = await ports.approvals.request(approval("a1", at=clock.now()))
    await ports.modes.set("shop", Mode.EXECUTE, by="ada", reason="")
    cancelled = await ports.modes.hold(["shop", "bank"], by="bob", reason="enough")
    assert list(cancelled) == [waiting.id]
    modes = ports.modes.find()
    assert [(mode.subject, mode.mode, mode.reason) for mode in modes] == [
        ("bank", Mode.OBSERVE, "enough"),
        ("shop", Mode.OBSERVE, "enough"),
    ]
    stored = ports.approvals.get("a1")
    assert stored is not None
    assert stored.state is ApprovalState.CANCELLED
