"""What the Switch promises: on is on for everybody, and no permit from before survives it."""

from __future__ import annotations

import asyncio

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor, Entry, Kind
from operator_protocols.domain.limits import SwitchState
from operator_protocols.domain.permit import ApprovalState, Permit
from operator_protocols.errors import ConflictError, PermitError
from tests.contract.clock import HeldClock
from tests.contract.doing import DONE, Doer
from tests.contract.samples import approval
from tests.contract.stores import Home, Ports

pytestmark = pytest.mark.asyncio


async def _permit(doer: Doer, command: str = "uptime") -> Permit:
    permit = await doer.gate.permit(doer.gate.judge(Action.shell(command)), doer.ticket)
    assert isinstance(permit, Permit)
    return permit


def _kinds(ports: Ports) -> list[Kind]:
    return [one.kind for one in ports.entries.after(0, limit=1000)]


async def test_a_new_switch_is_off(ports: Ports) -> None:
    assert ports.switch.state() == SwitchState()


async def test_how_it_stands_is_kept_with_who_when_and_why(home: Home, clock: HeldClock) -> None:
    ports = home.open()
    await ports.switch.turn_on(by="ada", reason="it deletes things")
    home.close()
    again = home.open()
    expected = SwitchState(True, 1, "ada", "it deletes things", clock.now())
    assert again.switch.state() == expected
    clock.advance(60.0)
    await again.switch.turn_off(by="bob", reason="it is fixed")
    assert again.switch.state() == SwitchState(False, 2, "bob", "it is fixed", clock.now())
    told = again.entries.after(0, limit=9)
    assert [(one.kind, one.actor.id) for one in told] == [
        (Kind.KILL_SWITCH_ON, "ada"),
        (Kind.KILL_SWITCH_OFF, "bob"),
    ]


async def test_turning_it_twice_is_harmless(ports: Ports) -> None:
    await ports.switch.turn_on(by="ada", reason="first")
    await ports.switch.turn_on(by="bob", reason="second")
    assert ports.switch.state().reason == "first"
    await ports.switch.turn_off(by="ada", reason="")
    await ports.switch.turn_off(by="ada", reason="")
    assert _kinds(ports) == [Kind.KILL_SWITCH_ON, Kind.KILL_SWITCH_OFF]


async def test_what_waits_for_a_person_is_cancelled_and_stays_so(ports: Ports) -> None:
    for name in ("a", "b", "c", "d"):
        await ports.approvals.request(approval(name))
    ada = Actor("ada", "user")
    await ports.approvals.decide("b", ApprovalState.REJECTED, by=ada, reason="", version=1)
    await ports.approvals.decide("c", ApprovalState.APPROVED, by=ada, reason="", version=1)
    assert list(await ports.switch.turn_on(by="ada", reason="")) == ["a", "c", "d"]
    states = {one.id: one.state for one in ports.approvals.find()}
    cancelled = ApprovalState.CANCELLED
    expected = dict.fromkeys("acd", cancelled) | {"b": ApprovalState.REJECTED}
    assert states == expected
    late = ports.approvals.get("a")
    assert late is not None
    with pytest.raises(ConflictError, match="already cancelled"):
        await ports.approvals.decide(
            "a", ApprovalState.APPROVED, by=ada, reason="", version=late.version
        )
    await ports.approvals.request(approval("e"))
    assert list(await ports.switch.turn_on(by="ada", reason="")) == ["e"]


async def test_nothing_begins_while_it_is_on(ports: Ports, clock: HeldClock) -> None:
    doer = await Doer.hired(ports, clock)
    permit = await _permit(doer)
    await ports.switch.turn_on(by="ada", reason="")
    with pytest.raises(PermitError, match="while the kill switch is on"):
        await ports.intents.begin(permit)
    with pytest.raises(PermitError, match="while the kill switch is on"):
        await ports.intents.begin(await _permit(doer))
    assert Kind.TOOL_CALL not in _kinds(ports)


async def test_a_permit_from_before_stays_void_when_it_is_off_again(
    home: Home, clock: HeldClock
) -> None:
    ports = home.open()
    doer = await Doer.hired(ports, clock)
    before = await _permit(doer)
    await ports.switch.turn_on(by="ada", reason="")
    meanwhile = await _permit(doer)
    await ports.switch.turn_off(by="ada", reason="")
    home.close()
    again = home.open()
    for permit in (before, meanwhile):
        with pytest.raises(PermitError, match="before the kill switch was turned"):
            await again.intents.begin(permit)
    fresh = Doer(again, clock, doer.ticket, policy=doer.gate.policy())
    await again.intents.begin(await _permit(fresh))


async def test_what_became_of_a_command_is_recorded_while_it_is_on(
    ports: Ports, clock: HeldClock
) -> None:
    doer = await Doer.hired(ports, clock)
    intent, _ = await doer.begin("uptime")
    await ports.switch.turn_on(by="ada", reason="")
    assert (await ports.intents.end(intent, DONE)).kind is Kind.TOOL_RESULT


async def test_of_a_begin_and_a_switch_at_once_the_ledger_tells_which_was_first(
    home: Home, clock: HeldClock
) -> None:
    one, other = home.open(), home.open()
    doer = await Doer.hired(one, clock)
    permits = [await _permit(doer) for _ in range(8)]
    outcomes = await asyncio.gather(
        *(one.intents.begin(permit) for permit in permits[:4]),
        other.switch.turn_on(by="ada", reason=""),
        *(one.intents.begin(permit) for permit in permits[4:]),
        return_exceptions=True,
    )
    began = [outcome.seq for outcome in outcomes if isinstance(outcome, Entry)]
    (on,) = [e.seq for e in one.entries.after(0, limit=99) if e.kind is Kind.KILL_SWITCH_ON]
    assert all(seq < on for seq in began)
    refused = [outcome for outcome in outcomes if isinstance(outcome, PermitError)]
    assert len(began) + len(refused) == len(permits)
