"""What the gate says it would do is what it does, also for what belongs to no ticket."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from operator_protocols.domain.action import Action
from operator_protocols.domain.entry import Actor, Kind
from operator_protocols.domain.permit import Permit
from operator_protocols.domain.standing_rule import Likeness, Scope
from operator_protocols.domain.verdict import Mode, Risk
from operator_sre.gate import Course, Held, LocalPermissions, Way
from operator_sre.gate.authority import Role
from tests.gate.office import ACTION, LOOK, Office, crash

pytestmark = pytest.mark.asyncio

ADA = Actor("ada", "user", "ada@host:1")
BAD = Action("nobody_knows", {})
CASES = [
    (Mode.OBSERVE, LOOK, Way.RUNS),
    (Mode.OBSERVE, ACTION, Way.PROPOSES),
    (Mode.APPROVE, LOOK, Way.RUNS),
    (Mode.APPROVE, ACTION, Way.ASKS),
    (Mode.EXECUTE, ACTION, Way.ASKS),
    (Mode.EXECUTE, BAD, Way.NEVER),
]


async def _way(office: Office, action: Action) -> Way:
    """Which way it really goes."""
    gate = office.gate()
    work = gate.permit(gate.judge(action), None, ADA, subject="shop")
    asking = asyncio.ensure_future(work)
    asleep = asyncio.ensure_future(office.clock.asleep())
    await asyncio.wait([asking, asleep], return_when=asyncio.FIRST_COMPLETED)
    if not asking.done():
        await crash(asking)
        return Way.ASKS
    asleep.cancel()
    permit = asking.result()
    if isinstance(permit, Permit):
        return Way.RUNS
    return Way.PROPOSES if permit.stderr.startswith("Proposed only") else Way.NEVER


@pytest.mark.parametrize(("mode", "action", "way"), CASES)
async def test_what_is_foreseen_comes_true(
    office: Office, mode: Mode, action: Action, way: Way
) -> None:
    office.policy = replace(office.policy, mode=mode)
    gate = office.gate()
    course = gate.foresee(gate.judge(action), ADA, subject="shop")
    assert course.way is way
    assert office.kinds() == [], "foreseeing writes nothing"
    assert await _way(office, action) is way


async def test_whoever_may_not_ask_is_told_so_beforehand(office: Office) -> None:
    office.changed = replace(office.changed, permissions=LocalPermissions({"bob": Role.ADMIN}))
    gate = office.gate()
    course = gate.foresee(gate.judge(ACTION), ADA)
    assert (course.way, "viewer" in course.why) == (Way.NEVER, True)


async def test_what_holds_back_and_what_stands_are_foreseen(office: Office) -> None:
    gate = office.gate()
    verdict = gate.judge(ACTION)
    assert gate.foresee(verdict, ADA, Held(refuse="No.")) == Course(Way.HELD, "No.")
    assert gate.foresee(verdict, ADA, Held(ask="Late.")) == Course(Way.ASKS, "Late.")
    waiting = await office.asking()
    rule = office.standing.rule_of(
        office.asked(),
        Likeness.EXACT,
        Scope.EVERYWHERE,
        name="r",
        by="ada",
        at=office.clock.now(),
    )
    await crash(waiting)
    await office.store.standing.add(rule)
    course = gate.foresee(verdict, ADA)
    assert course.way is Way.RUNS
    assert course.rule is not None
    assert course.rule.id == "r"
    assert gate.foresee(verdict, ADA, Held(ask="Late.")).way is Way.ASKS


async def test_what_belongs_to_no_ticket_is_on_record_as_a_persons(office: Office) -> None:
    office.policy = replace(office.policy, mode=Mode.EXECUTE, auto=frozenset(Risk))
    gate = office.gate()
    permit = await gate.permit(gate.judge(ACTION), None, ADA, subject="shop")
    assert isinstance(permit, Permit)
    assert (permit.ticket, permit.run, permit.requester) == (None, "", ADA)
    (minted,) = office.entries(Kind.PERMIT_MINTED)
    assert (minted.ticket, minted.actor, minted.payload["subject"]) == (None, ADA, "shop")
